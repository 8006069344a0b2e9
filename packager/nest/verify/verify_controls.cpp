#include <algorithm>

#include "packager/nest/verify/verifier.h"

namespace mlc::nest {

using ir::Expr;

namespace {

bool is_single(const Array* a, DType dtype) {
  auto may_be_one = [](const Expr* e) { return e->is_int(1) || !e->is_const(); };
  return a && a->dtype == dtype && a->list_depth == 0 && std::all_of(a->shape.begin(), a->shape.end(), may_be_one);
}

bool is_array(const Array* a, DType dtype) { return a && a->dtype == dtype && !a->list_depth; }
bool is_any_array(const Array* a) { return a && !a->list_depth; }
bool is_list(const Array* a) { return a && a->list_depth > 0; }

bool alike(const Array* a, const Array* b) {
  return a && b && a->dtype == b->dtype && a->list_depth == b->list_depth && a->shape.size() == b->shape.size();
}

// `a` may be an item of `list`, as far as both are known.
bool is_item(const Array* a, const Array* list) {
  return !a || !list || (a->dtype == list->dtype && a->list_depth + 1 == list->list_depth);
}

// An array or list of texts, and what stands for it: numbers.
bool are_strings(const Array* text, const Array* number) {
  return (!text || text->dtype == DType::Str) && (!number || number->dtype == DType::U64) &&
         (!text || !number || (text->list_depth == number->list_depth && text->shape.size() == number->shape.size()));
}

// How many operands a control has: inputs from `least` to `most`, results (SIZE_MAX: any number), bodies.
struct Counts {
  size_t least, most, results, bodies;
};
Counts counts_of(const Control& c) {
  constexpr size_t kAny = SIZE_MAX;
  switch (c.kind) {
    case StepOp::Read: return {1, 1, 0, 0};
    case StepOp::Branch: return {1, kAny, kAny, 2};
    case StepOp::Loop: return {size_t{2} + c.carried, kAny, kAny, 1};
    case StepOp::ListMake: return {0, kAny, 1, 0};
    case StepOp::ListInsert: return {2, 3, 1, 0};
    case StepOp::ListErase: case StepOp::ListSplit: return {1, 2, 1, 0};
    case StepOp::ListLength: case StepOp::ListConcat: return {1, 1, 1, 0};
    case StepOp::StringsIn: case StepOp::StringsOut: case StepOp::StringRank: case StepOp::StringFromNumber: case StepOp::NumberFromString:
      return {1, 1, 1, 0};
    case StepOp::ListAt: case StepOp::StringsMake: case StepOp::StringConcat: case StepOp::StringNormalize: case StepOp::StringMatch:
      return {2, 2, 1, 0};
    case StepOp::StringSplit: case StepOp::StringTokens: return {2, 2, 2, 0};
    case StepOp::Host: return {0, kAny, kAny, 0};
    case StepOp::None: case StepOp::Call: break;
  }
  return {};
}

}  // namespace

// Null if the operand is absent or unknown; marks it as read.
const Array* Verifier::operand(uint32_t number) {
  if (number == kNoArray || !known(number)) return nullptr;
  const Array& a = function_.arrays[number];
  if (!state_[number].written) say("'" + a.name + "' is read before it is written");
  state_[number].read = true;
  return &a;
}

const Array* Verifier::inner_array(const Function& body, uint32_t number) {
  if (number < body.arrays.size()) return &body.arrays[number];
  say("a body has no array %" + std::to_string(number));
  return nullptr;
}

void Verifier::control(const Control& c) {
  Operands in, out;
  for (uint32_t n : c.inputs) in.push_back(operand(n));
  for (uint32_t n : c.outputs) {
    out.push_back(nullptr);
    if (n == kNoArray || !known(n)) continue;
    out.back() = &function_.arrays[n];
    if (out.back()->kind != Array::Kind::Temp) say("'" + out.back()->name + "' is written but is no result");
    if (state_[n].written) say("'" + out.back()->name + "' is written before");
  }
  const Counts counts = counts_of(c);
  bool good = in.size() >= counts.least && in.size() <= counts.most && (counts.results == SIZE_MAX || out.size() == counts.results) &&
              c.bodies.size() == counts.bodies;
  if (!good) say("a control has another number of operands");
  good = good && fits(c, in, out);
  if (!good) say("the operands of a control do not fit its kind");
  for (const ir::Sym* s : c.symbols)
    if (!set_symbols_.insert(s).second) say("'" + s->name + "' is set twice");
  for (size_t k = 0; good && k < c.bodies.size(); ++k) {
    if (c.bodies[k]) body(c, *c.bodies[k], in, out);
    else say("a body is missing");
  }
  finish(c.outputs);
}

// Types of the operands, of which there are as many as the kind has.
bool Verifier::fits(const Control& c, const Operands& in, const Operands& out) {
  auto is_number = [&](size_t k) { return k >= in.size() || c.inputs[k] == kNoArray || is_single(in[k], DType::I64); };
  auto is_wanted_like = [&](const Array* a) { return !out[0] || alike(a, out[0]); };
  switch (c.kind) {
    case StepOp::Read: return is_any_array(in[0]) && (is_int(in[0]->dtype) || in[0]->dtype == DType::Bool) && !c.symbols.empty();
    case StepOp::Branch: return is_single(in[0], DType::Bool);
    case StepOp::Loop: return out.size() >= c.carried && is_number(0) && (c.inputs[1] == kNoArray || is_single(in[1], DType::Bool));
    case StepOp::ListMake:
      return (!out[0] || is_list(out[0])) && std::all_of(in.begin(), in.end(), [&](const Array* a) { return a && is_item(a, out[0]); });
    case StepOp::ListInsert: return is_list(in[0]) && in[1] && is_item(in[1], in[0]) && is_number(2) && is_wanted_like(in[0]);
    case StepOp::ListErase: return is_list(in[0]) && is_number(1) && is_wanted_like(in[0]);
    case StepOp::ListAt: return is_list(in[0]) && is_single(in[1], DType::I64) && is_item(out[0], in[0]);
    case StepOp::ListLength: return is_list(in[0]) && (!out[0] || is_single(out[0], DType::I64));
    case StepOp::ListConcat: return is_list(in[0]) && is_item(out[0], in[0]) && (!out[0] || c.set.axis < out[0]->shape.size());
    case StepOp::ListSplit: return is_any_array(in[0]) && c.set.axis < in[0]->shape.size() && is_item(in[0], out[0]);
    case StepOp::StringsIn: return are_strings(in[0], out[0]);
    case StepOp::StringsOut: return are_strings(out[0], in[0]);
    case StepOp::StringsMake: return is_array(in[0], DType::U8) && is_array(in[1], DType::I64);
    case StepOp::StringConcat: return is_array(in[0], DType::U64) && is_array(in[1], DType::U64) && alike(in[0], in[1]);
    case StepOp::StringSplit: return is_array(in[0], DType::U64) && is_single(in[1], DType::U64);
    case StepOp::StringNormalize: return is_array(in[0], DType::U64) && is_array(in[1], DType::U64);
    case StepOp::StringTokens: case StepOp::StringMatch: return is_array(in[0], DType::U64) && is_array(in[1], DType::I32);
    case StepOp::StringRank: case StepOp::NumberFromString: return is_array(in[0], DType::U64);
    case StepOp::StringFromNumber: return is_any_array(in[0]);
    case StepOp::Host: {
      auto is_plain = [](const Array* a) { return is_any_array(a) && a->dtype != DType::Str; };
      return !c.service.empty() && c.options.find('\0') == std::string::npos && std::all_of(in.begin(), in.end(), is_plain) &&
             std::all_of(out.begin(), out.end(), is_plain);
    }
    case StepOp::None: case StepOp::Call: break;
  }
  return false;
}

// A body as a function of its own, and its inputs and outputs against those of the control.
void Verifier::body(const Control& c, const Function& body, const Operands& in, const Operands& out) {
  const bool loop = c.kind == StepOp::Loop;
  const size_t first = loop ? 0 : 1;
  if (body.inputs.size() != in.size() - first || body.outputs.size() != out.size() + (loop ? 1 : 0))
    return say("body '" + body.name + "' has another number of inputs or outputs");
  for (size_t k = 0; k < body.inputs.size(); ++k) {
    const Array* inner = inner_array(body, body.inputs[k]);
    const bool fits = loop && k == 0   ? is_single(inner, DType::I64)
                      : loop && k == 1 ? is_single(inner, DType::Bool)
                                       : alike(inner, in[k + first]);
    if (!fits) say("input " + std::to_string(k) + " of body '" + body.name + "' does not fit");
  }
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    const Array* inner = inner_array(body, body.outputs[k]);
    if (loop && k == 0) {
      if (!is_single(inner, DType::Bool)) say("the condition of body '" + body.name + "' is not one truth value");
      continue;
    }
    if (!inner) continue;
    const size_t place = k - (loop ? 1 : 0);
    const bool scanned = loop && place >= c.carried;
    const Array* outer = loop && !scanned ? in[2 + place] : out[place];
    const bool fits = !scanned ? !outer || alike(inner, outer)
                               : !inner->list_depth && (!outer || (outer->dtype == inner->dtype && outer->shape.size() == inner->shape.size() + 1));
    if (!fits) say("output " + std::to_string(k) + " of body '" + body.name + "' does not fit");
  }
  if (body_depth_ + 1 > kMaxDepth) return say("bodies are nested too deeply");
  for (std::string& line : Verifier(ctx_, body, options_, body_depth_ + 1, conditions(-1)).run()) say_at(place_ + " / ", std::move(line));
}

}  // namespace mlc::nest
