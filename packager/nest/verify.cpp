#include "packager/nest/verify.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "packager/ir/broadcast.h"

namespace mlc::nest {
namespace {

using ir::Expr;
using ir::Op;

class Verifier {
 public:
  // `around`: conditions that hold where this body runs.
  Verifier(ir::Context& ctx, const Function& f, const VerifyOptions& options, int depth = 0, std::vector<const Expr*> around = {})
      : ctx_(ctx), f_(f), options_(options), level_(depth), around_(std::move(around)) {}

  std::vector<std::string> run() {
    where_ = "arrays";
    std::set<std::string> names;
    for (size_t i = 0; i < f_.arrays.size(); ++i) array(f_.arrays[i], names);
    state_.resize(f_.arrays.size());
    for (uint32_t i : f_.inputs) {
      if (!known(i)) continue;
      state_[i].written = true;
      if (f_.arrays[i].kind != Array::Kind::Input) say("input '" + f_.arrays[i].name + "' is not declared as one");
    }
    for (size_t i = 0; i < f_.arrays.size(); ++i) state_[i].written = state_[i].written || f_.arrays[i].kind == Array::Kind::Const;
    for (const Function::Check& c : f_.checks) extent(c.condition, "check");
    for (const Function::Definition& d : f_.definitions) extent(d.value, "definition");
    for (const Function::Element& e : f_.elements)
      if (std::find(f_.inputs.begin(), f_.inputs.end(), e.input) == f_.inputs.end()) say("'" + e.sym->name + "' is an element of what is no input");
    for (const Statement& s : f_.body) {
      where_ = s.source;
      if (!!s.nest + !!s.proc + !!s.control != 1) say("a statement is a nest, a proc or a control");
      else if (s.nest) nest(*s.nest);
      else if (s.proc) proc(*s.proc);
      else control(*s.control);
    }
    where_ = "outputs";
    for (uint32_t o : f_.outputs)
      if (known(o) && !state_[o].written) say("'" + f_.arrays[o].name + "' is never written");
    return std::move(out_);
  }

 private:
  void say(std::string text) {
    if (out_.size() < 100) out_.push_back(where_ + ": " + std::move(text));
  }
  bool known(uint32_t a) {
    if (a < f_.arrays.size()) return true;
    say("no array %" + std::to_string(a));
    return false;
  }

  void extent(const Expr* root, const std::string& what) {
    bool good = true;
    ir::walk(root, [&](const Expr* e) {
      good = good && e->op != Op::Dim && e->op != Op::Var && e->op != Op::Load && e->op != Op::Fold && e->op != Op::Field && e->type.lanes == 1;
    });
    if (!good) say(what + " is made of more than symbols: " + ir::to_string(root));
  }

  void array(const Array& a, std::set<std::string>& names) {
    if (a.name.empty() || !names.insert(a.name).second) say("'" + a.name + "' is not a name of its own");
    if (bits_of(a.dtype) == 0 && (a.dtype != DType::Str || a.kind == Array::Kind::Const)) say("'" + a.name + "' has no element type of fixed size");
    if (a.list_depth && (!a.shape.empty() || a.kind == Array::Kind::Const || a.layout.pieces.size() || a.list_depth > kMaxDepth))
      say("the list '" + a.name + "' has what only arrays have");
    bool constant = true;
    uint64_t bytes = bytes_of(a.dtype);
    for (const Expr* e : a.shape) {
      if (e->type != ir::Type{DType::I64, 1}) say("an extent of '" + a.name + "' is not i64");
      extent(e, "extent of '" + a.name + "'");
      constant = constant && e->is_const();
      if (e->is_const()) bytes = e->i < 0 ? UINT64_MAX : checked_mul(bytes, static_cast<uint64_t>(e->i)).value_or(UINT64_MAX);
    }
    if (a.kind == Array::Kind::Const && (!constant || !a.data || a.data->bytes.size() != bytes))
      say("constant '" + a.name + "' lacks its data");
    if (a.kind == Array::Kind::Derived && !constant) say("derived constant '" + a.name + "' has an extent that the run decides");
    if (a.kind != Array::Kind::Const && a.data) say("'" + a.name + "' has data but is no constant");
    // Per axis: one outermost piece, and splits that meet: the divisor of a piece is the divisor of the next inner one
    // times its extent.
    std::vector<int64_t> reach(a.shape.size(), 1);
    std::vector<bool> open(a.shape.size(), true);
    for (size_t i = a.layout.pieces.size(); i-- > 0;) {
      const Piece& p = a.layout.pieces[i];
      if (p.axis >= a.shape.size() || !open[p.axis] || p.divisor != reach[p.axis] || p.extent < 0) {
        say("layout " + to_string(a.layout, static_cast<unsigned>(a.shape.size())) + " of '" + a.name + "' does not cover its axes once");
        return;
      }
      if (p.extent == 0) open[p.axis] = false;
      else if (__builtin_mul_overflow(reach[p.axis], p.extent, &reach[p.axis])) open[p.axis] = false;
    }
    if (!a.layout.pieces.empty() && std::find(open.begin(), open.end(), true) != open.end())
      say("layout of '" + a.name + "' leaves an axis out");
  }

