#include "packager/nest/interpret.h"

#include "packager/nest/interpreter.h"

namespace mlc::nest {

Interpreter::Interpreter(const Function& function, const InterpretOptions& options, int body_depth)
    : function_(function), options_(options), body_depth_(body_depth) {
  evaluator_.function = &function_;
  evaluator_.arrays = &arrays_;
  evaluator_.symbols = &symbols_;
  evaluator_.deadline = options.deadline;
}

Result<std::vector<Tensor>> Interpreter::run(std::vector<Tensor> inputs, const Symbols& around) {
  MLC_RETURN_IF_ERROR(start());
  symbols_ = around;
  MLC_RETURN_IF_ERROR(bind(std::move(inputs)));
  checked_.assign(function_.checks.size(), false);
  MLC_RETURN_IF_ERROR(checks());
  for (size_t i = 0; i < function_.body.size(); ++i) {
    const Statement& s = function_.body[i];
    if (has_passed(options_.deadline)) return too_late(s.source);
    MLC_RETURN_IF_ERROR(s.nest ? nest(s) : s.proc ? proc(s) : control(s));
    if (s.control) MLC_RETURN_IF_ERROR(checks());
    if (options_.after_statement && body_depth_ == 0) options_.after_statement(i, arrays_);
  }
  std::vector<Tensor> outputs;
  for (uint32_t o : function_.outputs) {
    if (arrays_[o].dtype == DType::None) return Status(Code::Internal, "output '" + function_.arrays[o].name + "' is never written");
    outputs.push_back(arrays_[o]);
  }
  return outputs;
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

Status Interpreter::too_late(const std::string& where) {
  return Status(Code::Cancelled, "there was no time for more than what comes before '" + where + "'");
}

Status Interpreter::failed(const std::string& where) {
  if (!evaluator_.fault.failed) return ok();
  if (evaluator_.fault.late) return too_late(where);
  return Status(evaluator_.fault.bug ? Code::Internal : Code::InputMismatch, where + ": " + evaluator_.fault.message);
}

Result<std::vector<Tensor>> interpret(const Function& f, const std::vector<Tensor>& inputs, const InterpretOptions& options) {
  return Interpreter(f, options).run(inputs, options.symbols);
}

}  // namespace mlc::nest
