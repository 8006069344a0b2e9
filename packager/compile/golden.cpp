#include "packager/compile/golden.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "base/checked.h"
#include "packager/compile/estimate.h"

namespace mlc::compile {
namespace {

// Tried in turn for all free extents but the first axis of an input, which is a batch nearly everywhere. Answers that tell
// little are put up with after a few: an output may be empty whatever the extents are.
constexpr int kMaxPoor = 3;
constexpr size_t kLargeOutput = 1 << 20;  // bytes: a container should not consist of expected answers
constexpr uint64_t kMaxInputBytes = uint64_t{4} << 30;
constexpr int64_t kExtents[] = {32, 64, 96, 128, 160, 224, 16, 8, 320, 640, 1, 1024, 4096};

// SplitMix64 of a counter: https://prng.di.unimi.it/splitmix64.c
uint64_t hashed(uint64_t counter) {
  uint64_t z = counter + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

uint16_t to_half(float f) {  // normal numbers only, truncated: any value near is as good
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const int32_t exponent = static_cast<int32_t>(bits >> 23 & 255) - 127 + 15;
  if (exponent <= 0) return static_cast<uint16_t>(bits >> 16 & 0x8000);
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | exponent << 10 | (bits >> 13 & 1023));
}

nest::Tensor drawn(DType dtype, std::vector<int64_t> shape, uint64_t seed) {
  nest::Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = shape;
  uint64_t count = 1;
  for (int64_t extent : shape) count *= static_cast<uint64_t>(extent);
  const unsigned width = bytes_of(dtype);
  tensor.bytes.resize(count * width);
  for (uint64_t k = 0; k < count; ++k) {
    const uint64_t random = hashed(seed << 32 ^ k);
    const float unit = static_cast<float>(random >> 40) * 0x1p-23f - 1.0f;  // [-1, 1)
    std::byte* at = tensor.bytes.data() + k * width;
    switch (dtype) {
      case DType::F32: put(at, unit); break;
      case DType::F64: put(at, static_cast<double>(unit)); break;
      case DType::F16: put(at, to_half(unit)); break;
      case DType::BF16: put(at, static_cast<uint16_t>(std::bit_cast<uint32_t>(unit) >> 16)); break;
      case DType::U8: case DType::I8: put(at, static_cast<uint8_t>(random)); break;
      case DType::F4E2M1: *at = static_cast<std::byte>(random & 15); break;
      case DType::F8E8M0: *at = static_cast<std::byte>(123 + (random & 7)); break;
      default: *at = static_cast<std::byte>(random & 1); break;  // the low byte of any integer or truth value
    }
  }
  return tensor;
}

// Whether an answer tells right from wrong: elements are there in some output, none is NaN or infinite, and they differ.
bool is_informative(const std::vector<nest::Tensor>& outputs) {
  bool differ = false;
  for (const nest::Tensor& output : outputs) {
    if (output.bytes.empty()) continue;  // the caches of a branch that was not taken
    if (output.dtype == DType::F32)
      for (float v : output.values<float>())
        if (!std::isfinite(v)) return false;
    const size_t width = bytes_of(output.dtype);
    for (size_t at = width; at < output.bytes.size(); at += width)
      differ |= std::memcmp(output.bytes.data(), output.bytes.data() + at, width) != 0;
    differ |= output.bytes.size() == width;
  }
  return differ;
}

size_t bytes_of(const std::vector<nest::Tensor>& outputs) {
  size_t bytes = 0;
  for (const nest::Tensor& output : outputs) bytes += output.bytes.size();
  return bytes;
}

std::set<const ir::Sym*> batch_symbols(const nest::Function& function) {
  std::set<const ir::Sym*> batch;
  for (uint32_t input : function.inputs) {
    const nest::Array& array = function.arrays[input];
    // A picture is [height, width, channels]: no batch there.
    if (array.dtype != DType::U8 && !array.shape.empty() && array.shape[0]->op == ir::Op::Sym) batch.insert(array.shape[0]->sym);
  }
  return batch;
}

std::vector<const ir::Sym*> input_symbols(const nest::Function& function) {
  std::vector<const ir::Sym*> symbols;
  for (uint32_t input : function.inputs)
    for (const ir::Expr* extent : function.arrays[input].shape)
      if (extent->op == ir::Op::Sym && std::find(symbols.begin(), symbols.end(), extent->sym) == symbols.end()) symbols.push_back(extent->sym);
  return symbols;
}

bool asks_services(const nest::Function& function) {
  std::vector<const nest::Function*> open{&function};
  while (!open.empty()) {
    const nest::Function& f = *open.back();
    open.pop_back();
    for (const nest::Statement& s : f.body) {
      if (!s.control) continue;
      if (s.control->kind == nest::Control::Kind::Host) return true;
      for (const auto& body : s.control->bodies) open.push_back(body.get());
    }
  }
  return false;
}

// The admissible value nearest to `wanted` from below, or the least admissible one.
int64_t admissible(const ir::Sym* sym, int64_t wanted) {
  const int64_t clamped = std::clamp(wanted, std::max<int64_t>(sym->lo, 0), sym->hi);
  const int64_t below = clamped / sym->multiple * sym->multiple;
  return below >= sym->lo ? below : below + sym->multiple;
}

// Conditions of the function and of its bodies that two extents are equal; also those that leave a choice, as of extents
// that are equal or broadcast: vectors show the usual case.
void equalities(const nest::Function& function, std::vector<const ir::Expr*>& out) {
  for (const auto& check : function.checks) {
    const ir::Expr* first = check.condition;
    while (first->op == ir::Op::Or) first = first->args[0];
    if (first->op == ir::Op::Eq) out.push_back(first);
  }
  for (const nest::Statement& s : function.body)
    if (s.control)
      for (const auto& body : s.control->bodies) equalities(*body, out);
}

// Checks that two extents agree decide one of them, the batch last: a mask is as long as what came before and what is new
// together.
void agree(const std::vector<const ir::Expr*>& checks, const std::vector<const ir::Sym*>& symbols, const std::set<const ir::Sym*>& batch,
           std::map<std::string, int64_t>& extents) {
  const auto value_of = [&](const ir::Sym* sym) -> std::optional<int64_t> {
    auto found = extents.find(sym->name);
    return found == extents.end() ? std::nullopt : std::optional(found->second);
  };
  std::set<const ir::Sym*> decided;
  const auto decide = [&](const ir::Expr* one, const ir::Expr* other) {
    if (one->op != ir::Op::Sym || decided.count(one->sym) || std::find(symbols.begin(), symbols.end(), one->sym) == symbols.end()) return false;
    const auto value = ir::evaluate_extent(other, value_of);
    if (!value || *value < 0 || admissible(one->sym, *value) != *value) return false;
    extents[one->sym->name] = *value;
    decided.insert(one->sym);
    return true;
  };
  for (const ir::Expr* check : checks) {
    const ir::Expr *first = check->args[0], *second = check->args[1];
    if (first->op == ir::Op::Sym && batch.count(first->sym)) std::swap(first, second);
    if (!decide(first, second)) decide(second, first);
  }
}

// Answers as multiples of a 2^14th of the largest one, thirty times finer than the usual tolerance: they pack into a third of
// the bytes. Else the answers to several pictures would make up much of a small model's file.
void shorten(std::vector<nest::Tensor>& outputs) {
  for (nest::Tensor& output : outputs) {
    if (output.dtype != DType::F32 || output.bytes.empty()) continue;
    const std::span<float> values(reinterpret_cast<float*>(output.bytes.data()), output.bytes.size() / sizeof(float));
    float largest = 0;
    for (float v : values)
      if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
    if (largest < 0x1p-100f) continue;  // what cannot be scaled
    const int step = std::ilogb(largest) - 14;
    for (float& v : values)
      if (std::isfinite(v)) v = std::ldexp(std::rint(std::ldexp(v, -step)), step);
  }
}

struct Picture {
  const char* name;
  int64_t height, width;
};
// Margins and centres of such sizes are not whole. Larger ones with the same sides in turn, until the answer tells something.
constexpr Picture kLandscape = {"landscape", 27, 40}, kPortrait = {"portrait", 40, 27}, kOnePixel = {"one pixel", 1, 1};
constexpr int64_t kScales[] = {1, 2, 4, 8, 16, 32};
constexpr double kMaxPictureOperations = 2e10;  // of a program that is answered, and run, for more than one picture

class GoldenMaker {
 public:
  using Extents = std::map<std::string, int64_t>;

