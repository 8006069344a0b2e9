#include "packager/pipeline/check_lists.h"

#include <algorithm>
#include <set>

#include "base/problems.h"
#include "schema/pipeline/lines.h"

namespace mlc::pipeline {
namespace {

class Checker {
 public:
  Checker(const Pipeline& pipeline, const std::map<ValueId, KnownArray>& known, const std::map<std::string, std::vector<std::byte>>& assets)
      : pipeline_(pipeline), known_(known), assets_(assets) {}

  Status run() {
    for (const Step& step : pipeline_.steps) {
      if (const auto* top = std::get_if<TopK>(&step.what)) add(step, check(step, *top));
      if (const auto* ctc = std::get_if<CtcGreedy>(&step.what)) add(step, check(step, *ctc));
      if (const auto* names = std::get_if<NameBoxes>(&step.what)) add(step, check(step, *names));
      if (std::holds_alternative<Detokenize>(step.what)) add(step, check_ids(step));
      if (std::holds_alternative<TextBoxes>(step.what)) add(step, check_map(step));
      if (std::holds_alternative<JoinWindows>(step.what)) add(step, check_windows(step));
      if (const auto* cut = std::get_if<Cut>(&step.what)) add(step, check_parts(step, *cut));
    }
    return std::move(all_);
  }

 private:
  Status check(const Step& step, const TopK& what) {
    MLC_ASSIGN(const int64_t columns, columns_of(step, 1, SIZE_MAX, "[..., columns]"));
    MLC_RETURN_IF_ERROR(check_list(what.labels, columns, [&](size_t lines) { return check_labels(step.op, what.labels, what.label_offset, lines, columns); }));
    if (what.others.empty()) return ok();
    MLC_ASSIGN(const std::vector<std::string> labels, split_lines(assets_.at(what.labels), what.labels));
    const std::set<std::string_view> known(labels.begin(), labels.end());
    for (const auto& [label, unsure] : what.others)
      if (!known.count(label)) return Status(Code::Usage, 5003, "step 'top_k': 'unsure' names '" + label + "', which no line of '" + what.labels + "' is");
    return ok();
  }
  Status check(const Step& step, const CtcGreedy& what) {
    MLC_ASSIGN(const int64_t columns, columns_of(step, 2, 3, "[time, columns] or [batch, time, columns]"));
    return check_list(what.charset, columns, [&](size_t lines) { return check_charset(what, lines, columns); });
  }

  Status check(const Step& step, const NameBoxes& what) {
    const KnownArray& array = array_of(step);
    if (array.dtype != DType::F32 || array.shape.size() != 2 || array.shape[1].value_or(6) != 6)
      return misfit(step, "detections f32 [n, 6], which 'nms' makes", array);
    const int64_t classes = array.classes.value_or(-1);
    return check_list(what.labels, classes, [&](size_t lines) { return check_labels(step.op, what.labels, what.label_offset, lines, classes); });
  }

  Status check_ids(const Step& step) {
    const KnownArray& array = array_of(step);
    if (is_int(array.dtype) && bits_of(array.dtype) >= 8 && (array.shape.size() == 1 || array.shape.size() == 2)) return ok();
    return misfit(step, "integers [tokens] or [texts, tokens]", array);
  }

  Status check_windows(const Step& step) {
    const auto known = [&](size_t input) -> std::optional<KnownArray> {
      const ValueId id = step.in.at(input);
      if (pipeline_.value(id).is_tokens) return KnownArray{DType::I64, {std::nullopt, std::nullopt}};
      const auto found = known_.find(id);
      return found == known_.end() ? std::nullopt : std::optional(found->second);
    };
    const auto rows = known(0), texts = known(1);
    if (rows && (rows->dtype != DType::F32 || rows->shape.empty())) return misfit(step, "f32 [windows, ...]", *rows);
    if (texts && (texts->dtype != DType::I64 || texts->shape.size() != 1))
      return misfit(step, "the texts of windows i64 [windows], which 'tokenize' makes, as 'of'", *texts, 1);
    return ok();
  }

  // The map of one picture.
  Status check_map(const Step& step) {
    const auto known = known_.find(step.in.at(0));
    if (known == known_.end()) return ok();  // an array that the user gives
    const KnownArray& array = known->second;
    const size_t rank = array.shape.size();
    bool fits = array.dtype == DType::F32 && rank >= 2 && rank <= 4;
    for (size_t axis = 0; fits && axis + 2 < rank; ++axis) fits = array.shape[axis].value_or(1) == 1;
    return fits ? ok() : misfit(step, "f32 [height, width] or [1, 1, height, width]", array);
  }

  // Boxes, or the corners of quadrangles.
  Status check_parts(const Step& step, const Cut& cut) {
    const auto known = known_.find(step.in.at(1));
    if (known == known_.end()) return ok();  // an array that the user gives
    const KnownArray& array = known->second;
    const auto has = [&](size_t axis, int64_t extent) { return array.shape[axis].value_or(extent) == extent; };
    bool fits = array.dtype == DType::F32 && array.shape.size() == (cut.has_corners ? 3 : 2);
    fits = fits && (cut.has_corners ? has(1, 4) && has(2, 2) : array.shape[1].value_or(4) >= 4);
    return fits ? ok() : misfit(step, cut.has_corners ? "corners f32 [n, 4, 2]" : "boxes f32 [n, 4 or more]", array, 1);
  }

  const KnownArray& array_of(const Step& step) const { return known_.at(step.in.at(0)); }

  Status misfit(const Step& step, const std::string& expected, const KnownArray& array, size_t input = 0) const {
    std::string found = std::string(name_of(array.dtype)) + "[";
    for (size_t axis = 0; axis < array.shape.size(); ++axis) found += (axis ? ", " : "") + (array.shape[axis] ? std::to_string(*array.shape[axis]) : "?");
    return Status(Code::Usage, 5009, "step '" + step.op + "' takes " + expected + ", '" + pipeline_.value(step.in.at(input)).name + "' is " + found + "]");
  }

  template <class Fits>
  Status check_list(const std::string& name, int64_t columns, const Fits& fits) {
    if (name.empty()) return ok();
    MLC_ASSIGN(const std::vector<std::string> lines, split_lines(assets_.at(name), name));
    return columns < 0 ? ok() : fits(lines.size());
  }

  // Columns of the array that a step takes, -1 where the input decides.
  Result<int64_t> columns_of(const Step& step, size_t least, size_t most, const char* expected) {
    const KnownArray& array = array_of(step);
    if (!is_float(array.dtype) || array.shape.size() < least || array.shape.size() > most) return misfit(step, std::string("floats ") + expected, array);
    return array.shape.back().value_or(-1);
  }

  void add(const Step& step, Status problem) {
    problem.message = place_of(pipeline_, step.where) + problem.message;
    add_problem(all_, std::move(problem));
  }

  const Pipeline& pipeline_;
  const std::map<ValueId, KnownArray>& known_;
  const std::map<std::string, std::vector<std::byte>>& assets_;
  Status all_;
};

}  // namespace

Status check_lists(const Pipeline& pipeline, const ExpandedPipeline& expanded, const std::map<std::string, std::vector<std::byte>>& assets) {
  Status problems;
  for (const Pipeline* each : with_bodies(pipeline))
    if (const auto known = expanded.known.find(each); known != expanded.known.end()) add_problem(problems, Checker(*each, known->second, assets).run());
  return problems;
}

}  // namespace mlc::pipeline
