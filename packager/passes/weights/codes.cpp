// Products of codes of 8 bits, with zero points beside the sum: what is summed are the codes as stored in memory.
//
//   sum((a - za)*(b - zb)) = sum(a*b) - zb*sum(a) + za*sum(zb - b)
//
// The last sum is over constants. Weights are stored signed (those of u8 less 128, like their zero point), activations unsigned
// where no other reader gives their type: the form that instructions take. A condition goes where za is not 0: the points that it
// leaves out read za, so that one sum over b serves all positions. Arithmetic of i32 wraps, hence all of this is exact.
//
// A product without columns (depthwise) is no job for such instructions: there the weights become i16, without a zero point.
//
// Where both factors are values of the run, the second one is written as a code of i8 too (one of u8 less 128, which packing it
// into panels does on the way), and its sums per column are a statement in front of the product.
#include <algorithm>
#include <map>

#include "packager/ir/broadcast.h"
#include "packager/nest/facts/contraction.h"
#include "packager/nest/text/names.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"
#include "targets/machines.h"

namespace mlc::passes {
namespace {

using ir::Op;

constexpr int kSign = 128;  // between a code of u8 and the one of i8 that has all bits but the first in common

class Codes {
 public:
  Codes(ir::Context& ctx, nest::Function& f) : ctx_(ctx), f_(f) {}

  void run() {
    make_activations_unsigned();
    std::vector<nest::Statement> body;
    for (nest::Statement& s : f_.body) {
      if (s.nest)
        for (nest::Write& w : s.nest->writes)
          w.value = ctx_.rewrite(w.value, [&](const Expr* e) -> const Expr* {
            if (const auto c = product_with_weights(s.nest->dims, e)) return is_done(*c) ? nullptr : without_zero_points(*s.nest, *c);
            const auto c = product_of_values(*s.nest, w, e);
            return c && (c->a.zero || !nest::is_signed_code(c->b)) ? with_signed_codes(*s.nest, *c) : nullptr;
          });
      body.insert(body.end(), std::make_move_iterator(sums_.begin()), std::make_move_iterator(sums_.end()));
      sums_.clear();
      body.push_back(std::move(s));
    }
    // New statements that read constants only go in front.
    f_.body = std::move(added_);
    f_.body.insert(f_.body.end(), std::make_move_iterator(body.begin()), std::make_move_iterator(body.end()));
  }

 private:
  const Expr* number(int64_t n) { return ctx_.integer(n, DType::I32); }

  bool is_weight(const nest::Operand& o) { return f_.arrays[o.load->array].kind == nest::Array::Kind::Const; }

  // An integer product of codes.
  std::optional<nest::Contraction> product_of_codes(const std::vector<const ir::Dim*>& scope, const Expr* e) {
    auto c = nest::contraction_of(ctx_, scope, e);
    if (!c || c->acc() != DType::I32 || !c->a.is_code() || !c->b.is_code() || c->a.scale || c->b.scale) return std::nullopt;
    for (const nest::Operand* o : {&c->a, &c->b})
      if (o->inside || o->load->access == ir::Access::Checked) return std::nullopt;
    return c;
  }
  // `b` is the constant one.
  std::optional<nest::Contraction> product_with_weights(const std::vector<const ir::Dim*>& scope, const Expr* e) {
    auto c = product_of_codes(scope, e);
    if (c && is_weight(c->a)) c = c->swapped();
    if (!c || !is_weight(c->b) || is_weight(c->a)) return std::nullopt;
    return c;
  }
  // None is constant; `b` is the one that is worth being packed.
  std::optional<nest::Contraction> product_of_values(const nest::Nest& nest, const nest::Write& w, const Expr* e) {
    auto c = product_of_codes(nest.dims, e);
    if (!c || is_weight(c->a) || is_weight(c->b)) return std::nullopt;
    if (nest::is_turned(ctx_, *c, w.index)) c = c->swapped();
    if (c->fold->fold->where && !is_everywhere(c->b)) c = c->swapped();  // with_signed_codes
    const bool has_depth = std::any_of(c->k.begin(), c->k.end(), [](const ir::Dim* d) { return !d->extent->is_const() || d->extent->i >= nest::kGroup; });
    if (!has_depth || !nest::is_worth_packing(*c)) return std::nullopt;
    return c;
  }
  // Whether an operand may be read at all points of the sum, whatever its condition leaves out.
  bool is_everywhere(const nest::Operand& o) {
    const auto& shape = f_.arrays[o.load->array].shape;
    for (size_t k = 0; k < shape.size(); ++k) {
      const Expr* at = o.load->args[k];
      if (ir::broadcast_in_range(ctx_, at, shape[k])) continue;
      if (!ir::proves(ctx_, ctx_.binary(Op::Le, ctx_.integer(0), at), {}) || !ir::proves(ctx_, ctx_.binary(Op::Lt, at, shape[k]), {})) return false;
    }
    return true;
  }
  static bool is_done(const nest::Contraction& c) { return c.b.load->type.dtype == DType::I8 && !c.b.zero && !c.a.zero; }

