// A host made of recorded text: every answer the probe can ask for, set by the test.
#pragma once

#include <cerrno>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/probe/sources.h"

namespace mlc::test {

struct FakeSources : probe::Sources {
  Machine arch = Machine::X86_64;
  std::map<std::pair<uint32_t, uint32_t>, probe::CpuidRegs> leaves;                 // of every CPU
  std::map<std::pair<int, std::pair<uint32_t, uint32_t>>, probe::CpuidRegs> of_cpu; // of one CPU, before `leaves`
  uint64_t xcr0 = 0;
  probe::CallResult xcomp{0, EINVAL};
  std::map<unsigned long, uint64_t> auxiliary;
  std::map<int, probe::CallResult> prctls;
  int hwprobe_error = ENOSYS;
  std::map<int64_t, uint64_t> hwprobe_values;
  uint64_t vlenb = 0;
  bool is_draft_vector = false;
  std::vector<int> cpus{0};
  int here = 0;  // the CPU of the thread that asks
  std::map<std::string, std::string> files;
  uint64_t pages = 4096;
  std::map<CodePages, std::string> code_refusals;
  mutable unsigned xgetbv_calls = 0, vlenb_reads = 0, vsetvli_calls = 0;
  mutable uint32_t highest_leaf = 0;

  Machine machine() const override { return arch; }
  probe::CpuidRegs cpuid(int cpu, uint32_t leaf, uint32_t subleaf) const override {
    if (leaf < 0x80000000) highest_leaf = std::max(highest_leaf, leaf);
    if (auto i = of_cpu.find({cpu, {leaf, subleaf}}); i != of_cpu.end()) return i->second;
    auto i = leaves.find({leaf, subleaf});
    return i == leaves.end() ? probe::CpuidRegs{} : i->second;
  }
  uint64_t xgetbv0() const override { return ++xgetbv_calls, xcr0; }
  probe::CallResult xcomp_supported() const override { return xcomp; }
  std::optional<uint64_t> auxv(unsigned long type) const override {
    auto i = auxiliary.find(type);
    return i == auxiliary.end() ? std::nullopt : std::optional(i->second);
  }
  probe::CallResult prctl(int option) const override {
    auto i = prctls.find(option);
    return i == prctls.end() ? probe::CallResult{0, EINVAL} : i->second;
  }
  int hwprobe(std::span<probe::HwprobePair> pairs, const std::vector<int>&) const override {
    if (hwprobe_error) return hwprobe_error;
    for (auto& p : pairs) {
      auto i = hwprobe_values.find(p.key);
      if (i == hwprobe_values.end()) p = {-1, 0};
      else p.value = i->second;
    }
    return 0;
  }
  uint64_t read_vlenb() const override { return ++vlenb_reads, vlenb; }
  uint64_t most_vector_bytes() const override { return ++vsetvli_calls, is_draft_vector ? 0 : vlenb; }
  probe::CallResult affinity(std::vector<int>& out) const override {
    out = cpus;
    return {};
  }
  int current_cpu() const override { return here; }
  std::optional<std::string> read_file(const std::string& path) const override {
    auto i = files.find(path);
    return i == files.end() ? std::nullopt : std::optional(i->second);
  }
  uint64_t page_size() const override { return pages; }
  std::string os_release() const override { return "Linux test"; }
  std::string try_code_pages(CodePages s) const override {
    auto i = code_refusals.find(s);
    return i == code_refusals.end() ? std::string() : i->second;
  }

  // The leaves of a CPU with everything up to AVX-512 VNNI and BF16, XCR0 to match.
  static FakeSources x86_v4() {
    FakeSources s;
    s.leaves[{0, 0}] = {0x16, 0x756e6547, 0x6c65746e, 0x49656e69};
    s.leaves[{1, 0}] = {0, 0, 0x77fafbff | 1u << 27, 0xffffffff};
    s.leaves[{7, 0}] = {1, 0xf1bf07ab | 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31, 1u << 11 | 1u << 1, 0};
    s.leaves[{7, 1}] = {1u << 4 | 1u << 5, 0, 0, 0};
    s.leaves[{0x80000000, 0}] = {0x80000008, 0, 0, 0};
    s.leaves[{0x80000001, 0}] = {0, 0, 0x121, 0};
    s.xcr0 = 0xe7;
    return s;
  }
};

}  // namespace mlc::test
