#include "runtime/ensemble/placement.h"

#include <algorithm>

#include "base/compose.h"

namespace mlc::ensemble {
namespace {

Status no_such(const char* what, std::string_view name) { return Status(Code::Usage, "placement: there is no {} '{}'", what, name); }

Result<uint32_t> part_named(std::string_view name, const std::vector<Part>& parts) {
  const auto found = std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.name == name; });
  if (found != parts.end()) return static_cast<uint32_t>(found - parts.begin());
  Status s = no_such("device", name);
  for (const Part& p : parts) s.facts.push_back(compose("{}   runs {}", p.name, p.variant));
  return s;
}

Result<uint32_t> segment_named(std::string_view name, const exec::Plan& plan) {
  const auto found = plan.find(name);
  if (found && !plan.functions[*found].is_program()) return *found;
  Status s = no_such("segment", name);
  for (const exec::Function& f : plan.functions)
    if (!f.is_program()) s.facts.push_back(f.name);
  return s;
}

}  // namespace

Result<std::vector<uint32_t>> read_placement(std::string_view text, const exec::Plan& plan, const std::vector<Part>& parts) {
  std::vector<uint32_t> place(plan.functions.size(), kAnyPart);
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t equals = item.rfind('=');
    if (equals == std::string_view::npos) return Status(Code::Usage, "placement '{}': expected SEGMENT=DEVICE, such as main.3=gpu0", item);
    MLC_ASSIGN(const uint32_t segment, segment_named(item.substr(0, equals), plan));
    MLC_ASSIGN(place[segment], part_named(item.substr(equals + 1), parts));
  }
  return place;
}

}  // namespace mlc::ensemble
