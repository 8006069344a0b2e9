#include "packager/compile/golden/value_bounds.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "packager/compile/golden/value_ranges.h"
#include "packager/ir/evaluate.h"
#include "packager/ir/numeric.h"

namespace mlc::compile {

using ir::Expr;
using ir::Op;

namespace {

// An expression that addresses an element which may not be there.
struct Index {
  const Expr* at = nullptr;
  size_t axis = 0;
  uint32_t array = 0;
};

// One part of the function and its bodies, in the order of a run. Arrays have numbers over all functions.
struct Step {
  enum class Kind : uint8_t { Compute, Read, Same, Count };
  Kind kind = Kind::Compute;
  size_t frame = 0;
  const nest::Statement* statement = nullptr;
  size_t from = 0, to = 0;  // Same: `to` is, or begins as, `from`; Count: `to` runs up to `from`
  bool is_needed = false;
  std::vector<Index> indices = {};
};

bool is_checked(const Expr* e) { return e->op == Op::Load && e->access == ir::Access::Checked; }

template <class Visit>
void each_expression(const nest::Nest& nest, const Visit& visit) {
  if (nest.where) visit(nest.where);
  for (const nest::Write& write : nest.writes) {
    visit(write.value);
    for (const Expr* e : write.index) visit(e);
  }
}

std::vector<Index> indices_of(const nest::Nest& nest) {
  std::vector<Index> all;
  std::unordered_set<const Expr*> seen;
  each_expression(nest, [&](const Expr* root) {
    ir::walk(root, [&](const Expr* e) {
      if (!is_checked(e) || !seen.insert(e).second) return;
      for (size_t axis = 0; axis < e->args.size(); ++axis) all.push_back({e->args[axis], axis, e->array});
    });
  });
  for (const nest::Write& write : nest.writes)
    for (size_t axis = 0; write.push && axis < write.index.size(); ++axis) all.push_back({write.index[axis], axis, write.array});
  return all;
}

Range range_of_data(const nest::Array& array) {
  const size_t width = bytes_of(array.dtype);
  if (!array.data || width == 0 || array.data->bytes.empty()) return {};
  Range all = {HUGE_VAL, -HUGE_VAL};
  for (size_t k = 0; k < array.data->bytes.size() / width; ++k) {
    const ir::Scalar s = ir::load_element(array.dtype, array.data->bytes.data(), k);
    const double v = is_float(array.dtype) ? s.f : static_cast<double>(s.i);
    if (std::isnan(v)) return {};
    all = all.joined({v, v});
  }
  return all;
}

}  // namespace

struct IndexAnalysis::Steps {
  struct Frame {
    const nest::Function* function;
    size_t first;  // number of its first array
    std::vector<ir::ExtentEvaluator> definitions, conditions;  // in their order
  };
  mutable std::vector<Frame> frames;  // evaluators keep their values
  std::vector<Step> all;
  size_t num_arrays = 0;
  std::map<size_t, Range> constants;  // of those that are needed

  std::map<size_t, size_t> joined_axis;  // of arrays that are put together along it from parts of one element

  explicit Steps(const nest::Function& function) {
    add(function);
    find_joined();
    mark_needed();
  }

  const nest::Array& array(size_t frame, uint32_t number) const { return frames[frame].function->arrays[number]; }

