// Stages for requests that follow each other.
#include <algorithm>
#include <tuple>

#include "runtime/ensemble/mapper.h"

namespace mlc::ensemble {
namespace {

class Pipelines {
 public:
  explicit Pipelines(const Problem& problem)
      : problem_(problem), segments_(static_cast<uint32_t>(problem.segments.size())),
        parts_(static_cast<uint32_t>(std::min(problem.parts.size(), kMostPipelined))) {
    costs_.resize(size_t{segments_} * (segments_ + 1) * parts_);
    for (uint32_t first = 0; first < segments_; ++first)
      for (uint32_t part = 0; part < parts_; ++part) cost_stages(first, part);
  }

  std::optional<Assignment> run() {
    // How fast the slowest can be; then what is best among those that are as fast.
    const double fastest = search(kImpossible, [](const Way& a, const Way& b) { return a.slowest < b.slowest; }).slowest;
    if (!(fastest < kImpossible)) return std::nullopt;
    const Way& end = search(fastest, [](const Way& a, const Way& b) { return std::tie(a.stages, a.ns) < std::tie(b.stages, b.ns); });
    Assignment out;
    for (const Way* way = &end; way->stages > 0; way = &ways_[way->before]) {
      out.stages.push_back(way->stage);
      out.ns += way->stage.ns;
    }
    std::reverse(out.stages.begin(), out.stages.end());
    return out;
  }

 private:
  // To have done so many segments on these parts.
  struct Way {
    double slowest = kImpossible, ns = 0;
    uint32_t stages = 0;
    Stage stage;        // the last
    size_t before = 0;  // the way that it goes on from
  };

  Stage& at(uint32_t first, uint32_t end, uint32_t part) { return costs_[(size_t{first} * (segments_ + 1) + end) * parts_ + part]; }
  size_t number(uint32_t end, uint32_t set) const { return (size_t{end} << parts_) + set; }

  void cost_stages(uint32_t first, uint32_t part) {
    uint64_t weights = 0, arena = 0;
    const uint64_t capacity = problem_.parts[part].capacity;
    bool fits = true;
    for (uint32_t end = first + 1; end <= segments_; ++end) {
      const SegmentCost& last = problem_.segments[end - 1];
      Stage& stage = at(first, end, part) = {first, end, part};
      fits = fits && last.weights <= capacity - weights;
      if (fits) weights += last.weights, arena = std::max(arena, last.arena);
      fits = fits && arena <= capacity - weights;
      cost_stage(problem_, stage);
      if (!fits) stage.ns = kImpossible;
    }
  }

  // The best way to have done everything, of stages that take no longer than `limit`.
  template <class Better>
  const Way& search(double limit, Better better) {
    ways_.assign(number(segments_ + 1, 0), Way());
    ways_[0].slowest = 0;
    for (uint32_t first = 0; first < segments_; ++first)
      for (uint32_t set = 0; set < 1u << parts_; ++set)
        if (ways_[number(first, set)].slowest < kImpossible) extend(first, set, limit, better);
    const auto begin = ways_.begin() + static_cast<std::ptrdiff_t>(number(segments_, 0));
    const Way* best = &*begin;
    for (auto way = begin; way != ways_.end(); ++way)
      if (way->slowest < kImpossible && (!(best->slowest < kImpossible) || better(*way, *best))) best = &*way;
    return *best;
  }

  template <class Better>
  void extend(uint32_t first, uint32_t set, double limit, Better better) {
    for (uint32_t part = 0; part < parts_; ++part) {
      if (set >> part & 1) continue;
      for (uint32_t end = first + 1; end <= segments_; ++end) {
        const Stage& stage = at(first, end, part);
        if (!(stage.ns < kImpossible) || stage.ns > limit) continue;
        const size_t before = number(first, set);
        const Way next{std::max(ways_[before].slowest, stage.ns), ways_[before].ns + stage.ns, ways_[before].stages + 1, stage, before};
        Way& known = ways_[number(end, set | 1u << part)];
        if (!(known.slowest < kImpossible) || better(next, known)) known = next;
      }
    }
  }

  const Problem& problem_;
  const uint32_t segments_, parts_;
  std::vector<Stage> costs_;
  std::vector<Way> ways_;
};

}  // namespace

std::optional<Assignment> best_pipeline(const Problem& problem) { return Pipelines(problem).run(); }

}  // namespace mlc::ensemble
