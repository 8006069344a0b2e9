#include "packager/plan/print.h"

#include <bit>
#include <cstdio>
#include <unordered_map>

namespace mlc::plan {

using namespace exec;

namespace {

std::string quoted(const std::string& text) {
  std::string s = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') s += '\\';
    s += c;
  }
  return s + "\"";
}
std::string symbol(Symbol s) { return "$" + std::to_string(s); }
std::string value_name(uint32_t v) { return v == kNoValue ? "-" : "%" + std::to_string(v); }
std::string buffer(uint32_t b) { return "#" + std::to_string(b); }

template <class List, class One>
std::string joined(const List& list, One one) {
  std::string s;
  for (uint32_t item : list) s += (s.empty() ? "" : ", ") + one(item);
  return s;
}

std::string joined_bytes(const std::vector<uint64_t>& list) {
  std::string s;
  for (const uint64_t bytes : list) s += " " + std::to_string(bytes);
  return s;
}

class Printer {
 public:
  Printer(const Plan& plan, const Function& f) : plan_(plan), f_(f) {
    for (const SymbolInstr& i : f.shape)
      if (i.op == SymbolOp::Const) constants_[i.dst] = i.imm;
  }

  std::string run() {
    out_ = "function " + quoted(f_.name) + " {\n";
    for (const SymbolInstr& i : f_.shape) instruction(i);
    for (const Check& c : f_.checks)
      out_ += "  check " + symbol(c.condition) + " after " + std::to_string(c.after) + " " + quoted(c.message) + "\n";
    for (size_t i = 0; i < f_.buffers.size(); ++i) declare(static_cast<uint32_t>(i), f_.buffers[i]);
    for (const Port& p : f_.inputs) port("input", p);
    for (const Port& p : f_.outputs) port("output", p);
    if (!f_.is_program()) out_ += "  arena " + symbol(f_.arena_bytes) + value({f_.arena_bytes}) + "\n";
    for (uint32_t i = 0; i < f_.body.size(); ++i) launch(f_.body[i], i);
    for (const Step& s : f_.steps) step(s);
    return out_ + "}\n";
  }

 private:
  // "  ; 64, 3": the values of symbols that are constants.
  std::string value(const std::vector<Symbol>& symbols) const {
    std::string s;
    bool any = false;
    for (Symbol one : symbols) {
      const auto found = constants_.find(one);
      any = any || found != constants_.end();
      s += (s.empty() ? "  ; " : ", ") + (found == constants_.end() ? symbol(one) : std::to_string(found->second));
    }
    return any ? s : "";
  }

  void instruction(const SymbolInstr& i) {
    out_ += "  " + symbol(i.dst) + " = " + std::string(kSymbolOpWords[static_cast<size_t>(i.op)]);
    const uint32_t operands[] = {i.a, i.b, i.c};
    for (int k = 0; k < operands_of(i.op); ++k) out_ += " " + symbol(operands[k]);
    if (i.op == SymbolOp::InputDim || i.op == SymbolOp::InputElement) out_ += " " + std::to_string(i.a) + " " + std::to_string(i.b);
    if (i.op == SymbolOp::Const || i.op == SymbolOp::FConst) out_ += " " + std::to_string(i.imm);
    if (i.op == SymbolOp::FConst) {
      char text[40];
      std::snprintf(text, sizeof text, "  ; %.17g", std::bit_cast<double>(i.imm));
      out_ += text;
    }
    out_ += "\n";
  }

  void declare(uint32_t number, const Buffer& b) {
    out_ += "  buffer " + buffer(number) + " " + std::string(name_of(b.dtype)) + " bytes " + symbol(b.bytes);
    std::vector<Symbol> symbols{b.bytes};
    switch (b.kind) {
      case BufferKind::None: out_ += " none"; break;
      case BufferKind::Input: out_ += " input " + std::to_string(b.index); break;
      case BufferKind::Output: out_ += " output " + std::to_string(b.index); break;
      case BufferKind::Constant:
        out_ += " constant " + std::to_string(b.index) + " copy " + std::to_string(b.copy);
        break;
      case BufferKind::OutputPart:
        out_ += " output " + std::to_string(b.index) + " at " + symbol(b.offset);
        symbols.push_back(b.offset);
        break;
      case BufferKind::Arena:
        out_ += " arena " + symbol(b.offset);
        symbols.push_back(b.offset);
        break;
      case BufferKind::State: out_ += " state " + std::to_string(b.index); break;
      case BufferKind::Derived: out_ += " derived " + std::to_string(b.index); break;
    }
    out_ += value(symbols) + "\n";
  }

