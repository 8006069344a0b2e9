// Where arrays are stored in memory. Inputs, outputs and everything not named here are row-major.
//
// Weights (constants multiplied in a contraction; f64, f32, f16, bf16), by the axes of the array:
//   one axis N indexed by map dims that the other operand does not know, one axis K indexed by a fold dim,
//   further axes T by other fold dims      ->  T outermost, then [N/16][K][16]   panels; MatMul: [N/16][K][16]
//   the same with few columns (a map in one, two, three channels)  ->  T outermost, K innermost: [T][N][K]
//   no axis N (depthwise: the channel indexes both operands)  ->  T outermost, channel innermost: [T][C]
//   a batch of matrices: the batch axes stay outermost
// A constant that two contractions want differently is stored once per layout. What procs want (proc_weights.h) holds where no
// contraction wants anything.
//
// Activations of rank 3 to 5: each contraction of convolution form (its K axis, and the N axis of its result, are not the
// last axis) and each window (pooling, depthwise) votes for its channel axis to be innermost, weighted with its work;
// contractions over the last axis vote for row-major. Arrays that elementwise nests read and write at equal indices
// vote together. The axis with the most votes becomes innermost, the others keep their order: channels last.
//
// Inputs and outputs that lie otherwise than a contraction wants are copied once, instead of being read or written across
// their grain by every tap of it.
#include <algorithm>
#include <map>
#include <numeric>

#include "packager/ir/broadcast.h"
#include "packager/nest/facts/contraction.h"
#include "packager/nest/proc.h"
#include "packager/nest/text/names.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"
#include "packager/passes/weights/proc_weights.h"
#include "targets/machines.h"

