#include "runtime/match/choices.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/compose.h"

namespace mlc::match {
namespace {

constexpr size_t kFingerprintDigits = 32;
constexpr size_t kMostFaultWords = 200;

std::string fingerprint_of(std::string_view text) { return to_hex(sha256(text)).substr(0, kFingerprintDigits); }

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_plain(char c) { return c >= '!' && c <= '~' && c != '%'; }

std::string escaped(std::string_view text, char also_plain = 0) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_plain(c) || (also_plain != 0 && c == also_plain)) out += c;
    else out += {'%', digits[byte >> 4], digits[byte & 15]};
  }
  return out;
}

// The exact inverse; none for what escaped() does not make.
std::optional<std::string> unescaped(std::string_view text, char also_plain = 0) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      if (!is_plain(text[i]) && text[i] != also_plain) return std::nullopt;
      out += text[i];
      continue;
    }
    if (!is_hex(text.substr(i + 1, 2), 2)) return std::nullopt;
    unsigned byte = 0;
    std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16);
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

struct Line {
  std::string_view kind, root, machine;
  std::string variant, words, program;
  uint64_t ns = 0;
};

std::optional<Line> parsed(std::string_view text) {
  std::array<std::string_view, 4> first;
  for (std::string_view& word : first) {
    const size_t end = text.find(' ');
    if (end == text.npos) return std::nullopt;
    word = text.substr(0, end);
    text.remove_prefix(end + 1);
  }
  Line line{first[0], first[1], first[2], {}, {}, {}, 0};
  if (!is_hex(line.root, 64) || !is_hex(line.machine, kFingerprintDigits)) return std::nullopt;
  auto variant = unescaped(first[3]);
  if (!variant || variant->empty()) return std::nullopt;
  line.variant = *std::move(variant);
  if (line.kind == "fault") {
    auto words = unescaped(text, ' ');
    if (!words || words->empty() || words->size() > kMostFaultWords) return std::nullopt;
    line.words = *std::move(words);
    return line;
  }
  if (line.kind != "chosen" && line.kind != "measured") return std::nullopt;
  if (const size_t space = text.find(' '); space != text.npos) {
    auto program = unescaped(text.substr(space + 1));
    if (!program || program->empty()) return std::nullopt;
    line.program = *std::move(program);
    text = text.substr(0, space);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), line.ns);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return line;
}

// What an answer to a requirement depends on, a line each, in the order of the registry.
std::string safety_text(const probe::Record& record, std::span<const NamedDevice> devices) {
  std::string text = compose("machine={}\npage={}\ncode={}\n", name_of(record.machine), record.page_size, static_cast<unsigned>(record.code_pages));
  for (size_t i = 0; i < kNumFeatures; ++i) {
    const probe::FeatureAnswer& answer = record.features[i];
    if (answer.answer == probe::Answer::Yes) text += compose("{}={}\n", kFeatureNames[i], answer.number);
  }
  for (const NamedDevice& device : devices)
    text += compose("device={} {} {} {}\n", device.name, device.info.api, device.info.title, device.info.driver);
  return text;
}

std::string perf_text(const probe::Record& record) {
  const probe::Topology& t = record.topology;
  std::string text = compose("cpu={}\ncpus={}\ncores={}\nworkers={}\n", record.cpu_model, t.allowed_cpus.size(), t.cores, t.workers);
  if (t.quota_cpus) text += compose("quota={}\n", static_cast<uint64_t>(*t.quota_cpus * 100));
  return text;
}

std::string line_of(std::string_view kind, const Digest& root, std::string_view machine, std::string_view variant, std::string_view rest) {
  return compose("{} {} {} {} {}", kind, to_hex(root), machine, escaped(variant), rest);
}

}  // namespace

Fingerprints fingerprints(const probe::Record& record, std::span<const NamedDevice> devices) {
  const std::string safety = safety_text(record, devices);
  return {fingerprint_of(safety), fingerprint_of(safety + perf_text(record))};
}

ChoiceList ChoiceList::parse(std::string_view text, const Digest* only) {
  const std::string root = only ? " " + to_hex(*only) + " " : std::string();
  if (text.size() > kMostChoiceBytes) {
    text.remove_prefix(text.size() - kMostChoiceBytes);
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);  // half a line
  }
  ChoiceList list;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.find(root) != line.npos && parsed(line)) list.lines_.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return list;
}

std::string ChoiceList::encode() const {
  size_t from = lines_.size(), bytes = 0;
  while (from > 0 && bytes + lines_[from - 1].size() + 1 <= kMostChoiceBytes) bytes += lines_[--from].size() + 1;
  std::string text;
  for (; from < lines_.size(); ++from) text += lines_[from] + "\n";
  return text;
}

