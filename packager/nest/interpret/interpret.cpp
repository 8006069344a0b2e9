#include "packager/nest/interpret/interpret.h"

#include <algorithm>

#include "packager/nest/interpret/interpreter.h"
#include "packager/nest/proc.h"

namespace mlc::nest {

Interpreter::Interpreter(const Function& function, const InterpretOptions& options, int body_depth)
    : function_(function), options_(options), body_depth_(body_depth) {
  evaluator_.function = &function_;
  evaluator_.arrays = &arrays_;
  evaluator_.symbols = &symbols_;
  evaluator_.work = options.work;
}

namespace {

constexpr size_t kNone = SIZE_MAX;
constexpr double kWorkOfStatement = 5e3;  // compiling it, memory for what it writes

void each_written(const Statement& s, const std::function<void(uint32_t)>& visit) {
  if (s.nest)
    for (const Write& w : s.nest->writes) visit(w.array);
  const std::vector<uint32_t>* list = s.proc ? &s.proc->writes : s.control ? &s.control->outputs : nullptr;
  if (list)
    for (uint32_t array : *list)
      if (array != kNoArray) visit(array);
}

}  // namespace

Result<std::vector<Tensor>> Interpreter::run(std::vector<Tensor> inputs, const Symbols& around) {
  MLC_RETURN_IF_ERROR(start());
  symbols_ = around;
  MLC_RETURN_IF_ERROR(bind(std::move(inputs)));
  checked_.assign(function_.checks.size(), false);
  MLC_RETURN_IF_ERROR(checks());
  MLC_RETURN_IF_ERROR(statements(0, kNone));
  return outputs();
}

Result<std::vector<Tensor>> Interpreter::run_again(size_t first, size_t changed) {
  for (size_t k = first; k < function_.body.size(); ++k) each_written(function_.body[k], [&](uint32_t array) {
      used_bytes_ -= std::min<uint64_t>(used_bytes_, arrays_[array].bytes.size());
      arrays_[array] = Tensor();
    });
  evaluator_.fault = Fault();
  has_changed_ = false;
  MLC_RETURN_IF_ERROR(statements(first, changed));
  return outputs();
}

Status Interpreter::statements(size_t first, size_t changed) {
  for (size_t i = first; i < function_.body.size(); ++i) {
    const Statement& s = function_.body[i];
    if (!spend(kWorkOfStatement)) return too_late(s.source);
    MLC_RETURN_IF_ERROR(s.nest ? nest(s) : s.proc ? proc(s) : control(s));
    if (s.control) MLC_RETURN_IF_ERROR(checks());
    if (i == changed) each_written(s, [&](uint32_t array) { has_changed_ |= change(arrays_[array]); });
    if (options_.after_statement && body_depth_ == 0) options_.after_statement(i, arrays_);
  }
  return ok();
}

Result<std::vector<Tensor>> Interpreter::outputs() const {
  std::vector<Tensor> outputs;
  for (uint32_t o : function_.outputs) {
    if (arrays_[o].dtype == DType::None) return Status(Code::Internal, "output '" + function_.arrays[o].name + "' is never written");
    outputs.push_back(arrays_[o]);
  }
  return outputs;
}

bool Interpreter::spend(double work) {
  if (!options_.work) return true;
  *options_.work -= work;
  return *options_.work >= 0;
}

// Constants are there from the first run on, everything else is as new.
Status Interpreter::start() {
  if (body_depth_ > kMaxDepth) return Status(Code::Resource, "bodies are nested deeper than " + std::to_string(kMaxDepth));
  const bool first = arrays_.empty();
  arrays_.resize(function_.arrays.size());
  if (first) constant_bytes_ = 0, used_bytes_ = 0;
  else used_bytes_ = constant_bytes_;
  for (size_t i = 0; i < function_.arrays.size(); ++i) {
    if (function_.arrays[i].kind != Array::Kind::Const) arrays_[i] = Tensor();
    else if (first) MLC_RETURN_IF_ERROR(constant(i));
  }
  if (first) constant_bytes_ = used_bytes_;
  return ok();
}

// Each check once, as soon as all its symbols have values: those that a control sets come late.
Status Interpreter::checks() {
  for (size_t k = 0; k < function_.checks.size(); ++k) {
    if (checked_[k]) continue;
    bool known = true;
    ir::walk(function_.checks[k].condition, [&](const ir::Expr* e) { known = known && (e->op != ir::Op::Sym || symbols_.count(e->sym)); });
    if (!known) continue;
    checked_[k] = true;
    bool holds = evaluator_.truth(function_.checks[k].condition);
    MLC_RETURN_IF_ERROR(failed("check"));
    if (!holds) return Status(Code::InputMismatch, function_.checks[k].message);
  }
  return ok();
}

Status Interpreter::too_late(const std::string& where) const {
  return Status(Code::Cancelled, "there is too much work for the interpreter, it got as far as '" + where + "'");
}

Status Interpreter::failed(const std::string& where) {
  if (!evaluator_.fault.failed) return ok();
  if (evaluator_.fault.late) return too_late(where);
  return Status(evaluator_.fault.bug ? Code::Internal : Code::InputMismatch, where + ": " + evaluator_.fault.message);
}

Result<std::vector<Tensor>> interpret(const Function& f, const std::vector<Tensor>& inputs, const InterpretOptions& options) {
  return Interpreter(f, options).run(inputs, options.symbols);
}

// A later statement may write another part of an array, or add to it: then all from its first writer on is repeated.
size_t first_to_repeat(const Function& f, size_t statement) {
  std::vector<size_t> first_writer(f.arrays.size(), kNone);
  for (size_t k = 0; k < f.body.size(); ++k) each_written(f.body[k], [&](uint32_t array) { first_writer[array] = std::min(first_writer[array], k); });
  size_t first = statement;
  for (size_t k = f.body.size(); k-- > first;) each_written(f.body[k], [&](uint32_t array) { first = std::min(first, first_writer[array]); });
  return first;
}

Status interpret_changed(const Function& f, const std::vector<Tensor>& inputs, const InterpretOptions& options, std::span<const size_t> statements,
                         const std::function<bool(size_t statement, const Result<std::vector<Tensor>>& outputs)>& visit) {
  Interpreter interpreter(f, options);
  auto first = interpreter.run(inputs, options.symbols);
  if (!first.ok()) return std::move(first).status();
  // From the last: what comes before is as it was.
  for (size_t k = statements.size(); k-- > 0;) {
    const auto outputs = interpreter.run_again(first_to_repeat(f, statements[k]), statements[k]);
    if (interpreter.has_changed() && !visit(statements[k], outputs)) break;
  }
  return ok();
}

}  // namespace mlc::nest
