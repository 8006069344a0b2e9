#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <fstream>
#include <random>

#include "loaders/elf/elf_format.h"
#include "loaders/elf/elf_image.h"
#include "loaders/elf/elf_loader.h"
#include "loaders/elf/elf_map.h"
#include "loaders/null/null_loader.h"
#include "runtime/match/matcher.h"
#include "runtime/probe/probe.h"
#include "tests/support/test_modules.h"
#include "tests/support/verified_for_test.h"

using namespace mlc;
using Image = std::vector<std::byte>;

namespace {

const Image& module_for(Machine m) {
  static const Image x86 = test::compile_module(Machine::X86_64, "tests/support/module_source.c", "--no-undefined");
  static const Image a64 = test::compile_module(Machine::AArch64, "tests/support/module_source.c", "--no-undefined");
  static const Image rv = test::compile_module(Machine::RiscV64, "tests/support/module_source.c", "--no-undefined");
  static const Image la = test::compile_module(Machine::LoongArch64, "tests/support/module_source.c", "--no-undefined");
  return m == Machine::X86_64 ? x86 : m == Machine::AArch64 ? a64 : m == Machine::RiscV64 ? rv : la;
}

#define NEED_MODULE(machine)                                                     \
  if (module_for(machine).empty()) {                                             \
    MESSAGE("skipped: clang-19 or ld.lld-19 is missing or lacks this target");   \
    return;                                                                      \
  }

Compatible token() {
  static const std::vector<format::Variant> variants = [] {
    format::Variant v;
    v.name = "test";
    v.module_format = format::ModuleFormat::Elf;
    return std::vector{v};
  }();
  return Matcher(probe::host(), variants).admit(0).value();
}

elf::FileHeader& header(Image& image) { return *reinterpret_cast<elf::FileHeader*>(image.data()); }
elf::ProgramHeader& program(Image& image, uint32_t type, int skip = 0) {
  auto* p = reinterpret_cast<elf::ProgramHeader*>(image.data() + header(image).phoff);
  for (uint16_t i = 0; i < header(image).phnum; ++i)
    if (p[i].type == type && skip-- == 0) return p[i];
  FAIL("no such program header");
  return p[0];
}
elf::Dynamic& dynamic(Image& image, int64_t tag) {
  auto* d = reinterpret_cast<elf::Dynamic*>(image.data() + program(image, elf::kPtDynamic).offset);
  while (d->tag != tag) ++d;
  return *d;
}

// The message of the refusal; empty if the changed module is accepted.
std::string refusal(Machine m, const std::function<void(Image&)>& change) {
  Image image = module_for(m);
  change(image);
  auto r = elf::parse_image(image, m, 4096);
  return r ? std::string() : r.status().message;
}

}  // namespace

TEST_CASE("modules of all architectures are accepted on pages of 4, 16 and 64 KiB") {
  for (Machine m : kMachines) {
    NEED_MODULE(m);
    for (uint64_t page : {4096, 16384, 65536}) {
      auto image = elf::parse_image(module_for(m), m, page);
      REQUIRE_MESSAGE(image.ok(), (image.ok() ? "" : image.status().message));
      CHECK(image->segments.size() == 3);
      CHECK(image->relocations.size() == 4);
      CHECK(image->bti == (m == Machine::AArch64));
    }
    CHECK(!elf::parse_image(module_for(m), m, 131072));
    CHECK(!elf::parse_image(module_for(m), m, 0));
  }
}

TEST_CASE("a module of LoongArch has the ABI of double floats and relocations of version 1") {
  NEED_MODULE(Machine::LoongArch64);
  CHECK(header(const_cast<Image&>(module_for(Machine::LoongArch64))).flags == 0x43);
  for (const uint32_t flags : {0x41u, 0x42u, 0x3u, 0x0u, 0x83u})  // no floats in registers, single ones, relocations of version 0, ...
    CHECK(refusal(Machine::LoongArch64, [&](Image& i) { header(i).flags = flags; }).find("e_flags") != std::string::npos);
  CHECK(refusal(Machine::LoongArch64, [](Image& i) { program(i, elf::kPtGnuStack).type = elf::kPtRiscvAttributes; }).find("another machine") != std::string::npos);
}

TEST_CASE("a module of a foreign architecture is refused") {
  NEED_MODULE(Machine::X86_64);
  CHECK(!elf::parse_image(module_for(Machine::X86_64), Machine::AArch64, 4096));
  CHECK(!elf::parse_image(module_for(Machine::X86_64), Machine::RiscV64, 4096));
  CHECK(!elf::parse_image(module_for(Machine::X86_64), Machine::LoongArch64, 4096));
}

