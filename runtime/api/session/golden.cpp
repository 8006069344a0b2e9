#include "runtime/api/session/golden.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/compose.h"

namespace mlc::api {
namespace {

double half_value(uint16_t h) {
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  double v = exponent == 0    ? std::ldexp(fraction, -24)
             : exponent == 31 ? (fraction ? NAN : INFINITY)
                              : std::ldexp(1024 + fraction, exponent - 25);
  return h >> 15 ? -v : v;
}

// A float of `exponent_bits` and `fraction_bits` with a sign; `ieee` if the largest exponent means infinity and NaN.
double small_float(uint8_t bits, int exponent_bits, int fraction_bits, bool fnuz) {
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1), fraction = bits & ((1 << fraction_bits) - 1);
  if (fnuz && bits == 0x80) return NAN;
  if (!fnuz && exponent_bits == 4 && (bits & 0x7f) == 0x7f) return NAN;
  if (!fnuz && exponent_bits == 5 && exponent == 31) return fraction ? NAN : (bits & 0x80 ? -INFINITY : INFINITY);
  const int bias = (1 << (exponent_bits - 1)) - (fnuz ? 0 : 1);
  const double v = exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                 : std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
  return bits & 0x80 ? -v : v;
}

template <class T>
T element(Bytes b, uint64_t i) {
  T v;
  std::memcpy(&v, b.data() + i * sizeof(T), sizeof(T));
  return v;
}

double value_of(DType t, Bytes b, uint64_t i) {
  switch (t) {
    case DType::F64: return element<double>(b, i);
    case DType::F32: return element<float>(b, i);
    case DType::F16: return half_value(element<uint16_t>(b, i));
    case DType::BF16: return std::bit_cast<float>(uint32_t{element<uint16_t>(b, i)} << 16);
    case DType::F8E4M3: return small_float(element<uint8_t>(b, i), 4, 3, false);
    case DType::F8E5M2: return small_float(element<uint8_t>(b, i), 5, 2, false);
    case DType::F8E4M3FNUZ: return small_float(element<uint8_t>(b, i), 4, 3, true);
    case DType::F8E5M2FNUZ: return small_float(element<uint8_t>(b, i), 5, 2, true);
    case DType::F4E2M1: {  // the sign is bit 3
      const auto bits = element<uint8_t>(b, i);
      return small_float(static_cast<uint8_t>((bits & 8) << 4 | (bits & 7)), 2, 1, false);
    }
    case DType::F6E2M3: case DType::F6E3M2: {  // bit 5
      const auto bits = element<uint8_t>(b, i);
      const int mantissa = t == DType::F6E2M3 ? 3 : 2;
      return small_float(static_cast<uint8_t>((bits & 32) << 2 | (bits & 31)), 5 - mantissa, mantissa, false);
    }
    case DType::F8E8M0: {
      const int exponent = element<uint8_t>(b, i);
      return exponent == 255 ? NAN : std::ldexp(1, exponent - 127);
    }
    case DType::I64: return static_cast<double>(element<int64_t>(b, i));
    case DType::I32: return element<int32_t>(b, i);
    case DType::I16: return element<int16_t>(b, i);
    case DType::I8: case DType::I4: case DType::I2: return element<int8_t>(b, i);
    case DType::U64: return static_cast<double>(element<uint64_t>(b, i));
    case DType::U32: return element<uint32_t>(b, i);
    case DType::U16: return element<uint16_t>(b, i);
    case DType::U8: case DType::U4: case DType::U2: case DType::Bool: return element<uint8_t>(b, i);
    case DType::None: case DType::Str: break;
  }
  return 0;
}

// |found - expected|. Whole numbers of 64 bits may differ although their doubles, `a` and `b`, are equal.
double distance(DType t, Bytes found, Bytes expected, uint64_t i, double a, double b) {
  if (t != DType::I64 && t != DType::U64) return std::fabs(a - b);
  const auto x = element<uint64_t>(found, i), y = element<uint64_t>(expected, i);
  const bool is_larger = t == DType::I64 ? static_cast<int64_t>(x) > static_cast<int64_t>(y) : x > y;
  return static_cast<double>(is_larger ? x - y : y - x);
}

// Distance in representable values; floats of one sign are ordered like their bits.
uint64_t ulps_between(float a, float b) {
  const auto ordered = [](float f) {
    const auto i = std::bit_cast<int32_t>(f);
    return i < 0 ? int64_t{INT32_MIN} - i : int64_t{i};
  };
  return static_cast<uint64_t>(std::llabs(ordered(a) - ordered(b)));
}

std::string index_text(uint64_t flat, std::span<const int64_t> shape) {
  std::string out;
  for (size_t axis = shape.size(); axis-- > 0;) {
    const auto extent = static_cast<uint64_t>(std::max<int64_t>(1, shape[axis]));
    out = compose("{}{}{}", flat % extent, out.empty() ? "" : ",", out);
    flat /= extent;
  }
  return compose("[{}]", out);
}

std::string tolerance_text(const format::Tolerance& t) {
  const char* name = "exact";
  switch (t.metric) {
    case format::Metric::None: return name;
    case format::Metric::Abs: name = "abs"; break;
    case format::Metric::Rel: name = "rel"; break;
    case format::Metric::Ulp: name = "ulp"; break;
    case format::Metric::Cosine: name = "cosine"; break;
    case format::Metric::TopK: name = "top_k"; break;
  }
  char text[48];
  std::snprintf(text, sizeof text, "%s %g", name, t.value);
  return text;
}

// The tolerances of an output: those recorded with the vector; else exact for whole numbers, 1e-3 of the largest value
// for the others.
std::vector<format::Tolerance> tolerances_of(const format::Golden& g, uint32_t port, DType dtype) {
  std::vector<format::Tolerance> out;
  for (const format::Tolerance& t : g.tolerance)
    if (t.output == port) out.push_back(t);
  if (!out.empty()) return out;
  format::Tolerance t;
  t.output = port;
  t.metric = is_float(dtype) ? format::Metric::Rel : format::Metric::None;
  t.value = 1e-3;
  return {t};
}

}  // namespace