  // Bodies nest as deep as the importer allows, which is not deep.
  size_t add(const nest::Function& function) {
    const size_t frame = frames.size();
    Frame& added = frames.emplace_back(Frame{&function, num_arrays, {}, {}});
    for (const auto& definition : function.definitions) added.definitions.emplace_back(definition.value);
    for (const auto& check : function.checks) added.conditions.emplace_back(check.condition);
    num_arrays += function.arrays.size();
    for (const nest::Statement& s : function.body) {
      if (s.nest) all.push_back({Step::Kind::Compute, frame, &s});
      if (s.control && s.control->kind == StepOp::Read) all.push_back({Step::Kind::Read, frame, &s});
      if (s.control && s.control->kind == StepOp::Branch) add_branch(frame, *s.control);
      if (s.control && s.control->kind == StepOp::Loop) add_loop(frame, *s.control);
    }
    return frame;
  }
  void same(size_t from_frame, uint32_t from, size_t to_frame, uint32_t to) {
    if (from == nest::kNoArray || to == nest::kNoArray) return;
    all.push_back({Step::Kind::Same, to_frame, nullptr, frames[from_frame].first + from, frames[to_frame].first + to});
  }
  // Inputs of a body must be known before its statements, whose steps `add` appends: they are moved to the front.
  size_t add_body(size_t frame, const nest::Control& c, const nest::Function& body, size_t skipped_inputs, size_t skipped_given) {
    const size_t before = all.size();
    const size_t inside = add(body);
    const size_t behind = all.size();
    for (size_t k = skipped_inputs; k < body.inputs.size() && k - skipped_inputs + skipped_given < c.inputs.size(); ++k)
      same(frame, c.inputs[k - skipped_inputs + skipped_given], inside, body.inputs[k]);
    std::rotate(all.begin() + static_cast<ptrdiff_t>(before), all.begin() + static_cast<ptrdiff_t>(behind), all.end());
    return inside;
  }
  void add_branch(size_t frame, const nest::Control& c) {
    for (const auto& body : c.bodies) {
      const size_t inside = add_body(frame, c, *body, 0, 1);
      for (size_t k = 0; k < body->outputs.size() && k < c.outputs.size(); ++k) same(inside, body->outputs[k], frame, c.outputs[k]);
    }
  }
  void add_loop(size_t frame, const nest::Control& c) {
    const size_t before = all.size();
    const nest::Function& body = *c.bodies[0];
    const size_t inside = add_body(frame, c, body, 2, 2);
    for (size_t k = 0; k + 1 < body.outputs.size() && k < c.outputs.size(); ++k) same(inside, body.outputs[k + 1], frame, c.outputs[k]);
    if (c.inputs[0] == nest::kNoArray || body.inputs.empty()) return;
    const Step count = {Step::Kind::Count, inside, nullptr, frames[frame].first + c.inputs[0], frames[inside].first + body.inputs[0]};
    all.insert(all.begin() + static_cast<ptrdiff_t>(before), count);
    for (size_t k = 0; k < c.carried && k + 2 < body.inputs.size(); ++k) carried.insert(frames[inside].first + body.inputs[k + 2]);
  }

  void find_joined() {
    std::map<size_t, std::vector<const std::vector<const Expr*>*>> writes;
    for (const Step& step : all)
      if (step.kind == Step::Kind::Compute)
        for (const nest::Write& write : step.statement->nest->writes) writes[frames[step.frame].first + write.array].push_back(&write.index);
    for (const auto& [number, indices] : writes) {
      if (indices.size() < 2) continue;
      for (size_t axis = 0; axis < indices[0]->size(); ++axis)
        if (std::all_of(indices.begin(), indices.end(), [&](const auto* index) { return (*index)[axis]->is_const(); })) joined_axis[number] = axis;
    }
  }
  Place place(size_t frame, uint32_t array, const std::vector<const Expr*>& index) const {
    const auto joined = joined_axis.find(frames[frame].first + array);
    if (joined == joined_axis.end() || !index[joined->second]->is_const()) return {array, Place::kWhole};
    return {array, index[joined->second]->i};
  }