  // Types and bound names below `root`, and the order of arrays.
  void check(const Expr* root, const std::set<const ir::Dim*>& bound, bool vars) {
    std::unordered_set<const Expr*> seen;
    check_below(root, bound, vars, seen);
  }
  void check_below(const Expr* root, const std::set<const ir::Dim*>& bound, bool vars, std::unordered_set<const Expr*>& seen) {
    // Folds bind dims: their bodies are looked at with more of them. Depth is that of nested folds.
    std::vector<const Expr*> stack{root};
    while (!stack.empty()) {
      const Expr* e = stack.back();
      stack.pop_back();
      if (!seen.insert(e).second) continue;
      node(e, bound, vars);
      if (e->op != Op::Fold) {
        stack.insert(stack.end(), e->args.begin(), e->args.end());
        continue;
      }
      std::set<const ir::Dim*> inner = bound;
      for (const ir::Dim* d : e->fold->dims) {
        if (!inner.insert(d).second) say("dim '" + d->name + "' is bound twice");
        extent(d->extent, "extent of dim '" + d->name + "'");
      }
      std::unordered_set<const Expr*> below;
      if (++depth_ > 64) {
        say("folds nested too deeply");
        --depth_;
        return;
      }
      for (const Expr* b : e->args) check_below(b, inner, vars, below);
      if (e->fold->where) check_below(e->fold->where, inner, vars, below);
      --depth_;
    }
  }

  void misfit(const Expr* e) { say("types do not fit in " + ir::to_string(e).substr(0, 200)); }

  void load(const Expr* e) {
    const DType* dtype = nullptr;
    size_t rank = 0;
    std::string name;
    if (e->array >= kFirstLocal) {
      size_t n = e->array - kFirstLocal;
      if (!locals_ || n >= locals_->size()) return say("no local array %" + std::to_string(e->array));
      dtype = &(*locals_)[n].dtype;
      rank = (*locals_)[n].shape.size();
      name = (*locals_)[n].name;
    } else {
      if (!known(e->array)) return;
      const Array& a = f_.arrays[e->array];
      dtype = &a.dtype;
      rank = a.shape.size();
      name = a.name;
      if (a.list_depth) say("the list '" + name + "' is read as an array");
      if (!state_[e->array].written && !own_.contains(e->array)) say("'" + name + "' is read before it is written");
      state_[e->array].read = true;
    }
    if (e->type.dtype != *dtype) misfit(e);
    if (e->args.size() != rank) say("'" + name + "' is read with " + std::to_string(e->args.size()) + " indices, it has " + std::to_string(rank) + " axes");
    for (size_t i = 0; i < e->args.size(); ++i)
      if (e->args[i]->type != ir::Type{DType::I64, 1}) misfit(e);
  }

