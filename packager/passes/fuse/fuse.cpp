// What is not stored. Three rewrites of a producer (one statement that writes array y, one element per point) and the
// statements that read y, tried for one array after the other until nothing changes:
//
//   epilogue   one reader, which reads y exactly once per element (an invertible map of its points to elements, outside
//              of folds): the producer's value moves into the reader, folds included. Convolution, bias, normalisation,
//              activation, residual become one nest with one contraction inside. Two contractions never meet in a nest.
//   inline     the producer has no fold: its value is computed where it is read, if that costs less than storing it. A
//              value read once per element always; a cheap one also where it is read more often. Never into the sum of
//              products of a contraction, whose operands stay plain loads.
//   scale      the producer is x / z or x * z, and a contraction that reads it sums along what z does not know: z is applied to the
//              sum. The quotient of a softmax is taken once per row of the product, not once per key.
//   padding    the producer is cond ? x : 0 (Pad) and a contraction sums over it: the condition becomes a bound of the sum.
//
// A copy that takes an axis apart (the heads of attention, put side by side again) gets a dim for each part first: then it is an
// epilogue like others.
//
// Values are taken at composed indices, and every element read was written by exactly one point of the producer, so the
// result is the same number by number, but for `scale`, which rounds otherwise. Arrays that are outputs or have other readers stay.
#include <algorithm>
#include <optional>

