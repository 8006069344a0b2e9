// The running Windows system. What the probe reads in files of Linux (topology.cpp, layout.cpp) is said here in the form that they
// have there. CPUs are those of the process's own group, of at most 64.
#include <windows.h>

#include <cerrno>
#include <map>
#include <vector>

#include "base/compose.h"
#include "base/system/windows_text.h"
#include "runtime/memory/code_memory.h"
#include "runtime/probe/native/native.h"
#include "runtime/probe/probe.h"
#include "runtime/probe/text.h"
#include "schema/module_abi.h"

namespace mlc::probe {
namespace {

// "0,1,5" of the bits that are set.
std::string list_of(KAFFINITY mask) {
  std::string out;
  for (int cpu = 0; cpu < 64; ++cpu)
    if ((mask >> cpu & 1) != 0) out += (out.empty() ? "" : ",") + std::to_string(cpu);
  return out;
}

// What the system says about cores, caches, packages or nodes: the records, which have different lengths, behind one another.
std::vector<uint64_t> records_of(LOGICAL_PROCESSOR_RELATIONSHIP kind, DWORD& bytes) {
  bytes = 0;
  GetLogicalProcessorInformationEx(kind, nullptr, &bytes);
  std::vector<uint64_t> room(bytes / sizeof(uint64_t) + 1);
  bytes = static_cast<DWORD>(room.size() * sizeof(uint64_t));
  if (!GetLogicalProcessorInformationEx(kind, reinterpret_cast<SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX*>(room.data()), &bytes)) bytes = 0;
  return room;
}

template <class Visit>
void for_each_record(LOGICAL_PROCESSOR_RELATIONSHIP kind, Visit&& visit) {
  DWORD bytes = 0;
  const std::vector<uint64_t> room = records_of(kind, bytes);
  const auto* const begin = reinterpret_cast<const std::byte*>(room.data());
  for (DWORD at = 0; at < bytes;) {
    const auto& record = *reinterpret_cast<const SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX*>(begin + at);
    if (record.Size == 0) return;
    visit(record);
    at += record.Size;
  }
}

const char* type_of(PROCESSOR_CACHE_TYPE type) {
  switch (type) {
    case CacheInstruction: return "Instruction";
    case CacheData: return "Data";
    default: return "Unified";
  }
}

class WindowsSources final : public Sources {
 public:
  WindowsSources() {
    MEMORYSTATUSEX memory{};
    memory.dwLength = sizeof memory;
    if (GlobalMemoryStatusEx(&memory))
      files_["/proc/meminfo"] = compose("MemTotal: {} kB\nMemAvailable: {} kB\n", memory.ullTotalPhys >> 10, memory.ullAvailPhys >> 10);
    int64_t package = 0;
    unsigned nodes = 0;
    // By efficiency class, the higher the faster: the byte behind Flags, which headers of mingw-w64 have no name for.
    std::map<BYTE, KAFFINITY> classes;
    for_each_record(RelationProcessorCore, [&](const auto& r) {
      put(r.Processor.GroupMask[0], "/topology/core_cpus_list", list_of(r.Processor.GroupMask[0].Mask));
      classes[reinterpret_cast<const BYTE*>(&r.Processor)[1]] |= r.Processor.GroupMask[0].Mask;
    });
    if (classes.size() > 1) files_["/sys/devices/cpu_core/cpus"] = list_of(classes.rbegin()->second);
    for_each_record(RelationProcessorPackage, [&](const auto& r) {
      put(r.Processor.GroupMask[0], "/topology/physical_package_id", std::to_string(package));
      ++package;
    });
    for_each_record(RelationNumaNode, [&](const auto& r) {
      files_[compose("/sys/devices/system/node/node{}/cpulist", nodes)] = list_of(r.NumaNode.GroupMask.Mask);
      ++nodes;
    });
    if (nodes > 0) files_["/sys/devices/system/node/online"] = compose("0-{}", nodes - 1);
    for_each_record(RelationCache, [&](const auto& r) { put_cache(r.Cache); });
  }

  Machine machine() const override { return native::machine(); }

