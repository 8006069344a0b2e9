// Which values inputs must have so that every index meets an element: an input that picks rows of a table of 100 must lie in
// 0..99, one that is shifted by 3 before in -3..96. Read off the indices of a function, backwards through whatever lies between
// them and the inputs (casts, sums, clips, concatenations, running sums, bodies of branches and loops), for given extents.
//
// It serves to draw inputs, not to prove anything: what it cannot follow demands nothing.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "packager/nest/nest.h"

namespace mlc::compile {

struct Range {
  double lo = -std::numeric_limits<double>::infinity(), hi = std::numeric_limits<double>::infinity();
  bool is_empty() const { return !(lo <= hi); }
  bool is_bounded() const { return lo > -std::numeric_limits<double>::infinity() && hi < std::numeric_limits<double>::infinity(); }
  bool contains(Range other) const { return lo <= other.lo && other.hi <= hi; }
  Range within(Range other) const { return {lo > other.lo ? lo : other.lo, hi < other.hi ? hi : other.hi}; }
  Range joined(Range other) const { return {lo < other.lo ? lo : other.lo, hi > other.hi ? hi : other.hi}; }
  friend bool operator==(Range, Range) = default;
};

struct InputBounds {
  Range range;
  bool is_summed = false;  // it is added up with its neighbours on the way: small values are meant, as those of a mask
};

struct ValueBounds {
  std::map<uint32_t, InputBounds> inputs;  // by array; what is not here may have any value
  // What no value of the inputs can mend, as a table of positions that is shorter than the sequence: how many, and by how much.
  size_t num_conflicts = 0;
  double excess = 0;
  std::string first_conflict;
  // An extent that would mend the first one, if there is such.
  const ir::Sym* wanted = nullptr;
  int64_t wanted_value = 0;
};

class IndexAnalysis {
 public:
  explicit IndexAnalysis(const nest::Function& function);  // which must outlive it
  ~IndexAnalysis();

  // Extents of axes whose elements are chosen by values of inputs.
  std::vector<const ir::Sym*> addressed() const;
  // `symbols`: values of the free extents, and of the elements of inputs that are symbols.
  ValueBounds bounds(const std::map<const ir::Sym*, int64_t>& symbols) const;
  double work() const;  // of `bounds`, roughly, in the units of the interpreter

 private:
  struct Steps;
  std::unique_ptr<const Steps> steps_;
};

}  // namespace mlc::compile
