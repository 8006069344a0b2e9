// x86-64: CPUID for what the silicon has, XGETBV for what the OS saves across context switches. A bit of CPUID alone is
// no permission, and leaf 0xD reports what could be enabled, not what is: only XGETBV counts.
#include <array>
#include <cstdio>
#include <cstring>

#include "base/compose.h"
#include "runtime/probe/probe.h"

namespace mlc::probe {
namespace {

enum class Reg : uint8_t { Eax, Ebx, Ecx, Edx };
enum class State : uint8_t { None, Y, Z, T };  // XCR0 components the feature needs, each set complete

struct X86Row {
  Feature feature;
  uint32_t leaf, subleaf;
  Reg reg;
  uint32_t bits;
  State state;
};

constexpr uint32_t bit(unsigned n) { return uint32_t{1} << n; }

constexpr X86Row kX86Rows[] = {
    {Feature::X86Base, 1, 0, Reg::Edx, bit(0) | bit(8) | bit(15) | bit(23) | bit(24) | bit(25) | bit(26), State::None},
    {Feature::X86Sse3, 1, 0, Reg::Ecx, bit(0), State::None},
    {Feature::X86Ssse3, 1, 0, Reg::Ecx, bit(9), State::None},
    {Feature::X86Fma, 1, 0, Reg::Ecx, bit(12), State::Y},
    {Feature::X86Cx16, 1, 0, Reg::Ecx, bit(13), State::None},
    {Feature::X86Sse41, 1, 0, Reg::Ecx, bit(19), State::None},
    {Feature::X86Sse42, 1, 0, Reg::Ecx, bit(20), State::None},
    {Feature::X86Movbe, 1, 0, Reg::Ecx, bit(22), State::None},
    {Feature::X86Popcnt, 1, 0, Reg::Ecx, bit(23), State::None},
    {Feature::X86Avx, 1, 0, Reg::Ecx, bit(28), State::Y},
    {Feature::X86F16c, 1, 0, Reg::Ecx, bit(29), State::Y},
    {Feature::X86Bmi1, 7, 0, Reg::Ebx, bit(3), State::Y},
    {Feature::X86Avx2, 7, 0, Reg::Ebx, bit(5), State::Y},
    {Feature::X86Bmi2, 7, 0, Reg::Ebx, bit(8), State::Y},
    {Feature::X86Avx512f, 7, 0, Reg::Ebx, bit(16), State::Z},
    {Feature::X86Avx512dq, 7, 0, Reg::Ebx, bit(17), State::Z},
    {Feature::X86Avx512cd, 7, 0, Reg::Ebx, bit(28), State::Z},
    {Feature::X86Avx512bw, 7, 0, Reg::Ebx, bit(30), State::Z},
    {Feature::X86Avx512vl, 7, 0, Reg::Ebx, bit(31), State::Z},
    {Feature::X86Avx512vbmi, 7, 0, Reg::Ecx, bit(1), State::Z},
    {Feature::X86Avx512vnni, 7, 0, Reg::Ecx, bit(11), State::Z},
    {Feature::X86AmxBf16, 7, 0, Reg::Edx, bit(22), State::T},
    {Feature::X86Avx512fp16, 7, 0, Reg::Edx, bit(23), State::Z},
    {Feature::X86AmxTile, 7, 0, Reg::Edx, bit(24), State::T},
    {Feature::X86AmxInt8, 7, 0, Reg::Edx, bit(25), State::T},
    {Feature::X86Avxvnni, 7, 1, Reg::Eax, bit(4), State::Y},
    {Feature::X86Avx512bf16, 7, 1, Reg::Eax, bit(5), State::Z},
    {Feature::X86AmxFp16, 7, 1, Reg::Eax, bit(21), State::T},
    {Feature::X86Avxvnniint8, 7, 1, Reg::Edx, bit(4), State::Y},
    {Feature::X86Lahf, 0x80000001, 0, Reg::Ecx, bit(0), State::None},
    {Feature::X86Lzcnt, 0x80000001, 0, Reg::Ecx, bit(5), State::None},
};

// The leaves the rows need, read once: one CPUID traps to the hypervisor and costs microseconds in a VM.
struct Leaves {
  uint32_t max_basic = 0, max_extended = 0, max_sub7 = 0;
  CpuidRegs l0, l1, l7, l71, e1;