  void fold(const Expr* e) {
    constexpr ir::Type boolean{DType::Bool, 1};
    const ir::Combiner* c = e->fold->combiner;
    size_t fields = c->join == ir::Join::Custom ? c->joins.size() : 1;
    if (e->args.size() != fields) return say("combiner '" + c->name + "' has another number of fields");
    if (e->type != e->args[0]->type || (e->fold->where && e->fold->where->type != boolean)) misfit(e);
    for (size_t i = 0; c->join == ir::Join::Custom && i < fields; ++i)
      if (e->args[i]->type != c->left[i]->type || e->args[i]->type != c->units[i]->type || e->args[i]->type != c->joins[i]->type) misfit(e);
    if ((c->join == ir::Join::Any || c->join == ir::Join::All) && e->args[0]->type != boolean) misfit(e);
  }

  void node(const Expr* e, const std::set<const ir::Dim*>& bound, bool vars) {
    auto type = [&](size_t i) { return e->args[i]->type; };
    auto wrong = [&] { misfit(e); };
    constexpr ir::Type kBool{DType::Bool, 1};
    if (e->type.lanes != 1) return say("vector in a nest");
    switch (e->op) {
      case Op::Const: case Op::Sym: return;
      case Op::Dim:
        if (!bound.contains(e->dim)) say("dim '" + e->dim->name + "' is not bound where it is used");
        return;
      case Op::Var:
        if (!vars) say("variable outside of a proc");
        return;
      case Op::Load: return load(e);
      case Op::Fold: return fold(e);
      case Op::Field:
        if (e->args[0]->op != Op::Fold || static_cast<size_t>(e->i) >= e->args[0]->args.size() ||
            e->args[0]->args[static_cast<size_t>(e->i)]->type != e->type)
          wrong();
        return;
      case Op::Neg: case Op::Abs: case Op::BitNot: case Op::Floor: case Op::Ceil: case Op::Trunc: case Op::Rint:
        if (e->type != type(0)) wrong();
        return;
      case Op::Not:
        if (e->type != kBool || type(0) != kBool) wrong();
        return;
      case Op::Sqrt: case Op::Exp: case Op::Log: case Op::Sin: case Op::Cos: case Op::Tan: case Op::Asin: case Op::Acos:
      case Op::Atan: case Op::Sinh: case Op::Cosh: case Op::Tanh: case Op::Asinh: case Op::Acosh: case Op::Atanh: case Op::Erf:
        if (e->type != type(0) || !is_float(e->type.dtype)) wrong();
        return;
      case Op::IsNan: case Op::IsInf:
        if (e->type != kBool || !is_float(type(0).dtype)) wrong();
        return;
      case Op::Cast: return;
      case Op::SatCast:
        if (!is_int(e->type.dtype)) wrong();
        return;
      case Op::Bitcast:
        if (bits_of(e->type.dtype) != bits_of(type(0).dtype)) wrong();
        return;
      case Op::Div:
        if (!is_float(e->type.dtype) || e->type != type(0) || e->type != type(1)) wrong();
        return;
      case Op::Add: case Op::Sub: case Op::Mul: case Op::FloorDiv: case Op::FloorMod: case Op::TruncDiv: case Op::TruncMod:
      case Op::Min: case Op::Max:
        if (e->type != type(0) || e->type != type(1)) wrong();
        return;
      case Op::Pow:
        if (e->type != type(0) || e->type != type(1)) wrong();
        return;
      case Op::BitAnd: case Op::BitOr: case Op::BitXor:
        if (e->type != type(0) || e->type != type(1) || is_float(e->type.dtype)) wrong();
        return;
      case Op::Shl: case Op::Shr:
        if (e->type != type(0) || e->type != type(1) || !is_int(e->type.dtype)) wrong();
        return;
      case Op::And: case Op::Or:
        if (e->type != kBool || type(0) != kBool || type(1) != kBool) wrong();
        return;
      case Op::Lt: case Op::Le: case Op::Eq: case Op::Ne:
        if (e->type != kBool || type(0) != type(1)) wrong();
        return;
      case Op::Select:
        if (type(0) != kBool || e->type != type(1) || e->type != type(2)) wrong();
        return;
      case Op::Fma:
        if (e->type != type(0) || e->type != type(1) || e->type != type(2) || !is_float(e->type.dtype)) wrong();
        return;
      case Op::Splat: case Op::Ramp: case Op::Extract: case Op::SumLanes: case Op::ProdLanes: case Op::MinLanes:
      case Op::MaxLanes: case Op::Widen: case Op::Dot:
        return say("vector operation in a nest");
    }
  }

