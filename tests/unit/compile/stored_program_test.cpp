#include <doctest/doctest.h>

#include "packager/compile/stored_program.h"

using namespace mlc;

TEST_CASE("a program comes out as it was put in, and cut bytes are none") {
  const compile::StoredProgram program{"{\"dim\":[]}", {std::byte{1}, std::byte{2}, std::byte{3}}};
  const std::vector<std::byte> bytes = compile::encode_program(program);
  const auto again = compile::decode_program(bytes);
  REQUIRE(again.ok());
  CHECK(again->options == program.options);
  CHECK(again->model == program.model);
  for (size_t length = 0; length < bytes.size() - program.model.size(); ++length) CHECK_FALSE(compile::decode_program(Bytes(bytes).first(length)).ok());
  std::vector<std::byte> bad = bytes;
  bad[11] = std::byte{255};  // options of gigabytes
  CHECK_FALSE(compile::decode_program(bad).ok());
  bad = bytes;
  bad[0] = std::byte{0};
  CHECK_FALSE(compile::decode_program(bad).ok());
}