TEST_CASE("the C library is no module, nor is one that imports, is empty or is text") {
  for (const char* path : {"/lib/x86_64-linux-gnu/libm.so.6", "/lib/x86_64-linux-gnu/libc.so.6", "/proc/self/exe"}) {
    const Image library = test::read_bytes(path);
    if (library.empty()) MESSAGE("skipped: no " << path);
    else CHECK(!elf::parse_image(library, Machine::X86_64, 4096));
  }
  CHECK(!elf::parse_image({}, Machine::X86_64, 4096));
  CHECK(!elf::parse_image(Image(64), Machine::X86_64, 4096));
  const Image importing = test::compile_module(Machine::X86_64, "tests/support/module_imports.c");
  if (!importing.empty()) {
    auto r = elf::parse_image(importing, Machine::X86_64, 4096);
    REQUIRE(!r);
    MESSAGE(r.status().message);
  }
}

TEST_CASE("each rule of the subset is enforced") {
  NEED_MODULE(Machine::X86_64);
  const Machine m = Machine::X86_64;
  using namespace mlc::elf;
  CHECK(refusal(m, [](Image&) {}).empty());
  const auto says = [&](const char* text, const std::function<void(Image&)>& change) {
    const std::string r = refusal(m, change);
    CHECK_MESSAGE(r.find(text) != std::string::npos, r, " should say ", std::string(text));
  };
  says("shared object", [](Image& i) { header(i).type = 2; });
  says("not an ELF64", [](Image& i) { header(i).ident[4] = 1; });
  says("not an ELF64", [](Image& i) { header(i).ident[7] = 9; });
  says("e_flags", [](Image& i) { header(i).flags = 1; });
  says("entry sizes", [](Image& i) { header(i).phentsize = 57; });
  says("number of program headers", [](Image& i) { header(i).phnum = 0; });
  says("number of program headers", [](Image& i) { header(i).phnum = 17; });
  says("outside the file", [](Image& i) { header(i).phoff = ~uint64_t{0} - 10; });
  says("outside the file", [](Image& i) { header(i).phoff = i.size() - 8; });
  says("type 7 is not allowed", [](Image& i) { program(i, kPtNote).type = 7; });   // TLS
  says("type 3 is not allowed", [](Image& i) { program(i, kPtNote).type = 3; });   // INTERP
  says("of another machine", [](Image& i) { program(i, kPtNote).type = kPtRiscvAttributes; });
  says("executable stack", [](Image& i) { program(i, kPtGnuStack).flags |= kExecute; });
  says("two stack headers", [](Image& i) { program(i, kPtNote).type = kPtGnuStack; });
  says("two dynamic", [](Image& i) { program(i, kPtNote).type = kPtDynamic; });
  says("two RELRO", [](Image& i) { program(i, kPtNote).type = kPtGnuRelro; });
  says("no dynamic", [](Image& i) { program(i, kPtDynamic).type = kPtNote; });
  says("writable and executable", [](Image& i) { program(i, kPtLoad, 1).flags |= kWrite; });
  says("writable and executable", [](Image& i) { program(i, kPtLoad, 2).flags |= kExecute; });
  says("rights", [](Image& i) { program(i, kPtLoad, 0).flags |= 0x100; });
  says("rights", [](Image& i) { program(i, kPtLoad, 1).flags = kExecute; });
  says("length of a segment", [](Image& i) { program(i, kPtLoad, 2).memsz = 1; });
  says("alignment", [](Image& i) { program(i, kPtLoad, 1).align = 4096; });
  says("alignment", [](Image& i) { program(i, kPtLoad, 1).vaddr += 1; });
  says("outside the file", [](Image& i) { program(i, kPtLoad, 2).filesz = program(i, kPtLoad, 2).memsz = 1 << 20; });
  says("overlap", [](Image& i) { program(i, kPtLoad, 1).vaddr -= 0x10000; });
  says("overlap", [](Image& i) { program(i, kPtLoad, 0).vaddr += 0x30000; });
  says("1 GiB", [](Image& i) { program(i, kPtLoad, 2).memsz = (1ull << 30) + 1; });
  says("address space", [](Image& i) { program(i, kPtLoad, 2).memsz = ~0ull - 0x20640; });
  says("RELRO is not one whole", [](Image& i) { program(i, kPtGnuRelro).memsz -= 8; });
  says("RELRO is not one whole", [](Image& i) { program(i, kPtGnuRelro).vaddr += 8; });
  says("length of dynamic", [](Image& i) { program(i, kPtDynamic).filesz = 4096 + 16; });
  says("is not loaded", [](Image& i) { program(i, kPtDynamic).vaddr = 1 << 29; });
  for (int64_t tag : {1, 12, 13, 22, 23, 24, 25, 26, 35, 36, 0x6ffffef5, 0x6ffffff0})
    says("is not allowed", [&](Image& i) { dynamic(i, kDtFlags).tag = tag; });
  says("is not allowed", [](Image& i) { dynamic(i, kDtFlags).tag = kDtAarch64BtiPlt; });
  says("twice", [](Image& i) { dynamic(i, kDtFlags).tag = kDtFlags1; });
  says("dynamic flags", [](Image& i) { dynamic(i, kDtFlags).value |= 4; });
  says("dynamic flags", [](Image& i) { dynamic(i, kDtFlags1).value |= 2; });
  says("without end", [](Image& i) { dynamic(i, kDtNull).tag = kDtAarch64PacPlt - 0x70000003 + 5, program(i, kPtDynamic).filesz -= 16; });
  says("relocation table", [](Image& i) { dynamic(i, kDtRelaent).value = 16; });
  says("relocation table", [](Image& i) { dynamic(i, kDtRelasz).value = 25; });
  says("too many relocations", [](Image& i) { dynamic(i, kDtRelasz).value = 24ull << 21; });
  says("not relative", [](Image& i) { dynamic(i, kDtRelacount).value = 3; });
  says("table is not loaded", [](Image& i) { dynamic(i, kDtRela).value = ~0ull - 7; });
  const auto rela = [](Image& i) -> Rela& { return *reinterpret_cast<Rela*>(i.data() + dynamic(i, kDtRela).value); };
  says("relocation type", [&](Image& i) { rela(i).info = 1; });
  says("relocation type", [&](Image& i) { rela(i).info |= 1ull << 32; });
  says("writable data", [&](Image& i) { rela(i).offset = 0x10340; });
  says("writable data", [&](Image& i) { rela(i).offset += 4; });
  says("writable data", [&](Image& i) { rela(i).offset = ~0ull - 7; });
  says("outside the module", [&](Image& i) { rela(i).addend = -8; });
  says("outside the module", [&](Image& i) { rela(i).addend = 1 << 20; });
  const auto symbol = [](Image& i) -> Symbol& {
    return reinterpret_cast<Symbol*>(i.data() + dynamic(i, kDtSymtab).value)[1];
  };
  says("import nothing", [&](Image& i) { symbol(i).shndx = 0; });
  says("outside its table", [&](Image& i) { symbol(i).name = 1 << 20; });
  says("type 10", [&](Image& i) { symbol(i).info = 0x1a; });
  says("type 6", [&](Image& i) { symbol(i).info = 0x16; });
  says("not a function", [&](Image& i) { symbol(i).info = 0x11; });
  says("not a function", [&](Image& i) { symbol(i).info = 0x02; });
  says("not a function", [&](Image& i) { symbol(i).value = 0x20640; });
  says("does not export", [&](Image& i) { symbol(i).name += 1; });
  says("symbol size", [](Image& i) { dynamic(i, kDtSyment).value = 16; });
  says("symbol table is not loaded", [](Image& i) { dynamic(i, kDtStrsz).value -= 1; });
  says("too many symbols", [](Image& i) { reinterpret_cast<uint32_t*>(i.data() + dynamic(i, kDtHash).value)[1] = 65; });
}