  // Conditions that hold on the way to a node: shared lists, by number.
  struct Path {
    int parent = -1;
    const Expr* condition = nullptr;
  };
  std::vector<const Expr*> conditions(int path) {
    std::vector<const Expr*> all = around_;  // what was checked before the first statement holds everywhere
    for (const Function::Check& c : f_.checks) all.push_back(c.condition);
    for (const Function::Definition& d : f_.definitions) all.push_back(ctx_.binary(Op::Eq, ctx_.sym(d.sym), d.value));
    for (; path >= 0; path = paths_[static_cast<size_t>(path)].parent) all.push_back(paths_[static_cast<size_t>(path)].condition);
    return all;
  }
  int under(int path, const Expr* condition) {
    auto [it, fresh] = path_of_.try_emplace({path, condition}, static_cast<int>(paths_.size()));
    if (fresh) paths_.push_back({path, condition});
    return it->second;
  }

  void in_range(const std::vector<const Expr*>& index, const Array& a, int path, const std::string& what) {
    for (size_t i = 0; i < index.size() && i < a.shape.size(); ++i) {
      if (index[i]->op == Op::Dim && index[i]->dim->extent == a.shape[i]) continue;  // an empty dim has no points
      auto given = conditions(path);
      const Expr* low = ctx_.binary(Op::Le, ctx_.integer(0), index[i]);
      const Expr* high = ctx_.binary(Op::Lt, index[i], a.shape[i]);
      // A loaded value in an index is not index arithmetic: nothing is proved about it.
      if (ir::proves(ctx_, low, given) && ir::proves(ctx_, high, given)) continue;
      // What is checked before the run is a fact: two extents that were assumed equal, say.
      for (const Function::Check& c : f_.checks) given.push_back(c.condition);
      if (!f_.checks.empty() && ir::proves(ctx_, low, given) && ir::proves(ctx_, high, given)) continue;
      if (ir::broadcast_in_range(ctx_, index[i], a.shape[i], given)) continue;
      if (place_in_range(index, a, i, given)) continue;
      say(what + " " + ir::to_string(index[i]).substr(0, 200) + " is not known to lie in axis " + std::to_string(i) + " of '" + a.name +
          "', which has " + ir::to_string(a.shape[i]).substr(0, 100));
    }
  }

  // Axes first..last hold one place taken apart: place // e % e, ..., place % e. If it lies in the product of their
  // extents, none of which is negative, none is zero either, and each part lies in its axis.
  bool place_in_range(const std::vector<const Expr*>& index, const Array& a, size_t axis,
                      const std::vector<const Expr*>& given) {
    for (size_t last = axis; last < index.size(); ++last) {
      if (index[last]->op != Op::FloorMod || index[last]->args[1] != a.shape[last]) continue;
      const Expr *place = index[last]->args[0], *rest = place, *all = ctx_.integer(1);
      for (size_t first = last + 1; first-- > 0;) {
        if (ir::interval_of(a.shape[first]).lo < 0) break;
        all = ctx_.mul(all, a.shape[first]);
        const bool whole = index[first] == rest;
        if (whole && first <= axis)
          return ir::proves(ctx_, ctx_.binary(Op::Le, ctx_.integer(0), place), given) &&
                 ir::proves(ctx_, ctx_.binary(Op::Lt, place, all), given);
        if (a.shape[first]->is_int(1) && index[first]->is_int(0)) continue;
        if (index[first] != ctx_.floormod(rest, a.shape[first])) break;
        rest = ctx_.floordiv(rest, a.shape[first]);
      }
    }
    return false;
  }