namespace mlc::passes {
namespace {

using ir::Op;

bool mentions_any(ir::Context& ctx, const Expr* e, const std::vector<const ir::Dim*>& dims) {
  return std::any_of(dims.begin(), dims.end(), [&](const ir::Dim* d) { return ir::depends_on(e, ctx.dim(d)); });
}

// Axis of `load` whose index is exactly this dim, or -1.
int axis_of(ir::Context& ctx, const Expr* load, const ir::Dim* d) {
  for (size_t k = 0; k < load->args.size(); ++k)
    if (load->args[k] == ctx.dim(d)) return static_cast<int>(k);
  return -1;
}

// The axes of operand b of a contraction, by the roles of the dims that index them.
struct Roles {
  int n = -1, k = -1;       // n -1: depthwise
  int channel = -1;         // depthwise: the axis both operands share
  std::vector<int> taps;    // axes with other fold dims
  const ir::Dim* k_dim = nullptr;
  std::vector<const ir::Dim*> n_dims;
  int64_t group = 1;        // elements along k that are multiplied at once: codes of 8 bits, bf16
  bool codes() const { return group == nest::kGroup; }
};

// Axis of `load` along which a dim moves element by element, or -1.
int moving_axis(ir::Context& ctx, const Expr* load, const ir::Dim* d) {
  const Expr* leaf[] = {ctx.dim(d)};
  for (size_t k = 0; k < load->args.size(); ++k) {
    const auto linear = ir::linear_in(ctx, load->args[k], leaf);
    if (linear && linear->coefficients[0]->is_int(1)) return static_cast<int>(k);
  }
  return -1;
}

// Channels that fill no group of codes: taps along the last axis do, if nothing cuts them short.
void take_tap(ir::Context& ctx, const nest::Contraction& c, Roles& r) {
  const Expr *a = c.a.load, *b = c.b.load;
  const auto restricted = [&](const Expr* d) {
    for (const Expr* where : {c.fold->fold->where, c.a.inside})
      if (where && ir::depends_on(where, d)) return true;
    return false;
  };
  for (size_t t = 0; t < r.taps.size(); ++t) {
    const int axis = r.taps[t];
    const Expr* d = b->args[static_cast<size_t>(axis)];
    if (d->op != Op::Dim || !d->dim->extent->is_const() || d->dim->extent->i < nest::kGroup || restricted(d)) continue;
    if (std::find(c.taps.begin(), c.taps.end(), d->dim) == c.taps.end() || moving_axis(ctx, a, d->dim) != static_cast<int>(a->args.size()) - 1) continue;
    std::erase(r.taps, axis);
    if (r.k >= 0) r.taps.push_back(r.k);
    r.k = axis;
    r.k_dim = d->dim;
    return;
  }
}

bool roles_of(ir::Context& ctx, const nest::Nest& nest, const nest::Contraction& c, Roles& r) {
  const Expr* b = c.b.load;
  r = {};
  std::vector<const ir::Dim*> own;  // of b alone
  for (const ir::Dim* d : c.n)
    if (!d->extent->is_int(1)) own.push_back(d);
  if (c.acc() == DType::I32 && b->type.dtype == DType::I8 && c.is_plain_product()) r.group = nest::kGroup;
  // N is the longest of the axes that only b knows; the others tell apart matrices (the directions of a recurrent net).
  double k_extent = 0, n_extent = 0;
  for (size_t k = 0; k < b->args.size(); ++k) {
    const Expr* e = b->args[k];
    bool has_fold = mentions_any(ctx, e, c.fold->fold->dims), has_own = mentions_any(ctx, e, own);
    if (has_own) {
      if (has_fold) return false;
      std::vector<const ir::Dim*> dims;
      for (const ir::Dim* d : own)
        if (ir::depends_on(e, ctx.dim(d))) dims.push_back(d);
      if (estimate(dims) <= n_extent) continue;
      n_extent = estimate(dims);
      r.n = static_cast<int>(k);
      r.n_dims = std::move(dims);
    } else if (has_fold) {
      r.taps.push_back(static_cast<int>(k));
      const bool is_k = e->op == Op::Dim && std::find(c.k.begin(), c.k.end(), e->dim) != c.k.end();
      if (is_k && estimate(e->dim->extent) > k_extent) {
        k_extent = estimate(e->dim->extent);
        r.k = static_cast<int>(k);
        r.k_dim = e->dim;
      }
    } else if (mentions_any(ctx, e, nest.dims)) {
      r.channel = static_cast<int>(k);
    }
  }
  if (r.k >= 0) std::erase(r.taps, r.k);
  if (r.codes() && k_extent < static_cast<double>(nest::kGroup)) take_tap(ctx, c, r);
  if (nest::is_product_of_pairs(c) && r.k >= 0) r.group = nest::kPair;
  return true;
}

// So few that vectors along k are fuller than vectors of columns; a dim of one column is no dim of the nest.
bool few_columns(const Roles& r) {
  return r.k_dim && !r.codes() && nest::lanes_along_k(r.k_dim->extent, 16) > 1 && (r.n >= 0 || r.channel < 0) &&
         std::all_of(r.n_dims.begin(), r.n_dims.end(), [](const ir::Dim* d) { return d->extent->is_const() && d->extent->i <= nest::kFewColumns; });
}

bool weight_layout(const nest::Array& w, const Roles& r, nest::Layout& out) {
  size_t rank = w.shape.size();
  const bool is_float = w.dtype == DType::F64 || w.dtype == DType::F32 || w.dtype == DType::F16 || w.dtype == DType::BF16;
  if ((!is_float && w.dtype != DType::I16 && !r.codes()) || rank < 2) return false;
  if (!std::all_of(w.shape.begin(), w.shape.end(), [](const Expr* e) { return e->is_const(); })) return false;
  auto piece = [](int axis, int64_t divisor = 1, int64_t extent = 0) { return nest::Piece{static_cast<uint8_t>(axis), divisor, extent}; };
  std::vector<bool> done(rank, false);
  out.pieces.clear();
  auto put = [&](int axis) {
    out.pieces.push_back(piece(axis));
    done[static_cast<size_t>(axis)] = true;
  };
  if (r.n >= 0) {
    int k = r.k;
    std::vector<int> taps = r.taps;
    if (k < 0 && !taps.empty()) {  // one input channel: a tap takes the place of K
      k = taps.back();
      taps.pop_back();
    }
    if (k < 0) return false;
    if (!is_float && !r.codes()) return false;
    for (int t : taps) done[static_cast<size_t>(t)] = true;
    done[static_cast<size_t>(r.n)] = done[static_cast<size_t>(k)] = true;
    for (size_t a = 0; a < rank; ++a)  // batches of matrices, axes of one element
      if (!done[a]) out.pieces.push_back(piece(static_cast<int>(a)));
    for (int t : taps) out.pieces.push_back(piece(t));
    const bool few = few_columns(r);
    const int64_t group = few ? 1 : r.group;
    out.pieces.push_back(few ? piece(r.n) : piece(r.n, nest::kPanel));
    out.pieces.push_back(piece(k, group));
    if (!few) out.pieces.push_back(piece(r.n, 1, nest::kPanel));
    if (group > 1) out.pieces.push_back(piece(k, 1, group));
    return true;
  }
  const bool one_column = few_columns(r);
  if (!one_column && (r.channel < 0 || r.k >= 0)) return false;
  const int innermost = one_column ? r.k : r.channel;
  for (int t : r.taps) put(t);
  for (size_t a = 0; a < rank; ++a)
    if (!done[a] && static_cast<int>(a) != innermost) put(static_cast<int>(a));
  put(innermost);
  return true;
}

class Assigner {
 public:
  Assigner(ir::Context& ctx, nest::Function& f) : ctx_(ctx), f_(f), parent_(f.arrays.size()), votes_(f.arrays.size()), decided_(f.arrays.size(), false), crossed_(f.arrays.size(), false) {
    std::iota(parent_.begin(), parent_.end(), 0u);
    for (nest::Array& a : f.arrays) a.layout = {};
    is_weight_ = constant_temporaries(f, uses_of(f));
    for (size_t i = 0; i < f.arrays.size(); ++i)
      is_weight_[i] = f.arrays[i].kind == nest::Array::Kind::Const || (is_weight_[i] && (f.arrays[i].dtype == DType::F32 || f.arrays[i].dtype == DType::F64 || f.arrays[i].dtype == DType::BF16));
  }

