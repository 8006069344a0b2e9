// The slow, obvious meaning of a Loop kernel: walks the tree, one lane at a time. Small floats are rounded by searching
// the sorted list of all their values, so nothing is shared with the emitters.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "packager/loop/loop.h"
#include "schema/module_abi.h"

namespace mlc::testing {

using ir::Expr;
using ir::Op;
using ir::Type;

// One lane: floats in f, integers in i (sign- or zero-extended; u64 as its bits). `any`: the value is unspecified.
struct Lane {
  double f = 0;
  int64_t i = 0;
  bool any = false;
};
using Lanes = std::vector<Lane>;

// --- small floats ---
struct SmallFormat {
  int bits, exponent, mantissa, bias;
  bool infinity, fnuz;
  bool finite = false;  // every pattern is a number; overflow gives the largest, NaN gives -0
};
inline SmallFormat small_format(DType t) {
  switch (t) {
    case DType::F16: return {16, 5, 10, 15, true, false};
    case DType::BF16: return {16, 8, 7, 127, true, false};
    case DType::F8E4M3: return {8, 4, 3, 7, false, false};
    case DType::F8E5M2: return {8, 5, 2, 15, true, false};
    case DType::F8E4M3FNUZ: return {8, 4, 3, 8, false, true};
    case DType::F4E2M1: return {4, 2, 1, 1, false, false, true};
    case DType::F6E2M3: return {6, 2, 3, 1, false, false, true};
    case DType::F6E3M2: return {6, 3, 2, 3, false, false, true};
    default: return {8, 5, 2, 16, false, true};
  }
}
inline bool is_small(DType t) { return is_float(t) && t != DType::F32 && t != DType::F64; }

inline double computed_small(uint32_t bits, DType t) {
  if (t == DType::F8E8M0) return bits == 255 ? NAN : std::ldexp(1.0, int(bits) - 127);
  const SmallFormat s = small_format(t);
  const uint32_t mant = bits & ((1u << s.mantissa) - 1), exp = (bits >> s.mantissa) & ((1u << s.exponent) - 1);
  const bool negative = bits >> (s.bits - 1) & 1;
  const uint32_t top = (1u << s.exponent) - 1;
  double v;
  if (s.fnuz && negative && mant == 0 && exp == 0) return NAN;
  if (s.infinity && exp == top) v = mant ? NAN : INFINITY;
  else if (!s.infinity && !s.fnuz && !s.finite && exp == top && mant == (1u << s.mantissa) - 1) v = NAN;
  else v = exp ? std::ldexp(double(mant | 1u << s.mantissa), int(exp) - s.bias - s.mantissa)
               : std::ldexp(double(mant), 1 - s.bias - s.mantissa);
  return negative ? -v : v;
}

using SmallTables = std::array<std::vector<double>, 256>;  // by element type

inline double decode_small(uint32_t bits, DType t) {
  static SmallTables tables;
  std::vector<double>& table = tables[size_t(t)];
  if (table.empty())
    for (uint32_t b = 0; b < 1u << (t == DType::F8E8M0 ? 8 : small_format(t).bits); ++b) table.push_back(computed_small(b, t));
  return table[bits & (table.size() - 1)];
}

// Looked for once in each format.
inline double largest_small(DType t) {
  static std::array<double, 256> found{};
  double& largest = found[size_t(t)];
  if (largest != 0) return largest;
  for (uint32_t b = 0; b < 1u << bits_of(t); ++b) {
    const double v = decode_small(b, t);
    if (std::isfinite(v)) largest = std::max(largest, v);
  }
  return largest;
}

// Powers of two without sign: the nearest, the greater of two; the number after the largest would be 2^128.
inline uint32_t encode_e8m0(double v) {
  if (std::isnan(v)) return 255;
  static const std::vector<double> powers = [] {
    std::vector<double> all;
    for (int b = 0; b <= 255; ++b) all.push_back(std::ldexp(1.0, b - 127));
    return all;
  }();
  uint32_t best = 0;
  const auto distance = [&](uint32_t b) { return std::fabs(std::fabs(v) - powers[b]); };
  for (uint32_t b = 1; b <= 255; ++b)
    if (distance(b) <= distance(best)) best = b;
  return std::isinf(v) ? 255 : best;
}

inline uint32_t encode_small(double v, DType t) {
  if (t == DType::F8E8M0) return encode_e8m0(v);
  const SmallFormat s = small_format(t);
  static SmallTables tables;
  std::vector<double>& table = tables[size_t(t)];  // finite values >= 0; the index is the pattern
  if (table.empty())
    for (uint32_t b = 0; b < 1u << (s.bits - 1); ++b) {
      const double x = decode_small(b, t);
      if (!std::isfinite(x)) break;
      table.push_back(x);
    }
  const uint32_t sign = 1u << (s.bits - 1);
  const uint32_t nan = s.fnuz || s.finite ? sign : s.infinity ? uint32_t(table.size()) | 1u << (s.mantissa - 1) : uint32_t(table.size());
  if (std::isnan(v)) return nan;
  const double a = std::fabs(v);
  uint32_t r;
  const double last = table.back(), step = last - table[table.size() - 2];
  if (a >= last + step / 2 && !s.finite && !(a == last + step / 2 && (table.size() - 1) % 2 == 0)) {
    r = s.infinity ? uint32_t(table.size()) : nan;
  } else if (a >= last) {
    r = uint32_t(table.size() - 1);
  } else {
    const size_t hi = size_t(std::upper_bound(table.begin(), table.end(), a) - table.begin()), lo = hi - 1;
    const double d0 = a - table[lo], d1 = table[hi] - a;
    r = uint32_t(d0 < d1 || (d0 == d1 && lo % 2 == 0) ? lo : hi);
  }
  if (s.fnuz && (r == 0 || r == sign)) return r;
  return std::signbit(v) ? r | sign : r;
}

inline double round_to(double v, DType t) {
  if (t == DType::F64) return v;
  if (t == DType::F32) return float(v);
  return decode_small(encode_small(v, t), t);
}

inline int64_t wrap(int64_t v, DType t) {
  switch (t) {
    case DType::I64: case DType::U64: return v;
    case DType::I32: return int32_t(v);
    case DType::U32: return uint32_t(v);
    case DType::I16: return int16_t(v);
    case DType::U16: return uint16_t(v);
    case DType::I8: return int8_t(v);
    case DType::U8: return uint8_t(v);
    case DType::I4: return int64_t(uint64_t(v) << 60) >> 60;
    case DType::U4: return v & 15;
    case DType::I2: return int64_t(uint64_t(v) << 62) >> 62;
    case DType::U2: return v & 3;
    default: return v != 0;
  }
}

inline Lane read_element(const std::byte* p, DType t) {
  Lane l;
  uint64_t raw = 0;
  std::memcpy(&raw, p, bytes_of(t));
  if (t == DType::F64) std::memcpy(&l.f, p, 8);
  else if (t == DType::F32) { float f; std::memcpy(&f, p, 4); l.f = f; }
  else if (is_small(t)) l.f = decode_small(uint32_t(raw), t);
  else l.i = wrap(int64_t(raw), t);
  return l;
}
inline void write_element(std::byte* p, Lane l, DType t) {
  uint64_t raw = uint64_t(l.i);
  if (t == DType::F64) std::memcpy(&raw, &l.f, 8);
  else if (t == DType::F32) { const float f = float(l.f); raw = 0; std::memcpy(&raw, &f, 4); }
  else if (is_small(t)) raw = encode_small(l.f, t);
  std::memcpy(p, &raw, bytes_of(t));
}

class Reference {
 public:
  // `any_out`, one set of element numbers per buffer, collects elements whose value is unspecified.
  Reference(const loop::Kernel& k, bool fuse) : k_(k), fuse_(fuse) {}

