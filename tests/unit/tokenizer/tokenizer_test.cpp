// Small tokenizers whose answers follow from the definition (spec/tokenizer.md), and were compared with `tokenizers` 0.23.3.
#include <doctest/doctest.h>

#include <algorithm>

#include "packager/text/compile_tokenizer.h"
#include "runtime/text/decode.h"
#include "runtime/text/encode.h"
#include "tests/support/tokenizer_bytes.h"

using namespace mlc;
using namespace mlc::test;
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
  return {std::move(*bytes), *opened};  // the bytes stay where they are when they are moved
}
Made bert() { return make(tokenizer_json(kWordPieceModel, kBertParts)); }
Made bytes() { return make(tokenizer_json(kBpeModel, kByteParts)); }

std::string why_not(const std::string& json) {
  const auto bytes = text::compile_tokenizer(json, "tokenizer.json");
  return bytes.ok() ? "" : bytes.status().message;
}

text::Encoding encoded(const Made& made, std::string_view text, text::EncodeOptions options = {}) {
  options.byte_offsets = true;
  const auto encodings = text::encode(made.tokenizer, {text}, options);
  REQUIRE_MESSAGE(encodings.ok(), encodings.status().message);
  return encodings->front();
}
using Ids = std::vector<uint32_t>;
using Spans = std::vector<TextSpan>;

}  // namespace

TEST_CASE("words are cut into the longest tokens, accents and case are gone, offsets are of the original") {
  const auto e = encoded(bert(), "UNaffable,\tCaf\u00e9");
  CHECK(e.ids == Ids{2, 4, 5, 6, 8, 7, 3});
  CHECK(e.offsets == Spans{{0, 0}, {0, 2}, {2, 5}, {5, 9}, {9, 10}, {11, 15}, {0, 0}});
  CHECK(e.byte_offsets == Spans{{0, 0}, {0, 2}, {2, 5}, {5, 9}, {9, 10}, {11, 16}, {0, 0}});
  CHECK(e.words == Ids{text::kNone, 0, 0, 0, 1, 2, text::kNone});
  CHECK(e.special == std::vector<uint8_t>{1, 0, 0, 0, 0, 0, 1});
}

TEST_CASE("an ideograph is a word, a word of unknown rest or of too many characters is one unknown token") {
  const auto e = encoded(bert(), "a\u6f22a caf aaaaaaaaaaa");
  CHECK(e.ids == Ids{2, 9, 11, 9, 1, 1, 3});
  CHECK(e.offsets == Spans{{0, 0}, {0, 1}, {1, 2}, {2, 3}, {4, 7}, {8, 19}, {0, 0}});
}

TEST_CASE("added tokens are found in the text and take white space on their side") {
  const auto e = encoded(bert(), "a  [SEP]a");
  CHECK(e.ids == Ids{2, 9, 3, 9, 3});
  CHECK(e.offsets == Spans{{0, 0}, {0, 1}, {1, 8}, {8, 9}, {0, 0}});
}

TEST_CASE("of two texts the template makes one, and cutting takes from the longer one") {
  text::EncodeOptions options;
  options.truncation = {7};
  const auto both = text::encode(bert().tokenizer, {"a a a a a", "a"}, options);
  REQUIRE(both.ok());
  CHECK(both->front().ids == Ids{2, 9, 9, 9, 3, 9, 3});
  CHECK(both->front().type_ids == Ids{0, 0, 0, 0, 0, 1, 1});
  CHECK(both->size() == 2);
}

TEST_CASE("parts of a text that was cut share the stride, and all are padded") {
  text::EncodeOptions options;
  options.truncation = {5, 1};
  options.padding = {0, 4, text::Side::Left};
  const auto parts = text::encode(bert().tokenizer, {"a , a , cafe"}, options);
  REQUIRE(parts.ok());
  REQUIRE(parts->size() == 2);
  CHECK((*parts)[0].ids == Ids{0, 0, 0, 2, 9, 8, 9, 3});
  CHECK((*parts)[1].ids == Ids{0, 0, 0, 2, 9, 8, 7, 3});
  CHECK((*parts)[1].attention == std::vector<uint8_t>{0, 0, 0, 1, 1, 1, 1, 1});
}

TEST_CASE("what cannot be cut says why") {
  text::EncodeOptions options;
  options.truncation = {1};
  CHECK(text::encode(bert().tokenizer, {"a"}, options).status().message.find("the template alone has 2 tokens") != std::string::npos);
  options.truncation = {4, 2};
  CHECK(text::encode(bert().tokenizer, {"a a a"}, options).status().message.find("the stride is 2") != std::string::npos);
  options.truncation = {4, 0, text::Side::Right, text::Cut::OnlySecond};
  CHECK(text::encode(bert().tokenizer, {"a a a"}, options).status().message.find("there is none") != std::string::npos);
}

