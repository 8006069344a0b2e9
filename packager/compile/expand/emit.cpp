#include "packager/compile/expand/emit.h"

#include <algorithm>

#include "packager/ir/numeric.h"
#include "packager/nest/text/names.h"

namespace mlc::compile {

using Ex = const ir::Expr*;

uint32_t Emit::array(const std::string& name, DType dtype, std::vector<Ex> shape, nest::Array::Kind kind, uint8_t list_depth) {
  nest::Array a;
  a.name = nest::unique_name(function_, name, source_);
  a.kind = kind;
  a.dtype = dtype;
  if (!list_depth) a.shape = std::move(shape);
  a.list_depth = list_depth;
  function_.arrays.push_back(std::move(a));
  return static_cast<uint32_t>(function_.arrays.size() - 1);
}

uint32_t Emit::constant(int64_t value, DType dtype) {
  auto bytes = std::make_shared<std::vector<std::byte>>(bytes_of(dtype));
  ir::store_element(dtype, bytes->data(), 0, {value, static_cast<double>(value)});
  const uint32_t number = array("", dtype, {}, nest::Array::Kind::Const);
  function_.arrays[number].data = std::make_shared<nest::ConstData>(nest::ConstData{Bytes(*bytes), bytes});
  return number;
}

uint32_t Emit::numbers(const std::vector<int64_t>& values) {
  auto bytes = std::make_shared<std::vector<std::byte>>(values.size() * sizeof(int64_t));
  for (size_t k = 0; k < values.size(); ++k) ir::store_element(DType::I64, bytes->data(), k, {values[k], 0});
  const uint32_t list = array("", DType::I64, {ctx_.integer(static_cast<int64_t>(values.size()))}, nest::Array::Kind::Const);
  function_.arrays[list].data = std::make_shared<nest::ConstData>(nest::ConstData{Bytes(*bytes), bytes});
  return list;
}

uint32_t Emit::number(Ex value) {
  if (value->is_const()) return constant(value->i);
  return write(array("", DType::I64, {}), {}, {}, value);
}

uint32_t Emit::truth(const std::string& name, Ex value) { return write(array(name, DType::Bool, {}), {}, {}, value); }

nest::Control& Emit::control(StepOp kind, std::vector<uint32_t> inputs, std::vector<uint32_t> outputs) {
  nest::Statement s;
  s.source = source_;
  s.control = std::make_unique<nest::Control>();
  s.control->kind = kind;
  s.control->inputs = std::move(inputs);
  s.control->outputs = std::move(outputs);
  function_.body.push_back(std::move(s));
  return *function_.body.back().control;
}

uint32_t Emit::write(uint32_t out, std::vector<const ir::Dim*> dims, std::vector<Ex> index, Ex value) {
  nest::Statement s;
  s.source = source_;
  s.nest = std::make_unique<nest::Nest>();
  s.nest->dims = std::move(dims);
  nest::Write w;
  w.array = out;
  w.index = std::move(index);
  w.value = value;
  s.nest->writes.push_back(std::move(w));
  function_.body.push_back(std::move(s));
  return out;
}

Ex Emit::load(uint32_t array, std::vector<Ex> index, ir::Access access) {
  const nest::Array& a = function_.arrays[array];
  if (index.empty()) index.assign(a.shape.size(), ctx_.integer(0));
  return ctx_.load(array, {a.dtype == DType::Str ? DType::U64 : a.dtype, 1}, std::move(index), access);  // a string is a number
}

Ex Emit::index_of(Ex extent, std::vector<const ir::Dim*>& dims) {
  if (extent->is_int(1)) return ctx_.integer(0);
  dims.push_back(ctx_.declare_dim("i" + std::to_string(dims.size()), extent));
  return ctx_.dim(dims.back());
}

uint32_t Emit::piece(const std::string& name, uint32_t from, size_t axis, Ex start, Ex count) {
  std::vector<Ex> shape = function_.arrays[from].shape, at, to;
  const Ex whole = shape[axis];
  shape[axis] = count;
  std::vector<const ir::Dim*> dims;
  for (Ex extent : shape) to.push_back(index_of(extent, dims));
  at = to;
  at[axis] = ctx_.add(start, to[axis]);
  const bool inside = ir::proves(ctx_, ctx_.binary(ir::Op::Le, ctx_.add(start, count), whole)) && ir::proves(ctx_, ctx_.binary(ir::Op::Le, ctx_.integer(0), start));
  const uint32_t out = array(name, function_.arrays[from].dtype, shape);
  return write(out, std::move(dims), std::move(to), load(from, std::move(at), inside ? ir::Access::Proved : ir::Access::Checked));
}

uint32_t Emit::slice(const std::string& name, uint32_t from, size_t axis, Ex place) {
  std::vector<Ex> shape = function_.arrays[from].shape, to;
  const Ex whole = shape[axis];
  shape.erase(shape.begin() + static_cast<long>(axis));
  std::vector<const ir::Dim*> dims;
  for (Ex extent : shape) to.push_back(index_of(extent, dims));
  std::vector<Ex> at = to;
  at.insert(at.begin() + static_cast<long>(axis), place);
  const bool inside = place->is_const() && whole->is_const() && place->i >= 0 && place->i < whole->i;
  const uint32_t out = array(name, function_.arrays[from].dtype, shape);
  if (at.empty()) return write(out, {}, {}, load(from));
  return write(out, std::move(dims), std::move(to), load(from, std::move(at), inside ? ir::Access::Proved : ir::Access::Checked));
}

uint32_t Emit::move_first(const std::string& name, uint32_t from, size_t axis, bool reversed) {
  std::vector<Ex> shape = function_.arrays[from].shape, to;
  const Ex count = shape[0];
  shape.erase(shape.begin());
  shape.insert(shape.begin() + static_cast<long>(axis), count);
  std::vector<const ir::Dim*> dims;
  for (Ex extent : shape) to.push_back(index_of(extent, dims));
  std::vector<Ex> at = to;
  const Ex place = reversed ? ctx_.sub(ctx_.sub(count, ctx_.integer(1)), to[axis]) : to[axis];
  at.erase(at.begin() + static_cast<long>(axis));
  at.insert(at.begin(), place);
  const uint32_t out = array(name, function_.arrays[from].dtype, shape);
  return write(out, std::move(dims), std::move(to), load(from, std::move(at)));
}

uint32_t Emit::padded(const std::string& name, uint32_t from, Ex count, Ex extent) {
  std::vector<Ex> shape = function_.arrays[from].shape, to;
  shape[0] = extent;
  std::vector<const ir::Dim*> dims;
  for (Ex e : shape) to.push_back(index_of(e, dims));
  const DType dtype = function_.arrays[from].dtype;
  const Ex zero = dtype == DType::Bool ? ctx_.boolean(false) : is_float(dtype) ? ctx_.number(0, dtype) : ctx_.integer(0, dtype == DType::Str ? DType::U64 : dtype);
  const uint32_t out = array(name, dtype, shape);
  const Ex value = ctx_.select(ctx_.binary(ir::Op::Lt, to[0], count), load(from, to, ir::Access::Checked), zero);
  return write(out, std::move(dims), std::move(to), value);
}

uint32_t Emit::with_first_axis(const std::string& name, uint32_t from) {
  std::vector<Ex> shape = function_.arrays[from].shape, to;
  std::vector<const ir::Dim*> dims;
  for (Ex e : shape) to.push_back(index_of(e, dims));
  const Ex value = shape.empty() ? load(from) : load(from, to);
  shape.insert(shape.begin(), ctx_.integer(1));
  to.insert(to.begin(), ctx_.integer(0));
  return write(array(name, function_.arrays[from].dtype, shape), std::move(dims), std::move(to), value);
}

}  // namespace mlc::compile