TEST_CASE("truncated anywhere a module is refused, never read past its end") {
  for (Machine m : kMachines) {
    NEED_MODULE(m);
    const Image& whole = module_for(m);
    const auto parsed = elf::parse_image(whole, m, 4096).value();
    const uint64_t last = parsed.segments.back().offset + parsed.segments.back().file_len;
    for (size_t n = 0; n < last; ++n) {
      const Image part(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n));
      CHECK(!elf::parse_image(part, m, 4096));
    }
  }
}

// MLC_MUTATIONS=60000 is the long run.
TEST_CASE("seeded mutations are refused or map without a fault") {
  const char* wish = std::getenv("MLC_MUTATIONS");
  const int rounds = wish ? std::atoi(wish) : 3000;
  HostFacts host = probe::host_facts(probe::host());
  int refused = 0, mapped = 0;
  for (Machine m : kMachines) {
    NEED_MODULE(m);
    std::mt19937_64 random(20240607 + static_cast<unsigned>(m));
    for (int round = 0; round < rounds / 3; ++round) {
      Image image = module_for(m);
      const size_t focus = round % 2 ? image.size() : std::min<size_t>(image.size(), 0x400);  // headers and tables
      for (uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
        const size_t at = random() % focus;
        switch (random() % 4) {
          case 0: image[at] ^= std::byte(1u << random() % 8); break;
          case 1: image[at] = std::byte(random()); break;
          case 2: image[at] = std::byte(random() % 2 ? 0xff : 0); break;
          case 3: {
            const uint64_t v = random() % 2 ? random() : ~uint64_t{0} >> random() % 64;
            std::memcpy(image.data() + at, &v, std::min<size_t>(8, image.size() - at));
            break;
          }
        }
      }
      auto parsed = elf::parse_image(image, m, host.page_size);
      if (!parsed) {
        ++refused;
        CHECK(!parsed.status().message.empty());
        continue;
      }
      if (auto memory = elf::map_image(*parsed, image, host); memory) ++mapped;
    }
  }
  CHECK(refused > 0);
  CHECK(mapped > 0);
  MESSAGE(refused << " refused, " << mapped << " mapped");
}

