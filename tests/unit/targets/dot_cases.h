// Kernels of one Op::Dot: every type of operand that it takes, numbers of lanes, both operands as vectors or the first one as a
// group over and over. What they give is said here once more, by a formula in 64 bits.
#pragma once

#include <string>
#include <vector>

#include "packager/ir/context.h"
#include "packager/loop/build.h"
#include "packager/loop/ops.h"
#include "tests/unit/targets/op_cases.h"

namespace mlc::testing {

struct DotCase {
  loop::Kernel kernel;  // parameters: accumulators, a, b, result
  DType a, b, sum;
  unsigned lanes, group;
  bool broadcast;       // a is one group of each tile
};

inline DotCase dot_case(ir::Context& ctx, DType a, DType b, unsigned lanes, bool broadcast) {
  DotCase c{{}, a, b, loop::dot_sum(a, b), lanes, 32 / bits_of(a), broadcast};
  c.kernel.name = "dot." + std::string(name_of(a)) + "." + std::string(name_of(b)) + "x" + std::to_string(lanes) + (broadcast ? ".group" : "");
  c.kernel.params = {{"acc", c.sum, false, 0, loop::Role::Array, nullptr}, {"a", a, false, 1, loop::Role::Array, nullptr},
                     {"b", b, false, 2, loop::Role::Array, nullptr}, {"out", c.sum, true, 3, loop::Role::Array, nullptr}};
  c.kernel.tile_begin = ctx.fresh_var({DType::I64, 1});
  c.kernel.tile_end = ctx.fresh_var({DType::I64, 1});
  c.kernel.tiles = ctx.integer(kGroups);
  const auto wide = static_cast<uint16_t>(lanes * c.group);
  loop::Builder build(ctx, c.kernel.body);
  build.with_for(c.kernel.tile_begin, c.kernel.tile_end, 1, [&](const ir::Expr* t) {
    const ir::Expr* at = ctx.mul(t, ctx.integer(lanes));
    const ir::Expr* from = ctx.mul(t, ctx.integer(wide));
    const ir::Expr* sum = build.local(loop::vec_load(ctx, 0, {c.sum, static_cast<uint16_t>(lanes)}, at));
    const ir::Expr* x = broadcast ? loop::splat_group(ctx, loop::vec_load(ctx, 1, {a, static_cast<uint16_t>(c.group)}, ctx.mul(t, ctx.integer(c.group))), wide)
                                  : loop::vec_load(ctx, 1, {a, wide}, from);
    build.assign(sum, loop::vec_dot(ctx, sum, x, loop::vec_load(ctx, 2, {b, wide}, from)));
    build.store(3, at, sum);
  });
  return c;
}

inline std::vector<DotCase> all_dot_cases(ir::Context& ctx) {
  std::vector<DotCase> out;
  for (const auto& [a, b] : {std::pair{DType::U8, DType::I8}, {DType::I8, DType::U8}, {DType::I8, DType::I8}, {DType::U8, DType::U8},
                             {DType::I16, DType::I16}, {DType::BF16, DType::BF16}})
    for (unsigned lanes : {1, 2, 4, 8, 16, 32})
      for (bool broadcast : {false, true})
        if (lanes * 32 / bits_of(a) <= 64) out.push_back(dot_case(ctx, a, b, lanes, broadcast));
  return out;
}

struct DotData {
  std::vector<AlignedBytes> buffers;  // as the kernel's parameters
  std::vector<std::byte> expected;

  DotData(const DotCase& c, uint64_t seed) {
    std::mt19937_64 random(seed);
    const size_t sums = size_t(kGroups) * c.lanes, products = sums * c.group;
    make(c.sum, sums, random);
    make(c.a, c.broadcast ? size_t(kGroups) * c.group : products, random);
    make(c.b, products, random);
    buffers.emplace_back(sums * 4);
    expected.resize(sums * 4);
    for (size_t l = 0; l < sums; ++l) {
      Lane sum = element(0, c.sum, l);
      for (size_t g = 0; g < c.group; ++g) {
        const Lane x = element(1, c.a, (c.broadcast ? l / c.lanes : l) * c.group + g), y = element(2, c.b, l * c.group + g);
        sum.i += x.i * y.i, sum.f += x.f * y.f;
      }
      sum.i = wrap(sum.i, DType::I32);
      write_element(expected.data() + l * 4, sum, c.sum);
    }
  }

 private:
  // Half of the integers are the ends of their type or next to them. Floats are so few bits that sums are exact in any order.
  void make(DType t, size_t count, std::mt19937_64& random) {
    buffers.emplace_back(count * bytes_of(t));
    for (size_t k = 0; k < count; ++k) {
      const uint64_t r = random();
      Lane l;
      const int64_t top = int64_t{1} << (bits_of(t) - is_signed_int(t)), corners[] = {top - 1, top - 2, -top, -top + 1, 0, 1, -1, top / 2};
      l.i = wrap(r % 2 ? corners[(r >> 1) % 8] : static_cast<int64_t>(r >> 8), t);
      l.f = static_cast<double>(static_cast<int64_t>(r % 129) - 64) / 8;
      write_element(buffers.back().data.get() + k * bytes_of(t), l, t);
    }
  }
  Lane element(size_t buffer, DType t, size_t k) const { return read_element(buffers[buffer].data.get() + k * bytes_of(t), t); }
};

// Index of the first sum that is wrong, or -1.
inline int64_t first_wrong_sum(const DotData& d) {
  for (size_t k = 0; k < d.expected.size(); k += 4)
    if (std::memcmp(d.buffers[3].data.get() + k, d.expected.data() + k, 4) != 0) return static_cast<int64_t>(k / 4);
  return -1;
}

}  // namespace mlc::testing
