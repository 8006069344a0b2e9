#include "runtime/ensemble/turns.h"

#include <algorithm>

#include "runtime/ensemble/mapper.h"

namespace mlc::ensemble {

double Turns::done_at(uint32_t part, double ns, double now) const {
  const Line& line = lines_[part];
  if (line.waiting.empty()) return now + ns;
  // One that takes longer than expected is done any moment.
  double at = std::max(now, line.since + line.waiting.front().ns);
  for (size_t k = 1; k < line.waiting.size(); ++k) at += line.waiting[k].ns;
  return at + ns;
}

Turns::Place Turns::enter(std::span<const double> ns, double now, Bell* bell) {
  uint32_t best = 0;
  double first = kImpossible;
  for (uint32_t part = 0; part < ns.size(); ++part) {
    if (!(ns[part] < kImpossible)) continue;
    if (const double at = done_at(part, ns[part], now); at < first) best = part, first = at;
  }
  Line& line = lines_[best];
  if (line.waiting.empty()) line.since = now;
  line.waiting.push_back({next_, ns[best], bell});
  return {best, next_++};
}

Bell* Turns::leave(const Place& place, double now) {
  Line& line = lines_[place.part];
  const bool was_first = is_first(place);
  std::erase_if(line.waiting, [&](const Request& r) { return r.number == place.number; });
  if (!was_first || line.waiting.empty()) return nullptr;
  line.since = now;
  return line.waiting.front().bell;
}

}  // namespace mlc::ensemble
