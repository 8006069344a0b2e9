#include "runtime/cli/profile/profile_runs.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace mlc::cli {
namespace {

constexpr uint64_t kMostSamples = uint64_t{1} << 22;  // of all launches
constexpr uint64_t kMostRuns = 10'000;
constexpr size_t kFewestRuns = 3;

// A launch by its device, its function and its number in it: numbers of the profile shift when a function runs for the first time.
using Key = std::tuple<std::string, std::string, uint32_t>;
struct Seen {
  uint32_t index = 0;
  MlcProfileEntry before = sized<MlcProfileEntry>(), last = sized<MlcProfileEntry>();
  std::vector<uint64_t> samples, waited;  // ns of each run in which it was executed
};

// Sorts them.
uint64_t median_of(std::vector<uint64_t>& samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

class Reader {
 public:
  Reader(const OpenSession& session, const char* program) : session_(session), program_(program) {}

  // Behind a run. `counts`: it was measured, else it was of the warm-up.
  void read(bool counts) {
    auto e = sized<MlcProfileEntry>();
    std::string device, function;
    uint32_t number = 0;
    for (uint32_t i = 0; api().profile(session_.session.get(), program_, i, &e) == MLC_OK; ++i) {
      if (device != e.device || function != e.function) device = e.device, function = e.function, number = 0;
      auto [found, is_new] = seen_.try_emplace({device, function, number++});
      Seen& s = found->second;
      s.index = i;
      s.before = std::exchange(s.last, e);
      if (!counts || e.runs == s.before.runs) continue;
      s.samples.push_back(e.ns - s.before.ns);
      s.waited.push_back(e.waited_ns - s.before.waited_ns);
    }
  }

  uint64_t most_runs() const { return std::clamp<uint64_t>(kMostSamples / std::max<size_t>(seen_.size(), 1), kFewestRuns, kMostRuns); }

  std::vector<ProfiledLaunch> launches() {
    std::vector<ProfiledLaunch> out(seen_.size());
    for (auto& [key, seen] : seen_) out[seen.index] = launch(seen);  // numbers are those of the last run
    return out;
  }

 private:
  ProfiledLaunch launch(Seen& seen) const {
    const MlcProfileEntry& e = seen.last;
    ProfiledLaunch out;
    out.name = *e.name ? e.name : e.is_launch ? "kernel " + std::to_string(e.kernel) : std::string("copy");
    out.function = e.function;
    out.device = e.device;
    out.op = operator_of(out.name);
    out.is_launch = e.is_launch;
    out.of_bytes = e.of_bytes;
    out.kernel = e.kernel;
    out.each_run = e.runs - seen.before.runs;
    if (!seen.samples.empty()) {
      out.median_ns = median_of(seen.samples);
      out.min_ns = seen.samples.front();
      out.waited_ns = median_of(seen.waited);
    }
    out.operations = e.operations;
    out.read = e.bytes_read;
    out.written = e.bytes_written;
    out.tiles = e.tiles;
    out.threads = e.threads;
    out.num_cuts = std::min<uint32_t>(e.num_cuts, 3);
    std::copy(std::begin(e.units), std::end(e.units), out.units.begin());
    std::copy(std::begin(e.chunks), std::end(e.chunks), out.chunks.begin());
    auto m = sized<MlcProfileMoments>();
    for (uint32_t w = 0; api().profile_moments(session_.session.get(), program_, seen.index, w, &m) == MLC_OK; ++w) out.moments.push_back(m);
    return out;
  }

  const OpenSession& session_;
  const char* program_;
  std::map<Key, Seen> seen_;
};

}  // namespace

double ProfiledLaunch::all_bytes() const {
  const double bytes = (read == MLC_NOT_KNOWN ? 0 : static_cast<double>(read)) + (written == MLC_NOT_KNOWN ? 0 : static_cast<double>(written));
  return bytes * static_cast<double>(each_run);
}

double ProfiledLaunch::share_of_roof(const Ceilings& ceilings) const {
  if (!knows_work() || min_ns == 0 || !is_on_processor()) return -1;
  const uint64_t bytes = read > UINT64_MAX - written ? UINT64_MAX : read + written;
  return ceilings.bound(operations, bytes, of_bytes).ns * static_cast<double>(each_run) / static_cast<double>(min_ns);
}

std::string operator_of(const std::string& name) {
  std::string first, last;
  for (size_t end = 0; (end = name.find(')', end)) != name.npos; ++end) {
    const size_t begin = name.rfind('(', end);
    if (begin == name.npos) continue;
    last = name.substr(begin + 1, end - begin - 1);
    if (first.empty()) first = last;
  }
  if (first.empty()) return name.substr(0, name.find(' '));
  return first == last ? first : first + " to " + last;
}

Result<Profile> profile(const OpenSession& session, const MeasureOptions& options) {
  SessionRuns runs(session, options);
  Reader reader(session, options.program);
  Profile out;
  const uint64_t begin = now_ns();
  do {
    MLC_RETURN_IF_ERROR(runs.once());
    reader.read(false);
  } while (now_ns() - begin < options.warmup_ns);
  const uint64_t most = reader.most_runs();
  uint64_t measured = 0;
  while (out.runs.size() < kFewestRuns || (measured < options.duration_ns && out.runs.size() < most)) {
    const uint64_t start = now_ns();
    MLC_RETURN_IF_ERROR(runs.once());
    out.runs.push_back(now_ns() - start);
    measured += out.runs.back();
    reader.read(true);
  }
  out.launches = reader.launches();
  std::sort(out.runs.begin(), out.runs.end());
  return out;
}

}  // namespace mlc::cli
