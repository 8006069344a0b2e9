// The only file of the runtime that knows the FlatBuffers form of a plan. FlatBuffers' verifier makes reading safe; what
// is read is then checked item by item and copied.
#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "base/compose.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/plan_budget.h"
#include "schema/format.h"
#include "schema/generated/plan_generated.h"
#include "schema/module_abi.h"
#include "schema/validate.h"

namespace mlc::exec {
namespace {

namespace fbp = mlc::fb::plan;

constexpr uint32_t kPlanFormat = 1;
constexpr uint32_t kMaxFunctions = 4096, kMaxSymbols = 1u << 20, kMaxItems = 1u << 20, kMaxOperands = 4096;
constexpr uint32_t kMaxStates = 4096;
constexpr uint32_t kMaxTextLen = 4096;
constexpr uint64_t kAlignment = alignof(fbp::SymbolInstr);  // the largest of any part of a plan

template <class... Args>
Status bad(const char* pattern, const Args&... args) {
  return Status(Code::Malformed, pattern, args...);
}

// What is only shown, never compared, may be any text in the file but not on a terminal.
std::string shown(const flatbuffers::String& s) {
  const std::string_view text(s.c_str(), s.size());
  return format::is_clean_text(text, kMaxTextLen) ? std::string(text) : format::quoted(text);
}
bool is_name(const flatbuffers::String& s) {
  return s.size() > 0 && format::is_clean_text({s.c_str(), s.size()}, format::kMaxNameLen);
}

template <class V>
uint32_t length_of(const V* vector) {
  return vector ? vector->size() : 0;
}

// The type of a symbol, known once it is written.
enum class Type : uint8_t { Unwritten, Integer, Double };

// What each operation reads and writes.
struct Signature {
  uint8_t reads;      // operands a, b, c in this order
  Type operand;       // their type
  Type result;
};
Signature signature_of(SymbolOp op) {
  using enum SymbolOp;
  switch (op) {
    case None: case Const: case InputDim: case InputElement: return {0, Type::Integer, Type::Integer};
    case Add: case Sub: case Mul: case FloorDiv: case CeilDiv: case Mod: case Min: case Max: case Eq: case Ne: case Lt:
    case Le: case And: case Or: return {2, Type::Integer, Type::Integer};
    case Not: return {1, Type::Integer, Type::Integer};
    case Select: return {3, Type::Integer, Type::Integer};  // b and c may both be doubles: see check_symbols
    case ToDouble: return {1, Type::Integer, Type::Double};
    case FAdd: case FSub: case FMul: case FDiv: case FMin: case FMax: return {2, Type::Double, Type::Double};
    case FFloor: case FCeil: case FRint: case FTrunc: return {1, Type::Double, Type::Integer};
    case FLt: case FLe: return {2, Type::Double, Type::Integer};
    case FConst: return {0, Type::Double, Type::Double};
    case FSqrt: case FRoundF32: return {1, Type::Double, Type::Double};
  }
  return {0, Type::Integer, Type::Integer};
}

class FunctionDecoder {
 public:
  // `plan`: what its functions share, which has been read; `derives`: whether this one computes the derived constants.
  FunctionDecoder(const fbp::Function& in, const Plan& plan, bool derives, const PlanContext& context, Budget& budget)
      : in_(in), plan_(plan), derives_(derives), context_(context), budget_(budget) {}

  Result<Function> decode() {
    if (!is_name(*in_.name())) return bad("name of a function");
    MLC_RETURN_IF_ERROR(check_limits());
    MLC_RETURN_IF_ERROR(pay());
    out_.name = in_.name()->str();
    MLC_RETURN_IF_ERROR(check_symbols());
    MLC_RETURN_IF_ERROR(read_checks());
    MLC_RETURN_IF_ERROR(read_buffers());
    MLC_RETURN_IF_ERROR(read_ports(in_.inputs(), BufferKind::Input, out_.inputs));
    MLC_RETURN_IF_ERROR(read_ports(in_.outputs(), BufferKind::Output, out_.outputs));
    MLC_RETURN_IF_ERROR(read_body());
    MLC_RETURN_IF_ERROR(read_steps());
    return std::move(out_);
  }

