// Which nests run in one launch (nest/facts/group.h): chains of neighbours in which each reads what one before it wrote, at the rows that
// all of them share. What they pass on stays in a core's cache and is never stored, and workers meet once instead of once per nest.
//
// A chain ends where sharing its rows would cost more than it saves:
//   weights     a product with what does not depend on the rows reads all of it for every block of rows
//   columns     rows that only one factor of a product knows beside rows that only the other one knows: no columns are left to it
//   stride      the rows are what is contiguous: vectors would be as long as a block
//   few rows    there is less to divide among workers than in each nest alone
#include <algorithm>

#include "packager/nest/facts/contraction.h"
#include "packager/nest/facts/group.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"
#include "targets/machines.h"

namespace mlc::passes {
namespace {

using ir::Op;
using nest::Group;

constexpr size_t kMaxNests = 12;

class Grouper {
 public:
  Grouper(ir::Context& ctx, nest::Function& f) : ctx_(ctx), f_(f), lifetimes_(f) {}

  void run() {
    for (nest::Statement& s : f_.body) s.joins = false;
    for (size_t first = 0; first < f_.body.size();) {
      size_t count = 1;
      while (count < kMaxNests && first + count < f_.body.size() && continues(first, count)) ++count;
      while (count > 1 && !pays(first, count)) --count;
      for (size_t k = 1; k < count; ++k) f_.body[first + k].joins = true;
      first += count;
    }
  }

 private:
  // Whether statement first + count may be one more of the group.
  bool continues(size_t first, size_t count) const {
    const nest::Statement& next = f_.body[first + count];
    if (!next.nest || next.part != f_.body[first].part) return false;
    const auto inputs = read(next);
    const bool reads = std::any_of(f_.body.begin() + static_cast<ptrdiff_t>(first), f_.body.begin() + static_cast<ptrdiff_t>(first + count),
                                   [&](const nest::Statement& s) {
                                     for (uint32_t y : written(s))
                                       if (std::binary_search(inputs.begin(), inputs.end(), y)) return true;
                                     return false;
                                   });
    const auto group = reads ? nest::group_of(f_, lifetimes_, first, count + 1) : std::nullopt;
    if (!group) return false;
    for (size_t k = 0; k <= count; ++k)
      if (!suits(first + k, *group, k)) return false;
    return true;
  }

  bool on_row(const Group& group, size_t nest, const Expr* e) const {
    return std::any_of(group.rows.begin(), group.rows.end(), [&](const Group::Row& row) { return ir::depends_on(e, ctx_.dim(row.dims[nest])); });
  }

  static bool has_row(const Group& group, size_t nest, const std::vector<const ir::Dim*>& dims) {
    return std::any_of(group.rows.begin(), group.rows.end(), [&](const Group::Row& row) { return std::find(dims.begin(), dims.end(), row.dims[nest]) != dims.end(); });
  }

  bool suits(size_t statement, const Group& group, size_t nest) const {
    bool fits = true;
    for_roots(f_.body[statement], [&](const Expr* root) {
      ir::walk(root, [&](const Expr* e) {
        const auto c = nest::contraction_of(ctx_, group.nests[nest]->dims, e);
        if (!c) {
          fits &= !has_computed_weights(e);
          return;
        }
        fits &= on_row(group, nest, c->a.load) && on_row(group, nest, c->b.load);
        fits &= !has_row(group, nest, c->m) || !has_row(group, nest, c->n);
        // Codes are packed before the launch, where they are no weights.
        const auto is_weight = [&](const nest::Operand& o) { return f_.arrays[o.load->array].kind == nest::Array::Kind::Const; };
        if (c->acc() == DType::I32 && !is_weight(c->a) && !is_weight(c->b))
          fits &= !is_computed(group, c->a.load->array) && !is_computed(group, c->b.load->array);
      });
    });
    for_loads(f_.body[statement], [&](const Expr* load) { fits &= !across(load->array, load->args, group, nest); });
    for (const nest::Write& w : group.nests[nest]->writes) fits &= !across(w.array, w.index, group, nest);
    return fits;
  }

  // A product with weights that are computed from constants on the way (inline_weights.cpp): they would be for each block of rows.
  bool has_computed_weights(const Expr* fold) const {
    if (fold->op != ir::Op::Fold || fold->args[0]->op != ir::Op::Mul) return false;
    return std::any_of(fold->args[0]->args.begin(), fold->args[0]->args.end(), [&](const Expr* factor) {
      bool reads = false, constant = true;
      ir::walk(factor, [&](const Expr* e) {
        if (e->op != ir::Op::Load) return;
        reads = true;
        constant &= f_.arrays[e->array].kind == nest::Array::Kind::Const;
      });
      return reads && constant && factor->op != ir::Op::Load;
    });
  }

  // By a nest of the group, whether others read it, too, or not.
  static bool is_computed(const Group& group, uint32_t array) {
    return std::any_of(group.nests.begin(), group.nests.end(), [&](const nest::Nest* n) {
      return std::any_of(n->writes.begin(), n->writes.end(), [&](const nest::Write& w) { return w.array == array; });
    });
  }

  // The rows of a block are contiguous, and what belongs to one of them apart.
  bool across(uint32_t array, std::span<const Expr* const> index, const Group& group, size_t nest) const {
    if (index.empty()) return false;
    const nest::Layout& layout = f_.arrays[array].layout;
    const size_t innermost = layout.pieces.empty() ? index.size() - 1 : layout.pieces.back().axis;
    if (!ir::depends_on(index[innermost], ctx_.dim(group.rows.back().dims[nest]))) return false;
    return std::any_of(index.begin(), index.end(), [&](const Expr* e) {
      bool other = false;
      ir::walk(e, [&](const Expr* x) { other |= x->op == Op::Dim && !on_row(group, nest, x); });
      return other;
    });
  }

  // Points of the longest fold of a nest that is no product, if it is long.
  double most_folded(const nest::Nest& n) const {
    double most = 1;
    for (const nest::Write& w : n.writes)
      ir::walk(w.value, [&](const Expr* e) {
        if (e->op != Op::Fold || nest::contraction_of(ctx_, n.dims, e)) return;
        if (const double folded = estimate(e->fold->dims); folded >= targets::kAnyProcessor.long_row_points) most = std::max(most, folded);
      });
    return most;
  }

  bool pays(size_t first, size_t count) const {
    const auto group = nest::group_of(f_, lifetimes_, first, count);
    if (!group) return false;
    double rows = 1, points = 0;
    for (const Group::Row& row : group->rows) rows *= estimate(row.dims[0]->extent);
    double longest = 1;
    bool product = false;
    for (const nest::Nest* n : group->nests) {
      const double folded = most_folded(*n);
      points += estimate(n->dims) * folded;
      longest = std::max(longest, folded);
      for (const nest::Write& w : n->writes)
        ir::walk(w.value, [&](const Expr* e) { product |= nest::contraction_of(ctx_, n->dims, e).has_value(); });
    }
    // Of long rows that are folded a block has fewer (lower/group.cpp).
    const targets::ProcessorRow& machine = targets::kAnyProcessor;
    const auto most = static_cast<double>(machine.block_rows);
    const double block = product ? most : std::clamp(machine.reread_bytes / sizeof(float) / longest, 1.0, most);
    return rows >= machine.divided_blocks * block || points <= machine.launch_points;
  }

  ir::Context& ctx_;
  nest::Function& f_;
  const nest::Lifetimes lifetimes_;
};

}  // namespace

Status group(ir::Context& ctx, nest::Function& f) {
  Grouper(ctx, f).run();
  return ok();
}

}  // namespace mlc::passes
