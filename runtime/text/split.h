// The steps that cut a text into words.
#pragma once

#include "runtime/text/chars.h"

namespace mlc::text {

// A text as it goes through the steps: `pieces` of `chars` in order, none of them empty.
struct Pieces {
  Chars chars;
  std::vector<Piece> pieces;
};

// Applies all steps to the pieces that are no added tokens. `scratch` has the same bound.
void split(const Compiled& tokenizer, Pieces& text, Pieces& scratch);

// Added tokens in a piece: the longest at the first place where there is one, then on behind it. What is none and the
// tokens are put behind `out`.
void cut_added(const Compiled& tokenizer, const Trie& trie, const Chars& chars, Piece piece, std::vector<Piece>& out);

}  // namespace mlc::text