TEST_CASE("merges go by rank, the blank before a word belongs to it, offsets leave it out") {
  const auto e = encoded(bytes(), "ababab ab\u00e9");
  CHECK(e.ids == Ids{3, 2, 5, 6, 7});
  CHECK(e.offsets == Spans{{0, 4}, {4, 6}, {7, 9}, {9, 10}, {9, 10}});
}

TEST_CASE("a long word of equal characters takes n log n") {
  const std::string word(200'000, 'a');
  text::EncodeOptions options;
  options.memory = 1u << 30;
  CHECK(encoded(bytes(), word, options).ids.size() == word.size());
  std::string pairs;
  for (int i = 0; i < 100'000; ++i) pairs += "ab";
  CHECK(encoded(bytes(), pairs, options).ids.size() == 50'000);
}

TEST_CASE("text that is no UTF-8 or needs too much memory is refused") {
  CHECK(text::encode(bert().tokenizer, {"a\xff"}, {}).status().message == "the text is no UTF-8: byte 1 is wrong");
  text::EncodeOptions options;
  options.memory = 1000;
  CHECK(text::encode(bert().tokenizer, {"a a a a"}, options).status().code == Code::Resource);
}

TEST_CASE("tokens become text, one by one never a part of a character") {
  const auto b = bert();
  CHECK(*text::decode(b.tokenizer, Ids{4, 5, 6, 8, 7, 3}, true, 100) == "unaffable, cafe");
  const auto made = bytes();
  text::Decoder decoder(made.tokenizer, false);
  std::string out;
  decoder.push(6, out);
  CHECK(out.empty());
  decoder.push(7, out);
  CHECK(out == "\u00e9");
  decoder.push(6, out);
  decoder.push(2, out);
  CHECK(out == "\u00e9\ufffd" "ab");
  CHECK(text::decode(made.tokenizer, Ids{2, 2, 2}, false, 5).status().code == Code::Resource);
}

TEST_CASE("what is not covered is refused with its path") {
  CHECK(why_not(tokenizer_json(R"({"type": "Unknown"})")) == "$.model.type: 'Unknown' is not known; known are WordPiece, BPE, Unigram, WordLevel");
  CHECK(why_not(tokenizer_json(kWordPieceModel, R"("pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "BertPreTokenizer"}, {"type": "X"}]})"))
            .starts_with("$.pre_tokenizer.pretokenizers[1].type: 'X' is not known; known are "));
  CHECK(why_not(tokenizer_json(R"({"type": "BPE", "dropout": 0.1, "vocab": {}, "merges": []})")).starts_with("$.model.dropout: dropout draws merges"));
  CHECK(why_not(tokenizer_json(R"({"type": "BPE", "vocab": {"a": 0}, "merges": ["a a"]})")) == "$.model.merges[0]: 'aa' is no token of the vocabulary");
  CHECK(why_not(tokenizer_json(R"({"type": "WordLevel", "vocab": {"a": 0, "b": 0}})")) == "$.model.vocab.b has id 0, which another token has");
  CHECK(why_not(tokenizer_json(R"({"type": "WordLevel", "vocab": {"a": "b"}})")) == "$.model.vocab.a is a string, expected a whole number");
  CHECK(why_not("[]") == "$ is a list, expected an object");
}

TEST_CASE("a decoder that makes tokens longer step after step is refused") {
  const auto doubling = [](int steps) {
    std::string list;
    for (int i = 0; i < steps; ++i) list += std::string(i ? ", " : "") + R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"})";
    return tokenizer_json(kWordPieceModel, R"("decoder": {"type": "Sequence", "decoders": [)" + list + "]}");
  };
  CHECK(why_not(doubling(10)).empty());
  CHECK(why_not(doubling(11)).find("more than 1,024 times as long") != std::string::npos);
}

TEST_CASE("a compiled tokenizer with any byte another still stays inside of its bytes") {
  auto bytes = TokenizerBytes(tokenizer_json(kWordPieceModel, kBertParts)).bytes();
  uint32_t opened = 0;
  // The long tables of Unicode are alike: some of each.
  for (size_t i = 0; i < bytes.size(); i += bytes.size() > 4096 && i > 4096 ? 97 : 1) {
    for (const uint8_t flip : {0x01, 0x80}) {
      bytes[i] ^= std::byte{flip};
      if (const auto tokenizer = text::Compiled::open(bytes); tokenizer.ok()) {
        ++opened;
        text::EncodeOptions options;
        options.memory = 1 << 18;
        (void)text::encode(*tokenizer, {"Un\u00e9 [SEP] \u6f22a"}, options).ok();
      }
      bytes[i] ^= std::byte{flip};
    }
  }
  CHECK(opened > 0);
}
