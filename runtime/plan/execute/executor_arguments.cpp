// What is said of the arrays that a caller brings.
#include <algorithm>
#include <cstring>
#include <string>

#include "base/checked.h"
#include "base/compose.h"
#include "base/counted.h"
#include "runtime/plan/execute/binding.h"

namespace mlc::exec {
namespace {

template <class T>
int64_t widened(const void* data, uint64_t i) {
  T v;
  std::memcpy(&v, static_cast<const std::byte*>(data) + i * sizeof(T), sizeof(T));
  return static_cast<int64_t>(v);
}

int64_t element_of(DType t, const void* data, uint64_t i) {
  switch (t) {
    case DType::I64: case DType::U64: return widened<int64_t>(data, i);
    case DType::I32: return widened<int32_t>(data, i);
    case DType::I16: return widened<int16_t>(data, i);
    case DType::I8: case DType::I4: case DType::I2: return widened<int8_t>(data, i);
    case DType::U32: return widened<uint32_t>(data, i);
    case DType::U16: return widened<uint16_t>(data, i);
    case DType::Bool: return widened<uint8_t>(data, i) != 0;
    default: return widened<uint8_t>(data, i);
  }
}

// What is wrong with an array from outside for this port; empty if nothing.
std::string complaint_about(const Port& port, const InputArg& in) {
  if (in.dtype != port.dtype) return compose("found {}, expected {}", name_of(in.dtype), name_of(port.dtype));
  uint64_t bytes = port.dtype == DType::Str ? sizeof(Text) : bytes_of(port.dtype);
  bool good = true;
  for (int64_t extent : in.shape) {
    const auto next = extent < 0 ? std::nullopt : checked_mul(bytes, static_cast<uint64_t>(extent));
    good = good && next.has_value();
    bytes = next.value_or(0);
  }
  if (!good) return "an extent is negative or too large";
  if (in.bytes < bytes || (bytes > 0 && !in.data && !in.on_device)) return compose("has {} bytes, its shape takes {}", in.bytes, bytes);
  return {};
}
// Recursion: the depth of lists, which decode_plan limits.
std::string complaint_about_list(const Port& port, uint8_t depth, const InputArg& in) {
  for (const InputArg& item : in.items) {
    if (item.list_depth != depth - 1) return "is a list of another kind";
    if (item.shape.size() > format::kMaxRank) return "has an item with too many axes";
    std::string what = depth > 1 ? complaint_about_list(port, depth - 1, item) : complaint_about(port, item);
    if (!what.empty()) return what;
  }
  return {};
}

}  // namespace

Status Executor::check_arguments(const Function& f, std::span<const InputArg> inputs) const {
  if (inputs.size() != f.inputs.size())
    return Status(Code::InputMismatch, 4001, "{} given, '{}' takes {}", counted(inputs.size(), "input"), f.name, f.inputs.size());
  Status status;
  const auto complain = [&](const Port& port, std::string what) {
    if (status.ok()) status = Status(Code::InputMismatch, 4001, "an input does not fit");
    status.facts.push_back(compose("{}   {}", port.name, what));
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Port& port = f.inputs[i];
    const InputArg& in = inputs[i];
    if (in.list_depth != port.list_depth) {
      complain(port, compose(port.list_depth > 0 ? "found an array, expected a list" : "found a list, expected an array"));
    } else if (in.list_depth == 0 && in.shape.size() != port.shape.size()) {
      complain(port, compose("found {}, expected {}", counted(in.shape.size(), "axis", "axes"), port.shape.size()));
    } else if (in.list_depth == 0) {
      std::string what = complaint_about(port, in);
      if (!what.empty()) complain(port, std::move(what));
    }
  }
  return status;
}

Status Executor::check_lists(const Function& f, std::span<const InputArg> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string what = complaint_about_list(f.inputs[i], f.inputs[i].list_depth, inputs[i]);
    if (!what.empty()) return Status(Code::InputMismatch, 4001, "input '{}' {}", f.inputs[i].name, what);
  }
  return ok();
}

// To elements_. What lies outside of its input is 0 here and refused when shapes are evaluated.
Status Executor::read_elements(const Function& f, std::span<const InputArg> inputs) {
  elements_.clear();
  for (const Function::ElementRead& read : f.elements) {
    const InputArg& in = inputs[read.input];
    const bool inside = read.element < checked_product(in.shape).value_or(0);
    if (inside && (in.dtype != f.inputs[read.input].dtype || !in.data || in.bytes / bytes_of(in.dtype) <= read.element))
      return Status(Code::InputMismatch, 4001,
                    "the shapes in '{}' depend on the elements of '{}', which are not given", f.name,
                            f.inputs[read.input].name);
    const int64_t value = inside ? element_of(in.dtype, in.data, read.element) : 0;
    if (value < 0 && in.dtype == DType::U64)
      return Status(Code::InputMismatch, "element {} of '{}' is too large", read.element, f.inputs[read.input].name);
    elements_.push_back(value);
  }
  return ok();
}

}  // namespace mlc::exec
