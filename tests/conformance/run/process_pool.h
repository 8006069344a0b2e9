// Work done in forked processes, so that a crash or an endless loop ends one item and not the run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace mlc::conformance {

struct PoolWork {
  std::vector<uint64_t> items;
  unsigned processes = 1;
  double seconds_per_item = 60;  // of a processor; ten times as many by the clock
  // In a child: does one item and emits lines (without line ends) as results become known.
  std::function<void(uint64_t item, const std::function<void(const std::string&)>& emit)> work;
  // In the parent, in no order between items: a line of an item.
  std::function<void(uint64_t item, const std::string& line)> line;
  // In the parent: the process of this item ended before the item did, and why. May give an item to be done instead.
  std::function<void(uint64_t item, const std::string& why, std::vector<uint64_t>& more)> lost;
};

// False if no process can be made.
bool run_pool(PoolWork& work);

}  // namespace mlc::conformance
