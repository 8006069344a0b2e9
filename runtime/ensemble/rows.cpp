#include "runtime/ensemble/rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace mlc::ensemble {
namespace {

constexpr double kLeastPerRow = 1e-3;

double done_ns(const RowCost& cost, uint64_t rows) { return cost.fixed_ns + std::max(cost.ns_per_row, kLeastPerRow) * static_cast<double>(rows); }

// Shares among the parts of a set, each at least `least` units of `multiple` rows. The part that would finish first gets the next unit:
// no other order is done earlier. Most of them are given at once, all that are done before some moment.
class Dividing {
 public:
  Dividing(const std::vector<RowCost>& costs, const Rows& rows, uint32_t set)
      : costs_(costs), multiple_(rows.multiple), least_((rows.least + rows.multiple - 1) / rows.multiple), units_(rows.count / rows.multiple), set_(set) {}

  bool run(std::vector<uint64_t>& shares) {
    uint64_t count = 0;
    double late = 0;
    for (uint32_t p = 0; p < costs_.size(); ++p) {
      if (!has(p)) continue;
      if (!(costs_[p].fixed_ns < kImpossible)) return false;
      ++count;
      late = std::max(late, done_ns(costs_[p], units_ * multiple_));
    }
    if (least_ > units_ / count) return false;
    double early = 0;
    for (int k = 0; k < 100; ++k) {
      const double middle = early + (late - early) / 2;
      (given(middle) <= units_ ? early : late) = middle;
    }
    uint64_t left = units_;
    for (uint32_t p = 0; p < costs_.size(); ++p) left -= shares[p] = has(p) ? units_before(p, early) : 0;
    for (; left > 0; --left) ++shares[next(shares)];
    for (uint64_t& share : shares) share *= multiple_;
    return true;
  }

 private:
  bool has(uint32_t part) const { return part < 32 && (set_ >> part & 1); }

  uint64_t units_before(uint32_t part, double ns) const {
    const double rows = (ns - costs_[part].fixed_ns) / std::max(costs_[part].ns_per_row, kLeastPerRow);
    const double units = std::floor(rows / static_cast<double>(multiple_));
    return std::max(least_, units <= 0 ? 0 : units >= static_cast<double>(units_) ? units_ : static_cast<uint64_t>(units));
  }
  uint64_t given(double ns) const {
    uint64_t sum = 0;
    for (uint32_t p = 0; p < costs_.size(); ++p)
      if (has(p)) sum += units_before(p, ns);
    return sum;
  }
  uint32_t next(const std::vector<uint64_t>& shares) const {
    uint32_t best = 0;
    double ns = kImpossible;
    for (uint32_t p = 0; p < costs_.size(); ++p) {
      if (!has(p)) continue;
      if (const double done = done_ns(costs_[p], (shares[p] + 1) * multiple_); done < ns) best = p, ns = done;
    }
    return best;
  }

  const std::vector<RowCost>& costs_;
  const uint64_t multiple_, least_, units_;
  const uint32_t set_;
};

}  // namespace

double divided_ns(const std::vector<RowCost>& costs, const std::vector<uint64_t>& shares) {
  double ns = 0;
  for (size_t p = 0; p < shares.size(); ++p)
    if (shares[p] > 0) ns = std::max(ns, done_ns(costs[p], shares[p]));
  return ns;
}

std::vector<uint64_t> divide_rows(const std::vector<RowCost>& costs, const Rows& rows) {
  std::vector<uint64_t> best(costs.size(), 0);
  if (rows.count == 0 || rows.multiple == 0 || rows.count % rows.multiple != 0) return best;
  const size_t parts = std::min(costs.size(), kMostPipelined);
  double ns = kImpossible;
  for (size_t size = 1; size <= parts; ++size)
    for (uint32_t set = 1; set < 1u << parts; ++set) {
      std::vector<uint64_t> shares(costs.size(), 0);
      if (static_cast<size_t>(std::popcount(set)) != size || !Dividing(costs, rows, set).run(shares)) continue;
      if (const double done = divided_ns(costs, shares); done < ns) ns = done, best = std::move(shares);
    }
  return best;
}

std::vector<RowCost> row_costs(const Problem& problem) {
  std::vector<RowCost> out(problem.parts.size());
  const auto segments = static_cast<uint32_t>(problem.segments.size());
  for (uint32_t p = 0; p < out.size(); ++p) {
    const auto alone = assignment_of(problem, std::vector<uint32_t>(segments, p));
    if (!alone || problem.rows.count == 0) continue;
    const PartCost& part = problem.parts[p];
    size_t copies = 0;
    for (const PassedValue& v : problem.values) {
      const bool comes = v.producer == kCaller && !v.readers.empty();
      const bool goes = v.producer != kCaller && std::find(v.readers.begin(), v.readers.end(), kCaller) != v.readers.end();
      copies += !part.is_processor && (comes || goes);
    }
    out[p].fixed_ns = std::min(alone->ns, part.start_ns + part.copy_ns * static_cast<double>(copies));
    out[p].ns_per_row = (alone->ns - out[p].fixed_ns) / static_cast<double>(problem.rows.count);
  }
  return out;
}

}  // namespace mlc::ensemble