  explicit GoldenMaker(const nest::Function& oracle)
      : oracle_(oracle), batch_(batch_symbols(oracle)), symbols_(input_symbols(oracle)) {
    equalities(oracle, checks_);
  }

  Result<GoldenVector> any() const {
    Status last(Code::Internal, "no extents tried");
    std::optional<GoldenVector> poor;  // taken if no extents give a better one
    std::optional<GoldenVector> large;  // told enough, taken if no smaller one does
    int64_t least = INT64_MAX;
    int num_poor = 0;
    for (int64_t extent : kExtents) {
      if (extent >= least) continue;
      GoldenVector golden;
      for (const ir::Sym* sym : symbols_) golden.extents[sym->name] = admissible(sym, batch_.count(sym) ? 1 : extent);
      agree(checks_, symbols_, batch_, golden.extents);
      MLC_ASSIGN(golden.inputs, inputs(golden.extents));
      auto outputs = nest::interpret(oracle_, golden.inputs);
      if (outputs.ok()) {
        golden.outputs = std::move(outputs).value();
        if (is_informative(golden.outputs)) {
          if (symbols_.empty() || bytes_of(golden.outputs) <= kLargeOutput) return measured(std::move(golden));
          large = std::move(golden);
          least = extent;
          continue;
        }
        if (large) break;
        if (!poor) poor = std::move(golden);
        if (++num_poor == kMaxPoor) break;
      } else {
        last = std::move(outputs).status();
      }
      if (symbols_.empty()) break;
    }
    if (!large && !poor) return std::move(last).note("golden vector");
    return measured(std::move(large ? *large : *poor));
  }