TEST_CASE("kernels run with their tiles, buffers, scalars and scratch; S1 and S2 alike") {
  const Machine here = probe::host().machine;
  NEED_MODULE(here);
  auto loader = elf::make_elf_loader();
  auto module = loader->load(token(), VerifiedBytesMaker::make(module_for(here), "code/test"));
  REQUIRE_MESSAGE(module.ok(), (module.ok() ? "" : module.status().message));
  KernelModule& k = **module;
  CHECK(k.num_kernels() == 3);
  CHECK(k.scratch_bytes(1) == 64);

  alignas(64) float x[64], y[64] = {};
  for (int i = 0; i < 64; ++i) x[i] = float(i) * 0.5f;
  void* buffers[2] = {x, y};
  const uint64_t lengths[2] = {sizeof x, 40 * sizeof(float)};
  const int64_t scalars[1] = {3};
  const MlrunLaunch launch{buffers, lengths, scalars, nullptr, 0, 1};
  WorkMeter meter;
  CHECK(k.run(0, launch, 1, 4, meter) == 0);
  CHECK(y[15] == 0);
  CHECK(y[16] == 3 * x[16] + 16);
  CHECK(y[39] == 3 * x[39] + 39);
  CHECK(y[40] == 0);
  CHECK(k.run(2, launch, 0, 1, meter) == MLRUN_FAULT_INDEX);
}

TEST_CASE("code is r-x, relocated data r--, nothing is writable and executable, and guards surround the module") {
  const Machine here = probe::host().machine;
  NEED_MODULE(here);
  HostFacts host = probe::host_facts(probe::host());
  for (CodePages strategy : {CodePages::Anonymous, CodePages::SealedFd}) {
    host.code_pages = strategy;
    auto image = elf::parse_image(module_for(here), here, host.page_size);
    REQUIRE(image.ok());
    auto memory = elf::map_image(*image, module_for(here), host);
    REQUIRE_MESSAGE(memory.ok(), (memory.ok() ? "" : memory.status().message));
    const auto base = reinterpret_cast<uint64_t>(memory->base());
    const auto rights_at = [&](uint64_t address) {
      std::ifstream maps("/proc/self/maps");
      for (std::string line; std::getline(maps, line);) {
        unsigned long long from, to;
        char rights[5] = {};
        if (std::sscanf(line.c_str(), "%llx-%llx %4s", &from, &to, rights) == 3 && from <= address && address < to)
          return std::string(rights, 3);
      }
      return std::string("none");
    };
    CHECK(rights_at(base - 1) == "---");
    CHECK(rights_at(base + memory->size()) == "---");
    for (const elf::Segment& s : image->segments)
      CHECK(rights_at(base + s.vaddr) == (s.executable ? "r-x" : s.writable && !s.relro ? "rw-" : "r--"));
    const auto query = reinterpret_cast<MlrunQuery>(memory->base() + image->query);
    const MlrunHost facts{MLRUN_MODULE_ABI, sizeof(MlrunHost), 0, 0};
    REQUIRE(query(MLRUN_MODULE_ABI, &facts));
    CHECK(query(MLRUN_MODULE_ABI, &facts)->magic == MLRUN_MODULE_MAGIC);
    CHECK(query(0, &facts) == nullptr);
  }
  host.code_pages = CodePages::None;
  auto image = elf::parse_image(module_for(here), here, host.page_size);
  CHECK(elf::map_image(*image, module_for(here), host).status().code == Code::Resource);
}

TEST_CASE("the null loader checks its eight bytes and runs nothing") {
  auto loader = null::make_null_loader();
  const auto load = [&](std::string_view text) {
    return loader->load(token(), VerifiedBytesMaker::make(std::as_bytes(std::span(text)), "code/null"));
  };
  auto m = load({"NULL\2\0\0\0", 8});
  REQUIRE(m.ok());
  CHECK((*m)->num_kernels() == 2);
  WorkMeter meter;
  CHECK((*m)->run(1, MlrunLaunch{}, 0, 10, meter) == 0);
  CHECK(!load("NULL"));
  CHECK(!load("NOPE1234"));
  CHECK(!load({"NULL\xff\xff\xff\xff", 8}));
}