#include "packager/nest/facts/contraction.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {
namespace {

using ir::Op;

constexpr size_t kMaxNodes = 600, kMaxArrays = 14;

// Where the loads of one array stand in a statement.
struct Sites {
  std::vector<const Expr*> loads;         // distinct
  bool checked = false;
  bool in_contraction = false;            // operand of a sum of products
  bool in_fold = false;
  double per_element = 0;                 // evaluations of loads, over the elements of the array
};

Sites sites_of(ir::Context& ctx, const nest::Function& f, const nest::Statement& s, uint32_t y) {
  Sites out;
  double elements = 1;
  for (const Expr* e : f.arrays[y].shape) elements *= estimate(e);
  double points = estimate(s.nest->dims);
  for_roots(s, [&](const Expr* root) {
    // Points of the folds around each node; nested folds multiply.
    std::unordered_map<const Expr*, double> repeats;
    std::vector<const Expr*> order;
    ir::walk(root, [&](const Expr* e) { order.push_back(e); });
    repeats[root] = 1;
    for (size_t i = order.size(); i-- > 0;) {  // parents before arguments
      const Expr* e = order[i];
      double own = repeats[e], inner = own;
      if (e->op == Op::Fold) inner *= estimate(e->fold->dims);
      for (const Expr* a : e->args) repeats[a] = std::max(repeats[a], inner);
      if (e->op == Op::Fold && e->fold->where) repeats[e->fold->where] = std::max(repeats[e->fold->where], inner);
      if (const auto c = nest::contraction_of(ctx, s.nest->dims, e)) out.in_contraction |= c->a.load->array == y || c->b.load->array == y;
    }
    for (const Expr* e : order) {
      if (e->op != Op::Load || e->array != y) continue;
      if (std::find(out.loads.begin(), out.loads.end(), e) == out.loads.end()) {
        out.loads.push_back(e);
        out.per_element += points * repeats[e] / elements;
      }
      out.checked |= e->access == ir::Access::Checked;
      out.in_fold |= repeats[e] > 1;
    }
    // A load inside of a fold over an axis of unknown or unit extent counts as inside, too.
    ir::walk(root, [&](const Expr* e) {
      if (e->op != Op::Fold || out.in_fold) return;
      for (const Expr* b : e->args)
        for (const Expr* l : out.loads) out.in_fold |= ir::depends_on(b, l);
      if (e->fold->where)
        for (const Expr* l : out.loads) out.in_fold |= ir::depends_on(e->fold->where, l);
    });
  });
  return out;
}

// True if the points of `dims` and the elements at `index` of an array of this shape correspond one to one: each axis is
// a mixed-radix number of dims of its own, 0 where the axis has one element.
bool invertible(ir::Context& ctx, const std::vector<const ir::Dim*>& dims, std::span<const Expr* const> index,
                const std::vector<const Expr*>& shape) {
  std::vector<const ir::Dim*> left;
  for (const ir::Dim* d : dims)
    if (!d->extent->is_int(1)) left.push_back(d);
  for (size_t k = 0; k < index.size(); ++k) {
    std::vector<const ir::Dim*> own;
    std::vector<const Expr*> leaves;
    for (const ir::Dim* d : left)
      if (ir::depends_on(index[k], ctx.dim(d))) {
        own.push_back(d);
        leaves.push_back(ctx.dim(d));
      }
    auto linear = ir::linear_in(ctx, index[k], leaves);
    if (!linear || !linear->rest->is_int(0)) return false;
    // Digits in the order of their weights: each weight is the product of the extents before it.
    const Expr* weight = ctx.integer(1);
    while (!own.empty()) {
      auto it = std::find(linear->coefficients.begin(), linear->coefficients.end(), weight);
      if (it == linear->coefficients.end()) return false;
      size_t at = static_cast<size_t>(it - linear->coefficients.begin());
      weight = ctx.mul(weight, own[at]->extent);
      std::erase(left, own[at]);
      own.erase(own.begin() + static_cast<ptrdiff_t>(at));
      linear->coefficients.erase(it);
    }
    if (weight != shape[k]) return false;
  }
  return left.empty();
}

bool has_fold(const nest::Nest& n) {
  bool found = false;
  for (const nest::Write& w : n.writes) found |= passes::has_fold(w.value);
  return found;
}

size_t arrays_of(const nest::Statement& a, const nest::Statement& b) {
  auto x = read(a), y = read(b);
  x.insert(x.end(), y.begin(), y.end());
  std::sort(x.begin(), x.end());
  return static_cast<size_t>(std::unique(x.begin(), x.end()) - x.begin());
}

// sum((cond ? x[..] : 0) * w) becomes sum(x[..] * w where cond).
const Expr* bounds_from_padding(ir::Context& ctx, const Expr* root) {
  for (;;) {
    const Expr* found = nullptr;
    const Expr* replacement = nullptr;
    ir::walk(root, [&](const Expr* e) {
      if (found || e->op != Op::Fold || e->fold->combiner->join != ir::Join::Sum || e->args[0]->op != Op::Mul) return;
      for (size_t k = 0; k < 2; ++k) {
        const Expr *s = e->args[0]->args[k], *other = e->args[0]->args[1 - k];
        if (s->op != Op::Select) continue;
        bool zero_else = s->args[2]->is_const() && s->args[2]->f == 0 && s->args[2]->i == 0;
        bool zero_then = s->args[1]->is_const() && s->args[1]->f == 0 && s->args[1]->i == 0;
        if (!zero_else && !zero_then) continue;
        ir::Fold fold = *e->fold;
        fold.where = ctx.logical_and(fold.where, zero_else ? s->args[0] : ctx.logical_not(s->args[0]));
        found = e;
        replacement = ctx.fold(fold, {ctx.binary(Op::Mul, s->args[zero_else ? 1 : 2], other)});
        return;
      }
    });
    if (!found) return root;
    root = ctx.substitute(root, {{found, replacement}});
  }
}

// What a producer multiplies or divides by: value = load op factor.
struct Scaling {
  const Expr *load = nullptr, *factor = nullptr;
  Op op = Op::Mul;
};
std::optional<Scaling> scaling_of(const Expr* value) {
  if (value->type.dtype != DType::F32 || (value->op != Op::Mul && value->op != Op::Div)) return std::nullopt;
  for (size_t side = 0; side < (value->op == Op::Mul ? 2u : 1u); ++side)
    if (value->args[side]->op == Op::Load && value->args[side]->type == value->type)
      return Scaling{value->args[side], value->args[1 - side], value->op};
  return std::nullopt;
}

// cond ? load : 0, without loads in the condition, where to find the element takes no division.
bool is_padding(const Expr* value) {
  if (value->op != Op::Select) return false;
  bool divides = false;
  ir::walk(value, [&](const Expr* e) { divides |= e->op == Op::FloorDiv || e->op == Op::FloorMod || e->op == Op::TruncDiv || e->op == Op::TruncMod; });
  if (divides) return false;
  bool loads = false;
  ir::walk(value->args[0], [&](const Expr* e) { loads |= e->op == Op::Load || e->op == Op::Fold; });
  auto zero = [](const Expr* e) { return e->is_const() && e->f == 0 && e->i == 0; };
  return !loads && ((value->args[1]->op == Op::Load && zero(value->args[2])) || (value->args[2]->op == Op::Load && zero(value->args[1])));
}

class Fuser {
 public:
  Fuser(ir::Context& ctx, nest::Function& f) : ctx_(ctx), f_(f) {}

