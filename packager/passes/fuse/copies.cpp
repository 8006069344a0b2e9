// Devices: small copies that stand one behind the other are one launch. A concatenation is a statement for each of its parts, which costs a device
// a launch each:
//
//   y[a, n, b] = p[a, n, b] for n < N;  y[a, N + m, b] = q[a, m, b] for m < M
//   becomes    y[a, n, b] = n < N ? p[a, n, b] : q[a, n - N, b] for n < N + M
//
// and copies to two arrays at the same points (a decoder's keys, and its values) are two writes of one statement. That is worth it where
// the selects take less than a launch: large copies read vectors, and are bound by memory. Processors copy part by part, since a launch costs them little.
#include <algorithm>
#include <functional>

#include "packager/passes/all.h"
#include "packager/passes/util.h"
#include "targets/machines.h"

namespace mlc::passes {
namespace {

using ir::Op;

constexpr double kSelectOperations = 16;  // of a point, its conditions and addresses, beside the copy
constexpr size_t kMostCopies = 8;         // in one statement: a launch takes a number of buffers at most

class CopyJoining {
 public:
  CopyJoining(ir::Context& ctx, nest::Function& f) : ctx_(ctx), f_(f) {}

  void run() {
    join_neighbours([&](const nest::Nest& a, const nest::Nest& b) { return beside(a, b); });
    join_neighbours([&](const nest::Nest& a, const nest::Nest& b) { return together(a, b); });
  }

 private:
  using Join = std::function<std::unique_ptr<nest::Nest>(const nest::Nest&, const nest::Nest&)>;

  void join_neighbours(const Join& join) {
    std::vector<nest::Statement> body;
    for (size_t s = 0; s < f_.body.size(); ++s) {
      nest::Statement& next = f_.body[s];
      const bool stays_alone = s + 1 == f_.body.size() || !f_.body[s + 1].joins;
      const bool may_join = !body.empty() && stays_alone && !next.joins && !body.back().joins && next.part == body.back().part && is_copy(next) && is_copy(body.back());
      std::unique_ptr<nest::Nest> both = may_join ? join(*body.back().nest, *next.nest) : nullptr;
      if (both) body.back().nest = std::move(both);
      else body.push_back(std::move(next));
    }
    f_.body = std::move(body);
  }

  // Elements of arrays, or a choice of some, at points that have little to do.
  bool is_copy(const nest::Statement& s) const {
    if (!s.nest || s.nest->where || s.nest->scan_dim || nest::is_in_place(ctx_, f_, s)) return false;
    for (const nest::Write& w : s.nest->writes) {
      const Expr* value = w.value;
      for (; value->op == Op::Select; value = value->args[2])
        if (!is_load(value->args[1])) return false;
      if (w.push || !is_load(value)) return false;
    }
    return points_of(s.nest->dims) * kSelectOperations < targets::kAnyDevice.launch_cycles * targets::kAnyDevice.multiprocessors * targets::kAnyDevice.fmas_per_cycle;
  }
  static bool is_load(const Expr* e) { return e->op == Op::Load && e->access != ir::Access::Checked; }

  // The leading axis is the batch, which is one where copies are small.
  static double points_of(const std::vector<const ir::Dim*>& dims) {
    double points = 1;
    for (size_t k = 0; k < dims.size(); ++k)
      points *= k == 0 && !dims[k]->extent->is_const() ? static_cast<double>(ir::Guess::Batch) : estimate(dims[k]->extent);
    return points;
  }

  // Whose memory an array lies in.
  uint32_t memory_of(uint32_t array) const { return f_.arrays[array].layout.is_part() ? f_.arrays[array].whole : array; }
  bool reads_what(const nest::Nest& reader, const nest::Nest& writer) const {
    bool found = false;
    for (const nest::Write& w : reader.writes)
      ir::walk(w.value, [&](const Expr* e) {
        if (e->op == Op::Load)
          for (const nest::Write& other : writer.writes) found |= memory_of(e->array) == memory_of(other.array);
      });
    return found;
  }
  static size_t copies_in(const nest::Nest& n) {
    size_t copies = 0;
    for (const nest::Write& w : n.writes)
      for (const Expr* value = w.value; value; value = value->op == Op::Select ? value->args[2] : nullptr) ++copies;
    return copies;
  }
  bool may_be_one(const nest::Nest& a, const nest::Nest& b) const {
    return a.dims.size() == b.dims.size() && copies_in(a) + copies_in(b) <= kMostCopies && !reads_what(a, b) && !reads_what(b, a);
  }

