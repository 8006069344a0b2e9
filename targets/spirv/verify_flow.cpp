// Control flow of a module's function: labels, merges, branches (see verify_code.cpp).
#include "targets/spirv/verifier.h"

namespace mlc::targets::spirv {

namespace {
constexpr size_t kMaxDepth = 512;  // constructs within each other
}

// Of a block that comes later, and that nothing named before.
bool Verifier::fresh_label(Id id) {
  const Thing* t = thing(id);
  return t && t->kind == Kind::None && labels_.insert(id).second;
}

void Verifier::forget_since(size_t mark) {
  while (defined_.size() > mark) {
    things_[defined_.back()].visible = false;
    defined_.pop_back();
  }
}

Verifier::Construct* Verifier::innermost_loop() {
  for (auto c = constructs_.rbegin(); c != constructs_.rend(); ++c)
    if (c->is_loop) return &*c;
  return nullptr;
}

void Verifier::open(Construct c) {
  if (constructs_.size() == kMaxDepth) return fail("constructs nested too deeply");
  c.flow = flow_.open(c.is_loop);
  constructs_.push_back(c);
}

void Verifier::close() { block_ = 0; }

void Verifier::label(Id id) {
  if (block_) return fail("a block within a block");
  if (!labels_.contains(id) || !define(id, Kind::Label, Op::Label, 0)) return fail("a block that nothing leads to");
  block_ = id, in_block_ = false;
  if (expected_) {
    if (id != expected_) fail("a block in another place than the branch before it says");
    expected_ = 0;
    return;
  }
  if (constructs_.empty()) return fail("a block that nothing leads to");
  Construct& top = constructs_.back();
  using P = Construct::Phase;
  if (id == top.merge && (top.is_loop ? top.phase == P::Done : top.other == 0 || top.phase == P::Else)) {
    forget_since(top.mark);
    flow_.close();
    constructs_.pop_back();
  } else if (!top.is_loop && id == top.other && top.phase == P::Then) {
    forget_since(top.mark);
    top.phase = P::Else;
  } else if (top.is_loop && id == top.again && top.phase == P::Body) {
    forget_since(top.mark);
    top.phase = P::Continue;
  } else {
    fail("a block in another place than its construct says");
  }
}

void Verifier::loop_merge(const Instruction& i) {
  if (!sized(i, 3)) return;
  if (!must_loop_ || in_block_ || i.args[2] != 0 || !fresh_label(i.args[0]) || !fresh_label(i.args[1])) return fail("a loop that does not begin with its block");
  must_loop_ = false, loop_merged_ = true;
  Construct c;
  c.is_loop = true, c.phase = Construct::Phase::Head, c.head = block_, c.merge = i.args[0], c.again = i.args[1], c.mark = defined_.size();
  open(c);
}

void Verifier::branch(Id to) {
  using P = Construct::Phase;
  Construct* top = constructs_.empty() ? nullptr : &constructs_.back();
  Construct* loop = innermost_loop();
  if (loop_merged_) {  // to the test
    loop_merged_ = false;
    if (!fresh_label(to)) return fail("a loop that jumps elsewhere");
    expected_ = to;
  } else if (top && !top->is_loop && to == top->merge) {
    // the end of an arm
  } else if (top && top->is_loop && top->phase == P::Body && to == top->again) {
    // the end of a body
  } else if (top && top->is_loop && top->phase == P::Continue && to == top->head) {
    top->phase = P::Done;
  } else if (loop && loop->phase == P::Body && to == loop->merge) {
    flow_.leave(loop->flow);
  } else {
    if (!fresh_label(to)) return fail("a jump out of its construct");
    expected_ = to, must_loop_ = true;
  }
  close();
}

void Verifier::branch_conditional(const Instruction& i) {
  if (!sized(i, 3)) return;
  const Thing* condition = used(i.args[0]);
  if (!condition || !is_bool(condition->type)) return fail("a condition that is no truth value");
  if (!fresh_label(i.args[1])) return fail("a condition that leads back");
  Construct* top = constructs_.empty() ? nullptr : &constructs_.back();
  if (selection_merge_) {
    Construct c;
    c.merge = selection_merge_, c.mark = defined_.size();
    selection_merge_ = 0;
    if (i.args[2] != c.merge) {
      if (!fresh_label(i.args[2])) return fail("a condition that leads back");
      c.other = i.args[2];
    }
    open(c);
    if (status_.ok()) flow_.condition(constructs_.back().flow, i.args[0]);
  } else {  // the test of a loop
    if (!top || !top->is_loop || top->phase != Construct::Phase::Head || i.args[2] != top->merge) return fail("a condition without a merge");
    top->phase = Construct::Phase::Body;
    top->mark = defined_.size();
    flow_.condition(top->flow, i.args[0]);
  }
  expected_ = i.args[1];
  close();
}

void Verifier::return_() {
  if (entry_.has_barriers) flow_.meeting();
  close();
}

}  // namespace mlc::targets::spirv
