#include <algorithm>
#include <tuple>

#include "packager/nest/block/block_compiler.h"

namespace mlc::nest {

using ir::Expr;
using ir::Op;

namespace {
constexpr size_t kMaxInstructions = 200000;
constexpr int kMaxDepth = 3000;
}  // namespace

// Slots of all dims, and facts of all there is.
Status BlockCompiler::analyse_all() {
  const Nest& nest = *statement_.nest;
  program_.source = statement_.source;
  for (const ir::Dim* d : nest.dims) add_dim(d);
  program_.map_dims = program_.dims.size();
  std::vector<const Expr*> roots;
  if (nest.where) roots.push_back(nest.where);
  for (const Write& w : nest.writes) {
    roots.insert(roots.end(), w.index.begin(), w.index.end());
    roots.push_back(w.value);
  }
  for (const Expr* r : roots) analyse(r);
  return failed() ? failure() : ok();
}

Result<BlockProgram> BlockCompiler::run() {
  const Nest& nest = *statement_.nest;
  MLC_RETURN_IF_ERROR(analyse_all());
  choose_lane();
  program_.dim_reg.assign(program_.dims.size(), -1);
  Scope top;
  top.code = &program_.code;
  if (nest.where) {
    program_.where_reg = wide(compile(nest.where, top), top);
    top.mask = program_.where_reg;
  }
  for (const Write& w : nest.writes) {
    program_.values.push_back(wide(compile(w.value, top), top));
    program_.stores.push_back(access(w.array, w.index, top));
    program_.stores.back().fault_is_bug = !w.push;
    program_.pushes.push_back(w.push);
    program_.joins.push_back(w.join);
  }
  if (failed()) return failure();
  return std::move(program_);
}

Status BlockCompiler::failure() const { return Status(Code::Internal, statement_.source + ": " + error_); }

void BlockCompiler::fail(std::string text) {
  if (!failed()) error_ = std::move(text);
}

// --- registers ---

Register::Class BlockCompiler::class_of(DType t) {
  if (t == DType::F64) return Register::F64;
  return is_float(t) ? Register::F32 : Register::Int;
}

int BlockCompiler::new_register(Register::Class kind, bool uniform) {
  program_.registers.push_back({kind, uniform});
  if (program_.registers.size() > kMaxInstructions) fail("too large to interpret");
  return static_cast<int>(program_.registers.size()) - 1;
}

int BlockCompiler::constant(DType t, ir::Scalar v, bool is_uniform) {
  int r = new_register(class_of(t), is_uniform);
  program_.constants.push_back({r, v});
  constant_[r] = v;
  return r;
}

// The value with one element per lane.
int BlockCompiler::wide(int r, Scope& scope) {
  if (failed() || !uniform(r)) return r;
  if (auto it = constant_.find(r); it != constant_.end()) {
    auto [known, fresh] = wide_constants_.try_emplace(r, -1);
    if (fresh) {
      known->second = new_register(kind(r), false);
      program_.constants.push_back({known->second, it->second});
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
bool BlockCompiler::level(std::initializer_list<int*> operands, Scope& scope) {
  bool all = true;
  for (int* o : operands) all = all && uniform(*o);
  if (!all)
    for (int* o : operands) *o = wide(*o, scope);
  return all;
}

int BlockCompiler::mask_of(int a, Scope& scope, int outer, bool negate) {
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

// --- expressions ---

int BlockCompiler::compile(const Expr* e, Scope& scope) {
  if (failed()) return 0;
  for (Scope* s = &scope; s; s = s->parent)
    if (auto it = s->done.find(e); it != s->done.end()) return it->second;
  if (++depth_ > kMaxDepth) fail("expression nested too deeply to interpret");
  const Facts& n = facts_.at(e);
  // What reads nothing is computed as far out as its dims allow.
  Scope* home = &scope;
  if (!n.reads && !n.vars)
    while (home->parent && (home->join || !(home->fold_dims & n.dims))) home = home->parent;
  const int r = failed() ? 0 : emit(e, *home);
  home->done[e] = r;
  --depth_;
  return r;
}

int BlockCompiler::compile_masked(const Expr* e, Scope& scope, int condition, bool negate) {
  if (!facts_.at(e).reads) return compile(e, scope);
  Scope arm;
  arm.parent = &scope;
  arm.code = scope.code;
  arm.mask = mask_of(condition, scope, scope.mask, negate);
  return compile(e, arm);
}

int BlockCompiler::emit(const Expr* e, Scope& scope) {
  switch (e->op) {
    case Op::Const: return constant(e->type.dtype, {e->i, e->f});
    case Op::Sym: return constant(DType::I64, {evaluator_.integer(e), 0});
    case Op::Dim: {
      const int slot = slot_.at(e->dim);
      int& r = program_.dim_reg[static_cast<size_t>(slot)];
      if (r < 0) r = new_register(Register::Int, slot != program_.lane);
      return in_phase(r, phase_of(e->dim), scope);
    }
    case Op::Var: fail("variable outside of a combiner"); return 0;
    case Op::Load: return load(e, scope);
    case Op::Fold: return fold(e, scope)[0];
    case Op::Field: return fold(e->args[0], scope)[static_cast<size_t>(e->i)];
    default: return operation(e, scope);
  }
}

// The value of a dim of which `r` says how far along its phase it is.
int BlockCompiler::in_phase(int r, const Phase& phase, Scope& scope) {
  for (auto [op, by, none] : {std::tuple{Op::Mul, phase.step, int64_t{1}}, {Op::Add, phase.first, int64_t{0}}}) {
    if (by == none) continue;
    Instr i;
    i.kind = Instr::Binary;
    i.op = op;
    i.from = i.to = DType::I64;
    i.a = r;
    i.b = constant(DType::I64, {by, 0});
    i.dst = new_register(Register::Int, level({&i.a, &i.b}, scope));
    scope.code->push_back(i);
    r = i.dst;
  }
  return r;
}

// One instruction on the values of the operands, brought to one shape.
int BlockCompiler::operation(const Expr* e, Scope& scope) {
  if (e->args.empty() || e->args.size() > 3) {
    fail("operation that the interpreter does not know");
    return 0;
  }
  Instr i;
  i.op = e->op;
  i.from = e->args[0]->type.dtype;
  i.to = e->type.dtype;
  i.a = compile(e->args[0], scope);
  if (e->op == Op::Select) {
    i.kind = Instr::Select;
    i.b = compile_masked(e->args[1], scope, i.a, false);
    i.c = compile_masked(e->args[2], scope, i.a, true);
  } else if (e->op == Op::And || e->op == Op::Or) {
    i.kind = Instr::Binary;
    i.b = compile_masked(e->args[1], scope, i.a, e->op == Op::Or);
  } else {
    i.kind = e->args.size() == 1 ? Instr::Unary : e->args.size() == 2 ? Instr::Binary : Instr::Fma;
    if (e->args.size() > 1) i.b = compile(e->args[1], scope);
    if (e->args.size() > 2) i.c = compile(e->args[2], scope);
  }
  if (failed()) return 0;
  const bool one = e->args.size() == 1   ? uniform(i.a)
                   : e->args.size() == 2 ? level({&i.a, &i.b}, scope)
                                         : level({&i.a, &i.b, &i.c}, scope);
  i.dst = new_register(class_of(e->type.dtype), one);
  scope.code->push_back(i);
  return i.dst;
}

int BlockCompiler::load(const Expr* e, Scope& scope) {
  AccessCode code = access(e->array, e->args, scope);
  code.fault_is_bug = e->access != ir::Access::Checked;
  code.mask = scope.mask;
  const bool one = std::all_of(code.axes.begin(), code.axes.end(),
                               [&](const AxisIndex& a) { return a.affine ? lane_step(a.at) == 0 : uniform(a.reg); });
  if (!one)
    for (AxisIndex& a : code.axes)
      if (!a.affine) a.reg = wide(a.reg, scope);
  Instr i;
  i.kind = Instr::Load;
  i.op = e->op;
  i.to = e->type.dtype;
  i.code = static_cast<int>(program_.loads.size());
  i.dst = new_register(class_of(e->type.dtype), one);
  program_.loads.push_back(std::move(code));
  scope.code->push_back(i);
  return i.dst;
}

AccessCode BlockCompiler::access(uint32_t array, std::span<const Expr* const> index, Scope& scope) {
  AccessCode code;
  code.array = array;
  Tensor* t = evaluator_.tensor(array);
  if (!t || t->shape.size() != index.size()) {
    fail("'" + evaluator_.name(array) + "' is used with " + std::to_string(index.size()) + " indices");
    return code;
  }
  code.dtype = t->dtype;
  code.extents = t->shape;
  code.strides.assign(index.size(), 1);
  for (size_t i = index.size(); i-- > 1;) code.strides[i - 1] = code.strides[i] * t->shape[i];
  code.all_affine = true;
  code.linear.k.assign(program_.dims.size(), 0);
  for (size_t i = 0; i < index.size(); ++i) {
    AxisIndex a;
    if (const auto& known = facts_.at(index[i]).affine) {
      a.affine = true;
      a.at = *known;
      a.at.k.resize(program_.dims.size());
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

Result<std::vector<BlockProgram>> compile_block(const Statement& s, Evaluator& at) {
  MLC_ASSIGN(std::vector<Phases> all, BlockCompiler(s, at).phases());
  if (all.empty()) all.emplace_back();
  std::vector<BlockProgram> programs;
  for (Phases& phases : all) {
    MLC_ASSIGN(BlockProgram program, BlockCompiler(s, at, std::move(phases)).run());
    programs.push_back(std::move(program));
  }
  return programs;
}

}  // namespace mlc::nest
