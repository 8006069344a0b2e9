// The steps that cut a text into words.
#pragma once

#include "schema/text/normalize.h"

namespace mlc::text {

// A text as it goes through the steps: `pieces` of `chars` in order, none of them empty.
struct Pieces {
  Chars chars;
  std::vector<Piece> pieces;
};

// A part of a piece: what a step looks for, or what stands between.
struct Match {
  uint32_t begin, end;
  bool is;
};

// What splitting needs, kept from text to text of one tokenizer.
struct SplitterSpace {
  explicit SplitterSpace(const Compiled& tokenizer) : texts(step_texts(tokenizer, tokenizer.splitter())) {}
  StepTexts texts;
  Pieces scratch;
  std::vector<Match> matches;
  PatternSpace pattern;
};

// Applies all steps to the pieces that are no added tokens. The space's scratch has the same bound.
void split(const Compiled& tokenizer, Pieces& text, SplitterSpace& space);

// The added tokens of a trie, and with which byte they begin.
class AddedTokens {
 public:
  explicit AddedTokens(const Trie& trie);
  // Those in a piece: the longest at the first place where there is one, then on behind it. What is none and the tokens are
  // put behind `out`. `trie` is that of the constructor.
  void cut(const Compiled& tokenizer, const Trie& trie, const Chars& chars, Piece piece, std::vector<Piece>& out) const;

 private:
  std::array<bool, 256> begin_{};
};

}  // namespace mlc::text