  Result<std::vector<GoldenVector>> pictures() const {
    std::vector<GoldenVector> all;
    int64_t scale = 0;
    int num_poor = 0;
    for (int64_t s : kScales) {
      auto golden = picture(kLandscape, s);
      if (!golden) continue;
      const bool told = is_informative(golden->outputs);
      if (told || all.empty()) {
        all.assign(1, std::move(*golden));
        scale = s;
      }
      if (told || ++num_poor == kMaxPoor) break;
    }
    if (all.empty() || all[0].inputs.empty()) {  // not of this form
      MLC_ASSIGN(GoldenVector one, any());
      return std::vector<GoldenVector>{std::move(one)};
    }
    for (const auto& [other, at] : {std::pair{kOnePixel, int64_t{1}}, {kPortrait, scale}}) {
      if (all[0].operations > kMaxPictureOperations) break;
      auto golden = picture(other, at);
      if (!golden || bytes_of(golden->outputs) > kLargeOutput) continue;
      const bool is_new = std::none_of(all.begin(), all.end(), [&](const GoldenVector& g) { return g.extents == golden->extents; });
      if (is_new) all.push_back(std::move(*golden));
    }
    for (GoldenVector& golden : all) shorten(golden.outputs);
    return all;
  }

 private:
  Result<std::vector<nest::Tensor>> inputs(const Extents& extents) const {
    const auto value_of = [&](const ir::Sym* sym) -> std::optional<int64_t> {
      auto found = extents.find(sym->name);
      return found == extents.end() ? std::nullopt : std::optional(found->second);
    };
    std::vector<nest::Tensor> all;
    for (size_t k = 0; k < oracle_.inputs.size(); ++k) {
      const nest::Array& array = oracle_.arrays[oracle_.inputs[k]];
      std::vector<int64_t> shape;
      for (const ir::Expr* e : array.shape) {
        auto value = ir::evaluate_extent(e, value_of);
        if (!value) return Status(Code::Internal, "the shape of input '" + array.name + "' does not follow from its symbols");
        shape.push_back(*value);
      }
      uint64_t bytes = std::max(1u, mlc::bytes_of(array.dtype));
      for (int64_t d : shape) {
        const auto more = checked_mul(bytes, static_cast<uint64_t>(std::max<int64_t>(d, 1)));
        if (!more || *more > kMaxInputBytes)
          return Status(Code::Resource, "golden vector: input '" + array.name + "' has more than " + std::to_string(kMaxInputBytes >> 30) + " GiB");
        bytes = *more;
      }
      all.push_back(drawn(array.dtype, std::move(shape), k + 1));
    }
    return all;
  }