 private:
  Status check_limits() {
    if (in_.num_symbols() > kMaxSymbols || length_of(in_.shape()) > kMaxSymbols) return bad("too many symbols, at most {} are read", kMaxSymbols);
    if (length_of(in_.checks()) > kMaxItems || length_of(in_.buffers()) > kMaxItems ||
        length_of(in_.body()) > kMaxItems || length_of(in_.steps()) > kMaxItems || in_.num_values() > kMaxItems)
      return bad("too many items in a list, at most {} are read", kMaxItems);
    if (is_program() ? length_of(in_.buffers()) + length_of(in_.body()) > 0 : length_of(in_.steps()) > 0)
      return bad("is half a program");
    if (derives_ && (is_program() || length_of(in_.inputs()) + length_of(in_.outputs()) > 0))
      return bad("derives constants, but is no segment without inputs and outputs");
    if (length_of(in_.inputs()) > format::kMaxPorts || length_of(in_.outputs()) > format::kMaxPorts)
      return bad("too many ports, at most {} are read", format::kMaxPorts);
    // Room for every symbol has to come with an instruction that writes it, so that the file's size bounds it.
    if (in_.num_symbols() != length_of(in_.shape())) return bad("symbols that nothing writes");
    return ok();
  }

  bool is_program() const { return in_.num_values() > 0; }

  // Charges all that will be copied, before any of it is.
  Status pay() {
    bool good = budget_.afford(in_.name()->size(), 1) && budget_.afford(length_of(in_.shape()), sizeof(SymbolInstr)) &&
                budget_.afford(length_of(in_.checks()), kTable) && budget_.afford(length_of(in_.buffers()), kTable) &&
                budget_.afford(length_of(in_.inputs()), kTable) && budget_.afford(length_of(in_.outputs()), kTable) &&
                budget_.afford(length_of(in_.body()), kTable);
    for (uint32_t i = 0; good && i < length_of(in_.checks()); ++i)
      good = budget_.afford(in_.checks()->Get(i)->message()->size(), 1);
    for (const auto* ports : {in_.inputs(), in_.outputs()})
      for (uint32_t i = 0; good && i < length_of(ports); ++i)
        good = budget_.afford(ports->Get(i)->name()->size(), 1) && budget_.afford(length_of(ports->Get(i)->shape()), 4);
    for (uint32_t i = 0; good && i < length_of(in_.body()); ++i) {
      const fbp::Instr& instr = *in_.body()->Get(i);
      good = budget_.afford(length_of(instr.buffers()), 4) && budget_.afford(length_of(instr.scalars()), 4) &&
             budget_.afford(length_of(instr.cut()), kTable) && budget_.afford(instr.name() ? instr.name()->size() : 0, 1);
    }
    good = good && budget_.afford(length_of(in_.steps()), kStep);
    uint64_t written = length_of(in_.inputs());
    for (uint32_t i = 0; good && i < length_of(in_.steps()); ++i) {
      const fbp::Step& step = *in_.steps()->Get(i);
      good = budget_.afford(uint64_t{length_of(step.functions())} + length_of(step.inputs()) + length_of(step.outputs()), 4) &&
             budget_.afford(step.name() ? step.name()->size() : 0, 1) &&
             budget_.afford(step.service() ? step.service()->size() : 0, 1) &&
             budget_.afford(step.options() ? step.options()->size() : 0, 1) &&
             budget_.afford(length_of(step.results()), 8);
      written += length_of(step.outputs());
    }
    if (in_.num_values() > written) return bad("values that nothing writes");
    return good ? ok() : bad("its parts share bytes");
  }

