#include "packager/plan/plan_builder.h"

#include <algorithm>
#include <map>
#include <set>

#include "packager/plan/arena.h"
#include "packager/plan/order.h"
#include "packager/plan/symbols.h"
#include "schema/format.h"
#include "schema/generated/plan_generated.h"
#include "schema/module_abi.h"

namespace mlc::plan {
namespace {

using namespace fb::plan;
namespace fbs = flatbuffers;

constexpr uint32_t kPlanFormat = 1;

// One function's part of the plan, built in the order: symbols of the inputs, buffers, launches, checks.
class FunctionWriter {
 public:
  FunctionWriter(ir::Context& ctx, const FunctionPlan& plan, fbs::FlatBufferBuilder& out)
      : ctx_(ctx), plan_(plan), function_(*plan.function), out_(out), order_(ctx), buffer_of_(function_.arrays.size(), kNone) {
    for (const Launch& launch : plan_.launches)
      for (const loop::Param& param : launch.params)
        if (param.role == loop::Role::Array && param.written) writers_.emplace(param.array, &launch);
  }

  // A program, whose interface `plan.function` is.
  Result<fbs::Offset<Function>> write(const nest::Program& program, const std::map<std::string, uint32_t>& number_of) {
    MLC_RETURN_IF_ERROR(bind_symbols());
    std::vector<fbs::Offset<Port>> inputs, outputs;
    for (uint32_t k = 0; k < function_.inputs.size(); ++k) {
      MLC_ASSIGN(auto port, input_port(k, 0));
      inputs.push_back(port);
    }
    for (size_t k = 0; k < program.outputs.size(); ++k) {
      const nest::Program::Value& value = program.values[program.outputs[k]];
      outputs.push_back(CreatePort(out_, out_.CreateString(program.output_names[k]), static_cast<uint8_t>(value.dtype), 0, 0, value.list_depth,
                                   program.outputs[k], value.rank));
    }
    MLC_RETURN_IF_ERROR(add_checks());
    std::vector<fbs::Offset<Step>> steps;
    for (const nest::Step& step : program.steps) {
      std::vector<uint32_t> callees;
      for (const std::string& name : step.functions) callees.push_back(number_of.at(name));
      // Of an empty list only its result says what it is a list of.
      const bool is_typed = !step.is_call && step.kind == nest::Control::Kind::ListMake && step.inputs.empty();
      const bool is_host = !step.is_call && step.kind == nest::Control::Kind::Host;
      const nest::Program::Value* result = is_typed ? &program.values[step.outputs[0]] : nullptr;
      const nest::Control::Settings& set = step.set;
      // What an object refers to is written in statements of its own: compilers evaluate arguments in any order, and the bytes of equal
      // builds would differ.
      const fbs::Offset<fbs::Vector<int64_t>> results = is_host ? out_.CreateVector(results_of(step, program)) : 0;
      const fbs::Offset<fbs::String> options = is_host ? out_.CreateString(step.options) : 0;
      const fbs::Offset<fbs::String> service = is_host ? out_.CreateString(step.service) : 0;
      const auto source = out_.CreateString(step.source);
      const auto written = out_.CreateVector(step.outputs);
      const auto read = out_.CreateVector(step.inputs);
      const auto called = out_.CreateVector(callees);
      steps.push_back(CreateStep(out_, step_op(step), called, read, written, step.carried, set.axis, set.new_axis, source,
                                 static_cast<uint8_t>(result ? result->dtype : DType::None), result ? result->list_depth : uint8_t{0},
                                 service, options, results, set.drop_axis, set.max_cuts, set.min_letters, set.between,
                                 static_cast<fb::plan::CaseChange>(set.case_change), set.match_case, set.integers));
    }
    const auto written_steps = out_.CreateVector(steps);
    const auto written_outputs = out_.CreateVector(outputs);
    const auto written_inputs = out_.CreateVector(inputs);
    const auto checks = out_.CreateVector(checks_);
    const auto symbols = out_.CreateVectorOfStructs(symbols_.instructions());
    const auto name = out_.CreateString(function_.name);
    return CreateFunction(out_, name, symbols_.num_symbols(), symbols, checks, written_inputs, written_outputs, 0, 0, 0,
                          static_cast<uint32_t>(program.values.size()), written_steps);
  }

