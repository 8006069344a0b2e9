#include "runtime/text/encode.h"

#include "runtime/text/finish.h"
#include "runtime/text/workspace.h"
#include "schema/text/normalized.h"

namespace mlc::text {
namespace {

// Cuts added tokens out of the text, normalises what stands between, cuts again.
void normalize_pieces(const Compiled& tokenizer, uint64_t most, Workspace& w) {
  Chars& out = w.pieces.chars;
  w.raw.clear(), w.pieces.pieces.clear();
  w.added.cut(tokenizer, tokenizer.added_trie(), w.original, {0, static_cast<uint32_t>(w.original.size())}, w.raw);
  w.part.reset(most), w.normalizer.scratch.reset(most), out.reset(most);
  w.part.reserve(w.original.size()), out.reserve(w.original.size());
  for (const Piece& piece : w.raw) {
    w.part.clear();
    w.part.add(std::span(w.original.data() + piece.begin, piece.end - piece.begin));
    if (piece.added == kNone) normalize(tokenizer, w.part, w.normalizer);
    const auto begin = static_cast<uint32_t>(out.size());
    out.add(std::span(w.part.data(), w.part.size()));
    if (w.part.gave_up()) out.give_up();
    if (w.part.overflowed()) out.overflow();
    if (out.overflowed()) return;
    const Piece placed{begin, static_cast<uint32_t>(out.size()), piece.added};
    if (placed.begin == placed.end) continue;
    if (piece.added != kNone) w.pieces.pieces.push_back(placed);
    else w.normalized.cut(tokenizer, tokenizer.normalized_trie(), out, placed, w.pieces.pieces);
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

Status tokenize(const Compiled& tokenizer, std::string_view text, uint64_t memory, Workspace& w, std::vector<Token>& tokens) {
  tokens.clear();
  MLC_RETURN_IF_ERROR(read_text(text, memory, w.original));
  if (w.original.size() == 0) return ok();
  const uint64_t most = memory / kBytesPerChar;
  normalize_pieces(tokenizer, most, w);
  w.splitter.scratch.chars.reset(most);
  if (!w.pieces.chars.overflowed()) split(tokenizer, w.pieces, w.splitter);
  if (w.pieces.chars.overflowed()) return overflow_of(w.pieces.chars, memory);
  tokens.reserve(w.pieces.pieces.size());
  WordTokenizer words(tokenizer, w.words);
  const Chars& chars = w.pieces.chars;
  for (uint32_t i = 0; i < w.pieces.pieces.size(); ++i) {
    const Piece& piece = w.pieces.pieces[i];
    if (piece.added != kNone) tokens.push_back(added_token(tokenizer, chars, piece, i));
    else words.run({chars.data() + piece.begin, piece.end - piece.begin}, i, tokens);
  }
  return ok();
}

Result<std::vector<Encoding>> encode_in(const Compiled& tokenizer, const Texts& texts, const EncodeOptions& options, Workspace& w) {
  const uint64_t share = texts.second ? options.memory / 2 : options.memory;
  MLC_RETURN_IF_ERROR(tokenize(tokenizer, texts.first, share, w, w.tokens[0]));
  w.tokens[1].clear();
  if (texts.second) MLC_RETURN_IF_ERROR(tokenize(tokenizer, *texts.second, share, w, w.tokens[1]));
  return finish(tokenizer, {texts, w.tokens[0], w.tokens[1]}, options);
}

Result<std::vector<Encoding>> encode_all(const Compiled& tokenizer, std::span<const Texts> texts, const EncodeOptions& options, Workspace& w,
                                         std::vector<uint32_t>* text_of) {
  std::vector<Encoding> all;
  EncodeOptions each = options;
  each.padding.reset();
  for (size_t i = 0; i < texts.size(); ++i) {
    auto encodings = encode_in(tokenizer, texts[i], each, w);
    if (!encodings.ok()) {
      Status why = std::move(encodings).status();
      if (texts.size() > 1) return std::move(why).note("text " + std::to_string(i + 1) + " of " + std::to_string(texts.size()));
      return why;
    }
    if (!text_of) encodings->resize(1);
    for (Encoding& e : *encodings) {
      if (text_of && options.truncation && e.ids.size() > options.truncation->max_length)
        return Status(Code::Usage, "the length is {}, which leaves no token of a text for its parts", options.truncation->max_length);
      const uint64_t taken = encoding_bytes(e.ids.size()) + sizeof(uint32_t);
      if (taken > each.memory) return text_too_large(options.memory);
      each.memory -= taken;
      all.push_back(std::move(e));
      if (text_of) text_of->push_back(static_cast<uint32_t>(i));
    }
  }
  if (options.padding) MLC_RETURN_IF_ERROR(pad(all, *options.padding, options.memory));
  return all;
}

}  // namespace

Result<std::vector<Encoding>> encode(const Compiled& tokenizer, const Texts& texts, const EncodeOptions& options) {
  Workspace& w = workspace_of(tokenizer);
  auto encodings = encode_in(tokenizer, texts, options, w);
  return put_back(w), std::move(encodings);
}

Result<std::vector<Encoding>> encode_batch(const Compiled& tokenizer, std::span<const Texts> texts, const EncodeOptions& options,
                                           std::vector<uint32_t>* text_of) {
  Workspace& w = workspace_of(tokenizer);
  auto encodings = encode_all(tokenizer, texts, options, w, text_of);
  return put_back(w), std::move(encodings);
}

}  // namespace mlc::text
