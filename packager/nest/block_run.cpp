#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

#include "base/run_on_threads.h"
#include "packager/nest/block.h"

namespace mlc::nest {

using ir::Op;
using ir::Scalar;

namespace {

// dst[i] += x[i*sx] * y[i*sy]: rounded twice, as two operations of expr.h are.
void multiply_add(float* dst, const float* x, int64_t sx, const float* y, int64_t sy, int64_t n) {
  if (sx == 1 && sy == 0) {
    float s = *y;
    for (int64_t i = 0; i < n; ++i) dst[i] += x[i] * s;
  } else if (sx == 0 && sy == 1) {
    float s = *x;
    for (int64_t i = 0; i < n; ++i) dst[i] += s * y[i];
  } else if (sx == 1 && sy == 1) {
    for (int64_t i = 0; i < n; ++i) dst[i] += x[i] * y[i];
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i] += x[i * sx] * y[i * sy];
  }
}

// The same for kGroup rows at once, dst[lane][row]: the factors of the rows lie `ss` apart.
void multiply_add_rows(float* __restrict dst, int64_t rows, const float* v, int64_t sv, const float* s, int64_t ss, int64_t n) {
  float factor[kGroup] = {};
  for (int64_t r = 0; r < rows; ++r) factor[r] = s[r * ss];
  for (int64_t i = 0; i < n; ++i) {
    float x = v[i * sv];
    for (int64_t r = 0; r < kGroup; ++r) dst[i * kGroup + r] += x * factor[r];
  }
}

float round_narrow(DType t, float v) {
  switch (t) {
    case DType::F16: return ir::f16_value(ir::f16_bits(v));
    case DType::BF16: return ir::bf16_value(ir::bf16_bits(v));
    default: return static_cast<float>(ir::round_to(t, v));
  }
}

class Machine {
 public:
  Machine(const BlockProgram& p, std::vector<Tensor>& arrays, const Function& f)
      : p_(p), arrays_(arrays), f_(f), at_(p.dims.size(), 0) {
    size_t wide = 1;
    for (const Register& r : p.registers) wide += !r.uniform;
    int64_t lanes = p.lane < 0 ? 1 : p.extents[static_cast<size_t>(p.lane)];
    limit_ = std::clamp<int64_t>(65536 / static_cast<int64_t>(wide), 32, 1024);
    if (p.group >= 0) limit_ = std::min<int64_t>(limit_, 256);
    limit_ = std::max<int64_t>(1, std::min(limit_, lanes));
    offset_.reserve(p.registers.size());
    size_t words = 0;
    for (const Register& r : p.registers) {
      offset_.push_back(words);
      words += r.uniform ? 1 : static_cast<size_t>(limit_);
    }
    memory_.resize(words);
    kept_.resize(p.folds.size());
    n_ = limit_;
    for (const auto& [reg, value] : p.constants) fill(reg, value);
  }

  int64_t limit() const { return limit_; }
  bool failed() const { return own_.failed; }
  Fault own_;

  // Lanes first .. first+n of the row whose other map dims are in `row`.
  void block(const std::vector<int64_t>& row, int64_t first, int64_t n) {
    n_ = n;
    for (size_t d = 0; d < p_.map_dims; ++d) {
      at_[d] = static_cast<int>(d) == p_.lane ? first : row[d];
      int r = p_.dim_reg[d];
      if (r < 0) continue;
      if (static_cast<int>(d) == p_.lane)
        for (int64_t i = 0; i < n; ++i) ints(r)[i] = first + i;
      else
        ints(r)[0] = at_[d];
    }
    run(p_.code);
    for (size_t w = 0; w < p_.stores.size() && !own_.failed; ++w) store(w);
  }

