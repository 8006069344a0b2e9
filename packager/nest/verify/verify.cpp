#include "packager/nest/verify/verify.h"

#include <algorithm>

#include "packager/nest/proc.h"
#include "packager/nest/verify/verifier.h"

namespace mlc::nest {

using ir::Expr;
using ir::Op;

std::vector<std::string> Verifier::run() {
  interface();
  for (const Statement& s : function_.body) {
    place_ = s.source;
    if (!!s.nest + !!s.proc + !!s.control != 1) say("a statement is a nest, a proc or a control");
    else if (s.nest) nest(*s.nest);
    else if (s.proc) proc(*s.proc);
    else control(*s.control);
  }
  place_ = "outputs";
  for (uint32_t o : function_.outputs)
    if (known(o) && !state_[o].written) say("'" + function_.arrays[o].name + "' is never written");
  return std::move(problems_);
}

void Verifier::say_at(const std::string& place, std::string text) {
  constexpr size_t kMostProblems = 100;
  if (problems_.size() < kMostProblems) problems_.push_back(place + std::move(text));
}

bool Verifier::known(uint32_t array) {
  if (array < function_.arrays.size()) return true;
  say("no array %" + std::to_string(array));
  return false;
}

void Verifier::finish(const std::vector<uint32_t>& results) {
  for (uint32_t a : results)
    if (a < state_.size()) state_[a].written = true;
}

// What is there before the first statement.
void Verifier::interface() {
  place_ = "arrays";
  std::set<std::string> names;
  for (const Array& a : function_.arrays) array(a, names);
  state_.resize(function_.arrays.size());
  for (uint32_t i : function_.inputs) {
    if (!known(i)) continue;
    state_[i].written = true;
    if (function_.arrays[i].kind != Array::Kind::Input) say("input '" + function_.arrays[i].name + "' is not declared as one");
  }
  for (size_t i = 0; i < function_.arrays.size(); ++i)
    state_[i].written = state_[i].written || function_.arrays[i].kind == Array::Kind::Const;
  for (const Function::Check& c : function_.checks) extent(c.condition, "check");
  for (const Function::Definition& d : function_.definitions) extent(d.value, "definition");
  for (const Function::Element& e : function_.elements)
    if (std::find(function_.inputs.begin(), function_.inputs.end(), e.input) == function_.inputs.end())
      say("'" + e.sym->name + "' is an element of what is no input");
}

void Verifier::extent(const Expr* root, const std::string& what) {
  bool good = true;
  ir::walk(root, [&](const Expr* e) {
    good = good && e->op != Op::Dim && e->op != Op::Var && e->op != Op::Load && e->op != Op::Fold && e->op != Op::Field && e->type.lanes == 1;
  });
  if (!good) say(what + " is made of more than symbols: " + ir::to_string(root));
}

void Verifier::array(const Array& a, std::set<std::string>& names) {
  const bool is_const = a.kind == Array::Kind::Const;
  if (a.name.empty() || !names.insert(a.name).second) say("'" + a.name + "' is not a name of its own");
  if (bits_of(a.dtype) == 0 && (a.dtype != DType::Str || is_const)) say("'" + a.name + "' has no element type of fixed size");
  if (a.list_depth && (!a.shape.empty() || is_const || a.layout.pieces.size() || a.list_depth > kMaxDepth))
    say("the list '" + a.name + "' has what only arrays have");
  bool is_static = true;
  uint64_t bytes = bytes_of(a.dtype);
  for (const Expr* e : a.shape) {
    if (e->type != ir::Type{DType::I64, 1}) say("an extent of '" + a.name + "' is not i64");
    extent(e, "extent of '" + a.name + "'");
    is_static = is_static && e->is_const();
    if (e->is_const()) bytes = e->i < 0 ? UINT64_MAX : checked_mul(bytes, static_cast<uint64_t>(e->i)).value_or(UINT64_MAX);
  }
  if (is_const && (!is_static || !a.data || a.data->bytes.size() != bytes)) say("constant '" + a.name + "' lacks its data");
  if (a.kind == Array::Kind::Derived && !is_static) say("derived constant '" + a.name + "' has an extent that the run decides");
  if (!is_const && a.data) say("'" + a.name + "' has data but is no constant");
  layout(a);
}

// Per axis: one outermost piece, and splits that meet: the divisor of a piece is the divisor of the next inner one
// times its extent.
void Verifier::layout(const Array& a) {
  std::vector<int64_t> reach(a.shape.size(), 1);
  std::vector<bool> open(a.shape.size(), true);
  for (size_t i = a.layout.pieces.size(); i-- > 0;) {
    const Piece& p = a.layout.pieces[i];
    if (p.axis >= a.shape.size() || !open[p.axis] || p.divisor != reach[p.axis] || p.extent < 0)
      return say("layout " + to_string(a.layout, static_cast<unsigned>(a.shape.size())) + " of '" + a.name + "' does not cover its axes once");
    if (p.extent == 0) open[p.axis] = false;
    else if (__builtin_mul_overflow(reach[p.axis], p.extent, &reach[p.axis])) open[p.axis] = false;
  }
  if (!a.layout.pieces.empty() && std::find(open.begin(), open.end(), true) != open.end())
    say("layout of '" + a.name + "' leaves an axis out");
  if (a.layout.is_part()) part(a);
}

// The whole is stored like the part, and the part is within it where that can be seen.
void Verifier::part(const Array& a) {
  const size_t rank = a.shape.size();
  if (a.layout.within.size() != rank || a.layout.at.size() != rank || a.layout.pieces.size() != rank) return say("'" + a.name + "' has another rank than what it is part of");
  if (a.kind != Array::Kind::Temp || a.whole >= function_.arrays.size()) return say("'" + a.name + "' is part of no array");
  const Array& whole = function_.arrays[a.whole];
  const std::vector<Piece> order = whole.layout.pieces.empty() ? row_major(static_cast<unsigned>(whole.shape.size())).pieces : whole.layout.pieces;
  if (whole.kind != Array::Kind::Temp || whole.layout.is_part() || whole.dtype != a.dtype || whole.shape != a.layout.within || order != a.layout.pieces)
    return say("'" + a.name + "' is stored otherwise than '" + whole.name + "', which it is part of");
  for (size_t k = 0; k < rank; ++k) {
    extent(a.layout.at[k], "place of '" + a.name + "'");
    const Expr* end = ctx_.add(a.layout.at[k], a.shape[k]);
    if (ir::interval_of(a.layout.at[k]).hi < 0 || ir::interval_of(ctx_.sub(whole.shape[k], end)).hi < 0) say("'" + a.name + "' is not within '" + whole.name + "'");
  }
}

std::vector<std::string> verify(ir::Context& ctx, const Function& f, const VerifyOptions& options) {
  return Verifier(ctx, f, options).run();
}

Status verified(ir::Context& ctx, const Function& f, const VerifyOptions& options) {
  auto problems = verify(ctx, f, options);
  if (problems.empty()) return ok();
  Status s(Code::Internal, "'" + f.name + "' breaks a rule of the Nest level: " + problems[0]);
  for (size_t i = 1; i < problems.size() && i < 20; ++i) s.facts.push_back(problems[i]);
  return s;
}

}  // namespace mlc::nest