std::vector<RememberedVariant> ChoiceList::measured(const Digest& root, const Fingerprints& here, std::string_view program) const {
  const std::string hex = to_hex(root);
  std::vector<RememberedVariant> own, of_all;
  for (auto text = lines_.rbegin(); text != lines_.rend(); ++text) {
    const std::optional<Line> line = parsed(*text);
    if (!line || line->kind == "fault" || line->root != hex || line->machine != here.perf) continue;
    if (!line->program.empty() && line->program != program) continue;
    std::vector<RememberedVariant>& found = line->program.empty() ? of_all : own;
    if (std::any_of(found.begin(), found.end(), [&](const auto& other) { return other.variant == line->variant; })) continue;
    found.push_back({line->variant, line->ns, line->kind == "chosen", line->program});
  }
  return std::move(own.empty() ? of_all : own);
}

std::vector<RememberedFault> ChoiceList::faults(const Digest& root, const Fingerprints& here) const {
  const std::string hex = to_hex(root);
  std::vector<RememberedFault> found;
  for (auto text = lines_.rbegin(); text != lines_.rend(); ++text) {
    const std::optional<Line> line = parsed(*text);
    if (!line || line->kind != "fault" || line->root != hex || line->machine != here.safety) continue;
    if (std::none_of(found.begin(), found.end(), [&](const auto& other) { return other.variant == line->variant; })) found.push_back({line->variant, line->words});
  }
  return found;
}

void ChoiceList::put_measured(const Digest& root, const Fingerprints& here, std::span<const RememberedVariant> variants) {
  const std::string hex = to_hex(root);
  std::erase_if(lines_, [&](const std::string& text) {
    const std::optional<Line> line = parsed(text);
    const auto is_of_it = [&](const RememberedVariant& one) { return one.program == line->program; };
    return line && line->kind != "fault" && line->root == hex && line->machine == here.perf && std::any_of(variants.begin(), variants.end(), is_of_it);
  });
  for (const RememberedVariant& one : variants) {
    const std::string rest = std::to_string(one.ns) + (one.program.empty() ? std::string() : " " + escaped(one.program));
    lines_.push_back(line_of(one.is_chosen ? "chosen" : "measured", root, here.perf, one.variant, rest));
  }
}

void ChoiceList::put_fault(const Digest& root, const Fingerprints& here, std::string_view variant, std::string_view reason) {
  std::string line = fault_line(root, here, variant, reason);
  line.pop_back();
  std::erase(lines_, line);
  lines_.push_back(std::move(line));
}

bool ChoiceList::forget(const Digest& root) {
  const std::string hex = to_hex(root);
  return std::erase_if(lines_, [&](const std::string& text) { return parsed(text)->root == hex; }) > 0;
}

std::string fault_line(const Digest& root, const Fingerprints& here, std::string_view variant, std::string_view reason) {
  return line_of("fault", root, here.safety, variant, escaped(reason.substr(0, kMostFaultWords), ' ')) + "\n";
}

namespace {

std::optional<uint32_t> fitting(std::span<const format::Variant> variants, const Matcher& matcher, std::string_view name) {
  for (uint32_t i = 0; i < variants.size(); ++i)
    if (variants[i].name == name && matcher.assessments()[i].fits) return i;
  return std::nullopt;
}

}  // namespace

void apply_faults(const ChoiceList& list, const Digest& root, const Fingerprints& here, std::span<const format::Variant> variants,
                  Matcher& matcher, std::vector<std::string>& notes) {
  for (const RememberedFault& fault : list.faults(root, here)) {
    const std::optional<uint32_t> index = fitting(variants, matcher, fault.variant);
    if (!index || variants[*index].module_format == format::ModuleFormat::Portable) continue;
    matcher.reject(*index, compose("left out since it failed here: {}; mlrun tune --forget takes it in again", fault.reason));
    notes.push_back(compose("{} is left out since it failed here: {}", fault.variant, fault.reason));
  }
}

std::vector<MeasuredVariant> measured_of(const ChoiceList& list, const Digest& root, const Fingerprints& here, std::span<const format::Variant> variants,
                                         const Matcher& matcher, std::string_view program) {
  std::vector<MeasuredVariant> measured;
  for (const RememberedVariant& one : list.measured(root, here, program))
    if (const auto index = fitting(variants, matcher, one.variant)) measured.push_back({*index, one.ns, one.is_chosen});
  return measured;
}

}  // namespace mlc::match
