#include "packager/plan/plan_builder.h"

#include <algorithm>
#include <map>
#include <set>

#include "packager/plan/arena.h"
#include "packager/plan/encode.h"
#include "packager/plan/order.h"
#include "packager/plan/symbols.h"
#include "schema/format.h"

namespace mlc::plan {
namespace {

using exec::Buffer, exec::BufferKind, exec::Instr, exec::InstrOp, exec::Port, exec::Symbol;

// One function's part of the plan, built in the order: symbols of the inputs, buffers, launches, checks.
class FunctionWriter {
 public:
  FunctionWriter(ir::Context& ctx, const FunctionPlan& plan)
      : ctx_(ctx), plan_(plan), function_(*plan.function), order_(ctx), buffer_of_(function_.arrays.size(), kNone) {
    out_.name = function_.name;
    number_ports();
    for (const Launch& launch : plan_.launches)
      for (const loop::Param& param : launch.params)
        if (param.role == loop::Role::Array && param.written) writers_.emplace(param.array, &launch);
  }

  // A program, whose interface `plan.function` is.
  Result<exec::Function> write(const nest::Program& program, const std::map<std::string, uint32_t>& number_of) {
    MLC_RETURN_IF_ERROR(bind_symbols());
    for (uint32_t k = 0; k < function_.inputs.size(); ++k) MLC_RETURN_IF_ERROR(add_input_port(k, 0));
    for (size_t k = 0; k < program.outputs.size(); ++k) {
      const nest::Program::Value& value = program.values[program.outputs[k]];
      out_.outputs.push_back({program.output_names[k], value.dtype, 0, {}, value.list_depth, program.outputs[k], value.rank});
    }
    MLC_RETURN_IF_ERROR(add_checks());
    for (const nest::Step& step : program.steps) add_step(step, program, number_of);
    out_.num_values = static_cast<uint32_t>(program.values.size());
    return finished();
  }

