#include "runtime/io/input_spec.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstring>
#include <tuple>

#include "base/small_float.h"
#include "base/text/real.h"
#include "runtime/io/npy.h"
#include "runtime/io/npz.h"

namespace mlc::io {
namespace {

std::string quoted_name(std::string_view text) { return "'" + std::string(text) + "'"; }

// "@FILE:TYPE[DIMS]" without the '@'. The type is what follows the last colon, as paths may hold colons too.
Status parse_raw(std::string_view text, InputSpec& spec) {
  size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0)
    return Status(Code::Usage, "input " + quoted_name(text) + " is not of the form @FILE:TYPE[DIMS]")
        .hint("-i x=@t.bin:f32[1,3,224,224]");
  MLC_ASSIGN(spec.type, parse_tensor_type(text.substr(colon + 1)));
  spec.kind = InputSpec::Kind::Raw;
  spec.path = text.substr(0, colon);
  return ok();
}

bool is_number(std::string_view text) {
  if (text == "true" || text == "false") return true;
  double value = 0;
  const auto [end, error] = real_from_chars(text.data(), text.data() + text.size(), value);
  return end == text.data() + text.size() && error == std::errc() && std::isfinite(value);
}

// "1,2.5,-3"
bool are_numbers(std::string_view text) {
  for (size_t begin = 0;;) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (!is_number(text.substr(begin, end - begin))) return false;
    if (end == text.size()) return true;
    begin = end + 1;
  }
}

// "FILE.npz:ARRAY" in its parts; the whole as a path where it is none.
std::pair<std::string_view, std::string_view> array_of_archive(std::string_view text) {
  const size_t colon = text.rfind(".npz:");
  if (colon == std::string_view::npos || colon + 5 == text.size()) return {text, {}};
  return {text.substr(0, colon + 4), text.substr(colon + 5)};
}

}  // namespace

Result<TensorType> parse_tensor_type(std::string_view text) {
  auto wrong = [&](std::string what) {
    return Status(Code::Usage, "tensor type " + quoted_name(text) + ": " + std::move(what)).hint("f32[1,3,224,224]");
  };
  size_t open = text.find('[');
  if (open == std::string_view::npos || !text.ends_with(']')) return wrong("no dims in brackets");
  auto dtype = dtype_named(text.substr(0, open));
  if (!dtype || bytes_of(*dtype) == 0) return wrong("unknown type " + quoted_name(text.substr(0, open)));
  TensorType type{*dtype, {}};
  std::string_view dims = text.substr(open + 1, text.size() - open - 2);
  while (!dims.empty()) {
    int64_t dim = 0;
    auto [p, e] = std::from_chars(dims.data(), dims.data() + dims.size(), dim);
    if (e != std::errc() || dim < 0) return wrong("a dim is not a whole number");
    dims.remove_prefix(static_cast<size_t>(p - dims.data()));
    type.shape.push_back(dim);
    if (dims.empty()) break;
    if (dims.front() != ',' || dims.size() == 1) return wrong("dims are not separated by single commas");
    dims.remove_prefix(1);
  }
  if (auto size = tensor_size(type.dtype, type.shape); !size.ok()) return wrong(size.status().message);
  return type;
}

Result<InputSpec> parse_input_spec(std::string_view text, std::span<const std::string> names, std::span<const std::string> texts) {
  InputSpec spec;
  std::string_view rest = text;
  size_t cut = std::string_view::npos;
  for (const std::string& n : names)
    if (text.size() > n.size() && text[n.size()] == '=' && text.starts_with(n) &&
        (cut == std::string_view::npos || n.size() > cut))
      cut = n.size();
  if (cut == std::string_view::npos) cut = text.find('=');
  if (cut != std::string_view::npos) {
    spec.name = text.substr(0, cut);
    rest = text.substr(cut + 1);
  }
  if (!spec.name.empty() && std::find(texts.begin(), texts.end(), spec.name) != texts.end()) {
    const bool is_file = rest.size() > 1 && rest.front() == '@';
    spec.kind = is_file ? InputSpec::Kind::File : InputSpec::Kind::Text;
    spec.path = is_file ? rest.substr(1) : rest;
    return spec;
  }
  if (rest.empty()) return Status(Code::Usage, "input " + quoted_name(text) + " names no file").hint("-i [NAME=]FILE");
  if (rest == "random") {
    spec.kind = InputSpec::Kind::Random;
  } else if (rest == "zeros") {
    spec.kind = InputSpec::Kind::Zeros;
  } else if (rest.front() == '@') {
    MLC_RETURN_IF_ERROR(parse_raw(rest.substr(1), spec));
  } else if (!spec.name.empty() && are_numbers(rest)) {
    spec.kind = InputSpec::Kind::Numbers;
    spec.path = rest;
  } else {
    std::tie(spec.path, spec.array) = array_of_archive(rest);
  }
  return spec;
}

