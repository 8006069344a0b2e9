#include <doctest/doctest.h>

#include "packager/text/compile_tokenizer.h"
#include "runtime/text/encode.h"
#include "schema/text/normalized.h"
#include "tests/support/tokenizer_json.h"

using namespace mlc;
using text::TextSpan;

namespace {

using Spans = std::vector<TextSpan>;
constexpr const char* kUnknown = R"({"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0}})";

std::string split_json(const std::string& pattern, const std::string& behaviour, bool invert) {
  return test::tokenizer_json(kUnknown, R"("pre_tokenizer": {"type": "Split", "behavior": ")" + behaviour + R"(", "invert": )" + (invert ? "true" : "false") +
                                            R"(, "pattern": {"Regex": ")" + pattern + "\"}}");
}

Result<std::vector<text::Encoding>> encoded(const std::string& json, std::string_view text) {
  MLC_ASSIGN(const auto bytes, text::compile_tokenizer(json, "tokenizer.json"));
  MLC_ASSIGN(const text::Compiled tokenizer, text::Compiled::open(bytes));
  return text::encode(tokenizer, {text}, {});
}

Spans spans(const std::string& pattern, std::string_view text, const std::string& behaviour = "Isolated", bool invert = false) {
  const auto encodings = encoded(split_json(pattern, behaviour, invert), text);
  REQUIRE_MESSAGE(encodings.ok(), encodings.status().message);
  return encodings->front().offsets;
}

std::string why_not(const std::string& pattern) {
  const auto encodings = encoded(split_json(pattern, "Isolated", false), "a");
  return encodings.ok() ? "" : encodings.status().message;
}

std::string normal(const std::string& normalizer, std::string_view text) {
  const auto bytes = text::compile_tokenizer(test::tokenizer_json(kUnknown, "\"normalizer\": " + normalizer), "tokenizer.json");
  REQUIRE_MESSAGE(bytes.ok(), bytes.status().message);
  const auto tokenizer = text::Compiled::open(*bytes);
  REQUIRE(tokenizer.ok());
  return *text::normalized(*tokenizer, text, 1 << 20);
}

}  // namespace

TEST_CASE("the patterns of vocabularies in use split as the reference does") {
  const std::string rest = R"(|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";
  const std::string words = R"([^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*)";
  const std::string text = "We'LL  go 12345!?\r\n\n x\u00e9 \U0001F468\u200d\U0001F469 \u6f22\u5b57\u05d0";
  const Spans answer{{0, 2}, {2, 5}, {5, 6}, {6, 9}, {9, 10}, {10, 13}, {13, 15}, {15, 20}, {20, 23}, {23, 27}, {27, 31}};
  CHECK(spans("(?i:'s|'t|'re|'ve|'m|'ll|'d)|" + words + rest, text) == answer);
  CHECK(spans(R"('(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*)" + rest, text) == answer);
}

TEST_CASE("matches are removed, isolated or put to their neighbours, or what stands between is") {
  const char* const pattern = R"(\\d\\d?)";
  CHECK(spans(pattern, "a123b4", "Removed") == Spans{{0, 1}, {4, 5}});
  CHECK(spans(pattern, "a123b4", "Removed", true) == Spans{{1, 3}, {3, 4}, {5, 6}});
  CHECK(spans(pattern, "a123b4", "MergedWithPrevious") == Spans{{0, 3}, {3, 4}, {4, 6}});
  CHECK(spans(pattern, "a123b4", "MergedWithPrevious", true) == Spans{{0, 1}, {1, 3}, {3, 5}, {5, 6}});
  CHECK(spans(pattern, "a123b4", "MergedWithNext") == Spans{{0, 1}, {1, 3}, {3, 5}, {5, 6}});
  CHECK(spans(pattern, "a123b4", "Contiguous") == Spans{{0, 1}, {1, 4}, {4, 5}, {5, 6}});
}