 private:
  float* floats(int r) { return reinterpret_cast<float*>(&memory_[offset_[static_cast<size_t>(r)]]); }
  double* doubles(int r) { return reinterpret_cast<double*>(&memory_[offset_[static_cast<size_t>(r)]]); }
  int64_t* ints(int r) { return &memory_[offset_[static_cast<size_t>(r)]]; }
  bool uniform(int r) const { return p_.registers[static_cast<size_t>(r)].uniform; }
  int64_t count(int r) const { return uniform(r) ? 1 : n_; }
  Register::Class kind(int r) const { return p_.registers[static_cast<size_t>(r)].kind; }

  Scalar get(int r, int64_t i) {
    switch (kind(r)) {
      case Register::F32: return {0, floats(r)[i]};
      case Register::F64: return {0, doubles(r)[i]};
      case Register::Int: return {ints(r)[i], 0};
    }
    return {};
  }
  void set(int r, int64_t i, Scalar v) {
    switch (kind(r)) {
      case Register::F32: floats(r)[i] = static_cast<float>(v.f); return;
      case Register::F64: doubles(r)[i] = v.f; return;
      case Register::Int: ints(r)[i] = v.i; return;
    }
  }
  void fill(int r, Scalar v) {
    int64_t n = uniform(r) ? 1 : limit_;
    for (int64_t i = 0; i < n; ++i) set(r, i, v);
  }
  // dst[i] = a[i], or a[0] for all.
  void copy(int dst, int a, bool broadcast) {
    int64_t n = count(dst);
    auto go = [&](auto* d, auto* s) {
      if (broadcast) std::fill(d, d + n, *s);
      else std::copy(s, s + n, d);
    };
    switch (kind(dst)) {
      case Register::F32: return go(floats(dst), floats(a));
      case Register::F64: return go(doubles(dst), doubles(a));
      case Register::Int: return go(ints(dst), ints(a));
    }
  }

  void run(const std::vector<Instr>& code) {
    for (const Instr& i : code) {
      if (own_.failed) return;
      switch (i.kind) {
        case Instr::Unary: unary(i); break;
        case Instr::Binary: binary(i.op, i.from, i.dst, i.a, i.b); break;
        case Instr::Select: select(i.dst, i.a, i.b, i.c); break;
        case Instr::Fma:
          for (int64_t k = 0, n = count(i.dst); k < n; ++k) {
            Scalar product = ir::apply_binary(Op::Mul, i.to, get(i.a, k), get(i.b, k));
            set(i.dst, k, ir::apply_binary(Op::Add, i.to, product, get(i.c, k)));
          }
          break;
        case Instr::Load: load(p_.loads[static_cast<size_t>(i.code)], i.dst); break;
        case Instr::Fold: fold(p_.folds[static_cast<size_t>(i.code)]); break;
        case Instr::Broadcast: copy(i.dst, i.a, true); break;
        case Instr::MaskAnd: case Instr::MaskAndNot:
          for (int64_t k = 0, n = count(i.dst); k < n; ++k)
            ints(i.dst)[k] = ints(i.a)[k] & static_cast<int64_t>((ints(i.b)[k] != 0) == (i.kind == Instr::MaskAnd));
          break;
        case Instr::Copy:
          copy(i.dst, i.a, false);
          if (kind(i.dst) == Register::F32) narrow(i.to, i.dst);
          break;
      }
    }
  }

  // Rounds registers of float to a narrower type.
  void narrow(DType t, int r) {
    if (t == DType::F32 || kind(r) != Register::F32) return;
    float* v = floats(r);
    for (int64_t i = 0, n = count(r); i < n; ++i) v[i] = round_narrow(t, v[i]);
  }

  // Integers of every width are kept in 64 bits; arithmetic on them is that of 64 bits, wrapped. False: not for this type.
  static bool wraps(DType t) { return is_int(t) && t != DType::U64 && bits_of(t) >= 8; }
  void wrap(DType t, int r) {
    const auto as = [&](auto width) {
      int64_t* v = ints(r);
      for (int64_t i = 0, n = count(r); i < n; ++i) v[i] = static_cast<decltype(width)>(v[i]);
    };
    switch (t) {
      case DType::I32: return as(int32_t());
      case DType::I16: return as(int16_t());
      case DType::I8: return as(int8_t());
      case DType::U32: return as(uint32_t());
      case DType::U16: return as(uint16_t());
      case DType::U8: return as(uint8_t());
      default: return;
    }
  }