  Status check_symbols() {
    out_.num_symbols = in_.num_symbols();
    types_.assign(out_.num_symbols, Type::Unwritten);
    written_at_.assign(out_.num_symbols, 0);
    out_.shape.reserve(length_of(in_.shape()));
    for (uint32_t i = 0; i < length_of(in_.shape()); ++i) {
      // FlatBuffers 2.0 verifies where the length of a vector lies, not that the structs behind it are aligned.
      fbp::SymbolInstr s;
      std::memcpy(static_cast<void*>(&s), in_.shape()->Data() + uint64_t{i} * sizeof s, sizeof s);
      const auto number = static_cast<uint8_t>(s.op());
      at_ = {"symbol instruction", i};
      if (number == 0 || number > kLastSymbolOp) return wrong("operation");
      const SymbolInstr instr{static_cast<SymbolOp>(number), s.dst(), s.a(), s.b(), s.c(), s.imm()};
      if (instr.dst >= out_.num_symbols || types_[instr.dst] != Type::Unwritten) return wrong("destination");
      if (instr.op == SymbolOp::InputDim) {
        if (instr.a >= length_of(in_.inputs()) || instr.b >= length_of(in_.inputs()->Get(instr.a)->shape()))
          return wrong("no such input axis");
      }
      if (instr.op == SymbolOp::InputElement) {
        if (instr.a >= length_of(in_.inputs())) return wrong("no such input");
        const fbp::Port& port = *in_.inputs()->Get(instr.a);
        const auto dtype = static_cast<DType>(port.dtype());
        if (!(is_int(dtype) || dtype == DType::Bool) || port.list_depth() > 0)
          return wrong("an input that is no array of integers");
        out_.elements.push_back({instr.a, instr.b});
      }
      const Signature sig = signature_of(instr.op);
      const uint32_t operands[3] = {instr.a, instr.b, instr.c};
      for (uint8_t k = 0; k < sig.reads; ++k)
        if (operands[k] >= out_.num_symbols || types_[operands[k]] == Type::Unwritten)
          return wrong("reads a symbol before it is written");
      Type result = sig.result;
      if (instr.op == SymbolOp::Select) {
        if (types_[instr.a] != Type::Integer || types_[instr.b] != types_[instr.c]) return wrong("types");
        result = types_[instr.b];
      } else {
        for (uint8_t k = 0; k < sig.reads; ++k)
          if (types_[operands[k]] != sig.operand) return wrong("types");
      }
      types_[instr.dst] = result;
      written_at_[instr.dst] = i;
      out_.shape.push_back(instr);
    }
    return ok();
  }

  bool is_integer(uint32_t symbol) const { return symbol < types_.size() && types_[symbol] == Type::Integer; }

  Status read_checks() {
    for (uint32_t i = 0; i < length_of(in_.checks()); ++i) {
      const fbp::Check& c = *in_.checks()->Get(i);
      at_ = {"check", i};
      if (c.after() > out_.shape.size() || !is_integer(c.condition()) || written_at_[c.condition()] >= c.after())
        return wrong("condition");
      if (c.message()->size() > kMaxTextLen) return wrong("message longer than 4096 bytes");
      out_.checks.push_back({c.condition(), c.after(), shown(*c.message())});
    }
    std::stable_sort(out_.checks.begin(), out_.checks.end(),
                     [](const Check& a, const Check& b) { return a.after < b.after; });
    return ok();
  }

  static std::optional<DType> dtype_of(uint8_t number) {
    if (number == 0 || number > static_cast<uint8_t>(kLastDType)) return std::nullopt;
    return static_cast<DType>(number);
  }

  Status read_buffers() {
    out_.arena_bytes = in_.arena_bytes();
    bool uses_arena = false;
    for (uint32_t i = 0; i < length_of(in_.buffers()); ++i) {
      const fbp::Buffer& b = *in_.buffers()->Get(i);
      at_ = {"buffer", i};
      const auto kind = static_cast<uint8_t>(b.kind());
      const auto dtype = dtype_of(b.dtype());
      if (kind == 0 || kind > kLastBufferKind) return wrong("kind");
      if (!dtype || bytes_of(*dtype) == 0) return wrong("element type");
      if (!is_integer(b.bytes())) return wrong("length is not an integer symbol");
      Buffer buffer{static_cast<BufferKind>(kind), *dtype, b.index(), b.copy(), b.bytes(), b.offset()};
      switch (buffer.kind) {
        case BufferKind::None: break;
        case BufferKind::Input:
          if (buffer.index >= length_of(in_.inputs())) return wrong("no such input");
          break;
        case BufferKind::Output:
        case BufferKind::OutputPart:
          if (buffer.index >= length_of(in_.outputs())) return wrong("no such output");
          if (buffer.kind == BufferKind::OutputPart && !is_integer(buffer.offset)) return wrong("offset is not an integer symbol");
          break;
        case BufferKind::Constant: {
          const auto length = context_.constant_bytes(buffer.index, buffer.copy);
          if (!length) return wrong("no such tensor copy");
          buffer.constant_bytes = *length;
          break;
        }
        case BufferKind::Arena:
          if (!is_integer(buffer.offset)) return wrong("offset is not an integer symbol");
          uses_arena = true;
          break;
        case BufferKind::State:
          if (derives_) return wrong("derived constants do not depend on states");
          if (buffer.index >= kMaxStates) return wrong("no such state, the last is 4095");
          break;
        case BufferKind::Derived:
          if (buffer.index >= plan_.derived.size()) return wrong("no such derived constant");
          buffer.constant_bytes = plan_.derived[buffer.index];
          buffer.derives = derives_;
          break;
      }
      out_.buffers.push_back(buffer);
    }
    // A function without symbols has no arena and needs no number for its size.
    if ((uses_arena || (out_.num_symbols > 0 && !is_program())) && !is_integer(out_.arena_bytes)) return bad("size of the arena");
    return ok();
  }