  // ---- activations ----

  void make_activations_unsigned() {
    const Uses uses = uses_of(f_);
    std::vector<bool> wanted(f_.arrays.size(), false);
    for (const nest::Statement& s : f_.body)
      if (s.nest)
        for (const nest::Write& w : s.nest->writes)
          ir::walk(w.value, [&](const Expr* e) {
            auto c = product_with_weights(s.nest->dims, e);
            if (!c) c = product_of_values(*s.nest, w, e);
            if (c && c->a.code() == DType::I8) wanted[c->a.load->array] = true;
          });
    for (uint32_t a = 0; a < wanted.size(); ++a)
      if (wanted[a] && f_.arrays[a].kind == nest::Array::Kind::Temp && !uses.output[a] && only_nests(uses, a)) make_unsigned(uses, a);
  }
  bool only_nests(const Uses& uses, uint32_t a) {
    for (size_t s : uses.writers[a]) {
      if (!f_.body[s].nest || f_.body[s].nest->scan_dim) return false;
      for (const nest::Write& w : f_.body[s].nest->writes)
        if (w.array == a && w.push) return false;
    }
    return std::all_of(uses.readers[a].begin(), uses.readers[a].end(), [&](size_t s) { return f_.body[s].nest != nullptr; });
  }
  void make_unsigned(const Uses& uses, uint32_t a) {
    f_.arrays[a].dtype = DType::U8;
    for (size_t s : uses.writers[a])
      for (nest::Write& w : f_.body[s].nest->writes)
        if (w.array == a) w.value = ctx_.binary(Op::BitXor, ctx_.convert(Op::Bitcast, {DType::U8, 1}, w.value), ctx_.integer(kSign, DType::U8));
    for (size_t s : uses.readers[a]) map_roots(f_.body[s], [&](const Expr* root) { return reading_unsigned(root, a); });
  }
  const Expr* reading_unsigned(const Expr* root, uint32_t a) {
    const auto code = [&](const Expr* load) {
      std::vector<const Expr*> index;
      for (const Expr* e : load->args) index.push_back(reading_unsigned(e, a));
      return ctx_.load(a, {DType::U8, 1}, std::move(index), load->access);
    };
    const auto is_code = [&](const Expr* e) { return e->op == Op::Load && e->array == a && e->type.dtype == DType::I8; };
    const auto is_wide = [&](const Expr* e) { return e->op == Op::Cast && is_code(e->args[0]) && (e->type.dtype == DType::I32 || e->type.dtype == DType::F32); };
    const auto less = [&](const Expr* wide, double zero) {
      const Expr* e = ctx_.cast(wide->type.dtype, code(wide->args[0]));
      return zero == 0 ? e : ctx_.binary(Op::Sub, e, ctx_.number(zero, wide->type.dtype));
    };
    return ctx_.rewrite(root, [&](const Expr* e) -> const Expr* {
      if (e->op == Op::Sub && is_wide(e->args[0]) && e->args[1]->is_const()) {
        const double zero = is_float(e->type.dtype) ? e->args[1]->f : static_cast<double>(e->args[1]->i);
        if (zero >= -kSign && zero < kSign && zero == static_cast<int>(zero)) return less(e->args[0], zero + kSign);
      }
      if (e->op == Op::Sub && is_wide(e->args[0]) && e->type.dtype == DType::I32 && !e->args[1]->is_const())
        return ctx_.binary(Op::Sub, ctx_.cast(DType::I32, code(e->args[0]->args[0])), ctx_.binary(Op::Add, reading_unsigned(e->args[1], a), number(kSign)));
      if (is_wide(e)) return less(e, kSign);
      if (!is_code(e)) return nullptr;
      return ctx_.convert(Op::Bitcast, {DType::I8, 1}, ctx_.binary(Op::BitXor, code(e), ctx_.integer(kSign, DType::U8)));
    });
  }

