// LoongArch on Linux: AT_HWCAP, whose bits are what CPUCFG says and the kernel keeps for threads: without its support
// for vectors the instruction still names LSX and LASX. The bits are spelled out, because headers are older than
// LoongArch on most build machines.
#include <cstdio>

#include "runtime/probe/probe.h"

namespace mlc::probe {
namespace {

constexpr unsigned long kLaHwcap = 16;

struct LaRow {
  Feature feature;
  unsigned bit;
};
constexpr LaRow kLaRows[] = {{Feature::LaFpu, 3}, {Feature::LaUal, 2}, {Feature::LaLsx, 4}, {Feature::LaLasx, 5}};

}  // namespace

std::vector<std::string> raw_la(const Sources& s) {
  char line[40];
  std::snprintf(line, sizeof line, "hwcap %llx", static_cast<unsigned long long>(s.auxv(kLaHwcap).value_or(0)));
  return {line};
}

void probe_la(const Sources& s, Record& record) {
  const auto hwcap = s.auxv(kLaHwcap);
  for (const LaRow& row : kLaRows) {
    const std::string mechanism(kFeatureMechanisms[feature_index(row.feature)]);
    const bool yes = hwcap.value_or(0) >> row.bit & 1;
    record[row.feature] = hwcap ? FeatureAnswer{yes ? Answer::Yes : Answer::No, yes, mechanism}
                                : FeatureAnswer{Answer::Unknown, 0, mechanism + ": not passed by the kernel"};
  }
}

}  // namespace mlc::probe
