#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "loaders/portable/program.h"
#include "targets/target.h"
#include "tests/support/source_path.h"
#include "tests/unit/targets/loop_builder.h"
#include "tests/unit/targets/op_cases.h"

namespace mlc {
namespace {

using namespace testing;

std::vector<std::byte> example_of_the_specification() {
  std::ifstream file(mlc::testing::source_path("spec/portable-code.md"));
  std::vector<std::byte> out;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "```") {
      inside = !inside;
      continue;
    }
    if (!inside) continue;
    std::istringstream words(line.substr(0, line.find(';')));
    for (std::string word; words >> word;) out.push_back(static_cast<std::byte>(std::stoi(word, nullptr, 16)));
  }
  return out;
}

TEST_CASE("the example of spec/portable-code.md is what the encoder writes and the interpreter runs") {
  Pool p;
  auto k = kernel(p, "twice", {{DType::F32, false}, {DType::F32, true}});
  const Expr* t = p.var();
  const Expr* at = p.mul(t, p.integer(16));
  k.body.push_back(for_(t, k.tile_begin, k.tile_end, 1,
                        seq(store_(1, at, p.mul(p.load(0, {DType::F32, 16}, at), p.splat(p.number(2), 16))))));
  std::vector<loop::Kernel> kernels;
  kernels.push_back(std::move(k));
  auto module = targets::emit_module(*targets::find_target("portable"), kernels);
  REQUIRE(module.ok());
  const std::vector<std::byte> example = example_of_the_specification();
  CHECK(example == module->bytes);

  auto programs = portable::decode_module(example);
  REQUIRE(programs.ok());
  AlignedBytes x(3 * 64), y(3 * 64), scratch((*programs)[0].scratch_bytes);
  auto* in = reinterpret_cast<float*>(x.data.get());
  auto* out = reinterpret_cast<float*>(y.data.get());
  for (int i = 0; i < 48; ++i) in[i] = float(i);
  void* buffers[] = {in, out};
  const uint64_t lengths[] = {x.size, y.size};
  const MlrunLaunch launch = {buffers, lengths, nullptr, scratch.data.get(), 0, 1};
  WorkMeter meter;
  CHECK(portable::run_program((*programs)[0], launch, 1, 3, meter) == 0);
  for (int i = 0; i < 48; ++i) CHECK(out[i] == (i < 16 ? 0.0f : 2.0f * float(i)));
}

}  // namespace
}  // namespace mlc
