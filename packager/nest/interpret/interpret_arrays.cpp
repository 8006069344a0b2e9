#include <algorithm>

#include "packager/nest/interpret/interpreter.h"

namespace mlc::nest {

namespace {

// A list of this depth all the way down, its arrays as large as they say.
bool is_list(const Tensor& t, DType dtype, int depth) {
  if (t.list_depth != depth || t.dtype != dtype) return false;
  if (depth == 0) return size_of(t.shape, bytes_of(dtype)) == t.bytes.size();
  return std::all_of(t.items.begin(), t.items.end(), [&](const Tensor& item) { return is_list(item, dtype, depth - 1); });
}

bool is_array(const Tensor& t, const Array& a) {
  if (t.dtype != a.dtype || t.shape.size() != a.shape.size()) return false;
  return t.dtype == DType::Str ? size_of(t.shape, 1) == t.strings.size() : size_of(t.shape, bytes_of(t.dtype)) == t.bytes.size();
}

bool admits(const ir::Sym* sym, int64_t value) { return value >= sym->lo && value <= sym->hi && value % sym->multiple == 0; }

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string s = "[";
  for (int64_t d : shape) s += (s.size() == 1 ? "" : ", ") + std::to_string(d);
  return s + "]";
}

std::optional<uint64_t> size_of(const std::vector<int64_t>& shape, uint64_t element) {
  std::optional<uint64_t> size = element;
  for (int64_t d : shape) size = d < 0 || !size ? std::nullopt : checked_mul(*size, static_cast<uint64_t>(d));
  return size;
}

// Symbols get their values from extents of the inputs, then from elements of them, then from other symbols.
Status Interpreter::bind(std::vector<Tensor> inputs) {
  if (inputs.size() != function_.inputs.size())
    return Status(Code::InputMismatch, std::to_string(inputs.size()) + " inputs given, " + std::to_string(function_.inputs.size()) + " expected");
  for (size_t i = 0; i < inputs.size(); ++i) MLC_RETURN_IF_ERROR(bind_shape(function_.arrays[function_.inputs[i]], inputs[i]));
  for (const Function::Element& e : function_.elements)
    for (size_t i = 0; i < inputs.size(); ++i)
      if (function_.inputs[i] == e.input) MLC_RETURN_IF_ERROR(read_symbol(e.sym, inputs[i], e.element));
  for (const Function::Definition& d : function_.definitions) {
    const auto value = extent_of(d.value);
    if (!value) return Status(Code::InputMismatch, "'" + d.sym->name + "' = " + ir::to_string(d.value) + " has no value");
    symbols_[d.sym] = *value;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Array& a = function_.arrays[function_.inputs[i]];
    MLC_ASSIGN(const std::vector<int64_t> shape, shape_of(a));
    if (!a.list_depth && shape != inputs[i].shape)
      return Status(Code::InputMismatch, "input '" + a.name + "' has shape " + shape_text(inputs[i].shape) + ", expected " + shape_text(shape));
    MLC_RETURN_IF_ERROR(account(inputs[i].bytes.size()));
    arrays_[function_.inputs[i]] = std::move(inputs[i]);
  }
  for (const auto& [sym, value] : symbols_)
    if (!admits(sym, value))
      return Status(Code::InputMismatch, "'" + sym->name + "' is " + std::to_string(value) + ", outside of what the model takes");
  return ok();
}

Status Interpreter::bind_shape(const Array& a, const Tensor& input) {
  if (a.list_depth || input.list_depth) {
    if (a.list_depth <= kMaxDepth && is_list(input, a.dtype, a.list_depth)) return ok();
    return Status(Code::InputMismatch, "input '" + a.name + "' is not the list that is expected");
  }
  if (!is_array(input, a))
    return Status(Code::InputMismatch, "input '" + a.name + "' is " + std::string(name_of(input.dtype)) + shape_text(input.shape) + ", which does not fit");
  for (size_t k = 0; k < a.shape.size(); ++k)
    if (a.shape[k]->op == ir::Op::Sym) symbols_.try_emplace(a.shape[k]->sym, input.shape[k]);
  return ok();
}

Status Interpreter::read_symbol(const ir::Sym* sym, const Tensor& t, uint64_t element) {
  if (t.list_depth || !(is_int(t.dtype) || t.dtype == DType::Bool) || element >= static_cast<uint64_t>(t.elements()))
    return Status(Code::Internal, "'" + sym->name + "' is read where there is no integer");
  const int64_t value = ir::load_element(t.dtype, t.bytes.data(), element).i;
  return set_symbol(sym, value);
}

Status Interpreter::set_symbol(const ir::Sym* sym, int64_t value) {
  if (!admits(sym, value))
    return Status(Code::InputMismatch, "'" + sym->name + "' is " + std::to_string(value) + ", outside of " + std::to_string(sym->lo) +
                                           ".." + std::to_string(sym->hi));
  symbols_[sym] = value;
  return ok();
}

std::optional<int64_t> Interpreter::extent_of(const ir::Expr* extent) const {
  return ir::evaluate_extent(extent, [&](const ir::Sym* s) -> std::optional<int64_t> {
    auto it = symbols_.find(s);
    return it == symbols_.end() ? std::nullopt : std::optional(it->second);
  });
}

Result<std::vector<int64_t>> Interpreter::shape_of(const Array& a) const {
  std::vector<int64_t> shape;
  for (const ir::Expr* e : a.shape) {
    const auto v = extent_of(e);
    if (!v || *v < 0) return Status(Code::InputMismatch, "extent " + ir::to_string(e) + " of '" + a.name + "' has no valid value");
    shape.push_back(*v);
  }
  return shape;
}

Status Interpreter::account(uint64_t bytes) {
  used_bytes_ += bytes;
  return used_bytes_ > options_.memory_limit ? Status(Code::Resource, "the model needs more memory than the interpreter may use") : ok();
}

// Zeros in the shape of the array, unless it exists: a later statement writes another part of it.
Status Interpreter::allocate(uint32_t number) {
  if (number >= arrays_.size()) return Status(Code::Internal, "no array " + std::to_string(number));
  const Array& a = function_.arrays[number];
  if (!a.is_result()) return Status(Code::Internal, "'" + a.name + "' is written but not a result");
  if (arrays_[number].dtype != DType::None) return ok();
  MLC_ASSIGN(std::vector<int64_t> shape, shape_of(a));
  const auto bytes = size_of(shape, bytes_of(a.dtype));
  if (!bytes || *bytes > options_.memory_limit) return Status(Code::Resource, "'" + a.name + "' " + shape_text(shape) + " is too large");
  MLC_RETURN_IF_ERROR(account(*bytes));
  arrays_[number] = Tensor::zeros(a.dtype, std::move(shape));
  return ok();
}

Status Interpreter::constant(size_t number) {
  const Array& a = function_.arrays[number];
  MLC_ASSIGN(std::vector<int64_t> shape, shape_of(a));
  const auto bytes = size_of(shape, bytes_of(a.dtype));
  if (!a.data || a.data->bytes.size() != bytes) return Status(Code::Internal, "constant '" + a.name + "' lacks its data");
  MLC_RETURN_IF_ERROR(account(*bytes));
  arrays_[number].dtype = a.dtype;
  arrays_[number].shape = std::move(shape);
  arrays_[number].bytes.assign(a.data->bytes.begin(), a.data->bytes.end());
  return ok();
}

}  // namespace mlc::nest
