// Expressions evaluated one point at a time: procs, scans, and the reference for the fast interpreter. Lazy as written:
// the arm of a Select that is not taken, and the second operand of a settled And or Or, are not looked at.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "packager/ir/numeric.h"
#include "packager/loop/loop.h"
#include "packager/nest/evaluate/factor.h"
#include "packager/nest/evaluate/tensor.h"
#include "packager/nest/nest.h"

namespace mlc::nest {

// What can go wrong while values are computed. The first fault stays.
struct Fault {
  bool failed = false;
  bool bug = false;   // an access that was claimed to be proved
  bool late = false;  // nothing is wrong but the time
  std::string message;
  void set(bool is_bug, std::string text) {
    if (failed) return;
    failed = true;
    bug = is_bug;
    message = std::move(text);
  }
  void set_late() {
    late = late || !failed;
    set(false, "it takes too long");
  }
};

// The operation that a join of two values is; Last and Custom are none (Const).
ir::Op op_of(ir::Join join);
// The type a fold over values of type `t` adds up in: sums of narrow types are kept wide until the fold is done.
DType accumulator(const ir::Combiner& c, DType t);

std::string index_fault(const std::string& array, size_t axis, int64_t index, int64_t extent);

// Values by small numbers (of dims and variables, which a Context counts from 0), all forgotten at once.
template <class V>
class Slots {
 public:
  const V* find(size_t id) const { return id < slots_.size() && slots_[id].era == era_ ? &slots_[id].value : nullptr; }
  V& at(size_t id) {
    if (id >= slots_.size()) slots_.resize(id + 1);
    slots_[id].era = era_;
    return slots_[id].value;
  }
  void erase(size_t id) {
    if (id < slots_.size()) slots_[id].era = 0;
  }
  void clear() { ++era_; }

 private:
  struct Slot {
    uint64_t era = 0;
    V value{};
  };
  std::vector<Slot> slots_;
  uint64_t era_ = 1;
};

struct Evaluator {
  const Function* function = nullptr;
  std::vector<Tensor>* arrays = nullptr;
  std::vector<Tensor> locals;  // of a proc: arrays from kFirstLocal
  const std::unordered_map<const ir::Sym*, int64_t>* symbols = nullptr;
  Slots<int64_t> dims;
  Slots<ir::Scalar> vars;
  Fault fault;
  double* work = nullptr;  // as of InterpretOptions

  ir::Scalar value(const ir::Expr* e);
  int64_t integer(const ir::Expr* e) { return value(e).i; }
  bool truth(const ir::Expr* e) { return !e || value(e).i != 0; }

  // The array `number`, a local of the proc from kFirstLocal; null if there is none.
  Tensor* tensor(uint32_t number);
  std::string name(uint32_t number) const;
  // Row-major element of the index, or -1 with the fault set.
  int64_t element(uint32_t array, std::span<const int64_t> index, bool bug);
  // left = join(left, right), field by field.
  void combine(const ir::Combiner* c, DType type, std::vector<ir::Scalar>& left, const std::vector<ir::Scalar>& right);
  std::vector<ir::Scalar> units(const ir::Combiner* c, DType type);

  // For a loop of a proc over `var` from `begin` to `end` that only adds products to variables: does it, with the same bits.
  // False: it is something else.
  bool add_products(const ir::Expr* var, int64_t begin, int64_t end, const std::vector<loop::StmtPtr>& body);

  // Counted is the work of a step, whose own folds count for themselves.
  void count_work(unsigned steps = 1) {
    constexpr unsigned kStepsPerLook = 1024;
    constexpr double kWorkOfStep = 50;
    if ((steps_ += steps) < kStepsPerLook) return;
    if (work) *work -= steps_ * kWorkOfStep;
    steps_ = 0;
    if (work && *work < 0) fault.set_late();
  }

  // Runs `body` for every point of `dims` in order, outer to inner, while nothing failed.
  template <class F>
  void for_points(const std::vector<const ir::Dim*>& over, F&& body) {
    std::vector<int64_t> extents;
    for (const ir::Dim* d : over) {
      extents.push_back(integer(d->extent));
      if (extents.back() <= 0) return;
      dims.at(d->id) = 0;
    }
    while (!fault.failed) {
      body();
      count_work();
      size_t k = over.size();
      while (k > 0 && ++dims.at(over[k - 1]->id) == extents[k - 1]) dims.at(over[--k]->id) = 0;
      if (k == 0) break;
    }
    for (const ir::Dim* d : over) dims.erase(d->id);
  }

 private:
  // What indices grow along: a dim or a variable, and its number.
  struct Along {
    ir::Op op;
    uint64_t number;
    bool operator==(const Along&) const = default;
    bool is(const ir::Expr* e) const { return e->op == op && (op == ir::Op::Dim ? e->dim->id : static_cast<uint64_t>(e->i)) == number; }
  };
  std::vector<ir::Scalar> fold(const ir::Expr* e);
  ir::Scalar fold_of_one(const ir::Expr* e);
  std::optional<ir::Scalar> sum_of_products(const ir::Expr* e);
  bool is_linear(const ir::Expr* load, Along along);
  bool sums_products(const ir::Expr* var, const std::vector<loop::StmtPtr>& body);
  bool are_linear(const std::vector<Factor>& factors, Along along);
  Row row_of(const ir::Expr* load, Along along, int64_t begin, int64_t end);
  ir::Scalar add_factors(DType type, const std::vector<Factor>& factors, Along along, int64_t begin, int64_t end, ir::Scalar total);
  int64_t element_of(const ir::Expr* load);
  std::unordered_map<const ir::Expr*, std::pair<Along, bool>> linear_;  // loads that were looked at, and along what
  std::unordered_map<const ir::Expr*, bool> sums_;  // loops of procs, by their variables
  int depth_ = 0;
  unsigned steps_ = 0;
};

// A proc at the present point of its dims; `steps` bounds all loops together.
void run_proc(Evaluator& at, const Proc& proc);

}  // namespace mlc::nest