  void ranges(const Expr* root, int path) {
    std::set<std::pair<const Expr*, int>> seen;
    std::vector<std::pair<const Expr*, int>> stack{{root, path}};
    while (!stack.empty() && seen.size() < 100000) {
      auto [e, at] = stack.back();
      stack.pop_back();
      if (!seen.insert({e, at}).second) continue;
      if (e->op == Op::Load && e->access == ir::Access::Proved && e->array < f_.arrays.size())
        in_range({e->args.begin(), e->args.end()}, f_.arrays[e->array], at, "index");
      if (e->op == Op::Select) {
        stack.push_back({e->args[0], at});
        stack.push_back({e->args[1], under(at, e->args[0])});
        stack.push_back({e->args[2], under(at, ctx_.logical_not(e->args[0]))});
      } else if (e->op == Op::And || e->op == Op::Or) {
        stack.push_back({e->args[0], at});
        stack.push_back({e->args[1], under(at, e->op == Op::And ? e->args[0] : ctx_.logical_not(e->args[0]))});
      } else {
        int inner = e->op == Op::Fold && e->fold->where ? under(at, e->fold->where) : at;
        for (const Expr* a : e->args) stack.push_back({a, inner});
        if (inner != at) stack.push_back({e->fold->where, at});
      }
    }
  }

  void finish(const std::vector<uint32_t>& results) {
    for (uint32_t a : results)
      if (a < state_.size()) state_[a].written = true;
  }

  void nest(const Nest& n) {
    std::set<const ir::Dim*> bound;
    for (const ir::Dim* d : n.dims) {
      if (!bound.insert(d).second) say("dim '" + d->name + "' is bound twice");
      extent(d->extent, "extent of dim '" + d->name + "'");
    }
    if (n.scan_dim && (!bound.contains(n.scan_dim) || !n.scan_combiner)) say("the scanned dim is none of the nest's");
    if (n.where) {
      if (n.where->type != ir::Type{DType::Bool, 1}) say("the condition is not Bool");
      check(n.where, bound, false);
    }
    if (n.writes.empty()) say("writes nothing");
    bool empty = std::any_of(n.dims.begin(), n.dims.end(), [](const ir::Dim* d) { return d->extent->is_int(0); });
    const bool ranged = options_.ranges && !empty;
    std::vector<uint32_t> results;
    int path = n.where ? under(-1, n.where) : -1;
    if (n.where && ranged) ranges(n.where, -1);
    for (const Write& w : n.writes) {
      if (!known(w.array)) continue;
      const Array& a = f_.arrays[w.array];
      if (!a.is_result()) say("'" + a.name + "' is written but is no result");
      if (a.list_depth) say("the list '" + a.name + "' is written as an array");
      if (state_[w.array].read) say("'" + a.name + "' is written after it was read");
      if (w.index.size() != a.shape.size()) say("'" + a.name + "' is written with " + std::to_string(w.index.size()) + " indices");
      if (w.value->type != ir::Type{a.dtype, 1}) say("'" + a.name + "' is " + std::string(name_of(a.dtype)) + ", written as " + std::string(name_of(w.value->type.dtype)));
      for (const Expr* e : w.index) {
        if (e->type != ir::Type{DType::I64, 1}) say("an index of '" + a.name + "' is not i64");
        check(e, bound, false);
      }
      check(w.value, bound, false);
      results.push_back(w.array);
      if (w.push) {
        if (w.join == ir::Join::Custom) say("a push combines with a built-in join");
        continue;
      }
      for (const ir::Dim* d : n.dims) {
        bool used = d->extent->is_int(1);
        for (const Expr* e : w.index) used = used || ir::depends_on(e, ctx_.dim(d));
        if (!used) say("'" + a.name + "' is written by every point of dim '" + d->name + "'");
      }
      if (ranged) in_range(w.index, a, path, "written index");
    }
    if (ranged)
      for (const Write& w : n.writes) ranges(w.value, path);
    finish(results);
  }