  template <class F, class G>
  void each(F* dst, const G* a, int64_t n, auto&& op) {
    for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<F>(op(a[i]));
  }

  template <class F>
  bool real_unary(Op op, F* d, const F* a, int64_t n) {
    switch (op) {
      case Op::Neg: each(d, a, n, [](F x) { return -x; }); return true;
      case Op::Abs: each(d, a, n, [](F x) { return std::fabs(x); }); return true;
      case Op::Sqrt: each(d, a, n, [](F x) { return std::sqrt(x); }); return true;
      case Op::Exp: each(d, a, n, [](F x) { return std::exp(x); }); return true;
      case Op::Tanh: each(d, a, n, [](F x) { return std::tanh(x); }); return true;
      case Op::Erf: each(d, a, n, [](F x) { return std::erf(x); }); return true;
      case Op::Floor: each(d, a, n, [](F x) { return std::floor(x); }); return true;
      default: return false;
    }
  }

  void unary(const Instr& i) {
    int64_t n = count(i.dst);
    bool done = false;
    if (kind(i.dst) == kind(i.a) && i.op != Op::Cast && i.op != Op::SatCast && i.op != Op::Bitcast) {
      if (kind(i.dst) == Register::F32) done = real_unary(i.op, floats(i.dst), floats(i.a), n);
      else if (kind(i.dst) == Register::F64) done = real_unary(i.op, doubles(i.dst), doubles(i.a), n);
      if (done) return narrow(i.to, i.dst);
    }
    if (i.op == Op::Cast && kind(i.dst) == Register::F32 && kind(i.a) == Register::F32) {
      copy(i.dst, i.a, false);
      return narrow(i.to, i.dst);
    }
    if (i.op == Op::Cast && i.to == DType::F32 && kind(i.a) == Register::Int && i.from != DType::U64)
      return each(floats(i.dst), ints(i.a), n, [](int64_t x) { return static_cast<float>(static_cast<double>(x)); });
    if (i.op == Op::Cast && kind(i.dst) == Register::Int && kind(i.a) == Register::Int && wraps(i.to)) {
      copy(i.dst, i.a, false);
      return wrap(i.to, i.dst);
    }
    for (int64_t k = 0; k < n; ++k) set(i.dst, k, ir::apply_unary(i.op, i.from, i.to, get(i.a, k)));
  }

  template <class F>
  bool real_binary(Op op, F* d, const F* a, const F* b, int64_t n) {
    auto go = [&](auto&& f) {
      for (int64_t i = 0; i < n; ++i) d[i] = f(a[i], b[i]);
      return true;
    };
    switch (op) {
      case Op::Add: return go([](F x, F y) { return x + y; });
      case Op::Sub: return go([](F x, F y) { return x - y; });
      case Op::Mul: return go([](F x, F y) { return x * y; });
      case Op::Div: return go([](F x, F y) { return x / y; });
      case Op::Min: return go([](F x, F y) { return x != x ? x : y != y ? y : x < y ? x : y; });
      case Op::Max: return go([](F x, F y) { return x != x ? x : y != y ? y : x > y ? x : y; });
      default: return false;
    }
  }
  template <class F>
  bool real_compare(Op op, int64_t* d, const F* a, const F* b, int64_t n) {
    auto go = [&](auto&& f) {
      for (int64_t i = 0; i < n; ++i) d[i] = f(a[i], b[i]);
      return true;
    };
    switch (op) {
      case Op::Lt: return go([](F x, F y) { return x < y; });
      case Op::Le: return go([](F x, F y) { return x <= y; });
      case Op::Eq: return go([](F x, F y) { return x == y; });
      case Op::Ne: return go([](F x, F y) { return x != y; });
      default: return false;
    }
  }

