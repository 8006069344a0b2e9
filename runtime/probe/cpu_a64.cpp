// AArch64 on Linux: AT_HWCAP, AT_HWCAP2 and prctl. The bits are spelled out here, because Debian's headers are older
// than some of them. SVE2 is ANDed with SVE: kernels before about 6.14 announce it on cores that have only SME.
#include <cstdio>
#include <cstring>

#include "base/compose.h"
#include "runtime/probe/probe.h"

namespace mlc::probe {
namespace {

constexpr unsigned long kA64Hwcap = 16, kA64Hwcap2 = 26;

struct A64Row {
  Feature feature;
  uint64_t hwcap, hwcap2;  // all of these bits
};
constexpr uint64_t hwcap_bit(unsigned n) { return uint64_t{1} << n; }

constexpr A64Row kA64Rows[] = {
    {Feature::A64Fp, hwcap_bit(0), 0},
    {Feature::A64Asimd, hwcap_bit(1), 0},
    {Feature::A64Fp16, hwcap_bit(9) | hwcap_bit(10), 0},
    {Feature::A64Dotprod, hwcap_bit(20), 0},
    {Feature::A64I8mm, 0, hwcap_bit(13)},
    {Feature::A64Bf16, 0, hwcap_bit(14)},
    {Feature::A64Sve, hwcap_bit(22), 0},
    {Feature::A64Sve2, hwcap_bit(22), hwcap_bit(1)},
    {Feature::A64Bti, 0, hwcap_bit(17)},
};

// The vector length belongs to the thread that asks; workers ask again.
FeatureAnswer vector_length(const Sources& s, int option, const char* name) {
  const CallResult r = s.prctl(option);
  if (r.error != 0) return {Answer::Unknown, 0, compose("{}: {}", name, std::strerror(r.error))};
  return {Answer::Yes, r.value & 0xffff, name};
}

}  // namespace

std::vector<std::string> raw_a64(const Sources& s) {
  char line[80];
  std::snprintf(line, sizeof line, "hwcap %llx hwcap2 %llx", static_cast<unsigned long long>(s.auxv(kA64Hwcap).value_or(0)),
                static_cast<unsigned long long>(s.auxv(kA64Hwcap2).value_or(0)));
  return {line};
}

void probe_a64(const Sources& s, Record& record) {
  const auto hwcap = s.auxv(kA64Hwcap), hwcap2 = s.auxv(kA64Hwcap2);
  for (const A64Row& row : kA64Rows) {
    const std::string mechanism(kFeatureMechanisms[feature_index(row.feature)]);
    if ((row.hwcap && !hwcap) || (row.hwcap2 && !hwcap2)) {
      record[row.feature] = {Answer::Unknown, 0, mechanism + ": not passed by the kernel"};
      continue;
    }
    const bool yes = (hwcap.value_or(0) & row.hwcap) == row.hwcap && (hwcap2.value_or(0) & row.hwcap2) == row.hwcap2;
    record[row.feature] = {yes ? Answer::Yes : Answer::No, yes, mechanism};
  }
  record[Feature::A64SveVlBytes] = vector_length(s, 51, "prctl(51)");
  record[Feature::A64SmeSvlBytes] = vector_length(s, 64, "prctl(64)");
}

}  // namespace mlc::probe