Difference compare_arrays(DType dtype, Bytes found, Bytes expected) {
  assert(found.size() == expected.size());
  Difference d;
  double dot = 0, norm_a = 0, norm_b = 0;
  const uint64_t n = bytes_of(dtype) ? expected.size() / bytes_of(dtype) : 0;
  for (uint64_t i = 0; i < n; ++i) {
    const double a = value_of(dtype, found, i), b = value_of(dtype, expected, i);
    if (std::isnan(a) && std::isnan(b)) continue;
    if (std::isfinite(b)) d.largest = std::max(d.largest, std::fabs(b));
    const double diff = distance(dtype, found, expected, i, a, b);
    if (a == b && !(diff > 0)) {  // infinities: their difference is NaN
      if (std::isfinite(a)) dot += a * b, norm_a += a * a, norm_b += b * b;
      continue;
    }
    if (!std::isfinite(a) || !std::isfinite(b)) {
      if (!d.not_a_number) d.worst = i, d.found = a, d.expected = b;
      d.not_a_number = true;
      continue;
    }
    dot += a * b, norm_a += a * a, norm_b += b * b;
    if (diff > d.max_abs && !d.not_a_number) d.worst = i, d.found = a, d.expected = b;
    d.max_abs = std::max(d.max_abs, diff);
    if (dtype == DType::F32) d.max_ulp = std::max(d.max_ulp, ulps_between(static_cast<float>(a), static_cast<float>(b)));
  }
  d.max_rel = d.largest > 0 ? d.max_abs / d.largest : d.max_abs;
  if (norm_a > 0 && norm_b > 0) d.cosine = dot / std::sqrt(norm_a * norm_b);
  else if (norm_a != norm_b) d.cosine = 0;
  return d;
}