  Result<fbs::Offset<Function>> write() {
    MLC_RETURN_IF_ERROR(ports_fit());
    MLC_RETURN_IF_ERROR(bind_symbols());
    MLC_RETURN_IF_ERROR(add_interface_buffers());
    MLC_RETURN_IF_ERROR(add_arena_buffers());
    MLC_RETURN_IF_ERROR(add_launches());
    MLC_RETURN_IF_ERROR(add_output_copies());
    MLC_RETURN_IF_ERROR(add_checks());
    std::vector<fbs::Offset<Port>> inputs, outputs;
    for (size_t k = 0; k < function_.inputs.size(); ++k) {
      MLC_ASSIGN(auto port, input_port(static_cast<uint32_t>(k), input_buffers_[k]));
      inputs.push_back(port);
    }
    for (size_t k = 0; k < function_.outputs.size(); ++k) {
      MLC_ASSIGN(auto port, output_port(function_.outputs[k], output_buffers_[k]));
      outputs.push_back(port);
    }
    MLC_ASSIGN(const uint32_t arena_bytes, symbol_of(arena_bytes_, "all arrays together"));
    const auto body = out_.CreateVector(body_);
    const auto buffers = out_.CreateVector(buffers_);
    const auto written_outputs = out_.CreateVector(outputs);
    const auto written_inputs = out_.CreateVector(inputs);
    const auto checks = out_.CreateVector(checks_);
    const auto symbols = out_.CreateVectorOfStructs(symbols_.instructions());
    const auto name = out_.CreateString(function_.name);
    return CreateFunction(out_, name, symbols_.num_symbols(), symbols, checks, written_inputs, written_outputs, buffers, arena_bytes, body);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

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

  static StepOp step_op(const nest::Step& step) {
    using Kind = nest::Control::Kind;
    if (step.is_call) return StepOp_Call;
    switch (step.kind) {
      case Kind::Read: break;  // symbols are bound where they are used
      case Kind::Branch: return StepOp_Branch;
      case Kind::Loop: return StepOp_Loop;
      case Kind::ListMake: return StepOp_ListMake;
      case Kind::ListInsert: return StepOp_ListInsert;
      case Kind::ListErase: return StepOp_ListErase;
      case Kind::ListAt: return StepOp_ListAt;
      case Kind::ListLength: return StepOp_ListLength;
      case Kind::ListConcat: return StepOp_ListConcat;
      case Kind::ListSplit: return StepOp_ListSplit;
      case Kind::StringsIn: return StepOp_StringsIn;
      case Kind::StringsOut: return StepOp_StringsOut;
      case Kind::StringsMake: return StepOp_StringsMake;
      case Kind::StringConcat: return StepOp_StringConcat;
      case Kind::StringSplit: return StepOp_StringSplit;
      case Kind::StringNormalize: return StepOp_StringNormalize;
      case Kind::StringMatch: return StepOp_StringMatch;
      case Kind::StringTokens: return StepOp_StringTokens;
      case Kind::StringRank: return StepOp_StringRank;
      case Kind::StringFromNumber: return StepOp_StringFromNumber;
      case Kind::NumberFromString: return StepOp_NumberFromString;
      case Kind::Host: return StepOp_Host;
    }
    return StepOp_None;
  }

  Status bind_symbols() {
    for (uint32_t k = 0; k < function_.inputs.size(); ++k) {
      const nest::Array& array = function_.arrays[function_.inputs[k]];
      for (uint32_t axis = 0; axis < array.shape.size(); ++axis) {
        if (array.shape[axis]->op != ir::Op::Sym || symbols_.is_bound(array.shape[axis]->sym)) continue;
        symbols_.bind_input_axis(array.shape[axis]->sym, k, axis);
        check_bounds(array.shape[axis]->sym);
      }
    }
    for (const nest::Function::Element& element : function_.elements) {
      if (symbols_.is_bound(element.sym)) continue;
      const auto input = std::find(function_.inputs.begin(), function_.inputs.end(), element.input) - function_.inputs.begin();
      symbols_.bind_input_element(element.sym, static_cast<uint32_t>(input), static_cast<uint32_t>(element.element));
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
    checks_.push_back(CreateCheck(out_, *condition, symbols_.num_symbols(), out_.CreateString(message)));
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
    buffers_.push_back(CreateBuffer(out_, kind, static_cast<uint8_t>(dtype), index, copy, bytes, offset_symbol));
    return static_cast<uint32_t>(buffers_.size() - 1);
  }

  Result<uint32_t> add_array(BufferKind kind, uint32_t array, uint32_t index, uint32_t copy) {
    return add_buffer(kind, function_.arrays[array].dtype, bytes_of_array(function_.arrays[array]), index, copy, nullptr, array_text(array));
  }

  Status add_interface_buffers() {
    for (uint32_t k = 0; k < function_.inputs.size(); ++k) {
      const uint32_t array = function_.inputs[k];
      MLC_ASSIGN(const uint32_t buffer, add_array(BufferKind_Input, array, k, 0));
      input_buffers_.push_back(buffer);
      buffer_of_[array] = buffer;
    }
    for (uint32_t k = 0; k < function_.outputs.size(); ++k) {
      const uint32_t array = function_.outputs[k];
      MLC_ASSIGN(const uint32_t buffer, add_array(BufferKind_Output, array, k, 0));
      output_buffers_.push_back(buffer);
      order_.place(buffer, ctx_.integer(0), bytes_of_array(function_.arrays[array]), k);
      // An output that is an input, a constant or an earlier output as well is copied at the end.
      if (buffer_of_[array] == kNone && function_.arrays[array].kind == nest::Array::Kind::Temp)
        buffer_of_[array] = buffer;
      else
        copied_outputs_.push_back(k);
    }
    for (const Parts::Part& part : plan_.parts.parts) {
      const auto output = static_cast<uint32_t>(std::find(function_.outputs.begin(), function_.outputs.end(), part.output) - function_.outputs.begin());
      const nest::Array& array = function_.arrays[part.array];
      MLC_ASSIGN(buffer_of_[part.array], add_buffer(BufferKind_OutputPart, array.dtype, bytes_of_array(array), output, 0, part.offset, array_text(part.array)));
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
        if (is_array && (buffer_of_[param.array] != kNone || function_.arrays[param.array].kind != nest::Array::Kind::Temp)) continue;
        uint32_t* buffer = is_array ? &buffer_of_[param.array] : &workspace_[{plan_.launches[step].statement, param.array}];
        auto [found, is_new] = tenant_of.emplace(buffer, tenants.size());
        if (is_new) {
          tenants.push_back({buffer, param.dtype, is_array ? array_text(param.array) : "a workspace of " + plan_.launches[step].source});
          lives.push_back({is_array ? bytes_of_array(function_.arrays[param.array]) : ctx_.mul(param.elements, ctx_.integer(bytes_of(param.dtype))), step, step, nullptr});
        }
        lives[found->second].last = step;
      }
    arena_bytes_ = place_in_arena(ctx_, lives, plan_.alignment);
    for (size_t k = 0; k < tenants.size(); ++k) {
      MLC_ASSIGN(*tenants[k].buffer, add_buffer(BufferKind_Arena, tenants[k].dtype, lives[k].bytes, 0, 0, lives[k].offset, tenants[k].what));
      order_.place(*tenants[k].buffer, lives[k].offset, lives[k].bytes);
    }
    return ok();
  }

  Result<uint32_t> buffer_of(uint32_t array) {
    if (buffer_of_[array] == kNone && function_.arrays[array].kind == nest::Array::Kind::Derived) {
      MLC_ASSIGN(buffer_of_[array], add_array(BufferKind_Derived, array, function_.arrays[array].derived, 0));
    }
    if (buffer_of_[array] == kNone) {  // constants get a buffer when first used
      if (function_.arrays[array].kind != nest::Array::Kind::Const)
        return Status(Code::Internal, "array '" + function_.arrays[array].name + "' is used but never placed");
      const auto [tensor, copy] = plan_.constant(array);
      MLC_ASSIGN(buffer_of_[array], add_array(BufferKind_Constant, array, tensor, copy));
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
      std::vector<uint32_t> buffers, scalars;
      for (const loop::Param& param : launch.params) {
        if (param.role == loop::Role::Workspace) {
          buffers.push_back(workspace_.at({launch.statement, param.array}));
          continue;
        }
        MLC_ASSIGN(const uint32_t buffer, buffer_of(param.array));
        buffers.push_back(buffer);
      }
      for (const ir::Expr* scalar : launch.scalars) {
        MLC_ASSIGN(const uint32_t symbol, symbol_of(scalar, "what " + launch.source + " gives"));
        scalars.push_back(symbol);
      }
      MLC_ASSIGN(const uint32_t tiles, symbol_of(launch.tiles, "what " + launch.source + " gives"));
      std::vector<fbs::Offset<Cut>> cuts;
      for (const loop::Cut& cut : launch.cuts) {
        MLC_ASSIGN(const uint32_t units, symbol_of(cut.units, "what " + launch.source + " gives"));
        MLC_ASSIGN(const uint32_t bytes, symbol_of(cut.bytes, "what " + launch.source + " reads"));
        cuts.push_back(CreateCut(out_, units, static_cast<uint32_t>(scalars.size()), bytes));
        scalars.push_back(units);
      }
      uint32_t work = kNone;
      if (launch.work) {
        MLC_ASSIGN(work, symbol_of(launch.work, "what " + launch.source + " does"));
      }
      uint32_t scratch = kNone;
      if (launch.scratch) {
        MLC_ASSIGN(scratch, symbol_of(launch.scratch, "what " + launch.source + " keeps"));
      }
      uint32_t steps = kNone;
      if (launch.steps) {
        MLC_ASSIGN(steps, symbol_of(launch.steps, "what " + launch.source + " repeats"));
      }
      const nest::Figures& told = launch.figures;
      MLC_ASSIGN(const uint32_t operations, figure_of(told.operations));
      MLC_ASSIGN(const uint32_t read, figure_of(told.read));
      MLC_ASSIGN(const uint32_t written, figure_of(told.written));
      const auto source = out_.CreateString(launch.source);
      const uint32_t after = order_.after(uses_of(launch, buffers));
      const auto written_cuts = out_.CreateVector(cuts);
      const auto written_scalars = out_.CreateVector(scalars);
      const auto operands = out_.CreateVector(buffers);
      body_.push_back(CreateInstr(out_, InstrOp_Launch, launch.entry, operands, written_scalars, tiles, written_cuts, work, after, 0, source, scratch,
                                  operations, read, written, told.of_bytes, steps));
    }
    return ok();
  }

  // Not known where a symbol in it is not.
  Result<uint32_t> figure_of(const ir::Expr* e) { return e && symbols_.knows(e) ? symbol_of(e, "a figure") : Result<uint32_t>(kNone); }

  Status add_output_copies() {
    for (uint32_t k : copied_outputs_) {
      MLC_ASSIGN(const uint32_t source, buffer_of(function_.outputs[k]));
      const std::vector<uint32_t> buffers{output_buffers_[k], source};
      body_.push_back(CreateInstr(out_, InstrOp_Copy, 0, out_.CreateVector(buffers), 0, 0, 0, kNone,
                                  order_.after({{buffers[0], true}, {buffers[1], false}}), 0,
                                  out_.CreateString("copy to output " + function_.arrays[function_.outputs[k]].name)));
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
      checks_.push_back(CreateCheck(out_, condition, symbols_.num_symbols(), out_.CreateString(shortened(check.message))));
    }
    return ok();
  }

  // An extent that nothing is said of is what it is.
  Result<fbs::Offset<Port>> input_port(uint32_t input, uint32_t buffer) {
    const nest::Array& array = function_.arrays[function_.inputs[input]];
    std::vector<uint32_t> shape;
    for (uint32_t axis = 0; axis < array.shape.size(); ++axis) {
      if (!symbols_.knows(array.shape[axis])) {
        shape.push_back(symbols_.input_axis(input, axis));
        continue;
      }
      MLC_ASSIGN(const uint32_t symbol, symbol_of(array.shape[axis], "input '" + array.name + "'"));
      shape.push_back(symbol);
    }
    const auto extents = out_.CreateVector(shape);
    const auto name = out_.CreateString(array.name);
    return CreatePort(out_, name, static_cast<uint8_t>(array.dtype), buffer, extents, array.list_depth, input);
  }

  Result<fbs::Offset<Port>> output_port(uint32_t array_number, uint32_t buffer) {
    const nest::Array& array = function_.arrays[array_number];
    std::vector<uint32_t> shape;
    for (const ir::Expr* extent : array.shape) {
      MLC_ASSIGN(const uint32_t symbol, symbol_of(extent, "output " + array_text(array_number)));
      shape.push_back(symbol);
    }
    const auto extents = out_.CreateVector(shape);
    const auto name = out_.CreateString(array.name);
    return CreatePort(out_, name, static_cast<uint8_t>(array.dtype), buffer, extents);
  }

  ir::Context& ctx_;
  const FunctionPlan& plan_;
  const nest::Function& function_;
  fbs::FlatBufferBuilder& out_;
  SymbolTable symbols_;
  Order order_;
  std::vector<uint32_t> buffer_of_, input_buffers_, output_buffers_, copied_outputs_;
  std::vector<fbs::Offset<Buffer>> buffers_;
  std::vector<fbs::Offset<Instr>> body_;
  std::vector<fbs::Offset<Check>> checks_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> workspace_;  // {statement, number} to buffer
  const ir::Expr* arena_bytes_ = nullptr;
  std::map<uint32_t, const Launch*> writers_;  // of arrays, for messages
};

}  // namespace

Result<std::vector<std::byte>> write_plan(ir::Context& ctx, const std::vector<FunctionPlan>& segments, const std::vector<nest::Program>& programs, const DerivedPlan& derived) {
  struct Part {
    const FunctionPlan* segment = nullptr;  // one of the two
    const nest::Program* program = nullptr;
  };
  std::map<std::string, Part> parts;  // sorted by name, as plans are
  for (const FunctionPlan& plan : segments) parts[plan.function->name].segment = &plan;
  for (const nest::Program& program : programs) parts[program.interface.name].program = &program;
  std::map<std::string, uint32_t> number_of;
  for (const auto& [name, part] : parts) number_of.emplace(name, static_cast<uint32_t>(number_of.size()));
  fbs::FlatBufferBuilder out;
  std::vector<fbs::Offset<Function>> written;
  for (const auto& [name, part] : parts) {
    FunctionPlan interface;
    if (part.program) interface.function = &part.program->interface;
    FunctionWriter writer(ctx, part.segment ? *part.segment : interface, out);
    auto function = part.segment ? writer.write() : writer.write(*part.program, number_of);
    if (!function.ok()) return function.status().code == Code::Internal ? std::move(function).status().note("plan of '" + name + "'") : std::move(function).status();
    written.push_back(*function);
  }
  const auto derived_bytes = derived.bytes.empty() ? 0 : out.CreateVector(derived.bytes);
  const auto functions = out.CreateVector(written);
  FinishPlanBuffer(out, CreatePlan(out, kPlanFormat, MLRUN_MODULE_ABI, functions, derived_bytes, derived.bytes.empty() ? UINT32_MAX : number_of.at(derived.function)));
  const auto* bytes = reinterpret_cast<const std::byte*>(out.GetBufferPointer());
  return std::vector<std::byte>(bytes, bytes + out.GetSize());
}

}  // namespace mlc::plan