  // The only dim of an index, to which a number that the run knows is added; null: it is none.
  const ir::Dim* dim_of(const Expr* index, const Expr*& begin) const {
    const ir::Dim* dim = nullptr;
    size_t dims = 0;
    ir::walk(index, [&](const Expr* e) {
      if (e->op == Op::Dim) dim = e->dim, ++dims;
    });
    if (dims != 1) return nullptr;
    begin = ctx_.sub(index, ctx_.dim(dim));
    bool moves = false;
    ir::walk(begin, [&](const Expr* e) { moves |= e->op == Op::Dim; });
    return moves ? nullptr : dim;
  }

  // Two parts of an array, the second one of which begins where the first one ends, along one axis.
  std::unique_ptr<nest::Nest> beside(const nest::Nest& a, const nest::Nest& b) {
    if (!may_be_one(a, b) || a.writes.size() != 1 || b.writes.size() != 1 || a.writes[0].array != b.writes[0].array) return nullptr;
    const nest::Write &first = a.writes[0], &second = b.writes[0];
    std::unordered_map<const Expr*, const Expr*> of_first, of_second;
    const ir::Dim *split = nullptr, *all = nullptr;
    std::set<const ir::Dim*> seen;
    for (size_t k = 0; k < first.index.size(); ++k) {
      const Expr *begin = nullptr, *other_begin = nullptr;
      const ir::Dim *d = dim_of(first.index[k], begin), *other = dim_of(second.index[k], other_begin);
      if (!d && !other && first.index[k] == second.index[k]) continue;
      if (!d || !other || !seen.insert(d).second) return nullptr;
      const Expr* place = ctx_.dim(d);
      if (other_begin != begin || d->extent != other->extent) {
        if (split || ctx_.sub(other_begin, begin) != d->extent) return nullptr;
        split = d, all = ctx_.declare_dim(d->name, ctx_.add(d->extent, other->extent)), place = ctx_.sub(ctx_.dim(all), d->extent);
        of_first.emplace(ctx_.dim(d), ctx_.dim(all));
      }
      if (!of_second.emplace(ctx_.dim(other), place).second) return nullptr;
    }
    if (!split || of_second.size() != b.dims.size()) return nullptr;
    auto joined = std::make_unique<nest::Nest>(a);
    std::replace(joined->dims.begin(), joined->dims.end(), split, all);
    nest::Write& w = joined->writes[0];
    for (const Expr*& index : w.index) index = ctx_.substitute(index, of_first);
    w.value = chosen(ctx_.substitute(first.value, of_first), ctx_.binary(Op::Lt, ctx_.dim(all), split->extent), ctx_.substitute(second.value, of_second));
    return joined;
  }

  // The last one of what `first` chooses from, or `second`.
  const Expr* chosen(const Expr* first, const Expr* condition, const Expr* second) {
    if (first->op != Op::Select) return ctx_.select(condition, first, second);
    return ctx_.select(first->args[0], first->args[1], chosen(first->args[2], condition, second));
  }

  // Copies to arrays apart from each other, at the same points.
  std::unique_ptr<nest::Nest> together(const nest::Nest& a, const nest::Nest& b) {
    if (!may_be_one(a, b)) return nullptr;
    std::unordered_map<const Expr*, const Expr*> at;
    for (size_t k = 0; k < a.dims.size(); ++k) {
      if (a.dims[k]->extent != b.dims[k]->extent) return nullptr;
      at.emplace(ctx_.dim(b.dims[k]), ctx_.dim(a.dims[k]));
    }
    for (const nest::Write& w : a.writes)
      for (const nest::Write& other : b.writes)
        if (w.array == other.array || (memory_of(w.array) == memory_of(other.array) && (memory_of(w.array) == w.array || memory_of(w.array) == other.array))) return nullptr;
    auto joined = std::make_unique<nest::Nest>(a);
    for (const nest::Write& w : b.writes) {
      nest::Write& also = joined->writes.emplace_back(w);
      for (const Expr*& index : also.index) index = ctx_.substitute(index, at);
      also.value = ctx_.substitute(also.value, at);
    }
    return joined;
  }

  ir::Context& ctx_;
  nest::Function& f_;
};

}  // namespace

Status join_copies(ir::Context& ctx, nest::Function& f) {
  CopyJoining(ctx, f).run();
  return ok();
}

}  // namespace mlc::passes
