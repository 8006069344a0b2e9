// What this machine can do at most at this moment: arithmetic, and reading from each level of memory. Measured with as many
// threads at once as a session works with, on every call: clocks and neighbours change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mlc::cli {

struct Ceilings {
  struct Level {
    std::string name;           // "L2", "memory"
    uint64_t bytes = 0;         // that it holds, for all threads together; UINT64_MAX: of memory
    double bytes_per_s = 0;     // all threads together
  };
  double operations_per_s = 0;  // on f32, a multiplication and an addition being two
  double byte_operations_per_s = 0;  // in products of bytes, likewise; 0: not known
  std::string arithmetic;       // "avx512"
  std::vector<Level> levels;    // smallest first; at least memory
  unsigned threads = 1;

  bool are_known() const { return operations_per_s > 0; }  // false: nothing of what ran was the processor's
  // The least time in which so much can be done, in nanoseconds, and what bounds it ("arithmetic", "L2", ...). Bytes come from the
  // smallest level that holds them.
  struct Bound {
    double ns = 0;
    std::string by;
  };
  Bound bound(uint64_t operations, uint64_t bytes, bool of_bytes) const;
  double peak(bool of_bytes) const { return of_bytes && byte_operations_per_s > 0 ? byte_operations_per_s : operations_per_s; }

  // The larger figure of each.
  void merge(const Ceilings& other);
};

// Takes about 60 ms, and 1.5 s at most.
Ceilings measure_ceilings(unsigned threads);

}  // namespace mlc::cli
