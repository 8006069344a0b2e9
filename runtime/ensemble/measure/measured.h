// What was measured, kept for later processes: a list of records, the newest first. A record that lies leads to a slower way to run,
// and to nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "runtime/ensemble/mapper.h"

namespace mlc::ensemble {

class MeasuredList {
 public:
  static constexpr size_t kMostRecords = 128, kMostNumbers = 2048;
  static constexpr uint64_t kMostNs = 1'000'000'000'000'000;
  static constexpr uint64_t kNever = UINT64_MAX;
  static constexpr size_t kMostBytes = size_t{4} << 20;
  using Numbers = std::vector<uint64_t>;  // nanoseconds, at most kMostNs; kNever: not possible

  // Malformed if it is not what `encode` writes.
  static Result<MeasuredList> parse(std::string_view text);
  std::string encode() const;

  // Null: there is none. A key is 64 hex digits that stand for all that the numbers depend on.
  const Numbers* find(std::string_view key) const;
  // In front of all others, of which the last goes if there are too many. Numbers that no list may hold are not put in.
  void put(std::string key, Numbers numbers);

 private:
  std::vector<std::pair<std::string, Numbers>> records_;
};

// The times of a problem's segments, part by part, in whole nanoseconds: what is read back is what was decided by.
MeasuredList::Numbers segment_numbers(const Problem& problem);
bool set_segments(const MeasuredList::Numbers& numbers, Problem& problem);
// Those of a link; bytes by thousands of thousands.
MeasuredList::Numbers link_numbers(const PartCost& cost);
bool set_link(const MeasuredList::Numbers& numbers, PartCost& cost);

}  // namespace mlc::ensemble
