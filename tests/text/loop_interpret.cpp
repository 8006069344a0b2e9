#include "tests/text/loop_interpret.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "base/checked.h"
#include "packager/ir/context.h"
#include "packager/ir/numeric.h"
#include "packager/loop/ops.h"
#include "tests/text/touches.h"

namespace mlc::loop {

using ir::Expr;
using ir::Op;
using ir::Scalar;

namespace {

using Value = std::vector<Scalar>;  // one per lane

// A pairwise tree over neighbouring lanes, halves folded onto each other: the order that expr.h promises.
Scalar fold_lanes(Op op, DType type, Value v) {
  Op join = op == Op::SumLanes ? Op::Add : op == Op::ProdLanes ? Op::Mul : op == Op::MinLanes ? Op::Min : Op::Max;
  while (v.size() > 1) {
    size_t half = v.size() / 2;
    for (size_t i = 0; i < half; ++i) v[i] = ir::apply_binary(join, type, v[i], v[i + half]);
    v.resize(half);
  }
  return v[0];
}

constexpr uint64_t kMaxScratch = 1u << 30;  // bytes of one local array
constexpr std::byte kPoison{0xA5};
constexpr int32_t kLoopFault = 3;  // a loop that goes on beyond its bound

// In the order of the lanes; floats are rounded after each addition.
Scalar add_products(DType sum, Scalar acc, const Value& a, const Value& b, size_t first, size_t group) {
  for (size_t g = first; g < first + group; ++g) {
    if (is_float(sum)) acc.f = ir::round_to(sum, acc.f + a[g].f * b[g].f);
    else acc.i = ir::wrap_to(sum, acc.i + a[g].i * b[g].i);
  }
  return acc;
}

class Interpreter {
 public:
  Interpreter(const Kernel& k, const Run& run) : k_(k), run_(run) {}

  Result<int32_t> go() {
    if (run_.buffers.size() != k_.params.size()) return Status(Code::Internal, "wrong number of buffers");
    for (const LocalArray& l : k_.locals) {
      const auto count = ir::evaluate_extent(l.count, run_.value);
      const auto bytes = count && *count >= 0 ? checked_mul(static_cast<uint64_t>(*count), bytes_of(l.dtype)) : std::nullopt;
      if (!bytes || *bytes > kMaxScratch) return Status(Code::Internal, "local array " + l.name + " has no size");
      scratch_.emplace_back(*bytes, kPoison);
    }
    if (k_.lanes) prepare_lanes();
    MLC_ASSIGN(const Division division, divide(k_, run_));
    vars_[k_.tile_begin] = {Scalar{run_.tile_begin, 0}};
    vars_[k_.tile_end] = {Scalar{run_.tile_end < 0 ? division.tiles : run_.tile_end, 0}};
    for (size_t k = 0; k < k_.cuts.size(); ++k) vars_[k_.cuts[k].chunk] = {Scalar{division.chunks[k], 0}};
    block(k_.body);
    if (!error_.empty()) return Status(Code::Internal, "kernel " + k_.name + ": " + error_);
    return fault_;
  }

 private:
  bool stopped() const { return fault_ != 0 || !error_.empty(); }
  void fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }

  const Value& eval(const Expr* root) {
    static const Value kNone{Scalar{}};
    if (root->op == Op::Var) return var(root);
    ir::walk(root, [&](const Expr* e) {
      if (stopped() || e->op == Op::Var || memo_.contains(e)) return;
      Value v = compute(e);
      memo_[e] = std::move(v);
    });
    auto it = memo_.find(root);
    return it == memo_.end() ? kNone : it->second;
  }
  const Value& var(const Expr* v) {
    auto it = vars_.find(v);
    if (it == vars_.end()) {
      fail("variable read before it is bound");
      return vars_[v] = Value(v->type.lanes);
    }
    return it->second;
  }
  const Value& arg(const Expr* e, size_t i) {
    const Expr* a = e->args[i];
    return a->op == Op::Var ? var(a) : memo_.at(a);
  }

  bool element(uint32_t array, int64_t index, DType& type, std::byte*& base) {
    uint64_t bytes;
    if (array < k_.params.size()) {
      type = k_.params[array].dtype;
      base = run_.buffers[array].data();
      bytes = run_.buffers[array].size();
    } else {
      const size_t local = array - k_.params.size();
      auto& s = k_.locals[local].space == Space::Private ? private_[static_cast<size_t>(who_.lane)][local] : scratch_[local];
      type = k_.locals[array - k_.params.size()].dtype;
      base = s.data();
      bytes = s.size();
    }
    if (index >= 0 && static_cast<uint64_t>(index) < bytes / bytes_of(type)) return true;
    fail("element " + std::to_string(index) + " of buffer " + std::to_string(array) + " is out of range");
    return false;
  }

