// Runs kernels for another machine under qemu-user, where clang, lld and the emulator are installed. Where Debian's emulator is too old for code with
// vectors another may stand at the front of PATH, as tests/emulated/README.md says.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "targets/target.h"
#include "tests/support/source_path.h"
#include "tests/unit/targets/op_cases.h"

namespace mlc::testing {

// Whether its system calls have the common numbers, which cross_runner.cc has.
inline bool can_be_crossed(const targets::Target& target) { return target.machine != Machine::None && target.machine != Machine::X86_64; }

struct CrossLaunch {
  uint32_t kernel = 0, begin = 0, end = 0;
  std::vector<AlignedBytes*> buffers;  // results are written back
  std::vector<int64_t> scalars;
  uint64_t scratch_bytes = 0;
  int32_t code = -1;
};

class CrossMachine {
 public:
  explicit CrossMachine(const targets::Target& target) {
    const std::string arch(name_of(target.machine));
    if (targets::has_feature(target, "rv.v")) {
      processors_.clear();
      for (const char* vlen : {"128", "256", "512"}) processors_.push_back(std::string(" -cpu rv64,v=true,vext_spec=v1.0,vlen=") + vlen);
    }
    if (targets::has_feature(target, "a64.sve")) {
      processors_.clear();
      for (unsigned bytes = target.vector_bytes; bytes <= 64; bytes *= 2)
        processors_.push_back(" -cpu max,sve-default-vector-length=" + std::to_string(bytes));
    }
    if (targets::has_feature(target, "la.lsx")) processors_ = {" -cpu la464"};
    qemu_ = "qemu-" + arch + "-static";
    if (!works("command -v " + qemu_)) return;
    // qemu 7 ends itself at vector code of RISC-V (its issue 1441: conversions towards zero), LSX of LoongArch is whole since 8.2.
    const bool needs_8 = targets::has_feature(target, "rv.v"), needs_9 = targets::has_feature(target, "la.lsx");
    if (needs_8 && works(qemu_ + " --version | grep -q 'version [1-7][.]'")) return;
    if (needs_9 && works(qemu_ + " --version | grep -q 'version [1-8][.]'")) return;
    std::string pattern = (std::filesystem::temp_directory_path() / "mlc-cross-XXXXXX").string();
    if (!mkdtemp(pattern.data())) return;
    folder_ = pattern;
    const std::string plain = target.machine == Machine::LoongArch64 ? " -mno-lsx" : "";  // clang's default has LSX
    if (!works("clang-19 --target=" + arch + "-unknown-linux-gnu" + plain + " -std=c++17 -O1 -ffreestanding -fno-builtin -fno-exceptions -nostdlib -static -fuse-ld=lld -I" +
               source_path("") + " -o " + folder_ + "/runner " + source_path("tests/unit/targets/cross_runner.cc")))
      return;
    ready_ = true;
  }
  ~CrossMachine() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  CrossMachine(const CrossMachine&) = delete;

  bool ready() const { return ready_; }

  // On each processor that code of the target may meet, with vectors of every length. False if the runner failed, a crash of the module
  // for instance, or if two processors differ in a bit.
  bool run(std::span<const std::byte> module, std::vector<CrossLaunch>& launches) {
    std::string in;
    auto put = [&](const void* p, size_t n) { in.append(static_cast<const char*>(p), n); };
    auto put32 = [&](size_t v) { const uint32_t w = static_cast<uint32_t>(v); put(&w, 4); };
    put32(launches.size());
    for (const CrossLaunch& l : launches) {
      put32(l.kernel), put32(l.begin), put32(l.end), put32(l.buffers.size()), put32(l.scalars.size()), put32(0);
      put(&l.scratch_bytes, 8);
      for (const AlignedBytes* b : l.buffers) {
        const uint64_t n = b->size;
        put(&n, 8), put(b->data.get(), n);
      }
      put(l.scalars.data(), l.scalars.size() * 8);
    }
    write("/module", module.data(), module.size());
    write("/launches", in.data(), in.size());
    const std::string results = folder_ + "/results", first = folder_ + "/first";
    for (const std::string& processor : processors_) {
      if (!works(qemu_ + processor + " " + folder_ + "/runner " + folder_ + "/module " + folder_ + "/launches " + results)) return false;
      if (&processor == &processors_.front()) std::filesystem::copy_file(results, first, std::filesystem::copy_options::overwrite_existing);
      else if (!works("cmp " + first + " " + results)) return false;
    }
    std::ifstream out(folder_ + "/results", std::ios::binary);
    for (CrossLaunch& l : launches) {
      out.read(reinterpret_cast<char*>(&l.code), 4);
      for (AlignedBytes* b : l.buffers) out.read(reinterpret_cast<char*>(b->data.get()), static_cast<std::streamsize>(b->size));
    }
    return out.good();
  }

 private:
  static bool works(const std::string& command) { return std::system((command + " > /dev/null 2>&1").c_str()) == 0; }
  void write(const char* name, const void* data, size_t size) {
    std::ofstream(folder_ + name, std::ios::binary).write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  }
  std::string folder_, qemu_;
  std::vector<std::string> processors_{""};  // options of the emulator
  bool ready_ = false;
};

}  // namespace mlc::testing
