#include "packager/nest/block.h"

#include <algorithm>
#include <bit>
#include <optional>

namespace mlc::nest {

using ir::Expr;
using ir::Op;

namespace {

constexpr size_t kMaxInstructions = 200000;
constexpr int kMaxDepth = 3000;

struct NodeInfo {
  uint64_t dims = 0;
  bool reads = false;  // contains a load
  bool vars = false;
  std::optional<Affine> affine;
};

// Where instructions go. Scopes nest: the arm of a Select (other mask, same list), the body of a fold (own list).
struct Scope {
  Scope* parent = nullptr;
  std::vector<Instr>* code = nullptr;
  int mask = -1;
  uint64_t fold_dims = 0;  // not zero: the list runs once per point of these
  bool join = false;       // list of a combiner: its Vars live here
  std::unordered_map<const Expr*, int> done;
  std::unordered_map<const Expr*, std::vector<int>> folds;  // results by field
  std::unordered_map<int, int> widened;  // uniform register -> one per lane
};

Register::Class class_of(DType t) {
  if (t == DType::F64) return Register::F64;
  return is_float(t) ? Register::F32 : Register::Int;
}

class Compiler {
 public:
  Compiler(const Function& f, const Statement& s, Evaluator& at) : f_(f), s_(s), at_(at) {}

  Result<BlockProgram> run() {
    const Nest& nest = *s_.nest;
    p_.source = s_.source;
    for (const ir::Dim* d : nest.dims) add_dim(d);
    p_.map_dims = p_.dims.size();
    std::vector<const Expr*> roots;
    if (nest.where) roots.push_back(nest.where);
    for (const Write& w : nest.writes) {
      roots.insert(roots.end(), w.index.begin(), w.index.end());
      roots.push_back(w.value);
    }
    for (const Expr* r : roots) analyse(r);
    if (!error_.empty()) return failure();
    choose_lane();
    p_.dim_reg.assign(p_.dims.size(), -1);
    Scope top;
    top.code = &p_.code;
    if (nest.where) {
      p_.where_reg = wide(compile(nest.where, top), top);
      top.mask = p_.where_reg;
    }
    for (const Write& w : nest.writes) {
      p_.values.push_back(wide(compile(w.value, top), top));
      p_.stores.push_back(access(w.array, w.index, top));
      p_.stores.back().fault_is_bug = !w.push;
      p_.pushes.push_back(w.push);
      p_.joins.push_back(w.join);
    }
    if (p_.registers.size() > kMaxInstructions) fail("too large to interpret");
    if (!error_.empty()) return failure();
    return std::move(p_);
  }

 private:
  Status failure() { return Status(Code::Internal, s_.source + ": " + error_); }
  void fail(std::string text) {
    if (error_.empty()) error_ = std::move(text);
  }

  void add_dim(const ir::Dim* d) {
    if (slot_.contains(d)) return;
    slot_[d] = static_cast<int>(p_.dims.size());
    p_.dims.push_back(d);
    p_.extents.push_back(at_.integer(d->extent));
    if (at_.fault.failed) fail(at_.fault.message);
    if (p_.dims.size() > 64) fail("more than 64 dims in one nest");
  }

