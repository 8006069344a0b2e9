// What arrays of DLPack say of themselves is looked at before it is believed.
#include "runtime/api/devices/dlpack.h"

#include <doctest/doctest.h>

#include <limits>

#include "runtime/api/devices/memory.h"

namespace mlc::api {
namespace {

struct Given {
  alignas(64) float values[64] = {};
  int64_t shape[9] = {2, 3, 4, 1, 1, 1, 1, 1, 1}, strides[9] = {12, 4, 1, 1, 1, 1, 1, 1, 1};
  dlpack::Tensor tensor{values, {dlpack::kCpu, 0}, 3, {2, 32, 1}, shape, strides, 0};
};

template <class Change>
std::string refusal(const Change& change) {
  Given g;
  change(g);
  const auto described = describe(g.tensor);
  if (described.ok()) return "taken";
  CHECK(described.status().code == Code::InputMismatch);
  return described.status().message;
}

TEST_CASE("a dense array is what it says") {
  Given g;
  for (int64_t* strides : {g.strides, static_cast<int64_t*>(nullptr)}) {
    g.tensor.strides = strides;
    g.tensor.byte_offset = 16;
    const auto described = describe(g.tensor);
    REQUIRE(described.ok());
    CHECK(described->dtype == DType::F32);
    CHECK(described->shape == std::vector<int64_t>{2, 3, 4});
    CHECK(described->bytes == 96);
    CHECK(described->address == reinterpret_cast<uintptr_t>(g.values) + 16);
  }
  g.tensor.ndim = 0;
  g.tensor.shape = nullptr;
  CHECK(describe(g.tensor)->bytes == 4);
}

TEST_CASE("axes of one element may have any stride, and of arrays without elements all may") {
  CHECK(refusal([](Given& g) { g.shape[0] = 1, g.strides[0] = -77; }) == "taken");
  CHECK(refusal([](Given& g) { g.shape[1] = 0, g.strides[0] = -5, g.strides[2] = 9; }) == "taken");
  CHECK(refusal([](Given& g) { g.shape[1] = 0, g.tensor.data = nullptr; }) == "taken");
}

TEST_CASE("numbers that cannot be are refused, each with its reason") {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  const std::pair<std::string, std::function<void(Given&)>> cases[] = {
      {"-1 axes", [](Given& g) { g.tensor.ndim = -1; }},
      {"9 axes, at most 8", [](Given& g) { g.tensor.ndim = 9; }},
      {"2147483647 axes", [](Given& g) { g.tensor.ndim = std::numeric_limits<int32_t>::max(); }},
      {"no shape", [](Given& g) { g.tensor.shape = nullptr; }},
      {"extent -1", [](Given& g) { g.shape[1] = -1; }},
      {"extent -9223372036854775808", [](Given& g) { g.shape[2] = std::numeric_limits<int64_t>::min(); }},
      {"out of range", [](Given& g) { g.shape[0] = kHuge; }},
      {"out of range", [](Given& g) { g.shape[0] = 1 << 30, g.shape[1] = 1 << 30, g.shape[2] = 1 << 30; }},
      {"out of range", [](Given& g) { g.shape[0] = 0, g.shape[1] = kHuge, g.shape[2] = kHuge; }},
      {"strides", [](Given& g) { g.strides[2] = -1; }},
      {"strides", [](Given& g) { g.strides[0] = 1, g.strides[1] = 2, g.strides[2] = 6; }},
      {"strides", [](Given& g) { g.strides[0] = 16; }},
      {"strides", [](Given& g) { g.strides[0] = std::numeric_limits<int64_t>::min(); }},
      {"strides", [](Given& g) { g.strides[1] = 0; }},
      {"type 2, 32 bits, 4 lanes", [](Given& g) { g.tensor.dtype.lanes = 4; }},
      {"type 2, 7 bits", [](Given& g) { g.tensor.dtype.bits = 7; }},
      {"type 5, 64 bits", [](Given& g) { g.tensor.dtype = {5, 64, 1}; }},
      {"no data", [](Given& g) { g.tensor.data = nullptr; }},
      {"beyond all addresses", [](Given& g) { g.tensor.byte_offset = std::numeric_limits<uint64_t>::max(); }},
      {"beyond all addresses", [](Given& g) { g.tensor.byte_offset = std::numeric_limits<uint64_t>::max() - reinterpret_cast<uintptr_t>(g.values) - 10; }}};
  for (const auto& [why, change] : cases) {
    const std::string said = refusal(change);
    CHECK_MESSAGE(said.find(why) != said.npos, (why + " is not in: " + said));
    CHECK(said.starts_with("array of DLPack: "));
  }
}

}  // namespace
}  // namespace mlc::api
