// The sizes that are tried for a golden vector, in their order.
#pragma once

#include <memory>
#include <vector>

#include "packager/compile/golden/extents.h"

namespace mlc::compile {

// The extent that is tried first.
inline constexpr int64_t kFirstExtent = 32;

// Sizes of a function, found when they are asked for: first those that fit and are little work.
class Candidates {
 public:
  struct Candidate {
    SizeChoice choice;
    double operations = 0;  // as estimated
    size_t conflicts = 0;   // left by SizeFinder::near, also where the sizes are those before its changes
  };

  // All must outlive it. `work`: what is left for the search, of which it takes.
  Candidates(const nest::Function& function, const SizeFinder& finder, double& work) : function_(function), finder_(finder), work_(work) {}

  // Null behind the last one; lives as long as this.
  const Candidate* next();
  bool is_last() const;

 private:
  const Candidate* add();
  const Candidate* add(SizeChoice choice, size_t conflicts);

  const nest::Function& function_;
  const SizeFinder& finder_;
  double& work_;
  std::vector<std::unique_ptr<Candidate>> all_;
  std::vector<const Candidate*> later_;
  size_t next_size_ = 0, next_later_ = 0;  // the size behind the list of extents is a larger batch
  bool sorted_ = false;
};

}  // namespace mlc::compile