  struct Buffer {
    std::byte* data;
    uint64_t bytes;
  };
  std::vector<std::vector<bool>> unspecified;  // per buffer, per element

  int32_t run(std::vector<Buffer> buffers, const std::vector<int64_t>& scalars, int64_t begin, int64_t end) {
    buffers_ = std::move(buffers);
    locals_.clear();
    for (const auto& l : k_.locals) locals_.emplace_back(size_t(l.count->i) * bytes_of(l.dtype) + 64);
    for (size_t n = 0; n < locals_.size(); ++n)
      buffers_.push_back({locals_[n].data(), uint64_t(k_.locals[n].count->i) * bytes_of(k_.locals[n].dtype)});
    unspecified.assign(buffers_.size(), {});
    for (size_t n = 0; n < buffers_.size(); ++n) unspecified[n].resize(buffers_[n].bytes + 64);
    for (size_t n = 0; n < scalars.size(); ++n) syms_[k_.scalars[n]] = scalars[n];
    vars_[k_.tile_begin->i] = {{0, begin}};
    vars_[k_.tile_end->i] = {{0, end}};
    return block(k_.body);
  }

 private:
  int32_t block(const std::vector<loop::StmtPtr>& body) {
    for (const auto& s : body)
      if (int32_t f = statement(*s); f != kGoOn) return f;
    return kGoOn == 0 ? 0 : kGoOn;
  }
  static constexpr int32_t kGoOn = 0;

