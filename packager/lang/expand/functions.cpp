// Calls: of `fn` texts and of the scalar mathematics that is built in (builtins.cpp has the functions of lists).
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "packager/lang/expand/expander.h"
#include "packager/lang/expand/scopes.h"

namespace mlc::lang {
namespace {

const std::map<std::string, ir::Op>& unary_functions() {
  using O = ir::Op;
  static const std::map<std::string, O> table = {
      {"abs", O::Abs},     {"floor", O::Floor}, {"ceil", O::Ceil},   {"trunc", O::Trunc}, {"rint", O::Rint},   {"sqrt", O::Sqrt},
      {"isnan", O::IsNan}, {"isinf", O::IsInf}, {"exp", O::Exp},     {"log", O::Log},     {"sin", O::Sin},     {"cos", O::Cos},
      {"tan", O::Tan},     {"asin", O::Asin},   {"acos", O::Acos},   {"atan", O::Atan},   {"sinh", O::Sinh},   {"cosh", O::Cosh},
      {"tanh", O::Tanh},   {"asinh", O::Asinh}, {"acosh", O::Acosh}, {"atanh", O::Atanh}, {"erf", O::Erf},     {"bnot", O::BitNot}};
  return table;
}

const std::map<std::string, ir::Op>& binary_functions() {
  using O = ir::Op;
  static const std::map<std::string, O> table = {{"min", O::Min},     {"max", O::Max},       {"tdiv", O::TruncDiv},
                                                 {"tmod", O::TruncMod}, {"band", O::BitAnd}, {"bor", O::BitOr},
                                                 {"bxor", O::BitXor}, {"shl", O::Shl},       {"shr", O::Shr}};
  return table;
}

// The result of a small float is one, without a rounding.
bool is_exact(ir::Op op) {
  using O = ir::Op;
  return op == O::Abs || op == O::Floor || op == O::Ceil || op == O::Trunc || op == O::Rint || op == O::IsNan || op == O::IsInf || op == O::BitNot;
}

bool keeps_integers(ir::Op op) {
  return op == ir::Op::Floor || op == ir::Op::Ceil || op == ir::Op::Trunc || op == ir::Op::Rint;
}

}  // namespace

ExprValue Expander::call(const Node* n) {
  const std::string& name = n->text;
  if (auto built_in = call_builtin(n)) return *built_in;
  std::vector<ExprValue> args;
  for (const Node* kid : n->kids) {
    if (kid->kind == NodeKind::Star) fail_here(kid->pos, "'*' belongs into an index");
    args.push_back(eval(kid));
  }
  if (const FnDef* f = module_.fn(domain(), name)) return call_fn(*f, std::move(args), n->pos);
  const bool op_type = types_.count(name) && !in_function();
  if (op_type || dtype_named(name) || (types_.count(name) && args.size() == 1)) {
    if (args.size() != 1) fail_here(n->pos, "a conversion takes one number");
    return cast(element_type(name, n->pos), args[0], n->pos);
  }
  if (auto r = call_scalar_function(name, args, n->pos)) return *r;
  fail_here(n->pos, "unknown function '" + name + "' of " + std::to_string(args.size()) + " arguments");
}

ExprValue Expander::call_fn(const FnDef& fn, std::vector<ExprValue> args, Pos pos) {
  if (args.size() != fn.params.size())
    fail_here(pos, fn.name + " takes " + std::to_string(fn.params.size()) + " arguments, not " + std::to_string(args.size()));
  ScopedFrame frame(*this, fn.domain);
  const ScopedExpansion expansion(*this, fn);
  for (size_t k = 0; k < args.size(); ++k) frames_.back().names[fn.params[k]] = std::move(args[k]);
  return eval(fn.body);
}

std::optional<ExprValue> Expander::call_scalar_function(const std::string& name, const std::vector<ExprValue>& args, Pos pos) {
  if ((name == "min" || name == "max") && args.size() > 2) {
    ExprValue r = args[0];
    for (size_t k = 1; k < args.size(); ++k) r = *call_scalar_function(name, {r, args[k]}, pos);
    return r;
  }
  switch (args.size()) {
    case 1: return call_of_one(name, args, pos);
    case 2: return call_of_two(name, args, pos);
    case 3: return call_of_three(name, args, pos);
    default: return {};
  }
}

// The argument of a function of real numbers, which takes soft integers too.
ExprValue Expander::real_argument(const std::string& name, const ExprValue& v, Pos pos) {
  if (v.special != ExprValue::Special::None) fail_here(pos, "the element type of lowest, highest or bottom does not follow here");
  const ExprValue x = v.soft && is_int(v.e->type.dtype) ? scalar(ctx_.cast(DType::F64, v.e), true) : v;
  if (!is_float(x.e->type.dtype)) fail_here(pos, name + " wants a real number, not " + std::string(name_of(x.e->type.dtype)));
  return x;
}

std::optional<ExprValue> Expander::call_of_one(const std::string& name, const std::vector<ExprValue>& args, Pos pos) {
  if (auto it = unary_functions().find(name); it != unary_functions().end()) {
    const ir::Op op = it->second;
    return lift(args, pos, [&](const std::vector<ExprValue>& v) {
      if (v[0].special != ExprValue::Special::None) fail_here(pos, "the element type of lowest, highest or bottom does not follow here");
      const DType t = v[0].e->type.dtype;
      if (is_int(t) && keeps_integers(op)) return v[0];
      if (op == ir::Op::BitNot && !is_int(t)) fail_here(pos, "bnot wants an integer");
      ExprValue x = op == ir::Op::Abs || op == ir::Op::BitNot ? v[0] : real_argument(name, v[0], pos);
      if (!is_exact(op)) x = widened(x);
      Ex e = ctx_.unary(op, x.e);
      return scalar(e, x.soft, e->type.dtype == DType::Bool ? DType::None : x.rounds_to);
    });
  }
  if (name == "int" || name == "real") {
    return lift(args, pos, [&](const std::vector<ExprValue>& v) {
      if (v[0].special != ExprValue::Special::None) fail_here(pos, name + " wants a number");
      return scalar(ctx_.cast(name == "int" ? DType::I64 : DType::F64, v[0].e), v[0].soft);
    });
  }
  if (name == "sq") return binary("*", args[0], args[0], pos);
  if (name == "rsqrt") {
    return lift(args, pos, [&](const std::vector<ExprValue>& v) {
      const ExprValue x = widened(real_argument(name, v[0], pos));
      return scalar(ctx_.binary(ir::Op::Div, ctx_.number(1, x.e->type.dtype), ctx_.unary(ir::Op::Sqrt, x.e)), x.soft, x.rounds_to);
    });
  }
  return {};
}

std::optional<ExprValue> Expander::call_of_two(const std::string& name, const std::vector<ExprValue>& args, Pos pos) {
  if (auto it = binary_functions().find(name); it != binary_functions().end()) {
    const ir::Op op = it->second;
    return lift(args, pos, [&](const std::vector<ExprValue>& v) {
      ExprValue x = v[0], y = v[1];
      const DType t = meet(x, y, pos);
      if (t == DType::None) fail_here(pos, "the element type of lowest, highest or bottom does not follow here");
      const bool bits = op == ir::Op::BitAnd || op == ir::Op::BitOr || op == ir::Op::BitXor || op == ir::Op::Shl || op == ir::Op::Shr;
      if (t == DType::Bool || (bits && !is_int(t))) fail_here(pos, name + " wants " + (bits ? "integers" : "numbers"));
      return scalar(ctx_.binary(op, x.e, y.e), x.soft, x.rounds_to);
    });
  }
  if (name == "cdiv") {
    return lift(args, pos, [&](const std::vector<ExprValue>& v) {
      return scalar(quotient_up(as_index(v[0], pos), as_index(v[1], pos), pos), v[0].soft && v[1].soft);
    });
  }
  if (name == "pow") {
    return lift(args, pos, [&](const std::vector<ExprValue>& v) {
      ExprValue x = v[0], y = v[1];
      const DType t = meet(x, y, pos, Meeting::Arithmetic);
      if (t == DType::None || t == DType::Bool) fail_here(pos, "pow wants numbers");
      return scalar(power(x.e, y.e), x.soft, x.rounds_to);
    });
  }
  return {};
}

// a / b, rounded up, b of either sign.
Ex Expander::quotient_up(Ex a, Ex b, Pos pos) {
  if (b->is_int(0)) fail_call(pos, "division by zero");
  if (b->is_const() && b->i < 0) return ctx_.ceildiv(ctx_.unary(ir::Op::Neg, a), ctx_.integer(-b->i));  // divide the opposites
  if (!b->is_const() && ir::interval_of(b).lo < 1) return ctx_.unary(ir::Op::Neg, ctx_.floordiv(ctx_.unary(ir::Op::Neg, a), b));
  return ctx_.ceildiv(a, b);
}

// Without a logarithm where the exponent needs none.
Ex Expander::power(Ex x, Ex exponent) {
  const DType t = x->type.dtype;
  if (is_float(t) && exponent->is_const()) {
    if (exponent->f == 1) return x;
    if (exponent->f == 2) return ctx_.mul(x, x);
    if (exponent->f == 3) return ctx_.mul(ctx_.mul(x, x), x);
    if (exponent->f == 0.5) {  // a root, save of -0 and -inf
      const auto number = [&](double v) { return ctx_.number(v, t); };
      return ctx_.select(ctx_.binary(ir::Op::Eq, x, number(-INFINITY)), number(INFINITY), ctx_.unary(ir::Op::Sqrt, ctx_.binary(ir::Op::Add, x, number(0))));
    }
    if (exponent->f == -1) return ctx_.binary(ir::Op::Div, ctx_.number(1, t), x);
  }
  return ctx_.binary(ir::Op::Pow, x, exponent);
}

std::optional<ExprValue> Expander::call_of_three(const std::string& name, const std::vector<ExprValue>& args, Pos pos) {
  if (name == "clamp") {
    return lift(args, pos, [&](const std::vector<ExprValue>& v) {
      std::vector<ExprValue> m = v;
      if (meet_all(m, pos) == DType::None) fail_here(pos, "clamp wants a number");
      ExprValue r = scalar(ctx_.min(ctx_.max(m[0].e, m[1].e), m[2].e), m[0].soft, m[0].rounds_to);
      if (m[0].e->type.dtype == DType::I64) {
        r.clamp_lo = m[1].e;
        r.clamp_hi = m[2].e;
      }
      return r;
    });
  }
  if (name == "fma") {
    return lift(args, pos, [&](const std::vector<ExprValue>& v) {
      std::vector<ExprValue> m = v;
      if (!is_float(meet_all(m, pos, Meeting::Arithmetic))) fail_here(pos, "fma wants real numbers");
      return scalar(ctx_.fma(m[0].e, m[1].e, m[2].e), m[0].soft, m[0].rounds_to);
    });
  }
  return {};
}

// Proved, or checked before the run.
bool Expander::agree(Ex a, Ex b) { return known_equal(a, b) || settle(ctx_.binary(ir::Op::Eq, a, b)) == true; }

// a // b where factors cancel: a product of extents by some of them leaves the others. Zero extents make no points, so
// the quotient does not matter there.
ExprValue Expander::exact_quotient(const ExprValue& a, const ExprValue& b) {
  auto factors = [](Ex e) {
    std::vector<Ex> r, todo{e};
    while (!todo.empty()) {
      Ex x = todo.back();
      todo.pop_back();
      if (x->op == ir::Op::Mul) {
        todo.push_back(x->args[0]);
        todo.push_back(x->args[1]);
      } else {
        r.push_back(x);
      }
    }
    return r;
  };
  if (b.e->is_int(1)) return a;
  if (!b.e->is_int(0)) {
    auto top = factors(a.e), bottom = factors(b.e);
    bool cancelled = false;
    int64_t ct = 1, cb = 1;
    for (auto it = bottom.begin(); it != bottom.end();) {
      if ((*it)->is_const()) {
        if (__builtin_mul_overflow(cb, (*it)->i, &cb)) cb = 0;
        it = bottom.erase(it);
        continue;
      }
      auto same = std::find(top.begin(), top.end(), *it);
      if (same != top.end()) {
        top.erase(same);
        it = bottom.erase(it);
        cancelled = true;
      } else {
        ++it;
      }
    }
    if (cancelled && cb != 0) {
      for (auto it = top.begin(); it != top.end();) {
        if ((*it)->is_const()) {
          if (__builtin_mul_overflow(ct, (*it)->i, &ct)) ct = 0;
          it = top.erase(it);
        } else {
          ++it;
        }
      }
      if (ct != 0 || a.e->is_int(0)) {
        if (cb != 0 && ct % cb == 0) {
          ct /= cb;
          cb = 1;
        }
        Ex t = ctx_.integer(ct), d = ctx_.integer(cb);
        for (Ex f : top) t = ctx_.mul(t, f);
        for (Ex f : bottom) d = ctx_.mul(d, f);
        return scalar(d->is_int(1) ? t : ctx_.floordiv(t, d), a.soft && b.soft);
      }
    }
  }
  return scalar(ctx_.floordiv(a.e, b.e), a.soft && b.soft);
}

ExprValue Expander::flat(const std::vector<ExprValue>& index, const std::vector<ExprValue>& extents, Pos pos) {
  if (index.size() != extents.size()) fail_here(pos, "flat: as many indices as extents");
  auto place = std::make_shared<FlatPlace>();
  Ex sum = ctx_.integer(0);
  bool safe = true, signs = true;
  Ex all = ctx_.integer(1);
  for (size_t k = 0; k < index.size(); ++k) {
    place->index.push_back(as_index(index[k], pos));
    place->extents.push_back(as_index(extents[k], pos));
    sum = ctx_.add(ctx_.mul(sum, place->extents[k]), place->index[k]);
    all = ctx_.mul(all, place->extents[k]);
    safe = safe && prove_access(place->index[k], &index[k], place->extents[k]) == ir::Access::Proved;
    signs = signs && ir::interval_of(place->extents[k]).lo >= 0;
  }
  ExprValue v = scalar(sum, true);
  if (safe) {
    if (signs) mark_safe(sum, all);
    v.flat = place;
  }
  return v;
}

// The index into `extents` of a place. Where the place came from flat, extents whose products agree are renamed, merged
// or split one group at a time; what is left is divided.
ExprValue Expander::unflat(const ExprValue& place, const std::vector<ExprValue>& extents, Pos pos) {
  std::vector<Ex> to;
  for (const ExprValue& v : extents) to.push_back(as_index(v, pos));
  std::vector<Ex> result(to.size(), nullptr);
  // Splits `flat_index` over axes [from, end) of the result; it lies in the product of their extents if `safe`.
  auto split = [&](Ex flat_index, size_t from, size_t end, bool safe) {
    Ex rest = flat_index;
    std::vector<size_t> axes;
    bool signs = true;
    for (size_t k = from; k < end; ++k) {
      signs = signs && ir::interval_of(to[k]).lo >= 0;
      if (to[k]->is_int(1)) result[k] = ctx_.integer(0);
      else axes.push_back(k);
    }
    for (size_t a = axes.size(); a-- > 0;) {
      const size_t k = axes[a];
      result[k] = a == 0 ? rest : ctx_.floormod(rest, to[k]);
      if (a > 0) rest = ctx_.floordiv(rest, to[k]);
      // A remainder lies below its divisor, if that is positive: a place in the product of extents that are not
      // negative says that none is zero.
      if ((safe && signs) || (a > 0 ? ir::interval_of(to[k]).lo > 0 : safe)) mark_safe(result[k], to[k]);
    }
  };
  if (place.flat) {
    std::vector<size_t> source;  // axes of extent above one
    for (size_t k = 0; k < place.flat->index.size(); ++k)
      if (!place.flat->extents[k]->is_int(1)) source.push_back(k);
    std::vector<size_t> target;
    for (size_t k = 0; k < to.size(); ++k) {
      if (to[k]->is_int(1)) result[k] = ctx_.integer(0);
      else target.push_back(k);
    }
    // Cuts where the products of the extents before, or behind, agree.
    auto prefix = [&](const std::vector<size_t>& axes, const std::vector<Ex>& e) {
      std::vector<Ex> p{ctx_.integer(1)};
      for (size_t k : axes) p.push_back(ctx_.mul(p.back(), e[k]));
      return p;
    };
    auto suffix = [&](const std::vector<size_t>& axes, const std::vector<Ex>& e) {
      std::vector<Ex> p(axes.size() + 1, ctx_.integer(1));
      for (size_t j = axes.size(); j-- > 0;) p[j] = ctx_.mul(e[axes[j]], p[j + 1]);
      return p;
    };
    const auto ps = prefix(source, place.flat->extents), pt = prefix(target, to);
    const auto ss = suffix(source, place.flat->extents), st = suffix(target, to);
    std::vector<std::pair<size_t, size_t>> cuts;
    size_t from = 0;
    for (size_t i = 0; i <= source.size(); ++i)
      for (size_t j = from; j <= target.size(); ++j)
        if (ps[i] == pt[j] || ss[i] == st[j] || (i == source.size() && j == target.size())) {
          if (!cuts.empty() && (cuts.back().first == i || cuts.back().second == j)) continue;
          if ((i == source.size()) != (j == target.size())) continue;
          cuts.emplace_back(i, j);
          from = j + 1;
          break;
        }
    if (!cuts.empty() && cuts[0] == std::pair<size_t, size_t>{0, 0} && cuts.back() == std::pair{source.size(), target.size()}) {
      for (size_t c = 0; c + 1 < cuts.size(); ++c) {
        const auto [i0, j0] = cuts[c];
        const auto [i1, j1] = cuts[c + 1];
        // The group lies in range if its extents multiply to the same; otherwise that is a run-time check.
        Ex from_all = ctx_.integer(1), to_all = ctx_.integer(1);
        for (size_t i = i0; i < i1; ++i) from_all = ctx_.mul(from_all, place.flat->extents[source[i]]);
        for (size_t j = j0; j < j1; ++j) to_all = ctx_.mul(to_all, to[target[j]]);
        bool equal = agree(from_all, to_all);
        // A proof needs to know the signs: no extent negative to merge.
        if (i1 != i0 + 1 || j1 != j0 + 1)
          for (size_t i = i0; i < i1; ++i) equal = equal && ir::interval_of(place.flat->extents[source[i]]).lo >= 0;
        if (i1 == i0 + 1 && j1 == j0 + 1) {
          result[target[j0]] = place.flat->index[source[i0]];
          if (equal) mark_safe(result[target[j0]], to[target[j0]]);
          continue;
        }
        Ex merged = ctx_.integer(0);
        for (size_t i = i0; i < i1; ++i) merged = ctx_.add(ctx_.mul(merged, place.flat->extents[source[i]]), place.flat->index[source[i]]);
        if (j1 == j0 + 1) {
          result[target[j0]] = merged;
          if (equal) mark_safe(merged, to[target[j0]]);
        } else {
          split(merged, target[j0], target[j1 - 1] + 1, equal);
        }
      }
      return soft_list(result);
    }
  }
  Ex all = ctx_.integer(1);
  for (Ex e : to) all = ctx_.mul(all, e);
  Ex p = as_index(place, pos);
  const bool safe = safe_.count({p, all}) > 0 || prove_access(p, &place, all) == ir::Access::Proved;
  split(p, 0, to.size(), safe);
  return soft_list(result);
}

// The value of a `dims` clause: elements of packs, by name and position.
std::vector<DimInfo::Ref> Expander::dim_refs(const Node* n) {
  auto of_name = [&](const Node* node) {
    auto it = dims_.find(node->text);
    if (node->kind != NodeKind::Name || it == dims_.end()) fail_here(node->pos, "the name of a dim or pack expected");
    if (it->second.alias) return it->second.refs;
    std::vector<DimInfo::Ref> r;
    for (size_t k = 0; k < extents_of(node->text, node->pos).size(); ++k) r.push_back({node->text, k, false});
    return r;
  };
  if (n->kind == NodeKind::Name) return of_name(n);
  if (n->kind == NodeKind::Cond) return dim_refs(n->kids[truth(eval(n->kids[0]), n->pos, "the condition of a dim") ? 1 : 2]);
  if (n->kind == NodeKind::List) {
    std::vector<DimInfo::Ref> r;
    for (const Node* kid : n->kids)
      for (auto& ref : dim_refs(kid)) r.push_back(std::move(ref));
    return r;
  }
  if (n->kind == NodeKind::Number && n->integer == 1 && !n->is_real) return {{"", 0, true}};
  if (n->kind == NodeKind::Call && n->text == "rev" && n->kids.size() == 1) {
    auto r = dim_refs(n->kids[0]);
    std::reverse(r.begin(), r.end());
    return r;
  }
  if (n->kind == NodeKind::Call && (n->text == "pick" || n->text == "drop" || n->text == "put") && n->kids.size() >= 2) {
    auto base = dim_refs(n->kids[0]);
    std::vector<size_t> at;
    for (const ExprValue& v : as_list(eval(n->kids[1]))) {
      int64_t i = as_number(v, n->pos, "an axis");
      const int64_t count = static_cast<int64_t>(base.size());
      if (i < -count || i >= count)
        mismatch("axis " + std::to_string(i) + " of a tensor of rank " + std::to_string(count) + " does not exist");
      if (i < 0) i += count;
      if (std::find(at.begin(), at.end(), static_cast<size_t>(i)) != at.end() && n->text != "drop") mismatch("axis " + std::to_string(i) + " is named twice");
      at.push_back(static_cast<size_t>(i));
    }
    std::vector<DimInfo::Ref> r;
    if (n->text == "pick") {
      for (size_t k : at) r.push_back(base[k]);
    } else if (n->text == "drop") {
      for (size_t k = 0; k < base.size(); ++k)
        if (std::find(at.begin(), at.end(), k) == at.end()) r.push_back(base[k]);
    } else {
      if (n->kids.size() != 3 || n->kids[2]->kind != NodeKind::Number || n->kids[2]->integer != 1)
        fail_here(n->pos, "put(d, axes, 1) replaces dims by axes of extent one");
      r = base;
      for (size_t k : at) r[k] = {"", 0, true};
    }
    return r;
  }
  fail_here(n->pos, "a pack of existing dims is made by pick, drop, put, rev and lists of names");
}

}  // namespace mlc::lang