  // Facts of every node below, once.
  void analyse(const Expr* root) {
    // Fold dims get slots before anything mentions them.
    ir::walk(root, [&](const Expr* e) {
      if (e->op == Op::Fold) for (const ir::Dim* d : e->fold->dims) add_dim(d);
    });
    if (!error_.empty()) return;
    ir::walk(root, [&](const Expr* e) {
      if (info_.contains(e)) return;
      NodeInfo n;
      for (const Expr* a : e->args) merge(n, a);
      if (e->op == Op::Fold) {
        if (e->fold->where) merge(n, e->fold->where);
        for (const ir::Dim* d : e->fold->dims) n.dims &= ~bit(d);
        if (e->fold->combiner->join == ir::Join::Custom) {
          for (const Expr* j : e->fold->combiner->joins) analyse_join(j);
          for (const Expr* u : e->fold->combiner->units) analyse_join(u);
        }
      }
      n.reads |= e->op == Op::Load;
      n.vars |= e->op == Op::Var;
      if (e->op == Op::Dim) {
        if (slot_.contains(e->dim)) n.dims |= bit(e->dim);
        else fail("dim '" + e->dim->name + "' is not bound here");
      }
      if (e->type.lanes != 1) fail("vector in a nest");
      if (error_.empty()) n.affine = affine(e);
      info_.emplace(e, std::move(n));
    });
  }
  void analyse_join(const Expr* root) {
    ir::walk(root, [&](const Expr* e) {
      NodeInfo n;
      for (const Expr* a : e->args) merge(n, a);
      n.vars |= e->op == Op::Var;
      if (e->op == Op::Load || e->op == Op::Fold || e->op == Op::Dim) fail("a combiner reads something");
      info_.emplace(e, std::move(n));
    });
  }
  void merge(NodeInfo& n, const Expr* a) {
    const NodeInfo& m = info_.at(a);
    n.dims |= m.dims;
    n.reads |= m.reads;
    n.vars |= m.vars;
  }
  uint64_t bit(const ir::Dim* d) const { return uint64_t{1} << slot_.at(d); }

  std::optional<Affine> affine(const Expr* e) {
    if (e->type != ir::Type{DType::I64, 1}) return std::nullopt;
    auto arg = [&](size_t i) -> const std::optional<Affine>& { return info_.at(e->args[i]).affine; };
    auto constant = [&](const std::optional<Affine>& a) {
      return a && std::all_of(a->k.begin(), a->k.end(), [](int64_t k) { return k == 0; });
    };
    Affine r;
    switch (e->op) {
      case Op::Const: r.c = e->i; break;
      case Op::Sym: r.c = at_.integer(e); if (at_.fault.failed) fail(at_.fault.message); break;
      case Op::Dim:
        r.k.assign(static_cast<size_t>(slot_.at(e->dim)) + 1, 0);
        r.k.back() = 1;
        break;
      case Op::Neg: case Op::Add: case Op::Sub: {
        if (!arg(0) || (e->op != Op::Neg && !arg(1))) return std::nullopt;
        r = *arg(0);
        if (e->op == Op::Neg) { if (!scale(r, -1)) return std::nullopt; break; }
        Affine b = *arg(1);
        if (e->op == Op::Sub && !scale(b, -1)) return std::nullopt;
        r.k.resize(std::max(r.k.size(), b.k.size()));
        bool over = __builtin_add_overflow(r.c, b.c, &r.c);
        for (size_t i = 0; i < b.k.size(); ++i) over |= __builtin_add_overflow(r.k[i], b.k[i], &r.k[i]);
        if (over) return std::nullopt;
        break;
      }
      case Op::Mul:
        if (constant(arg(1)) && arg(0)) { r = *arg(0); if (!scale(r, arg(1)->c)) return std::nullopt; break; }
        if (constant(arg(0)) && arg(1)) { r = *arg(1); if (!scale(r, arg(0)->c)) return std::nullopt; break; }
        return std::nullopt;
      case Op::FloorDiv: case Op::FloorMod: case Op::Min: case Op::Max:
        if (!constant(arg(0)) || !constant(arg(1))) return std::nullopt;
        r.c = ir::apply_binary(e->op, DType::I64, {arg(0)->c, 0}, {arg(1)->c, 0}).i;
        break;
      default: return std::nullopt;
    }
    return r;
  }
  static bool scale(Affine& a, int64_t by) {
    bool over = __builtin_mul_overflow(a.c, by, &a.c);
    for (int64_t& k : a.k) over |= __builtin_mul_overflow(k, by, &k);
    return !over;
  }

  void choose_lane() {
    bool ordered = std::any_of(s_.nest->writes.begin(), s_.nest->writes.end(), [](const Write& w) { return w.push; });
    if (p_.map_dims == 0) return;
    p_.lane = static_cast<int>(p_.map_dims) - 1;
    if (ordered) return;
    for (int d = static_cast<int>(p_.map_dims) - 1; d >= 0; --d)
      if (p_.extents[static_cast<size_t>(d)] >= 5) {
        p_.lane = d;
        return;
      }
    for (int d = static_cast<int>(p_.map_dims) - 1; d >= 0; --d)
      if (p_.extents[static_cast<size_t>(d)] > p_.extents[static_cast<size_t>(p_.lane)]) p_.lane = d;
  }

