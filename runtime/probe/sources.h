// Where the probe's answers come from, behind one interface, so that hardware we lack is recorded text in tests.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/compatible.h"

namespace mlc::probe {

struct CpuidRegs {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

struct HwprobePair {
  int64_t key = 0;
  uint64_t value = 0;
};

// The result of a system call that may not exist: a value, or the errno.
struct CallResult {
  int64_t value = 0;
  int error = 0;
};

class Sources {
 public:
  virtual ~Sources() = default;
  virtual Machine machine() const = 0;

  // x86. `cpu` < 0: the CPU we happen to run on. The caller never asks for leaves above the reported maximum.
  virtual CpuidRegs cpuid(int cpu, uint32_t leaf, uint32_t subleaf) const = 0;
  virtual uint64_t xgetbv0() const = 0;              // only called when OSXSAVE is set
  virtual CallResult xcomp_supported() const = 0;    // arch_prctl(ARCH_GET_XCOMP_SUPP)

  // aarch64, riscv64 and loongarch64; the two below are of riscv64.
  virtual std::optional<uint64_t> auxv(unsigned long type) const = 0;  // none: the kernel did not pass it
  virtual CallResult prctl(int option) const = 0;
  virtual int hwprobe(std::span<HwprobePair> pairs, const std::vector<int>& cpus) const = 0;  // errno or 0
  virtual uint64_t read_vlenb() const = 0;           // only called when rv.v is yes
  // Elements of a byte that vsetvli finds room for in a register by version 1.0 of V, 0 by a draft. Only called where the letter v of
  // AT_HWCAP says that there are vectors.
  virtual uint64_t most_vector_bytes() const = 0;

  // Linux.
  virtual CallResult affinity(std::vector<int>& cpus) const = 0;  // ascending
  virtual int current_cpu() const = 0;               // that the calling thread runs on; below 0: not known
  virtual std::optional<std::string> read_file(const std::string& absolute_path) const = 0;  // at most 1 MiB
  virtual uint64_t page_size() const = 0;
  virtual std::string os_release() const = 0;
  // Maps, runs and unmaps a few bytes of real code. Empty: it works. Otherwise why not.
  virtual std::string try_code_pages(CodePages strategy) const = 0;
};

// The running system.
std::unique_ptr<Sources> system_sources();

}  // namespace mlc::probe
