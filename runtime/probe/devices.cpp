#include "runtime/probe/devices.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/compose.h"

namespace mlc::probe {
namespace {

constexpr std::string_view kFirstLine = "mlrt-devices 1";
constexpr size_t kMostDevices = 64, kMostName = 512;

bool is_text(std::string_view t) {
  return t.size() <= kMostName && std::none_of(t.begin(), t.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
}
std::string cleaned(std::string_view t) {
  std::string out(t.substr(0, kMostName));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  return out;
}
bool is_identity(std::string_view t) {
  return t.size() == 32 && t.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

template <class T>
std::optional<T> number(std::string_view t) {
  T out{};
  const auto r = std::from_chars(t.data(), t.data() + t.size(), out);
  return r.ec == std::errc() && r.ptr == t.data() + t.size() ? std::optional(out) : std::nullopt;
}

// What stands before the first blank, and what behind it.
std::pair<std::string_view, std::string_view> split(std::string_view line) {
  const size_t at = line.find(' ');
  return at == std::string_view::npos ? std::pair(line, std::string_view()) : std::pair(line.substr(0, at), line.substr(at + 1));
}

// A line of a device. False if it is none.
bool read_line(std::string_view key, std::string_view rest, device::Info& d) {
  if (key == "title" || key == "driver") return is_text(rest) && ((key == "title" ? d.title : d.driver) = rest, true);
  if (key == "software") return (rest == "0" || rest == "1") && (d.is_software = rest == "1", true);
  if (key == "memory") {
    const auto bytes = number<uint64_t>(rest);
    return bytes && (d.memory_bytes = *bytes, true);
  }
  if (key != "fact") return false;
  const auto [name, value] = split(rest);
  const Feature feature = feature_named(name);
  const auto n = number<int64_t>(value);
  if (feature == Feature::None || !is_of_device(static_cast<uint32_t>(feature)) || !n) return false;
  if (std::any_of(d.facts.begin(), d.facts.end(), [&](const device::Fact& f) { return f.feature == feature; })) return false;
  d.facts.push_back({feature, *n});
  return true;
}

}  // namespace

std::string device_text(std::span<const device::Info> devices) {
  std::string out = compose("{}\n", kFirstLine);
  for (const device::Info& d : devices) {
    out += compose("device {} {}\ntitle {}\ndriver {}\nsoftware {}\nmemory {}\n", d.api, d.identity, cleaned(d.title), cleaned(d.driver),
                   d.is_software ? 1 : 0, d.memory_bytes);
    for (const device::Fact& f : d.facts) out += compose("fact {} {}\n", name_of(f.feature), f.number);
  }
  return out + "end\n";
}

Result<std::vector<device::Info>> parse_device_text(std::string_view text) {
  const auto broken = [](std::string_view line) { return Status(Code::Malformed, "devices: no such line: '{}'", cleaned(line.substr(0, 80))); };
  if (text.size() > kMostDeviceText) return Status(Code::Malformed, "devices: more than {} bytes", kMostDeviceText);
  std::vector<device::Info> out;
  for (bool first = true; !text.empty(); first = false) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return broken(text);
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (first && line != kFirstLine) return broken(line);
    if (first) continue;
    if (line == "end") return text.empty() ? Result(std::move(out)) : Result<std::vector<device::Info>>(broken(text));
    const auto [key, rest] = split(line);
    if (key == "device") {
      const auto [api, identity] = split(rest);
      if ((api != "vulkan" && api != "cuda") || !is_identity(identity) || out.size() >= kMostDevices) return broken(line);
      out.emplace_back();
      out.back().api = api;
      out.back().identity = identity;
    } else if (out.empty() || !read_line(key, rest, out.back())) {
      return broken(line);
    }
  }
  return Status(Code::Malformed, "devices: the text ends too early");
}

std::vector<Card> cards_of(std::span<const device::Info> found) {
  std::vector<Card> out;
  for (const device::Info& d : found) {
    auto card = std::find_if(out.begin(), out.end(), [&](const Card& c) { return c.identity == d.identity; });
    if (card == out.end()) card = out.insert(card, {d.identity, {}});
    card->shown.push_back(&d);
  }
  return out;
}

}  // namespace mlc::probe
