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

namespace {

// A charsmap whose only key is `most` times the letter a, which becomes b.
std::string charsmap_of_runs(uint32_t most) {
  // Units of Darts: a node of the run at 256 * k + 'a', its leaf at 256 * k + 256, for the children of node k lie in the next block.
  std::vector<uint32_t> units(256 * (size_t{most} + 2), 0x80000000u);
  units[0] = 1u << 10 | 1u << 9;  // its children are in block 1
  units[256 + 'a'] = 0;
  for (uint32_t k = 1; k <= most; ++k) {
    const uint32_t at = 256 * k + 'a', children = 256 * (k + 1);
    units[at] = (at ^ children) << 10 | 'a' | (k == most ? 256u : 0u);
    if (k == most) units[children] = 0x80000000u;
  }
  std::string bytes(4 + units.size() * 4, '\0');
  const auto length = static_cast<uint32_t>(units.size() * 4);
  std::memcpy(bytes.data(), &length, 4);
  std::memcpy(bytes.data() + 4, units.data(), units.size() * 4);
  return bytes + "b" + std::string(1, '\0');
}
std::string long_field(unsigned number, const std::string& value) {
  std::string out{static_cast<char>(number << 3 | 2)};
  for (size_t size = value.size(); size != 0; size >>= 7) out.push_back(static_cast<char>((size & 127) | (size > 127 ? 128 : 0)));
  return out + value;
}

}  // namespace

TEST_CASE("merges are all ways to cut a piece in two pieces, however many there are") {
  std::string runs = piece("<unk>", 0, 2) + piece("a", -1000);
  for (int k = 2; k <= 100; ++k) runs += piece(std::string(static_cast<size_t>(k), 'a'), static_cast<float>(-k));
  const auto made = make(runs + bytes_field(2, number_field(3, 2)) + bytes_field(3, number_field(3, 0)));
  CHECK(ids(made, std::string(4, 'a')) == Ids{4});
  CHECK(ids(made, std::string(5, 'a')) == Ids{5});
  CHECK(ids(made, std::string(100, 'a')) == Ids{100});
}

TEST_CASE("a symbol of the user that the charsmap changes somewhere is refused, and so is one that takes too long to compare") {
  const auto file = [](uint32_t run, const std::string& symbols) {
    return pieces() + symbols + long_field(3, long_field(2, charsmap_of_runs(run)) + number_field(3, 0));
  };
  CHECK(why_not(file(3, piece("xaay", 0, 4))) == "");
  CHECK(why_not(file(3, piece("xaaay", 0, 4))).find("has the symbol 'xaaay', which its own charsmap changes") != std::string::npos);
  CHECK(why_not(file(3, piece("xaaa", 0, 4))).find("which its own charsmap changes") != std::string::npos);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += long_field(1, long_field(1, std::string(1000, 'a') + std::to_string(i)) + number_field(3, 4));
  CHECK(why_not(file(1024, many)).find("takes more than 67108864 steps") != std::string::npos);
}

TEST_CASE("each token in front loses one blank, until one has something behind it") {
  const auto made = make(pieces() + piece("\u2581\u2581", 0, 4));
  CHECK(*text::decode(made.tokenizer, Ids{2, 2, 6}, false, 100) == "a");
  CHECK(*text::decode(made.tokenizer, Ids{8, 3}, false, 100) == " a");
  CHECK(*text::decode(made.tokenizer, Ids{2, 1, 8, 6}, false, 100) == "  a");
  const auto one = make(pieces() + piece("\u2581\u2581", 0, 4) + bytes_field(3, number_field(4, 0)));
  CHECK(*text::decode(one.tokenizer, Ids{2, 8, 3}, false, 100) == "  a");
}
