// The Khronos validator takes what we emit; where there is none the test says so.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "targets/spirv/verify.h"
#include "tests/unit/spirv/statement_cases.h"

namespace mlc {
namespace {

using namespace testing;
namespace fs = std::filesystem;

bool has_validator() { return std::system("spirv-val --version >/dev/null 2>&1") == 0; }

struct Folder {
  Folder() : path(fs::temp_directory_path() / ("mlc-spirv-" + std::to_string(std::random_device()()))) { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  void add(const std::string& name, const std::vector<uint32_t>& words) const {
    std::ofstream(path / (name + ".spv"), std::ios::binary).write(reinterpret_cast<const char*>(words.data()), std::streamsize(words.size() * 4));
  }
  // Of the files, the names and messages of those that are refused.
  std::string refused() const {
    const std::string command = "cd '" + path.string() + "' && for f in *.spv; do spirv-val --target-env vulkan1.1 $f >>refused 2>&1 || echo $f >>refused; done";
    if (std::system(command.c_str()) != 0) return "the shell fails";
    std::ifstream in(path / "refused");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fs::path path;
};

TEST_CASE("the validator of Khronos accepts what is emitted") {
  if (!has_validator()) {
    MESSAGE("skipped: spirv-val is not installed");
    return;
  }
  const Folder folder;
  Pool pool;
  std::vector<OpCase> cases = all_op_cases(pool, 1);
  std::vector<OpCase> wide = all_op_cases(pool, 4);
  for (OpCase& c : wide) cases.push_back(std::move(c));
  // Operations of one type differ little: every ninth, and all of the types that are used most.
  for (size_t k = 0; k < cases.size(); ++k) {
    if (k % 9 != 0 && cases[k].from != DType::F32 && cases[k].from != DType::I64) continue;
    spread(pool, cases[k].kernel);
    const auto emitted = targets::spirv::emit_kernel(cases[k].kernel, {});
    REQUIRE_MESSAGE(emitted.ok(), emitted.status().text());
    folder.add(std::to_string(k) + "." + cases[k].kernel.name, emitted->words);
  }
  for (const StatementCase& c : statement_cases(pool)) {
    const auto emitted = targets::spirv::emit_kernel(c.kernel, {});
    REQUIRE_MESSAGE(emitted.ok(), emitted.status().text());
    folder.add(c.kernel.name, emitted->words);
  }
  const std::string refused = folder.refused();
  CHECK_MESSAGE(refused.empty(), refused);
}

TEST_CASE("what the audit takes of mutated images the validator of Khronos takes too") {
  if (!has_validator()) {
    MESSAGE("skipped: spirv-val is not installed");
    return;
  }
  const Folder folder;
  Pool pool;
  std::mt19937_64 random(11);
  std::vector<targets::spirv::EmittedKernel> images;
  for (const StatementCase& c : statement_cases(pool)) images.push_back(std::move(*targets::spirv::emit_kernel(c.kernel, {})));
  size_t taken = 0;
  for (int n = 0; n < 20000; ++n) {
    targets::spirv::EmittedKernel e = images[random() % images.size()];
    uint32_t& word = e.words[random() % e.words.size()];
    // Ids in place of others are what is taken most.
    word = random() % 3 ? e.words[random() % e.words.size()] : random() % 2 ? word + 1 : word ^ (1u << random() % 32);
    if (targets::spirv::verify(e.words, e.entry).ok()) folder.add("m" + std::to_string(++taken), e.words);
  }
  CHECK(taken > 100);
  const std::string refused = folder.refused();
  CHECK_MESSAGE(refused.empty(), refused);
}

}  // namespace
}  // namespace mlc