  int32_t statement(const loop::Stmt& s) {
    switch (s.kind) {
      case loop::StmtKind::For: {
        const int64_t end = eval(s.end)[0].i;
        for (int64_t i = eval(s.begin)[0].i; i < end; i += s.step) {
          vars_[s.var->i] = {{0, i}};
          if (int32_t f = block(s.body)) return f;
        }
        return 0;
      }
      case loop::StmtKind::While: {
        const int64_t bound = eval(s.bound)[0].i;
        for (int64_t n = 0; eval(s.cond)[0].i; ++n) {
          if (n >= bound) return MLRUN_FAULT_BOUND;
          if (int32_t f = block(s.body)) return f;
        }
        return 0;
      }
      case loop::StmtKind::If: return block(eval(s.cond)[0].i ? s.body : s.orelse);
      case loop::StmtKind::Let: case loop::StmtKind::Local: case loop::StmtKind::Assign: {
        Lanes v = eval(s.value);
        vars_[s.var->i] = std::move(v);
        return 0;
      }
      case loop::StmtKind::Barrier:
      case loop::StmtKind::ClusterBarrier:
      case loop::StmtKind::Peer:
      case loop::StmtKind::FoldLanes:
      case loop::StmtKind::LoadMatrices:
      case loop::StmtKind::GroupMma:
      case loop::StmtKind::Matrix:
      case loop::StmtKind::Mma:
      case loop::StmtKind::Copy:
      case loop::StmtKind::CloseCopies:
      case loop::StmtKind::WaitCopies:
      case loop::StmtKind::Prefetch: return 0;
      case loop::StmtKind::Tiles: return tiles(s);
      case loop::StmtKind::Fault:
        for (const Lane& l : eval(s.cond)) if (l.i) return s.fault;
        return 0;
      case loop::StmtKind::Store: {
        const Lanes v = eval(s.value), index = eval(s.index[0]), mask = s.cond ? eval(s.cond) : Lanes(1, {0, 1});
        const DType t = s.value->type.dtype;
        for (size_t n = 0; n < v.size(); ++n) {
          if (!mask[mask.size() == 1 ? 0 : n].i) continue;
          const int64_t at = index.size() == 1 ? index[0].i + int64_t(n) : index[n].i;
          write_element(at_(s.array, at, t), v[n], t);
          unspecified[s.array][size_t(at)] = v[n].any;
        }
        return 0;
      }
    }
    return 0;
  }

  int32_t tiles(const loop::Stmt& s) {
    constexpr unsigned kSide = loop::kTileSide;
    if (s.tile_op == loop::TileOp::Begin) {
      for (auto& tile : tiles_) tile.fill(0);
      return 0;
    }
    const auto element = [&](const Expr* first, int64_t behind) {
      return read_element(at_(first->array, eval(first->args[0])[0].i + behind, first->type.dtype), first->type.dtype);
    };
    for (unsigned r = 0; r < kSide; ++r)
      for (unsigned c = 0; c < kSide; ++c) {
        uint32_t& sum = tiles_[s.tile][r * kSide + c];
        if (s.tile_op == loop::TileOp::Store) {
          std::memcpy(at_(s.array, eval(s.index[0])[0].i + r * kSide + c, DType::I32), &sum, sizeof sum);
          continue;
        }
        const int64_t size = bytes_of(s.index[0]->type.dtype), group = 4 / size;
        for (int64_t k = 0; k < s.step / size; ++k) {
          const auto a = element(s.index[0], r * eval(s.index[1])[0].i + k), b = element(s.index[2], k / group * (kSide * group) + c * group + k % group);
          if (size == 1) sum += static_cast<uint32_t>(a.i) * static_cast<uint32_t>(b.i);
          else sum = std::bit_cast<uint32_t>(static_cast<float>(double{std::bit_cast<float>(sum)} + a.f * b.f));
        }
      }
    return 0;
  }