  int new_register(Register::Class kind, bool uniform) {
    p_.registers.push_back({kind, uniform});
    if (p_.registers.size() > kMaxInstructions) fail("too large to interpret");
    return static_cast<int>(p_.registers.size()) - 1;
  }
  bool uniform(int r) const { return p_.registers[static_cast<size_t>(r)].uniform; }
  Register::Class kind(int r) const { return p_.registers[static_cast<size_t>(r)].kind; }

  int constant(DType t, ir::Scalar v, bool is_uniform = true) {
    int r = new_register(class_of(t), is_uniform);
    p_.constants.push_back({r, v});
    constant_[r] = v;
    return r;
  }

  // The value with one element per lane.
  int wide(int r, Scope& scope) {
    if (!error_.empty() || !uniform(r)) return r;
    if (auto it = constant_.find(r); it != constant_.end()) {
      auto [known, fresh] = wide_constants_.try_emplace(r, -1);
      if (fresh) {
        known->second = new_register(kind(r), false);
        p_.constants.push_back({known->second, it->second});
      }
      return known->second;
    }
    for (Scope* s = &scope; s; s = s->parent)
      if (auto it = s->widened.find(r); it != s->widened.end()) return it->second;
    int w = new_register(kind(r), false);
    Instr i;
    i.kind = Instr::Broadcast;
    i.dst = w;
    i.a = r;
    scope.code->push_back(i);
    scope.widened[r] = w;
    return w;
  }
  // Brings operands to one shape; true if the result is uniform.
  bool level(std::initializer_list<int*> operands, Scope& scope) {
    bool all = true;
    for (int* o : operands) all = all && uniform(*o);
    if (!all)
      for (int* o : operands) *o = wide(*o, scope);
    return all;
  }

  int mask_of(int a, Scope& scope, int outer, bool negate) {
    int always = outer < 0 ? constant(DType::Bool, {1, 0}) : outer;
    Instr i;
    i.kind = negate ? Instr::MaskAndNot : Instr::MaskAnd;
    i.a = always;
    i.b = a;
    bool one = level({&i.a, &i.b}, scope);
    i.dst = new_register(Register::Int, one);
    scope.code->push_back(i);
    return i.dst;
  }

  int compile(const Expr* e, Scope& scope) {
    if (!error_.empty()) return 0;
    for (Scope* s = &scope; s; s = s->parent)
      if (auto it = s->done.find(e); it != s->done.end()) return it->second;
    if (++depth_ > kMaxDepth) fail("expression nested too deeply to interpret");
    const NodeInfo& n = info_.at(e);
    // What reads nothing is computed as far out as its dims allow.
    Scope* home = &scope;
    if (!n.reads && !n.vars)
      while (home->parent && (home->join || !(home->fold_dims & n.dims))) home = home->parent;
    int r = error_.empty() ? emit(e, *home) : 0;
    home->done[e] = r;
    --depth_;
    return r;
  }

  int compile_masked(const Expr* e, Scope& scope, int condition, bool negate) {
    if (!info_.at(e).reads) return compile(e, scope);
    Scope arm;
    arm.parent = &scope;
    arm.code = scope.code;
    arm.mask = mask_of(condition, scope, scope.mask, negate);
    return compile(e, arm);
  }