  CpuidRegs cpuid(int cpu, uint32_t leaf, uint32_t subleaf) const override {
    if (cpu < 0) return native::cpuid(leaf, subleaf);
    // An answer of zeros turns every feature into no, which is the safe side.
    const DWORD_PTR before = cpu < 64 ? SetThreadAffinityMask(GetCurrentThread(), DWORD_PTR{1} << cpu) : 0;
    if (before == 0) return {};
    const CpuidRegs regs = native::cpuid(leaf, subleaf);
    SetThreadAffinityMask(GetCurrentThread(), before);
    return regs;
  }
  uint64_t xgetbv0() const override { return native::xgetbv0(); }
  CallResult xcomp_supported() const override { return native::xcomp_supported(); }

  std::optional<uint64_t> auxv(unsigned long) const override { return std::nullopt; }
  CallResult prctl(int) const override { return {0, ENOSYS}; }
  int hwprobe(std::span<HwprobePair>, const std::vector<int>&) const override { return ENOSYS; }
  uint64_t read_vlenb() const override { return 0; }
  uint64_t most_vector_bytes() const override { return 0; }

  CallResult affinity(std::vector<int>& cpus) const override {
    DWORD_PTR own = 0, all = 0;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &own, &all) || own == 0) return {0, EIO};
    cpus.clear();
    for (int c = 0; c < 64; ++c)
      if ((own >> c & 1) != 0) cpus.push_back(c);
    return {};
  }
  int current_cpu() const override { return static_cast<int>(GetCurrentProcessorNumber()); }
  std::optional<std::string> read_file(const std::string& path) const override {
    const auto found = files_.find(path);
    return found == files_.end() ? std::nullopt : std::optional(found->second);
  }
  uint64_t page_size() const override {
    SYSTEM_INFO info{};
    GetSystemInfo(&info);
    return info.dwPageSize;
  }
  std::string os_release() const override {
    using GetVersion = LONG(WINAPI*)(OSVERSIONINFOW*);  // the other one answers what a manifest asks for
    const HMODULE library = GetModuleHandleW(L"ntdll.dll");
    const auto get = library ? reinterpret_cast<GetVersion>(reinterpret_cast<void*>(GetProcAddress(library, "RtlGetVersion"))) : nullptr;
    OSVERSIONINFOW info{};
    info.dwOSVersionInfoSize = sizeof info;
    if (!get || get(&info) != 0) return "Windows";
    return compose("Windows {}.{}.{}", info.dwMajorVersion, info.dwMinorVersion, info.dwBuildNumber);
  }
  std::string try_code_pages(CodePages strategy) const override {
    const Bytes code = native::code_returning_42();
    if (code.empty()) return "no code for this architecture";
    auto memory = CodeMemory::reserve(code.size(), page_size());
    if (!memory) return memory.status().message;
    if (Status placed = memory->place_code(0, code, code.size(), strategy, false); !placed.ok()) return placed.message;
    return reinterpret_cast<int(MLRUN_CALL*)()>(memory->base())() == 42 ? std::string() : "the code gave a wrong answer";
  }

 private:
  void put(const GROUP_AFFINITY& cpus, const char* name, const std::string& text) {
    for (int cpu = 0; cpu < 64; ++cpu)
      if ((cpus.Mask >> cpu & 1) != 0) files_[cpu_dir(cpu) + name] = text;
  }
  void put_cache(const CACHE_RELATIONSHIP& cache) {
    for (int cpu = 0; cpu < 64; ++cpu) {
      if ((cache.GroupMask.Mask >> cpu & 1) == 0) continue;
      int index = 0;
      while (files_.count(compose("{}/cache/index{}/level", cpu_dir(cpu), index)) != 0) ++index;
      const std::string folder = compose("{}/cache/index{}", cpu_dir(cpu), index);
      files_[folder + "/level"] = std::to_string(cache.Level);
      files_[folder + "/size"] = compose("{}K", cache.CacheSize >> 10);
      files_[folder + "/type"] = type_of(cache.Type);
      files_[folder + "/shared_cpu_list"] = list_of(cache.GroupMask.Mask);
    }
  }

  std::map<std::string, std::string> files_;
};

}  // namespace

int request_amx() { return native::request_amx(); }

std::unique_ptr<Sources> system_sources() { return std::make_unique<WindowsSources>(); }

}  // namespace mlc::probe