  void binary(Op op, DType t, int dst, int a, int b) {
    int64_t n = count(dst);
    if (kind(a) == Register::F32 && kind(dst) == Register::F32) {
      if (real_binary(op, floats(dst), floats(a), floats(b), n)) return narrow(t, dst);
    } else if (kind(a) == Register::F32) {
      if (real_compare(op, ints(dst), floats(a), floats(b), n)) return;
    } else if (kind(a) == Register::F64 && kind(dst) == Register::F64) {
      if (real_binary(op, doubles(dst), doubles(a), doubles(b), n)) return;
    } else if (wraps(t) || t == DType::Bool) {
      int64_t *d = ints(dst), *x = ints(a), *y = ints(b);
      auto go = [&](auto&& f) { for (int64_t i = 0; i < n; ++i) d[i] = f(x[i], y[i]); };
      auto wrapped = [&](auto&& f) {
        for (int64_t i = 0; i < n; ++i) d[i] = static_cast<int64_t>(f(static_cast<uint64_t>(x[i]), static_cast<uint64_t>(y[i])));
        wrap(t, dst);
      };
      switch (op) {
        case Op::Add: if (t == DType::Bool) break; return wrapped([](uint64_t p, uint64_t q) { return p + q; });
        case Op::Sub: if (t == DType::Bool) break; return wrapped([](uint64_t p, uint64_t q) { return p - q; });
        case Op::Mul: if (t == DType::Bool) break; return wrapped([](uint64_t p, uint64_t q) { return p * q; });
        case Op::And: return go([](int64_t p, int64_t q) { return (p != 0) & (q != 0); });
        case Op::Or: return go([](int64_t p, int64_t q) { return (p != 0) | (q != 0); });
        case Op::Lt: return go([](int64_t p, int64_t q) { return p < q; });
        case Op::Le: return go([](int64_t p, int64_t q) { return p <= q; });
        case Op::Eq: return go([](int64_t p, int64_t q) { return p == q; });
        case Op::Ne: return go([](int64_t p, int64_t q) { return p != q; });
        case Op::Min: return go([](int64_t p, int64_t q) { return p < q ? p : q; });
        case Op::Max: return go([](int64_t p, int64_t q) { return p > q ? p : q; });
        default: break;
      }
    }
    for (int64_t k = 0; k < n; ++k) set(dst, k, ir::apply_binary(op, t, get(a, k), get(b, k)));
  }

  void select(int dst, int c, int a, int b) {
    int64_t n = count(dst);
    const int64_t* m = ints(c);
    auto go = [&](auto* d, auto* x, auto* y) { for (int64_t i = 0; i < n; ++i) d[i] = m[i] ? x[i] : y[i]; };
    switch (kind(dst)) {
      case Register::F32: return go(floats(dst), floats(a), floats(b));
      case Register::F64: return go(doubles(dst), doubles(a), doubles(b));
      case Register::Int: return go(ints(dst), ints(a), ints(b));
    }
  }

  int64_t affine(const Affine& a) const {
    int64_t v = a.c;
    for (size_t d = 0; d < a.k.size(); ++d) v += a.k[d] * at_[d];
    return v;
  }
  int64_t lane_step(const Affine& a) const {
    return p_.lane >= 0 && static_cast<size_t>(p_.lane) < a.k.size() ? a.k[static_cast<size_t>(p_.lane)] : 0;
  }

  std::string array_name(uint32_t array) const {
    return array < f_.arrays.size() ? f_.arrays[array].name : "array " + std::to_string(array);
  }
  void fault(const AccessCode& c, size_t axis, int64_t index) {
    own_.set(c.fault_is_bug, index_fault(array_name(c.array), axis, index, c.extents[axis]));
  }

