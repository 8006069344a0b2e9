// One kernel per operation, type and number of lanes, with data that reaches the corners; shared by the tests of the
// native emitters and of the portable form.
#pragma once

#include <cstdlib>
#include <memory>
#include <random>
#include <string>

#include "tests/unit/targets/loop_builder.h"
#include "tests/unit/targets/loop_reference.h"

namespace mlc::testing {

inline constexpr int64_t kGroups = 24;  // tiles of each case: every lane of every group is one sample

struct AlignedBytes {
  explicit AlignedBytes(size_t n) : size(n), data(static_cast<std::byte*>(std::aligned_alloc(64, (n + 127) & ~size_t{63}))) {
    std::memset(data.get(), 0, (n + 127) & ~size_t{63});
  }
  struct Free { void operator()(std::byte* p) const { std::free(p); } };
  size_t size;
  std::unique_ptr<std::byte, Free> data;
};

struct OpCase {
  loop::Kernel kernel;
  DType from, to;  // element types of the inputs and of the result
};

inline const std::vector<DType>& all_dtypes() {
  static const std::vector<DType> types = {
      DType::F64, DType::F32, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2, DType::F8E4M3FNUZ,
      DType::F8E5M2FNUZ, DType::I64, DType::I32, DType::I16, DType::I8, DType::I4, DType::U64, DType::U32, DType::U16,
      DType::U8, DType::U4, DType::Bool, DType::F4E2M1, DType::F8E8M0, DType::U2, DType::I2, DType::F6E2M3, DType::F6E3M2};
  return types;
}

// Elements that reach the corners of `t`.
inline void fill(std::byte* out, size_t count, DType t, std::mt19937_64& random) {
  for (size_t k = 0; k < count; ++k) {
    Lane l;
    const uint64_t r = random();
    if (is_float(t)) {
      constexpr double corners[] = {0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, 7, -7, 1e-8, 127.5, 255.5, -128.5,
                                    65504, 65520, 3e38, -3e38, 1e-40, 448, 464, 240, 57344, 8388609, 0.49999997};
      const uint64_t pick = r % 8;
      if (pick == 0) l.f = corners[(r >> 8) % std::size(corners)];
      else if (pick == 1 && (r >> 8) % 4 == 0) l.f = (r >> 16) % 2 ? NAN : (r >> 17) % 2 ? INFINITY : -INFINITY;
      else if (pick == 2) l.f = std::ldexp(double(int64_t(r) >> 11), int((r >> 3) % 90) - 90);
      else l.f = double(int64_t(r) >> 40) / 65536.0 * ((r >> 9) % 2 ? 1 : 0.01);
      l.f = round_to(l.f, t);
    } else {
      const uint64_t pick = r % 4;
      if (pick == 0) l.i = int64_t(r >> 8) % 5 - 2;
      else if (pick == 1) l.i = int64_t(uint64_t(1) << ((r >> 8) % 64));
      else if (pick == 2) l.i = int64_t(0 - (uint64_t(1) << ((r >> 8) % 64)));
      else l.i = int64_t(random());
      l.i = wrap(l.i, t);
    }
    write_element(out + k * bytes_of(t), l, t);
  }
}

// out[i] = op(in0[i], in1[i], in2[i]) with vectors of `lanes`.
inline OpCase op_case(Pool& p, Op op, DType from, DType to, uint16_t lanes, unsigned num_args) {
  OpCase c{kernel(p, std::to_string(int(op)) + "." + std::string(name_of(from)) + "." + std::string(name_of(to)) + "x" +
                         std::to_string(lanes), {{from, false}, {from, false}, {from, false}, {to, true}}), from, to};
  const bool to_one = op >= Op::SumLanes && op <= Op::MaxLanes;
  const Expr* tile = p.var();
  const Expr* base = p.mul(tile, p.integer(lanes));
  std::vector<const Expr*> args;
  for (unsigned k = 0; k < num_args; ++k) args.push_back(p.load(k, {from, lanes}, base));
  const Expr* value;
  if (op == Op::Select) value = p.make(op, {to, lanes}, {p.make(Op::Le, {DType::Bool, lanes}, {args[0], args[1]}), args[1], args[2]});
  else if (op == Op::Splat) value = p.splat(p.load(0, {from, 1}, base), lanes);
  else if (op == Op::Extract) value = p.splat(p.make(op, {to, 1}, {args[0]}, lanes - 1), lanes);
  else if (op == Op::Widen) value = p.make(op, {to, lanes}, std::vector<const Expr*>(2, p.load(0, {from, uint16_t(lanes / 2)}, base)));
  else if (op == Op::Ramp) value = p.ramp(p.load(0, {from, 1}, base), lanes, -3);
  else value = p.make(op, {to, to_one ? uint16_t(1) : lanes}, args);
  c.kernel.body.push_back(for_(tile, c.kernel.tile_begin, c.kernel.tile_end, 1,
                               seq(store_(3, to_one ? tile : base, value))));
  return c;
}

inline std::vector<OpCase> all_op_cases(Pool& p, uint16_t lanes) {
  std::vector<OpCase> out;
  auto add = [&](Op op, DType from, DType to, unsigned args) { out.push_back(op_case(p, op, from, to, lanes, args)); };
  for (DType t : all_dtypes()) {
    const bool f = is_float(t), b = t == DType::Bool;
    for (Op op : {Op::Neg, Op::Abs}) if (!b) add(op, t, t, 1);
    if (b) add(Op::Not, t, t, 1), add(Op::And, t, t, 2), add(Op::Or, t, t, 2);
    if (!f) add(Op::BitNot, t, t, 1);
    if (f) {
      for (Op op : {Op::Floor, Op::Ceil, Op::Trunc, Op::Rint, Op::Sqrt}) add(op, t, t, 1);
      for (Op op : {Op::IsNan, Op::IsInf}) add(op, t, DType::Bool, 1);
      add(Op::Div, t, t, 2);
    }
    if (!b) {
      for (Op op : {Op::Add, Op::Sub, Op::Mul, Op::FloorDiv, Op::FloorMod, Op::TruncDiv, Op::TruncMod}) add(op, t, t, 2);
      add(Op::Fma, t, t, 3);
      if (!f) for (Op op : {Op::Pow, Op::Shl, Op::Shr}) add(op, t, t, 2);
    }
    for (Op op : {Op::Min, Op::Max}) add(op, t, t, 2);
    if (!f) for (Op op : {Op::BitAnd, Op::BitOr, Op::BitXor}) add(op, t, t, 2);
    for (Op op : {Op::Lt, Op::Le, Op::Eq, Op::Ne}) add(op, t, DType::Bool, 2);
    add(Op::Select, t, t, 3);
    add(Op::Splat, t, t, 1);
    add(Op::Extract, t, t, 1);
    if (lanes > 1) {
      add(Op::Widen, t, t, 1);
      for (Op op : {Op::SumLanes, Op::ProdLanes, Op::MinLanes, Op::MaxLanes})
        if (!b || op >= Op::MinLanes) add(op, t, t, 1);
    }
    if (!f && !b) add(Op::Ramp, t, t, 1);
    for (DType to : all_dtypes()) {
      add(Op::Cast, t, to, 1);
      if (is_int(to) || (f && is_small(to))) add(Op::SatCast, t, to, 1);
      if (bits_of(to) == bits_of(t)) add(Op::Bitcast, t, to, 1);
    }
  }
  return out;
}

struct CaseData {
  std::vector<AlignedBytes> buffers;  // in0, in1, in2, out
  std::vector<std::byte> expected;
  std::vector<bool> unspecified;
};

inline CaseData case_data(const OpCase& c, uint16_t lanes, bool fuse, uint64_t seed) {
  CaseData d;
  std::mt19937_64 random(seed);
  const size_t count = size_t(kGroups) * lanes;
  for (int k = 0; k < 3; ++k) {
    d.buffers.emplace_back(count * bytes_of(c.from));
    fill(d.buffers.back().data.get(), count, c.from, random);
  }
  d.buffers.emplace_back(count * bytes_of(c.to));
  AlignedBytes out(count * bytes_of(c.to));
  Reference reference(c.kernel, fuse);
  std::vector<Reference::Buffer> views;
  for (int k = 0; k < 3; ++k) views.push_back({d.buffers[size_t(k)].data.get(), d.buffers[size_t(k)].size});
  views.push_back({out.data.get(), out.size});
  reference.run(views, {}, 0, kGroups);
  d.expected.assign(out.data.get(), out.data.get() + out.size);
  d.unspecified = reference.unspecified[3];
  return d;
}

// Index of the first element that differs (NaN equals NaN, 0 equals -0 for Min and Max), or -1.
inline int64_t first_difference(const std::byte* got, const std::vector<std::byte>& expected,
                                const std::vector<bool>& unspecified, DType t) {
  const size_t size = bytes_of(t);
  for (size_t k = 0; k * size < expected.size(); ++k) {
    if (unspecified[k] || std::memcmp(got + k * size, expected.data() + k * size, size) == 0) continue;
    if (is_float(t)) {
      const double a = read_element(got + k * size, t).f, b = read_element(expected.data() + k * size, t).f;
      if ((std::isnan(a) && std::isnan(b)) || a == b) continue;
    }
    return int64_t(k);
  }
  return -1;
}

}  // namespace mlc::testing