  Result<exec::Function> write() {
    MLC_RETURN_IF_ERROR(ports_fit());
    MLC_RETURN_IF_ERROR(bind_symbols());
    MLC_RETURN_IF_ERROR(add_interface_buffers());
    MLC_RETURN_IF_ERROR(add_arena_buffers());
    MLC_RETURN_IF_ERROR(add_launches());
    MLC_RETURN_IF_ERROR(add_output_copies());
    MLC_RETURN_IF_ERROR(add_state_copies());
    MLC_RETURN_IF_ERROR(add_checks());
    for (uint32_t k = 0; k < function_.inputs.size(); ++k)
      if (input_port_[k] != kNone) MLC_RETURN_IF_ERROR(add_input_port(k, input_buffers_[k]));
    for (size_t k = 0; k < function_.outputs.size(); ++k)
      if (output_port_[k] != kNone) MLC_RETURN_IF_ERROR(add_output_port(function_.outputs[k], output_buffers_[k]));
    MLC_ASSIGN(out_.arena_bytes, symbol_of(arena_bytes_, "all arrays together"));
    return finished();
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Inputs and outputs that are states are no ports.
  void number_ports() {
    state_of_output_.assign(function_.outputs.size(), {});
    state_of_input_.assign(function_.inputs.size(), kNone);
    for (const nest::Function::State& s : function_.states) {
      if (s.input != nest::kNoArray) state_of_input_[s.input] = s.number;
      if (s.output != nest::kNoArray) state_of_output_[s.output].push_back(s.number);
    }
    uint32_t inputs = 0, outputs = 0;
    for (const uint32_t state : state_of_input_) input_port_.push_back(state == kNone ? inputs++ : kNone);
    for (const auto& states : state_of_output_) output_port_.push_back(states.empty() ? outputs++ : kNone);
  }

  static std::vector<int64_t> results_of(const nest::Step& step, const nest::Program& program) {
    std::vector<int64_t> results;
    auto extent = step.extents.begin();
    for (uint32_t output : step.outputs) {
      const nest::Program::Value& value = program.values[output];
      results.push_back(static_cast<int64_t>(value.dtype));
      results.push_back(value.rank);
      results.insert(results.end(), extent, extent + value.rank);
      extent += value.rank;
    }
    return results;
  }

  void add_step(const nest::Step& from, const nest::Program& program, const std::map<std::string, uint32_t>& number_of) {
    exec::Step& step = out_.steps.emplace_back();
    static_cast<StepSettings&>(step) = from.set;
    step.op = from.op;
    for (const std::string& name : from.functions) step.functions.push_back(number_of.at(name));
    step.inputs = from.inputs;
    step.outputs = from.outputs;
    step.carried = from.carried;
    step.name = from.source;
    if (from.op == StepOp::ListMake && from.inputs.empty()) {  // of an empty list only its result says what it is a list of
      step.dtype = program.values[from.outputs[0]].dtype;
      step.list_depth = program.values[from.outputs[0]].list_depth;
    }
    if (from.op != StepOp::Host) return;
    step.service = from.service;
    step.options = from.options;
    step.results = results_of(from, program);
  }

  exec::Function finished() {
    out_.num_symbols = symbols_.num_symbols();
    out_.shape = symbols_.instructions();
    return std::move(out_);
  }

  Status bind_symbols() {
    for (uint32_t k = 0; k < function_.inputs.size(); ++k) {
      if (input_port_[k] == kNone) continue;  // extents of states are constant
      const nest::Array& array = function_.arrays[function_.inputs[k]];
      for (uint32_t axis = 0; axis < array.shape.size(); ++axis) {
        if (array.shape[axis]->op != ir::Op::Sym || symbols_.is_bound(array.shape[axis]->sym)) continue;
        symbols_.bind_input_axis(array.shape[axis]->sym, input_port_[k], axis);
        check_bounds(array.shape[axis]->sym);
      }
    }
    for (const nest::Function::Element& element : function_.elements) {
      if (symbols_.is_bound(element.sym)) continue;
      const auto input = std::find(function_.inputs.begin(), function_.inputs.end(), element.input) - function_.inputs.begin();
      symbols_.bind_input_element(element.sym, input_port_[static_cast<size_t>(input)], static_cast<uint32_t>(element.element));
      check_bounds(element.sym);
    }
    for (const nest::Function::Definition& definition : function_.definitions)
      if (auto defined = symbols_.define(definition.sym, definition.value); !defined.ok()) return not_computed(definition.value, "'" + definition.sym->name + "'");
    return ok();
  }

  // Everything behind relies on the bounds of a symbol, so they are checked before anything is computed from it.
  void check_bounds(const ir::Sym* sym) {
    const auto condition = symbols_.in_bounds(sym);
    if (!condition) return;
    std::string message = "'" + sym->name + "' must be ";
    if (sym->lo == INT64_MIN) message += "at most " + std::to_string(sym->hi);
    else message += std::to_string(sym->lo);
    if (sym->hi == INT64_MAX) message += " or more";
    else if (sym->lo > INT64_MIN && sym->hi > sym->lo) message += " to " + std::to_string(sym->hi);
    if (sym->multiple > 1) message += ", a multiple of " + std::to_string(sym->multiple);
    out_.checks.push_back({*condition, symbols_.num_symbols(), message});
  }

  Status ports_fit() const {
    const size_t most = std::max(function_.inputs.size(), function_.outputs.size());
    if (most <= format::kMaxPorts) return ok();
    return Status(Code::Unsupported, 2011, std::to_string(most) + " arrays pass at once between what branches, loops and lists divide, at most " +
                                               std::to_string(format::kMaxPorts) + " may")
        .fact("the part that ends with " + (function_.body.empty() ? function_.name : function_.body.back().source));
  }

  // The value of `e`, which decides the size of `what`.
  Result<uint32_t> symbol_of(const ir::Expr* e, const std::string& what) {
    auto symbol = symbols_.symbol_of(e);
    if (symbol.ok() || symbol.status().code != Code::Unsupported) return symbol;
    return not_computed(e, what);
  }
  static Status not_computed(const ir::Expr* e, const std::string& what) {
    std::set<std::string> free;
    ir::walk(e, [&](const ir::Expr* x) {
      if (x->op == ir::Op::Sym) free.insert(x->sym->name);
    });
    Status status(Code::Unsupported, 2010, "the size of " + what + " follows from free extents in a way that is not supported");
    for (const std::string& name : free) status.facts.push_back("free extent: " + name);
    return std::move(status).hint("--dim NAME=VALUE gives such an extent one value; other exporters, or fixed shapes while exporting, help too");
  }
  // "'y' of Conv_3 (Conv)"
  std::string array_text(uint32_t array) const {
    const auto writer = writers_.find(array);
    return "'" + function_.arrays[array].name + "'" + (writer == writers_.end() ? "" : " of " + writer->second->source);
  }

  const ir::Expr* bytes_of_array(const nest::Array& array) {
    return ctx_.mul(nest::stored_elements(ctx_, array.layout, array.shape), ctx_.integer(bytes_of(array.dtype)));
  }

  Result<uint32_t> add_buffer(BufferKind kind, DType dtype, const ir::Expr* size, uint32_t index, uint32_t copy, const ir::Expr* offset, const std::string& what) {
    MLC_ASSIGN(const uint32_t bytes, symbol_of(size, what));
    uint32_t offset_symbol = 0;
    if (offset) {
      MLC_ASSIGN(offset_symbol, symbol_of(offset, "what lies before " + what));
    }
    out_.buffers.push_back({.kind = kind, .dtype = dtype, .index = index, .copy = copy, .bytes = bytes, .offset = offset_symbol});
    return static_cast<uint32_t>(out_.buffers.size() - 1);
  }

  Result<uint32_t> add_array(BufferKind kind, uint32_t array, uint32_t index, uint32_t copy) {
    return add_buffer(kind, function_.arrays[array].dtype, bytes_of_array(function_.arrays[array]), index, copy, nullptr, array_text(array));
  }

  Status add_interface_buffers() {
    for (uint32_t k = 0; k < function_.inputs.size(); ++k) {
      const uint32_t array = function_.inputs[k];
      const bool is_port = input_port_[k] != kNone;
      MLC_ASSIGN(const uint32_t buffer, add_array(is_port ? BufferKind::Input : BufferKind::State, array, is_port ? input_port_[k] : state_of_input_[k], 0));
      input_buffers_.push_back(buffer);
      buffer_of_[array] = buffer;
    }
    for (uint32_t k = 0; k < function_.outputs.size(); ++k) {
      const uint32_t array = function_.outputs[k];
      if (output_port_[k] == kNone) {  // what a state becomes lies in the arena until the end
        output_buffers_.push_back(kNone);
        continue;
      }
      MLC_ASSIGN(const uint32_t buffer, add_array(BufferKind::Output, array, output_port_[k], 0));
      output_buffers_.push_back(buffer);
      order_.place(buffer, ctx_.integer(0), bytes_of_array(function_.arrays[array]), output_port_[k]);
      // An output that is an input, a constant or an earlier output as well is copied at the end.
      if (buffer_of_[array] == kNone && function_.arrays[array].kind == nest::Array::Kind::Temp)
        buffer_of_[array] = buffer;
      else
        copied_outputs_.push_back(k);
    }
    for (const nest::Parts::Part& part : plan_.parts.parts) {
      const auto place = std::find(function_.outputs.begin(), function_.outputs.end(), part.output) - function_.outputs.begin();
      const uint32_t output = output_port_[static_cast<size_t>(place)];
      const nest::Array& array = function_.arrays[part.array];
      MLC_ASSIGN(buffer_of_[part.array], add_buffer(BufferKind::OutputPart, array.dtype, bytes_of_array(array), output, 0, part.offset, array_text(part.array)));
      order_.place(buffer_of_[part.array], part.offset, bytes_of_array(array), output);
    }
    return ok();
  }

  // Intermediate arrays and workspaces, in order of first use.
  Status add_arena_buffers() {
    struct Tenant {
      uint32_t* buffer;
      DType dtype;
      std::string what;
    };
    std::vector<Tenant> tenants;
    std::vector<Interim> lives;
    std::map<const uint32_t*, size_t> tenant_of;
    for (uint32_t step = 0; step < plan_.launches.size(); ++step)
      for (const loop::Param& param : plan_.launches[step].params) {
        const bool is_array = param.role == loop::Role::Array;
        const uint32_t array = is_array ? memory_of(param.array) : param.array;
        if (is_array && (buffer_of_[array] != kNone || function_.arrays[array].kind != nest::Array::Kind::Temp)) continue;
        uint32_t* buffer = is_array ? &buffer_of_[array] : &workspace_[{plan_.launches[step].statement, array}];
        auto [found, is_new] = tenant_of.emplace(buffer, tenants.size());
        if (is_new) {
          tenants.push_back({buffer, param.dtype, is_array ? array_text(array) : "a workspace of " + plan_.launches[step].source});
          lives.push_back({is_array ? bytes_of_array(function_.arrays[array]) : ctx_.mul(param.elements, ctx_.integer(bytes_of(param.dtype))), step, step, nullptr});
        }
        lives[found->second].last = step;
      }
    const auto end = static_cast<uint32_t>(plan_.launches.size());
    for (size_t k = 0; k < function_.outputs.size(); ++k) {  // what states become stays until it is copied to them
      if (output_port_[k] != kNone) continue;
      const uint32_t array = function_.outputs[k];
      if (const auto found = tenant_of.find(&buffer_of_[array]); found != tenant_of.end()) lives[found->second].last = end;
      if (!is_other_state(k)) continue;
      tenants.push_back({&parked_[k], function_.arrays[array].dtype, array_text(array)});
      lives.push_back({bytes_of_array(function_.arrays[array]), end, end, nullptr});
    }
    arena_bytes_ = place_in_arena(ctx_, lives, plan_.alignment);
    for (size_t k = 0; k < tenants.size(); ++k) {
      MLC_ASSIGN(*tenants[k].buffer, add_buffer(BufferKind::Arena, tenants[k].dtype, lives[k].bytes, 0, 0, lives[k].offset, tenants[k].what));
      order_.place(*tenants[k].buffer, lives[k].offset, lives[k].bytes);
    }
    return ok();
  }

  // The array whose memory it lies in.
  uint32_t memory_of(uint32_t array) const { return function_.arrays[array].layout.is_part() ? function_.arrays[array].whole : array; }

  Result<uint32_t> buffer_of(uint32_t array) {
    array = memory_of(array);
    if (buffer_of_[array] == kNone && function_.arrays[array].kind == nest::Array::Kind::Derived) {
      MLC_ASSIGN(buffer_of_[array], add_array(BufferKind::Derived, array, function_.arrays[array].derived, 0));
    }
    if (buffer_of_[array] == kNone) {  // constants get a buffer when first used
      if (function_.arrays[array].kind != nest::Array::Kind::Const)
        return Status(Code::Internal, "array '" + function_.arrays[array].name + "' is used but never placed");
      const auto [tensor, copy] = plan_.constant(array);
      MLC_ASSIGN(buffer_of_[array], add_array(BufferKind::Constant, array, tensor, copy));
    }
    return buffer_of_[array];
  }

  static std::vector<Order::Use> uses_of(const Launch& launch, const std::vector<uint32_t>& buffers) {
    std::vector<Order::Use> uses;
    for (size_t k = 0; k < buffers.size(); ++k) uses.push_back({buffers[k], launch.params[k].written});
    return uses;
  }

  Status add_launches() {
    for (const Launch& launch : plan_.launches) {
      Instr instr{.op = InstrOp::Launch, .kernel = launch.entry, .name = launch.source};
      for (const loop::Param& param : launch.params) {
        if (param.role == loop::Role::Workspace) {
          instr.buffers.push_back(workspace_.at({launch.statement, param.array}));
          continue;
        }
        MLC_ASSIGN(const uint32_t buffer, buffer_of(param.array));
        instr.buffers.push_back(buffer);
      }
      const std::string gives = "what " + launch.source + " gives";
      for (const ir::Expr* scalar : launch.scalars) {
        MLC_ASSIGN(const Symbol symbol, symbol_of(scalar, gives));
        instr.scalars.push_back(symbol);
      }
      MLC_ASSIGN(instr.tiles, symbol_of(launch.tiles, gives));
      for (const loop::Cut& cut : launch.cuts) {
        MLC_ASSIGN(const Symbol units, symbol_of(cut.units, gives));
        MLC_ASSIGN(const Symbol bytes, symbol_of(cut.bytes, "what " + launch.source + " reads"));
        instr.cuts.push_back({units, static_cast<uint32_t>(instr.scalars.size()), bytes});
        instr.scalars.push_back(units);
      }
      if (!launch.cuts.empty() && launch.cuts[0].in_turns) {
        instr.turns = exec::Turns{instr.cuts[0].units, instr.cuts[0].scalar, instr.cuts[1].units, instr.cuts[1].scalar};
        instr.cuts.clear();
      }
      MLC_ASSIGN(instr.work, optional_symbol_of(launch.work, "what " + launch.source + " does"));
      MLC_ASSIGN(instr.scratch, optional_symbol_of(launch.scratch, "what " + launch.source + " keeps"));
      MLC_ASSIGN(instr.steps, optional_symbol_of(launch.steps, "what " + launch.source + " repeats"));
      MLC_ASSIGN(instr.operations, figure_of(launch.figures.operations));
      MLC_ASSIGN(instr.read, figure_of(launch.figures.read));
      MLC_ASSIGN(instr.written, figure_of(launch.figures.written));
      instr.of_bytes = launch.figures.of_bytes;
      instr.after = order_.after(uses_of(launch, instr.buffers));
      out_.body.push_back(std::move(instr));
    }
    return ok();
  }

  Result<Symbol> optional_symbol_of(const ir::Expr* e, const std::string& what) { return e ? symbol_of(e, what) : Result<Symbol>(exec::kNoSymbol); }

  // Not known where a symbol in it is not.
  Result<Symbol> figure_of(const ir::Expr* e) { return e && symbols_.knows(e) ? symbol_of(e, "a figure") : Result<Symbol>(exec::kNoSymbol); }

  Status add_output_copies() {
    for (uint32_t k : copied_outputs_) {
      MLC_ASSIGN(const uint32_t source, buffer_of(function_.outputs[k]));
      add_copy(output_buffers_[k], source, "copy to output " + function_.arrays[function_.outputs[k]].name);
    }
    return ok();
  }

  // Whether a state becomes what another one was.
  bool is_other_state(size_t output) const {
    const auto at = std::find(function_.inputs.begin(), function_.inputs.end(), function_.outputs[output]) - function_.inputs.begin();
    if (static_cast<size_t>(at) == function_.inputs.size() || state_of_input_[static_cast<size_t>(at)] == kNone) return false;
    return state_of_output_[output] != std::vector{state_of_input_[static_cast<size_t>(at)]};
  }

  void add_copy(uint32_t to, uint32_t from, const std::string& name) {
    const uint32_t after = order_.after({{to, true}, {from, false}});
    out_.body.push_back({.op = InstrOp::Copy, .buffers = {to, from}, .after = after, .name = name});
  }

  // Behind all that reads the states; those that others become are put aside before any is overwritten.
  Status add_state_copies() {
    for (const auto& [k, buffer] : parked_) {
      MLC_ASSIGN(const uint32_t source, buffer_of(function_.outputs[k]));
      add_copy(buffer, source, "put aside " + function_.arrays[function_.outputs[k]].name);
    }
    for (size_t k = 0; k < function_.outputs.size(); ++k)
      for (const uint32_t state : state_of_output_[k]) {
        const uint32_t array = function_.outputs[k];
        const auto parked = parked_.find(k);
        uint32_t source = parked == parked_.end() ? kNone : parked->second;
        if (source == kNone) {
          MLC_ASSIGN(source, buffer_of(array));
        }
        const auto input = std::find(state_of_input_.begin(), state_of_input_.end(), state) - state_of_input_.begin();
        uint32_t buffer = static_cast<size_t>(input) < input_buffers_.size() ? input_buffers_[static_cast<size_t>(input)] : kNone;
        if (buffer == kNone) {
          MLC_ASSIGN(buffer, add_array(BufferKind::State, array, state, 0));
        }
        if (buffer != source) add_copy(buffer, source, "keep " + function_.arrays[array].name);
      }
    return ok();
  }

  // A message may show an expression of any length; the format has a limit.
  static std::string shortened(const std::string& message) {
    constexpr size_t kLongest = 400;
    if (message.size() <= kLongest) return message;
    size_t end = kLongest;
    while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xc0) == 0x80) --end;  // not inside a UTF-8 character
    return message.substr(0, end) + " ...";
  }