  void run() {
    for (nest::Statement& s : f_.body)
      if (s.nest) visit(s);
    for (const nest::Statement& s : f_.body)
      if (s.proc) visit(*s.proc);
    // Votes of a group are those of all of its members.
    std::map<uint32_t, std::map<int, double>> groups;
    for (uint32_t i = 0; i < votes_.size(); ++i)
      for (auto [axis, weight] : votes_[i]) groups[root(i)][axis] += weight;
    for (uint32_t i = 0, count = static_cast<uint32_t>(votes_.size()); i < count; ++i) {
      const size_t rank = f_.arrays[i].shape.size();
      if (f_.arrays[i].kind == nest::Array::Kind::Const || decided_[i] || rank < 3 || rank > 5) continue;
      auto it = groups.find(root(i));
      if (it == groups.end()) continue;
      auto best = std::max_element(it->second.begin(), it->second.end(), [](auto& x, auto& y) { return x.second < y.second; });
      size_t axis = static_cast<size_t>(best->first);
      if (axis + 1 == rank) continue;
      std::vector<uint8_t> order;
      for (size_t k = 0; k < rank; ++k)
        if (k != axis) order.push_back(static_cast<uint8_t>(k));
      order.push_back(static_cast<uint8_t>(axis));
      const bool output = std::find(f_.outputs.begin(), f_.outputs.end(), i) != f_.outputs.end();
      const bool input = f_.arrays[i].kind == nest::Array::Kind::Input;
      if (!input && !output) f_.arrays[i].layout = nest::permuted(std::move(order));
      else if (input != output && crossed_[i] && worth_copying(i, axis)) copy(i, nest::permuted(std::move(order)), output);
    }
    for (nest::Statement& s : copies_in_) f_.body.push_back(std::move(s));
    std::rotate(f_.body.begin(), f_.body.end() - static_cast<ptrdiff_t>(copies_in_.size()), f_.body.end());
    for (nest::Statement& s : copies_out_) f_.body.push_back(std::move(s));
  }

