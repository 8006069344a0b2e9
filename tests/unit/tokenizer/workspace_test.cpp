// What a thread keeps between texts (runtime/text/workspace.h) changes no answer.
#include <doctest/doctest.h>

#include <thread>

#include "packager/text/compile_tokenizer.h"
#include "runtime/text/encode.h"
#include "schema/text/normalized.h"
#include "tests/support/tokenizer_json.h"

using namespace mlc;
using text::TextSpan;

namespace {

struct Made {
  std::vector<std::byte> bytes;
  text::Compiled tokenizer;
};
Made make(const std::string& json) {
  auto bytes = text::compile_tokenizer(json, "tokenizer.json");
  REQUIRE_MESSAGE(bytes.ok(), bytes.status().message);
  auto opened = text::Compiled::open(*bytes);
  REQUIRE(opened.ok());
  return {std::move(*bytes), *opened};
}

// BPE without words: all of a text is one.
std::string wordless(bool fuse) {
  return test::tokenizer_json(std::string(R"({"type": "BPE", "unk_token": "<unk>", "fuse_unk": )") + (fuse ? "true" : "false") +
                              R"(, "vocab": {"<unk>": 0, "a": 1, "b": 2, "x": 3, "ab": 4, "abab": 5, "xa": 6}, "merges": ["a b", "ab ab", "x a"]})");
}

constexpr std::string_view kTexts[] = {"unaffable, caf\u00e9 a a unaffable caf", "ab abab ab\u00e9 abab ab abababab ababababababababababababababababababab",
                                       "abxxab??abxabababab\u00e9abababxxab?x\u00e9\u00e9", "", " ", "a", "[SEP]a [SEP]", "\u6f22a\u6f22a \u6f22a"};

struct Answer {
  std::vector<uint32_t> ids;
  std::vector<TextSpan> offsets;
  bool operator==(const Answer&) const = default;
};
Answer answer(const Made& made, std::string_view text) {
  const auto encodings = text::encode(made.tokenizer, {text}, {});
  return encodings.ok() ? Answer{encodings->front().ids, encodings->front().offsets} : Answer{{~0u}, {}};
}

}  // namespace

TEST_CASE("a text has one answer, whatever its thread had before, and for whichever of many tokenizers") {
  std::vector<Made> made;
  made.push_back(make(test::tokenizer_json(test::kWordPieceModel, test::kBertParts)));
  made.push_back(make(test::tokenizer_json(test::kBpeModel, test::kByteParts)));
  for (int copies = 0; copies < 3; ++copies) made.push_back(make(wordless(copies == 0)));
  made.push_back(make(test::tokenizer_json(test::kWordPieceModel)));
  std::vector<Answer> fresh;
  for (const Made& one : made)
    for (const std::string_view text : kTexts) std::thread([&] { fresh.push_back(answer(one, text)); }).join();
  for (int round = 0; round < 3; ++round)
    for (size_t i = 0; i < made.size(); ++i)
      for (size_t k = 0; k < std::size(kTexts); ++k) CHECK(answer(made[i], kTexts[k]) == fresh[i * std::size(kTexts) + k]);
  // Text by text, the tokenizers in turn.
  for (size_t k = 0; k < std::size(kTexts); ++k)
    for (size_t i = 0; i < made.size(); ++i) CHECK(answer(made[i], kTexts[k]) == fresh[i * std::size(kTexts) + k]);
}

TEST_CASE("another tokenizer in the same place of memory has no words of the one before") {
  for (const char* second : {"5", "6"}) {
    const Made made = make(test::tokenizer_json(std::string(R"({"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0, "a": )") + second + "}}"));
    CHECK(answer(made, "a").ids == std::vector<uint32_t>{static_cast<uint32_t>(second[0] - '0')});
  }
}

TEST_CASE("BPE without words is cut where no merge joins letters: ids and offsets are the reference's") {
  const Answer fused = answer(make(wordless(true)), kTexts[2]), each = answer(make(wordless(false)), kTexts[2]);
  CHECK(fused.ids == std::vector<uint32_t>{4, 3, 3, 4, 0, 4, 3, 5, 5, 0, 5, 4, 3, 3, 4, 0, 3, 0});
  CHECK(fused.offsets == std::vector<TextSpan>{{0, 2}, {2, 3}, {3, 4}, {4, 6}, {6, 8}, {8, 10}, {10, 11}, {11, 15}, {15, 19}, {19, 20}, {20, 24}, {24, 26},
                                               {26, 27}, {27, 28}, {28, 30}, {30, 31}, {31, 32}, {32, 34}});
  CHECK(each.ids == std::vector<uint32_t>{4, 3, 3, 4, 0, 0, 4, 3, 5, 5, 0, 5, 4, 3, 3, 4, 0, 3, 0, 0});
  CHECK(each.offsets.back() == TextSpan{33, 34});
}

TEST_CASE("a long text, whose memory is not kept, and texts after it") {
  const Made made = make(test::tokenizer_json(test::kWordPieceModel, test::kBertParts));
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "cafe ";
  CHECK(answer(made, text).ids.size() == 20'002);
  CHECK(answer(made, "cafe").ids == std::vector<uint32_t>{2, 7, 3});
  CHECK(answer(made, text).ids.size() == 20'002);
}

TEST_CASE("ASCII goes through one table as through the steps") {
  for (const char* steps : {R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true})",
                            R"({"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]})",
                            R"({"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "NFD"}, {"type": "StripAccents"}]})",
                            R"({"type": "Sequence", "normalizers": [{"type": "Lowercase"}, {"type": "Replace", "pattern": {"String": "a"},
                              "content": "bb"}]})"}) {
    const Made made = make(test::tokenizer_json(R"({"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0}})", std::string("\"normalizer\": ") + steps));
    for (char first = 0; first >= 0 && first < 127; ++first) {
      for (char second = 0; second >= 0 && second < 127; ++second) {
        const std::string text{first, 'A', second};
        const auto alone = text::normalized(made.tokenizer, text, 1 << 20), beside = text::normalized(made.tokenizer, text + "\u00f8", 1 << 20);
        REQUIRE((alone.ok() && beside.ok()));
        CHECK(*alone + "\u00f8" == *beside);
      }
    }
  }
}