  void port(const std::string& word, const Port& p) {
    out_ += "  " + word + " " + quoted(p.name) + " " + std::string(name_of(p.dtype));
    if (p.list_depth > 0) out_ += " list " + std::to_string(p.list_depth);
    else if (f_.is_program() && word == "output") out_ += " rank " + std::to_string(p.rank);
    else out_ += " [" + joined(p.shape, symbol) + "]";
    out_ += " " + (f_.is_program() ? value_name(p.value) : buffer(p.buffer)) + value(p.shape) + "\n";
  }

  void step(const Step& s) {
    out_ += "  " + joined(s.outputs, value_name) + (s.outputs.empty() ? "" : " = ") +
            std::string(kStepWords[static_cast<size_t>(s.op)]);
    for (uint32_t f : s.functions) out_ += " " + quoted(plan_.functions[f].name);
    settings(s);
    out_ += " (" + joined(s.inputs, value_name) + ")" + (s.name.empty() ? "" : " " + quoted(s.name)) + "\n";
  }

  // What the operation is told beside its operands.
  void settings(const Step& s) {
    if (s.op == StepOp::Loop) out_ += " carried " + std::to_string(s.carried);
    out_ += text_of(static_cast<const StepSettings&>(s));
    if (s.op == StepOp::ListMake && s.inputs.empty()) out_ += " " + std::string(name_of(s.dtype)) + " list " + std::to_string(s.list_depth);
    if (s.op == StepOp::Host) host(s);
  }

  void host(const Step& s) {
    out_ += " " + quoted(s.service) + " " + quoted(s.options);
    for (size_t at = 0; at < s.results.size(); at += 2 + static_cast<size_t>(s.results[at + 1])) {
      out_ += std::string(at ? ", " : " ") + std::string(name_of(static_cast<DType>(s.results[at]))) + " [";
      for (int64_t k = 0; k < s.results[at + 1]; ++k)
        out_ += (k ? ", " : "") + std::to_string(s.results[at + 2 + static_cast<size_t>(k)]);
      out_ += "]";
    }
  }

  void launch(const Instr& i, uint32_t number) {
    std::vector<Symbol> symbols;
    if (i.op == InstrOp::Launch) {
      out_ += "  launch " + std::to_string(i.kernel) + " (" + joined(i.buffers, buffer) + ") (" + joined(i.scalars, symbol) +
              ") tiles " + symbol(i.tiles);
      symbols = {i.tiles};
      for (const Cut& cut : i.cuts) {
        out_ += " cut " + std::to_string(cut.scalar) + " " + symbol(cut.units) + " " + symbol(cut.bytes);
        symbols.insert(symbols.end(), {cut.units, cut.bytes});
      }
      if (i.turns) {
        out_ += " turns " + std::to_string(i.turns->scalar) + " " + symbol(i.turns->turns) + " parts " + std::to_string(i.turns->part_scalar) + " " +
                symbol(i.turns->parts);
        symbols.insert(symbols.end(), {i.turns->turns, i.turns->parts});
      }
      const auto optional = [&](const char* word, Symbol s) {
        if (s == kNoSymbol) return;
        out_ += std::string(" ") + word + " " + symbol(s);
        symbols.push_back(s);
      };
      optional("work", i.work);
      optional("scratch", i.scratch);
      optional("operations", i.operations);
      optional("read", i.read);
      optional("written", i.written);
      if (i.of_bytes) out_ += " of_bytes";
      optional("steps", i.steps);
    } else {
      out_ += "  copy (" + joined(i.buffers, buffer) + ")";
    }
    if (i.after < number) out_ += " after " + std::to_string(i.after);
    if (!i.name.empty()) out_ += " " + quoted(i.name);
    out_ += value(symbols) + "\n";
  }

  const Plan& plan_;
  const Function& f_;
  std::string out_;
  std::unordered_map<Symbol, int64_t> constants_;
};

}  // namespace

std::string print(const Plan& plan) {
  std::string out = "plan\n";
  if (plan.derive < plan.functions.size()) out += "derive " + quoted(plan.functions[plan.derive].name) + joined_bytes(plan.derived) + "\n";
  for (const Function& f : plan.functions) out += Printer(plan, f).run();
  return out;
}

}  // namespace mlc::plan
