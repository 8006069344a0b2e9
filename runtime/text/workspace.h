// What a thread keeps between texts: tables of a tokenizer that are made once, words that came before, and memory.
#pragma once

#include "runtime/text/models.h"
#include "runtime/text/split.h"

namespace mlc::text {

struct Workspace {
  explicit Workspace(const Compiled& of)
      : tokenizer(of.number()), added(of.added_trie()), normalized(of.normalized_trie()), normalizer(of), splitter(of) {}

  const uint64_t tokenizer;  // Compiled::number; the tokenizer itself may be gone
  const AddedTokens added, normalized;
  NormalizerSpace normalizer;
  SplitterSpace splitter;
  WordSpace words;
  Chars original, part;
  std::vector<Piece> raw;
  Pieces pieces;
  std::vector<Token> tokens[2];  // of the first and of the second text
};

// That of this thread, until the next call of it for another tokenizer. Of the tokenizers that a thread had last four keep theirs.
Workspace& workspace_of(const Compiled& tokenizer);
// Gives its memory back if texts have made it large.
void put_back(Workspace& workspace);

}  // namespace mlc::text
