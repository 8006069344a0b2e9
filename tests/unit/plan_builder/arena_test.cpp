// Places of buffers in the arena of a device, whose bindings begin at multiples of 256.
#include "packager/plan/arena.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace mlc;

TEST_CASE("buffers begin where a device lets a binding begin, and those that live together lie apart") {
  ir::Context ctx;
  const ir::Sym* n = ctx.declare_sym("n", 0, 1000);
  const auto rows = [&](int64_t bytes) { return ctx.mul(ctx.sym(n), ctx.integer(bytes)); };
  for (const int64_t alignment : {int64_t{64}, int64_t{256}}) {
    std::vector<plan::Interim> lives = {{ctx.integer(100), 0, 2, nullptr}, {ctx.integer(300), 1, 3, nullptr}, {ctx.integer(40), 3, 4, nullptr},
                                        {rows(12), 1, 2, nullptr},         {rows(100), 2, 4, nullptr}};
    const ir::Expr* arena = plan::place_in_arena(ctx, lives, alignment);
    for (const int64_t value : {0, 1, 7, 999}) {
      const auto at = [&](const ir::Expr* e) { return ir::evaluate_extent(e, [&](const ir::Sym*) { return std::optional(value); }).value(); };
      for (const plan::Interim& a : lives) {
        CHECK(at(a.offset) % alignment == 0);
        CHECK(at(a.offset) + at(a.bytes) <= at(arena));
        for (const plan::Interim& b : lives)
          if (&a < &b && a.first <= b.last && b.first <= a.last)
            CHECK((at(a.offset) + at(a.bytes) <= at(b.offset) || at(b.offset) + at(b.bytes) <= at(a.offset)));
      }
    }
  }
}
