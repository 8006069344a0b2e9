#include "base/text/base64.h"

#include <doctest/doctest.h>

using namespace mlc;

TEST_CASE("the examples of RFC 4648 in both directions") {
  const std::pair<const char*, const char*> examples[] = {{"", ""},           {"f", "Zg=="},         {"fo", "Zm8="},       {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : examples) {
    CHECK(to_base64(bytes) == text);
    CHECK(from_base64(text) == bytes);
  }
}

TEST_CASE("every length and every byte comes back") {
  std::string bytes;
  for (int length = 0; length < 300; ++length) {
    CHECK(from_base64(to_base64(bytes)) == bytes);
    bytes += static_cast<char>(length * 7);
  }
}

TEST_CASE("one text for each value: what would decode alike is refused") {
  for (const char* text : {"Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zm9", "Z", "====", "=", "Zm9v\n", "Zm 9", "Zm9v====", "Z===", "Zm-v", "Zm9v="}) {
    CAPTURE(text);
    CHECK_FALSE(from_base64(text));
  }
}