  std::byte* at_(uint32_t array, int64_t at, DType t) {
    if (at < 0 || (uint64_t(at) + 1) * bytes_of(t) > ((buffers_[array].bytes + 63) & ~uint64_t{63})) std::abort();
    return buffers_[array].data + at * bytes_of(t);
  }

  Lanes eval(const Expr* e) {
    const DType t = e->type.dtype;
    const size_t n = e->type.lanes;
    auto arg = [&](size_t k) { return eval(e->args[k]); };
    switch (e->op) {
      case Op::Const: {
        Lane l;
        if (is_float(t)) l.f = round_to(e->f, t); else l.i = wrap(e->i, t);
        return Lanes(n, l);
      }
      case Op::Sym: return {{0, syms_.at(e->sym)}};
      case Op::Var: return vars_.at(e->i);
      case Op::Load: {
        const Lanes index = arg(0), mask = e->args.size() > 1 ? arg(1) : Lanes(1, {0, 1});
        Lanes out(n);
        for (size_t k = 0; k < n; ++k) {
          if (!mask[mask.size() == 1 ? 0 : k].i) continue;
          const int64_t at = index.size() == 1 ? index[0].i + int64_t(k) : index[k].i;
          out[k] = read_element(at_(e->array, at, t), t);
          out[k].any = unspecified[e->array][size_t(at)];
        }
        return out;
      }
      case Op::Select:
        if (e->args[0]->type.lanes == 1) return arg(arg(0)[0].i ? 1 : 2);
        break;
      case Op::And: if (n == 1 && !arg(0)[0].i) return {{0, 0}}; break;
      case Op::Or: if (n == 1 && arg(0)[0].i) return {{0, 1}}; break;
      case Op::Splat: {
        const Lanes v = arg(0);
        Lanes out(n);
        for (size_t k = 0; k < n; ++k) out[k] = v[k % v.size()];
        return out;
      }
      case Op::Dot: {  // of integers
        Lanes sum = arg(0);
        const Lanes a = arg(1), b = arg(2);
        for (size_t k = 0; k < a.size(); ++k) {
          Lane& l = sum[k / (a.size() / n)];
          l.i = wrap(l.i + a[k].i * b[k].i, t);
          l.any |= a[k].any || b[k].any;
        }
        return sum;
      }
      case Op::Ramp: {
        const Lane base = arg(0)[0];
        Lanes out(n);
        for (size_t k = 0; k < n; ++k) out[k].i = wrap(int64_t(uint64_t(base.i) + k * uint64_t(e->i)), t);
        return out;
      }
      case Op::Extract: return {arg(0)[size_t(e->i)]};
      case Op::Widen: {
        Lanes out;
        for (size_t k = 0; k < e->args.size(); ++k)
          for (const Lane& l : arg(k)) out.push_back(l);
        return out;
      }
      case Op::SumLanes: case Op::ProdLanes: case Op::MinLanes: case Op::MaxLanes: {
        Lanes v = arg(0);
        const Op op = e->op == Op::SumLanes ? Op::Add : e->op == Op::ProdLanes ? Op::Mul
                      : e->op == Op::MinLanes ? Op::Min : Op::Max;
        // Small floats are summed in f32 and rounded once.
        const DType element = is_small(t) ? DType::F32 : t;
        while (v.size() > 1) {
          Lanes half(v.size() / 2);
          for (size_t k = 0; k < half.size(); ++k) half[k] = scalar(op, element, element, v[k], v[k + half.size()], {});
          v = half;
        }
        v[0].f = is_float(t) ? round_to(v[0].f, t) : 0;
        return v;
      }
      default: break;
    }
    std::vector<Lanes> args;
    for (size_t k = 0; k < e->args.size(); ++k) args.push_back(arg(k));
    Lanes out(n);
    for (size_t k = 0; k < n; ++k) {
      Lane a[3];
      for (size_t j = 0; j < args.size(); ++j) a[j] = args[j][args[j].size() == 1 ? 0 : k];
      out[k] = scalar(e->op, t, e->args[0]->type.dtype, a[0], a[1], a[2]);
      for (size_t j = 0; j < args.size(); ++j) out[k].any |= a[j].any;
    }
    return out;
  }