  // After everything else: the shape program is complete then, and nothing has run yet.
  Status add_checks() {
    for (const nest::Function::Check& check : function_.checks) {
      MLC_ASSIGN(const uint32_t condition, symbol_of(check.condition, "something (" + shortened(check.message) + ")"));
      out_.checks.push_back({condition, symbols_.num_symbols(), shortened(check.message)});
    }
    return ok();
  }

  // An extent that nothing is said of is what it is.
  Status add_input_port(uint32_t input, uint32_t buffer) {
    const nest::Array& array = function_.arrays[function_.inputs[input]];
    std::vector<uint32_t> shape;
    for (uint32_t axis = 0; axis < array.shape.size(); ++axis) {
      if (!symbols_.knows(array.shape[axis])) {
        shape.push_back(symbols_.input_axis(input_port_[input], axis));
        continue;
      }
      MLC_ASSIGN(const uint32_t symbol, symbol_of(array.shape[axis], "input '" + array.name + "'"));
      shape.push_back(symbol);
    }
    out_.inputs.push_back({array.name, array.dtype, buffer, std::move(shape), array.list_depth, input_port_[input]});
    return ok();
  }

  Status add_output_port(uint32_t array_number, uint32_t buffer) {
    const nest::Array& array = function_.arrays[array_number];
    std::vector<uint32_t> shape;
    for (const ir::Expr* extent : array.shape) {
      MLC_ASSIGN(const uint32_t symbol, symbol_of(extent, "output " + array_text(array_number)));
      shape.push_back(symbol);
    }
    out_.outputs.push_back({array.name, array.dtype, buffer, std::move(shape)});
    return ok();
  }

