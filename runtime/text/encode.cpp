#include "runtime/text/encode.h"

#include "base/text.h"
#include "runtime/text/finish.h"
#include "runtime/text/models.h"
#include "runtime/text/normalize.h"
#include "runtime/text/split.h"

namespace mlc::text {
namespace {

// What one code point of a normalised text may take, in all lists together while they grow: four of code points, three of
// pieces, tokens, symbols with their candidates, and the answer.
constexpr uint64_t kBytesPerChar = 512;

Status too_large(uint64_t memory) {
  return Status(Code::Resource, "the text needs more memory to be tokenized than the {} bytes that it may take", memory)
      .hint("cut the text into parts");
}

Status not_all(const Chars& chars, uint64_t memory) {
  if (!chars.gave_up()) return too_large(memory);
  return Status(Code::Resource, "a pattern of the tokenizer takes too many steps in this text").hint("cut the text into parts");
}

Result<Chars> decode(std::string_view text, uint64_t memory) {
  const uint64_t most = memory / kBytesPerChar;
  if (text.size() / 4 > most) return too_large(memory);
  Chars chars(most);
  chars.reserve(text.size());
  uint32_t position = 0;
  for (size_t at = 0; at < text.size(); ++position) {
    uint32_t c = 0;
    const unsigned size = decode_utf8(text, at, c);
    if (size == 0) return Status(Code::Usage, "the text is no UTF-8: byte {} is wrong", uint64_t{at});
    chars.add({c, position, position + 1});
    at += size;
  }
  if (chars.overflowed()) return too_large(memory);
  return chars;
}

// Cuts added tokens out of the text, normalises what stands between, cuts again.
void normalize_pieces(const Compiled& tokenizer, const Chars& original, Pieces& out, Chars& scratch) {
  std::vector<Piece> raw;
  cut_added(tokenizer, tokenizer.added_trie(), original, {0, static_cast<uint32_t>(original.size())}, raw);
  Chars part(original.room() + original.size());
  part.reserve(original.size()), out.chars.reserve(original.size());
  for (const Piece& piece : raw) {
    part.clear();
    part.add(std::span(original.data() + piece.begin, piece.end - piece.begin));
    if (piece.added == kNone) normalize(tokenizer, part, scratch);
    const auto begin = static_cast<uint32_t>(out.chars.size());
    out.chars.add(std::span(part.data(), part.size()));
    if (part.gave_up()) out.chars.give_up();
    if (part.overflowed()) out.chars.overflow();
    if (out.chars.overflowed()) return;
    const Piece placed{begin, static_cast<uint32_t>(out.chars.size()), piece.added};
    if (placed.begin == placed.end) continue;
    if (piece.added != kNone) out.pieces.push_back(placed);
    else cut_added(tokenizer, tokenizer.normalized_trie(), out.chars, placed, out.pieces);
  }
}

Token added_token(const Compiled& tokenizer, const Chars& chars, const Piece& piece, uint32_t word) {
  Token token{tokenizer.added(piece.added).id, chars[piece.begin].begin, chars[piece.end - 1].end, word, 0, 0};
  if (!(tokenizer.options().flags & kTrimOffsets)) return token;
  const auto blank = [&](uint32_t i) {
    return chars[i].code_point == code_point_of_byte(' ') || (tokenizer.class_of(chars[i].code_point) & kSpace);
  };
  for (uint32_t i = piece.begin; i < piece.end && blank(i); ++i) ++token.lead;
  for (uint32_t i = piece.end; i > piece.begin && blank(i - 1); --i) ++token.trail;
  return token;
}

Result<std::vector<Token>> tokenize(const Compiled& tokenizer, std::string_view text, uint64_t memory) {
  MLC_ASSIGN(Chars original, decode(text, memory));
  std::vector<Token> tokens;
  if (original.size() == 0) return tokens;
  const uint64_t most = memory / kBytesPerChar;
  Pieces pieces{Chars(most), {}}, scratch{Chars(most), {}};
  normalize_pieces(tokenizer, original, pieces, scratch.chars);
  if (!pieces.chars.overflowed()) split(tokenizer, pieces, scratch);
  if (pieces.chars.overflowed()) return not_all(pieces.chars, memory);
  tokens.reserve(pieces.pieces.size());
  WordTokenizer words(tokenizer);
  for (uint32_t i = 0; i < pieces.pieces.size(); ++i) {
    const Piece& piece = pieces.pieces[i];
    if (piece.added != kNone) tokens.push_back(added_token(tokenizer, pieces.chars, piece, i));
    else words.run({pieces.chars.data() + piece.begin, piece.end - piece.begin}, i, tokens);
  }
  return tokens;
}

}  // namespace

Result<std::vector<Encoding>> encode(const Compiled& tokenizer, const Texts& texts, const EncodeOptions& options) {
  const uint64_t share = texts.second ? options.memory / 2 : options.memory;
  MLC_ASSIGN(const std::vector<Token> first, tokenize(tokenizer, texts.first, share));
  std::vector<Token> second;
  if (texts.second) {
    MLC_ASSIGN(second, tokenize(tokenizer, *texts.second, share));
  }
  return finish(tokenizer, {texts, first, second}, options);
}

Result<std::vector<Encoding>> encode_batch(const Compiled& tokenizer, std::span<const Texts> texts, const EncodeOptions& options) {
  std::vector<Encoding> all;
  EncodeOptions each = options;
  each.padding.reset();
  for (size_t i = 0; i < texts.size(); ++i) {
    auto encodings = encode(tokenizer, texts[i], each);
    if (!encodings.ok()) {
      Status why = std::move(encodings).status();
      if (texts.size() > 1) return std::move(why).note("text " + std::to_string(i + 1) + " of " + std::to_string(texts.size()));
      return why;
    }
    all.push_back(std::move(encodings->front()));
    const uint64_t taken = encoding_bytes(all.back().ids.size());
    if (taken > each.memory) return too_large(options.memory);
    each.memory -= taken;
  }
  if (options.padding) MLC_RETURN_IF_ERROR(pad(all, *options.padding, options.memory));
  return all;
}

Result<std::string> normalized(const Compiled& tokenizer, std::string_view text, uint64_t memory) {
  MLC_ASSIGN(Chars chars, decode(text, memory));
  Chars scratch(memory / kBytesPerChar);
  normalize(tokenizer, chars, scratch);
  if (chars.overflowed()) return not_all(chars, memory);
  std::string out;
  for (size_t i = 0; i < chars.size(); ++i) append_utf8(out, chars[i].code_point);
  return out;
}

}  // namespace mlc::text