  Status read_ports(const flatbuffers::Vector<flatbuffers::Offset<fbp::Port>>* in, BufferKind kind,
                    std::vector<Port>& out) {
    std::unordered_set<std::string_view> names;
    for (uint32_t i = 0; i < length_of(in); ++i) {
      const fbp::Port& p = *in->Get(i);
      at_ = {kind == BufferKind::Input ? "input" : "output", i};
      const auto dtype = dtype_of(p.dtype());
      if (!is_name(*p.name())) return wrong("its name is none, or too long");
      const bool is_string = dtype == DType::Str && is_program();
      if (!dtype || (bytes_of(*dtype) == 0 && !is_string)) return wrong("element type");
      if (length_of(p.shape()) > format::kMaxRank || p.rank() > format::kMaxRank) return wrong("too many axes, at most 8 are read");
      Port port{p.name()->str(), *dtype, p.buffer(), {}};
      if (!names.insert({p.name()->c_str(), p.name()->size()}).second) return wrong("its name is there twice");
      const bool is_input = kind == BufferKind::Input, is_list = p.list_depth() > 0;
      if (is_program()) {
        port.list_depth = p.list_depth();
        port.value = is_input ? i : p.value();
        port.rank = p.rank();
        port.buffer = 0;
        if (port.list_depth > kMaxListDepth || (is_list || is_input ? p.rank() > 0 : false) ||
            (is_list || !is_input ? length_of(p.shape()) > 0 : false))
          return wrong("neither an array nor a list");
      } else {
        if (is_list || p.rank() > 0) return wrong("only programs have such");
        if (port.buffer >= out_.buffers.size()) return wrong("no such buffer");
        const Buffer& b = out_.buffers[port.buffer];
        if (b.kind != kind || b.index != i || b.dtype != *dtype) return wrong("its buffer is another one");
      }
      for (uint32_t k = 0; k < length_of(p.shape()); ++k) {
        if (!is_integer(p.shape()->Get(k))) return wrong("extent is not an integer symbol");
        port.shape.push_back(p.shape()->Get(k));
      }
      out.push_back(std::move(port));
    }
    return ok();
  }

  Status read_body() {
    out_.body.reserve(length_of(in_.body()));
    for (uint32_t i = 0; i < length_of(in_.body()); ++i) {
      const fbp::Instr& in = *in_.body()->Get(i);
      Instr instr;
      if (in.name()) instr.name = shown(*in.name());
      at_ = {"instruction", i, instr.name};
      const auto op = static_cast<uint8_t>(in.op());
      if (op == 0 || op > kLastInstrOp) return wrong("operation");
      if (length_of(in.buffers()) > kMaxOperands || length_of(in.scalars()) > kMaxOperands)
        return wrong("too many operands, at most 4096 are read");
      instr.op = static_cast<InstrOp>(op);
      instr.after = in.after() == UINT32_MAX ? i : in.after();
      if (instr.after > i) return wrong("waits for an instruction that comes later");
      instr.fill = static_cast<uint8_t>(in.imm());
      for (uint32_t k = 0; k < length_of(in.buffers()); ++k) {
        if (in.buffers()->Get(k) >= out_.buffers.size()) return wrong("no such buffer");
        instr.buffers.push_back(in.buffers()->Get(k));
      }
      for (uint32_t k = 0; k < length_of(in.scalars()); ++k) {
        if (!is_integer(in.scalars()->Get(k))) return wrong("scalar is not an integer symbol");
        instr.scalars.push_back(in.scalars()->Get(k));
      }
      switch (instr.op) {
        case InstrOp::None: break;
        case InstrOp::Launch:
          if (in.index() >= context_.num_kernels) return wrong("no such kernel");
          if (!is_integer(in.tiles())) return wrong("tile count is not an integer symbol");
          instr.kernel = in.index();
          instr.tiles = in.tiles();
          instr.work = in.work();
          if (instr.work != kNoSymbol && !is_integer(instr.work)) return wrong("work is not an integer symbol");
          instr.scratch = in.scratch();
          if (instr.scratch != kNoSymbol && !is_integer(instr.scratch)) return wrong("scratch is not an integer symbol");
          MLC_RETURN_IF_ERROR(read_figures(in, instr));
          MLC_RETURN_IF_ERROR(read_cuts(in, instr));
          break;
        case InstrOp::Copy:
          if (instr.buffers.size() != 2 || !out_.buffers[instr.buffers[0]].writable()) return wrong("operands");
          break;
        case InstrOp::Fill:
          if (instr.buffers.size() != 1 || !out_.buffers[instr.buffers[0]].writable()) return wrong("operands");
          break;
      }
      out_.body.push_back(std::move(instr));
    }
    return ok();
  }

