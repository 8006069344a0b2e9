#include "packager/plan/arena.h"

#include <algorithm>
#include <numeric>

#include "packager/ir/typical.h"

namespace mlc::plan {
namespace {

bool live_together(const Interim& a, const Interim& b) { return a.first <= b.last && b.first <= a.last; }

const ir::Expr* aligned(ir::Context& ctx, const ir::Expr* bytes, int64_t alignment) {
  const ir::Expr* unit = ctx.integer(alignment);
  return ctx.mul(ctx.ceildiv(bytes, unit), unit);
}

// The lowest gap of `size` bytes between buffers that live at the same time.
int64_t lowest_gap(std::vector<std::pair<int64_t, int64_t>> taken, int64_t size) {
  std::sort(taken.begin(), taken.end());
  int64_t at = 0;
  for (auto [begin, end] : taken) {
    if (begin - at >= size) break;
    at = std::max(at, end);
  }
  return at;
}

}  // namespace

const ir::Expr* place_in_arena(ir::Context& ctx, std::vector<Interim>& buffers, int64_t alignment) {
  const auto whole = [&](int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<int64_t> size(buffers.size());
  for (size_t k = 0; k < buffers.size(); ++k) size[k] = ir::typical(buffers[k].bytes).value_or(INT64_MAX);  // only the order depends on it
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (buffers[a].bytes->is_const() != buffers[b].bytes->is_const()) return buffers[a].bytes->is_const();
    return size[a] > size[b];
  });

  int64_t constant_end = 0;
  std::vector<size_t> placed;
  for (size_t k : order) {
    if (!buffers[k].bytes->is_const()) continue;
    const int64_t bytes = whole(buffers[k].bytes->i);
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (size_t other : placed)
      if (live_together(buffers[k], buffers[other]))
        taken.emplace_back(buffers[other].offset->i, buffers[other].offset->i + whole(buffers[other].bytes->i));
    const int64_t at = lowest_gap(std::move(taken), bytes);
    buffers[k].offset = ctx.integer(at);
    constant_end = std::max(constant_end, at + bytes);
    placed.push_back(k);
  }

  // Symbolic sizes lie above the constant ones, each on top of those it lives with. The arena ends above those on which nothing lies.
  const ir::Expr* base = ctx.integer(constant_end);
  std::vector<bool> is_below(buffers.size(), false);
  const auto end = [&](size_t k) { return ctx.add(buffers[k].offset, aligned(ctx, buffers[k].bytes, alignment)); };
  placed.clear();
  for (size_t k : order) {
    if (buffers[k].bytes->is_const()) continue;
    const ir::Expr* at = base;
    for (size_t other : placed)
      if (live_together(buffers[k], buffers[other])) {
        at = ctx.max(at, end(other));
        is_below[other] = true;
      }
    buffers[k].offset = at;
    placed.push_back(k);
  }
  const ir::Expr* arena = base;
  for (size_t k : placed)
    if (!is_below[k]) arena = ctx.max(arena, end(k));
  return arena;
}

}  // namespace mlc::plan