  void block(const std::vector<loop::StmtPtr>& body, const Proc& p, const std::set<const ir::Dim*>& bound) {
    for (const loop::StmtPtr& s : body) {
      for (const Expr* e : {s->begin, s->end, s->cond, s->bound, s->value})
        if (e) check(e, bound, true);
      for (const Expr* e : s->index) check(e, bound, true);
      switch (s->kind) {
        case loop::StmtKind::For:
          if (!s->var || !s->begin || !s->end || s->step < 1) say("a loop has a variable, bounds and a positive step");
          break;
        case loop::StmtKind::While:
          if (!s->cond || !s->bound) say("a while has a condition and a bound");
          break;
        case loop::StmtKind::If: case loop::StmtKind::Fault:
          if (!s->cond) say("an if has a condition");
          break;
        case loop::StmtKind::Prefetch: say("prefetches are for kernels"); break;
        case loop::StmtKind::Let: case loop::StmtKind::Assign: case loop::StmtKind::Local:
          if (!s->var || s->var->op != Op::Var || (s->kind != loop::StmtKind::Local && !s->value)) say("a variable has a value");
          else if (s->value && s->value->type != s->var->type) say("a variable is given a value of another type");
          break;
        case loop::StmtKind::Store: {
          bool local = s->array >= kFirstLocal && s->array - kFirstLocal < p.locals.size();
          if (!local && std::find(p.writes.begin(), p.writes.end(), s->array) == p.writes.end()) {
            say("stores to %" + std::to_string(s->array) + ", which is neither a result nor a local");
            break;
          }
          if (!local && !known(s->array)) break;
          size_t rank = local ? p.locals[s->array - kFirstLocal].shape.size() : f_.arrays[s->array].shape.size();
          DType t = local ? p.locals[s->array - kFirstLocal].dtype : f_.arrays[s->array].dtype;
          if (s->index.size() != rank || !s->value || s->value->type.dtype != t) say("a store does not fit its array");
          break;
        }
      }
      block(s->body, p, bound);
      block(s->orelse, p, bound);
    }
  }

  void proc(const Proc& p) {
    std::set<const ir::Dim*> bound;
    for (const ir::Dim* d : p.dims)
      if (!bound.insert(d).second) say("dim '" + d->name + "' is bound twice");
    own_.clear();
    for (uint32_t a : p.writes) {
      if (!known(a)) continue;
      if (f_.arrays[a].kind != Array::Kind::Temp) say("'" + f_.arrays[a].name + "' is written but is no result");
      if (f_.arrays[a].list_depth) say("the list '" + f_.arrays[a].name + "' is written as an array");
      if (state_[a].read) say("'" + f_.arrays[a].name + "' is written after it was read");
      own_.insert(a);
    }
    locals_ = &p.locals;
    block(p.body, p, bound);
    locals_ = nullptr;
    for (uint32_t a : own_) state_[a].read = false;
    own_.clear();
    finish(p.writes);
  }

  // Null if the operand is absent or unknown; marks it as read.
  const Array* operand(uint32_t number) {
    if (number == kNoArray || !known(number)) return nullptr;
    if (!state_[number].written) say("'" + f_.arrays[number].name + "' is read before it is written");
    state_[number].read = true;
    return &f_.arrays[number];
  }
  bool is_single(const Array* a, DType dtype) const {
    return a && a->dtype == dtype && a->list_depth == 0 && std::all_of(a->shape.begin(), a->shape.end(), [](const Expr* e) { return e->is_int(1) || !e->is_const(); });
  }
  static bool alike(const Array* a, const Array* b) {
    return a && b && a->dtype == b->dtype && a->list_depth == b->list_depth && a->shape.size() == b->shape.size();
  }
  const Array* of(const Function& f, uint32_t number) {
    if (number < f.arrays.size()) return &f.arrays[number];
    say("a body has no array %" + std::to_string(number));
    return nullptr;
  }

