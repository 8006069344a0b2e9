#include "packager/nest/evaluate/evaluate.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "packager/nest/proc.h"

namespace mlc::nest {

using ir::Expr;
using ir::Op;
using ir::Scalar;

DType accumulator(const ir::Combiner& c, DType t) {
  bool narrow = is_float(t) && bits_of(t) < 32;
  return c.join == ir::Join::Sum && narrow ? DType::F32 : t;
}

Op op_of(ir::Join join) {
  switch (join) {
    case ir::Join::Sum: return Op::Add;
    case ir::Join::Prod: return Op::Mul;
    case ir::Join::Min: return Op::Min;
    case ir::Join::Max: return Op::Max;
    case ir::Join::Any: return Op::Or;
    case ir::Join::All: return Op::And;
    case ir::Join::Last: case ir::Join::Custom: break;
  }
  return Op::Const;
}

std::string index_fault(const std::string& array, size_t axis, int64_t index, int64_t extent) {
  return "index " + std::to_string(index) + " of axis " + std::to_string(axis) + " is outside of '" + array + "', which has " +
         std::to_string(extent) + " there";
}

Tensor* Evaluator::tensor(uint32_t number) {
  if (number >= kFirstLocal) return number - kFirstLocal < locals.size() ? &locals[number - kFirstLocal] : nullptr;
  return number < arrays->size() ? &(*arrays)[number] : nullptr;
}

std::string Evaluator::name(uint32_t number) const {
  if (number >= kFirstLocal) return "local " + std::to_string(number - kFirstLocal);
  return number < function->arrays.size() ? function->arrays[number].name : "array " + std::to_string(number);
}

int64_t Evaluator::element(uint32_t array, std::span<const int64_t> index, bool bug) {
  Tensor* t = tensor(array);
  if (!t || t->shape.size() != index.size()) {
    fault.set(true, "'" + name(array) + "' is used with " + std::to_string(index.size()) + " indices");
    return -1;
  }
  int64_t at = 0;
  for (size_t i = 0; i < index.size(); ++i) {
    if (index[i] < 0 || index[i] >= t->shape[i]) {
      fault.set(bug, index_fault(name(array), i, index[i], t->shape[i]));
      return -1;
    }
    at = at * t->shape[i] + index[i];
  }
  return at;
}

namespace {

// What loops of procs do most, without the general form; the same bits. False: it is something else.
inline bool usual_binary(Op op, DType type, Scalar a, Scalar b, Scalar& r) {
  if (type == DType::F32) {
    const float x = static_cast<float>(a.f), y = static_cast<float>(b.f);
    switch (op) {
      case Op::Add: r = {0, x + y}; return true;
      case Op::Sub: r = {0, x - y}; return true;
      case Op::Mul: r = {0, x * y}; return true;
      case Op::Lt: r = {a.f < b.f, 0}; return true;
      case Op::Le: r = {a.f <= b.f, 0}; return true;
      case Op::Min: r = {0, x != x ? x : y != y ? y : x < y ? x : y}; return true;
      case Op::Max: r = {0, x != x ? x : y != y ? y : x > y ? x : y}; return true;
      default: return false;
    }
  }
  if (type != DType::I64) return false;
  const uint64_t x = static_cast<uint64_t>(a.i), y = static_cast<uint64_t>(b.i);
  switch (op) {
    case Op::Add: r = {static_cast<int64_t>(x + y), 0}; return true;
    case Op::Sub: r = {static_cast<int64_t>(x - y), 0}; return true;
    case Op::Mul: r = {static_cast<int64_t>(x * y), 0}; return true;
    case Op::Lt: r = {a.i < b.i, 0}; return true;
    case Op::Le: r = {a.i <= b.i, 0}; return true;
    case Op::Eq: r = {a.i == b.i, 0}; return true;
    default: return false;
  }
}

}  // namespace

Scalar Evaluator::value(const Expr* e) {
  if (fault.failed) return {};
  if (e->op == Op::Const) return {e->i, e->f};
  if (e->op == Op::Var)
    if (const Scalar* found = vars.find(static_cast<size_t>(e->i))) return *found;
  if (++depth_ > 4000) {
    fault.set(true, "expression nested too deeply to interpret");
    --depth_;
    return {};
  }
  struct Leave {
    int& depth;
    ~Leave() { --depth; }
  } leave{depth_};
  switch (e->op) {
    case Op::Const: return {e->i, e->f};
    case Op::Sym: {
      auto it = symbols->find(e->sym);
      if (it == symbols->end()) {
        fault.set(true, "symbol '" + e->sym->name + "' has no value here");
        return {};
      }
      return {it->second, 0};
    }
    case Op::Dim: {
      const int64_t* found = dims.find(e->dim->id);
      if (!found) {
        fault.set(true, "dim '" + e->dim->name + "' is not bound here");
        return {};
      }
      return {*found, 0};
    }
    case Op::Var: {
      const Scalar* found = vars.find(static_cast<size_t>(e->i));
      if (!found) {
        fault.set(true, "variable #" + std::to_string(e->i) + " has no value here");
        return {};
      }
      return *found;
    }
    case Op::Load: {
      const int64_t at = element_of(e);
      return at < 0 ? Scalar{} : ir::load_element(e->type.dtype, tensor(e->array)->bytes.data(), static_cast<uint64_t>(at));
    }
    case Op::Fold: return e->fold->combiner->join == ir::Join::Custom || e->fold->combiner->join == ir::Join::Last ? fold(e)[0] : fold_of_one(e);
    case Op::Field: {
      auto all = fold(e->args[0]);
      return static_cast<size_t>(e->i) < all.size() ? all[static_cast<size_t>(e->i)] : Scalar{};
    }
    case Op::Select: return value(e->args[integer(e->args[0]) ? 1 : 2]);
    case Op::And: return integer(e->args[0]) ? value(e->args[1]) : Scalar{0, 0};
    case Op::Or: return integer(e->args[0]) ? Scalar{1, 0} : value(e->args[1]);
    case Op::Fma: {
      DType t = e->type.dtype;
      return ir::apply_binary(Op::Add, t, ir::apply_binary(Op::Mul, t, value(e->args[0]), value(e->args[1])), value(e->args[2]));
    }
    default: break;
  }
  if (e->type.lanes != 1) {
    fault.set(true, "vector in a nest");
    return {};
  }
  if (e->args.size() == 1) return ir::apply_unary(e->op, e->args[0]->type.dtype, e->type.dtype, value(e->args[0]));
  Scalar a = value(e->args[0]), b = value(e->args[1]), r;
  if (usual_binary(e->op, e->args[0]->type.dtype, a, b, r)) return r;
  return ir::apply_binary(e->op, e->args[0]->type.dtype, a, b);
}

namespace {

// What changes nothing in a built-in join.
Scalar unit(ir::Join join, DType t) {
  switch (join) {
    case ir::Join::Sum: case ir::Join::Last: case ir::Join::Any: case ir::Join::Custom: break;
    case ir::Join::Prod: return {1, 1};
    case ir::Join::Min: return {ir::highest_int(t), HUGE_VAL};
    case ir::Join::Max: return {ir::lowest_int(t), -HUGE_VAL};
    case ir::Join::All: return {1, 0};
  }
  return {};
}

}  // namespace

std::vector<Scalar> Evaluator::units(const ir::Combiner* c, DType t) {
  if (c->join != ir::Join::Custom) return {unit(c->join, t)};
  std::vector<Scalar> all;
  for (const Expr* e : c->units) all.push_back(value(e));
  return all;
}

void Evaluator::combine(const ir::Combiner* c, DType t, std::vector<Scalar>& left, const std::vector<Scalar>& right) {
  if (c->join == ir::Join::Last) {
    left = right;
  } else if (c->join != ir::Join::Custom) {
    left[0] = ir::apply_binary(op_of(c->join), t, left[0], right[0]);
  } else {
    for (size_t f = 0; f < left.size(); ++f) {
      vars.at(static_cast<size_t>(c->left[f]->i)) = left[f];
      vars.at(static_cast<size_t>(c->right[f]->i)) = right[f];
    }
    std::vector<Scalar> joined;
    for (const Expr* j : c->joins) joined.push_back(value(j));
    left = std::move(joined);
  }
}

// The element that a load reads, or -1 with the fault set.
int64_t Evaluator::element_of(const Expr* load) {
  // Inside of the array, which is known without more ado.
  if (const Tensor* t = tensor(load->array); t && t->shape.size() == load->args.size()) {
    int64_t at = 0;
    bool inside = true;
    for (size_t k = 0; k < load->args.size() && inside; ++k) {
      const int64_t index = integer(load->args[k]);
      inside = static_cast<uint64_t>(index) < static_cast<uint64_t>(t->shape[k]);
      if (inside) at = at * t->shape[k] + index;
    }
    if (inside) return fault.failed ? -1 : at;
    if (fault.failed) return -1;
  }
  constexpr size_t kUsual = 8;
  int64_t few[kUsual];
  std::vector<int64_t> many(load->args.size() > kUsual ? load->args.size() : 0);
  const std::span<int64_t> index = many.empty() ? std::span(few, load->args.size()) : std::span(many);
  for (size_t k = 0; k < index.size(); ++k) index[k] = integer(load->args[k]);
  return fault.failed ? -1 : element(load->array, index, load->access != ir::Access::Checked);
}

// Whether the indices of a load grow evenly along a dim: sums of it, of what does not depend on it, and of its multiples.
bool Evaluator::is_linear(const Expr* load, Along along) {
  const auto [known, is_new] = linear_.try_emplace(load, along, true);
  if (!is_new && known->second.first == along) return known->second.second;
  bool linear = true;
  const auto depends = [&](const Expr* e) {
    bool found = false;
    ir::walk(e, [&](const Expr* x) { found = found || along.is(x); });
    return found;
  };
  std::vector<const Expr*> open(load->args.begin(), load->args.end());
  while (linear && !open.empty()) {
    const Expr* e = open.back();
    open.pop_back();
    if (!depends(e) || along.is(e)) continue;
    if (e->op == Op::Add || e->op == Op::Sub) open.insert(open.end(), e->args.begin(), e->args.end());
    else if (e->op == Op::Mul && !depends(e->args[0])) open.push_back(e->args[1]);
    else if (e->op == Op::Mul && !depends(e->args[1])) open.push_back(e->args[0]);
    else linear = false;
  }
  known->second = {along, linear};
  return linear;
}

namespace {

constexpr size_t kMostFactors = 3;

// The factors of a product in `type` in the order in which they are multiplied: (a*b)*c. Other products are no such list.
bool factors_of(const Expr* e, DType type, std::vector<Factor>& factors) {
  if (e->op == Op::Mul && e->type.dtype == type && !factors_of(e->args[0], type, factors)) return false;
  const auto last = factor_of(e->op == Op::Mul ? e->args[1] : e, type);
  if (!last) return false;
  factors.push_back(*last);
  return factors.size() <= kMostFactors;
}

// What is added to a variable; null: the value is no such sum.
const Expr* added_to(const Expr* var, const Expr* value) {
  if (value->op != Op::Add) return nullptr;
  return value->args[0] == var ? value->args[1] : value->args[1] == var ? value->args[0] : nullptr;
}

}  // namespace

bool Evaluator::are_linear(const std::vector<Factor>& factors, Along along) {
  return std::all_of(factors.begin(), factors.end(), [&](const Factor& f) {
    return is_linear(f.of, along) && (!f.less || f.less->op != Op::Load || is_linear(f.less, along));
  });
}

// A sum over one dim of products of loads, nearly all the work of a recurrent layer: steps through memory, and gives the bits that
// one operation after the other gives. Nothing: it is something else.
std::optional<Scalar> Evaluator::sum_of_products(const Expr* e) {
  const ir::Fold& f = *e->fold;
  if (f.combiner->join != ir::Join::Sum || !sum_in(e->type.dtype) || f.where || f.dims.size() != 1 || e->args[0]->op != Op::Mul) return std::nullopt;
  std::vector<Factor> factors;
  const Along along{Op::Dim, f.dims[0]->id};
  if (!factors_of(e->args[0], e->type.dtype, factors) || !are_linear(factors, along)) return std::nullopt;
  const int64_t n = integer(f.dims[0]->extent);
  if (n <= 0 || fault.failed) return Scalar{};
  const Scalar total = add_factors(e->type.dtype, factors, along, 0, n, Scalar{});
  dims.erase(f.dims[0]->id);
  return fault.failed ? Scalar{} : total;
}

bool Evaluator::sums_products(const Expr* var, const std::vector<loop::StmtPtr>& body) {
  const auto [known, is_new] = sums_.try_emplace(var, false);
  if (!is_new) return known->second;
  for (const loop::StmtPtr& s : body) {
    std::vector<Factor> factors;
    if (s->kind != loop::StmtKind::Assign || !added_to(s->var, s->value) || !sum_in(s->value->type.dtype)) return false;
    const Expr* product = added_to(s->var, s->value);
    if (product->op != Op::Mul || !factors_of(product, s->value->type.dtype, factors)) return false;
    bool plain = are_linear(factors, {Op::Var, static_cast<uint64_t>(var->i)});
    for (const loop::StmtPtr& other : body) ir::walk(product, [&](const Expr* e) { plain = plain && e != other->var; });
    if (!plain) return false;
  }
  return known->second = !body.empty();
}

// What a load reads where the dim or variable is begin .. end - 1. Both ends lie inside along every axis, and so does what is between
// them; else the fault is set.
Row Evaluator::row_of(const Expr* load, Along along, int64_t begin, int64_t end) {
  const auto element_at = [&](int64_t v) {
    if (along.op == Op::Dim) dims.at(static_cast<uint32_t>(along.number)) = v;
    else vars.at(static_cast<size_t>(along.number)) = {v, 0};
    return element_of(load);
  };
  const int64_t first = element_at(begin), last = element_at(end - 1);
  if (fault.failed) return {};
  const Tensor& t = *tensor(load->array);
  return {t.bytes.data(), t.dtype, first, end - begin > 1 ? (last - first) / (end - begin - 1) : 0};
}

Scalar Evaluator::add_factors(DType type, const std::vector<Factor>& factors, Along along, int64_t begin, int64_t end, Scalar total) {
  struct Rows {
    Row of, less;
    bool is_less = false;
    Scalar constant;
  } rows[kMostFactors];
  for (size_t k = 0; k < factors.size(); ++k) {
    const Expr* less = factors[k].less;
    rows[k] = {row_of(factors[k].of, along, begin, end), {}, less != nullptr, {}};
    if (less && less->op == Op::Load) rows[k].less = row_of(less, along, begin, end);
    else if (less) rows[k].constant = {less->i, less->f};
    if (fault.failed) return {};
  }
  constexpr int64_t kAtOnce = 256, kProductsPerStep = 32;
  const auto advance = [](Row& row, int64_t by) { row.first += row.step * by; };
  const Scalar sum = with_sum(*sum_in(type), [&]<class T>(T) {
    constexpr bool kIsFloat = std::is_floating_point_v<T>;
    T sum = kIsFloat ? static_cast<T>(total.f) : static_cast<T>(total.i), product[kAtOnce], factor[kAtOnce], less[kAtOnce];
    for (int64_t i = begin; i < end; i += kAtOnce) {
      const int64_t n = std::min(kAtOnce, end - i);
      for (size_t k = 0; k < factors.size(); ++k) {
        Rows& r = rows[k];
        T* into = k == 0 ? product : factor;
        read_row(r.of, n, into);
        advance(r.of, n);
        if (r.less.base) {
          read_row(r.less, n, less);
          advance(r.less, n);
          for (int64_t j = 0; j < n; ++j) into[j] -= less[j];
        } else if (r.is_less) {
          const T by = kIsFloat ? static_cast<T>(r.constant.f) : static_cast<T>(r.constant.i);
          for (int64_t j = 0; j < n; ++j) into[j] -= by;
        }
        if (k == 0) continue;
        for (int64_t j = 0; j < n; ++j) product[j] *= factor[j];
      }
      for (int64_t j = 0; j < n; ++j) sum += product[j];
    }
    return kIsFloat ? Scalar{0, static_cast<double>(sum)} : Scalar{ir::wrap_to(type, static_cast<int64_t>(sum)), 0};
  });
  count_work(static_cast<unsigned>(std::min<int64_t>(1 + (end - begin) / kProductsPerStep, 1 << 20)));
  return sum;
}

bool Evaluator::add_products(const Expr* var, int64_t begin, int64_t end, const std::vector<loop::StmtPtr>& body) {
  if (begin >= end || !sums_products(var, body)) return false;
  for (const loop::StmtPtr& s : body) {
    std::vector<Factor> factors;
    const DType type = s->value->type.dtype;
    factors_of(added_to(s->var, s->value), type, factors);
    const Scalar total = value(s->var);
    const Scalar sum = add_factors(type, factors, {Op::Var, static_cast<uint64_t>(var->i)}, begin, end, total);
    if (fault.failed) return true;
    vars.at(static_cast<size_t>(s->var->i)) = sum;
  }
  return true;
}

// With one of the built-in joins: one value, for which no memory is asked.
Scalar Evaluator::fold_of_one(const Expr* e) {
  if (const auto sum = sum_of_products(e)) return *sum;
  const ir::Fold& f = *e->fold;
  const DType wide = accumulator(*f.combiner, e->type.dtype);
  const Op op = op_of(f.combiner->join);
  Scalar total = unit(f.combiner->join, wide);
  const auto add = [&] {
    if (!truth(f.where)) return;
    const Scalar item = value(e->args[0]);
    if (!fault.failed && !usual_binary(op, wide, total, item, total)) total = ir::apply_binary(op, wide, total, item);
  };
  if (f.dims.size() == 1) {
    const int64_t n = integer(f.dims[0]->extent);
    for (int64_t i = 0; i < n && !fault.failed; ++i) {
      dims.at(f.dims[0]->id) = i;
      add();
      count_work();
    }
    dims.erase(f.dims[0]->id);
  } else {
    for_points(f.dims, add);
  }
  if (wide != e->type.dtype) total.f = ir::round_to(e->type.dtype, total.f);
  return total;
}

std::vector<Scalar> Evaluator::fold(const Expr* e) {
  const ir::Fold& f = *e->fold;
  DType wide = accumulator(*f.combiner, e->type.dtype);
  std::vector<Scalar> total = units(f.combiner, wide);
  for_points(f.dims, [&] {
    if (!truth(f.where)) return;
    std::vector<Scalar> item;
    for (const Expr* b : e->args) item.push_back(value(b));
    if (!fault.failed) combine(f.combiner, wide, total, item);
  });
  if (wide != e->type.dtype) total[0].f = ir::round_to(e->type.dtype, total[0].f);
  return total;
}

namespace {

using loop::Stmt;
using loop::StmtKind;
using loop::StmtPtr;

struct ProcRun {
  Evaluator& at;
  uint64_t steps = uint64_t{1} << 34;

