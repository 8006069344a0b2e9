#include "packager/passes/segments/cut.h"

#include <algorithm>
#include <limits>

#include "packager/nest/copy.h"
#include "packager/nest/facts/figures.h"
#include "packager/nest/facts/group.h"
#include "packager/nest/proc.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"
#include "schema/format.h"

namespace mlc::passes {
namespace {

using nest::Array;

constexpr double kNowhere = std::numeric_limits<double>::infinity();
constexpr size_t kNearLaunches = 8;           // launches
constexpr size_t kNearCopies = 32;            // statements
constexpr double kWorthPassing = 2;   // times the fewest bytes near a place
constexpr size_t kMostPassing = 64;   // arrays

class Cutter {
 public:
  Cutter(ir::Context& ctx, const nest::Function& f) : ctx_(ctx), f_(f) {}

  std::vector<size_t> run() {
    find_units();
    find_passing();
    double all = 0;
    for (double w : work_) all += w;
    // A segment that does next to nothing is not worth a step; beside procs it may be.
    std::vector<bool> cuts = cuts_for(all / kMostCutSegments, /*beside_procs=*/true);
    for (double least = all / kMostCutSegments; too_many(cuts); least *= 2) cuts = cuts_for(least, /*beside_procs=*/false);
    std::vector<size_t> level(f_.body.size(), 0);
    size_t at = 0;
    for (size_t unit = 0; unit < first_.size(); ++unit) {
      if (cuts[unit]) ++at;
      const size_t end = unit + 1 < first_.size() ? first_[unit + 1] : f_.body.size();
      for (size_t k = first_[unit]; k < end; ++k) level[k] = at;
    }
    return level;
  }

 private:
  // Statements that one launch of a processor may do are a unit; those of a device are within.
  void find_units() {
    nest::Function grouped = nest::copy_of(f_);
    (void)group(ctx_, grouped);
    for (size_t k = 0; k < f_.body.size(); k += nest::marked_group(grouped, k)) {
      first_.push_back(k);
      double work = 0;
      for (size_t s = k; s < k + nest::marked_group(grouped, k); ++s) work += work_of(f_.body[s]);
      work_.push_back(work);
    }
  }

  double work_of(const nest::Statement& s) {
    if (is_derived(s)) return 0;  // once for each opened model
    if (!s.nest) return estimate(s.proc->dims);
    const nest::Nest* const nest = s.nest.get();
    const nest::Figures figures = nest::figures_of(ctx_, f_, {&nest, 1});
    return figures.operations ? estimate(figures.operations) : estimate(nest->dims);
  }

  bool is_derived(const nest::Statement& s) const {
    const auto arrays = written(s);
    return std::all_of(arrays.begin(), arrays.end(), [&](uint32_t a) { return f_.arrays[a].kind == Array::Kind::Derived; });
  }

  // The bytes that pass from what is before a unit to what follows; kNowhere where there must be no cut.
  void find_passing() {
    const Uses uses = uses_of(f_);
    std::vector<double> change(first_.size() + 1, 0);
    std::vector<int> arrays(first_.size() + 1, 0);
    passing_.assign(first_.size(), 0);
    for (uint32_t a = 0; a < f_.arrays.size(); ++a) {
      if (f_.arrays[a].kind != Array::Kind::Temp || uses.writers[a].empty()) continue;
      const size_t begin = unit_of(uses.writers[a].front()), complete = unit_of(uses.writers[a].back());
      const size_t read = uses.readers[a].empty() ? 0 : unit_of(*uses.readers[a].rbegin());
      for (size_t unit = begin + 1; unit <= complete; ++unit) passing_[unit] = kNowhere;  // one part of it here, one there
      if (read <= complete) continue;
      if (is_padded(f_.arrays[a]))
        for (size_t unit = complete + 1; unit <= read; ++unit) passing_[unit] = kNowhere;
      change[complete + 1] += bytes(f_.arrays[a]), change[read + 1] -= bytes(f_.arrays[a]);
      ++arrays[complete + 1], --arrays[read + 1];
    }
    keep_copies_together(uses);
    keep_roundings(uses);
    double sum = 0;
    int count = 0;
    for (size_t unit = 0; unit < first_.size(); ++unit) {
      passing_[unit] += sum += change[unit];
      if (static_cast<size_t>(count += arrays[unit]) > kMostPassing) passing_[unit] = kNowhere;
    }
    passing_[0] = kNowhere;
  }

  void keep_copies_together(const Uses& uses) {
    for (const auto& [part, whole] : copies_in_place(ctx_, f_)) {
      size_t begin = SIZE_MAX, end = 0;
      for (const uint32_t array : {part, whole}) {
        begin = std::min(begin, uses.writers[array].front());
        if (!uses.readers[array].empty()) end = std::max(end, *uses.readers[array].rbegin());
      }
      if (end > begin + kNearCopies) continue;
      for (size_t unit = unit_of(begin) + 1; unit <= unit_of(end); ++unit) passing_[unit] = kNowhere;
    }
  }

  // A copy in fewer bits stays beside what it rounds, which devices compute with it (fuse/rounded.cpp).
  void keep_roundings(const Uses& uses) {
    for (size_t s = 0; s < f_.body.size(); ++s) {
      const auto array = rounded_array(f_.body[s]);
      if (!array || uses.writers[*array].size() != 1 || uses.writers[*array][0] + kNearCopies < s) continue;
      for (size_t unit = unit_of(uses.writers[*array][0]) + 1; unit <= unit_of(s); ++unit) passing_[unit] = kNowhere;
    }
  }