std::vector<std::string> paths_possible(std::string_view text) {
  std::vector<std::string> paths;
  for (size_t begin = 0;;) {
    const size_t equals = text.find('=', begin);
    std::string_view rest = text.substr(begin);
    const bool is_named = begin > 0 || equals == std::string_view::npos;  // a text with '=' begins with a name, be it empty
    const size_t colon = rest.rfind(':');
    const bool is_text = begin > 0 && rest.starts_with('@') && colon != rest.npos && !parse_tensor_type(rest.substr(colon + 1)).ok();
    if (is_text) paths.emplace_back(rest.substr(1));
    rest = is_named && rest.starts_with('@') ? rest.substr(1, rest.rfind(':') - 1) : array_of_archive(rest).first;
    if (is_named && !rest.empty() && rest != "random" && rest != "zeros") paths.emplace_back(rest);
    if (equals == std::string_view::npos) return paths;
    begin = equals + 1;
  }
}

namespace {

// Of the arrays of an archive the one that `spec` names.
Result<LoadedInput> array_named(const InputSpec& spec, LoadedInput in, const std::string& where) {
  std::string known;
  for (NamedTensor& t : in.tensors) {
    known += (known.empty() ? "" : ", ") + t.name;
    if (t.name != spec.array || in.media != Media::Zip) continue;
    NamedTensor wanted{spec.name.empty() ? spec.array : spec.name, std::move(t.tensor)};
    in.tensors.clear();
    in.tensors.push_back(std::move(wanted));
    return in;
  }
  return Status(Code::InputMismatch, where + " has no array " + quoted_name(spec.array)).fact("it has " + (known.empty() ? "none" : known));
}

}  // namespace

Result<LoadedInput> load_input(const InputSpec& spec, InputFiles& files, const DecodeLimits& limits) {
  assert(spec.kind == InputSpec::Kind::File || spec.kind == InputSpec::Kind::Raw);
  LoadedInput in;
  MLC_ASSIGN(in.bytes, files.read(spec.path, limits.of_file()));
  std::string where = spec.path == "-" ? "standard input" : quoted_name(spec.path);
  const DecodeLimits left = limits.after(in.bytes.size());
  if (spec.kind == InputSpec::Kind::Raw) {
    MLC_ASSIGN(const uint64_t size, tensor_size(spec.type.dtype, spec.type.shape));
    if (in.bytes.size() != size)
      return Status(Code::InputMismatch, where + " has " + std::to_string(in.bytes.size()) + " bytes, " +
                                             type_text(spec.type.dtype, spec.type.shape) + " takes " + std::to_string(size));
    if (left.all) MLC_RETURN_IF_ERROR(MemoryNeed().add(size).check(left, where));
    MLC_ASSIGN(HostTensor t, HostTensor::zeros(spec.type.dtype, spec.type.shape));
    if (t.data.size()) std::memcpy(t.data.data(), in.bytes.data(), t.data.size());
    if (t.dtype == DType::Bool)
      for (uint8_t& b : t.as<uint8_t>()) b = b != 0;
    in.tensors.push_back({spec.name, std::move(t)});
    in.bytes = {};
    return in;
  }
  MLC_ASSIGN(LoadedInput all, load_bytes(std::move(in.bytes), spec.name, where, left));
  return spec.array.empty() ? std::move(all) : array_named(spec, std::move(all), where);
}