  Status read_figures(const fbp::Instr& in, Instr& instr) {
    instr.operations = in.operations();
    instr.read = in.read();
    instr.written = in.written();
    instr.of_bytes = in.of_bytes();
    for (const Symbol s : {instr.operations, instr.read, instr.written})
      if (s != kNoSymbol && !is_integer(s)) return wrong("a figure for profiles is not an integer symbol");
    return ok();
  }

  Status read_cuts(const fbp::Instr& in, Instr& instr) {
    if (length_of(in.cut()) > kMaxCuts) return wrong("too many cuts, at most 3 are read");
    for (uint32_t k = 0; k < length_of(in.cut()); ++k) {
      const fbp::Cut& cut = *in.cut()->Get(k);
      const bool again = std::any_of(instr.cuts.begin(), instr.cuts.end(), [&](const Cut& c) { return c.scalar == cut.scalar(); });
      if (cut.scalar() >= instr.scalars.size() || again) return wrong("no scalar of its own for a cut");
      if (!is_integer(cut.units()) || !is_integer(cut.bytes())) return wrong("size of a cut is not an integer symbol");
      instr.cuts.push_back({cut.units(), cut.scalar(), cut.bytes()});
    }
    return ok();
  }

  // What the operands mean is check_programs' concern.
  Status read_steps() {
    out_.num_values = in_.num_values();
    out_.steps.resize(length_of(in_.steps()));
    for (uint32_t i = 0; i < out_.steps.size(); ++i) {
      const fbp::Step& in = *in_.steps()->Get(i);
      Step& step = out_.steps[i];
      at_ = {"step", i};
      if (in.name()) step.name = shown(*in.name());
      const auto op = static_cast<uint8_t>(in.op());
      if (op == 0 || op > kLastStepOp) return wrong("operation");
      step.op = static_cast<StepOp>(op);
      const auto copy = [](const flatbuffers::Vector<uint32_t>* from, std::vector<uint32_t>& to) {
        to.resize(length_of(from));
        for (uint32_t k = 0; k < to.size(); ++k) to[k] = from->Get(k);
        return to.size() <= kMaxOperands;
      };
      if (!copy(in.functions(), step.functions) || !copy(in.inputs(), step.inputs) || !copy(in.outputs(), step.outputs))
        return wrong("too many operands, at most 4096 are read");
      step.carried = in.carried();
      step.axis = in.axis();
      step.new_axis = in.new_axis();
      step.drop_axis = in.drop_axis();
      step.max_cuts = in.max_cuts();
      step.min_letters = in.min_letters();
      step.between = in.between();
      const auto change = static_cast<uint8_t>(in.case_change());
      if (change > kLastCaseChange) return wrong("change of case");
      step.case_change = static_cast<CaseChange>(change);
      step.match_case = in.match_case();
      step.integers = in.integers();
      step.dtype = dtype_of(in.dtype()).value_or(DType::None);
      step.list_depth = in.list_depth();
      if (step.op != StepOp::Host) continue;
      if (!in.service() || !is_name(*in.service())) return bad("step {}: name of a service", i);
      step.service = in.service()->str();
      if (in.options()) step.options = in.options()->str();
      // Like structs, 8-byte numbers in a vector may lie at any multiple of four.
      step.results.resize(length_of(in.results()));
      if (!step.results.empty())
        std::memcpy(step.results.data(), in.results()->Data(), step.results.size() * sizeof(int64_t));
    }
    return ok();
  }

  Status wrong(const char* what) const {
    const bool named = !at_.name.empty();
    return bad("{} {}{}{}{}: {}", at_.list, at_.index, named ? " (" : "", at_.name, named ? ")" : "", what);
  }

