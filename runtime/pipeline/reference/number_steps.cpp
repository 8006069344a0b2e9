// Steps that compute with elements.
#include <cmath>
#include <limits>

#include "runtime/pipeline/reference/array_steps.h"
#include "runtime/pipeline/scores.h"

namespace mlc::pipeline::reference {
namespace {

// The part of a shape before, at and after an axis.
struct Split {
  int64_t outer = 1, size = 1, inner = 1;
};
Result<Split> split_at(const HostTensor& t, int64_t axis) {
  auto rank = static_cast<int64_t>(t.shape.size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return Status(Code::InputMismatch, "axis outside of " + type_text(t.dtype, t.shape));
  Split s;
  for (int64_t d = 0; d < rank; ++d)
    (d < axis ? s.outer : d == axis ? s.size : s.inner) *= t.shape[static_cast<size_t>(d)];
  return s;
}

Status need_f32(std::string_view step, const HostTensor& t) {
  if (t.dtype == DType::F32) return ok();
  return Status(Code::Unsupported,
                "step '" + std::string(step) + "' of " + type_text(t.dtype, t.shape) + ", the reference takes f32");
}

double element(const HostTensor& t, size_t i) {
  switch (t.dtype) {
    case DType::U8:
    case DType::Bool: return t.as<uint8_t>()[i];
    case DType::I8: return t.as<int8_t>()[i];
    case DType::I32: return t.as<int32_t>()[i];
    case DType::I64: return static_cast<double>(t.as<int64_t>()[i]);
    default: return score_at(t, static_cast<int64_t>(i));
  }
}

template <class T>
void put_saturated(HostTensor& t, size_t i, double v) {
  double r = std::nearbyint(v), low = static_cast<double>(std::numeric_limits<T>::min()),
         high = static_cast<double>(std::numeric_limits<T>::max());
  t.as<T>()[i] = std::isnan(r) ? T{0}
                 : r <= low    ? std::numeric_limits<T>::min()
                 : r >= high   ? std::numeric_limits<T>::max()
                               : static_cast<T>(r);
}

// f32 to the upper half of its bits, to nearest even.
uint16_t to_bf16(float f) {
  auto u = __builtin_bit_cast(uint32_t, f);
  if (std::isnan(f)) return static_cast<uint16_t>(u >> 16 | 0x40);
  return static_cast<uint16_t>((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

// To nearest even: the quantum of f16 at this magnitude is a power of two, so rounding is one division in double.
uint16_t to_f16(double v) {
  uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  double m = std::fabs(v);
  if (std::isnan(v)) return sign | 0x7E00;
  if (m == 0) return sign;
  int exponent = std::max(std::ilogb(std::min(m, 1e30)), -14);
  double units = std::nearbyint(std::ldexp(std::min(m, 1e30), 10 - exponent));  // 1024..2048, or a denormal
  if (units >= 2048) units = 1024, ++exponent;
  if (exponent > 15) return sign | 0x7C00;
  int biased = units >= 1024 ? exponent + 15 : 0;
  return static_cast<uint16_t>(sign | biased << 10 | (static_cast<int>(units) & 0x3FF));
}

}  // namespace

Result<HostTensor> normalize(const Normalize& s, const HostTensor& in, PixelLayout layout) {
  if (in.dtype != DType::U8 && in.dtype != DType::F32)
    return Status(Code::Unsupported, "normalize of " + type_text(in.dtype, in.shape));
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::F32, in.shape));
  bool first = layout == PixelLayout::Chw || layout == PixelLayout::Nchw;
  int64_t channels = static_cast<int64_t>(std::max(s.mean.size(), s.std.size())), stride = 1;
  if (channels > 1) {
    size_t rank = in.shape.size();
    if (rank < 3 || in.shape[first ? rank - 3 : rank - 1] != channels)
      return Status(Code::InputMismatch, "normalize of " + type_text(in.dtype, in.shape) + " with " +
                                             std::to_string(channels) + " channels");
    if (first) stride = in.shape[rank - 2] * in.shape[rank - 1];
  }
  auto to = out.as<float>();
  for (size_t i = 0; i < to.size(); ++i) {
    size_t c = channels > 1 ? static_cast<size_t>(static_cast<int64_t>(i) / stride % channels) : 0;
    // Three float operations, each rounded; volatile keeps a compiler from contracting them.
    volatile float v = in.dtype == DType::U8 ? static_cast<float>(in.as<uint8_t>()[i]) : in.as<float>()[i];
    if (s.has_div) v = v / s.div;
    if (!s.mean.empty()) v = v - s.mean[c];
    if (!s.std.empty()) v = v / s.std[c];
    to[i] = v;
  }
  return out;
}

Result<HostTensor> cast(const Cast& s, const HostTensor& in) {
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(s.to, in.shape));
  for (size_t i = 0, n = static_cast<size_t>(in.elements()); i < n; ++i) {
    double v = element(in, i);
    switch (s.to) {
      case DType::F64: out.as<double>()[i] = v; break;
      case DType::F32: out.as<float>()[i] = static_cast<float>(v); break;
      case DType::F16: out.as<uint16_t>()[i] = to_f16(v); break;
      case DType::BF16: out.as<uint16_t>()[i] = to_bf16(static_cast<float>(v)); break;
      case DType::U8: put_saturated<uint8_t>(out, i, v); break;
      case DType::I8: put_saturated<int8_t>(out, i, v); break;
      case DType::I32: put_saturated<int32_t>(out, i, v); break;
      case DType::I64: put_saturated<int64_t>(out, i, v); break;
      default: return Status(Code::Unsupported, "dtype " + std::string(name_of(s.to)));
    }
  }
  return out;
}

Result<HostTensor> softmax(const Softmax& s, const HostTensor& in) {
  MLC_RETURN_IF_ERROR(need_f32("softmax", in));
  MLC_ASSIGN(Split p, split_at(in, s.axis));
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::F32, in.shape));
  for (int64_t o = 0; o < p.outer; ++o)
    for (int64_t i = 0; i < p.inner; ++i) {
      auto at = [&](int64_t k) { return static_cast<size_t>((o * p.size + k) * p.inner + i); };
      double largest = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t k = 0; k < p.size; ++k) largest = std::max<double>(largest, in.as<float>()[at(k)]);
      for (int64_t k = 0; k < p.size; ++k) sum += std::exp(in.as<float>()[at(k)] - largest);
      for (int64_t k = 0; k < p.size; ++k)
        out.as<float>()[at(k)] = static_cast<float>(std::exp(in.as<float>()[at(k)] - largest) / sum);
    }
  return out;
}