  Lane scalar(Op op, DType t, DType from, Lane a, Lane b, Lane c) {
    Lane r;
    if (op == Op::Select) return a.i ? b : c;
    if (op == Op::Cast || op == Op::SatCast || op == Op::Bitcast) return convert(op, t, from, a);
    if (is_float(from)) {
      const double x = a.f, y = b.f;
      switch (op) {
        case Op::Lt: r.i = x < y; return r;
        case Op::Le: r.i = x <= y; return r;
        case Op::Eq: r.i = x == y; return r;
        case Op::Ne: r.i = !(x == y); return r;
        case Op::IsNan: r.i = std::isnan(x); return r;
        case Op::IsInf: r.i = std::isinf(x); return r;
        default: break;
      }
      r.f = from == DType::F64 ? floating<double>(op, x, y, c.f)
                               : round_to(floating<float>(op, float(x), float(y), float(c.f)), t);
      return r;
    }
    r.i = wrap(integral(op, from, a.i, b.i, c.i), t);
    return r;
  }

  template <class F>
  F floating(Op op, F x, F y, F z) {
    switch (op) {
      case Op::Neg: return -x;
      case Op::Abs: return std::fabs(x);
      case Op::Floor: return std::floor(x);
      case Op::Ceil: return std::ceil(x);
      case Op::Trunc: return std::trunc(x);
      case Op::Rint: return std::nearbyint(x);
      case Op::Sqrt: return std::sqrt(x);
      case Op::Add: return x + y;
      case Op::Sub: return x - y;
      case Op::Mul: return x * y;
      case Op::Div: return x / y;
      case Op::FloorDiv: return std::floor(x / y);
      case Op::FloorMod: { const F q = std::floor(x / y); const volatile F p = y * q; return x - p; }
      case Op::TruncDiv: return std::trunc(x / y);
      case Op::TruncMod: return std::fmod(x, y);
      case Op::Min: return std::isnan(x) || std::isnan(y) ? F(NAN) : x < y ? x : y;
      case Op::Max: return std::isnan(x) || std::isnan(y) ? F(NAN) : x > y ? x : y;
      case Op::Fma: { if (fuse_) return std::fma(x, y, z); const volatile F p = x * y; return p + z; }
      default: std::abort();
    }
  }

  int64_t integral(Op op, DType t, int64_t x, int64_t y, int64_t z) {
    const bool s = is_signed_int(t);
    const uint64_t ux = uint64_t(x), uy = uint64_t(y);
    const unsigned bits = bits_of(t);
    auto quotient = [&] { return !y ? x : !s ? int64_t(ux / uy) : y == -1 ? int64_t(0 - ux) : x / y; };
    auto remainder = [&] { return !y ? 0 : !s ? int64_t(ux % uy) : y == -1 ? 0 : x % y; };
    switch (op) {
      case Op::Neg: return int64_t(0 - ux);
      case Op::Abs: return s && x < 0 ? int64_t(0 - ux) : x;
      case Op::Not: return !x;
      case Op::BitNot: return t == DType::Bool ? !x : ~x;
      case Op::Floor: case Op::Ceil: case Op::Trunc: case Op::Rint: return x;
      case Op::Add: return t == DType::Bool ? x | y : int64_t(ux + uy);
      case Op::Sub: return int64_t(ux - uy);
      case Op::Mul: return int64_t(ux * uy);
      case Op::TruncDiv: return quotient();
      case Op::TruncMod: return remainder();
      case Op::FloorDiv: { const int64_t q = quotient(), r = remainder(); return s && r && (r < 0) != (y < 0) ? q - 1 : q; }
      case Op::FloorMod: { const int64_t r = remainder(); return s && r && (r < 0) != (y < 0) ? r + y : r; }
      case Op::Min: return s ? std::min(x, y) : int64_t(std::min(ux, uy));
      case Op::Max: return s ? std::max(x, y) : int64_t(std::max(ux, uy));
      case Op::Pow: {
        if (s && y < 0) return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
        uint64_t r = 1, base = ux;
        for (uint64_t e = uy; e; e >>= 1, base *= base) if (e & 1) r *= base;
        return int64_t(r);
      }
      case Op::And: case Op::BitAnd: return x & y;
      case Op::Or: case Op::BitOr: return x | y;
      case Op::BitXor: return x ^ y;
      case Op::Shl: return uy >= bits ? 0 : int64_t(ux << y);
      case Op::Shr: return s ? x >> (uy >= bits ? bits - 1 : uy) : uy >= bits ? 0 : int64_t(ux >> y);
      case Op::Lt: return s ? x < y : ux < uy;
      case Op::Le: return s ? x <= y : ux <= uy;
      case Op::Eq: return x == y;
      case Op::Ne: return x != y;
      case Op::Fma: return int64_t(ux * uy + uint64_t(z));
      case Op::IsNan: case Op::IsInf: return 0;
      default: std::abort();
    }
  }