  size_t unit_of(size_t statement) const {
    return static_cast<size_t>(std::upper_bound(first_.begin(), first_.end(), statement) - first_.begin()) - 1;
  }

  bool is_padded(const Array& array) {
    return !array.layout.pieces.empty() && nest::stored_elements(ctx_, array.layout, array.shape) != ctx_.product(array.shape);
  }

  double bytes(const Array& array) const {
    double n = bytes_of(array.dtype);
    for (const Expr* extent : array.shape) n *= estimate(extent);
    return n;
  }

  bool is_good(size_t unit) const {
    if (passing_[unit] == kNowhere) return false;
    const size_t begin = unit > kNearLaunches ? unit - kNearLaunches : 0, end = std::min(passing_.size(), unit + kNearLaunches + 1);
    const double least = *std::min_element(passing_.begin() + static_cast<ptrdiff_t>(begin), passing_.begin() + static_cast<ptrdiff_t>(end));
    return passing_[unit] <= kWorthPassing * least;
  }

  bool is_proc(size_t unit) const { return f_.body[first_[unit]].proc != nullptr; }

  std::vector<bool> cuts_for(double least, bool beside_procs) const {
    std::vector<bool> cuts(first_.size(), false);
    double since = 0;
    for (size_t unit = 1; unit < first_.size(); ++unit) {
      since += work_[unit - 1];
      const bool wanted = beside_procs && (is_proc(unit - 1) || is_proc(unit));
      cuts[unit] = passing_[unit] != kNowhere && (wanted || (since >= least && is_good(unit)));
      if (cuts[unit]) since = 0;
    }
    return cuts;
  }

  static bool too_many(const std::vector<bool>& cuts) {
    return static_cast<size_t>(std::count(cuts.begin(), cuts.end(), true)) >= kMostCutSegments;
  }

  ir::Context& ctx_;
  const nest::Function& f_;
  std::vector<size_t> first_;  // statement of each unit
  std::vector<double> work_, passing_;  // of each unit; before each unit
};

// What is returned without having been computed would have to be the result of some segment.
bool has_plain_outputs(const nest::Function& f) {
  return std::all_of(f.outputs.begin(), f.outputs.end(), [&](uint32_t a) { return f.arrays[a].kind == Array::Kind::Temp; });
}

// What is made of inputs and constants alone, a copy of an input say, belongs to the part that first reads it.
void bring_to_readers(nest::Function& f) {
  const Uses uses = uses_of(f);
  for (size_t s = 0; s < f.body.size(); ++s) {
    const auto& reads = uses.reads[s];
    if (std::any_of(reads.begin(), reads.end(), [&](uint32_t a) { return !uses.writers[a].empty(); })) continue;
    uint32_t first = UINT32_MAX;
    for (const uint32_t array : written(f.body[s])) {
      if (uses.output[array] || uses.writers[array].size() != 1) first = f.body[s].part;
      for (const size_t reader : uses.readers[array]) first = std::min(first, f.body[reader].part);
    }
    if (first != UINT32_MAX) f.body[s].part = std::max(f.body[s].part, first);
  }
  std::stable_sort(f.body.begin(), f.body.end(), [](const nest::Statement& a, const nest::Statement& b) { return a.part < b.part; });
}

}  // namespace

void number_parts(ir::Context& ctx, const std::vector<std::string>& names, Parts& parts) {
  for (const auto& segment : parts.segments) {
    nest::Function& whole = *segment;
    if (std::find(names.begin(), names.end(), whole.name) == names.end() || !has_plain_outputs(whole) || whole.body.empty() || !whole.states.empty()) continue;
    if (std::count_if(names.begin(), names.end(), [&](const std::string& n) { return n == whole.name || n.starts_with(whole.name + "."); }) > 1) continue;
    const std::vector<size_t> levels = Cutter(ctx, whole).run();
    for (size_t k = 0; k < levels.size(); ++k) whole.body[k].part = static_cast<uint32_t>(levels[k]);
    bring_to_readers(whole);
  }
}

Status cut_segments(ir::Context& ctx, Parts& parts) {
  parts.num_whole = parts.segments.size();
  for (size_t k = 0; k < parts.num_whole; ++k) {
    const nest::Function& whole = *parts.segments[k];
    const std::string name = whole.name;
    std::vector<size_t> levels;
    for (const nest::Statement& s : whole.body) levels.push_back(s.part);
    if (std::all_of(levels.begin(), levels.end(), [](size_t level) { return level == 0; })) continue;
    MLC_RETURN_IF_ERROR(partition_at(ctx, nest::copy_of(whole), std::move(levels), name + ".*",
                                     [&](size_t number) { return name + "." + std::to_string(number); }, parts));
  }
  return ok();
}

std::set<std::string> functions_of(const Parts& parts, const std::string& program) {
  std::set<std::string> known{program, program + ".*"};
  std::vector<std::string> open(known.begin(), known.end());
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    const auto of_name = std::find_if(parts.programs.begin(), parts.programs.end(), [&](const auto& p) { return p->interface.name == name; });
    if (of_name == parts.programs.end()) continue;
    for (const nest::Step& step : (*of_name)->steps)
      for (const std::string& called : step.functions)
        if (known.insert(called).second) open.push_back(called);
  }
  return known;
}

}  // namespace mlc::passes
