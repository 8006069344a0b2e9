// From a word to tokens.
#pragma once

#include "runtime/text/chars.h"

namespace mlc::text {

// Keeps what it needs from word to word. One thread at a time.
class WordTokenizer {
 public:
  explicit WordTokenizer(const Compiled& tokenizer);

  // Puts the tokens of the word behind `out`, which has room for one for each byte of it.
  void run(std::span<const Char> word, uint32_t number, std::vector<Token>& out);

 private:
  // A symbol of BPE: a run of bytes of the word. None of them: `length` is 0. The neighbours are those of a long run.
  struct Symbol {
    uint32_t id, length, previous, next;
  };
  struct Candidate {
    uint32_t rank, at, result;
  };

  // The best way to a place in the word, whose last token began at `begin`. None yet: kNone.
  struct PathEnd {
    double score = 0;
    uint32_t id = 0, begin = kNone;
  };

  void word_piece(std::span<const Char> word, uint32_t number, std::vector<Token>& out);
  void word_level(std::span<const Char> word, uint32_t number, std::vector<Token>& out);
  void unigram(std::span<const Char> word, uint32_t number, std::vector<Token>& out);
  void best_paths(std::span<const Char> word);
  void put_unigram(std::span<const Char> word, uint32_t begin, uint32_t end, uint32_t number, std::vector<Token>& out);
  void bpe(std::span<const Char> word, uint32_t number, std::vector<Token>& out);
  void spell(std::span<const Char> word);
  bool whole_word(std::span<const Char> word, uint32_t number, std::vector<Token>& out);
  void first_symbols(std::span<const Char> word);
  bool byte_symbols(std::string_view text);
  void add_symbol(uint32_t id, uint32_t length);
  static constexpr uint32_t kShortRun = 24;  // of symbols
  void merge_symbols();
  void merge_short_run(uint32_t begin, uint32_t end);
  void merge_long_run(uint32_t begin, uint32_t end);
  void offer(uint32_t at);
  void push(uint32_t id, const Char& first, const Char& last, uint32_t number, std::vector<Token>& out) const;

  const Compiled& tokenizer_;
  uint32_t continuing_;                  // where tokens begin in the trie that do not begin a word
  std::vector<char> bytes_;              // of the word
  std::vector<uint32_t> char_of_byte_;
  std::vector<uint32_t> byte_of_char_;  // one more than there are
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
  std::vector<PathEnd> ends_;
  std::vector<uint32_t> starts_;
};

}  // namespace mlc::text
