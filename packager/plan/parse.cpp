#include "packager/plan/text.h"

#include <algorithm>
#include <charconv>

#include "packager/ir/text/text.h"
#include "packager/plan/print.h"

namespace mlc::plan {
namespace {

using namespace exec;
using ir::Lexer;

class Parser {
 public:
  explicit Parser(std::string_view text) : in_(text) {}

  Result<Plan> run() {
    Plan plan;
    MLC_RETURN_IF_ERROR(in_.expect("plan"));
    std::string derive;
    if (in_.accept("derive")) {
      MLC_RETURN_IF_ERROR(string(derive));
      while (in_.peek().kind == Lexer::Token::Number) MLC_RETURN_IF_ERROR(number(plan.derived.emplace_back()));
    }
    while (in_.peek().kind != Lexer::Token::End) {
      MLC_RETURN_IF_ERROR(in_.expect("function"));
      f_ = {};
      program_ = false;
      values_ = 0;
      MLC_RETURN_IF_ERROR(string(f_.name));
      MLC_RETURN_IF_ERROR(in_.expect("{"));
      while (!in_.accept("}")) MLC_RETURN_IF_ERROR(line());
      f_.num_symbols = static_cast<uint32_t>(f_.shape.size());
      // As many values as any number in the text says: whether they are written is for the verifier.
      if (program_) f_.num_values = values_;
      for (const Buffer& b : f_.buffers)
        if (b.kind == BufferKind::State && b.index < UINT32_MAX) plan.num_states = std::max(plan.num_states, b.index + 1);
      plan.functions.push_back(std::move(f_));
      ++functions_;
    }
    if (!plan.derived.empty()) {
      const auto found = plan.find(derive);
      if (!found) return Status(Code::Malformed, "no function '" + derive + "'");
      plan.derive = *found;
    }
    for (const Callee& c : callees_) {
      const auto found = plan.find(c.name);
      if (!found) return Status(Code::Malformed, "no function '" + c.name + "'");
      plan.functions[c.function].steps[c.step].functions.push_back(*found);
    }
    return plan;
  }

 private:
  template <class T>
  Status number(T& out) {
    const bool negative = in_.accept("-");
    const std::string digits = in_.peek().kind == Lexer::Token::Number ? in_.next().text : std::string();
    const std::string text = (negative ? "-" : "") + digits;
    const auto r = std::from_chars(text.data(), text.data() + text.size(), out);
    if (digits.empty() || r.ec != std::errc() || r.ptr != text.data() + text.size())
      return in_.error("expected a number in range, found '" + (digits.empty() ? in_.peek().text : text) + "'");
    return ok();
  }
  Status symbol(Symbol& out) {
    MLC_RETURN_IF_ERROR(in_.expect("$"));
    return number(out);
  }
  Status buffer(uint32_t& out) {
    MLC_RETURN_IF_ERROR(in_.expect("#"));
    return number(out);
  }
  // "%3", or "-" for none.
  Status value(uint32_t& out) {
    program_ = true;
    out = kNoValue;
    if (in_.accept("-")) return ok();
    MLC_RETURN_IF_ERROR(in_.expect("%"));
    MLC_RETURN_IF_ERROR(number(out));
    if (out >= kMaxValue) return in_.error("no such value");
    values_ = std::max(values_, out + 1);
    return ok();
  }
  Status string(std::string& out) {
    if (in_.peek().kind != Lexer::Token::String) return in_.error("expected a text in quotes, found '" + in_.peek().text + "'");
    out = in_.next().text;
    return ok();
  }
  Status dtype(DType& out) {
    const auto found = dtype_named(in_.peek().text);
    if (!found) return in_.error("no element type '" + in_.peek().text + "'");
    in_.next();
    out = *found;
    return ok();
  }
  Status list(const char* open, const char* close, std::vector<uint32_t>& out, Status (Parser::*one)(uint32_t&)) {
    MLC_RETURN_IF_ERROR(in_.expect(open));
    for (bool first = true; !in_.accept(close); first = false) {
      if (!first) MLC_RETURN_IF_ERROR(in_.expect(","));
      MLC_RETURN_IF_ERROR((this->*one)(out.emplace_back()));
    }
    return ok();
  }

  Status line() {
    if (in_.is("$")) return instruction();
    if (in_.accept("check")) return check();
    if (in_.accept("buffer")) return declare();
    if (in_.accept("input")) return port(f_.inputs.emplace_back());
    if (in_.accept("output")) return port(f_.outputs.emplace_back());
    if (in_.accept("arena")) return symbol(f_.arena_bytes);
    if (in_.is("%") || in_.is("-")) return step();
    for (uint8_t op = 1; op <= kLastStepOp; ++op)
      if (in_.is(kStepWords[op])) return step();
    for (const auto& [word, op] : {std::pair{"launch", InstrOp::Launch}, std::pair{"copy", InstrOp::Copy}})
      if (in_.accept(word)) return launch(op);
    return in_.error("unexpected '" + in_.peek().text + "'");
  }

