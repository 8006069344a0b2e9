// The seeds of the plan fuzzer are what the texts in tests/fuzz/plans say. MLC_WRITE_SEEDS=1 writes them anew, for a format
// that has changed.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "packager/plan/text.h"
#include "tests/support/containers/any_plan.h"
#include "tests/support/containers/misaligned_plan.h"
#include "tests/support/source_path.h"

using namespace mlc;

namespace {

std::string content_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("the seeds of the plan fuzzer are what their texts say") {
  const std::filesystem::path tests = mlc::testing::source_path("tests/fuzz");
  size_t texts = 0, seeds = 0;
  for (const auto& file : std::filesystem::directory_iterator(tests / "plans")) {
    const std::string name = file.path().stem().string();
    CAPTURE(name);
    auto parsed = plan::parse(content_of(file.path()));
    REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? std::string() : parsed.status().message));
    auto bytes = plan::encode(*parsed);
    if (name.starts_with("misaligned")) test::misalign_results(bytes);
    const auto decoded = exec::decode_plan(bytes, {test::kAnyKernels, test::any_tensor_bytes});
    CHECK_MESSAGE(decoded.ok(), (decoded.ok() ? std::string() : decoded.status().message));
    const std::string_view written(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto seed = tests / "corpus/plan" / (name + ".plan");
    if (std::getenv("MLC_WRITE_SEEDS")) std::ofstream(seed, std::ios::binary) << written;
    CHECK(content_of(seed) == written);
    ++texts;
  }
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(tests / "corpus/plan")) ++seeds;
  CHECK(texts == seeds);
  CHECK(seeds >= 7);
}