  // ---- lanes ----

  void prepare_lanes() {
    for (size_t k = 0; k < k_.params.size(); ++k)
      touches_.emplace_back(k_.params[k].written ? run_.buffers[k].size() / bytes_of(k_.params[k].dtype) : 0);
    for (size_t k = 0; k < k_.locals.size(); ++k)
      touches_.emplace_back(k_.locals[k].space == Space::Shared ? scratch_[k].size() / bytes_of(k_.locals[k].dtype) : 0);
    find_barriers(k_.body);
  }
  bool find_barriers(const std::vector<StmtPtr>& stmts) {
    bool any = false;
    for (const StmtPtr& s : stmts) {
      const bool inside = find_barriers(s->body), otherwise = find_barriers(s->orelse);
      if (s->kind == StmtKind::Barrier || s->kind == StmtKind::FoldLanes || inside || otherwise) has_barrier_.insert(s.get()), any = true;
    }
    return any;
  }

  // A block: its memories hold nothing of the one before.
  void lanes(const Stmt& s) {
    const int64_t begin = integer(s.begin), end = integer(s.end);
    const auto outside = vars_;
    ++who_.block, ++who_.phase;
    for (size_t k = 0; k < k_.locals.size(); ++k) {
      std::fill(scratch_[k].begin(), scratch_[k].end(), kPoison);
      touches_[k_.params.size() + k].forget();
    }
    lane_vars_.assign(static_cast<size_t>(std::max<int64_t>(0, end - begin)), outside);
    private_.assign(lane_vars_.size(), scratch_);
    for (size_t l = 0; l < lane_vars_.size(); ++l) lane_vars_[l][s.var] = {Scalar{begin + static_cast<int64_t>(l), 0}};
    together(s.body);
    vars_ = outside;
  }

  void each_lane(const std::function<void()>& body) {
    for (size_t l = 0; l < lane_vars_.size() && !stopped(); ++l) {
      who_.lane = static_cast<int64_t>(l);
      vars_.swap(lane_vars_[l]);
      memo_.clear();
      body();
      vars_.swap(lane_vars_[l]);
    }
  }

  // Every lane runs up to the next barrier, then all go on.
  void together(const std::vector<StmtPtr>& stmts) {
    for (size_t k = 0; k < stmts.size() && !stopped();) {
      size_t end = k;
      while (end < stmts.size() && !has_barrier_.contains(stmts[end].get())) ++end;
      if (end > k)
        each_lane([&] {
          for (size_t at = k; at < end && !stopped(); ++at) memo_.clear(), stmt(*stmts[at]);
        });
      if (end < stmts.size() && !stopped()) together(*stmts[end]);
      k = end + 1;
    }
  }

  // Neighbours first.
  void fold(const Stmt& s) {
    Value all;
    each_lane([&] { all.push_back(eval(s.value)[0]); });
    if (stopped()) return;
    const DType type = s.value->type.dtype;
    const size_t width = s.step == 1 ? all.size() : static_cast<size_t>(s.step);
    for (size_t d = 1; d < width; d *= 2)
      for (size_t k = 0; k + d < all.size(); k += 2 * d) {
        const Scalar a = all[k], b = all[k + d];
        if (s.combine == Op::And) all[k].i = a.i & b.i;
        else if (s.combine == Op::Or) all[k].i = a.i | b.i;
        else all[k] = ir::apply_binary(s.combine, type, a, b);
      }
    each_lane([&] { vars_[s.var] = {all[static_cast<size_t>(who_.lane) / width * width]}; });
  }

  // What all lanes say of a statement that holds a barrier.
  int64_t agreed(const Expr* e) {
    std::optional<int64_t> all;
    each_lane([&] {
      const int64_t mine = integer(e);
      if (all && *all != mine) fail("a barrier that not all lanes reach");
      all = mine;
    });
    return all.value_or(0);
  }

