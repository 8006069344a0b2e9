// Whose turn it is: requests before parts that do one at a time, in the order in which they came to the part. A request goes to the
// part that is expected to be done with it first. No clock and no lock of its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/system/futex.h"

namespace mlc::ensemble {

class Turns {
 public:
  explicit Turns(size_t parts) : lines_(parts) {}

  struct Place {
    uint32_t part = 0;
    uint64_t number = 0;
  };
  // Appends to the queue of the part that would finish first; ties go to the lower index. `ns`: time on each; kImpossible: it does
  // not go there, and one at least is possible. `bell` is the waiter's; null: there is no waiter.
  Place enter(std::span<const double> ns, double now, Bell* bell = nullptr);
  bool is_first(const Place& place) const { return lines_[place.part].waiting.front().number == place.number; }
  // Done, or no longer waiting. The bell of the waiter that is first now because of that.
  Bell* leave(const Place& place, double now);

  // When a request that takes so long would be done.
  double done_at(uint32_t part, double ns, double now) const;

 private:
  struct Request {
    uint64_t number;
    double ns;
    Bell* bell;
  };
  struct Line {
    std::vector<Request> waiting;  // the first has its turn
    double since = 0;             // when that began
  };
  std::vector<Line> lines_;
  uint64_t next_ = 0;
};

}  // namespace mlc::ensemble
