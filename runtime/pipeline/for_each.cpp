// Steps for each item of a list: item by item, or, behind `batch`, for as many at a time as are alike.
#include <algorithm>
#include <utility>

#include "runtime/pipeline/pipeline_run.h"

namespace mlc::pipeline {
namespace {

// One result of the step: what came of each item, one row for each.
class Rows {
 public:
  explicit Rows(std::string name) : name_(std::move(name)) {}

  // What `items` items gave.
  Status add(RunValue value, size_t items) {
    if (auto* text = std::get_if<Text>(&value)) return add_rows(text->lines, text_.lines, items);
    if (auto* classes = std::get_if<Classes>(&value)) return add_rows(classes->rows, classes_.rows, items);
    auto* t = std::get_if<HostTensor>(&value);
    if (!t || t->dtype == DType::Str) return Status(Code::Internal, "'{}' cannot be put together", name_);
    if (t->shape.empty() || static_cast<uint64_t>(t->shape[0]) != items)
      return Status(Code::InputMismatch, 4001, "'{}' is {}, and {} items give {} rows", name_, type_text(t->dtype, t->shape), items, items);
    const bool is_alike = tensors_.empty() || (tensors_[0].dtype == t->dtype && std::equal(tensors_[0].shape.begin() + 1, tensors_[0].shape.end(),
                                                                                          t->shape.begin() + 1, t->shape.end()));
    if (!is_alike)
      return Status(Code::InputMismatch, 4001, "'{}' is {} for one item and {} for another; arrays of all items have one shape", name_,
                    type_text(tensors_[0].dtype, tensors_[0].shape), type_text(t->dtype, t->shape));
    tensors_.push_back(std::move(*t));
    return ok();
  }

  // `none`: the array of no rows, asked for where there was no item.
  template <class None>
  Result<RunValue> take(ValueKind kind, AnswerBudget& budget, const None& none) && {
    if (kind == ValueKind::Text) return RunValue(std::move(text_));
    if (kind == ValueKind::Classes) return RunValue(std::move(classes_));
    if (tensors_.empty()) {
      MLC_ASSIGN(HostTensor empty, none());
      return RunValue(std::move(empty));
    }
    if (tensors_.size() == 1) return RunValue(std::move(tensors_[0]));
    MLC_ASSIGN(HostTensor all, stacked(tensors_, budget, name_));
    return RunValue(std::move(all));
  }

  // Rows of tensors that are alike behind their first axis, one behind the other.
  static Result<HostTensor> stacked(const Tensors& tensors, AnswerBudget& budget, const std::string& name) {
    std::vector<int64_t> shape = tensors[0].shape;
    uint64_t bytes = 0;
    shape[0] = 0;
    for (const HostTensor& t : tensors) shape[0] += t.shape[0], bytes += t.data.size();
    MLC_RETURN_IF_ERROR(budget.take(bytes, name));
    MLC_ASSIGN(HostTensor all, HostTensor::zeros(tensors[0].dtype, std::move(shape)));
    std::byte* at = all.data.data();
    for (const HostTensor& t : tensors) at = std::copy_n(t.data.data(), t.data.size(), at);
    return all;
  }

 private:
  template <class Row>
  Status add_rows(std::vector<Row>& from, std::vector<Row>& to, size_t items) {
    if (from.size() != items) return Status(Code::InputMismatch, 4001, "'{}' has {} rows for {} items", name_, from.size(), items);
    std::move(from.begin(), from.end(), std::back_inserter(to));
    return ok();
  }

  std::string name_;
  Text text_;
  Classes classes_;
  Tensors tensors_;
};

class Items {
 public:
  Items(const ForEach& each, const std::vector<Tensors>& lists, const RunContext& context)
      : each_(each), body_(*each.body), lists_(lists), context_(context), sections_(sections(body_)) {
    for (const ValueId id : each.results) rows_.emplace_back(body_.value(id).name);
    for (const Step& step : body_.steps)
      if (std::holds_alternative<Batch>(step.what)) batch_ = &step;
    is_batched_.assign(body_.values.size(), false);
    for (const Section& section : sections_)
      for (const uint32_t k : section.steps)
        for (const ValueId id : body_.steps[k].out) is_batched_[id] = section.is_batched;
  }

