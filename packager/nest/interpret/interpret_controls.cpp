#include <algorithm>

#include "packager/nest/interpret/interpreter.h"
#include "packager/nest/interpret/lists.h"
#include "packager/nest/interpret/strings.h"

namespace mlc::nest {

Status Interpreter::control(const Statement& s) {
  const Control& c = *s.control;
  Status status = c.kind == StepOp::Read     ? read(c)
                  : c.kind == StepOp::Branch ? branch(c)
                  : c.kind == StepOp::Loop   ? loop(c)
                  : c.kind == StepOp::Host   ? host(c)
                  : is_about_strings(c.kind) ? strings(c)
                                             : list(c);
  if (status.code == Code::Cancelled) return too_late(s.source);
  return status.ok() ? ok() : std::move(status).note(s.source);
}

// --- operands and results ---

// The array or list `number` once it has been computed; null for kNoArray.
Result<const Tensor*> Interpreter::operand(uint32_t number) {
  if (number == kNoArray) return static_cast<const Tensor*>(nullptr);
  if (number >= arrays_.size() || arrays_[number].dtype == DType::None)
    return Status(Code::Internal, "array %" + std::to_string(number) + " is read before it is written");
  return static_cast<const Tensor*>(&arrays_[number]);
}

Result<std::vector<const Tensor*>> Interpreter::operands(const Control& c) {
  std::vector<const Tensor*> inputs;
  for (uint32_t number : c.inputs) {
    MLC_ASSIGN(const Tensor* t, operand(number));
    inputs.push_back(t);
  }
  return inputs;
}

// One integer or truth value; `absent` for kNoArray.
Result<int64_t> Interpreter::single(uint32_t number, int64_t absent) {
  MLC_ASSIGN(const Tensor* t, operand(number));
  if (!t) return absent;
  if (t->list_depth || !(is_int(t->dtype) || t->dtype == DType::Bool) || t->elements() != 1)
    return Status(Code::InputMismatch, "'" + function_.arrays[number].name + "' is not one number");
  return ir::load_element(t->dtype, t->bytes.data(), 0).i;
}

Status Interpreter::append(std::vector<Tensor>& values, const std::vector<uint32_t>& numbers, size_t from, size_t to) {
  for (size_t k = from; k < to; ++k) {
    MLC_ASSIGN(const Tensor* t, operand(numbers[k]));
    if (!t) return Status(Code::Internal, "an argument of a body is absent");
    values.push_back(*t);
  }
  return ok();
}

// A result of a control. Symbols of its shape that have no value yet get it from here.
Status Interpreter::receive(uint32_t number, Tensor value) {
  if (number == kNoArray) return ok();
  if (number >= arrays_.size()) return Status(Code::Internal, "no array %" + std::to_string(number));
  const Array& a = function_.arrays[number];
  if (a.kind != Array::Kind::Temp) return Status(Code::Internal, "'" + a.name + "' is written but not a result");
  if (value.dtype != a.dtype || value.list_depth != a.list_depth || (!a.list_depth && value.shape.size() != a.shape.size()))
    return Status(Code::Internal, "the result '" + a.name + "' is of another type than declared");
  if (!a.list_depth) {
    for (size_t k = 0; k < a.shape.size(); ++k)
      if (a.shape[k]->op == ir::Op::Sym && !symbols_.count(a.shape[k]->sym))
        MLC_RETURN_IF_ERROR(set_symbol(a.shape[k]->sym, value.shape[k]));
    MLC_ASSIGN(const std::vector<int64_t> shape, shape_of(a));
    if (shape != value.shape)
      return Status(Code::InputMismatch, "'" + a.name + "' has the shape " + shape_text(value.shape) + ", expected " + shape_text(shape));
    MLC_RETURN_IF_ERROR(account(value.bytes.size()));
  }
  arrays_[number] = std::move(value);
  return ok();
}

Status Interpreter::receive_all(const Control& c, std::vector<Tensor> results) {
  if (results.size() != c.outputs.size()) return Status(Code::Internal, "a control has another number of results");
  for (size_t k = 0; k < results.size(); ++k) MLC_RETURN_IF_ERROR(receive(c.outputs[k], std::move(results[k])));
  return ok();
}

// --- bodies ---

Result<const Function*> Interpreter::body(const Control& c, size_t k, size_t inputs, size_t outputs) const {
  if (k >= c.bodies.size() || !c.bodies[k] || c.bodies[k]->inputs.size() != inputs || c.bodies[k]->outputs.size() != outputs)
    return Status(Code::Internal, "a body does not fit its control");
  return static_cast<const Function*>(c.bodies[k].get());
}

InterpretOptions Interpreter::inner_options() const {
  InterpretOptions o;
  o.threads = options_.threads;
  o.point_by_point = options_.point_by_point;
  o.max_iterations = options_.max_iterations;
  o.work = options_.work;
  o.host = options_.host;
  o.jitter = options_.jitter;
  o.memory_limit = options_.memory_limit - std::min(used_bytes_, options_.memory_limit);
  return o;
}

Status Interpreter::branch(const Control& c) {
  if (c.inputs.empty()) return Status(Code::Internal, "a Branch has a condition");
  MLC_ASSIGN(const int64_t condition, single(c.inputs[0], 0));
  MLC_ASSIGN(const Function* taken, body(c, condition ? 0 : 1, c.inputs.size() - 1, c.outputs.size()));
  std::vector<Tensor> arguments;
  MLC_RETURN_IF_ERROR(append(arguments, c.inputs, 1, c.inputs.size()));
  const InterpretOptions inner = inner_options();
  MLC_ASSIGN(std::vector<Tensor> results, Interpreter(*taken, inner, body_depth_ + 1).run(std::move(arguments), symbols_));
  return receive_all(c, std::move(results));
}

Status Interpreter::loop(const Control& c) {
  if (c.inputs.size() < size_t{2} + c.carried || c.outputs.size() < c.carried) return Status(Code::Internal, "a Loop lacks inputs or results");
  MLC_ASSIGN(const Function* f, body(c, 0, c.inputs.size(), c.outputs.size() + 1));
  std::vector<Tensor> carried;
  MLC_RETURN_IF_ERROR(append(carried, c.inputs, 2, size_t{2} + c.carried));
  std::vector<std::vector<Tensor>> scanned(c.outputs.size() - c.carried);
  MLC_RETURN_IF_ERROR(iterate(c, *f, carried, scanned));
  for (size_t k = 0; k < carried.size(); ++k) MLC_RETURN_IF_ERROR(receive(c.outputs[k], std::move(carried[k])));
  for (size_t k = 0; k < scanned.size(); ++k) {
    const uint32_t out = c.outputs[carried.size() + k];
    if (out == kNoArray) continue;
    Tensor none;
    if (scanned[k].empty()) none = none_of(function_.arrays.at(out));
    MLC_ASSIGN(Tensor all, stack(scanned[k], std::move(none)));
    MLC_RETURN_IF_ERROR(receive(out, std::move(all)));
  }
  return ok();
}

// Runs the body as often as trip count and condition say. `carried` goes from run to run, `scanned` grows by a value with each.
Status Interpreter::iterate(const Control& c, const Function& body, std::vector<Tensor>& carried, std::vector<std::vector<Tensor>>& scanned) {
  MLC_ASSIGN(const int64_t trips, single(c.inputs[0], INT64_MAX));
  MLC_ASSIGN(int64_t condition, single(c.inputs[1], 1));
  const InterpretOptions inner = inner_options();
  Interpreter iteration(body, inner, body_depth_ + 1);
  for (int64_t i = 0; i < trips && condition; ++i) {
    if (static_cast<uint64_t>(i) >= options_.max_iterations)
      return Status(Code::Resource, "the loop runs more than " + std::to_string(options_.max_iterations) + " times");
    std::vector<Tensor> inputs{Tensor::of<int64_t>(DType::I64, {}, {i}), Tensor::of<uint8_t>(DType::Bool, {}, {1})};
    for (Tensor& t : carried) inputs.push_back(std::move(t));
    MLC_RETURN_IF_ERROR(append(inputs, c.inputs, 2 + carried.size(), c.inputs.size()));
    MLC_ASSIGN(std::vector<Tensor> results, iteration.run(std::move(inputs), symbols_));
    const Tensor& goes_on = results[0];
    if (goes_on.list_depth || goes_on.dtype != DType::Bool || goes_on.elements() != 1)
      return Status(Code::Internal, "the condition of a loop is not one truth value");
    condition = static_cast<int64_t>(goes_on.bytes[0]) != 0;
    for (size_t k = 0; k < carried.size(); ++k) carried[k] = std::move(results[1 + k]);
    for (size_t k = 0; k < scanned.size(); ++k) {
      Tensor& value = results[1 + carried.size() + k];
      MLC_RETURN_IF_ERROR(account(value.bytes.size()));
      scanned[k].push_back(std::move(value));
    }
  }
  return ok();
}

// What a scanned result is without a single run: unknown extents are 0.
Tensor Interpreter::none_of(const Array& a) const {
  std::vector<int64_t> shape;
  for (size_t k = 0; k < a.shape.size(); ++k) shape.push_back(k == 0 ? 0 : std::max<int64_t>(extent_of(a.shape[k]).value_or(0), 0));
  return Tensor{a.dtype, std::move(shape), {}};
}

// --- the others ---

Status Interpreter::read(const Control& c) {
  if (c.inputs.size() != 1) return Status(Code::Internal, "a Read has one input");
  MLC_ASSIGN(const Tensor* t, operand(c.inputs[0]));
  if (!t) return Status(Code::Internal, "a Read has no input");
  for (size_t k = 0; k < c.symbols.size(); ++k) MLC_RETURN_IF_ERROR(read_symbol(c.symbols[k], *t, k));
  return ok();
}

Status Interpreter::list(const Control& c) {
  if (c.outputs.size() != 1) return Status(Code::Internal, "a list operation has one result");
  if (c.outputs[0] == kNoArray) return ok();
  if (c.outputs[0] >= function_.arrays.size()) return Status(Code::Internal, "no array %" + std::to_string(c.outputs[0]));
  MLC_ASSIGN(const std::vector<const Tensor*> inputs, operands(c));
  MLC_ASSIGN(Tensor result, run_list(c, function_.arrays[c.outputs[0]], inputs));
  return receive(c.outputs[0], std::move(result));
}

Status Interpreter::strings(const Control& c) {
  MLC_ASSIGN(const std::vector<const Tensor*> inputs, operands(c));
  MLC_ASSIGN(std::vector<Tensor> results, run_strings(c, inputs));
  return receive_all(c, std::move(results));
}

Status Interpreter::host(const Control& c) {
  if (!options_.host) return Status(Code::Unsupported, "there is no service '" + c.service + "' here");
  MLC_ASSIGN(const std::vector<const Tensor*> inputs, operands(c));
  for (const Tensor* t : inputs)
    if (!t) return Status(Code::Internal, "a service lacks an operand");
  MLC_ASSIGN(std::vector<Tensor> results, options_.host(c, inputs));
  for (const Tensor& t : results)
    if (t.bytes.size() != size_of(t.shape, bytes_of(t.dtype)))
      return Status(Code::InputMismatch, "'" + c.service + "' gives a result that lacks bytes");
  return receive_all(c, std::move(results));
}

}  // namespace mlc::nest