  int emit(const Expr* e, Scope& scope) {
    Instr i;
    i.op = e->op;
    i.to = e->type.dtype;
    switch (e->op) {
      case Op::Const: return constant(e->type.dtype, {e->i, e->f});
      case Op::Sym: return constant(DType::I64, {at_.integer(e), 0});
      case Op::Dim: {
        int& r = p_.dim_reg[static_cast<size_t>(slot_.at(e->dim))];
        if (r < 0) r = new_register(Register::Int, slot_.at(e->dim) != p_.lane);
        return r;
      }
      case Op::Var: fail("variable outside of a combiner"); return 0;
      case Op::Load: {
        p_.loads.push_back(access(e->array, e->args, scope));
        AccessCode& code = p_.loads.back();
        code.fault_is_bug = e->access != ir::Access::Checked;
        code.mask = scope.mask;
        i.kind = Instr::Load;
        i.code = static_cast<int>(p_.loads.size()) - 1;
        bool one = true;
        for (const AxisIndex& a : code.axes)
          one = one && (a.affine ? p_.lane < 0 || static_cast<size_t>(p_.lane) >= a.at.k.size() ||
                                       a.at.k[static_cast<size_t>(p_.lane)] == 0
                                 : uniform(a.reg));
        if (!one)
          for (size_t k = 0; k < code.axes.size(); ++k)
            if (!p_.loads[static_cast<size_t>(i.code)].axes[k].affine) {
              int w = wide(p_.loads[static_cast<size_t>(i.code)].axes[k].reg, scope);
              p_.loads[static_cast<size_t>(i.code)].axes[k].reg = w;
            }
        i.dst = new_register(class_of(e->type.dtype), one);
        scope.code->push_back(i);
        return i.dst;
      }
      case Op::Fold: return fold(e, scope)[0];
      case Op::Field: return fold(e->args[0], scope)[static_cast<size_t>(e->i)];
      case Op::Select: {
        i.kind = Instr::Select;
        i.a = compile(e->args[0], scope);
        i.b = compile_masked(e->args[1], scope, i.a, false);
        i.c = compile_masked(e->args[2], scope, i.a, true);
        if (!error_.empty()) return 0;
        bool one = level({&i.a, &i.b, &i.c}, scope);
        i.dst = new_register(class_of(e->type.dtype), one);
        break;
      }
      case Op::And: case Op::Or: {
        i.kind = Instr::Binary;
        i.from = DType::Bool;
        i.a = compile(e->args[0], scope);
        i.b = compile_masked(e->args[1], scope, i.a, e->op == Op::Or);
        if (!error_.empty()) return 0;
        bool one = level({&i.a, &i.b}, scope);
        i.dst = new_register(Register::Int, one);
        break;
      }
      default: {
        int* operands[] = {&i.a, &i.b, &i.c};
        if (e->args.empty() || e->args.size() > 3) {
          fail("operation that the interpreter does not know");
          return 0;
        }
        i.kind = e->args.size() == 1 ? Instr::Unary : e->args.size() == 2 ? Instr::Binary : Instr::Fma;
        for (size_t k = 0; k < e->args.size(); ++k) *operands[k] = compile(e->args[k], scope);
        if (!error_.empty()) return 0;
        i.from = e->args[0]->type.dtype;
        bool one = e->args.size() == 1   ? uniform(i.a)
                   : e->args.size() == 2 ? level({&i.a, &i.b}, scope)
                                         : level({&i.a, &i.b, &i.c}, scope);
        i.dst = new_register(class_of(e->type.dtype), one);
        break;
      }
    }
    scope.code->push_back(i);
    return i.dst;
  }

  template <class Indices>
  AccessCode access(uint32_t array, const Indices& index, Scope& scope) {
    AccessCode code;
    code.array = array;
    Tensor* t = at_.tensor(array);
    if (!t || t->shape.size() != index.size()) {
      fail("'" + at_.name(array) + "' is used with " + std::to_string(index.size()) + " indices");
      return code;
    }
    code.dtype = t->dtype;
    code.extents = t->shape;
    code.strides.assign(index.size(), 1);
    for (size_t i = index.size(); i-- > 1;) code.strides[i - 1] = code.strides[i] * t->shape[i];
    code.all_affine = true;
    code.linear.k.assign(p_.dims.size(), 0);
    for (size_t i = 0; i < index.size(); ++i) {
      AxisIndex a;
      if (const auto& known = info_.at(index[i]).affine) {
        a.affine = true;
        a.at = *known;
        a.at.k.resize(p_.dims.size());
        a.inside = inside(a.at, t->shape[i]);
        code.linear.c += code.strides[i] * a.at.c;
        for (size_t d = 0; d < a.at.k.size(); ++d) code.linear.k[d] += code.strides[i] * a.at.k[d];
      } else {
        code.all_affine = false;
        a.reg = compile(index[i], scope);
      }
      code.axes.push_back(std::move(a));
    }
    return code;
  }