  // Backwards from what is an index, or read as a size.
  void mark_needed() {
    std::unordered_set<size_t> arrays;
    const auto need_loads = [&](size_t frame, const Expr* e) {
      ir::walk(e, [&](const Expr* x) {
        if (x->op == Op::Load) arrays.insert(frames[frame].first + x->array);
      });
    };
    for (size_t k = all.size(); k-- > 0;) {
      Step& step = all[k];
      if (step.kind == Step::Kind::Same || step.kind == Step::Kind::Count) {
        step.is_needed = arrays.count(step.to) > 0;
        if (step.is_needed) arrays.insert(step.from);
      } else if (step.kind == Step::Kind::Read) {
        step.is_needed = true;
        for (uint32_t input : step.statement->control->inputs) arrays.insert(frames[step.frame].first + input);
      } else {
        const nest::Nest& nest = *step.statement->nest;
        step.indices = indices_of(nest);
        step.is_needed = !step.indices.empty();
        for (const Index& index : step.indices) need_loads(step.frame, index.at);
        for (const nest::Write& write : nest.writes)
          if (arrays.count(frames[step.frame].first + write.array)) {
            step.is_needed = true;
            need_loads(step.frame, write.value);
          }
      }
    }
    for (const Frame& frame : frames)
      for (size_t k = 0; k < frame.function->arrays.size(); ++k)
        if (frame.function->arrays[k].kind == nest::Array::Kind::Const && arrays.count(frame.first + k))
          constants[frame.first + k] = range_of_data(frame.function->arrays[k]);
  }

  std::unordered_set<size_t> carried;  // values that a loop changes: not followed
};

namespace {

// The intervals of all arrays for one choice of extents, and then the demands.
template <class Steps>
class Solver {
 public:
  Solver(const Steps& steps, const std::map<const ir::Sym*, int64_t>& symbols) : steps_(steps), symbols_(symbols), ranges_(steps.num_arrays) {
    known_.of_sym = [this](const ir::Sym* sym) { return range_of(sym); };
  }

  ValueBounds run() {
    start();
    for (const Step& step : steps_.all)
      if (step.is_needed) forward(step);
    check_conditions();
    for (size_t k = steps_.all.size(); k-- > 0;)
      if (steps_.all[k].is_needed) backward(steps_.all[k]);
    const auto& main = steps_.frames[0];
    for (uint32_t input : main.function->inputs)
      if (const auto found = demands_.find({main.first + input, Place::kWhole}); found != demands_.end()) out_.inputs[input] = found->second;
    return std::move(out_);
  }

 private:
  void start() {
    for (size_t frame = 0; frame < steps_.frames.size(); ++frame) {
      auto& [function, first, definitions, conditions] = steps_.frames[frame];
      for (size_t k = 0; k < definitions.size(); ++k) {
        const auto value = definitions[k]([&](const ir::Sym* sym) { return value_of(sym); });
        if (value) defined_[function->definitions[k].sym] = *value;
      }
      for (uint32_t input : function->inputs) set(first + input, {range_of_type(function->arrays[input].dtype), true});
    }
    for (const auto& [number, range] : steps_.constants) set(number, {range, false});
  }
  void set(size_t number, ValueRange v) { ranges_[number] = v; }

  std::optional<int64_t> value_of(const ir::Sym* sym) const {
    if (const auto found = symbols_.find(sym); found != symbols_.end()) return found->second;
    if (const auto found = defined_.find(sym); found != defined_.end()) return found->second;
    return std::nullopt;
  }
  ValueRange range_of(const ir::Sym* sym) const {
    if (const auto value = value_of(sym)) return {{static_cast<double>(*value), static_cast<double>(*value)}, false};
    if (const auto found = read_.find(sym); found != read_.end()) return found->second;
    return {{static_cast<double>(sym->lo), static_cast<double>(sym->hi)}, true};
  }

  // Runs `work` with the intervals as the statements of a frame see them.
  template <class Work>
  void in_frame(size_t frame, const Work& work) {
    const size_t first = steps_.frames[frame].first;
    known_.place = [this, frame](const Expr* load) { return steps_.place(frame, load->array, {load->args.begin(), load->args.end()}); };
    known_.of_place = [this, frame, first](const Place& place) {
      if (const auto part = parts_.find({first + place.array, place.part}); part != parts_.end()) return part->second;
      return ranges_[first + place.array].value_or(ValueRange{range_of_type(steps_.array(frame, place.array).dtype), true});
    };
    Ranges ranges(known_);
    work(ranges, first);
  }

  static double points(Ranges& ranges, const std::vector<const ir::Dim*>& dims) {
    double n = 1;
    for (const ir::Dim* dim : dims) n *= std::max(0.0, ranges.of(dim->extent).range.hi);
    return n;
  }

