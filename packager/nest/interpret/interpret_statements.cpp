#include <algorithm>
#include <bit>

#include "base/run_on_threads.h"
#include "packager/nest/block/block.h"
#include "packager/nest/interpret/interpreter.h"
#include "packager/nest/proc.h"

namespace mlc::nest {

using ir::Scalar;

namespace {

// What targets compute differently, as a share of InterpretOptions::jitter: sums in another order, functions to some units in the last place
// (ops/math.mlop). A function that saturates hides by how much its argument moves, and is off by its own error all the same.
double jitter_of(const ir::Expr* value) {
  constexpr double kSums = 1, kFunctions = 0.25;
  double share = 0;
  ir::walk(value, [&](const ir::Expr* e) {
    if (!is_float(e->type.dtype)) return;
    if (e->op == ir::Op::Fold && e->fold->combiner->join == ir::Join::Sum) share = kSums;
    else if ((e->op >= ir::Op::Exp && e->op <= ir::Op::Erf) || e->op == ir::Op::Pow) share = std::max(share, kFunctions);
  });
  return share;
}

}  // namespace

Status Interpreter::nest(const Statement& s) {
  for (const Write& w : s.nest->writes) MLC_RETURN_IF_ERROR(allocate(w.array));
  if (s.nest->scan_dim) return scan(s);
  if (options_.point_by_point) {
    points(*s.nest);
    return failed(s.source);
  }
  MLC_ASSIGN(const std::vector<BlockProgram> programs, compile_block(s, evaluator_));
  for (const BlockProgram& program : programs)
    if (!spend(work_of(program))) return too_late(s.source);
  unsigned threads = number_of_threads(options_.threads);
  for (const BlockProgram& program : programs)
    if (!evaluator_.fault.failed) run_block(program, arrays_, function_, threads, evaluator_.fault);
  if (options_.jitter != 0)
    for (const Write& w : s.nest->writes)
      if (const double share = jitter_of(w.value); share > 0) shake(arrays_[w.array], share * options_.jitter);
  return failed(s.source);
}

void Interpreter::shake(Tensor& t, double jitter) const {
  if (!is_float(t.dtype)) return;
  const uint64_t count = static_cast<uint64_t>(t.elements());
  for (uint64_t k = 0; k < count; ++k) {
    Scalar v = ir::load_element(t.dtype, t.bytes.data(), k);
    v.f *= std::popcount(k) % 2 == 0 ? 1 + jitter : 1 - jitter;  // neighbours along any axis differ
    v.f = ir::round_to(t.dtype, v.f);
    ir::store_element(t.dtype, t.bytes.data(), k, v);
  }
}

bool Interpreter::change(Tensor& t) {
  if (t.list_depth > 0 || t.dtype == DType::Str || t.dtype == DType::None) return false;
  bool changed = false;
  const uint64_t count = static_cast<uint64_t>(t.elements());
  for (uint64_t k = 0; k < count; ++k) {
    if (std::popcount(k) % 2 != 0) continue;
    const Scalar v = ir::load_element(t.dtype, t.bytes.data(), k);
    changed |= is_float(t.dtype) ? v.f != 0 : v.i != 0;
    ir::store_element(t.dtype, t.bytes.data(), k, is_float(t.dtype) ? Scalar{0, v.f / 2} : Scalar{});
  }
  return changed;
}

void Interpreter::points(const Nest& nest) {
  evaluator_.for_points(nest.dims, [&] {
    if (!evaluator_.truth(nest.where)) return;
    for (const Write& w : nest.writes) put(w, evaluator_.value(w.value));
  });
}

void Interpreter::put(const Write& w, Scalar v) {
  std::vector<int64_t> index;
  for (const ir::Expr* e : w.index) index.push_back(evaluator_.integer(e));
  if (evaluator_.fault.failed) return;
  int64_t element = evaluator_.element(w.array, index, !w.push);
  if (element < 0) return;
  Tensor& t = arrays_[w.array];
  if (w.push && w.join != ir::Join::Last) {
    std::vector<Scalar> old{ir::load_element(t.dtype, t.bytes.data(), static_cast<uint64_t>(element))};
    ir::Combiner c;
    c.join = w.join;
    evaluator_.combine(&c, t.dtype, old, {v});
    v = old[0];
  }
  ir::store_element(t.dtype, t.bytes.data(), static_cast<uint64_t>(element), v);
}

// Point by point along each line; prefix folds are small beside the rest of a model.
Status Interpreter::scan(const Statement& s) {
  const Nest& n = *s.nest;
  std::vector<const ir::Dim*> outer;
  for (const ir::Dim* d : n.dims)
    if (d != n.scan_dim) outer.push_back(d);
  int64_t extent = evaluator_.integer(n.scan_dim->extent);
  DType t = n.writes[0].value->type.dtype;
  DType wide = accumulator(*n.scan_combiner, t);
  evaluator_.for_points(outer, [&] {
    std::vector<Scalar> total = evaluator_.units(n.scan_combiner, wide);
    for (int64_t i = 0; i < extent && !evaluator_.fault.failed; ++i) {
      evaluator_.dims.at(n.scan_dim->id) = n.scan_reverse ? extent - 1 - i : i;
      if (!evaluator_.truth(n.where)) continue;
      std::vector<Scalar> item, before = total;
      for (const Write& w : n.writes) item.push_back(evaluator_.value(w.value));
      evaluator_.combine(n.scan_combiner, wide, total, item);
      const std::vector<Scalar>& value = n.scan_exclusive ? before : total;
      for (size_t w = 0; w < n.writes.size() && w < value.size(); ++w) put(n.writes[w], value[w]);
    }
    evaluator_.dims.erase(n.scan_dim->id);
  });
  return failed(s.source);
}

Status Interpreter::proc(const Statement& s) {
  const Proc& p = *s.proc;
  for (uint32_t w : p.writes) MLC_RETURN_IF_ERROR(allocate(w));
  evaluator_.for_points(p.dims, [&] {
    evaluator_.vars.clear();
    run_proc(evaluator_, p);
  });
  return failed(s.source);
}

}  // namespace mlc::nest
