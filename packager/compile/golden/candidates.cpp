#include "packager/compile/golden/candidates.h"

#include <algorithm>

#include "packager/compile/estimate.h"

namespace mlc::compile {
namespace {

constexpr double kLargeOperations = 1e10;  // as estimated
constexpr int64_t kExtents[] = {kFirstExtent, 64, 96, 128, 160, 224, 16, 8, 320, 640, 1, 1024, 4096};
constexpr int64_t kManyInBatch = 4;  // tried where a batch of one tells nothing

}  // namespace

const Candidates::Candidate* Candidates::next() {
  while (next_size_ <= std::size(kExtents)) {
    const Candidate* found = add();
    if (found) return found;
  }
  if (!sorted_) {
    std::stable_sort(later_.begin(), later_.end(), [](const Candidate* a, const Candidate* b) {
      const auto order = [](const Candidate* c) { return std::pair(c->conflicts, c->operations > kLargeOperations ? c->operations : 0); };
      return order(a) < order(b);
    });
    sorted_ = true;
  }
  return next_later_ < later_.size() ? later_[next_later_++] : nullptr;
}

bool Candidates::is_last() const { return next_size_ > std::size(kExtents) && next_later_ >= later_.size(); }

// The next size, unless it is a known one or has to wait.
const Candidates::Candidate* Candidates::add() {
  const size_t k = next_size_++;
  const bool many = k == std::size(kExtents);
  const int64_t extent = kExtents[many ? 0 : k], batch = many ? kManyInBatch : 1;
  SizeChoice choice = finder_.near(extent, batch, work_);
  if (finder_.free().empty() || work_ <= 0) next_size_ = std::size(kExtents) + 1;
  const size_t conflicts = choice.bounds.num_conflicts;
  if (conflicts > 0) add(finder_.unchanged(choice, extent, batch), conflicts);
  return add(std::move(choice), conflicts);
}

// `conflicts` orders what waits; nothing is returned where it does, or where the sizes are known.
const Candidates::Candidate* Candidates::add(SizeChoice choice, size_t conflicts) {
  if (std::any_of(all_.begin(), all_.end(), [&](const auto& c) { return c->choice.sizes == choice.sizes; })) return nullptr;
  const double operations = estimate(function_, choice.sizes).operations;
  const bool waits = conflicts > 0 || operations > kLargeOperations;
  all_.push_back(std::make_unique<Candidate>(Candidate{std::move(choice), operations, conflicts}));
  if (!waits) return all_.back().get();
  later_.push_back(all_.back().get());
  return nullptr;
}

}  // namespace mlc::compile