  void together(const Stmt& s) {
    switch (s.kind) {
      case StmtKind::Barrier: ++who_.phase; return;
      case StmtKind::FoldLanes: return fold(s);
      case StmtKind::If: return together(agreed(s.cond) ? s.body : s.orelse);
      case StmtKind::For: {
        const int64_t begin = agreed(s.begin), end = agreed(s.end);
        for (int64_t i = begin; i < end && !stopped(); i += s.step) {
          each_lane([&] { vars_[s.var] = {Scalar{i, 0}}; });
          together(s.body);
        }
        return;
      }
      case StmtKind::While: {
        const int64_t bound = agreed(s.bound);
        for (int64_t n = 0; !stopped() && agreed(s.cond) && !stopped(); ++n) {
          if (n >= bound) fault_ = kLoopFault;
          else together(s.body);
        }
        return;
      }
      default: return fail("a barrier in a statement that has none");
    }
  }

  void touch(uint32_t array, int64_t index, bool stores) {
    const bool is_tracked = k_.lanes && (array < k_.params.size() ? k_.params[array].written : k_.locals[array - k_.params.size()].space == Space::Shared);
    if (!is_tracked) return;
    Touches& all = touches_[array];
    const auto at = static_cast<size_t>(index);
    if (stores ? all.write(at, who_) : all.read(at, who_)) return;
    fail("lane " + std::to_string(who_.lane) + " meets another at element " + std::to_string(index) + " of " +
         (array < k_.params.size() ? k_.params[array].name : k_.locals[array - k_.params.size()].name) + ", no barrier lies between");
  }

  Value compute(const Expr* e) {
    const unsigned lanes = e->type.lanes;
    Value r(lanes);
    switch (e->op) {
      case Op::Const: r[0] = {e->i, e->f}; return r;
      case Op::Sym: {
        auto v = run_.value(e->sym);
        if (!v) fail("symbol " + e->sym->name + " has no value");
        r[0].i = v.value_or(0);
        return r;
      }
      case Op::Load: {
        const Value& at = arg(e, 0);
        for (unsigned l = 0; l < lanes && !stopped(); ++l) {
          if (e->args.size() == 2 && !arg(e, 1)[l].i) continue;
          DType type;
          std::byte* base;
          int64_t index = at.size() == 1 ? at[0].i + l : at[l].i;
          if (!element(e->array, index, type, base)) continue;
          touch(e->array, index, false);
          r[l] = ir::load_element(type, base, static_cast<uint64_t>(index));
        }
        return r;
      }
      case Op::Splat:
        for (unsigned l = 0; l < lanes; ++l) r[l] = arg(e, 0)[l % arg(e, 0).size()];
        return r;
      case Op::Ramp:
        for (unsigned l = 0; l < lanes; ++l) r[l].i = ir::wrap_to(e->type.dtype, arg(e, 0)[0].i + e->i * l);
        return r;
      case Op::Extract: r[0] = arg(e, 0)[static_cast<size_t>(e->i)]; return r;
      case Op::SumLanes: case Op::ProdLanes: case Op::MinLanes: case Op::MaxLanes:
        r[0] = fold_lanes(e->op, e->type.dtype, arg(e, 0));
        return r;
      case Op::Widen: {
        size_t at = 0;
        for (size_t i = 0; i < e->args.size(); ++i)
          for (const Scalar& s : arg(e, i)) r[at++] = s;
        return r;
      }
      case Op::Dot: {
        const size_t group = arg(e, 1).size() / lanes;
        for (unsigned l = 0; l < lanes; ++l)
          r[l] = add_products(e->type.dtype, arg(e, 0)[l], arg(e, 1), arg(e, 2), l * group, group);
        return r;
      }
      case Op::Select:
        for (unsigned l = 0; l < lanes; ++l) r[l] = arg(e, 0)[l].i ? arg(e, 1)[l] : arg(e, 2)[l];
        return r;
      case Op::And: for (unsigned l = 0; l < lanes; ++l) r[l].i = arg(e, 0)[l].i & arg(e, 1)[l].i; return r;
      case Op::Or: for (unsigned l = 0; l < lanes; ++l) r[l].i = arg(e, 0)[l].i | arg(e, 1)[l].i; return r;
      case Op::Fma:
        for (unsigned l = 0; l < lanes; ++l) {
          double f = std::fma(arg(e, 0)[l].f, arg(e, 1)[l].f, arg(e, 2)[l].f);
          if (e->type.dtype == DType::F32)
            f = std::fma(float(arg(e, 0)[l].f), float(arg(e, 1)[l].f), float(arg(e, 2)[l].f));
          r[l].f = ir::round_to(e->type.dtype, f);
        }
        return r;
      default: break;
    }
    DType from = e->args[0]->type.dtype;
    if (e->args.size() == 1)
      for (unsigned l = 0; l < lanes; ++l) r[l] = ir::apply_unary(e->op, from, e->type.dtype, arg(e, 0)[l]);
    else
      for (unsigned l = 0; l < lanes; ++l) r[l] = ir::apply_binary(e->op, from, arg(e, 0)[l], arg(e, 1)[l]);
    return r;
  }

