// sum(x[.., at(k)] * w[k, n]) over k is sum(x[.., q] * v[q, n]) over q, with v[q, n] the sum of w[k, n] over those k for which at(k) is q: a product
// takes what it reads in the order in which that lies, and constant weights take the permutation. Only where at(k) is not linear in k, for products
// read along strides as they are.
//
// The products are added in another order; that is all that changes.
#include <algorithm>
#include <cstring>
#include <optional>

#include "packager/nest/facts/contraction.h"
#include "packager/nest/text/names.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {
namespace {

using ir::Expr;
using ir::Op;

constexpr int64_t kMostPlaces = 1 << 16;
constexpr double kMostWork = 1 << 28;  // elements of w that are added

// One product and what its operand is read from.
struct Permuted {
  const Expr *fold = nullptr, *weights = nullptr, *other = nullptr;  // loads of the product
  const Expr* from = nullptr;                                        // what `other` reads
  const ir::Dim* k = nullptr;
  size_t axis = 0, weights_axis = 0;  // of k, in `from` and in `weights`
  std::vector<int64_t> places;        // at(k), for each k
};

class Permuter {
 public:
  Permuter(ir::Context& ctx, nest::Function& f) : ctx_(ctx), f_(f), uses_(uses_of(f)) {}

  void run() {
    for (nest::Statement& s : f_.body)
      if (s.nest && !s.nest->scan_dim && s.nest->writes.size() == 1)
        if (const auto found = find(*s.nest)) s.nest->writes[0].value = ctx_.substitute(s.nest->writes[0].value, {{found->fold, replaced(*found)}});
  }

 private:
  std::optional<Permuted> find(const nest::Nest& nest) {
    std::optional<Permuted> found;
    ir::walk(nest.writes[0].value, [&](const Expr* e) {
      if (found || e->op != Op::Fold || e->fold->dims.size() != 1 || e->fold->where || e->type.dtype != DType::F32) return;
      auto c = nest::contraction_of(ctx_, nest.dims, e);
      if (!c || !c->is_plain()) return;
      if (is_weights(c->a)) c = c->swapped();
      Permuted p = {.fold = e, .weights = c->b.load, .other = c->a.load, .k = e->fold->dims[0]};
      if (is_weights(c->b) && !is_weights(c->a) && permutes(p)) found = std::move(p);
    });
    return found;
  }

  bool is_weights(const nest::Operand& o) const {
    const nest::Array& a = f_.arrays[o.load->array];
    return a.kind == nest::Array::Kind::Const && a.data && a.dtype == DType::F32 && o.load->access == ir::Access::Proved;
  }

  // Completes `p`, if its operand is a copy in another order.
  bool permutes(Permuted& p) {
    const Expr* k = ctx_.dim(p.k);
    const uint32_t array = p.other->array;
    if (!p.k->extent->is_const() || p.k->extent->i < 1 || p.k->extent->i > kMostPlaces || uses_.writers[array].size() != 1) return false;
    if (!index_axis(p.weights, k, p.weights_axis) || p.weights->args[p.weights_axis] != k) return false;
    PlainMap map;
    if (!plain_map(f_.body[uses_.writers[array][0]], map)) return false;
    p.from = composed(ctx_, map, p.other);
    if (p.from->op != Op::Load || p.from->access != ir::Access::Proved || f_.arrays[p.from->array].dtype != DType::F32 || !index_axis(p.from, k, p.axis)) return false;
    if (uses_.writers[p.from->array].size() != 1) return false;
    return find_places(p);
  }

  // The one axis at which the index of `load` depends on k.
  static bool index_axis(const Expr* load, const Expr* k, size_t& axis) {
    size_t found = 0;
    for (size_t a = 0; a < load->args.size(); ++a)
      if (ir::depends_on(load->args[a], k)) axis = a, ++found;
    return found == 1;
  }

  bool find_places(Permuted& p) {
    const Expr *at = p.from->args[p.axis], *extent = f_.arrays[p.from->array].shape[p.axis], *leaf[] = {ctx_.dim(p.k)};
    const int64_t count = p.k->extent->i;
    // As many products again cost more than an index.
    if (ir::linear_in(ctx_, at, leaf) || !extent->is_const() || extent->i < 1 || extent->i > count + count / 4) return false;
    if (static_cast<double>(f_.arrays[p.weights->array].data->bytes.size()) * 1.25 > kMostWork) return false;
    for (int64_t k = 0; k < count; ++k) {
      const Expr* place = ctx_.substitute(at, {{leaf[0], ctx_.integer(k)}});
      if (!place->is_const() || place->i < 0 || place->i >= extent->i) return false;
      p.places.push_back(place->i);
    }
    return true;
  }

  const Expr* replaced(const Permuted& p) {
    const ir::Dim* q = ctx_.declare_dim(p.k->name, f_.arrays[p.from->array].shape[p.axis]);
    std::vector<const Expr*> read(p.from->args.begin(), p.from->args.end()), weighted(p.weights->args.begin(), p.weights->args.end());
    read[p.axis] = weighted[p.weights_axis] = ctx_.dim(q);
    const Expr* product = ctx_.binary(Op::Mul, ctx_.load(p.from->array, p.from->type, read, p.from->access), ctx_.load(permuted(p), p.weights->type, weighted));
    ir::Fold fold = *p.fold->fold;
    fold.dims = {q};
    return ctx_.fold(fold, {product});
  }

  // The weights in the order of what is read: rows of them, each added to the place of its row.
  uint32_t permuted(const Permuted& p) {
    nest::Array a = f_.arrays[p.weights->array];
    const auto length = [&](size_t from, size_t to) {
      size_t n = 1;
      for (size_t k = from; k < to; ++k) n *= static_cast<size_t>(a.shape[k]->i);
      return n;
    };
    const size_t outer = length(0, p.weights_axis), inner = length(p.weights_axis + 1, a.shape.size()), count = p.places.size();
    const auto rows = static_cast<size_t>(f_.arrays[p.from->array].shape[p.axis]->i);
    auto bytes = std::make_shared<std::vector<std::byte>>(outer * rows * inner * sizeof(float));
    const std::byte* old = a.data->bytes.data();
    for (size_t o = 0; o < outer; ++o)
      for (size_t k = 0; k < count; ++k)
        for (size_t n = 0; n < inner; ++n) {
          float element, sum;
          std::byte* to = bytes->data() + ((o * rows + static_cast<size_t>(p.places[k])) * inner + n) * sizeof(float);
          std::memcpy(&element, old + ((o * count + k) * inner + n) * sizeof(float), sizeof element);
          std::memcpy(&sum, to, sizeof sum);
          sum += element;
          std::memcpy(to, &sum, sizeof sum);
        }
    a.name = nest::unique_name(f_, a.name + ", permuted", "");
    a.shape[p.weights_axis] = f_.arrays[p.from->array].shape[p.axis];
    a.data = std::make_shared<nest::ConstData>(nest::ConstData{Bytes(*bytes), bytes});
    f_.arrays.push_back(std::move(a));
    return static_cast<uint32_t>(f_.arrays.size()) - 1;
  }

  ir::Context& ctx_;
  nest::Function& f_;
  Uses uses_;
};

}  // namespace

Status permute_weights(ir::Context& ctx, nest::Function& f) {
  Permuter(ctx, f).run();
  remove_dead(f);
  return ok();
}

}  // namespace mlc::passes