  Result<std::vector<RunValue>> run() {
    const size_t count = lists_[0].size();
    for (const Tensors& list : lists_)
      if (list.size() != count) return Status(Code::InputMismatch, 4001, "lists of {} and of {} items", count, list.size());
    for (size_t item = 0; item < count; ++item) MLC_RETURN_IF_ERROR(add_item(item));
    if (!waiting_.empty()) MLC_RETURN_IF_ERROR(run_batch());
    std::vector<RunValue> results;
    for (size_t k = 0; k < rows_.size(); ++k) {
      const ValueId id = each_.results[k];
      MLC_ASSIGN(RunValue result, std::move(rows_[k]).take(body_.value(id).kind, context_.budget, [&] { return no_rows(id); }));
      results.push_back(std::move(result));
    }
    return results;
  }

 private:
  Status add_item(size_t item) {
    PipelineRun run(body_, context_);
    for (size_t k = 0; k < lists_.size(); ++k) {
      const HostTensor& from = lists_[k][item];
      MLC_ASSIGN(HostTensor view, HostTensor::view(from.dtype, from.shape, const_cast<std::byte*>(from.data.data()), from.data.size()));
      run.set(body_.inputs[k], std::move(view));
    }
    for (const Section& section : sections_)
      if (!section.is_batched) MLC_RETURN_IF_ERROR(run.section(section, /*keeps=*/true));
    MLC_RETURN_IF_ERROR(take_results(run, /*batched=*/false, 1));
    return batch_ ? add_to_batch(run) : ok();
  }

  Status take_results(PipelineRun& run, bool batched, size_t items) {
    for (size_t k = 0; k < rows_.size(); ++k) {
      if (is_batched_[each_.results[k]] != batched) continue;
      MLC_ASSIGN(RunValue value, run.take(each_.results[k]));
      MLC_RETURN_IF_ERROR(rows_[k].add(std::move(value), items));
    }
    return ok();
  }

  // An item that is not like those before it begins a batch of its own.
  Status add_to_batch(PipelineRun& run) {
    uint64_t paid = 0;
    MLC_ASSIGN(RunValue value, run.take(batch_->in[0], &paid));
    auto* t = std::get_if<HostTensor>(&value);
    if (!t || t->shape.empty() || t->shape[0] != 1)
      return Status(Code::InputMismatch, 4001, "step 'batch' takes one row of each item, [1, ...], and '{}' is {}", body_.value(batch_->in[0]).name,
                    t ? type_text(t->dtype, t->shape) : "no array");
    if (!waiting_.empty() && (waiting_[0].dtype != t->dtype || waiting_[0].shape != t->shape)) MLC_RETURN_IF_ERROR(run_batch());
    waiting_.push_back(std::move(*t));
    waiting_paid_ += paid;
    return static_cast<int64_t>(waiting_.size()) < std::get<Batch>(batch_->what).most ? ok() : run_batch();
  }

  Status run_batch() {
    const size_t items = waiting_.size();
    PipelineRun run(body_, context_);
    MLC_ASSIGN(HostTensor all, Rows::stacked(waiting_, context_.budget, body_.value(batch_->out[0]).name));
    waiting_.clear();
    context_.budget.give_back(std::exchange(waiting_paid_, 0));
    const uint64_t bytes = all.data.size();
    run.set(batch_->out[0], std::move(all));
    for (const Section& section : sections_) {
      const bool is_batch = section.steps.size() == 1 && &body_.steps[section.steps[0]] == batch_;
      if (section.is_batched && !is_batch) MLC_RETURN_IF_ERROR(run.section(section, /*keeps=*/true));
    }
    MLC_RETURN_IF_ERROR(take_results(run, /*batched=*/true, items));
    if (!gives_batch()) context_.budget.give_back(bytes);
    return ok();
  }

  // The batch itself is a result of the steps.
  bool gives_batch() const { return std::find(each_.results.begin(), each_.results.end(), batch_->out[0]) != each_.results.end(); }

  Result<HostTensor> no_rows(ValueId id) const {
    for (const Section& section : sections_)
      if (section.is_array && std::find(section.out.begin(), section.out.end(), id) != section.out.end())
        return context_.programs.no_rows(section.program, body_.value(id).name);
    return Status(Code::Internal, "no program makes '{}'", body_.value(id).name);
  }

  const ForEach& each_;
  const Pipeline& body_;
  const std::vector<Tensors>& lists_;
  const RunContext context_;
  const std::vector<Section> sections_;
  const Step* batch_ = nullptr;
  std::vector<bool> is_batched_;  // of each value
  std::vector<Rows> rows_;        // of each result
  Tensors waiting_;               // for a batch
  uint64_t waiting_paid_ = 0;     // for them
};

}  // namespace

Result<std::vector<RunValue>> run_for_each(const ForEach& each, const std::vector<Tensors>& lists, const RunContext& context) {
  return Items(each, lists, context).run();
}

}  // namespace mlc::pipeline