  // Range over all values of all dims.
  std::pair<__int128, __int128> range(const Affine& a) const {
    __int128 lo = a.c, hi = a.c;
    for (size_t d = 0; d < a.k.size(); ++d) {
      __int128 last = static_cast<__int128>(a.k[d]) * std::max<int64_t>(0, p_.extents[d] - 1);
      (last < 0 ? lo : hi) += last;
    }
    return {lo, hi};
  }
  bool inside(const Affine& a, int64_t extent) const {
    auto [lo, hi] = range(a);
    return lo >= 0 && hi < extent;
  }

  // Conditions as affine expressions >= 0; false if there is one of another kind.
  bool affine_conditions(const Expr* where, std::vector<Affine>& out) {
    std::vector<const Expr*> stack{where};
    while (!stack.empty()) {
      const Expr* e = stack.back();
      stack.pop_back();
      if (e->op == Op::And) {
        stack.insert(stack.end(), e->args.begin(), e->args.end());
        continue;
      }
      if ((e->op != Op::Lt && e->op != Op::Le) || e->args[0]->type.dtype != DType::I64) return false;
      const auto &x = info_.at(e->args[0]).affine, &y = info_.at(e->args[1]).affine;
      if (!x || !y) return false;
      Affine d = *y, minus = *x;
      if (!scale(minus, -1)) return false;
      d.k.resize(p_.dims.size());
      d.c += minus.c - (e->op == Op::Lt);
      for (size_t k = 0; k < minus.k.size(); ++k) d.k[k] += minus.k[k];
      if (range(d).first < 0) out.push_back(std::move(d));  // the others hold everywhere
    }
    return true;
  }