Result<HostTensor> sigmoid(const HostTensor& in) {
  MLC_RETURN_IF_ERROR(need_f32("sigmoid", in));
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::F32, in.shape));
  for (size_t i = 0; i < out.as<float>().size(); ++i)
    out.as<float>()[i] = static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(in.as<float>()[i]))));
  return out;
}

Result<HostTensor> argmax(const Argmax& s, const HostTensor& in) {
  MLC_ASSIGN(Split p, split_at(in, s.axis));
  if (p.size == 0) return Status(Code::InputMismatch, "argmax over no elements");
  std::vector<int64_t> shape = in.shape;
  shape.erase(shape.begin() + (s.axis < 0 ? s.axis + static_cast<int64_t>(shape.size()) : s.axis));
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::I64, shape));
  for (int64_t o = 0; o < p.outer; ++o)
    for (int64_t i = 0; i < p.inner; ++i) {
      auto at = [&](int64_t k) { return element(in, static_cast<size_t>((o * p.size + k) * p.inner + i)); };
      int64_t best = 0;
      for (int64_t k = 1; k < p.size; ++k)
        if (at(k) > at(best)) best = k;
      out.as<int64_t>()[static_cast<size_t>(o * p.inner + i)] = best;
    }
  return out;
}

Result<HostTensor> threshold(const Threshold& s, const HostTensor& in) {
  MLC_RETURN_IF_ERROR(need_f32("threshold", in));
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::Bool, in.shape));
  auto limit = static_cast<float>(s.value);
  for (size_t i = 0; i < out.data.size(); ++i)
    out.as<uint8_t>()[i] = s.or_equal ? in.as<float>()[i] >= limit : in.as<float>()[i] > limit;
  return out;
}

}  // namespace mlc::pipeline::reference