  void forward(const Step& step) {
    if (step.kind == Step::Kind::Same) {
      if (steps_.carried.count(step.to)) return;
      const ValueRange from = ranges_[step.from].value_or(ValueRange{{}, true});
      const bool is_first = !merged_.count(step.to);
      merged_.insert(step.to);
      if (is_first) return set(step.to, from);
      return set(step.to, {ranges_[step.to]->range.joined(from.range), ranges_[step.to]->is_free || from.is_free});
    }
    if (step.kind == Step::Kind::Count) {
      const ValueRange trips = ranges_[step.from].value_or(ValueRange{{}, true});
      return set(step.to, {{0, std::max(0.0, trips.range.hi - 1)}, trips.is_free});
    }
    if (step.kind == Step::Kind::Read) {
      const nest::Control& c = *step.statement->control;
      const ValueRange from = ranges_[steps_.frames[step.frame].first + c.inputs[0]].value_or(ValueRange{{}, true});
      for (const ir::Sym* sym : c.symbols) read_[sym] = {from.range.within({static_cast<double>(sym->lo), static_cast<double>(sym->hi)}), from.is_free};
      known_.extents.clear();
      return;
    }
    compute(step);
  }

  void compute(const Step& step) {
    const nest::Nest& nest = *step.statement->nest;
    in_frame(step.frame, [&](Ranges& ranges, size_t first) {
      for (const nest::Write& write : nest.writes) {
        ValueRange value = ranges.of(write.value);
        if (nest.scan_dim) value.range = range_of_join(nest.scan_combiner->join, value.range, std::max(0.0, ranges.of(nest.scan_dim->extent).range.hi));
        if (write.push && write.join != ir::Join::Last) value = {range_of_type(steps_.array(step.frame, write.array).dtype), true};
        if (const Place place = steps_.place(step.frame, write.array, write.index); place.part != Place::kWhole) parts_[{first + write.array, place.part}] = value;
        const auto& before = ranges_[first + write.array];
        // What no statement writes is 0.
        if (before) value = {before->range.joined(value.range), before->is_free || value.is_free};
        set(first + write.array, value);
      }
    });
  }

  void check_conditions() {
    for (auto& frame : steps_.frames)
      for (size_t k = 0; k < frame.conditions.size(); ++k) {
        const auto holds = frame.conditions[k]([&](const ir::Sym* sym) { return value_of(sym); });
        if (holds && *holds == 0) conflict(1, frame.function->checks[k].message);
      }
  }
  void conflict(double excess, std::string what) {
    if (out_.num_conflicts++ == 0) out_.first_conflict = std::move(what);
    out_.excess += std::min(std::max(excess, 1.0), 1e15);
  }

  void backward(const Step& step) {
    if (step.kind == Step::Kind::Compute) return demand(step);
    if (step.kind == Step::Kind::Read) {
      const nest::Control& c = *step.statement->control;
      for (const ir::Sym* sym : c.symbols)
        if (sym->hi < INT64_MAX) add(steps_.frames[step.frame].first + c.inputs[0], {{static_cast<double>(sym->lo), static_cast<double>(sym->hi)}, false});
      return;
    }
    const auto found = demands_.find({step.to, Place::kWhole});
    if (found == demands_.end()) return;
    if (step.kind == Step::Kind::Same) add(step.from, found->second);
    else if (std::isfinite(found->second.range.hi)) add(step.from, {{-HUGE_VAL, found->second.range.hi + 1}, false});
  }
  bool add(size_t number, const InputBounds& more, int64_t part = Place::kWhole) {
    InputBounds& bounds = demands_[{number, part}];
    const Range both = bounds.range.within(more.range);
    if (both.is_empty()) return false;
    bounds = {both, bounds.is_summed || more.is_summed};
    return true;
  }