  void run() {
    for (int round = 0; round < 20; ++round) {
      bool changed = false;
      uses_ = uses_of(f_);
      for (size_t i = 0; i < f_.body.size(); ++i)
        changed = (f_.body[i].nest && try_fuse(i)) || changed;
      remove_dead(f_);
      if (!changed) return;
    }
  }

 private:
  bool try_fuse(size_t i) {
    PlainMap p;
    if (!plain_map(f_.body[i], p)) return false;
    uint32_t y = p.write->array;
    const auto& readers = uses_.readers[y];
    if (uses_.output[y] || uses_.writers[y].size() != 1 || readers.empty() || *readers.begin() <= i) return false;
    for (size_t r : readers)
      if (!f_.body[r].nest || f_.body[r].nest->scan_dim) return false;
    bool folds = passes::has_fold(p.write->value);
    std::vector<Sites> sites;
    for (size_t r : readers) {
      sites.push_back(sites_of(ctx_, f_, f_.body[r], y));
      if (sites.back().checked || sites.back().loads.empty()) return false;
      // A read index or condition that depends on y's values stays a plain load.
      if (in_address(f_.body[r], y)) return false;
      if (node_count(p.write->value, kMaxNodes) + nodes(f_.body[r]) > kMaxNodes) return false;
      if (arrays_of(f_.body[i], f_.body[r]) > kMaxArrays) return false;
    }
    if (readers.size() == 1 && epilogue(*readers.begin(), sites[0], p)) return true;
    if (readers.size() == 1 && side_by_side(*readers.begin(), sites[0], p)) return true;
    if (readers.size() == 1 && scale(*readers.begin(), sites[0], p)) return true;
    if (folds) return false;
    bool padding = is_padding(p.write->value);
    double evaluations = 0;
    for (const Sites& s : sites) {
      if (s.in_contraction && !padding) return false;
      evaluations += s.per_element;
    }
    double cost = cost_of(p.write->value);
    if (padding ? sites.size() > 2 : (evaluations - 1) * cost > 4 && evaluations > 1.05) return false;
    for (size_t r : std::set<size_t>(readers)) replace(r, y, p);
    return true;
  }

  bool epilogue(size_t reader, const Sites& s, const PlainMap& p) {
    const nest::Statement& to = f_.body[reader];
    if (s.loads.size() != 1 || s.in_fold) return false;
    if (!invertible(ctx_, to.nest->dims, s.loads[0]->args, f_.arrays[p.write->array].shape)) return false;
    bool own_fold = has_fold(*p.nest);
    if (own_fold && has_fold(*to.nest)) return false;
    // A push or a condition around it would leave points out: then the work of a fold is not worth guessing about.
    if (own_fold && to.nest->where) return false;
    if (own_fold && tears_columns(to, p, s.loads[0])) return false;
    take_dims(f_.body[reader], p, s.loads[0]);
    replace(reader, p.write->array, p);
    return true;
  }

  // The reader takes an axis apart that it then writes in one piece: as an epilogue with a dim for each part.
  bool side_by_side(size_t reader, Sites s, const PlainMap& p) {
    nest::Statement& to = f_.body[reader];
    if (s.loads.size() != 1 || s.in_fold || has_fold(*to.nest) || to.nest->where || !multiplies_values(p.write->value)) return false;
    const nest::Nest before = *to.nest;
    split_divided(to, s);
    if (epilogue(reader, s, p)) return true;
    *to.nest = before;
    return false;
  }
  // A product without weights, whose results are not channels of a picture.
  bool multiplies_values(const Expr* value) const {
    bool found = false;
    ir::walk(value, [&](const Expr* e) {
      const auto c = nest::contraction_of(ctx_, {}, e);
      if (!c) return;
      const auto is_value = [&](const nest::Operand& o) { return f_.arrays[o.load->array].kind != nest::Array::Kind::Const; };
      found = is_value(c->a) && is_value(c->b);
    });
    return found;
  }

