// Which sizes golden vectors have: values of the free extents of a function, and of the elements of inputs that decide sizes
// (a shape given to Reshape, the number of rows given to Range), which fit each other and the tables that indices meet.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "packager/compile/golden/value_bounds.h"
#include "packager/nest/interpret/interpret.h"

namespace mlc::compile {

// The admissible value nearest to `wanted` from below, or the least admissible one.
int64_t admissible(const ir::Sym* sym, int64_t wanted);

using Sizes = std::map<const ir::Sym*, int64_t>;

struct SizeChoice {
  Sizes sizes;
  ValueBounds bounds;  // what inputs must be for them
};

class SizeFinder {
 public:
  explicit SizeFinder(const nest::Function& function);  // which must outlive it

  const std::vector<const ir::Sym*>& free() const { return free_; }  // extents, then elements
  const std::vector<const ir::Sym*>& extents() const { return extents_; }
  // Symbols that are elements (row-major) of inputs, or follow from such by casts alone.
  const std::vector<nest::Function::Element>& elements() const { return known_elements_; }

  // `extent` for all free extents but the first axis of an input, which is a batch nearly everywhere unless values of
  // inputs say which of its elements are meant, and is `batch`; changed as far as they do not fit. Conflicts are left where
  // nothing better was found with `work`, of which what is left is told.
  SizeChoice near(int64_t extent, int64_t batch, double& work) const;
  // The same elements with the extents that near() began with. The conflicts that it could not take away may be none that the
  // run meets, and then each change that it made was one for the worse.
  SizeChoice unchanged(const SizeChoice& changed, int64_t extent, int64_t batch) const;
  // Changes those sizes that are not as the function's checks want them, and says what its indices demand.
  SizeChoice fitted(Sizes sizes) const;

 private:
  SizeChoice improved(SizeChoice choice, double& work) const;
  void agree(Sizes& sizes, const ir::Sym* kept = nullptr) const;
  std::vector<int64_t> candidates(const SizeChoice& at, const ir::Sym* sym) const;
  std::optional<SizeChoice> better(const SizeChoice& at, double& work) const;

  std::vector<const ir::Sym*> extents_, elements_, free_;
  std::set<const ir::Sym*> batch_, element_set_, truths_;
  std::vector<nest::Function::Element> known_elements_;
  std::vector<const ir::Expr*> equalities_;
  IndexAnalysis indices_;
};

}  // namespace mlc::compile
