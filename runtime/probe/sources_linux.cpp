// The running Linux system. What differs between architectures is in native_*.cpp.
#include <fcntl.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/compose.h"
#include "base/on_exit.h"
#include "runtime/memory/code_memory.h"
#include "runtime/probe/native/native.h"
#include "runtime/probe/probe.h"

namespace mlc::probe {
namespace {

constexpr int kMaxCpus = 8192;

// sched_getaffinity for machines with more than 1024 CPUs.
struct CpuSet {
  cpu_set_t* set = CPU_ALLOC(kMaxCpus);
  size_t size = CPU_ALLOC_SIZE(kMaxCpus);
  CpuSet() { CPU_ZERO_S(size, set); }
  ~CpuSet() { CPU_FREE(set); }
  CpuSet(const CpuSet&) = delete;
  CpuSet& operator=(const CpuSet&) = delete;
};

class LinuxSources final : public Sources {
 public:
  Machine machine() const override { return native::machine(); }

  CpuidRegs cpuid(int cpu, uint32_t leaf, uint32_t subleaf) const override {
    if (cpu < 0) return native::cpuid(leaf, subleaf);
    CpuSet before, one;
    CPU_SET_S(static_cast<size_t>(cpu), one.size, one.set);
    // An answer of zeros turns every feature into no, which is the safe side.
    if (sched_getaffinity(0, before.size, before.set) != 0 || sched_setaffinity(0, one.size, one.set) != 0) return {};
    const CpuidRegs regs = native::cpuid(leaf, subleaf);
    sched_setaffinity(0, before.size, before.set);
    return regs;
  }
  uint64_t xgetbv0() const override { return native::xgetbv0(); }
  CallResult xcomp_supported() const override { return native::xcomp_supported(); }

  std::optional<uint64_t> auxv(unsigned long type) const override {
    errno = 0;
    const unsigned long v = getauxval(type);
    if (v == 0 && errno == ENOENT) return std::nullopt;
    return v;
  }
  CallResult prctl(int option) const override {
    const int r = ::prctl(option, 0, 0, 0, 0);
    return r < 0 ? CallResult{0, errno} : CallResult{r, 0};
  }
  int hwprobe(std::span<HwprobePair> pairs, const std::vector<int>& cpus) const override {
    CpuSet mask;
    for (int c : cpus)
      if (c < kMaxCpus) CPU_SET_S(static_cast<size_t>(c), mask.size, mask.set);
    return native::hwprobe(pairs.data(), pairs.size(), mask.size, mask.set);
  }
  uint64_t read_vlenb() const override { return native::read_vlenb(); }
  uint64_t most_vector_bytes() const override { return native::most_vector_bytes(); }

  CallResult affinity(std::vector<int>& cpus) const override {
    CpuSet set;
    if (sched_getaffinity(0, set.size, set.set) != 0) return {0, errno};
    cpus.clear();
    for (int c = 0; c < kMaxCpus; ++c)
      if (CPU_ISSET_S(static_cast<size_t>(c), set.size, set.set)) cpus.push_back(c);
    return {};
  }
  int current_cpu() const override { return sched_getcpu(); }
  std::optional<std::string> read_file(const std::string& path) const override {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return std::nullopt;
    const OnExit close_file([&] { close(fd); });
    std::string text;
    char buffer[4096];
    bool good = true;
    while (text.size() < (size_t{1} << 20)) {
      const ssize_t n = read(fd, buffer, sizeof buffer);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) good = false;
      if (n <= 0) break;
      text.append(buffer, static_cast<size_t>(n));
    }
    return good ? std::optional(std::move(text)) : std::nullopt;
  }
  uint64_t page_size() const override {
    const long n = sysconf(_SC_PAGESIZE);
    return n > 0 ? static_cast<uint64_t>(n) : 0;
  }
  std::string os_release() const override {
    utsname u{};
    return uname(&u) == 0 ? compose("{} {}", u.sysname, u.release) : std::string();
  }
  std::string try_code_pages(CodePages strategy) const override {
    const Bytes code = native::code_returning_42();
    if (code.empty()) return "no code for this architecture";
    auto memory = CodeMemory::reserve(code.size(), page_size());
    if (!memory) return memory.status().message;
    if (Status placed = memory->place_code(0, code, code.size(), strategy, false); !placed.ok()) return placed.message;
    return reinterpret_cast<int (*)()>(memory->base())() == 42 ? std::string() : "the code gave a wrong answer";
  }
};

}  // namespace

int request_amx() { return native::request_amx(); }

std::unique_ptr<Sources> system_sources() { return std::make_unique<LinuxSources>(); }

}  // namespace mlc::probe
