#include "runtime/ensemble/mapper.h"

#include <algorithm>

namespace mlc::ensemble {
namespace {

constexpr size_t kMostLabels = 2048;    // ways to the same segment that none of the others beats in time and memory

bool contains(const Stage& s, uint32_t segment) { return segment >= s.first && segment < s.end; }

bool reads(const Stage& stage, const PassedValue& v) {
  return std::any_of(v.readers.begin(), v.readers.end(), [&](uint32_t r) { return contains(stage, r); });
}

// Memory that is used on each part that could be too small.
struct Memory {
  std::vector<uint64_t> weights, arena;

  explicit Memory(size_t parts) : weights(parts, 0), arena(parts, 0) {}
  void add(const Problem& p, const Stage& stage) {
    for (uint32_t s = stage.first; s < stage.end; ++s) {
      weights[stage.part] += p.segments[s].weights;
      arena[stage.part] = std::max(arena[stage.part], p.segments[s].arena);
    }
  }
  bool fits(const Problem& p) const {
    for (size_t d = 0; d < weights.size(); ++d)
      if (weights[d] > p.parts[d].capacity || arena[d] > p.parts[d].capacity - weights[d]) return false;
    return true;
  }
  bool no_more_than(const Memory& other, const std::vector<bool>& counts) const {
    for (size_t d = 0; d < weights.size(); ++d)
      if (counts[d] && (weights[d] > other.weights[d] || arena[d] > other.arena[d])) return false;
    return true;
  }
};

class Search {
 public:
  Search(const Problem& problem, const std::vector<bool>& may_use) : problem_(problem), may_use_(may_use) {
    // Where everything fits at once, memory decides nothing.
    for (uint32_t d = 0; d < problem.parts.size(); ++d) {
      Memory all(problem.parts.size());
      all.add(problem, {0, size(), d});
      counts_.push_back(!all.fits(problem));
    }
  }

  std::optional<Assignment> run() {
    labels_.resize(size() + 1);
    labels_[0].emplace_back(problem_.parts.size());
    for (uint32_t end = 1; end <= size(); ++end) {
      for (uint32_t first = 0; first < end; ++first)
        for (uint32_t part = 0; part < problem_.parts.size(); ++part)
          if (may_use_.empty() || may_use_[part]) extend({first, end, part});
      prune(labels_[end]);
    }
    if (labels_.back().empty()) return std::nullopt;
    std::vector<uint32_t> parts(size());
    const Label* label = &labels_.back().front();
    for (uint32_t at = size(); at > 0; label = &labels_[at][label->before]) {
      std::fill(parts.begin() + label->stage.first, parts.begin() + at, label->stage.part);
      at = label->stage.first;
    }
    return assignment_of(problem_, parts);
  }

 private:
  struct Label {
    explicit Label(size_t parts) : memory(parts) {}
    double ns = 0;
    size_t stages = 0;
    Stage stage;
    size_t before = 0;  // the label that it goes on from
    Memory memory;
  };

  uint32_t size() const { return static_cast<uint32_t>(problem_.segments.size()); }

  void extend(Stage stage) {
    cost_stage(problem_, stage);
    if (!(stage.ns < kImpossible)) return;
    for (size_t k = 0; k < labels_[stage.first].size(); ++k) {
      Label next = labels_[stage.first][k];
      next.ns += stage.ns;
      ++next.stages;
      next.stage = stage;
      next.before = k;
      next.memory.add(problem_, stage);
      if (next.memory.fits(problem_)) labels_[stage.end].push_back(std::move(next));
    }
  }

  static bool before(const Label& a, const Label& b) {
    if (a.ns != b.ns) return a.ns < b.ns;
    if (a.stages != b.stages) return a.stages < b.stages;
    return a.stage.part < b.stage.part;
  }

  // What goes on from a way goes on from any other as well, at the same cost: one that takes no longer and no more memory is enough.
  void prune(std::vector<Label>& labels) const {
    std::stable_sort(labels.begin(), labels.end(), before);
    std::vector<Label> kept;
    for (Label& label : labels) {
      const bool beaten = std::any_of(kept.begin(), kept.end(), [&](const Label& k) { return k.memory.no_more_than(label.memory, counts_); });
      if (!beaten && kept.size() < kMostLabels) kept.push_back(std::move(label));
    }
    labels = std::move(kept);
  }

  const Problem& problem_;
  const std::vector<bool>& may_use_;
  std::vector<bool> counts_;  // per part: its memory may be too small
  std::vector<std::vector<Label>> labels_;  // ways to have done so many segments
};

}  // namespace

void cost_stage(const Problem& problem, Stage& stage) {
  const PartCost& part = problem.parts[stage.part];
  stage.copies_ns = 0;
  for (const PassedValue& v : problem.values) {
    const bool made = contains(stage, v.producer);
    const bool passes = std::any_of(v.readers.begin(), v.readers.end(), [&](uint32_t r) { return contains(stage, r) != made; });
    if (passes && !part.is_processor && (made || reads(stage, v))) stage.copies_ns += part.copy_ns + static_cast<double>(v.bytes) * part.ns_per_byte;
  }
  stage.ns = part.start_ns + stage.copies_ns;
  for (uint32_t s = stage.first; s < stage.end; ++s) stage.ns += problem.segments[s].ns[stage.part];
}

std::optional<Assignment> assignment_of(const Problem& problem, const std::vector<uint32_t>& parts) {
  Assignment out;
  Memory memory(problem.parts.size());
  for (uint32_t s = 0; s < parts.size(); ++s) {
    if (out.stages.empty() || out.stages.back().part != parts[s]) out.stages.push_back({s, s, parts[s]});
    out.stages.back().end = s + 1;
  }
  for (Stage& stage : out.stages) {
    cost_stage(problem, stage);
    memory.add(problem, stage);
    out.ns += stage.ns;
  }
  return out.ns < kImpossible && memory.fits(problem) ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<Assignment> cheapest(const Problem& problem, const std::vector<bool>& may_use) { return Search(problem, may_use).run(); }

}  // namespace mlc::ensemble