  // y = x[.., d // c, d % c] becomes y[.., c*a + b] = x[.., a, b].
  void split_divided(nest::Statement& to, Sites& s) {
    const std::vector<const Expr*> index(s.loads[0]->args.begin(), s.loads[0]->args.end());
    for (const Expr* e : index) {
      if (e->op != Op::FloorMod || e->args[0]->op != Op::Dim || !e->args[1]->is_const()) continue;
      const ir::Dim* d = e->args[0]->dim;
      const Expr *c = e->args[1], *quotient = ctx_.floordiv(e->args[0], c);
      const auto at = std::find(to.nest->dims.begin(), to.nest->dims.end(), d);
      if (c->i < 1 || at == to.nest->dims.end() || ir::divisor_of(d->extent) % c->i != 0 || std::find(index.begin(), index.end(), quotient) == index.end()) continue;
      const ir::Dim *a = ctx_.declare_dim(d->name + "1", ctx_.floordiv(d->extent, c)), *b = ctx_.declare_dim(d->name + "0", c);
      to.nest->dims.insert(to.nest->dims.erase(at), {a, b});
      const std::unordered_map<const Expr*, const Expr*> whole{{ctx_.dim(d), ctx_.add(ctx_.mul(ctx_.dim(a), c), ctx_.dim(b))}};
      map_roots(to, [&](const Expr* root) { return ctx_.substitute(root, whole); });
      s.loads[0] = ctx_.substitute(s.loads[0], whole);
    }
  }

  bool scale(size_t reader, const Sites& s, const PlainMap& p) {
    const auto scaling = scaling_of(p.write->value);
    if (!scaling || s.loads.size() != 1 || !s.in_contraction) return false;
    const Expr* load = s.loads[0];
    const Expr *found = nullptr, *factor = nullptr;
    size_t side = 0;
    for_roots(f_.body[reader], [&](const Expr* root) {
      ir::walk(root, [&](const Expr* e) {
        const auto c = nest::contraction_of(ctx_, f_.body[reader].nest->dims, e);
        if (!c) return;
        for (size_t k = 0; k < 2; ++k)
          if (e->args[0]->args[k] == load) found = e, side = k;
      });
    });
    if (!found || found->args[0]->args[1 - side] == load) return false;
    const Expr* composed_value = composed(ctx_, p, load);
    const auto here = scaling_of(composed_value);
    if (!here || passes::has_fold(here->factor) || mentions_any(here->factor, found->fold->dims)) return false;
    if (nonlinear_operations(here->load) > nonlinear_operations(load)) return false;  // no tile could read that
    factor = here->factor;
    std::vector<const Expr*> operands{here->load, found->args[0]->args[1 - side]};
    if (side == 1) std::swap(operands[0], operands[1]);
    const Expr* sum = ctx_.fold(*found->fold, {ctx_.binary(Op::Mul, operands[0], operands[1])});
    const Expr* scaled = ctx_.binary(here->op, sum, factor);
    map_roots(f_.body[reader], [&](const Expr* root) { return ctx_.substitute(root, {{found, scaled}}); });
    update_reads(uses_, f_, reader);
    return true;
  }
  bool mentions_any(const Expr* e, const std::vector<const ir::Dim*>& dims) {
    return std::any_of(dims.begin(), dims.end(), [&](const ir::Dim* d) { return ir::depends_on(e, ctx_.dim(d)); });
  }