  static double lowest(DType t) { return is_signed_int(t) ? -std::ldexp(1.0, int(bits_of(t)) - 1) : 0; }
  static double above(DType t) { return std::ldexp(1.0, int(bits_of(t)) - is_signed_int(t)); }  // first too large

  Lane convert(Op op, DType t, DType from, Lane a) {
    Lane r;
    r.any = a.any;
    if (op == Op::Bitcast) {
      std::byte raw[8] = {};
      write_element(raw, a, from);
      return read_element(raw, t);
    }
    if (is_float(from)) {
      if (is_float(t)) {
        r.f = a.f;
        if (op == Op::SatCast && is_small(t) && !std::isnan(a.f)) {
          const double largest = largest_small(t);
          r.f = std::clamp(a.f, -largest, largest);
        }
        r.f = round_to(r.f, t);
      } else if (t == DType::Bool) {
        r.i = !(a.f == 0);
      } else {
        const double v = std::trunc(a.f);
        // A Cast keeps the low bits of what fits a signed register: 32 bits for narrow results, 64 for u32.
        const double room = bits_of(t) <= 16 ? 0x1p31 : t == DType::U32 ? 0x1p63 : 0;
        if (op == Op::Cast && v > -room - 1 && v < room) r.i = wrap(int64_t(v), t);
        else if (std::isnan(v)) r.any |= op == Op::Cast;
        else if (v < lowest(t)) r.any |= op == Op::Cast, r.i = is_signed_int(t) ? wrap(int64_t(uint64_t(1) << (bits_of(t) - 1)), t) : 0;
        else if (v >= above(t)) r.any |= op == Op::Cast, r.i = wrap(int64_t((uint64_t(1) << (bits_of(t) - is_signed_int(t)) % 64) - 1), t);
        else r.i = is_signed_int(t) ? int64_t(v) : int64_t(uint64_t(v));
        if (t == DType::U64 && v >= above(t)) r.i = -1;
      }
      return r;
    }
    if (is_float(t)) {
      const bool u64 = from == DType::U64;
      if (t == DType::F64) r.f = u64 ? double(uint64_t(a.i)) : double(a.i);
      else r.f = round_to(u64 ? float(uint64_t(a.i)) : float(a.i), t);
      return r;
    }
    if (op == Op::SatCast && from != DType::Bool && t != DType::Bool) {
      const __int128 v = from == DType::U64 ? __int128(uint64_t(a.i)) : __int128(a.i);
      const __int128 lo = is_signed_int(t) ? -(__int128(1) << (bits_of(t) - 1)) : 0;
      const __int128 hi = (__int128(1) << (bits_of(t) - is_signed_int(t))) - 1;
      r.i = int64_t(v < lo ? lo : v > hi ? hi : v);
      return r;
    }
    r.i = t == DType::Bool ? a.i != 0 : wrap(a.i, t);
    return r;
  }

  const loop::Kernel& k_;
  bool fuse_;
  std::vector<Buffer> buffers_;
  std::vector<std::vector<std::byte>> locals_;
  std::unordered_map<const ir::Sym*, int64_t> syms_;
  std::unordered_map<int64_t, Lanes> vars_;
  std::array<std::array<uint32_t, loop::kTileSide * loop::kTileSide>, loop::kTiles> tiles_{};
};

}  // namespace mlc::testing
