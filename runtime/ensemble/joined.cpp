#include "runtime/ensemble/joined.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/compose.h"

namespace mlc::ensemble {
namespace {

using exec::Buffer;
using exec::BufferKind;
using exec::Function;
using exec::Instr;
using exec::kNoSymbol;
using exec::kNoValue;
using exec::Port;
using exec::Step;
using exec::Symbol;
using exec::SymbolInstr;
using exec::SymbolOp;

constexpr int64_t kAlignment = 256;  // of buffers, on any device

class Joiner {
 public:
  Joiner(const exec::Plan& plan, const Function& program, size_t first, size_t end) : plan_(plan), program_(program), first_(first), end_(end) {}

  Result<Joined> run(std::string name) {
    out_.function.name = std::move(name);
    for (size_t at = first_; at < end_; ++at) MLC_RETURN_IF_ERROR(add(program_.steps[at]));
    place_values();
    return std::move(out_);
  }

 private:
  Function& made() { return out_.function; }

  Symbol emit(SymbolOp op, uint32_t a = 0, uint32_t b = 0, int64_t imm = 0) {
    const Symbol dst = made().num_symbols++;
    made().shape.push_back({op, dst, a, b, 0, imm});
    return dst;
  }

  bool is_made_here(uint32_t value) const { return made_.contains(value); }

  // Whether it has consumers outside.
  bool is_wanted_outside(uint32_t value) const {
    for (const Port& p : program_.outputs)
      if (p.value == value) return true;
    for (size_t at = end_; at < program_.steps.size(); ++at)
      if (std::find(program_.steps[at].inputs.begin(), program_.steps[at].inputs.end(), value) != program_.steps[at].inputs.end()) return true;
    return false;
  }

  // Number among the inputs of what is made.
  uint32_t input_of(uint32_t value) {
    const auto found = std::find(out_.inputs.begin(), out_.inputs.end(), value);
    if (found == out_.inputs.end()) {
      out_.inputs.push_back(value);
      return static_cast<uint32_t>(out_.inputs.size() - 1);
    }
    return static_cast<uint32_t>(found - out_.inputs.begin());
  }

  Status add(const Step& step) {
    const Function& f = plan_.functions[step.functions[0]];
    symbols_.assign(f.num_symbols, 0);
    MLC_RETURN_IF_ERROR(add_symbols(f, step));
    check_extents(f, step);
    add_inputs(f, step);
    add_buffers(f, step);
    add_body(f);
    if (f.num_symbols > 0) arenas_.push_back(symbols_[f.arena_bytes]);
    return ok();
  }

  Symbol of(Symbol s) const { return s == kNoSymbol ? kNoSymbol : s < symbols_.size() ? symbols_[s] : 0; }

  Status add_symbols(const Function& f, const Step& step) {
    size_t check = 0;
    const auto add_checks = [&](size_t done) {
      for (; check < f.checks.size() && f.checks[check].after <= done; ++check)
        made().checks.push_back({of(f.checks[check].condition), made().num_symbols, f.checks[check].message});
    };
    for (size_t k = 0; k < f.shape.size(); ++k) {
      add_checks(k);
      SymbolInstr in = f.shape[k];
      const Symbol old = in.dst;
      if (in.op == SymbolOp::InputDim || in.op == SymbolOp::InputElement) {
        const uint32_t value = step.inputs[in.a];
        if (is_made_here(value)) {
          if (in.op == SymbolOp::InputElement) return Status(Code::Unsupported, "'{}' reads extents from what is computed before it", f.name);
          symbols_[old] = made_.at(value).shape[in.b];
          continue;
        }
        in.a = input_of(value);
        if (in.op == SymbolOp::InputElement) made().elements.push_back({in.a, in.b});
      } else if (in.op != SymbolOp::Const && in.op != SymbolOp::FConst) {
        in.a = of(in.a), in.b = of(in.b), in.c = of(in.c);
      }
      in.dst = symbols_[old] = made().num_symbols++;
      made().shape.push_back(in);
    }
    add_checks(f.shape.size());
    return ok();
  }

  // What is made here has the extents that its reader demands, as a run would find by the array.
  void check_extents(const Function& f, const Step& step) {
    for (size_t i = 0; i < f.inputs.size(); ++i) {
      if (!is_made_here(step.inputs[i])) continue;
      const std::vector<Symbol>& found = made_.at(step.inputs[i]).shape;  // of as many axes: cut_of
      for (size_t axis = 0; axis < found.size(); ++axis) {
        const Symbol wanted = of(f.inputs[i].shape[axis]);
        if (wanted == found[axis]) continue;
        const Symbol same = emit(SymbolOp::Eq, found[axis], wanted);
        made().checks.push_back({same, made().num_symbols, compose("'{}' of '{}' has another extent along axis {}", f.inputs[i].name, f.name, axis)});
      }
    }
  }

  void add_inputs(const Function& f, const Step& step) {
    for (size_t i = 0; i < f.inputs.size(); ++i) {
      if (is_made_here(step.inputs[i])) continue;
      const uint32_t number = input_of(step.inputs[i]);
      for (size_t k = made().inputs.size(); k <= number; ++k) made().inputs.emplace_back();
      if (made().inputs[number].dtype != DType::None) continue;
      Port port = f.inputs[i];
      port.name += "#" + std::to_string(number);
      for (Symbol& s : port.shape) s = of(s);
      port.buffer += static_cast<uint32_t>(made().buffers.size());  // where those of this segment will begin
      made().inputs[number] = std::move(port);
    }
  }