  // ---- zero points ----

  const Expr* without_zero_points(const nest::Nest& nest, const nest::Contraction& c) {
    const Expr* zero = c.b.zero ? same_everywhere(c.b.zero) : number(0);
    const bool has_columns = std::any_of(c.n.begin(), c.n.end(), [](const ir::Dim* d) { return !d->extent->is_int(1); });
    Axes axes;
    if (!axes_of(c, zero, axes)) return nullptr;
    ir::Fold fold = *c.fold->fold;
    const Expr* a = ctx_.cast(DType::I32, c.a.load);
    if (!has_columns) {
      const Expr* number_of_a = c.a.zero ? ctx_.binary(Op::Sub, a, c.a.zero) : a;
      return ctx_.fold(fold, {ctx_.binary(Op::Mul, number_of_a, ctx_.cast(DType::I32, weights(c.b.load, axes, DType::I16, axes.zero)))});
    }
    const Expr *za = c.a.zero ? same_everywhere(c.a.zero) : number(0), *taken = number(c.b.code() == DType::U8 ? kSign : 0);
    if (fits(c.b.load, zero)) taken = zero;
    if (fold.where && !za->is_int(0)) {
      a = ctx_.select(fold.where, a, za);
      fold.where = nullptr;
    }
    const Expr* sum = ctx_.fold(fold, {ctx_.binary(Op::Mul, a, ctx_.cast(DType::I32, weights(c.b.load, axes, DType::I8, taken)))});
    if (zero != taken) {
      const Expr* sum_of_a = ctx_.fold(fold, {a});
      if (is_summed_apart(c, fold)) sum_of_a = sum_of_values(nest, c.a.load->array, sum_of_a);
      sum = ctx_.binary(Op::Sub, sum, ctx_.binary(Op::Mul, sum_of_a, ctx_.binary(Op::Sub, zero, taken)));
    }
    if (za->is_int(0)) return sum;
    const Expr* times = za->is_const() ? za : number(1);
    const Expr* sums = sum_of_weights(c.b.load, axes, times);
    return ctx_.binary(Op::Add, sum, times == za ? sums : ctx_.binary(Op::Mul, za, sums));
  }

  // The same of two values of the run. The condition stays where it is if `b` may not be read without it: the border of a picture is none of the array.
  const Expr* with_signed_codes(const nest::Nest& nest, const nest::Contraction& c) {
    const Expr *za = c.a.zero ? c.a.zero : number(0), *zb = c.b.zero ? c.b.zero : number(0), *taken = number(c.b.code() == DType::U8 ? kSign : 0);
    ir::Fold fold = *c.fold->fold;
    const Expr *a = ctx_.cast(DType::I32, c.a.load), *b = ctx_.cast(DType::I32, c.b.load);
    if (fold.where && !za->is_int(0) && is_everywhere(c.b)) {
      a = ctx_.select(fold.where, a, za);
      fold.where = nullptr;
    }
    const Expr* sum = ctx_.fold(fold, {ctx_.binary(Op::Mul, a, taken->is_int(0) ? b : ctx_.binary(Op::Sub, b, taken))});
    if (zb != taken) sum = ctx_.binary(Op::Sub, sum, ctx_.binary(Op::Mul, ctx_.fold(fold, {a}), ctx_.binary(Op::Sub, zb, taken)));
    if (za->is_int(0)) return sum;
    return ctx_.binary(Op::Add, sum, ctx_.binary(Op::Mul, za, sum_of_values(nest, c.b.load->array, ctx_.fold(fold, {ctx_.binary(Op::Sub, zb, b)}))));
  }