  const CpuidRegs* find(uint32_t leaf, uint32_t subleaf) const {
    if (leaf == 1) return max_basic >= 1 ? &l1 : nullptr;
    if (leaf == 7 && subleaf == 0) return max_basic >= 7 ? &l7 : nullptr;
    if (leaf == 7 && subleaf == 1) return max_basic >= 7 && max_sub7 >= 1 ? &l71 : nullptr;
    if (leaf == 0x80000001) return max_extended >= 0x80000001 ? &e1 : nullptr;
    return nullptr;
  }
};

Leaves read_leaves(const Sources& s, int cpu) {
  Leaves l;
  l.l0 = s.cpuid(cpu, 0, 0);
  l.max_basic = l.l0.eax;
  // A CPU without extended leaves answers with those of its highest basic leaf: not a number >= 0x80000000.
  const uint32_t extended = s.cpuid(cpu, 0x80000000, 0).eax;
  l.max_extended = extended >= 0x80000000 ? extended : 0;
  if (l.max_basic >= 1) l.l1 = s.cpuid(cpu, 1, 0);
  if (l.max_basic >= 7) {
    l.l7 = s.cpuid(cpu, 7, 0);
    l.max_sub7 = l.l7.eax;
    if (l.max_sub7 >= 1) l.l71 = s.cpuid(cpu, 7, 1);
  }
  if (l.max_extended >= 0x80000001) l.e1 = s.cpuid(cpu, 0x80000001, 0);
  return l;
}

uint32_t reg_of(const CpuidRegs& r, Reg reg) {
  switch (reg) {
    case Reg::Eax: return r.eax;
    case Reg::Ebx: return r.ebx;
    case Reg::Ecx: return r.ecx;
    case Reg::Edx: return r.edx;
  }
  return 0;
}

struct StateBits {
  uint64_t mask;
  const char* text;
};
StateBits state_bits(State s) {
  switch (s) {
    case State::None: return {0, ""};
    case State::Y: return {0x6, "xcr0 bits 1..2"};
    case State::Z: return {0xe6, "xcr0 bits 1..2, 5..7"};
    case State::T: return {0x60000, "xcr0 bits 17..18"};
  }
  return {0, ""};
}

// One CPU's answers. `xcr0` is none when OSXSAVE is clear.
FeatureAnswer answer_of(const X86Row& row, const Leaves& leaves, std::optional<uint64_t> xcr0) {
  const std::string mechanism(kFeatureMechanisms[feature_index(row.feature)]);
  const CpuidRegs* regs = leaves.find(row.leaf, row.subleaf);
  if (!regs) return {Answer::Unknown, 0, mechanism + ": leaf above the maximum"};
  if ((reg_of(*regs, row.reg) & row.bits) != row.bits) return {Answer::No, 0, mechanism};
  if (row.state != State::None) {
    if (!xcr0) return {Answer::No, 0, "osxsave 1.ecx[27] is 0"};
    const StateBits need = state_bits(row.state);
    if ((*xcr0 & need.mask) != need.mask) return {Answer::No, 0, compose("{} not enabled by the OS", need.text)};
  }
  return {Answer::Yes, 1, mechanism};
}

std::string vendor_of(const CpuidRegs& l0) {
  char text[13] = {};
  std::memcpy(text, &l0.ebx, 4);
  std::memcpy(text + 4, &l0.edx, 4);
  std::memcpy(text + 8, &l0.ecx, 4);
  return text;
}

std::string brand_of(const Sources& s, const Leaves& leaves) {
  if (leaves.max_extended < 0x80000004) return {};
  char text[49] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    const CpuidRegs r = s.cpuid(-1, 0x80000002 + i, 0);
    const uint32_t words[4] = {r.eax, r.ebx, r.ecx, r.edx};
    std::memcpy(text + 16 * i, words, 16);
  }
  std::string brand(text);
  while (!brand.empty() && brand.back() == ' ') brand.pop_back();
  return brand;
}

std::string raw_line(const char* name, const CpuidRegs& r) {
  char line[96];
  std::snprintf(line, sizeof line, "cpuid %s %08x %08x %08x %08x", name, r.eax, r.ebx, r.ecx, r.edx);
  return line;
}

bool has_osxsave(const Leaves& leaves) { return leaves.max_basic >= 1 && (leaves.l1.ecx & bit(27)) != 0; }

}  // namespace

std::vector<std::string> raw_x86(const Sources& s) {
  const Leaves first = read_leaves(s, -1);
  const bool osxsave = has_osxsave(first);
  char line[48];
  std::snprintf(line, sizeof line, "xcr0 %llx%s", static_cast<unsigned long long>(osxsave ? s.xgetbv0() : 0), osxsave ? "" : " (osxsave 0)");
  return {raw_line("0", first.l0), raw_line("1", first.l1), raw_line("7.0", first.l7), raw_line("7.1", first.l71), raw_line("80000001", first.e1), line};
}

void probe_x86(const Sources& s, Record& record) {
  const Leaves first = read_leaves(s, -1);
  std::optional<uint64_t> xcr0;
  if (has_osxsave(first)) xcr0 = s.xgetbv0();

  record.cpu_vendor = vendor_of(first.l0);
  record.cpu_model = brand_of(s, first);

  for (const X86Row& row : kX86Rows) record[row.feature] = answer_of(row, first, xcr0);

  // More than one type of core: only what every allowed CPU has. XCR0 is one for the whole system.
  if (first.max_basic >= 7 && (first.l7.edx & bit(15))) {
    for (int cpu : record.topology.allowed_cpus) {
      const Leaves other = read_leaves(s, cpu);
      for (const X86Row& row : kX86Rows) {
        FeatureAnswer& known = record[row.feature];
        if (known.answer != Answer::Yes) continue;
        FeatureAnswer here = answer_of(row, other, xcr0);
        if (here.answer != Answer::Yes)
          known = {Answer::Unknown, 0, compose("{}: cores disagree (cpu {})", here.source, cpu)};
      }
    }
  }

  // Whether permission for tile data can be granted. It is asked for only when a variant that wants it is admitted.
  FeatureAnswer& amx = record[Feature::X86AmxPermission];
  const CallResult supported = s.xcomp_supported();
  if (supported.error != 0)
    amx = {Answer::Unknown, 0, compose("arch_prctl(0x1021): {}", std::strerror(supported.error))};
  else
    amx = {supported.value & (int64_t{1} << 18) ? Answer::Yes : Answer::No, 1, "arch_prctl(0x1021) component 18"};
}

}  // namespace mlc::probe