  // True if every lane lies inside along every axis.
  bool row_inside(const AccessCode& c, int64_t n) {
    for (size_t i = 0; i < c.axes.size(); ++i) {
      const AxisIndex& a = c.axes[i];
      if (a.inside) continue;
      int64_t first = affine(a.at), last = first + lane_step(a.at) * (n - 1);
      if (std::min(first, last) < 0 || std::max(first, last) >= c.extents[i]) return false;
    }
    return true;
  }

  // Element of one lane, or -1 if outside.
  int64_t element(const AccessCode& c, int64_t lane, bool active) {
    int64_t e = 0;
    for (size_t i = 0; i < c.axes.size(); ++i) {
      const AxisIndex& a = c.axes[i];
      int64_t x = a.affine ? affine(a.at) + lane_step(a.at) * lane : ints(a.reg)[uniform(a.reg) ? 0 : lane];
      if (x < 0 || x >= c.extents[i]) {
        if (active) fault(c, i, x);
        return -1;
      }
      e += x * c.strides[i];
    }
    return e;
  }

  template <class T>
  static T read(const std::byte* base, int64_t e) {
    T v;
    std::memcpy(&v, base + e * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return v;
  }

  void load(const AccessCode& c, int dst) {
    const std::byte* base = arrays_[c.array].bytes.data();
    int64_t n = count(dst);
    if (c.all_affine && row_inside(c, n)) {
      int64_t e = affine(c.linear), step = lane_step(c.linear);
      if (c.dtype == DType::F32) {
        float* d = floats(dst);
        if (step == 1) std::memcpy(d, base + e * 4, static_cast<size_t>(n) * 4);
        else for (int64_t i = 0; i < n; ++i) d[i] = read<float>(base, e + i * step);
      } else if (c.dtype == DType::I64) {
        for (int64_t i = 0; i < n; ++i) ints(dst)[i] = read<int64_t>(base, e + i * step);
      } else if (c.dtype == DType::U8) {
        for (int64_t i = 0; i < n; ++i) ints(dst)[i] = read<uint8_t>(base, e + i * step);
      } else {
        for (int64_t i = 0; i < n; ++i) set(dst, i, ir::load_element(c.dtype, base, static_cast<uint64_t>(e + i * step)));
      }
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      bool active = true;
      if (c.mask >= 0) {
        if (uniform(c.mask)) active = ints(c.mask)[0] != 0;
        else if (n == n_ && !uniform(dst)) active = ints(c.mask)[i] != 0;
        else active = std::any_of(ints(c.mask), ints(c.mask) + n_, [](int64_t m) { return m != 0; });
      }
      int64_t e = element(c, i, active);
      if (own_.failed) return;
      set(dst, i, e < 0 ? Scalar{} : ir::load_element(c.dtype, base, static_cast<uint64_t>(e)));
    }
  }

  bool any(int mask) {
    if (mask < 0) return true;
    const int64_t* m = ints(mask);
    return std::any_of(m, m + count(mask), [](int64_t v) { return v != 0; });
  }
  bool all(int mask) {
    if (mask < 0) return true;
    const int64_t* m = ints(mask);
    return std::all_of(m, m + count(mask), [](int64_t v) { return v != 0; });
  }

  void fold(const FoldCode& f) {
    if (f.multiply_add) return sum_of_products(f);
    for (size_t k = 0; k < f.totals.size(); ++k) copy(f.totals[k], f.units[k], false);
    if (!any(f.mask)) return;
    for (int d : f.dims)
      if (p_.extents[static_cast<size_t>(d)] <= 0) return;
    for (int d : f.dims) move(d, 0);
    for (;;) {
      run(f.where);
      if (own_.failed) return;
      if (any(f.check_reg)) {
        run(f.body);
        if (own_.failed) return;
        combine(f);
      }
      size_t k = f.dims.size();
      while (k > 0) {
        int d = f.dims[k - 1];
        if (at_[static_cast<size_t>(d)] + 1 < p_.extents[static_cast<size_t>(d)]) {
          move(d, at_[static_cast<size_t>(d)] + 1);
          break;
        }
        move(d, 0);
        --k;
      }
      if (k == 0) return;
    }
  }
  void move(int slot, int64_t value) {
    at_[static_cast<size_t>(slot)] = value;
    if (int r = p_.dim_reg[static_cast<size_t>(slot)]; r >= 0) ints(r)[0] = value;
  }

  void combine(const FoldCode& f) {
    bool full = all(f.where_reg);
    if (f.combiner->join == ir::Join::Custom) {
      run(f.join);
      for (size_t k = 0; k < f.totals.size(); ++k) take(f.totals[k], f.joined[k], full ? -1 : f.where_reg);
      return;
    }
    int total = f.totals[0], item = f.items[0];
    if (f.combiner->join == ir::Join::Last) return take(total, item, full ? -1 : f.where_reg);
    Op op = f.combiner->join == ir::Join::Sum    ? Op::Add
            : f.combiner->join == ir::Join::Prod ? Op::Mul
            : f.combiner->join == ir::Join::Min  ? Op::Min
            : f.combiner->join == ir::Join::Max  ? Op::Max
            : f.combiner->join == ir::Join::Any  ? Op::Or
                                                 : Op::And;
    DType t = f.wide;
    if (full) return binary(op, t, total, total, item);
    for (int64_t i = 0, n = count(total); i < n; ++i)
      if (ints(f.where_reg)[i]) set(total, i, ir::apply_binary(op, t, get(total, i), get(item, i)));
  }
  void take(int dst, int from, int mask) {
    if (mask < 0) return copy(dst, from, false);
    for (int64_t i = 0, n = count(dst); i < n; ++i)
      if (ints(mask)[i]) set(dst, i, get(from, i));
  }

  static int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }

  // An axis along which a read might leave its array.
  struct Edge {
    const AccessCode* access;
    size_t axis;
    const Affine* at;
    int64_t base;
  };
  // Rows of a group that were computed together.
  struct Kept {
    std::vector<int64_t> key;  // map dims, the group's rounded down, lanes; empty: nothing yet
    std::vector<float> rows;
  };

  void sum_of_products(const FoldCode& f) {
    float* total = floats(f.totals[0]);
    if (!f.grouped) return sum_rows(f, total, 1);
    Kept& kept = kept_[static_cast<size_t>(&f - p_.folds.data())];
    size_t g = static_cast<size_t>(p_.group);
    int64_t now = at_[g], first = now / kGroup * kGroup;
    std::vector<int64_t>& key = key_;
    key.assign(at_.begin(), at_.begin() + static_cast<ptrdiff_t>(p_.map_dims));
    key[g] = first;
    key.push_back(n_);
    if (key != kept.key) {
      kept.rows.resize(static_cast<size_t>(kGroup * limit_));
      at_[g] = first;
      sum_rows(f, kept.rows.data(), std::min(kGroup, p_.extents[g] - first));
      at_[g] = now;
      kept.key = key;
    }
    const float* row = kept.rows.data() + (now - first);
    for (int64_t i = 0; i < n_; ++i) total[i] = row[i * kGroup];
  }