  void control(const Control& c) {
    using Kind = Control::Kind;
    std::vector<const Array*> in, out;
    for (uint32_t n : c.inputs) in.push_back(operand(n));
    for (uint32_t n : c.outputs) {
      out.push_back(nullptr);
      if (n == kNoArray || !known(n)) continue;
      out.back() = &f_.arrays[n];
      if (out.back()->kind != Array::Kind::Temp) say("'" + out.back()->name + "' is written but is no result");
      if (state_[n].written) say("'" + out.back()->name + "' is written before");
    }
    auto counts = [&](size_t least, size_t most, size_t results, size_t bodies) {
      const bool good = in.size() >= least && in.size() <= most && (results == SIZE_MAX || out.size() == results) && c.bodies.size() == bodies;
      if (!good) say("a control has another number of operands");
      return good;
    };
    auto listed = [&](size_t k) { return in[k] && in[k]->list_depth > 0; };
    auto item = [&](const Array* a, const Array* list) { return !a || !list || (a->dtype == list->dtype && a->list_depth + 1 == list->list_depth); };
    auto number = [&](size_t k) { return k >= in.size() || c.inputs[k] == kNoArray || is_single(in[k], DType::I64); };
    auto array = [&](size_t k, DType dtype) { return in[k] && in[k]->dtype == dtype && !in[k]->list_depth; };
    // An array or list outside (null: not wanted), and what it is inside.
    auto strings = [&](const Array* text, const Array* number) {
      return (!text || text->dtype == DType::Str) && (!number || number->dtype == DType::U64) &&
             (!text || !number || (text->list_depth == number->list_depth && text->shape.size() == number->shape.size()));
    };
    bool good = true;
    switch (c.kind) {
      case Kind::Read:
        good = counts(1, 1, 0, 0) && in[0] && !in[0]->list_depth && (is_int(in[0]->dtype) || in[0]->dtype == DType::Bool) && !c.symbols.empty();
        break;
      case Kind::Branch: good = counts(1, SIZE_MAX, SIZE_MAX, 2) && is_single(in[0], DType::Bool); break;
      case Kind::Loop:
        good = counts(2 + c.carried, SIZE_MAX, SIZE_MAX, 1) && out.size() >= c.carried && number(0) &&
               (c.inputs[1] == kNoArray || is_single(in[1], DType::Bool));
        break;
      case Kind::ListMake:
        good = counts(0, SIZE_MAX, 1, 0) && (!out[0] || out[0]->list_depth > 0);
        for (size_t k = 0; good && k < in.size(); ++k) good = in[k] && item(in[k], out[0]);
        break;
      case Kind::ListInsert: good = counts(2, 3, 1, 0) && listed(0) && in[1] && item(in[1], in[0]) && number(2) && (!out[0] || alike(in[0], out[0])); break;
      case Kind::ListErase: good = counts(1, 2, 1, 0) && listed(0) && number(1) && (!out[0] || alike(in[0], out[0])); break;
      case Kind::ListAt: good = counts(2, 2, 1, 0) && listed(0) && is_single(in[1], DType::I64) && item(out[0], in[0]); break;
      case Kind::ListLength: good = counts(1, 1, 1, 0) && listed(0) && (!out[0] || is_single(out[0], DType::I64)); break;
      case Kind::ListConcat:
        good = counts(1, 1, 1, 0) && listed(0) && item(out[0], in[0]) && (!out[0] || c.set.axis < out[0]->shape.size());
        break;
      case Kind::ListSplit:
        good = counts(1, 2, 1, 0) && in[0] && !in[0]->list_depth && c.set.axis < in[0]->shape.size() && item(in[0], out[0]);
        break;
      case Kind::StringsIn: good = counts(1, 1, 1, 0) && strings(in[0], out[0]); break;
      case Kind::StringsOut: good = counts(1, 1, 1, 0) && strings(out[0], in[0]); break;
      case Kind::StringsMake: good = counts(2, 2, 1, 0) && array(0, DType::U8) && array(1, DType::I64); break;
      case Kind::StringConcat: good = counts(2, 2, 1, 0) && array(0, DType::U64) && array(1, DType::U64) && alike(in[0], in[1]); break;
      case Kind::StringSplit: good = counts(2, 2, 2, 0) && array(0, DType::U64) && is_single(in[1], DType::U64); break;
      case Kind::StringNormalize: good = counts(2, 2, 1, 0) && array(0, DType::U64) && array(1, DType::U64); break;
      case Kind::StringTokens: good = counts(2, 2, 2, 0) && array(0, DType::U64) && array(1, DType::I32); break;
      case Kind::StringRank: good = counts(1, 1, 1, 0) && array(0, DType::U64); break;
      case Kind::StringMatch: good = counts(2, 2, 1, 0) && array(0, DType::U64) && array(1, DType::I32); break;
      case Kind::StringFromNumber: good = counts(1, 1, 1, 0) && in[0] && !in[0]->list_depth; break;
      case Kind::NumberFromString: good = counts(1, 1, 1, 0) && array(0, DType::U64); break;
      case Kind::Host:
        good = counts(0, SIZE_MAX, SIZE_MAX, 0) && !c.service.empty() && c.options.find('\0') == std::string::npos;
        for (const auto* side : {&in, &out})
          for (const Array* a : *side) good = good && a && !a->list_depth && a->dtype != DType::Str;
        break;
    }
    if (!good) say("the operands of a control do not fit its kind");
    for (const ir::Sym* s : c.symbols)
      if (!set_.insert(s).second) say("'" + s->name + "' is set twice");
    if (good && (c.kind == Kind::Branch || c.kind == Kind::Loop)) bodies(c, in, out);
    finish(c.outputs);
  }

