// Sums of products in the form in which nest/facts/contraction.h knows them, before anything is fused.
//
//   scales leave   sum((x * s) * w) is s * sum(x * w), where s does not depend on what is summed over
//   codes          what DequantizeLinear makes of arrays of 8 bits goes into the products that read it, and these become
//                  sums of integers: sum(s*(q - z) * t*(w - v)) is s*t * f32(sum((q - z) * (w - v)))
//                  A reader that folds nothing dequantises on the way, so that memory holds the codes.
//
// Sums of integers are exact as long as they fit i32; longer ones stay as they are. Scales that are multiplied once instead of
// for each product round otherwise, that is all that changes.
#include <algorithm>
#include <map>

#include "packager/nest/facts/contraction.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {
namespace {

using ir::Op;

constexpr int64_t kLongestSum = INT32_MAX / (255 * 255);  // products of codes that i32 holds

bool is_byte(DType t) { return t == DType::I8 || t == DType::U8; }

// scale * (f32(code) - zero) of an element of 8 bits; nothing more.
struct Dequantised {
  const Expr *load = nullptr, *zero = nullptr, *scale = nullptr;
};
bool dequantised(const Expr* e, Dequantised& out) {
  if (e->type.dtype != DType::F32) return false;
  if (e->op == Op::Mul) {
    for (size_t k = 0; k < 2; ++k) {
      if (!dequantised(e->args[k], out) || out.scale) continue;
      out.scale = e->args[1 - k];
      return true;
    }
    return false;
  }
  out = {};
  if (e->op == Op::Sub) {
    out.zero = e->args[1];
    e = e->args[0];
  }
  if (e->op != Op::Cast || e->args[0]->op != Op::Load || !is_byte(e->args[0]->type.dtype)) return false;
  out.load = e->args[0];
  return true;
}

// A zero point as an integer: it was converted from one of 8 bits, or is a whole number.
const Expr* whole(ir::Context& ctx, const Expr* zero) {
  if (!zero) return nullptr;
  if (zero->op == Op::Cast && is_byte(zero->args[0]->type.dtype)) return ctx.cast(DType::I32, zero->args[0]);
  if (zero->is_const() && zero->f >= -128 && zero->f <= 255 && zero->f == static_cast<int>(zero->f)) return ctx.integer(static_cast<int>(zero->f), DType::I32);
  return nullptr;
}

class Algebra {
 public:
  Algebra(ir::Context& ctx, nest::Function& f) : ctx_(ctx), f_(f) {}

  void run() {
    find_dequantised();
    for (nest::Statement& s : f_.body) {
      if (!s.nest) continue;
      for (nest::Write& w : s.nest->writes) {
        if (!maps_.empty()) w.value = with_codes(*s.nest, w.value);
        w.value = without_scales(w.value);
        if (!maps_.empty() && !has_fold(w.value)) w.value = dequantising(w.value);
      }
    }
    remove_dead(f_);
  }

 private:
  void find_dequantised() {
    for (size_t i = 0; i < f_.body.size(); ++i) {
      PlainMap p;
      Dequantised d;
      if (f_.body[i].nest && plain_map(f_.body[i], p) && dequantised(p.write->value, d) && d.scale)
        maps_.emplace(p.write->array, Map{p, f_.arrays[d.load->array].kind == nest::Array::Kind::Const});
    }
    // An array that others write as well is none.
    std::map<uint32_t, size_t> writers;
    for (const nest::Statement& s : f_.body)
      for (uint32_t a : written(s)) ++writers[a];
    std::erase_if(maps_, [&](const auto& m) { return writers[m.first] != 1; });
  }

  // Products of two dequantised arrays as products of their codes.
  const Expr* with_codes(const nest::Nest& nest, const Expr* root) {
    return ctx_.rewrite(root, [&](const Expr* e) -> const Expr* {
      const auto c = nest::contraction_of(ctx_, nest.dims, e);
      if (!c || c->acc() != DType::F32 || !c->is_plain()) return nullptr;
      const auto a = maps_.find(c->a.load->array), b = maps_.find(c->b.load->array);
      if (a == maps_.end() || b == maps_.end()) return nullptr;
      if (c->a.load->access == ir::Access::Checked || c->b.load->access == ir::Access::Checked) return nullptr;
      return product_of_codes(nest, e, composed(ctx_, a->second.map, c->a.load), composed(ctx_, b->second.map, c->b.load));
    });
  }