Result<LoadedInput> load_bytes(HostBuffer bytes, const std::string& name, std::string_view where, const DecodeLimits& left) {
  LoadedInput in;
  in.bytes = std::move(bytes);
  in.media = media_of(in.bytes.bytes());
  if (in.media == Media::Npy) {
    auto t = parse_npy(in.bytes.bytes(), left);
    if (!t.ok()) return std::move(t).status().note(where);
    in.tensors.push_back({name, std::move(t).value()});
    in.bytes = {};
  } else if (in.media == Media::Zip) {
    auto all = parse_npz(in.bytes.bytes(), left);
    if (!all.ok()) return std::move(all).status().note(where);
    in.tensors = std::move(all).value();
    in.bytes = {};
  }
  return in;
}

namespace {

template <class T>
bool set_whole(std::string_view text, size_t at, HostTensor& t) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  t.as<T>()[at] = value;
  return error == std::errc() && end == text.data() + text.size();
}

bool set_number(std::string_view text, size_t at, HostTensor& t) {
  const bool is_truth = text == "true" || text == "false";
  if (t.dtype == DType::Bool) {
    t.as<uint8_t>()[at] = text == "true" || text == "1";
    return is_truth || text == "0" || text == "1";
  }
  if (is_truth) return false;
  double value = 0;
  real_from_chars(text.data(), text.data() + text.size(), value);
  const auto small = [&]<DType D>() {
    t.as<uint16_t>()[at] = static_cast<uint16_t>(encode_small<D>(static_cast<float>(value)));
    return std::isfinite(decode_small<D>(t.as<uint16_t>()[at]));
  };
  switch (t.dtype) {
    case DType::F64: t.as<double>()[at] = value; return true;
    case DType::F32: t.as<float>()[at] = static_cast<float>(value); return std::isfinite(t.as<float>()[at]);
    case DType::F16: return small.operator()<DType::F16>();
    case DType::BF16: return small.operator()<DType::BF16>();
    case DType::I64: return set_whole<int64_t>(text, at, t);
    case DType::I32: return set_whole<int32_t>(text, at, t);
    case DType::I16: return set_whole<int16_t>(text, at, t);
    case DType::I8: return set_whole<int8_t>(text, at, t);
    case DType::U64: return set_whole<uint64_t>(text, at, t);
    case DType::U32: return set_whole<uint32_t>(text, at, t);
    case DType::U16: return set_whole<uint16_t>(text, at, t);
    case DType::U8: return set_whole<uint8_t>(text, at, t);
    default: return false;
  }
}

}  // namespace

Result<HostTensor> tensor_of_numbers(const InputSpec& spec, DType dtype, std::span<const int64_t> extents) {
  assert(spec.kind == InputSpec::Kind::Numbers);
  const auto count = static_cast<int64_t>(1 + std::count(spec.path.begin(), spec.path.end(), ','));
  std::vector<int64_t> shape;
  for (const int64_t extent : extents) shape.push_back(extent >= 0 ? extent : 1);
  const auto last = std::find_if(extents.rbegin(), extents.rend(), [](int64_t extent) { return extent < 0; });
  const std::optional<uint64_t> rest = checked_product(shape);
  if (last != extents.rend() && rest && *rest > 0 && static_cast<uint64_t>(count) % *rest == 0)
    shape[static_cast<size_t>(extents.rend() - last) - 1] = count / static_cast<int64_t>(*rest);
  if (checked_product(shape) != static_cast<uint64_t>(count)) {
    std::string taken;
    for (const int64_t extent : extents) taken += (taken.empty() ? "" : ",") + (extent >= 0 ? std::to_string(extent) : "?");
    return Status(Code::InputMismatch, 4001, "'{}' is {}[{}], and {} {} given", spec.name, name_of(dtype), taken, count, count == 1 ? "number is" : "numbers are");
  }
  MLC_ASSIGN(HostTensor t, HostTensor::zeros(dtype, std::move(shape)));
  size_t begin = 0;
  for (size_t at = 0; at < static_cast<size_t>(count); ++at) {
    const size_t end = std::min(spec.path.find(',', begin), spec.path.size());
    const std::string_view text = std::string_view(spec.path).substr(begin, end - begin);
    if (!set_number(text, at, t)) return Status(Code::InputMismatch, 4001, "'{}' is {}, which does not hold {}", spec.name, name_of(dtype), text);
    begin = end + 1;
  }
  return t;
}

