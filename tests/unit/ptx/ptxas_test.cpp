// NVIDIA's assembler as a second opinion, where it is installed: all that we emit assembles for each architecture that takes a
// target's code, in registers alone.
#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "schema/gpu_module.h"
#include "targets/families.h"
#include "tests/unit/ptx/device_kernels.h"

namespace mlc {
namespace {

using namespace testing;

struct Output {
  int status = -1;
  std::string text;
};
Output run(const std::string& command) {
  Output out;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return out;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.text.append(buffer, n);
  out.status = pclose(pipe);
  return out;
}
size_t count(std::string_view text, std::string_view what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += what.size()) ++n;
  return n;
}

// Assembles all images of the module for each architecture; returns how many entries that were.
size_t assemble(const targets::Target& target, std::span<const loop::Kernel> kernels, bool without_stack, const std::filesystem::path& folder) {
  static const std::string help = run("ptxas --help").text;
  const auto module = targets::emit_module(target, kernels);
  REQUIRE(module.ok());
  const auto decoded = gpu::decode(module->bytes);
  REQUIRE(decoded.ok());
  size_t assembled = 0;
  for (const std::string architecture : {"75", "80", "86", "89", "90", "90a", "100", "120"}) {
    if (target.is_alone ? "sm_" + architecture != target.llvm_cpu : std::stoi(architecture) < std::stoi(target.llvm_cpu.substr(3))) continue;
    if (help.find("'sm_" + architecture + "'") == std::string::npos) {
      MESSAGE("skipped: this ptxas does not know sm_" << architecture);
      continue;
    }
    for (const gpu::Image& image : decoded->images) {
      std::ofstream(folder / "image.ptx", std::ios::binary).write(reinterpret_cast<const char*>(image.bytes.data()), std::streamsize(image.bytes.size() - 1));
      const Output out = run("ptxas -v -arch=sm_" + architecture + " -o " + (folder / "image.cubin").string() + " " + (folder / "image.ptx").string());
      const size_t entries = count(std::string_view(reinterpret_cast<const char*>(image.bytes.data()), image.bytes.size()), ".entry");
      CHECK_MESSAGE(out.status == 0, target.name << " for sm_" << architecture << ": " << out.text.substr(0, 400));
      const bool in_registers = count(out.text, " 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") == entries;
      CHECK_MESSAGE((in_registers || !without_stack), target.name << " for sm_" << architecture << " uses a stack");
      assembled += entries;
    }
  }
  return assembled;
}

TEST_CASE("the assembler takes every image, and operations need no stack") {
  if (run("ptxas --version").status != 0) {
    MESSAGE("skipped: 1 test, no ptxas here");
    return;
  }
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("mlc-ptxas-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  size_t assembled = 0;
  for (const targets::Target& target : targets::ptx::emitter().targets()) {
    Pool pool;
    std::vector<loop::Kernel> operations, random;
    std::vector<OpCase> cases = all_op_cases(pool, 2);
    for (size_t k = 0; k < cases.size(); k += 23) operations.push_back(std::move(cases[k].kernel)), spread_over_lanes(pool, operations.back());
    std::vector<std::unique_ptr<RandomKernel>> made;
    for (uint64_t seed = 0; seed < 12; ++seed) {  // of vectors that are wider than kernels for devices may have
      made.push_back(std::make_unique<RandomKernel>(pool, 500 + seed));
      random.push_back(made.back()->take());
      do_in_one_lane(pool, random.back());
    }
    assembled += assemble(target, operations, true, folder) + assemble(target, random, false, folder);
  }
  std::filesystem::remove_all(folder);
  CHECK(assembled > 0);
  MESSAGE("assembled: " << assembled << " kernels");
}

}  // namespace
}  // namespace mlc
