// Modules for tests, compiled on first use by clang-19 and ld.lld-19 with the flags of the packager. Empty where the
// tools are missing: tests then say that they were skipped.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "schema/features.h"
#include "tests/support/source_path.h"

namespace mlc::test {

inline std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto* p = reinterpret_cast<const std::byte*>(text.data());
  return {p, p + text.size()};
}

// `source` is relative to the repository; `link_flags` come after the usual ones.
inline std::vector<std::byte> compile_module(Machine machine, const std::string& source,
                                             const std::string& link_flags = "") {
  namespace fs = std::filesystem;
  std::string target;
  switch (machine) {
    case Machine::X86_64: target = "--target=x86_64-pc-linux-elf -mno-red-zone -fcf-protection=branch"; break;
    case Machine::AArch64: target = "--target=aarch64-unknown-linux-elf -mbranch-protection=bti -ffixed-x18"; break;
    case Machine::RiscV64: target = "--target=riscv64-unknown-linux-elf -march=rv64gc -mabi=lp64d"; break;
    case Machine::LoongArch64: target = "--target=loongarch64-unknown-linux-elf -march=loongarch64 -mabi=lp64d"; break;
    case Machine::None: return {};
  }
  const fs::path dir = fs::temp_directory_path() / ("mlc-modules-" + std::to_string(getpid()));
  fs::create_directories(dir);
  const std::string object = (dir / "m.o").string(), module = (dir / "m.elf").string();
  const std::string root = mlc::testing::source_path("");
  const std::string compile =
      "clang-19 " + target +
      " -O2 -ffreestanding -fno-builtin -fPIC -fvisibility=hidden -fno-stack-protector -fno-asynchronous-unwind-tables"
      " -ffunction-sections -I" + root + " -c " + root + "/" + source + " -o " + object + " 2>/dev/null";
  const std::string link =
      "ld.lld-19 -shared -nostdlib --gc-sections --icf=all --discard-all -s -Bsymbolic -z now -z relro -z noexecstack"
      " -z noseparate-code -z max-page-size=65536 --hash-style=sysv --build-id=none " + link_flags + " " + object +
      " -o " + module + " 2>/dev/null";
  std::vector<std::byte> bytes;
  if (std::system(compile.c_str()) == 0 && std::system(link.c_str()) == 0) bytes = read_bytes(module);
  fs::remove_all(dir);
  return bytes;
}

}  // namespace mlc::test
