// Cubins beside PTX, by an assembler of the tests that does as it is told.
#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "schema/gpu_module.h"
#include "targets/families.h"
#include "targets/ptx/cubins.h"
#include "tests/support/tiny_cubin.h"
#include "tests/unit/ptx/device_kernels.h"

namespace mlc {
namespace {

using namespace testing;
using targets::ptx::Ptxas;

// A folder with a script called ptxas.
class Script {
 public:
  explicit Script(const std::string& body) {
    std::filesystem::create_directory(folder_);
    write("ptxas", "#!/bin/sh\n" + body + "\n");
    chmod((folder_ / "ptxas").c_str(), 0755);
  }
  ~Script() { std::filesystem::remove_all(folder_); }
  Result<Ptxas> find() const { return Ptxas::find("relative:" + folder_.string() + "/none:" + folder_.string()); }
  void write(const char* name, std::string_view text) const { std::ofstream(folder_ / name, std::ios::binary) << text; }
  // `TinyCubin` as a file that the script gives for sm_80: "sm_80.cubin".
  void give(const TinyCubin& cubin) const {
    const std::vector<std::byte> bytes = cubin.bytes();
    write(("sm_" + std::to_string(cubin.architecture) + ".cubin").c_str(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

 private:
  const std::filesystem::path folder_ = std::filesystem::temp_directory_path() / ("mlc-cubins-" + std::to_string(getpid()));
};

// Gives the file of its folder that is called for the architecture, and says what the real one does.
constexpr const char* kGives =
    "arch=${2#-arch=}\n"
    "if [ ! -e \"$(dirname \"$0\")/$arch.cubin\" ]; then echo \"ptxas fatal   : Value '$arch' is not defined for option 'gpu-name'\" >&2; exit 1; fi\n"
    "cat \"$(dirname \"$0\")/$arch.cubin\" > /proc/self/fd/4\n"
    "echo \"ptxas info    : Compiling entry function 'k' for '$arch'\"\n"
    "echo '    8 bytes stack frame, 16 bytes spill stores, 16 bytes spill loads'\n"
    "echo 'ptxas info    : Used 40 registers, used 1 barriers, 384 bytes cmem[0]'";

const targets::Target& sm80() { return *targets::find_target("cuda-sm80"); }

std::vector<std::byte> some_module() {
  Pool p;
  std::vector<loop::Kernel> kernels;
  std::vector<OpCase> cases = all_op_cases(p, 2);
  kernels.push_back(std::move(cases[0].kernel));
  spread_over_lanes(p, kernels.back());
  const auto module = targets::emit_module(sm80(), kernels);
  REQUIRE(module.ok());
  return module->bytes;
}

std::string name_in(const std::vector<std::byte>& module) { return gpu::decode(module)->entries[0].name; }

TEST_CASE("cubins stand behind their text, ascending; what the assembler does not know is left out") {
  const Script script(kGives);
  const std::vector<std::byte> module = some_module();
  for (const uint32_t a : {80u, 86u}) script.give({.architecture = a, .entries = {{name_in(module), 0}}});
  const auto ptxas = script.find();
  REQUIRE(ptxas.ok());
  targets::ptx::CubinReport report;
  const uint32_t wanted[] = {86, 75, 80, 86, 120};
  const auto with = targets::ptx::add_cubins(sm80(), module, wanted, *ptxas, 2, report);
  REQUIRE_MESSAGE(with.ok(), with.status().text());
  const auto decoded = gpu::decode(*with);
  REQUIRE(decoded.ok());
  REQUIRE(decoded->images.size() == 3);
  CHECK(decoded->images[0].kind == gpu::ImageKind::Ptx);
  CHECK(decoded->images[1].architecture == 80);
  CHECK(decoded->images[2].architecture == 86);
  CHECK(report.architectures == std::vector<uint32_t>{80, 86});
  REQUIRE(report.left_out.size() == 1);
  CHECK(report.left_out[0].find("sm_120") != std::string::npos);
  REQUIRE(report.kernels.size() == 2);
  CHECK(report.kernels[0].registers == 40);
  CHECK(report.kernels[0].spilled_bytes == 16);
  CHECK(report.kernels[0].stack_bytes == 8);
  CHECK(targets::audit_module(sm80(), *with).ok());
  // Again, others: those of before are replaced.
  const uint32_t one[] = {86};
  targets::ptx::CubinReport second;
  const auto again = targets::ptx::add_cubins(sm80(), *with, one, *ptxas, 1, second);
  REQUIRE(again.ok());
  CHECK(gpu::decode(*again)->images.size() == 2);
}

TEST_CASE("what the assembler made is not believed") {
  const Script script(kGives);
  const std::vector<std::byte> module = some_module();
  const auto ptxas = script.find();
  REQUIRE(ptxas.ok());
  const uint32_t wanted[] = {80};
  const auto refused = [&] {
    targets::ptx::CubinReport report;
    const auto with = targets::ptx::add_cubins(sm80(), module, wanted, *ptxas, 1, report);
    return with.ok() ? std::string() : with.status().text();
  };
  script.give({.architecture = 80, .entries = {{"another", 0}}});
  CHECK(refused().find("without entry") != std::string::npos);
  script.write("sm_80.cubin", "no ELF");
  CHECK(refused().find("no ELF of 64 bits") != std::string::npos);
  script.write("sm_80.cubin", "");
  CHECK(refused().find("wrote no cubin") != std::string::npos);

  // The audit of a module finds the same.
  gpu::Module m = *gpu::decode(module);
  m.images.push_back({gpu::ImageKind::Cubin, 80, {}, TinyCubin{.entries = {{"another", 0}}}.bytes()});
  CHECK(!targets::audit_module(sm80(), gpu::encode(m)).ok());
}

TEST_CASE("an assembler that fails, crashes or does not end is named with what it said") {
  const auto answer = [](const char* body, uint64_t deadline) {
    const Script script(body);
    return script.find()->assemble(".version 7.0\n", 80, false, deadline).status();
  };
  constexpr uint64_t kLong = 60'000'000'000;
  const Status failed = answer("echo 'ptxas fatal   : no such thing' >&2; exit 255", kLong);
  CHECK(failed.code == Code::Internal);
  CHECK(failed.text().find("no such thing") != std::string::npos);
  CHECK(answer("kill -SEGV $$", kLong).code == Code::Internal);
  CHECK(answer("exit 0", kLong).text().find("wrote no cubin") != std::string::npos);
  const Status slow = answer("exec sleep 1000", 1'000'000);
  CHECK(slow.code == Code::Resource);
  CHECK(slow.text().find("did not end") != std::string::npos);
}

TEST_CASE("without an assembler there is a sentence") {
  CHECK(Ptxas::find("").status().code == Code::NotFound);
  CHECK(Ptxas::find(":/nonexistent::.").status().message == "no ptxas in PATH");
}

TEST_CASE("later architectures are for later targets") {
  CHECK(targets::ptx::usual_architectures(*targets::find_target("cuda-sm75")) == std::vector<uint32_t>{75});
  CHECK(targets::ptx::usual_architectures(sm80()) == std::vector<uint32_t>{80, 86, 89});
  CHECK(targets::ptx::usual_architectures(*targets::find_target("cuda-sm90")) == std::vector<uint32_t>{90, 100, 120});
  CHECK(targets::ptx::usual_architectures(*targets::find_target("cuda-sm90a")) == std::vector<uint32_t>{90});
}

}  // namespace
}  // namespace mlc