  int64_t integer(const Expr* e) { return eval(e)[0].i; }

  void block(const std::vector<StmtPtr>& stmts) {
    for (const StmtPtr& s : stmts) {
      if (stopped()) return;
      memo_.clear();
      stmt(*s);
    }
  }

  void stmt(const Stmt& s) {
    switch (s.kind) {
      case StmtKind::For: {
        if (s.for_kind == ForKind::Lanes) return lanes(s);
        int64_t begin = integer(s.begin), end = integer(s.end);
        for (int64_t i = begin; i < end && !stopped(); i += s.step) {
          vars_[s.var] = {Scalar{i, 0}};
          block(s.body);
        }
        return;
      }
      case StmtKind::While: {
        int64_t bound = integer(s.bound);
        for (int64_t n = 0; !stopped(); ++n) {
          memo_.clear();
          if (!integer(s.cond)) return;
          if (n >= bound) {
            fault_ = kLoopFault;
            return;
          }
          block(s.body);
        }
        return;
      }
      case StmtKind::If: return block(integer(s.cond) ? s.body : s.orelse);
      case StmtKind::Let:
      case StmtKind::Local:
      case StmtKind::Assign: {
        Value v = eval(s.value);
        vars_[s.var] = std::move(v);
        return;
      }
      case StmtKind::Store: {
        Value at = eval(s.index[0]), value = eval(s.value), mask = s.cond ? eval(s.cond) : Value{};
        for (size_t l = 0; l < value.size() && !stopped(); ++l) {
          if (s.cond && !mask[l].i) continue;
          DType type;
          std::byte* base;
          int64_t index = at.size() == 1 ? at[0].i + int64_t(l) : at[l].i;
          if (!element(s.array, index, type, base)) continue;
          touch(s.array, index, true);
          ir::store_element(type, base, static_cast<uint64_t>(index), value[l]);
        }
        return;
      }
      case StmtKind::Barrier: case StmtKind::FoldLanes: return fail("a barrier outside of lanes");
      case StmtKind::Prefetch: return;
      case StmtKind::Fault:
        for (const Scalar& lane : eval(s.cond))
          if (lane.i) fault_ = s.fault;
        return;
    }
  }

  const Kernel& k_;
  const Run& run_;
  std::vector<std::vector<std::byte>> scratch_;
  using Values = std::unordered_map<const Expr*, Value>;
  Values vars_, memo_;
  // Of the block at work.
  LaneAt who_;
  std::vector<Values> lane_vars_;
  std::vector<std::vector<std::vector<std::byte>>> private_;  // per lane and local array
  std::vector<Touches> touches_;                              // per buffer; those of buffers that nobody writes are empty
  std::unordered_set<const Stmt*> has_barrier_;
  int32_t fault_ = 0;
  std::string error_;
};

}  // namespace

Result<Division> divide(const Kernel& kernel, const Run& run) {
  const auto tiles = ir::evaluate_extent(kernel.tiles, run.value);
  if (!tiles) return Status(Code::Internal, "tile count cannot be evaluated");
  Division d{{}, *tiles};
  for (const Cut& cut : kernel.cuts) {
    const auto units = ir::evaluate_extent(cut.units, run.value);
    if (!units) return Status(Code::Internal, "units of a cut cannot be evaluated");
    const int64_t whole = std::max<int64_t>(1, *units), k = static_cast<int64_t>(d.chunks.size());
    d.chunks.push_back(k < std::ssize(run.chunks) ? run.chunks[static_cast<size_t>(k)] : whole);
    if (d.chunks.back() < 1 || d.chunks.back() > whole) return Status(Code::Internal, "a chunk that is larger than its axis");
    d.tiles *= (*units + d.chunks.back() - 1) / d.chunks.back();
  }
  return d;
}

Result<int32_t> interpret(const Kernel& kernel, const Run& run) { return Interpreter(kernel, run).go(); }

}  // namespace mlc::loop