  ir::Context& ctx_;
  const FunctionPlan& plan_;
  const nest::Function& function_;
  exec::Function out_;
  SymbolTable symbols_;
  Order order_;
  std::vector<uint32_t> buffer_of_, input_buffers_, output_buffers_, copied_outputs_;
  std::vector<uint32_t> input_port_, output_port_, state_of_input_;  // of inputs and outputs of the function; kNone: it is a state, it is none
  std::vector<std::vector<uint32_t>> state_of_output_;
  std::map<size_t, uint32_t> parked_;  // of outputs, buffers of the arena
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> workspace_;  // {statement, number} to buffer
  const ir::Expr* arena_bytes_ = nullptr;
  std::map<uint32_t, const Launch*> writers_;  // of arrays, for messages
};

}  // namespace

Result<std::vector<std::byte>> write_plan(ir::Context& ctx, const std::vector<FunctionPlan>& segments, const std::vector<std::shared_ptr<const nest::Program>>& programs, const DerivedPlan& derived) {
  struct Part {
    const FunctionPlan* segment = nullptr;  // one of the two
    const nest::Program* program = nullptr;
  };
  std::map<std::string, Part> parts;  // sorted by name, as plans are
  for (const FunctionPlan& plan : segments) parts[plan.function->name].segment = &plan;
  for (const auto& program : programs) parts[program->interface.name].program = program.get();
  std::map<std::string, uint32_t> number_of;
  for (const auto& [name, part] : parts) number_of.emplace(name, static_cast<uint32_t>(number_of.size()));
  exec::Plan written;
  for (const auto& [name, part] : parts) {
    FunctionPlan interface;
    if (part.program) interface.function = &part.program->interface;
    FunctionWriter writer(ctx, part.segment ? *part.segment : interface);
    auto function = part.segment ? writer.write() : writer.write(*part.program, number_of);
    if (!function.ok()) return function.status().code == Code::Internal ? std::move(function).status().note("plan of '" + name + "'") : std::move(function).status();
    written.functions.push_back(std::move(*function));
  }
  written.derived = derived.bytes;
  if (!derived.bytes.empty()) written.derive = number_of.at(derived.function);
  return encode(written);
}

}  // namespace mlc::plan