  Status instruction() {
    SymbolInstr i;
    MLC_RETURN_IF_ERROR(symbol(i.dst));
    MLC_RETURN_IF_ERROR(in_.expect("="));
    const std::string word = in_.next().text;
    for (uint8_t op = 1; op <= kLastSymbolOp; ++op)
      if (kSymbolOpWords[op] == word) i.op = static_cast<SymbolOp>(op);
    if (i.op == SymbolOp::None) return in_.error("no operation '" + word + "'");
    uint32_t* operands[] = {&i.a, &i.b, &i.c};
    for (int k = 0; k < operands_of(i.op); ++k) MLC_RETURN_IF_ERROR(symbol(*operands[k]));
    if (i.op == SymbolOp::InputDim || i.op == SymbolOp::InputElement) {
      MLC_RETURN_IF_ERROR(number(i.a));
      MLC_RETURN_IF_ERROR(number(i.b));
    }
    if (i.op == SymbolOp::Const || i.op == SymbolOp::FConst) MLC_RETURN_IF_ERROR(number(i.imm));
    f_.shape.push_back(i);
    return ok();
  }

  Status check() {
    Check& c = f_.checks.emplace_back();
    MLC_RETURN_IF_ERROR(symbol(c.condition));
    MLC_RETURN_IF_ERROR(in_.expect("after"));
    MLC_RETURN_IF_ERROR(number(c.after));
    return string(c.message);
  }

  Status declare() {
    uint32_t number_of = 0;
    MLC_RETURN_IF_ERROR(buffer(number_of));
    if (number_of != f_.buffers.size()) return in_.error("buffers are numbered in order");
    Buffer& b = f_.buffers.emplace_back();
    MLC_RETURN_IF_ERROR(dtype(b.dtype));
    MLC_RETURN_IF_ERROR(in_.expect("bytes"));
    MLC_RETURN_IF_ERROR(symbol(b.bytes));
    if (in_.accept("arena")) {
      b.kind = BufferKind::Arena;
      return symbol(b.offset);
    }
    for (const auto& [word, kind] : {std::pair{"input", BufferKind::Input}, {"output", BufferKind::Output},
                                     {"constant", BufferKind::Constant}, {"state", BufferKind::State}, {"derived", BufferKind::Derived}})
      if (in_.accept(word)) b.kind = kind;
    if (b.kind == BufferKind::None) return in_.error("no kind of buffer '" + in_.peek().text + "'");
    MLC_RETURN_IF_ERROR(number(b.index));
    if (b.kind == BufferKind::Output && in_.accept("at")) {
      b.kind = BufferKind::OutputPart;
      return symbol(b.offset);
    }
    if (b.kind != BufferKind::Constant) return ok();
    MLC_RETURN_IF_ERROR(in_.expect("copy"));
    return number(b.copy);
  }

  Status port(Port& p) {
    MLC_RETURN_IF_ERROR(string(p.name));
    MLC_RETURN_IF_ERROR(dtype(p.dtype));
    if (in_.accept("list")) MLC_RETURN_IF_ERROR(number(p.list_depth));
    else if (in_.accept("rank")) MLC_RETURN_IF_ERROR(number(p.rank));
    else MLC_RETURN_IF_ERROR(list("[", "]", p.shape, &Parser::symbol));
    return in_.is("%") ? value(p.value) : buffer(p.buffer);
  }

  Status step() {
    Step& s = f_.steps.emplace_back();
    program_ = true;
    if (in_.is("%") || in_.is("-")) {
      do MLC_RETURN_IF_ERROR(value(s.outputs.emplace_back()));
      while (in_.accept(","));
      MLC_RETURN_IF_ERROR(in_.expect("="));
    }
    const std::string word = in_.next().text;
    for (uint8_t op = 1; op <= kLastStepOp; ++op)
      if (kStepWords[op] == word) s.op = static_cast<StepOp>(op);
    if (s.op == StepOp::None) return in_.error("no step '" + word + "'");
    const auto at = static_cast<uint32_t>(f_.steps.size() - 1);
    while (s.op != StepOp::Host && in_.peek().kind == Lexer::Token::String) callees_.push_back({functions_, at, in_.next().text});
    MLC_RETURN_IF_ERROR(settings(s));
    MLC_RETURN_IF_ERROR(list("(", ")", s.inputs, &Parser::value));
    return in_.peek().kind == Lexer::Token::String ? string(s.name) : ok();
  }

