#include "loaders/elf/elf_loader.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/compose.h"
#include "loaders/elf/elf_image.h"
#include "loaders/elf/elf_map.h"
#include "loaders/elf/kernel_stack.h"

namespace mlc::elf {
namespace {

constexpr uint32_t kMaxKernels = 65536;
constexpr uint64_t kMaxScratch = uint64_t{1} << 32;

class ElfModule final : public KernelModule {
 public:
  ElfModule(CodeMemory memory, std::vector<MlrunEntry> entries)
      : memory_(std::move(memory)), entries_(std::move(entries)) {}

  uint32_t num_kernels() const override { return static_cast<uint32_t>(entries_.size()); }
  uint64_t scratch_bytes(uint32_t kernel) const override { return entries_[kernel].scratch_bytes; }
  // Machine code carries no description of its parameters: that it fits its plan is what the signature vouches for.
  Status accepts(uint32_t, const LaunchForm&) const override { return ok(); }
  int32_t run(uint32_t kernel, const MlrunLaunch& launch, uint32_t begin, uint32_t end, WorkMeter&) const override {
    touch_kernel_stack();
    return entries_[kernel].run(&launch, begin, end);
  }

 private:
  CodeMemory memory_;  // stays mapped as long as callers can call into it
  std::vector<MlrunEntry> entries_;
};

// True if [p, p + length) lies in one segment of the mapped image that is readable data (or code, if asked).
bool lies_in(const ElfImage& image, const CodeMemory& memory, const void* p, uint64_t length, bool executable) {
  const uint64_t at = reinterpret_cast<uint64_t>(p) - reinterpret_cast<uint64_t>(memory.base());
  for (const Segment& s : image.segments)
    if (s.executable == executable && at >= s.vaddr && range_within(at - s.vaddr, length, s.mem_len)) return true;
  return false;
}

// Reads the table that the query returned. The module is trusted code by now; the checks keep a bug of the packager from
// becoming a wild jump.
Result<std::vector<MlrunEntry>> read_entries(const ElfImage& image, const CodeMemory& memory, const MlrunModule* m) {
  const auto bad = [](const char* what) { return Status(Code::Malformed, "module: {}", what); };
  if (!m) return bad("does not serve this version of the kernel interface");
  if (!lies_in(image, memory, m, sizeof *m, false) || reinterpret_cast<uintptr_t>(m) % 8) return bad("query result");
  if (m->magic != MLRUN_MODULE_MAGIC) return bad("wrong magic number");
  if (m->abi == 0 || m->abi > MLRUN_MODULE_ABI) return bad("unknown kernel interface");
  if (m->entry_size < sizeof(MlrunEntry) || m->entry_size % 8 || m->entry_size > 4096) return bad("entry size");
  if (m->entry_count > kMaxKernels) return bad("too many kernels, at most 65536");
  const uint64_t length = uint64_t{m->entry_count} * m->entry_size;
  if (length && !lies_in(image, memory, m->entries, length, false)) return bad("kernel table");
  std::vector<MlrunEntry> entries(m->entry_count);
  for (uint32_t i = 0; i < m->entry_count; ++i) {
    std::memcpy(&entries[i], reinterpret_cast<const std::byte*>(m->entries) + uint64_t{i} * m->entry_size,
                sizeof(MlrunEntry));
    if (entries[i].id != i || entries[i].flags != 0) return bad("kernel entry");
    if (entries[i].scratch_bytes > kMaxScratch) return bad("scratch memory of a kernel");
    if (!lies_in(image, memory, reinterpret_cast<const void*>(entries[i].run), 1, true)) return bad("kernel address");
  }
  return entries;
}

class ElfLoader final : public Loader {
 public:
  std::string_view format() const override { return "elf"; }

  Result<std::unique_ptr<KernelModule>> load(Compatible token, VerifiedBytes bytes) const override {
    const HostFacts& host = token.host();
    auto image = parse_image(bytes.bytes(), host.machine, host.page_size);
    if (!image) return std::move(image).status().note(bytes.name());
    auto memory = map_image(*image, bytes.bytes(), host);
    if (!memory) return std::move(memory).status().note(bytes.name());
    const auto query = reinterpret_cast<MlrunQuery>(memory->base() + image->query);
    const MlrunHost facts{MLRUN_MODULE_ABI, sizeof(MlrunHost), host.vector_bytes, 0};
    auto entries = read_entries(*image, *memory, query(MLRUN_MODULE_ABI, &facts));
    if (!entries) return std::move(entries).status().note(bytes.name());
    return std::unique_ptr<KernelModule>(new ElfModule(std::move(*memory), std::move(*entries)));
  }
};

}  // namespace

std::unique_ptr<Loader> make_elf_loader() { return std::make_unique<ElfLoader>(); }

}  // namespace mlc::elf
