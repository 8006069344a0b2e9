// mlc.hpp with a library that is older than the header: its table ends before the last functions.
#include "runtime/api/mlc.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <memory>

#include "tests/support/api_sample.h"

namespace {

// As long as it says and no longer, so that AddressSanitizer sees a read behind it.
const MlcApi* older_table(uint32_t version) {
  constexpr uint32_t kSize = offsetof(MlcApi, program_info);
  static const std::unique_ptr<std::byte[]> bytes(new std::byte[kSize]);
  std::memcpy(bytes.get(), mlc_get_api(version), kSize);
  std::memcpy(bytes.get() + offsetof(MlcApi, size), &kSize, sizeof kSize);
  return reinterpret_cast<const MlcApi*>(bytes.get());
}

}  // namespace

// A name of its own: the other tests of this program have the header with the library of today.
#define mlc_get_api older_table
#define mlrt mlrt_with_older_library
#include "runtime/api/mlc.hpp"

TEST_CASE("an older library cannot tell what runs a program, and says so") {
  const auto& sample = mlc::test::api_sample();
  const auto model = mlrt::Model::open(sample.signed_file, {.trust_keys = {sample.public_key_file}});
  REQUIRE(model);
  const auto session = model->session();
  REQUIRE(session);
  CHECK(session->info().variant == "native-test");
  const auto info = session->program_info(0);
  REQUIRE(!info);
  CHECK(info.error().code() == MLC_UNSUPPORTED);
  CHECK(info.error().message().find("libmlrt is older") == 0);
  CHECK(model->choose().ok());
  CHECK(model->choose_for(0).error().code() == MLC_UNSUPPORTED);
}