  void sum_rows(const FoldCode& f, float* total, int64_t rows) {
    int64_t n = count(f.totals[0]);
    std::fill(total, total + n * (f.grouped ? kGroup : 1), 0.0f);
    const std::byte *bx = arrays_[f.x.array].bytes.data(), *by = arrays_[f.y.array].bytes.data();
    int inner = f.dims.back();
    int64_t extent = p_.extents[static_cast<size_t>(inner)];
    for (int d : f.dims) {
      if (p_.extents[static_cast<size_t>(d)] <= 0) return;
      at_[static_cast<size_t>(d)] = 0;
    }
    int64_t along = f.grouped ? (f.x_is_vector ? f.y : f.x).linear.k[static_cast<size_t>(p_.group)] : 0;
    int64_t sx = lane_step(f.x.linear), sy = lane_step(f.y.linear);
    int64_t kx = f.x.linear.k[static_cast<size_t>(inner)], ky = f.y.linear.k[static_cast<size_t>(inner)];
    edges_.clear();
    for (const AccessCode* c : {&f.x, &f.y})
      for (size_t i = 0; i < c->axes.size(); ++i)
        if (!c->axes[i].inside) edges_.push_back({c, i, &c->axes[i].at, 0});
    size_t conditions = f.conditions.size();
    bounds_.resize(conditions);
    for (;;) {
      int64_t ex = affine(f.x.linear), ey = affine(f.y.linear);
      for (size_t c = 0; c < conditions; ++c) bounds_[c] = affine(f.conditions[c]);
      for (Edge& e : edges_) e.base = affine(*e.at);
      for (int64_t k = 0; k < extent; ++k) {
        int64_t lo = 0, hi = n;
        for (size_t c = 0; c < conditions; ++c) {
          int64_t v = bounds_[c] + k * f.conditions[c].k[static_cast<size_t>(inner)], s = n == 1 ? 0 : lane_step(f.conditions[c]);
          if (s == 0) { if (v < 0) hi = 0; }
          else if (s == 1) lo = std::max(lo, -v);
          else if (s == -1) hi = std::min(hi, v + 1);
          else if (s > 0) lo = std::max(lo, -floor_quotient(v, s));
          else hi = std::min(hi, floor_quotient(v, -s) + 1);
        }
        if (lo >= hi) continue;
        for (const Edge& e : edges_) {
          int64_t step = lane_step(*e.at), v = e.base + k * e.at->k[static_cast<size_t>(inner)];
          int64_t first = v + step * lo, last = v + step * (hi - 1), limit = e.access->extents[e.axis];
          if (std::min(first, last) >= 0 && std::max(first, last) < limit) continue;
          return fault(*e.access, e.axis, first < 0 || first >= limit ? first : last);
        }
        auto at = [](const std::byte* base, int64_t e) { return reinterpret_cast<const float*>(base) + e; };
        const float *px = at(bx, ex + k * kx + lo * sx), *py = at(by, ey + k * ky + lo * sy);
        if (!f.grouped) multiply_add(total + lo, px, sx, py, sy, hi - lo);
        else if (f.x_is_vector) multiply_add_rows(total + lo * kGroup, rows, px, sx, py, along, hi - lo);
        else multiply_add_rows(total + lo * kGroup, rows, py, sy, px, along, hi - lo);
      }
      at_[static_cast<size_t>(inner)] = 0;
      size_t d = f.dims.size() - 1;
      while (d > 0) {
        size_t slot = static_cast<size_t>(f.dims[d - 1]);
        if (++at_[slot] < p_.extents[slot]) break;
        at_[slot] = 0;
        --d;
      }
      if (d == 0) return;
    }
  }
  void store(size_t w) {
    const AccessCode& c = p_.stores[w];
    std::byte* base = arrays_[c.array].bytes.data();
    int value = p_.values[w];
    bool masked = !all(p_.where_reg), push = p_.pushes[w];
    if (!push && !masked && c.dtype == DType::F32 && c.all_affine && row_inside(c, n_)) {
      int64_t e = affine(c.linear), step = lane_step(c.linear);
      for (int64_t i = 0; i < n_; ++i) std::memcpy(base + (e + i * step) * 4, floats(value) + i, 4);
      return;
    }
    for (int64_t i = 0; i < n_; ++i) {
      if (masked && !ints(p_.where_reg)[i]) continue;
      int64_t e = element(c, i, true);
      if (own_.failed) return;
      Scalar v = get(value, i);
      uint64_t at = static_cast<uint64_t>(e);
      if (push && p_.joins[w] != ir::Join::Last) {
        Scalar old = ir::load_element(c.dtype, base, at);
        Op op = p_.joins[w] == ir::Join::Sum    ? Op::Add
                : p_.joins[w] == ir::Join::Prod ? Op::Mul
                : p_.joins[w] == ir::Join::Min  ? Op::Min
                : p_.joins[w] == ir::Join::Max  ? Op::Max
                : p_.joins[w] == ir::Join::Any  ? Op::Or
                                                : Op::And;
        v = ir::apply_binary(op, c.dtype, old, v);
      }
      ir::store_element(c.dtype, base, at, v);
    }
  }