  // What the operation is told beside its operands.
  Status settings(Step& s) {
    const auto numbered = [&](const char* word, uint32_t& out) {
      return in_.accept(word) ? number(out) : ok();
    };
    MLC_RETURN_IF_ERROR(numbered("carried", s.carried));
    MLC_RETURN_IF_ERROR(numbered("axis", s.axis));
    s.new_axis = in_.accept("new");
    s.drop_axis = in_.accept("drop");
    MLC_RETURN_IF_ERROR(numbered("cuts", s.max_cuts));
    MLC_RETURN_IF_ERROR(numbered("letters", s.min_letters));
    s.between = in_.accept("between");
    if (in_.accept("lower")) s.case_change = CaseChange::Lower;
    else if (in_.accept("upper")) s.case_change = CaseChange::Upper;
    s.match_case = in_.accept("match_case");
    s.integers = in_.accept("integers");
    if (s.op == StepOp::Host) return host(s);
    if (s.op != StepOp::ListMake || in_.is("(")) return ok();
    MLC_RETURN_IF_ERROR(dtype(s.dtype));
    MLC_RETURN_IF_ERROR(in_.expect("list"));
    return number(s.list_depth);
  }

  Status host(Step& s) {
    MLC_RETURN_IF_ERROR(string(s.service));
    MLC_RETURN_IF_ERROR(string(s.options));
    if (in_.is("(")) return ok();
    do {
      DType t = DType::None;
      MLC_RETURN_IF_ERROR(dtype(t));
      s.results.push_back(static_cast<int64_t>(t));
      const size_t rank = s.results.size();
      s.results.push_back(0);
      MLC_RETURN_IF_ERROR(in_.expect("["));
      for (; !in_.accept("]"); ++s.results[rank]) {
        if (s.results[rank] > 0) MLC_RETURN_IF_ERROR(in_.expect(","));
        MLC_RETURN_IF_ERROR(number(s.results.emplace_back()));
      }
    } while (in_.accept(","));
    return ok();
  }

  Status launch(InstrOp op) {
    Instr& i = f_.body.emplace_back();
    i.op = op;
    if (op == InstrOp::Launch) MLC_RETURN_IF_ERROR(number(i.kernel));
    MLC_RETURN_IF_ERROR(list("(", ")", i.buffers, &Parser::buffer));
    if (op == InstrOp::Launch) {
      MLC_RETURN_IF_ERROR(list("(", ")", i.scalars, &Parser::symbol));
      MLC_RETURN_IF_ERROR(in_.expect("tiles"));
      MLC_RETURN_IF_ERROR(symbol(i.tiles));
      while (in_.accept("cut")) {
        Cut& cut = i.cuts.emplace_back();
        MLC_RETURN_IF_ERROR(number(cut.scalar));
        MLC_RETURN_IF_ERROR(symbol(cut.units));
        MLC_RETURN_IF_ERROR(symbol(cut.bytes));
      }
      if (in_.accept("turns")) {
        Turns& turns = i.turns.emplace();
        MLC_RETURN_IF_ERROR(number(turns.scalar));
        MLC_RETURN_IF_ERROR(symbol(turns.turns));
        MLC_RETURN_IF_ERROR(in_.expect("parts"));
        MLC_RETURN_IF_ERROR(number(turns.part_scalar));
        MLC_RETURN_IF_ERROR(symbol(turns.parts));
      }
      if (in_.accept("work")) MLC_RETURN_IF_ERROR(symbol(i.work));
      if (in_.accept("scratch")) MLC_RETURN_IF_ERROR(symbol(i.scratch));
      if (in_.accept("operations")) MLC_RETURN_IF_ERROR(symbol(i.operations));
      if (in_.accept("read")) MLC_RETURN_IF_ERROR(symbol(i.read));
      if (in_.accept("written")) MLC_RETURN_IF_ERROR(symbol(i.written));
      i.of_bytes = in_.accept("of_bytes");
      if (in_.accept("steps")) MLC_RETURN_IF_ERROR(symbol(i.steps));
    }
    i.after = static_cast<uint32_t>(f_.body.size() - 1);
    if (in_.accept("after")) MLC_RETURN_IF_ERROR(number(i.after));
    return in_.peek().kind == Lexer::Token::String ? string(i.name) : ok();
  }

  // A call, by name until all functions are known.
  struct Callee {
    uint32_t function, step;
    std::string name;
  };
  static constexpr uint32_t kMaxValue = 1u << 20;

  Lexer in_;
  Function f_;
  bool program_ = false;
  uint32_t values_ = 0;     // of f_, as far as it names any
  uint32_t functions_ = 0;  // in front of f_
  std::vector<Callee> callees_;
};

}  // namespace

Result<Plan> parse(std::string_view text) { return Parser(text).run(); }

}  // namespace mlc::plan