namespace {

// splitmix64 (Steele, Lea, Flood 2014): one multiply-and-shift chain per number, the same on every machine.
uint64_t next_random(uint64_t& state) {
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

// Eleven bits in [-1, 1): exact in every float type down to f16, so all of them hold the same numbers (bf16:
// truncated).
float unit(uint64_t r) { return static_cast<float>(r >> 53) / 1024.0f - 1.0f; }

uint16_t half_of(float f) {
  // Multiples of 2^-10 below 1 in magnitude: normal or zero in f16.
  uint32_t u = __builtin_bit_cast(uint32_t, f);
  if ((u & 0x7FFFFFFF) == 0) return 0;
  return static_cast<uint16_t>((u >> 16 & 0x8000) | (((u >> 23 & 0xFF) - 112) << 10) | (u >> 13 & 0x3FF));
}

}  // namespace

void fill_random(HostTensor& t, uint64_t seed) {
  uint64_t state = seed;
  auto fill = [&]<class T>(std::span<T> values, auto make) {
    for (T& v : values) v = static_cast<T>(make(next_random(state)));
  };
  auto small = [](uint64_t r) { return (r >> 33) % 10; };
  auto bits = [](uint64_t r) { return __builtin_bit_cast(uint32_t, unit(r)); };
  switch (t.dtype) {
    case DType::F64: fill(t.as<double>(), unit); break;
    case DType::F32: fill(t.as<float>(), unit); break;
    case DType::F16: fill(t.as<uint16_t>(), [](uint64_t r) { return half_of(unit(r)); }); break;
    case DType::BF16: fill(t.as<uint16_t>(), [&](uint64_t r) { return bits(r) >> 16; }); break;
    // Without the highest exponent bit all numbers are finite and below 2; without the sign, 0x80 (a NaN in FNUZ) is
    // out.
    case DType::F8E4M3: case DType::F8E5M2: fill(t.as<uint8_t>(), [](uint64_t r) { return r >> 56 & 0xBF; }); break;
    case DType::F8E4M3FNUZ:
    case DType::F8E5M2FNUZ:
      fill(t.as<uint8_t>(), [](uint64_t r) { return r >> 56 & 0x3F; });
      break;
    case DType::I64: case DType::U64: fill(t.as<uint64_t>(), small); break;
    case DType::I32: case DType::U32: fill(t.as<uint32_t>(), small); break;
    case DType::I16: case DType::U16: fill(t.as<uint16_t>(), small); break;
    case DType::U8: fill(t.as<uint8_t>(), [](uint64_t r) { return r >> 56; }); break;
    case DType::I8: fill(t.as<uint8_t>(), small); break;
    case DType::I4: fill(t.as<uint8_t>(), [](uint64_t r) { return (r >> 33) % 8; }); break;
    case DType::U4: fill(t.as<uint8_t>(), small); break;
    case DType::F4E2M1: fill(t.as<uint8_t>(), [](uint64_t r) { return r >> 60; }); break;
    case DType::F6E2M3: case DType::F6E3M2: fill(t.as<uint8_t>(), [](uint64_t r) { return r >> 58; }); break;
    case DType::F8E8M0: fill(t.as<uint8_t>(), [](uint64_t r) { return 119 + (r >> 60); }); break;  // 2^-8 to 2^7
    case DType::U2: fill(t.as<uint8_t>(), [](uint64_t r) { return r >> 62; }); break;
    case DType::I2: fill(t.as<uint8_t>(), [](uint64_t r) { return static_cast<int64_t>(r) >> 62; }); break;
    case DType::Bool: fill(t.as<uint8_t>(), [](uint64_t r) { return r >> 63; }); break;
    case DType::None: case DType::Str: break;
  }
}

void draw_from(Bytes elements, uint64_t seed, HostTensor& t) {
  const size_t width = bytes_of(t.dtype);
  assert(width > 0 && elements.size() >= width);
  uint64_t state = seed;
  for (size_t at = 0; at < t.data.size(); at += width)
    std::memcpy(t.data.data() + at, elements.data() + next_random(state) % (elements.size() / width) * width, width);
}

}  // namespace mlc::io
