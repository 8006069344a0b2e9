#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/system/siphash.h"

using namespace mlc;

TEST_CASE("SipHash-1-3 gives what other implementations give") {
  const SipKey key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  std::vector<std::byte> bytes(63);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i);
  const auto of = [&](size_t count) { return siphash13(key, std::span(bytes).first(count)); };
  CHECK(of(0) == 0xabac0158050fc4dc);
  CHECK(of(1) == 0xc9f49bf37d57ca93);
  CHECK(of(7) == 0xd3927d989bb11140);
  CHECK(of(8) == 0x369095118d299a8e);
  CHECK(of(15) == 0xd320d86d2a519956);
  CHECK(of(63) == 0x9d199062b7bbb3a8);
  CHECK(siphash13({}, std::span(bytes).first(0)) != of(0));
}

TEST_CASE("the key of a process stays, and is no constant") {
  CHECK(process_sip_key() == process_sip_key());
  CHECK(process_sip_key() != SipKey{});
}
