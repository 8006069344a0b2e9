#include <doctest/doctest.h>

#include <cstring>

#include "packager/text/compile_tokenizer.h"
#include "runtime/text/decode.h"
#include "runtime/text/encode.h"

using namespace mlc;

namespace {

using Ids = std::vector<uint32_t>;

// A field of a message of Protocol Buffers; all lengths are below 128.
std::string bytes_field(unsigned number, const std::string& value) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(value.size())} + value;
}
std::string number_field(unsigned number, unsigned value) {
  std::string out;
  for (unsigned tag = number << 3; tag != 0; tag >>= 7) out.push_back(static_cast<char>((tag & 127) | (tag > 127 ? 128 : 0)));
  return out + static_cast<char>(value);
}
std::string piece(const std::string& text, float score, unsigned type = 1) {
  char bytes[4];
  std::memcpy(bytes, &score, 4);
  return bytes_field(1, bytes_field(1, text) + std::string("\x15") + std::string(bytes, 4) + (type == 1 ? "" : number_field(3, type)));
}

std::string pieces() {
  return piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("\u2581", -3) + piece("a", -4) + piece("b", -5) + piece("ab", -1) +
         piece("\u2581" "a", -2) + piece("<0xC3>", 0, 6);
}

struct Made {
  std::vector<std::byte> bytes;
  text::Compiled tokenizer;
};
Made make(const std::string& model) {
  auto bytes = text::compile_tokenizer(model, "x.model");
  REQUIRE_MESSAGE(bytes.ok(), bytes.status().message);
  auto opened = text::Compiled::open(*bytes);
  REQUIRE(opened.ok());
  return {std::move(*bytes), *opened};
}
Ids ids(const Made& made, std::string_view text) { return text::encode(made.tokenizer, {text}, {})->front().ids; }

std::string why_not(const std::string& model) {
  const auto bytes = text::compile_tokenizer(model, "x.model");
  return bytes.ok() ? "" : bytes.status().message;
}

}  // namespace

TEST_CASE("a unigram model takes the best way, a BPE model the best pair first") {
  const auto unigram = make(pieces() + bytes_field(2, number_field(3, 1)));
  CHECK(ids(unigram, " ab  a ") == Ids{2, 5, 6});
  CHECK(ids(unigram, "a<s>x") == Ids{6, 0});
  CHECK(ids(unigram, "   ").empty());
  const auto bpe = make(pieces() + bytes_field(2, number_field(3, 2)));
  CHECK(ids(bpe, "ab a") == Ids{2, 5, 6});
  CHECK(ids(bpe, "aab") == Ids{6, 5});
}

TEST_CASE("the normaliser's options count: no prefix, blanks as they are") {
  const auto plain = make(pieces() + bytes_field(3, number_field(3, 0) + number_field(4, 0)));
  CHECK(ids(plain, "ab  a") == Ids{5, 2, 6});
}

TEST_CASE("control tokens are no text, what is unknown is told by its sign") {
  const auto made = make(pieces());
  CHECK(*text::decode(made.tokenizer, Ids{1, 6, 5, 2, 4}, false, 100) == "aab b");
  CHECK(*text::decode(made.tokenizer, Ids{0, 6}, false, 100) == " \u2047  a");
  CHECK(*text::decode(made.tokenizer, Ids{6, 7, 7, 4}, false, 100) == "a\ufffd\ufffd" "b");
}

TEST_CASE("model files that are none, or of another kind, say why") {
  CHECK(why_not("") == "x.model: no model of SentencePiece: it has no pieces");
  CHECK(why_not("{\"model\": 1}").find("no model of SentencePiece") != std::string::npos);
  CHECK(why_not(pieces().substr(0, 20)).find("a message of it is not whole") != std::string::npos);
  CHECK(why_not(piece("a", 0)).find("has no piece for what is unknown") != std::string::npos);
  CHECK(why_not(pieces() + piece("a", 0)).find("has the piece 'a' twice") != std::string::npos);
  CHECK(why_not(pieces() + bytes_field(2, number_field(3, 4))).find("is of kind 4; covered are 1, unigram, and 2, BPE") != std::string::npos);
  CHECK(why_not(pieces() + piece("c", 0, 9)).find("is of type 9") != std::string::npos);
  CHECK(why_not(pieces() + piece("xy", -1) + bytes_field(2, number_field(3, 2))).find("with a character that is no piece") != std::string::npos);
  CHECK(why_not(pieces() + bytes_field(3, bytes_field(2, "abcdefgh"))).find("no whole number of its items") != std::string::npos);
}