  const std::vector<int>& fold(const Expr* e, Scope& scope) {
    for (Scope* s = &scope; s; s = s->parent)
      if (auto it = s->folds.find(e); it != s->folds.end()) return it->second;
    const ir::Fold& f = *e->fold;
    FoldCode code;
    code.combiner = f.combiner;
    code.mask = scope.mask;
    DType t = e->type.dtype;
    bool narrow = is_float(t) && bits_of(t) < 32;
    code.wide = f.combiner->join == ir::Join::Sum && narrow ? DType::F32 : t;
    uint64_t dims = 0;
    for (const ir::Dim* d : f.dims) {
      code.dims.push_back(slot_.at(d));
      dims |= bit(d);
    }
    Scope body;
    body.parent = &scope;
    body.fold_dims = dims;
    body.mask = scope.mask;
    std::vector<int>& result = scope.folds[e];
    size_t fields = e->args.size();
    const Expr* b = e->args[0];
    if (f.combiner->join == ir::Join::Sum && t == DType::F32 && b->op == Op::Mul && b->args[0]->op == Op::Load &&
        b->args[1]->op == Op::Load && scope.mask < 0 && !code.dims.empty() &&
        b->args[0]->access == ir::Access::Proved && b->args[1]->access == ir::Access::Proved &&
        (!f.where || affine_conditions(f.where, code.conditions))) {
      std::vector<Instr> unused;
      body.code = &unused;
      bool affine_all = true;
      for (const Expr* l : b->args)
        for (const Expr* i : l->args) affine_all = affine_all && info_.at(i).affine;
      if (affine_all) {
        code.x = access(b->args[0]->array, b->args[0]->args, body);
        code.y = access(b->args[1]->array, b->args[1]->args, body);
        code.multiply_add = true;
      }
    }
    bool one = true;
    if (code.multiply_add) {
      if (p_.lane >= 0) {
        size_t l = static_cast<size_t>(p_.lane);
        one = code.x.linear.k[l] == 0 && code.y.linear.k[l] == 0;
        for (const Affine& a : code.conditions) one = one && a.k[l] == 0;
      }
      code.totals.push_back(new_register(Register::F32, one));
      if (!one) group(code);
    } else {
      if (f.where) {
        body.code = &code.where;
        code.where_reg = compile(f.where, body);
        if (!error_.empty()) return dummy(result, fields);
        if (scope.mask >= 0) code.where_reg = mask_of(code.where_reg, body, scope.mask, false);
        code.check_reg = body.mask = code.where_reg;
        one = uniform(code.where_reg);
      }
      body.code = &code.body;
      for (const Expr* item : e->args) code.items.push_back(compile(item, body));
      if (!error_.empty()) return dummy(result, fields);
      for (int r : code.items) one = one && uniform(r);
      if (!one) {
        for (int& r : code.items) r = wide(r, body);
        if (code.where_reg >= 0) code.where_reg = wide(code.where_reg, body);
      }
      for (const Expr* item : e->args) code.totals.push_back(new_register(class_of(item->type.dtype), one));
      if (f.combiner->join == ir::Join::Custom) {
        Scope join;
        join.parent = &scope;
        join.code = &code.join;
        join.join = true;
        for (size_t k = 0; k < fields; ++k) {
          join.done[f.combiner->left[k]] = code.totals[k];
          join.done[f.combiner->right[k]] = code.items[k];
        }
        for (const Expr* u : f.combiner->units) {
          int r = compile(u, scope);
          if (!error_.empty()) return dummy(result, fields);
          code.units.push_back(one ? r : wide(r, scope));
        }
        for (const Expr* j : f.combiner->joins) {
          int r = compile(j, join);
          if (!error_.empty()) return dummy(result, fields);
          code.joined.push_back(one ? r : wide(r, join));
        }
      } else {
        auto unit = at_.units(f.combiner, code.wide);
        code.units.push_back(constant(code.wide, unit[0], one));
      }
    }
    p_.folds.push_back(std::move(code));
    Instr i;
    i.kind = Instr::Fold;
    i.code = static_cast<int>(p_.folds.size()) - 1;
    i.to = t;
    scope.code->push_back(i);
    FoldCode& stored = p_.folds.back();
    for (size_t k = 0; k < fields; ++k) {
      // Results have registers of their own: the accumulators are used again when the fold is.
      int r = new_register(class_of(e->args[k]->type.dtype), one);
      Instr copy;
      copy.kind = Instr::Copy;
      copy.dst = r;
      copy.a = stored.totals[k];
      copy.to = e->args[k]->type.dtype;
      scope.code->push_back(copy);
      result.push_back(r);
    }
    return result;
  }
  void group(FoldCode& f) {
    size_t l = static_cast<size_t>(p_.lane);
    if ((f.x.linear.k[l] == 0) == (f.y.linear.k[l] == 0)) return;
    f.x_is_vector = f.x.linear.k[l] != 0;
    const AccessCode &vector = f.x_is_vector ? f.x : f.y, &scalar = f.x_is_vector ? f.y : f.x;
    for (const AxisIndex& a : scalar.axes)
      if (!a.inside) return;
    int best = -1;
    for (size_t d = 0; d < p_.map_dims; ++d) {
      bool usable = scalar.linear.k[d] != 0 && p_.extents[d] > 1;
      for (const AxisIndex& a : vector.axes) usable = usable && a.at.k[d] == 0;
      for (const Affine& c : f.conditions) usable = usable && c.k[d] == 0;
      if (usable && (best < 0 || p_.extents[d] > p_.extents[static_cast<size_t>(best)])) best = static_cast<int>(d);
    }
    if (best < 0 || (p_.group >= 0 && p_.group != best)) return;
    p_.group = best;
    f.grouped = true;
  }
  const std::vector<int>& dummy(std::vector<int>& result, size_t fields) {
    result.assign(fields, 0);
    return result;
  }

  const Function& f_;
  const Statement& s_;
  Evaluator& at_;
  BlockProgram p_;
  std::unordered_map<const ir::Dim*, int> slot_;
  std::unordered_map<const Expr*, NodeInfo> info_;
  std::unordered_map<int, ir::Scalar> constant_;  // registers that hold one
  std::unordered_map<int, int> wide_constants_;
  std::string error_;
  int depth_ = 0;
};

}  // namespace

Result<BlockProgram> compile_block(const Function& f, const Statement& s, Evaluator& at) { return Compiler(f, s, at).run(); }

}  // namespace mlc::nest
