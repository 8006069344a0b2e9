// The meaning of a Nest function, executed: slow, plain, and the oracle of every pass and back end.
//
// Arithmetic is that of ir/expr.h: f32 in float per operation, f16 and bf16 computed in float and rounded, sums of f16
// and bf16 accumulated in f32, in the order of the fold's dims. Layouts are ignored: arrays are row-major here.
// A Checked index out of range, a While beyond its bound and a failed Check are errors that name the statement; so is
// whatever a Control refuses, a Loop that runs longer than `max_iterations`, and (Cancelled) what is not done within
// `work`.
#pragma once

#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "packager/nest/evaluate/tensor.h"
#include "packager/nest/nest.h"

namespace mlc::nest {

// A service of the application, for StepOp::Host: its results, of which every one is checked.
using HostService =
    std::function<Result<std::vector<Tensor>>(const Control& control, const std::vector<const Tensor*>& inputs)>;

struct InterpretOptions {
  unsigned threads = 0;        // 0: one per hardware thread
  bool point_by_point = false; // every nest through the scalar evaluator: the oracle of the oracle
  uint64_t memory_limit = uint64_t{16} << 30;  // bytes of all arrays together
  uint64_t max_iterations = uint64_t{1} << 20;          // of one Loop
  // Not null: what may be done, and afterwards what was left of it, in units that take about a nanosecond of one core. It is
  // counted, not timed: equal runs stop at the same place wherever they are.
  double* work = nullptr;
  std::unordered_map<const ir::Sym*, int64_t> symbols;  // those that no input shape determines
  HostService host;  // empty: there is no service
  // Not 0: what statements with a sum of floats write is multiplied by 1 + jitter and 1 - jitter in turn, and by a quarter of that what others
  // write that have a function (exp, tanh, ...). Tells how far answers move where sums are rounded in another order, and functions otherwise.
  double jitter = 0;
  // Called after each statement with the arrays by number; empty bytes where not computed yet.
  std::function<void(size_t statement, const std::vector<Tensor>& arrays)> after_statement;
};

// `inputs` in the order of f.inputs, arrays or lists. Symbols follow from their shapes and elements.
Result<std::vector<Tensor>> interpret(const Function& f, const std::vector<Tensor>& inputs,
                                      const InterpretOptions& options = {});

// Runs `f`, then again, for each of `statements` (ascending, of its own body), with every other element that this statement
// writes changed: a float is halved, anything else becomes 0. Only what comes behind is computed again. `visit` is told the
// statement and what became of the outputs, and says whether to go on; the statements come last to first. One that fails
// has told something as well: an index was changed. Left out are those whose elements were 0 already.
Status interpret_changed(const Function& f, const std::vector<Tensor>& inputs, const InterpretOptions& options, std::span<const size_t> statements,
                         const std::function<bool(size_t statement, const Result<std::vector<Tensor>>& outputs)>& visit);
// The first statement that is computed again where the results of `statement` are changed, or (the same) none before it.
size_t first_to_repeat(const Function& f, size_t statement);

}  // namespace mlc::nest
