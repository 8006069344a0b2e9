// Weights that a map computes from constants in every run (codes of 4 bits with a scale per block, say) go into the product that
// reads them: codes become numbers in registers, and memory holds the codes (packager/lower/product/decoded.cpp).
//
// Constants that know the columns get these in panels. One of a single axis that is [column, block] written in a row is seen as that.
#include <algorithm>

#include "packager/nest/facts/contraction.h"
#include "packager/nest/text/names.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {
namespace {

using ir::Op;

constexpr size_t kMostOperations = 24;  // of a weight: more are better stored

class Inliner {
 public:
  Inliner(ir::Context& ctx, nest::Function& f) : ctx_(ctx), f_(f), uses_(uses_of(f)) {}

  void run() {
    for (size_t s = 0; s < f_.body.size(); ++s) {
      PlainMap map;
      if (plain_map(f_.body[s], map) && suits(map)) inline_map(map);
    }
    remove_dead(f_);
  }

 private:
  bool suits(const PlainMap& map) {
    const uint32_t w = map.write->array;
    if (f_.arrays[w].kind != nest::Array::Kind::Temp || f_.arrays[w].dtype != DType::F32 || uses_.output[w] || uses_.writers[w].size() != 1) return false;
    if (map.write->value->op == Op::Load || node_count(map.write->value, kMostOperations * 4) > kMostOperations * 4) return false;
    bool plain = true, reads_constants = false;
    ir::walk(map.write->value, [&](const Expr* e) {
      plain &= e->op != Op::Fold && e->op != Op::Sym && !(e->op >= Op::Exp && e->op <= Op::Erf);
      if (e->op != Op::Load) return;
      plain &= f_.arrays[e->array].kind == nest::Array::Kind::Const && e->access != ir::Access::Checked;
      reads_constants = true;
    });
    return plain && reads_constants && !uses_.readers[w].empty() &&
           std::all_of(uses_.readers[w].begin(), uses_.readers[w].end(), [&](size_t reader) { return product_with(reader, w).has_value(); });
  }

  // The product of the reader, if it has that one fold only and reads `w` nowhere else; `b` is w.
  std::optional<nest::Contraction> product_with(size_t reader, uint32_t w) {
    const nest::Nest* n = f_.body[reader].nest.get();
    if (!n || n->where || n->scan_dim || n->writes.size() != 1 || n->writes[0].push) return std::nullopt;
    const Expr* fold = nullptr;
    size_t folds = 0, loads = 0;
    ir::walk(n->writes[0].value, [&](const Expr* e) {
      if (e->op == Op::Fold) fold = e, ++folds;
      loads += e->op == Op::Load && e->array == w;
    });
    if (folds != 1 || loads != 1) return std::nullopt;
    auto c = nest::contraction_of(ctx_, n->dims, fold);
    if (c && c->a.load->array == w) c = c->swapped();
    if (!c || c->b.load->array != w || c->acc() != DType::F32 || !c->is_plain() || !is_float(c->a.code()) || fold->fold->where) return std::nullopt;
    const auto one = [](const std::vector<const ir::Dim*>& dims) { return dims.size() == 1 && dims[0]->extent->is_const(); };
    if (!one(c->k) || !c->taps.empty() || !one(c->n) || c->n[0]->extent->i % nest::kPanel != 0 || !c->batch.empty()) return std::nullopt;
    return c;
  }

  void inline_map(const PlainMap& map) {
    const uint32_t w = map.write->array;
    for (size_t reader : uses_.readers[w]) {
      const auto c = product_with(reader, w);
      const Expr* column = ctx_.dim(c->n[0]);
      const Expr* value = ctx_.rewrite(composed(ctx_, map, c->b.load), [&](const Expr* e) -> const Expr* {
        return e->op == Op::Load ? in_panels(e, column) : nullptr;
      });
      map_roots(f_.body[reader], [&](const Expr* root) { return ctx_.substitute(root, {{c->b.load, value}}); });
    }
  }

  // The load from a constant whose columns are stored in panels.
  const Expr* in_panels(const Expr* load, const Expr* column) {
    std::vector<const Expr*> index(load->args.begin(), load->args.end());
    const nest::Array& whole = f_.arrays[load->array];
    std::vector<const Expr*> shape = whole.shape;
    if (index.size() == 1 && index[0] != column) {
      const Expr* leaf[] = {column};
      const auto place = ir::linear_in(ctx_, index[0], leaf);
      if (!place || !place->coefficients[0]->is_const() || place->coefficients[0]->i < 1) return nullptr;
      const int64_t row = place->coefficients[0]->i;
      const ir::Interval rest = ir::interval_of(place->rest);
      if (rest.lo < 0 || rest.hi >= row || !shape[0]->is_int(row * column->dim->extent->i)) return nullptr;
      shape = {column->dim->extent, ctx_.integer(row)};
      index = {column, place->rest};
    }
    const auto axis = std::find(index.begin(), index.end(), column);
    if (axis == index.end() || std::count_if(index.begin(), index.end(), [&](const Expr* e) { return ir::depends_on(e, column); }) != 1) return nullptr;
    nest::Layout layout;
    const auto n = static_cast<uint8_t>(axis - index.begin());
    layout.pieces.push_back({n, nest::kPanel, 0});
    for (uint8_t k = 0; k < index.size(); ++k)
      if (k != n) layout.pieces.push_back({k, 1, 0});
    layout.pieces.push_back({n, 1, nest::kPanel});
    return ctx_.load(view(load->array, shape, layout), load->type, index, load->access);
  }

  // The constant with this shape and layout: one that lies so already, or another array over the same data.
  uint32_t view(uint32_t of, const std::vector<const Expr*>& shape, const nest::Layout& layout) {
    for (uint32_t a = 0; a < f_.arrays.size(); ++a)
      if (f_.arrays[a].data && f_.arrays[a].data == f_.arrays[of].data && f_.arrays[a].dtype == f_.arrays[of].dtype && f_.arrays[a].shape == shape &&
          f_.arrays[a].layout == layout)
        return a;
    nest::Array a = f_.arrays[of];
    a.name = nest::unique_name(f_, a.name + "@" + nest::to_string(layout, static_cast<unsigned>(shape.size())), "");
    a.shape = shape;
    a.layout = layout;
    f_.arrays.push_back(std::move(a));
    return static_cast<uint32_t>(f_.arrays.size() - 1);
  }

  ir::Context& ctx_;
  nest::Function& f_;
  const Uses uses_;
};

}  // namespace

Status inline_weights(ir::Context& ctx, nest::Function& f) {
  Inliner(ctx, f).run();
  return ok();
}

}  // namespace mlc::passes