  bool go() {
    if (--steps == 0) at.fault.set(true, "procedure does not end");
    at.count_work();
    return !at.fault.failed;
  }
  // Recursion follows the nesting of the operator's text.
  void block(const std::vector<StmtPtr>& body) {
    for (const StmtPtr& s : body) {
      if (!go()) return;
      run(*s);
    }
  }
  void run(const Stmt& s) {
    switch (s.kind) {
      case StmtKind::For: {
        int64_t begin = at.integer(s.begin), end = at.integer(s.end);
        if (s.step == 1 && at.add_products(s.var, begin, end, s.body)) return;
        for (int64_t i = begin; i < end && go(); i += s.step) {
          at.vars.at(static_cast<size_t>(s.var->i)) = {i, 0};
          block(s.body);
          if (end - i <= s.step) break;
        }
        return;
      }
      case StmtKind::While: {
        int64_t bound = at.integer(s.bound);
        for (int64_t n = 0; at.truth(s.cond) && go(); ++n) {
          if (n >= bound) return at.fault.set(false, "loop exceeds its bound of " + std::to_string(bound) + " rounds");
          block(s.body);
        }
        return;
      }
      case StmtKind::Fault:
        if (s.fault != 0 && at.truth(s.cond)) at.fault.set(false, "fault " + std::to_string(s.fault));
        return;
      case StmtKind::Barrier:
      case StmtKind::ClusterBarrier:
      case StmtKind::Peer:
      case StmtKind::LoadMatrices:
      case StmtKind::GroupMma:
      case StmtKind::Matrix:
      case StmtKind::FoldLanes:
      case StmtKind::Mma:
      case StmtKind::Tiles:
      case StmtKind::Copy:
      case StmtKind::CloseCopies:
      case StmtKind::WaitCopies:
      case StmtKind::Prefetch: return;
      case StmtKind::If: return block(at.truth(s.cond) ? s.body : s.orelse);
      case StmtKind::Let: case StmtKind::Local: case StmtKind::Assign: {
        Scalar v = s.value ? at.value(s.value) : Scalar{};
        at.vars.at(static_cast<size_t>(s.var->i)) = v;
        return;
      }
      case StmtKind::Store: {
        if (!at.truth(s.cond)) return;
        std::vector<int64_t> index;
        for (const Expr* e : s.index) index.push_back(at.integer(e));
        Scalar v = at.value(s.value);
        if (at.fault.failed) return;
        int64_t element = at.element(s.array, index, false);
        if (element < 0) return;
        Tensor* t = at.tensor(s.array);
        ir::store_element(t->dtype, t->bytes.data(), static_cast<uint64_t>(element), v);
        return;
      }
    }
  }
};

}  // namespace

void run_proc(Evaluator& at, const Proc& proc) {
  at.locals.clear();
  for (const loop::LocalArray& l : proc.locals) {
    std::vector<int64_t> shape;
    uint64_t elements = 1;
    for (const Expr* e : l.shape) {
      shape.push_back(at.integer(e));
      auto n = shape.back() < 0 ? std::nullopt : checked_mul(elements, static_cast<uint64_t>(shape.back()));
      if (!n || *n > (uint64_t{1} << 32)) return at.fault.set(false, "local array '" + l.name + "' is too large");
      elements = *n;
    }
    at.locals.push_back(Tensor::zeros(l.dtype, std::move(shape)));
  }
  ProcRun{at}.block(proc.body);
}

}  // namespace mlc::nest