bool within(const Difference& d, const format::Tolerance& t) {
  if (d.not_a_number) return false;
  switch (t.metric) {
    case format::Metric::None: return d.max_abs == 0;
    case format::Metric::Abs: return d.max_abs <= t.value;
    case format::Metric::Rel: return d.max_rel <= t.value;
    case format::Metric::Ulp: return static_cast<double>(d.max_ulp) <= t.value;
    case format::Metric::Cosine: return d.cosine >= t.value;
    case format::Metric::TopK: return true;  // about rankings; arrays are compared by the other metrics
  }
  return false;
}

namespace {

// What is wrong with an output; empty: nothing.
std::string complaint_about(const format::Golden& g, const format::GoldenArray& a, const std::string& name, const exec::OutputArg& out,
                            Bytes expected, GoldenReport& report) {
  if (out.dtype != a.dtype || out.bytes != expected.size()) return compose("'{}' has another type or shape than recorded", name);
  const Difference d = compare_arrays(a.dtype, {static_cast<const std::byte*>(out.data), out.bytes}, expected);
  report.max_abs = std::max(report.max_abs, d.max_abs);
  report.max_rel = std::max(report.max_rel, d.max_rel);
  for (const format::Tolerance& t : tolerances_of(g, a.port, a.dtype)) {
    if (within(d, t)) continue;
    char numbers[96];
    std::snprintf(numbers, sizeof numbers, " is %.6g, expected %.6g (", d.found, d.expected);
    return compose("{}{}{}{})", name, index_text(d.worst, out.shape), numbers, tolerance_text(t));
  }
  return {};
}

Status run_vector(Session& session, const format::Golden& g, GoldenReport& report) {
  const Model& model = session.model();
  const std::string& program = model.manifest().methods[g.method].name;
  MLC_ASSIGN(const uint32_t function, session.function(program.c_str()));
  const exec::Function& f = session.plan().functions[function];
  ++report.vectors;
  const std::string where = compose("vector '{}' of {}", g.name, program);

  std::vector<exec::InputArg> inputs(f.inputs.size());
  std::vector<std::vector<int64_t>> shapes(f.inputs.size());
  for (const format::GoldenArray& a : g.inputs) {
    if (a.port >= inputs.size()) return Status(Code::Malformed, "{}: no such input", where);
    MLC_ASSIGN(const Bytes bytes, model.golden_array(a.ref));
    for (uint64_t e : a.shape) shapes[a.port].push_back(static_cast<int64_t>(e));
    inputs[a.port] = {a.dtype, shapes[a.port], bytes.data(), bytes.size()};
  }
  std::vector<exec::OutputArg> outputs(f.outputs.size());
  session.executor().reset_states();
  if (Status s = session.run(function, inputs, outputs); !s.ok()) return std::move(s).note(where);

  bool failed = false;
  for (const format::GoldenArray& a : g.outputs) {
    if (a.port >= outputs.size()) return Status(Code::Malformed, "{}: no such output", where);
    MLC_ASSIGN(const Bytes expected, model.golden_array(a.ref));
    const std::string complaint = complaint_about(g, a, std::string(f.outputs[a.port].name), outputs[a.port], expected, report);
    if (complaint.empty()) continue;
    failed = true;
    if (report.text.empty()) report.text = compose("{}: {}", where, complaint);
  }
  report.failures += failed;
  return ok();
}

}  // namespace

Result<GoldenReport> run_golden(ProgramSessions& sessions, const char* name) {
  GoldenReport report;
  for (const format::Golden& g : sessions.model().manifest().golden) {
    if (name && g.name != name) continue;
    if (!name && !sessions.can_run(g.method).ok()) continue;
    MLC_ASSIGN(Session * session, sessions.for_run(sessions.model().manifest().methods[g.method].name.c_str()));
    MLC_RETURN_IF_ERROR(run_vector(*session, g, report));
  }
  if (name && report.vectors == 0) return Status(Code::NotFound, "no golden vector '{}'", name);
  if (report.vectors == 0 && !sessions.model().manifest().golden.empty())
    return Status(Code::NoVariant, 2001, "no golden vector is of a program that '{}' has code for", sessions.main().variant().name);
  return report;
}

}  // namespace mlc::api
