#include "runtime/services/image_decode.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/io/file.h"
#include "tests/support/source_path.h"

using namespace mlc;

namespace {

struct Call : MlcServiceCall {
  std::vector<uint8_t> pixels;
  std::vector<int64_t> shape;
};

void* give(MlcServiceCall* call, uint32_t, int32_t, uint32_t rank, const int64_t* shape) {
  Call& c = *static_cast<Call*>(call);
  c.shape.assign(shape, shape + rank);
  c.pixels.resize(static_cast<size_t>(shape[0] * shape[1] * shape[2]) + 1);
  return c.pixels.data();
}

// The code, and the sentence of a failure in `call`.
int decode(Bytes file, const char* options, uint64_t memory, Call& call, size_t size = sizeof(MlcServiceCall)) {
  const int64_t extents[] = {static_cast<int64_t>(file.size())};
  const MlcTensor in = mlc_tensor(const_cast<std::byte*>(file.data()), MLC_U8, 1, extents);
  call.size = static_cast<uint32_t>(size);
  call.num_inputs = call.num_outputs = 1;
  call.inputs = &in;
  call.options = options;
  call.result = &give;
  call.memory_bytes = memory;
  return services::decode_image(nullptr, &call);
}

HostBuffer picture(const char* name) {
  auto file = io::read_file(mlc::testing::source_path("tests/unit/io/data/") + name);
  REQUIRE(file.ok());
  return std::move(file).value();
}

// 16383 x 16383 pixels of one colour.
constexpr uint8_t kBomb[] = {'R',  'I',  'F',  'F',  0x1c, 0, 0, 0, 'W',  'E',  'B',  'P',  'V',  'P',  '8',  'L',  0x0f, 0,
                             0,    0,    0x2f, 0xfe, 0xbf, 0xff, 0x1f, 7, 0x10, 0xfd, 0x8f, 2, 6, 0x22, 0xa2, 0xff, 1, 0};

}  // namespace

TEST_CASE("image.decode keeps to the memory that the run leaves, and to that of any decode") {
  const Bytes bomb = std::as_bytes(std::span(kBomb));
  Call call{};
  for (const char* options : {"RGB", "RGB or-empty"})  // too little memory is no reason to give nothing
    for (const uint64_t memory : {UINT64_MAX, uint64_t{1} << 20, uint64_t{0}}) {
      CHECK(decode(bomb, options, memory, call) == MLC_RESOURCE);
      CHECK(std::string(call.message).find("the picture may take 768 MiB, at most ") == 0);
    }
  const HostBuffer file = picture("rgb.png");
  CHECK(decode(file.bytes(), "RGB", uint64_t{1} << 20, call) == MLC_OK);
  CHECK(call.shape.size() == 3);
  CHECK(decode(file.bytes(), "RGB or-empty", 1000, call) == MLC_RESOURCE);
}

TEST_CASE("a library that does not say how much memory is left gets the default") {
  const HostBuffer file = picture("rgb.png");
  Call call{};
  CHECK(decode(file.bytes(), "RGB", 0, call, offsetof(MlcServiceCall, memory_bytes)) == MLC_OK);
  CHECK(decode(file.bytes(), "RGB", 0, call) == MLC_RESOURCE);
}
