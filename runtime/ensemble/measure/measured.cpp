#include "runtime/ensemble/measure/measured.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/compose.h"

namespace mlc::ensemble {
namespace {

constexpr std::string_view kFirstLine = "mlc-measured 1";
constexpr size_t kKey = 64;

bool is_key(std::string_view text) { return text.size() == kKey && text.find_first_not_of("0123456789abcdef") == std::string_view::npos; }
bool is_legal(uint64_t n) { return n <= MeasuredList::kMostNs || n == MeasuredList::kNever; }

// In the one spelling that a number has.
bool read_number(std::string_view text, uint64_t& out) {
  out = MeasuredList::kNever;
  if (text == "-") return true;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && (text.size() == 1 || text[0] != '0') && out <= MeasuredList::kMostNs;
}

uint64_t whole(double ns) {
  if (!(ns < kImpossible)) return MeasuredList::kNever;
  return static_cast<uint64_t>(std::llround(std::clamp(ns, 0.0, static_cast<double>(MeasuredList::kMostNs))));
}
double ns_of(uint64_t number) { return number == MeasuredList::kNever ? kImpossible : static_cast<double>(number); }

}  // namespace

Result<MeasuredList> MeasuredList::parse(std::string_view text) {
  MeasuredList out;
  for (size_t line = 1; !text.empty() || line == 1; ++line) {
    const auto damaged = [&] { return Status(Code::Malformed, "line {} is no record of what was measured", line); };
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return damaged();
    std::string_view rest = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line == 1) {
      if (rest != kFirstLine) return damaged();
      continue;
    }
    if (out.records_.size() == kMostRecords || !is_key(rest.substr(0, kKey)) || out.find(rest.substr(0, kKey))) return damaged();
    auto& [key, numbers] = out.records_.emplace_back();
    key = rest.substr(0, kKey);
    rest.remove_prefix(kKey);
    while (!rest.empty()) {
      if (rest[0] != ' ' || numbers.size() == kMostNumbers) return damaged();
      rest.remove_prefix(1);
      const std::string_view item = rest.substr(0, rest.find(' '));
      rest.remove_prefix(item.size());
      if (!read_number(item, numbers.emplace_back())) return damaged();
    }
  }
  return out;
}

std::string MeasuredList::encode() const {
  std::string text(kFirstLine);
  text += '\n';
  for (const auto& [key, numbers] : records_) {
    text += key;
    for (const uint64_t n : numbers) text += n == kNever ? std::string(" -") : compose(" {}", n);
    text += '\n';
  }
  return text;
}

const MeasuredList::Numbers* MeasuredList::find(std::string_view key) const {
  const auto found = std::find_if(records_.begin(), records_.end(), [&](const auto& r) { return r.first == key; });
  return found == records_.end() ? nullptr : &found->second;
}

void MeasuredList::put(std::string key, Numbers numbers) {
  if (!is_key(key) || numbers.size() > kMostNumbers || !std::all_of(numbers.begin(), numbers.end(), is_legal)) return;
  std::erase_if(records_, [&](const auto& r) { return r.first == key; });
  records_.insert(records_.begin(), {std::move(key), std::move(numbers)});
  if (records_.size() > kMostRecords) records_.pop_back();
}

MeasuredList::Numbers segment_numbers(const Problem& problem) {
  MeasuredList::Numbers out;
  for (const SegmentCost& segment : problem.segments)
    for (const double ns : segment.ns) out.push_back(whole(ns));
  return out;
}

bool set_segments(const MeasuredList::Numbers& numbers, Problem& problem) {
  if (numbers.size() != problem.segments.size() * problem.parts.size()) return false;
  auto next = numbers.begin();
  for (SegmentCost& segment : problem.segments) {
    segment.ns.resize(problem.parts.size());
    for (double& ns : segment.ns) ns = ns_of(*next++);
  }
  return true;
}

constexpr double kLinkBytes = 1e6;

MeasuredList::Numbers link_numbers(const PartCost& cost) { return {whole(cost.start_ns), whole(cost.copy_ns), whole(cost.ns_per_byte * kLinkBytes)}; }

bool set_link(const MeasuredList::Numbers& numbers, PartCost& cost) {
  if (numbers.size() != 3 || std::find(numbers.begin(), numbers.end(), MeasuredList::kNever) != numbers.end()) return false;
  cost.start_ns = ns_of(numbers[0]), cost.copy_ns = ns_of(numbers[1]), cost.ns_per_byte = ns_of(numbers[2]) / kLinkBytes;
  return true;
}

}  // namespace mlc::ensemble
