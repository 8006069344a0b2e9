// Expressions of a kernel in the order in which they are computed, with a place for the lanes of each: made once, run for each
// statement. Nodes that roots of one tape share are computed once.
#pragma once

#include <array>
#include <span>
#include <unordered_map>
#include <vector>

#include "packager/loop/loop.h"
#include "tests/text/loop_memory.h"

namespace mlc::loop {

// Where the lanes of a value begin: among those of variables (`kOfVars`), or of expressions.
using Slot = uint32_t;
constexpr Slot kOfVars = 1u << 31;

struct Tape {
  struct Step {
    const ir::Expr* e = nullptr;
    Slot to = 0;
    uint32_t args = 0;  // where its operands begin in `operands`
  };
  std::vector<Step> steps;
  std::vector<Slot> operands;
  std::vector<Slot> roots;
  std::vector<unsigned> lanes;  // per root
};

// The variables as one lane of a block has them.
struct Variables {
  std::vector<ir::Scalar> values;
  std::vector<char> bound;  // at the first value of each
};

class Evaluator {
 public:
  explicit Evaluator(const Run& run) : run_(run) {}

  // Before anything is run.
  Tape tape(const std::vector<const ir::Expr*>& roots);
  Slot var(const ir::Expr* v) { return place(v).slot; }
  Variables variables() const { return {std::vector<ir::Scalar>(variables_), std::vector<char>(variables_)}; }

  // Which variables are read and bound from now on; they stay alive.
  void use(Variables& variables) { vars_ = &variables; }
  void bind(Slot var, std::span<const ir::Scalar> lanes);
  void bind(Slot var, int64_t value) { bind(var, std::array{ir::Scalar{value, 0}}); }

  // The lanes of a root, behind `run`. Where a rule is broken `failure` says so, and the values are of no use.
  void run(const Tape& tape, Memory& memory, Failure& failure);
  std::span<const ir::Scalar> root(const Tape& tape, size_t k) const { return {at(tape.roots[k]), tape.lanes[k]}; }

 private:
  struct Place {
    Slot slot = 0;
    uint32_t tape = 0;  // the last one that computes it
  };
  Place& place(const ir::Expr* e);
  void add(Tape& tape, const ir::Expr* root);
  const ir::Scalar* at(Slot slot) const { return slot & kOfVars ? vars_->values.data() + (slot & ~kOfVars) : values_.data() + slot; }
  void compute(const Tape& tape, const Tape::Step& step, Memory& memory, Failure& failure);
  void load(const ir::Expr* e, const ir::Scalar* index, const ir::Scalar* mask, ir::Scalar* r, Memory& memory, Failure& failure);

  const Run& run_;
  std::unordered_map<const ir::Expr*, Place> places_;
  uint32_t tapes_ = 0;
  std::vector<ir::Scalar> values_;
  size_t variables_ = 0;
  Variables* vars_ = nullptr;
};

}  // namespace mlc::loop