 private:
  static constexpr double kLine = targets::kAnyProcessor.line_bytes / sizeof(float);  // elements

  bool worth_copying(uint32_t array, size_t axis) {
    const std::vector<const Expr*>& shape = f_.arrays[array].shape;
    double elements = 1, stride = 1;
    for (size_t k = 0; k < shape.size(); ++k) {
      elements *= estimate(shape[k]);
      if (k > axis) stride *= estimate(shape[k]);
    }
    return estimate(shape[axis]) >= kLine && stride >= kLine && elements >= targets::kAnyProcessor.copy_points;
  }

  // All nests use a copy of an input or output in this layout.
  void copy(uint32_t array, nest::Layout layout, bool output) {
    const auto names = [&](const std::vector<uint32_t>& arrays) { return std::find(arrays.begin(), arrays.end(), array) != arrays.end(); };
    for (const nest::Statement& s : f_.body)
      if (!s.nest && (names(written(s)) || names(read(s)))) return;
    const auto twin = static_cast<uint32_t>(f_.arrays.size());
    nest::Array a = f_.arrays[array];
    a.name = nest::unique_name(f_, a.name + "@" + nest::to_string(layout, static_cast<unsigned>(a.shape.size())), "");
    a.kind = nest::Array::Kind::Temp;
    a.layout = std::move(layout);
    f_.arrays.push_back(std::move(a));
    for (nest::Statement& s : f_.body) {
      if (!s.nest) continue;
      map_roots(s, [&](const Expr* root) {
        return replace_loads(ctx_, root, array, [&](const Expr* l) { return ctx_.load(twin, l->type, {l->args.begin(), l->args.end()}, l->access); });
      });
      for (nest::Write& w : s.nest->writes)
        if (w.array == array) w.array = twin;
    }
    const uint32_t from = output ? twin : array, to = output ? array : twin;
    (output ? copies_out_ : copies_in_).push_back(copy_statement(ctx_, f_, from, to, f_.arrays[array].name + (output ? ", as it is given" : ", as it is used")));
  }

  static bool looks_up(const Expr* index) {
    bool found = false;
    ir::walk(index, [&](const Expr* e) { found |= e->op == Op::Load; });
    return found;
  }

  // Places along an axis that a table says for each of those that are written along it, as in one pass of a resampling.
  bool follows(const nest::Nest& n, const Expr* read, const Expr* written) {
    return written->op == Op::Dim && looks_up(read) && ir::depends_on(read, written) &&
           std::none_of(n.dims.begin(), n.dims.end(), [&](const ir::Dim* d) { return d != written->dim && ir::depends_on(read, ctx_.dim(d)); });
  }

