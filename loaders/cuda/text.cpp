#include "loaders/cuda/text.h"

#include <charconv>
#include <set>
#include <string>
#include <string_view>

namespace mlc::cuda {
namespace {

constexpr std::string_view kEntry = "\n.visible .entry ";

// What stands on the first line that begins so; the line goes from `text`.
bool take_line(std::string_view& text, std::string_view begin, std::string_view& rest) {
  const size_t end = text.find('\n');
  if (!text.starts_with(begin) || end == text.npos) return false;
  rest = text.substr(begin.size(), end - begin.size());
  text.remove_prefix(end + 1);
  return true;
}

}  // namespace

Status check_text(std::span<const std::byte> bytes, std::span<const gpu::Entry* const> entries, uint32_t capability) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size() - 1);  // decode() saw the zero at its end
  std::string_view version, target, size;
  if (!take_line(text, ".version ", version) || !take_line(text, ".target sm_", target) || !take_line(text, ".address_size ", size) || size != "64")
    return Status(Code::Malformed, "text without the header of PTX");
  uint32_t sm = 0;
  const auto [end, error] = std::from_chars(target.data(), target.data() + target.size(), sm);
  if (error != std::errc() || (end != target.data() + target.size() && std::string_view(end, 1) != "a")) return Status(Code::Malformed, "PTX for sm_{}", target);
  const bool exact = end != target.data() + target.size();  // "sm_90a": for that one alone
  if (exact ? sm != capability : sm > capability)
    return Status(Code::Unsupported, "PTX for sm_{}, the device is sm_{}", target, capability);
  std::set<std::string_view> found;
  text = {reinterpret_cast<const char*>(bytes.data()), bytes.size() - 1};
  for (size_t at = 0; (at = text.find(kEntry, at)) != text.npos;) {
    at += kEntry.size();
    found.insert(text.substr(at, text.find('(', at) - at));
  }
  for (const gpu::Entry* e : entries)
    if (!found.contains(e->name)) return Status(Code::Malformed, "no entry '{}'", e->name);
  if (found.size() != entries.size()) return Status(Code::Malformed, "{} entries, expected {}", found.size(), entries.size());
  return ok();
}

}  // namespace mlc::cuda
