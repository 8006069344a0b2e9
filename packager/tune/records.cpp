#include "packager/tune/records.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "signing/hash_tree.h"

namespace mlc::tune {
namespace {

constexpr std::string_view kFirstLine = "mlpack tuning 1";
constexpr size_t kNameDigits = 64;

std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 200)) out += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  return out;
}

bool is_name(std::string_view text) {
  return text.size() == kNameDigits && std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// A line, word by word.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  bool is(std::string_view word) { return take() == word; }
  std::string_view take() {
    const size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return word;
  }
  std::string_view rest() const { return rest_; }
  bool number(uint64_t& out) {
    const std::string_view word = take();
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
    return error == std::errc() && end == word.data() + word.size() && !word.empty() && (word.size() == 1 || word[0] != '0');
  }

 private:
  std::string_view rest_;
};

bool read(std::string_view line, Setup& out) {
  Words words(line);
  uint64_t threads = 0;
  if (!words.is("setup")) return false;
  out.target = words.take();
  if (out.target.empty() || !words.is("threads") || !words.number(threads) || threads < 1 || threads > 1 << 16 || !words.is("compiler")) return false;
  out.threads = static_cast<unsigned>(threads);
  out.compiler = words.take();
  if (!is_name(out.compiler) || !words.is("extents")) return false;
  out.extents = words.take();
  if (out.extents.empty()) return false;
  if (out.extents == "-") out.extents.clear();
  if (!words.is("machine")) return false;
  out.machine = words.rest();
  return true;
}

bool read(std::string_view line, Record& out) {
  Words words(line);
  if (!words.is("nest")) return false;
  out.nest = words.take();
  out.source = words.rest();
  return is_name(out.nest);
}

bool read(std::string_view line, Timing& out) {
  Words words(line);
  if (!words.is("time") || !words.number(out.least_ns) || !words.number(out.median_ns) || !words.number(out.samples)) return false;
  out.schedule = words.rest();
  return !out.schedule.empty() && out.samples > 0 && out.least_ns <= out.median_ns;
}

// The largest loss of each schedule against the best of a setup, of those that all setups have tried.
struct Loss {
  double least = 1, median = 1;
  size_t setups = 0;
};

}  // namespace

std::string nest_name(std::string_view lasting_key) { return to_hex(sha256(lasting_key)); }

Result<Records> Records::parse(std::string_view text) {
  Records out;
  std::optional<Setup> setup;
  size_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto wrong = [&](const std::string& what) { return Status(Code::Malformed, "records of mlpack tune, line " + std::to_string(number) + ": " + what); };
    if (line.size() > Records::kMostText) return wrong("longer than " + std::to_string(Records::kMostText) + " bytes");
    if (number == 1) {
      if (line != kFirstLine) return wrong("'" + std::string(kFirstLine) + "' expected");
    } else if (line.starts_with("setup ")) {
      if (!read(line, setup.emplace())) return wrong("a setup expected: target, threads, compiler, extents, machine");
    } else if (line.starts_with("nest ")) {
      Record record;
      if (!setup || !read(line, record)) return wrong(setup ? "a nest expected: 64 hexadecimal digits, a source" : "a nest before the first setup");
      if (out.records_.size() == kMostRecords) return wrong("more than " + std::to_string(kMostRecords) + " nests");
      record.setup = *setup;
      out.records_.push_back(std::move(record));
    } else {
      Timing timing;
      if (out.records_.empty() || out.records_.back().setup != *setup || !read(line, timing))
        return wrong("a time of a nest expected: least, median, number of samples, schedule");
      if (out.records_.back().timings.size() == kMostTimings) return wrong("more than " + std::to_string(kMostTimings) + " times of a nest");
      out.records_.back().timings.push_back(std::move(timing));
    }
  }
  if (number == 0) return Status(Code::Malformed, "records of mlpack tune: the file is empty");
  return out;
}

std::string Records::print() const {
  std::string out = std::string(kFirstLine) + "\n";
  const Setup* setup = nullptr;
  for (const Record& record : records_) {
    if (!setup || *setup != record.setup) {
      setup = &record.setup;
      out += "setup " + setup->target + " threads " + std::to_string(setup->threads) + " compiler " + setup->compiler + " extents " +
             (setup->extents.empty() ? "-" : setup->extents) + " machine " + one_line(setup->machine) + "\n";
    }
    out += "nest " + record.nest + " " + one_line(record.source) + "\n";
    for (const Timing& t : record.timings)
      out += "time " + std::to_string(t.least_ns) + " " + std::to_string(t.median_ns) + " " + std::to_string(t.samples) + " " + t.schedule + "\n";
  }
  return out;
}

void Records::add(Record record) {
  record.source = one_line(record.source), record.setup.machine = one_line(record.setup.machine);
  for (Record& known : records_)
    if (known.nest == record.nest && known.setup == record.setup) {
      known = std::move(record);
      return;
    }
  // Behind the others of its setup, so that each setup is written once.
  const auto last = std::find_if(records_.rbegin(), records_.rend(), [&](const Record& r) { return r.setup == record.setup; });
  records_.insert(last == records_.rend() ? records_.end() : last.base(), std::move(record));
}

std::optional<std::string> Records::best(std::string_view target, std::string_view nest) const {
  std::map<std::string, Loss> losses;
  size_t setups = 0;
  std::string own;
  for (const Record& record : records_) {
    if (record.nest != nest || record.setup.target != target || record.timings.empty()) continue;
    ++setups;
    if (own.empty()) own = record.timings.front().schedule;
    uint64_t least = UINT64_MAX, median = UINT64_MAX;
    for (const Timing& t : record.timings) least = std::min(least, t.least_ns), median = std::min(median, t.median_ns);
    for (const Timing& t : record.timings) {
      Loss& loss = losses[t.schedule];
      loss.least = std::max(loss.least, static_cast<double>(t.least_ns) / static_cast<double>(std::max<uint64_t>(least, 1)));
      loss.median = std::max(loss.median, static_cast<double>(t.median_ns) / static_cast<double>(std::max<uint64_t>(median, 1)));
      ++loss.setups;
    }
  }
  if (setups == 0 || losses[own].setups != setups) return std::nullopt;
  const Loss of_own = losses[own];
  const std::string* found = nullptr;
  double least = of_own.least * kWorthIt;
  for (const auto& [schedule, loss] : losses)
    if (loss.setups == setups && loss.least <= least && loss.median <= of_own.median * kWorthIt && (!found || loss.least < losses[*found].least))
      found = &schedule;
  return found ? std::optional(*found) : std::nullopt;
}

Records Records::of(std::string_view target, const std::set<std::string>& nests) const {
  Records out;
  for (const Record& record : records_)
    if (record.setup.target == target && nests.contains(record.nest)) out.records_.push_back(record);
  return out;
}

Records Records::of_compiler(std::string_view compiler) const {
  Records out;
  for (const Record& record : records_)
    if (record.setup.compiler == compiler) out.records_.push_back(record);
  return out;
}

}  // namespace mlc::tune