  void demand(const Step& step) {
    const nest::Nest& nest = *step.statement->nest;
    in_frame(step.frame, [&](Ranges& ranges, size_t first) {
      if (!(points(ranges, nest.dims) > 0)) return;
      const auto take = [&](Ranges::Demands&& more) {
        for (const auto& [place, bounds] : more)
          if (!add(first + place.array, bounds, place.part)) return false;
        return true;
      };
      for (const Index& index : step.indices) {
        const double extent = ranges.of(steps_.array(step.frame, index.array).shape[index.axis]).range.hi;
        Ranges::Demands more;
        if (!ranges.demand(index.at, {0, extent - 1}, more) || !take(std::move(more))) clash(step, ranges, index, extent);
      }
      for (const nest::Write& write : nest.writes) {
        const auto wanted = demand_of(step.frame, write);
        if (!wanted || (write.push && write.join != ir::Join::Last)) continue;
        InputBounds result = *wanted;
        if (nest.scan_dim && nest.scan_combiner->join == ir::Join::Sum) {
          const double n = std::max(1.0, ranges.of(nest.scan_dim->extent).range.hi);
          result = {{result.range.lo / n, result.range.hi / n}, true};
        }
        Ranges::Demands more;
        if (ranges.demand(write.value, result.range, more, result.is_summed)) take(std::move(more));
        else if (const Range have = ranges.of(write.value).range; !nest.scan_dim) conflict(std::max(have.hi - result.range.hi, result.range.lo - have.lo), step.statement->source);
      }
    });
  }

  // What is demanded of the elements that this writes.
  std::optional<InputBounds> demand_of(size_t frame, const nest::Write& write) const {
    std::optional<InputBounds> all;
    const Place place = steps_.place(frame, write.array, write.index);
    for (const int64_t part : {Place::kWhole, place.part}) {
      const auto found = demands_.find({steps_.frames[frame].first + write.array, part});
      if (found == demands_.end()) continue;
      all = all ? InputBounds{all->range.within(found->second.range), all->is_summed || found->second.is_summed} : found->second;
    }
    return all;
  }

  void clash(const Step& step, Ranges& ranges, const Index& index, double extent) {
    const Range have = ranges.of(index.at).range;
    const Expr* shape = steps_.array(step.frame, index.array).shape[index.axis];
    if (out_.num_conflicts == 0 && shape->op == Op::Sym && have.hi >= extent && have.hi < 1e9) {
      out_.wanted = shape->sym;
      out_.wanted_value = static_cast<int64_t>(have.hi) + 1;
    }
    conflict(std::max(have.hi - (extent - 1), -have.lo), step.statement->source);
  }

  const Steps& steps_;
  const std::map<const ir::Sym*, int64_t>& symbols_;
  std::map<const ir::Sym*, int64_t> defined_;
  std::map<const ir::Sym*, ValueRange> read_;
  std::vector<std::optional<ValueRange>> ranges_;
  std::unordered_set<size_t> merged_;
  std::map<std::pair<size_t, int64_t>, ValueRange> parts_;     // of arrays that are put together; by number and part
  std::map<std::pair<size_t, int64_t>, InputBounds> demands_;  // likewise, or of whole arrays
  Ranges::Known known_;
  ValueBounds out_;
};

}  // namespace

IndexAnalysis::IndexAnalysis(const nest::Function& function) : steps_(std::make_unique<const Steps>(function)) {}
IndexAnalysis::~IndexAnalysis() = default;

std::vector<const ir::Sym*> IndexAnalysis::addressed() const {
  std::vector<const ir::Sym*> all;
  for (const Step& step : steps_->all)
    for (const Index& index : step.indices) {
      const Expr* extent = steps_->array(step.frame, index.array).shape[index.axis];
      bool reads = false;
      ir::walk(index.at, [&](const Expr* e) { reads = reads || e->op == Op::Load; });
      if (reads && extent->op == Op::Sym) all.push_back(extent->sym);
    }
  return all;
}

double IndexAnalysis::work() const {
  constexpr double kOfStep = 5e3;
  return kOfStep * static_cast<double>(steps_->all.size() + 1);
}

ValueBounds IndexAnalysis::bounds(const std::map<const ir::Sym*, int64_t>& symbols) const { return Solver<Steps>(*steps_, symbols).run(); }

}  // namespace mlc::compile