TEST_CASE("of alternatives the first counts, of quantifiers the greedy is long and the lazy short") {
  CHECK(spans("ab|abc", "abc", "Removed", true) == Spans{{0, 2}});
  CHECK(spans("(?:ab|a)(?:c|bcd)", "abcd", "Removed", true) == Spans{{0, 3}});
  CHECK(spans("a.*b", "axbxb", "Removed", true) == Spans{{0, 5}});
  CHECK(spans("a.*?b", "axbxb", "Removed", true) == Spans{{0, 3}});
  CHECK(spans(R"(\\d*+1)", "11").size() == 1);
  CHECK(spans(R"((?<=a)\\w+|\\bb)", "ab bb", "Removed", true) == Spans{{1, 2}, {3, 4}});
}

TEST_CASE("a pattern that goes far in vain from each place takes linear time") {
  std::string text(100'000, ' ');
  text += 'x';
  const auto encodings = encoded(split_json(R"(\\s+$|\\p{L}+!)", "Isolated", false), text);
  REQUIRE(encodings.ok());
  CHECK(encodings->front().offsets == Spans{{0, 100'001}});
}

TEST_CASE("patterns that no table can follow are refused with their path") {
  const std::string path = "$.pre_tokenizer.pattern.Regex";
  CHECK(why_not("a*") == path + ": patterns that match the empty text are not covered");
  CHECK(why_not("a(?=bc)").find("looking ahead or behind further than one character is not covered") != std::string::npos);
  CHECK(why_not("(a").starts_with(path + ": no regular expression, at byte 2: a group without end"));
  CHECK(why_not("a)") == path + ": no regular expression, at byte 1: ')' without '('");
  CHECK(why_not(R"((a)\\1)").find("this escape is not covered") != std::string::npos);
  CHECK(why_not("(?:ab)++").find("behind one character only") != std::string::npos);
  CHECK(why_not("(?i)stra\u00dfe").find("one letter in another case") != std::string::npos);
  CHECK(why_not("(?:a?)*b").find("repeats of what may be empty") != std::string::npos);
  CHECK(why_not(R"(\\p{Nonsense})").find("'Nonsense' is no property that is known") != std::string::npos);
  CHECK(why_not("(?:(?:(?:a{900}){900}){900})").find("more than 20000 places") != std::string::npos);
  CHECK(why_not("(?:a|b)*a(?:a|b){18}").find("more than 16384 states") != std::string::npos);
  CHECK(why_not(std::string(100, '(') + "a" + std::string(100, ')')).find("more than 64 groups") != std::string::npos);
  std::string quantified = "a", sets;
  for (int k = 0; k < 100; ++k) quantified += "{1}", sets += R"(\\p{L}{100})";
  CHECK(why_not(quantified).find("more than 64 quantifiers") != std::string::npos);
  CHECK(why_not(sets).find("1048576 ranges") != std::string::npos);
}

TEST_CASE("forms of Unicode, marks, controls and replaced patterns") {
  const std::string text = "e\u0301\u0323\ufb01\uac01\u2460\u0344\u200b\x01";
  CHECK(normal(R"({"type": "NFC"})", text) == "\u1eb9\u0301\ufb01\uac01\u2460\u0308\u0301\u200b\x01");
  CHECK(normal(R"({"type": "NFKC"})", text) == "\u1eb9\u0301fi\uac01" "1\u0308\u0301\u200b\x01");
  CHECK(normal(R"({"type": "NFKD"})", text) == "e\u0323\u0301fi\u1100\u1161\u11a8" "1\u0308\u0301\u200b\x01");
  CHECK(normal(R"({"type": "StripAccents"})", text) == "e\ufb01\uac01\u2460\u200b\x01");
  CHECK(normal(R"({"type": "Nmt"})", text) == "e\u0301\u0323\ufb01\uac01\u2460\u0344 ");
  CHECK(normal(R"({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "-"})", "a b  c   d") == "a b-c-d");
}

TEST_CASE("what was composed has the part of the first code point") {
  const auto encodings = encoded(test::tokenizer_json(kUnknown, R"("normalizer": {"type": "NFC"}, "pre_tokenizer":
    {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "."}})"), "e\u0301\u0323\u1100\u1161\u11a8x");
  REQUIRE(encodings.ok());
  CHECK(encodings->front().offsets == Spans{{0, 1}, {2, 3}, {3, 4}, {6, 7}});
}