  uint32_t root(uint32_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void vote(uint32_t array, int axis, double weight) {
    if (axis >= 0) votes_[array][axis] += weight;
  }

  void visit(nest::Statement& s) {
    nest::Nest& n = *s.nest;
    for (nest::Write& w : n.writes) {
      // Arrays read at the point that is written lie the same way.
      ir::walk(w.value, [&](const Expr* e) {
        if (e->op != Op::Load || f_.arrays[e->array].shape.size() != w.index.size()) return;
        if (f_.arrays[e->array].kind == nest::Array::Kind::Const || w.index.size() < 3) return;
        const bool by_table = std::any_of(e->args.begin(), e->args.end(), looks_up);
        size_t equal = 0;
        for (size_t k = 0; k < w.index.size(); ++k) {
          bool unit = f_.arrays[e->array].shape[k]->is_int(1);
          bool offset = e->args[k] != w.index[k] && e->args[k]->op == Op::Dim && ir::depends_on(w.index[k], e->args[k]);
          equal += e->args[k] == w.index[k] || unit || offset || ir::without_steps(ctx_, e->args[k]) == w.index[k] ||
                   (by_table && follows(n, e->args[k], w.index[k]));
        }
        if (equal == w.index.size()) parent_[root(e->array)] = root(w.array);
      });
      gathers(n, w);
      std::vector<const Expr*> folds;
      ir::walk(w.value, [&](const Expr* e) {
        if (e->op == Op::Fold) folds.push_back(e);
      });
      for (const Expr* fold : folds) {
        double work = estimate(n.dims) * estimate(fold->fold->dims);
        if (!contraction(s, w, fold, work)) window(n, w, fold, work);
      }
    }
  }

  void visit(const nest::Proc& p) {
    for (WeightLayout& w : weights_of(ctx_, f_, p)) {
      if (decided_[w.array]) continue;
      decided_[w.array] = true;
      f_.arrays[w.array].layout = std::move(w.layout);
    }
  }

  // Elements gathered at places of a table. Where they would come from a line of memory each, but are read for all of a long
  // dim at the same places, that dim votes to be innermost. Once gathered elements are not worth two copies.
  void gathers(const nest::Nest& n, const nest::Write& w) {
    const Expr* last = w.index.empty() ? nullptr : w.index.back();
    std::unordered_map<const Expr*, double> times;
    for_each_load(w.value, 1, times);
    for (const auto& [l, taps] : times) {
      const size_t rank = l->args.size();
      if (rank < 3 || f_.arrays[l->array].kind == nest::Array::Kind::Const || !looks_up(l->args.back()) || w.push) continue;
      int axis = -1;
      for (size_t k = 0; k + 1 < rank; ++k) {
        const Expr* e = l->args[k];
        if (e->op != Op::Dim || estimate(e->dim->extent) < kLine || std::find(n.dims.begin(), n.dims.end(), e->dim) == n.dims.end()) continue;
        if (std::none_of(l->args.begin(), l->args.end(), [&](const Expr* a) { return a != e && ir::depends_on(a, e); })) axis = static_cast<int>(k);
      }
      if (axis < 0) continue;
      const Expr* along = l->args[static_cast<size_t>(axis)];
      double elements = 1;
      for (const Expr* extent : f_.arrays[l->array].shape) elements *= estimate(extent);
      const double work = estimate(n.dims) * taps;
      if (work * kLine < elements) continue;
      // One axis of a table is a pass of a resampling: along the others its elements are contiguous.
      const auto places = std::count_if(n.dims.begin(), n.dims.end(), [&](const ir::Dim* d) { return ir::depends_on(l->args.back(), ctx_.dim(d)); });
      if (last != along && (taps < 2 || places < 2)) continue;
      vote(l->array, axis, work);
      crossed_[l->array] = true;
      for (size_t k = 0; k < w.index.size(); ++k)
        if (w.index[k] == along && last != along) vote(w.array, static_cast<int>(k), work), crossed_[w.array] = true;
    }
  }

  // The loads of an expression, with how many elements each reads for a point of the nest.
  static void for_each_load(const Expr* value, double points, std::unordered_map<const Expr*, double>& times) {
    ir::walk(value, [&](const Expr* e) {
      if (e->op == Op::Load) times[e] += points;
    });
    ir::walk(value, [&](const Expr* e) {
      if (e->op != Op::Fold) return;
      const double each = estimate(e->fold->dims);
      for (const Expr* body : e->args)
        ir::walk(body, [&](const Expr* l) {
          if (l->op == Op::Load) times[l] = std::max(times[l], each);
        });
    });
  }

  // Axis of the written element along which `dims` lie (the last of them), or -1.
  int written_axis(const nest::Write& w, const std::vector<const ir::Dim*>& dims) {
    int axis = -1;
    for (const ir::Dim* d : dims)
      for (size_t k = 0; k < w.index.size(); ++k)
        if (ir::depends_on(w.index[k], ctx_.dim(d))) axis = static_cast<int>(k);
    return axis;
  }

  // Columns that lie side by side between the elements of a fold, h*16 + j, are panels as they are, and no layout puts the elements of the fold
  // side by side: they stay the columns, whatever is multiplied with them.
  bool has_panels_in_place(const nest::Operand& o, const nest::Contraction& c, const nest::Write& w) {
    const Expr* last = o.load->args.empty() || w.index.empty() ? nullptr : o.load->args.back();
    if (!last || w.index.back()->op != Op::Dim || !mentions_any(ctx_, last, c.fold->fold->dims)) return false;
    const ir::Dim* n = w.index.back()->dim;
    const Expr* leaf[] = {w.index.back()};
    const auto linear = ir::linear_in(ctx_, last, leaf);
    return linear && linear->coefficients[0]->is_int(1) && n->extent->is_const() && n->extent->i % nest::kPanel == 0 && ir::divisor_of(linear->rest) % n->extent->i == 0;
  }

  bool contraction(nest::Statement& s, nest::Write& w, const Expr* fold, double work) {
    auto is_weight = [&](const nest::Operand& o) { return is_weight_[o.load->array]; };
    auto c = nest::contraction_of(ctx_, s.nest->dims, fold);
    if (!c) return false;
    const bool turned = is_weight(c->b) == is_weight(c->a)                     ? nest::is_turned(ctx_, *c, w.index)
                        : has_panels_in_place(is_weight(c->a) ? c->b : c->a, *c, w) ? is_weight(c->b)
                                                                               : is_weight(c->a);
    if (turned) c = c->swapped();
    Roles r;
    if (!roles_of(ctx_, *s.nest, *c, r)) return false;
    const Expr *a = c->a.load, *b = c->b.load;
    if (r.n < 0 && !few_columns(r)) {
      // Depthwise: a window over a, with weights.
      if (!is_weight(c->b) || std::any_of(a->args.begin(), a->args.end(), looks_up)) return false;
      crossed_[a->array] = crossed_[w.array] = true;
      place(s, w, b, r);
      return false;
    }
    if (r.n < 0 && !is_weight(c->b)) return false;
    if (is_weight(c->b)) place(s, w, b, r);
    if (!few_columns(r)) vote(w.array, written_axis(w, r.n_dims), work);
    if (estimate(r.n_dims) >= kLine) cross_all_at(w);
    if (!r.k_dim) return true;
    // Three channels innermost would leave their writers vectors of two; broadcasts read them as well from planes, where
    // they are not of whole groups.
    if (few_columns(r) || r.group > 1 || estimate(r.k_dim->extent) > nest::kFewColumns) vote(a->array, axis_of_k(a, r), work);
    crossed_[a->array] = crossed_[a->array] || estimate(r.k_dim->extent) >= kLine;
    return true;
  }

  int axis_of_k(const Expr* a, const Roles& r) {
    const int plain = axis_of(ctx_, a, r.k_dim);
    return plain >= 0 || !r.codes() ? plain : moving_axis(ctx_, a, r.k_dim);
  }

  // A fold over neighbouring elements of an axis: the last axis that is a plain map dim, other than the first, is the
  // channel. Without such a fold there is no opinion, nor where there are several such axes.
  void window(const nest::Nest& n, const nest::Write& w, const Expr* fold, double work) {
    for (const Expr* body : fold->args)
      ir::walk(body, [&](const Expr* l) {
        if (l->op != Op::Load || l->args.size() < 3 || f_.arrays[l->array].kind == nest::Array::Kind::Const) return;
        if (std::any_of(l->args.begin(), l->args.end(), looks_up)) return;
        bool moving = false;
        int channel = -1, first = -1;
        for (size_t k = 0; k < l->args.size(); ++k) {
          const Expr* e = l->args[k];
          bool folded = mentions_any(ctx_, e, fold->fold->dims), mapped = mentions_any(ctx_, e, n.dims);
          moving |= folded && mapped;
          if (k > 0 && mapped && !folded) channel = static_cast<int>(k), first = first < 0 ? channel : first;
        }
        if (!moving || channel < 0) return;
        // A window along rows or columns alone: the channel, or another axis of the picture. What goes in lies as what comes out.
        if (first == 1 && channel > 1 && w.index.size() == l->args.size()) {
          parent_[root(l->array)] = root(w.array);
          return;
        }
        vote(l->array, channel, work);
        if (w.index.size() != l->args.size()) return;
        const Expr* at = l->args[static_cast<size_t>(channel)];
        for (size_t k = 0; k < w.index.size(); ++k)  // of a concatenation: behind other channels
          if (w.index[k] == at || (at->op == Op::Dim && ir::depends_on(w.index[k], at))) vote(w.array, static_cast<int>(k), work);
      });
  }

  // What is written along columns, and what is read at the same places.
  void cross_all_at(const nest::Write& w) {
    crossed_[w.array] = true;
    ir::walk(w.value, [&](const Expr* e) {
      if (e->op == Op::Load && std::equal(e->args.begin(), e->args.end(), w.index.begin(), w.index.end())) crossed_[e->array] = true;
    });
  }

  void place(nest::Statement& s, nest::Write& w, const Expr* b, const Roles& r) {
    nest::Layout wanted;
    if (!weight_layout(f_.arrays[b->array], r, wanted)) return;
    if (!decided_[b->array]) {
      decided_[b->array] = true;
      f_.arrays[b->array].layout = wanted;
      return;
    }
    if (f_.arrays[b->array].layout == wanted) return;
    // Another contraction wants it otherwise: a second array over the same data.
    uint32_t copy = 0;
    for (uint32_t i = 0; i < f_.arrays.size(); ++i) {
      const nest::Array& a = f_.arrays[i];
      if (a.data == f_.arrays[b->array].data && a.shape == f_.arrays[b->array].shape && decided_[i] && a.layout == wanted) copy = i;
    }
    if (copy == 0) {
      nest::Array a = f_.arrays[b->array];
      a.layout = wanted;
      a.name += "@" + nest::to_string(wanted, static_cast<unsigned>(a.shape.size()));
      for (int k = 2; std::any_of(f_.arrays.begin(), f_.arrays.end(), [&](const nest::Array& o) { return o.name == a.name; }); ++k)
        a.name += "." + std::to_string(k);
      copy = static_cast<uint32_t>(f_.arrays.size());
      f_.arrays.push_back(std::move(a));
      parent_.push_back(copy);
      votes_.emplace_back();
      decided_.push_back(true);
      crossed_.push_back(false);
    }
    (void)s;
    w.value = ctx_.substitute(w.value, {{b, ctx_.load(copy, b->type, {b->args.begin(), b->args.end()}, b->access)}});
  }

  ir::Context& ctx_;
  nest::Function& f_;
  std::vector<uint32_t> parent_;
  std::vector<std::map<int, double>> votes_;
  std::vector<bool> decided_;
  std::vector<bool> is_weight_;  // a constant, or computed from constants alone: it may become one (derive_weights.cpp)
  std::vector<bool> crossed_;  // by contractions that want another axis innermost: worth a copy
  std::vector<nest::Statement> copies_in_, copies_out_;
};

}  // namespace

Status assign_layouts(ir::Context& ctx, nest::Function& f) {
  Assigner(ctx, f).run();
  return ok();
}

}  // namespace mlc::passes