  // The answer to pictures of this size, or as near to it as the program takes; nothing if it takes none.
  std::optional<GoldenVector> picture(const Picture& p, int64_t scale) const {
    GoldenVector golden;
    golden.name = p.name;
    for (const ir::Sym* sym : symbols_) golden.extents[sym->name] = admissible(sym, scale);
    for (uint32_t input : oracle_.inputs) {
      const std::vector<const ir::Expr*>& shape = oracle_.arrays[input].shape;
      for (const auto& [axis, side] : {std::pair{size_t{0}, p.height}, {size_t{1}, p.width}})
        if (shape.size() == 3 && shape[axis]->op == ir::Op::Sym) golden.extents[shape[axis]->sym->name] = admissible(shape[axis]->sym, side * scale);
    }
    agree(checks_, symbols_, batch_, golden.extents);
    auto given = inputs(golden.extents);
    if (!given.ok()) return std::nullopt;
    golden.inputs = std::move(given).value();
    auto outputs = nest::interpret(oracle_, golden.inputs);
    if (!outputs.ok()) return std::nullopt;
    golden.outputs = std::move(outputs).value();
    return measured(std::move(golden));
  }

  GoldenVector measured(GoldenVector golden) const {
    std::map<const ir::Sym*, int64_t> values;
    for (const ir::Sym* sym : symbols_) values[sym] = golden.extents.at(sym->name);
    golden.operations = estimate(oracle_, values).operations;
    return golden;
  }

  const nest::Function& oracle_;
  std::set<const ir::Sym*> batch_;
  std::vector<const ir::Sym*> symbols_;
  std::vector<const ir::Expr*> checks_;
};

}  // namespace

Result<std::vector<GoldenVector>> make_golden(const nest::Function& oracle, bool takes_pictures) {
  std::vector<GoldenVector> all;
  const auto is_recorded = [&](uint32_t port) { return oracle.arrays[port].list_depth == 0 && oracle.arrays[port].dtype != DType::Str; };
  if (!std::all_of(oracle.inputs.begin(), oracle.inputs.end(), is_recorded) || std::none_of(oracle.outputs.begin(), oracle.outputs.end(), is_recorded))
    return all;
  if (asks_services(oracle)) return all;
  const GoldenMaker maker(oracle);
  if (takes_pictures) return maker.pictures();
  MLC_ASSIGN(GoldenVector one, maker.any());
  all.push_back(std::move(one));
  return all;
}

std::string golden_name(const std::string& program, const GoldenVector& golden) { return golden.name.empty() ? program : program + "/" + golden.name; }

bool is_recorded(const nest::Tensor& t) { return t.list_depth == 0 && t.dtype != DType::Str; }

void add_golden(container::ContainerBuilder& builder, const GoldenVector& golden, const std::string& name, uint32_t method, double tolerance) {
  format::Golden entry;
  entry.name = name;
  entry.method = method;
  entry.entry = format::GoldenEntry::Run;
  const auto store = [&](const std::vector<nest::Tensor>& tensors, std::vector<format::GoldenArray>& out) {
    for (uint32_t port = 0; port < tensors.size(); ++port)
      if (is_recorded(tensors[port])) out.push_back(builder.golden_array(port, tensors[port].dtype, {tensors[port].shape.begin(), tensors[port].shape.end()}, tensors[port].bytes));
  };
  store(golden.inputs, entry.inputs);
  store(golden.outputs, entry.outputs);
  // Dims that only the plan can compute are read off the outputs.
  const format::Method& described = builder.manifest.methods[method];
  std::map<std::string, int64_t> extents = golden.extents;
  for (size_t port = 0; port < golden.outputs.size(); ++port)
    for (size_t axis = 0; axis < golden.outputs[port].shape.size(); ++axis)
      if (auto dim = described.outputs[port].dims[axis].dim) extents.emplace(described.dims[*dim].name, golden.outputs[port].shape[axis]);
  for (const format::Dim& dim : described.dims) entry.bindings.push_back(extents[dim.name]);
  for (uint32_t port = 0; port < golden.outputs.size(); ++port)
    if (is_recorded(golden.outputs[port])) entry.tolerance.push_back({port, format::Metric::Rel, tolerance});
  builder.add_golden(std::move(entry));
}

}  // namespace mlc::compile
