// RISC-V: riscv_hwprobe with our affinity mask, so that a flag holds on every CPU we may run on. Without it (Linux
// before 6.4, qemu-user 7.2) the single letters of AT_HWCAP answer for i, m, a, f, d, c, v and the rest is unknown; that
// is no error. A vector unit can be off for a thread although these say yes: prctl(70) is asked too.
//
// hwprobe means version 1.0 of V. The letter may mean a draft: kernels for cores with vectors of 0.7.1 (T-Head C906, C910) set it as
// well, and that encodes instructions otherwise. There vsetvli tells: 1.0 has the bits "tail agnostic" and "mask agnostic", which the
// draft reserves, so it answers that no element fits.
#include <cstdio>
#include <cstring>

#include "base/compose.h"
#include "runtime/probe/probe.h"

namespace mlc::probe {
namespace {

constexpr unsigned long kRvHwcap = 16;
constexpr int64_t kKeyBaseBehavior = 3, kKeyImaExt0 = 4;
constexpr int kPrRiscvVGetControl = 70;

struct RvRow {
  Feature feature;
  unsigned key, bit;
  char letter;  // in AT_HWCAP, or 0
};
constexpr RvRow kRvRows[] = {
    {Feature::RvI, 3, 0, 'i'},  {Feature::RvM, 3, 0, 'm'},  {Feature::RvA, 3, 0, 'a'},  {Feature::RvF, 4, 0, 'f'},
    {Feature::RvD, 4, 0, 'd'},  {Feature::RvC, 4, 1, 'c'},  {Feature::RvV, 4, 2, 'v'},  {Feature::RvZba, 4, 3, 0},
    {Feature::RvZbb, 4, 4, 0},  {Feature::RvZbs, 4, 5, 0},  {Feature::RvZvfh, 4, 30, 0},
};

// What else a yes depends on. The vector control of this thread: bits 0..1 are 1 when off, 2 when on; EINVAL: there is no such
// control. Instructions are tried behind that only.
void check_vector(const Sources& s, bool is_by_letter, FeatureAnswer& v) {
  if (v.answer != Answer::Yes) return;
  const CallResult control = s.prctl(kPrRiscvVGetControl);
  if (control.error == 0 && (control.value & 3) == 1) v = {Answer::No, 0, "prctl(70): vector is off for this thread"};
  else if (is_by_letter && s.most_vector_bytes() == 0) v = {Answer::No, 0, "hwcap 'v' means a draft: vsetvli refuses 'ta, ma'"};
  else if (is_by_letter) v.source = "hwcap 'v' and vsetvli 'ta, ma'";
}

}  // namespace

std::vector<std::string> raw_rv(const Sources& s, const std::vector<int>& cpus) {
  HwprobePair pairs[2] = {{kKeyBaseBehavior, 0}, {kKeyImaExt0, 0}};
  const int error = s.hwprobe(pairs, cpus);
  char line[112];
  std::snprintf(line, sizeof line, "hwprobe errno %d, %lld=%llx %lld=%llx, hwcap %llx", error,
                static_cast<long long>(pairs[0].key), static_cast<unsigned long long>(pairs[0].value),
                static_cast<long long>(pairs[1].key), static_cast<unsigned long long>(pairs[1].value),
                static_cast<unsigned long long>(s.auxv(kRvHwcap).value_or(0)));
  return {line};
}

void probe_rv(const Sources& s, Record& record) {
  HwprobePair pairs[2] = {{kKeyBaseBehavior, 0}, {kKeyImaExt0, 0}};
  const int error = s.hwprobe(pairs, record.topology.allowed_cpus);
  const auto hwcap = s.auxv(kRvHwcap);
  for (const RvRow& row : kRvRows) {
    FeatureAnswer& out = record[row.feature];
    const HwprobePair& pair = pairs[row.key == 3 ? 0 : 1];
    const std::string key_text = compose("hwprobe key {}[{}]", row.key, row.bit);
    if (error == 0 && pair.key >= 0) {
      const bool yes = pair.value >> row.bit & 1;
      out = {yes ? Answer::Yes : Answer::No, yes, key_text};
    } else if (row.letter && hwcap) {
      const bool yes = *hwcap >> (row.letter - 'a') & 1;
      out = {yes ? Answer::Yes : Answer::No, yes, compose("hwcap '{}'", std::string_view(&row.letter, 1))};
    } else {
      out = {Answer::Unknown, 0,
             error ? compose("{}: {}", key_text, std::strerror(error)) : key_text + ": the kernel does not know the key"};
    }
  }
  check_vector(s, error != 0 || pairs[1].key < 0, record[Feature::RvV]);
  if (record[Feature::RvV].answer == Answer::Yes)
    record[Feature::RvVlenb] = {Answer::Yes, static_cast<int64_t>(s.read_vlenb()), "csr 0xc22"};
  else
    record[Feature::RvVlenb] = {Answer::Unknown, 0, "csr 0xc22 traps while rv.v is not yes"};
}

}  // namespace mlc::probe