  const Expr* product_of_codes(const nest::Nest& nest, const Expr* fold, const Expr* x, const Expr* w) {
    const auto c = nest::contraction_of(ctx_, nest.dims, ctx_.fold(*fold->fold, {ctx_.binary(Op::Mul, x, w)}));
    if (!c || !c->a.is_code() || !c->b.is_code() || !c->a.scale || !c->b.scale) return nullptr;
    int64_t most = 1;
    for (const ir::Dim* d : fold->fold->dims) {
      const int64_t n = ir::interval_of(d->extent).hi;
      if (n > kLongestSum || (most *= std::max<int64_t>(n, 1)) > kLongestSum) return nullptr;
    }
    const auto code = [&](const nest::Operand& o) -> const Expr* {
      const Expr *code = ctx_.cast(DType::I32, o.load), *zero = whole(ctx_, o.zero);
      if (!o.zero || (zero && zero->is_int(0))) return code;
      return zero ? ctx_.binary(Op::Sub, code, zero) : nullptr;
    };
    const Expr *p = code(c->a), *q = code(c->b);
    if (!p || !q) return nullptr;
    const Expr* sum = ctx_.cast(DType::F32, ctx_.fold(*fold->fold, {ctx_.binary(Op::Mul, p, q)}));
    return ctx_.binary(Op::Mul, sum, ctx_.binary(Op::Mul, c->a.scale, c->b.scale));
  }

  // Readers of single elements dequantise on the way: memory holds the codes.
  const Expr* dequantising(const Expr* root) {
    for (const auto& [array, map] : maps_) {
      if (map.of_constants) continue;
      bool plain = true, found = false;
      ir::walk(root, [&](const Expr* e) {
        found |= e->op == Op::Load && e->array == array;
        plain &= e->op != Op::Load || e->array != array || e->access != ir::Access::Checked;
      });
      if (found && plain) root = replace_loads(ctx_, root, array, [&](const Expr* load) { return composed(ctx_, map.map, load); });
    }
    return root;
  }

  // Constants that scale every product of a sum scale the sum.
  const Expr* without_scales(const Expr* root) {
    return ctx_.rewrite(root, [&](const Expr* e) -> const Expr* {
      const auto c = nest::contraction_of(ctx_, {}, e);
      if (!c || (c->acc() != DType::F32 && c->acc() != DType::F64) || c->a.is_code() || c->b.is_code()) return nullptr;
      const Expr* scale = nullptr;
      for (const Expr* s : {c->a.scale, c->b.scale}) {
        if (s && !is_constant(s)) return nullptr;
        scale = scale && s ? ctx_.binary(Op::Mul, scale, s) : s ? s : scale;
      }
      if (!scale) return nullptr;
      const auto element = [&](const nest::Operand& o) { return ctx_.cast(c->acc(), o.load); };
      return ctx_.binary(Op::Mul, ctx_.fold(*e->fold, {ctx_.binary(Op::Mul, element(c->a), element(c->b))}), scale);
    });
  }
  bool is_constant(const Expr* scale) {
    bool constant = true;
    ir::walk(scale, [&](const Expr* e) {
      if (e->op == Op::Load) constant &= f_.arrays[e->array].kind == nest::Array::Kind::Const;
      constant &= e->op != Op::Sym && e->op != Op::Fold && e->op != Op::Dim;
    });
    return constant;
  }

  ir::Context& ctx_;
  nest::Function& f_;
  struct Map {
    PlainMap map;
    bool of_constants = false;
  };
  std::map<uint32_t, Map> maps_;  // by the array that they write
};

}  // namespace

Status algebra(ir::Context& ctx, nest::Function& f) {
  Algebra(ctx, f).run();
  return ok();
}

}  // namespace mlc::passes