  // Its results are described by values, so that segments behind it find the buffer and the extents.
  void add_buffers(const Function& f, const Step& step) {
    first_buffer_ = static_cast<uint32_t>(made().buffers.size());
    for (size_t i = 0; i < f.outputs.size(); ++i) {
      Made value;
      for (Symbol s : f.outputs[i].shape) value.shape.push_back(of(s));
      const uint32_t number = step.outputs[i];
      if (number != kNoValue && is_wanted_outside(number)) {
        value.output = static_cast<uint32_t>(out_.outputs.size());
        out_.outputs.push_back(number);
        Port port = f.outputs[i];
        port.name += "#" + std::to_string(value.output);
        port.shape = value.shape;
        port.buffer += first_buffer_;
        made().outputs.push_back(std::move(port));
      }
      value.bytes = of(f.buffers[f.outputs[i].buffer].bytes);
      // A result without a consumer has its memory, too.
      outputs_.push_back(number == kNoValue ? kNobody - static_cast<uint32_t>(nobody_++) : number);
      made_.emplace(outputs_.back(), std::move(value));
    }
    for (const Buffer& old : f.buffers) {
      Buffer b = old;
      b.bytes = of(b.bytes);
      b.offset = of(b.offset);
      uint32_t value = kNoValue;
      if (b.kind == BufferKind::Input) value = step.inputs[b.index];
      if (b.kind == BufferKind::Output || b.kind == BufferKind::OutputPart) value = outputs_[outputs_.size() - f.outputs.size() + b.index];
      if (value != kNoValue && is_made_here(value)) {
        const Made& place = made_.at(value);
        if (place.output != kNoOutput) {
          if (b.kind == BufferKind::Input) b.kind = BufferKind::Output;
          b.index = place.output;
        } else {
          passed_.push_back({static_cast<uint32_t>(made().buffers.size()), value, b.kind == BufferKind::OutputPart});
        }
      } else if (b.kind == BufferKind::Input) {
        b.index = input_of(value);
      }
      made().buffers.push_back(b);
    }
  }

  void add_body(const Function& f) {
    const auto before = static_cast<uint32_t>(made().body.size());
    for (Instr in : f.body) {
      for (uint32_t& b : in.buffers) b += first_buffer_;
      for (Symbol& s : in.scalars) s = of(s);
      for (exec::Cut& cut : in.cuts) cut.units = of(cut.units), cut.bytes = of(cut.bytes);
      if (in.turns) in.turns->turns = of(in.turns->turns), in.turns->parts = of(in.turns->parts);
      for (Symbol* s : {&in.tiles, &in.work, &in.scratch, &in.operations, &in.read, &in.written, &in.steps}) *s = of(*s);
      in.after += before;
      made().body.push_back(std::move(in));
    }
  }

  // Values that stay inside lie behind the arenas of the segments, which share one range: none of them outlives its segment.
  void place_values() {
    Symbol end = emit(SymbolOp::Const);
    for (Symbol bytes : arenas_) end = emit(SymbolOp::Max, end, bytes);
    const Symbol alignment = emit(SymbolOp::Const, 0, 0, kAlignment);
    std::map<uint32_t, Symbol> offsets;
    for (const Passed& p : passed_) {
      auto [found, is_new] = offsets.emplace(p.value, 0);
      if (is_new) {
        found->second = emit(SymbolOp::Mul, emit(SymbolOp::CeilDiv, end, alignment), alignment);
        end = emit(SymbolOp::Add, found->second, made_.at(p.value).bytes);
      }
      Buffer& b = made().buffers[p.buffer];
      b.kind = BufferKind::Arena;
      b.offset = p.is_part ? emit(SymbolOp::Add, found->second, b.offset) : found->second;
    }
    made().arena_bytes = end;
  }

  static constexpr uint32_t kNoOutput = UINT32_MAX;
  static constexpr uint32_t kNobody = UINT32_MAX - 1;
  struct Made {  // a value of one of the steps
    std::vector<Symbol> shape;
    Symbol bytes = 0;
    uint32_t output = kNoOutput;
  };
  struct Passed {  // a buffer of a value that stays inside
    uint32_t buffer = 0, value = 0;
    bool is_part = false;
  };

  const exec::Plan& plan_;
  const Function& program_;
  const size_t first_, end_;
  Joined out_;
  std::vector<Symbol> symbols_;  // of the segment at hand, in what is made
  uint32_t first_buffer_ = 0;    // likewise
  std::vector<uint32_t> outputs_;  // values, of all segments one behind the other
  size_t nobody_ = 0;
  std::map<uint32_t, Made> made_;
  std::vector<Passed> passed_;
  std::vector<Symbol> arenas_;
};

}  // namespace

Result<Joined> joined(const exec::Plan& plan, const exec::Function& program, size_t first, size_t end, std::string name) {
  return Joiner(plan, program, first, end).run(std::move(name));
}

}  // namespace mlc::ensemble
