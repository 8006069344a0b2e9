#include "packager/compile/expand/regex.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "tests/support/limits.h"

using namespace mlc;

namespace {

bool matches(const std::string& pattern, std::string_view text) {
  const auto table = compile::table_of_pattern(pattern);
  REQUIRE_MESSAGE(table.ok(), pattern);
  return accepts(table->data(), table->size(), text);
}
Code refusal(const std::string& pattern) {
  const auto table = compile::table_of_pattern(pattern);
  return table.ok() ? Code::Ok : table.status().code;
}

}  // namespace

TEST_CASE("patterns accept whole texts only") {
  CHECK(matches("www\\.[\\w.-]+\\.com", "www.google.com"));
  CHECK_FALSE(matches("www\\.[\\w.-]+\\.com", "www.google.com/"));
  CHECK(matches("", ""));
  CHECK_FALSE(matches("", "a"));
  CHECK(matches("a|bc|", ""));
  CHECK(matches("(\\W|^)[\\w.\\-]{0,25}@(yahoo|gmail)\\.com(\\W|$)", "account@gmail.com"));
  CHECK_FALSE(matches("(\\W|^)[\\w.\\-]{0,25}@(yahoo|gmail)\\.com(\\W|$)", "account@hotmail.com"));
}

TEST_CASE("repetitions count") {
  CHECK(matches("a{2,3}", "aa"));
  CHECK(matches("a{2,3}?", "aaa"));
  CHECK_FALSE(matches("a{2,3}", "aaaa"));
  CHECK_FALSE(matches("a{2,3}", "a"));
  CHECK(matches("(ab){2,}", "ababab"));
  CHECK_FALSE(matches("(ab){2}", "ab"));
  CHECK(matches("a{0}b", "b"));
  CHECK(matches("a{,3}", "a{,3}"));  // meant literally
  CHECK(matches("(a*)*b+?c?", "aabb"));
  CHECK(matches("((((a?){3}){3}){3})", "aaaaaaaaaaaaaaaaaaaaaaaaaaa"));
  CHECK_FALSE(matches("((((a?){3}){3}){3})", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

TEST_CASE("classes, escapes and flags mean what RE2 says") {
  CHECK(matches("[a-c\\d\\]^-]+", "abc09]^-"));
  CHECK(matches("[^a-c]", "d"));
  CHECK_FALSE(matches("[^a-c]", "b"));
  CHECK(matches("[]a]+", "]a"));
  CHECK(matches("[[:alpha:]_]+\\x41\\x{20AC}\\Qa.b\\E", "foo_A\xE2\x82\xAC" "a.b"));
  CHECK(matches("(?i)str\\w+(?-i)X", "STRassX"));
  CHECK_FALSE(matches("(?i:a)b", "AB"));
  CHECK(matches("(?P<name>x)(?:y)", "xy"));
  CHECK_FALSE(matches("(?i)[^k]", "K"));
  CHECK_FALSE(matches(".", "\n"));
  CHECK(matches("(?s).", "\n"));
  CHECK(matches("^a$", "a"));
  CHECK_FALSE(matches("a^b", "ab"));
  CHECK(matches("www\\.[\\w.-]+\\.\\bcom\\b", "www.google.com"));
  CHECK(matches(".*\\bcat\\b.*", "a cat."));
  CHECK_FALSE(matches(".*\\bcat\\b.*", "concat"));
  CHECK(matches("con\\Bcat\\b", "concat"));
  CHECK(matches("\\B", ""));
  CHECK_FALSE(matches("\\b", ""));
}

TEST_CASE("a dot is a letter of any length in bytes, and what is no UTF-8 is none") {
  for (const char* letter : {"a", "\xC3\xA9", "\xE6\x97\xA5", "\xF0\x9F\x98\x80"}) {
    CHECK(matches(".", letter));
    CHECK_FALSE(matches("..", letter));
    CHECK(matches("[^x]", letter));
  }
  CHECK_FALSE(matches(".", "\xFF"));
  CHECK_FALSE(matches(".", "\xE6\x97"));
  CHECK(matches("[\xD0\xB0-\xD1\x8F]+", "\xD0\xBF\xD1\x80"));  // [а-я]
  CHECK_FALSE(matches("[\xD0\xB0-\xD1\x8F]+", "\xD0\x9F"));
}

TEST_CASE("what is no pattern, or more than is supported, is refused") {
  for (const char* wrong : {"(", ")", "a)", "[a", "[b-a]", "*a", "a**", "a{3,2}", "a{1001}", "\\", "\\x1", "[[:none:]]", "(?P<x", "\xFF"})
    CHECK_MESSAGE(refusal(wrong) == Code::Malformed, wrong);
  for (const char* more : {"\\pL", "\\C", "(?=a)"}) CHECK_MESSAGE(refusal(more) == Code::Unsupported, more);
  CHECK(refusal("(a|b)*a(a|b){20}") == Code::Resource);
  CHECK(refusal("((((((((a{9}){9}){9}){9}){9}){9}){9}){9}){9}") == Code::Resource);
  CHECK(refusal(std::string(100000, '(')) == Code::Resource);
}

TEST_CASE("pieces of a text: the longest match from the left, or what stands between matches") {
  using Texts = std::vector<std::string>;
  const auto tokens = [](const std::string& pattern, std::string_view text, bool between = false, uint64_t letters = 1) {
    const auto table = compile::table_of_pattern(pattern, true);
    REQUIRE_MESSAGE(table.ok(), pattern);
    Texts out;
    for (std::string_view token; next_token(text, table->data(), table->size(), between, letters, token);) out.emplace_back(token);
    return out;
  };
  CHECK(tokens("[a-z]+", "ab, c  def!") == Texts{"ab", "c", "def"});
  CHECK(tokens("a|ab|abc", "abcab") == Texts{"abc", "ab"});
  CHECK(tokens("[ ,]", " ab, c", true) == Texts{"ab", "c"});
  CHECK(tokens("x*", "axxb") == Texts{"xx"});
  CHECK(tokens("x*", "ab", true) == Texts{"ab"});
  CHECK(tokens("(?s:.)", "\xC3\xBC\xE2\x82\xAC") == Texts{"\xC3\xBC", "\xE2\x82\xAC"});
  CHECK(tokens("[^ ]+", "\xC3\xBC\xC3\xBC abc a", false, 2) == Texts{"\xC3\xBC\xC3\xBC", "abc"});
  CHECK(tokens("a", "").empty());
  std::string_view text = "ab", token;
  CHECK_FALSE(next_token(text, nullptr, 0, false, 1, token));  // no table accepts nothing
  for (const char* beside : {"^a", "a$", "\\ba", "a\\B", "\\Aa"}) CHECK(compile::table_of_pattern(beside, true).status().code == Code::Unsupported);
}

TEST_CASE("a pattern of thousands of places takes less than 2 seconds of one processor") {
  const test::Bounded done = test::run_bounded([] { return compile::table_of_pattern("(a?){1000}(a?){1000}a{1000}").status(); }, 512);
  CAPTURE(done.message);
  CHECK(done.ended);
#ifndef MLC_SANITIZED
  CHECK(done.seconds < 2);
#endif
}