  const BlockProgram& p_;
  std::vector<Tensor>& arrays_;
  const Function& f_;
  std::vector<int64_t> at_;      // value of every dim slot; of the lane dim: its first lane
  std::vector<size_t> offset_;   // of each register in memory_
  std::vector<int64_t> memory_;
  std::vector<int64_t> bounds_, key_;
  std::vector<Kept> kept_;
  std::vector<Edge> edges_;
  int64_t limit_ = 1, n_ = 1;
};

}  // namespace

void run_block(const BlockProgram& p, std::vector<Tensor>& arrays, const Function& f, unsigned threads, Deadline deadline, Fault& fault) {
  int64_t rows = 1;
  double work = 1;
  std::vector<size_t> outer;
  for (size_t d = 0; d < p.map_dims; ++d) {
    if (p.extents[d] <= 0) return;
    work *= static_cast<double>(p.extents[d]);
    if (static_cast<int>(d) == p.lane) continue;
    if (static_cast<int>(d) != p.group) outer.push_back(d);
    rows *= p.extents[d];
  }
  if (p.group >= 0) outer.push_back(static_cast<size_t>(p.group));  // innermost: its rows share their work
  for (const FoldCode& c : p.folds)
    for (int d : c.dims) work *= static_cast<double>(std::max<int64_t>(1, p.extents[static_cast<size_t>(d)]));
  int64_t lanes = p.lane < 0 ? 1 : p.extents[static_cast<size_t>(p.lane)];
  bool ordered = std::find(p.pushes.begin(), p.pushes.end(), true) != p.pushes.end();
  if (ordered || work < (1 << 16)) threads = 1;
  threads = static_cast<unsigned>(std::min<int64_t>(std::max(1u, threads), std::max<int64_t>(1, rows)));
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  int64_t chunk = std::max<int64_t>(1, rows / (static_cast<int64_t>(threads) * 8));
  if (p.group >= 0) {
    int64_t whole = p.extents[static_cast<size_t>(p.group)];
    if (rows > whole) chunk = (chunk + whole - 1) / whole * whole;  // chunks do not cut through the group's dim
    else chunk = (chunk + kGroup - 1) / kGroup * kGroup;
  }
  int64_t group = p.group < 0 ? 1 : std::min(chunk, p.extents[static_cast<size_t>(p.group)]);
  auto worker = [&] {
    Machine machine(p, arrays, f);
    std::vector<int64_t> row(p.map_dims, 0);
    for (;;) {
      int64_t begin = next.fetch_add(chunk);
      if (begin >= rows) break;
      int64_t end = std::min(rows, begin + chunk);
      // The rows of a group's dim under each block of lanes.
      for (int64_t first = begin; first < end; first += group)
        for (int64_t lane = 0; lane < lanes; lane += machine.limit())
          for (int64_t r = first; r < std::min(end, first + group) && !machine.failed(); ++r) {
            int64_t rest = r;
            for (size_t k = outer.size(); k-- > 0;) {
              row[outer[k]] = rest % p.extents[outer[k]];
              rest /= p.extents[outer[k]];
            }
            machine.block(row, lane, std::min(machine.limit(), lanes - lane));
            if (has_passed(deadline)) machine.own_.set_late();
          }
      if (machine.failed()) {
        std::lock_guard lock(mutex);
        if (machine.own_.late) fault.set_late();
        else fault.set(machine.own_.bug, machine.own_.message);
        next = rows;
        return;
      }
    }
  };
  run_on_threads(threads, worker);
}

}  // namespace mlc::nest