  // The item that is being read.
  struct Place {
    const char* list;
    uint32_t index;
    std::string_view name = {};
  };

  const fbp::Function& in_;
  const Plan& plan_;
  const bool derives_;
  const PlanContext& context_;
  Budget& budget_;
  Function out_;
  Place at_{};
  std::vector<Type> types_;
  std::vector<uint32_t> written_at_;
};

}  // namespace

std::optional<uint32_t> Plan::find(std::string_view name) const {
  for (uint32_t i = 0; i < functions.size(); ++i)
    if (functions[i].name == name) return i;
  return std::nullopt;
}

namespace {

// What functions share: the sizes of derived constants, and the number of who computes them.
Status read_derived(const fbp::Plan& in, Budget& budget, Plan& plan) {
  if (!budget.afford(length_of(in.derived()), sizeof(uint64_t))) return bad("plan: its parts share bytes");
  plan.derived.resize(length_of(in.derived()));
  // Like structs, 8-byte numbers in a vector may lie at any multiple of four.
  if (!plan.derived.empty()) std::memcpy(plan.derived.data(), in.derived()->Data(), plan.derived.size() * sizeof(uint64_t));
  uint64_t total = 0;
  for (const uint64_t bytes : plan.derived) {
    const auto sum = checked_add(total, bytes);
    if (!sum || *sum > kMaxDerivedBytes) return bad("plan: derived constants are too large, at most {} bytes are read", kMaxDerivedBytes);
    total = *sum;
  }
  plan.derive = in.derive();
  if (plan.derived.empty() ? plan.derive != kNoFunction : plan.derive >= length_of(in.functions()))
    return bad("plan: no function derives the constants, or one derives none");
  return ok();
}

// Who computes constants does so once, for whoever needs them.
Status check_not_called(const Plan& plan) {
  for (const Function& f : plan.functions)
    for (const Step& s : f.steps)
      if (std::find(s.functions.begin(), s.functions.end(), plan.derive) != s.functions.end())
        return bad("plan: '{}' calls the function that derives constants", f.name);
  return ok();
}

}  // namespace

Result<Plan> decode_plan(Bytes bytes, const PlanContext& context) {
  if (bytes.size() < 16 || bytes.size() > format::kMaxPlanLen)
    return bad("plan: {} bytes, 16 to {} expected", bytes.size(), format::kMaxPlanLen);
  std::vector<std::byte> aligned;  // what the verifier says of alignment counts from an aligned start
  if (reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment != 0) {
    aligned.assign(bytes.begin(), bytes.end());
    bytes = aligned;
  }
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size(), format::kMaxTableDepth, format::kMaxTables * 4);
  if (!fbp::PlanBufferHasIdentifier(data) || !fbp::VerifyPlanBuffer(verifier))
    return bad("plan: not a well-formed plan table");
  const fbp::Plan& in = *fbp::GetPlan(data);
  if (in.format() != kPlanFormat)
    return bad("plan: format {}, this version reads {}", in.format(), kPlanFormat);
  if (in.module_abi() == 0 || in.module_abi() > MLRUN_MODULE_ABI) return bad("plan: kernel interface is newer");
  if (length_of(in.functions()) == 0 || length_of(in.functions()) > kMaxFunctions)
    return bad("plan: number of functions is {}, 1 to {} expected", length_of(in.functions()), kMaxFunctions);
  Plan plan;
  Budget budget(bytes.size());
  MLC_RETURN_IF_ERROR(read_derived(in, budget, plan));
  for (const fbp::Function* f : *in.functions()) {
    auto function = FunctionDecoder(*f, plan, plan.functions.size() == plan.derive, context, budget).decode();
    if (!function) return std::move(function).status().note("plan: " + format::quoted({f->name()->c_str(), f->name()->size()}));
    if (!plan.functions.empty() && plan.functions.back().name >= function->name)
      return bad("plan: functions are not sorted by name");
    for (const Buffer& b : function->buffers)
      if (b.kind == BufferKind::State) plan.num_states = std::max(plan.num_states, b.index + 1);
    plan.functions.push_back(std::move(*function));
  }
  MLC_RETURN_IF_ERROR(check_programs(plan));
  if (plan.derive != kNoFunction) MLC_RETURN_IF_ERROR(check_not_called(plan));
  return plan;
}

}  // namespace mlc::exec