  // Whether the sums of a row's codes are better computed once than by each group of columns, which takes a row along the product
  // for them. Windows overlap: there an element would be read for each of them.
  bool is_summed_apart(const nest::Contraction& c, const ir::Fold& fold) const {
    double columns = 1;
    for (const ir::Dim* d : c.n) columns *= estimate(d->extent);
    return c.taps.empty() && !fold.where && columns > targets::kAnyProcessor.summed_columns;
  }

  // The load from an array that `sum`, of one factor alone, the elements of `of`, is computed into before.
  const Expr* sum_of_values(const nest::Nest& nest, uint32_t of, const Expr* sum) {
    std::vector<const ir::Dim*> dims;
    std::vector<const Expr*> at;
    std::unordered_map<const Expr*, const Expr*> here;
    for (const ir::Dim* d : nest.dims)
      if (ir::depends_on(sum, ctx_.dim(d))) {
        dims.push_back(ctx_.declare_dim(d->name, d->extent));
        at.push_back(ctx_.dim(d));
        here.emplace(at.back(), ctx_.dim(dims.back()));
      }
    const uint32_t array = computed(sums_, of, dims, DType::I32, ctx_.substitute(sum, here), ", sums");
    return ctx_.load(array, {DType::I32, 1}, at);
  }

  // The number that a zero point is for all channels, or what it was.
  const Expr* same_everywhere(const Expr* zero) {
    if (zero->op != Op::Cast || zero->args[0]->op != Op::Load || zero->args[0]->access == ir::Access::Checked) return zero;
    const nest::Array& a = f_.arrays[zero->args[0]->array];
    if (a.kind != nest::Array::Kind::Const || !a.data || a.data->bytes.empty() || bytes_of(a.dtype) != 1) return zero;
    const std::byte first = a.data->bytes[0];
    if (!std::all_of(a.data->bytes.begin(), a.data->bytes.end(), [&](std::byte b) { return b == first; })) return zero;
    return number(a.dtype == DType::I8 ? static_cast<int8_t>(first) : static_cast<int>(first));
  }

  // Whether all weights less this number are codes of i8.
  bool fits(const Expr* load, const Expr* zero) {
    const nest::Array& w = f_.arrays[load->array];
    if (!zero->is_const() || !w.data) return false;
    return std::all_of(w.data->bytes.begin(), w.data->bytes.end(), [&](std::byte b) {
      const int64_t n = (w.dtype == DType::I8 ? static_cast<int8_t>(b) : static_cast<int>(b)) - zero->i;
      return n >= -kSign && n < kSign;
    });
  }

