// Devices: marks statements that are attention together, from the product of queries and keys to the sum of values, so that lowering
// may keep the scores of a block to itself (packager/lower/device/attention/attention.h). What it is in detail is found there.
#include <algorithm>

#include "packager/nest/facts/contraction.h"
#include "packager/nest/facts/group.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {
namespace {

using ir::Op;

constexpr size_t kMostNests = 12;

class AttentionSearch {
 public:
  AttentionSearch(ir::Context& ctx, nest::Function& f) : ctx_(ctx), f_(f), uses_(uses_of(f)), lifetimes_(f) {}

  void run() {
    for (nest::Statement& s : f_.body) s.joins = false;
    size_t free = 0;  // behind the last one found
    for (size_t last = 0; last < f_.body.size(); ++last) {
      const auto first = first_of(last);
      if (!first || *first < free || last - *first >= kMostNests || !is_group(*first, last)) continue;
      for (size_t k = *first + 1; k <= last; ++k) f_.body[k].joins = true;
      free = last + 1;
    }
  }

 private:
  // The statement of the scores, if `last` is a sum of weights, which are exponentials of them, times values.
  std::optional<size_t> first_of(size_t last) const {
    std::optional<size_t> first;
    for_products(last, [&](const nest::Contraction& c) {
      for (const nest::Operand* o : {&c.a, &c.b}) {
        const auto weights = writer(o->load->array, last);
        if (!weights || !has_exponential(*weights)) continue;
        for (const uint32_t array : uses_.reads[*weights])
          if (const auto scores = writer(array, *weights); scores && is_product(*scores) && (!first || *scores < *first)) first = scores;
      }
    });
    return first;
  }

  std::optional<size_t> writer(uint32_t array, size_t before) const {
    if (f_.arrays[array].kind != nest::Array::Kind::Temp || uses_.writers[array].size() != 1) return std::nullopt;
    const size_t s = uses_.writers[array].front();
    return s < before && f_.body[s].nest ? std::optional(s) : std::nullopt;
  }

  void for_products(size_t s, const std::function<void(const nest::Contraction&)>& visit) const {
    const nest::Statement& statement = f_.body[s];
    if (!statement.nest) return;
    for_roots(statement, [&](const Expr* root) {
      ir::walk(root, [&](const Expr* e) {
        if (const auto c = nest::contraction_of(ctx_, statement.nest->dims, e)) visit(*c);
      });
    });
  }

  bool is_product(size_t s) const {
    bool found = false;
    for_products(s, [&](const nest::Contraction& c) { found |= !c.m.empty() && !c.n.empty(); });
    return found;
  }

  bool has_exponential(size_t s) const {
    bool found = false;
    for_roots(f_.body[s], [&](const Expr* root) { ir::walk(root, [&](const Expr* e) { found |= e->op == Op::Exp; }); });
    return found;
  }

  // Each of them passes on to those behind it alone what it writes.
  bool is_group(size_t first, size_t last) const {
    for (size_t k = first; k < last; ++k) {
      if (f_.body[k].part != f_.body[last].part || !f_.body[k].nest) return false;
      for (const uint32_t array : written(f_.body[k]))
        if (uses_.readers[array].empty() || !lifetimes_.is_private(array, first, last + 1 - first)) return false;
    }
    return nest::group_of(f_, lifetimes_, first, last + 1 - first).has_value();
  }

  ir::Context& ctx_;
  nest::Function& f_;
  const Uses uses_;
  const nest::Lifetimes lifetimes_;
};

}  // namespace

Status mark_attention(ir::Context& ctx, nest::Function& f) {
  AttentionSearch(ctx, f).run();
  return ok();
}

}  // namespace mlc::passes