  // Columns of a product with weights lie in panels of sixteen (layout.cpp). Where the reader takes its axis of columns apart
  // (DepthToSpace) into shorter pieces, or puts a piece beside rows into one axis, no panel could be stored at once: the product is
  // stored as it is, and read from there. Then it stays a convolution for other passes, too.
  bool tears_columns(const nest::Statement& to, const PlainMap& p, const Expr* load) {
    bool tears = false;
    ir::walk(p.write->value, [&](const Expr* fold) {
      const auto found = nest::contraction_of(ctx_, p.nest->dims, fold);
      if (!found) return;
      for (const nest::Contraction& c : {*found, found->swapped()}) {
        if (f_.arrays[c.b.load->array].kind != nest::Array::Kind::Const) continue;
        double columns = 1;
        for (const ir::Dim* d : c.n) columns *= estimate(d->extent);
        const bool needs_panels = columns >= nest::kPanel || c.b.is_code();
        for (size_t k = 0; k < load->args.size(); ++k)
          if (p.axis_dim[k] && std::find(c.n.begin(), c.n.end(), p.axis_dim[k]) != c.n.end())
            tears |= (needs_panels || !is_few(load->args[k])) && is_torn(to, load->args[k]);
      }
    });
    return tears;
  }
  // A number of several digits of which the last is neither panels nor half of one, or one of which is written into an axis with others.
  bool is_torn(const nest::Statement& to, const Expr* index) {
    if (index->op == Op::Dim) return false;
    bool whole = false, beside_rows = false;
    ir::walk(index, [&](const Expr* e) {
      if (e->op != Op::Dim) return;
      const Expr *leaf[] = {e}, *extent = e->dim->extent;
      auto linear = ir::linear_in(ctx_, index, leaf);
      whole |= linear && linear->coefficients[0]->is_int(1) && extent->is_const() && (extent->i == 8 || extent->i % 16 == 0);
      for (const nest::Write& w : to.nest->writes)
        for (const Expr* axis : w.index) beside_rows |= ir::depends_on(axis, e) && has_other_dims(axis, index);
    });
    return !whole || beside_rows;
  }
  // Of digits so small that vectors of a product run along its sum instead.
  static bool is_few(const Expr* index) {
    bool few = true;
    ir::walk(index, [&](const Expr* e) { few &= e->op != Op::Dim || (e->dim->extent->is_const() && e->dim->extent->i <= nest::kFewColumns); });
    return few;
  }
  // Whether `axis` has dims that `index` has not.
  bool has_other_dims(const Expr* axis, const Expr* index) {
    bool found = false;
    ir::walk(axis, [&](const Expr* e) { found |= e->op == Op::Dim && !e->dim->extent->is_int(1) && !ir::depends_on(index, e); });
    return found;
  }

  // The only reader, if it runs over the elements as stored and is the smaller of both, takes the dims of the producer, which
  // is gone then: a long chain grows at its end, where it would be written anew, with other dims, by each node that joins it.
  void take_dims(nest::Statement& to, const PlainMap& p, const Expr* load) {
    if (nodes(to) >= node_count(p.write->value, kMaxNodes)) return;
    std::vector<const ir::Dim*> dims = to.nest->dims;
    std::unordered_map<const Expr*, const Expr*> renamed;
    for (size_t k = 0; k < load->args.size(); ++k) {
      const ir::Dim* dim = p.axis_dim[k];
      if (!dim) continue;
      const auto at = std::find_if(to.nest->dims.begin(), to.nest->dims.end(), [&](const ir::Dim* d) { return ctx_.dim(d) == load->args[k]; });
      if (at == to.nest->dims.end() || (*at)->extent != dim->extent || !renamed.emplace(load->args[k], ctx_.dim(dim)).second) return;
      dims[static_cast<size_t>(at - to.nest->dims.begin())] = dim;
    }
    map_roots(to, [&](const Expr* root) { return ctx_.substitute(root, renamed); });
    to.nest->dims = std::move(dims);
  }

  void replace(size_t reader, uint32_t y, const PlainMap& p) {
    map_roots(f_.body[reader], [&](const Expr* root) {
      const Expr* e = replace_loads(ctx_, root, y, [&](const Expr* load) { return composed(ctx_, p, load); });
      return e == root ? root : bounds_from_padding(ctx_, e);
    });
    update_reads(uses_, f_, reader);
  }

  static bool in_address(const nest::Statement& s, uint32_t y) {
    bool found = false;
    auto check = [&](const Expr* e) {
      ir::walk(e, [&](const Expr* x) { found |= x->op == Op::Load && x->array == y; });
    };
    if (s.nest->where) check(s.nest->where);
    for (const nest::Write& w : s.nest->writes) for (const Expr* e : w.index) check(e);
    for_loads(s, [&](const Expr* l) {
      for (const Expr* e : l->args) check(e);
    });
    return found;
  }
  static size_t nodes(const nest::Statement& s) {
    size_t n = 0;
    for_roots(s, [&](const Expr* e) { n += node_count(e, kMaxNodes); });
    return n;
  }

  ir::Context& ctx_;
  nest::Function& f_;
  Uses uses_;
};

}  // namespace

Status fuse(ir::Context& ctx, nest::Function& f) {
  Fuser(ctx, f).run();
  return ok();
}

}  // namespace mlc::passes