  // The axes of the weights, as dims of statements over them: which of them are summed, and the zero point along the others.
  struct Axes {
    std::vector<const ir::Dim*> dims;
    std::vector<bool> folded;
    const Expr* zero = nullptr;
  };
  bool axes_of(const nest::Contraction& c, const Expr* zero, Axes& out) {
    const Expr* load = c.b.load;
    std::unordered_map<const Expr*, const Expr*> here;
    size_t folded = 0;
    for (size_t k = 0; k < load->args.size(); ++k) {
      const Expr *e = load->args[k], *extent = f_.arrays[load->array].shape[k];
      out.dims.push_back(ctx_.declare_dim("w" + std::to_string(k), extent));
      bool mentions = false;
      for (const ir::Dim* d : c.fold->fold->dims) mentions |= ir::depends_on(e, ctx_.dim(d));
      if (mentions && (e->op != Op::Dim || e->dim->extent != extent)) return false;
      out.folded.push_back(mentions);
      folded += mentions;
      if (!mentions && !e->is_const()) here.emplace(e, ctx_.dim(out.dims.back()));
    }
    // A folded dim that the weights do not know, or know twice, would be summed another number of times.
    if (folded != c.fold->fold->dims.size()) return false;
    for (const ir::Dim* d : c.fold->fold->dims)
      if (std::count(load->args.begin(), load->args.end(), ctx_.dim(d)) != 1) return false;
    out.zero = ctx_.substitute(zero, here);
    bool bound = true;
    ir::walk(out.zero, [&](const Expr* e) {
      if (e->op == Op::Dim) bound &= std::find(out.dims.begin(), out.dims.end(), e->dim) != out.dims.end();
      if (e->op == Op::Load) bound &= f_.arrays[e->array].kind == nest::Array::Kind::Const;
      bound &= e->op != Op::Sym && e->op != Op::Fold;
    });
    return bound;
  }

  // The load from an array of the weights less `taken`.
  const Expr* weights(const Expr* load, const Axes& axes, DType dtype, const Expr* taken) {
    const std::vector<const Expr*> at(load->args.begin(), load->args.end());
    std::vector<const Expr*> index;
    for (const ir::Dim* d : axes.dims) index.push_back(ctx_.dim(d));
    const Expr* value = ctx_.cast(dtype, ctx_.binary(Op::Sub, ctx_.cast(DType::I32, ctx_.load(load->array, load->type, index)), taken));
    return ctx_.load(computed(added_, load->array, axes.dims, dtype, value, ", codes"), {dtype, 1}, at);
  }

  // The load from times*sum(zero - weight), along the axes that are not summed.
  const Expr* sum_of_weights(const Expr* load, const Axes& axes, const Expr* times) {
    std::vector<const ir::Dim*> kept;
    ir::Fold fold{ctx_.builtin(ir::Join::Sum), {}, nullptr};
    std::vector<const Expr*> index, at;
    for (size_t k = 0; k < axes.dims.size(); ++k) {
      index.push_back(ctx_.dim(axes.dims[k]));
      (axes.folded[k] ? fold.dims : kept).push_back(axes.dims[k]);
      if (!axes.folded[k]) at.push_back(load->args[k]);
    }
    const Expr* sum = ctx_.fold(fold, {ctx_.binary(Op::Sub, axes.zero, ctx_.cast(DType::I32, ctx_.load(load->array, load->type, index)))});
    return ctx_.load(computed(added_, load->array, kept, DType::I32, ctx_.binary(Op::Mul, times, sum), ", sums"), {DType::I32, 1}, at);
  }

  // An array that a new statement computes.
  uint32_t computed(std::vector<nest::Statement>& statements, uint32_t of, const std::vector<const ir::Dim*>& dims, DType dtype, const Expr* value, const char* what) {
    nest::Array a;
    a.name = nest::unique_name(f_, f_.arrays[of].name + what, "");
    a.dtype = dtype;
    nest::Statement s;
    s.source = a.name;
    s.nest = std::make_unique<nest::Nest>();
    s.nest->dims = dims;
    std::vector<const Expr*> index;
    for (const ir::Dim* d : dims) {
      a.shape.push_back(d->extent);
      index.push_back(ctx_.dim(d));
    }
    const auto array = static_cast<uint32_t>(f_.arrays.size());
    f_.arrays.push_back(std::move(a));
    s.nest->writes.push_back({array, std::move(index), value});
    statements.push_back(std::move(s));
    return array;
  }

  ir::Context& ctx_;
  nest::Function& f_;
  std::vector<nest::Statement> added_;  // over constants
  std::vector<nest::Statement> sums_;   // over values, to stand before the statement at hand
};

}  // namespace

Status codes(ir::Context& ctx, nest::Function& f) {
  Codes(ctx, f).run();
  return ok();
}

}  // namespace mlc::passes