  void bodies(const Control& c, const std::vector<const Array*>& in, const std::vector<const Array*>& out) {
    const bool loop = c.kind == Control::Kind::Loop;
    for (const auto& body : c.bodies) {
      if (!body) {
        say("a body is missing");
        continue;
      }
      const size_t first = loop ? 0 : 1;
      if (body->inputs.size() != in.size() - first || body->outputs.size() != out.size() + (loop ? 1 : 0)) {
        say("body '" + body->name + "' has another number of inputs or outputs");
        continue;
      }
      for (size_t k = 0; k < body->inputs.size(); ++k) {
        const Array* inner = of(*body, body->inputs[k]);
        const bool fits = loop && k == 0 ? is_single(inner, DType::I64) : loop && k == 1 ? is_single(inner, DType::Bool) : alike(inner, in[k + first]);
        if (!fits) say("input " + std::to_string(k) + " of body '" + body->name + "' does not fit");
      }
      for (size_t k = 0; k < body->outputs.size(); ++k) {
        const Array* inner = of(*body, body->outputs[k]);
        if (loop && k == 0) {
          if (!is_single(inner, DType::Bool)) say("the condition of body '" + body->name + "' is not one truth value");
          continue;
        }
        const size_t place = k - (loop ? 1 : 0);
        const bool scanned = loop && place >= c.carried;
        if (!inner) continue;
        const Array* outer = loop && !scanned ? in[2 + place] : out[place];
        if (scanned && (inner->list_depth || (outer && (outer->dtype != inner->dtype || outer->shape.size() != inner->shape.size() + 1))))
          say("output " + std::to_string(k) + " of body '" + body->name + "' does not fit");
        if (!scanned && outer && !alike(inner, outer)) say("output " + std::to_string(k) + " of body '" + body->name + "' does not fit");
      }
      if (level_ + 1 > kMaxDepth) {
        say("bodies are nested too deeply");
        continue;
      }
      std::vector<const Expr*> around = conditions(-1);
      for (std::string& line : Verifier(ctx_, *body, options_, level_ + 1, std::move(around)).run())
        if (out_.size() < 100) out_.push_back(where_ + " / " + std::move(line));
    }
  }

  static constexpr int kMaxDepth = 64;
  struct State {
    bool written = false, read = false;
  };

  ir::Context& ctx_;
  const Function& f_;
  VerifyOptions options_;
  std::string where_;
  std::vector<std::string> out_;
  std::vector<State> state_;
  std::set<uint32_t> own_;  // results of the proc that is looked at: it may read back what it wrote
  const std::vector<loop::LocalArray>* locals_ = nullptr;
  std::vector<Path> paths_;
  std::map<std::pair<int, const Expr*>, int> path_of_;
  int depth_ = 0;
  int level_ = 0;  // of bodies
  std::vector<const Expr*> around_;
  std::set<const ir::Sym*> set_;
};

}  // namespace

std::vector<std::string> verify(ir::Context& ctx, const Function& f, const VerifyOptions& options) {
  return Verifier(ctx, f, options).run();
}

Status verified(ir::Context& ctx, const Function& f, const VerifyOptions& options) {
  auto problems = verify(ctx, f, options);
  if (problems.empty()) return ok();
  Status s(Code::Internal, "'" + f.name + "' breaks a rule of the Nest level: " + problems[0]);
  for (size_t i = 1; i < problems.size() && i < 20; ++i) s.facts.push_back(problems[i]);
  return s;
}

}  // namespace mlc::nest
