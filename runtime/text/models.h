// From a word to tokens.
#pragma once

#include <array>

#include "runtime/text/word_cache.h"
#include "schema/text/chars.h"

namespace mlc::text {

// What making words to tokens needs, kept from text to text of one tokenizer. One thread at a time.
struct WordSpace {
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
  // The token of a single code point, or kNone.
  struct Letter {
    uint32_t code_point = kNone, id = kNone;
  };

  WordCache cache;
  std::array<Letter, 256> letters;
  std::vector<WordToken> tokens;  // of the word
  std::vector<char> bytes;        // of the word
  std::vector<uint32_t> char_of_byte;
  std::vector<uint32_t> byte_of_char;  // one more than there are
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  std::vector<PathEnd> ends;
  std::vector<uint32_t> starts;
};

class WordTokenizer {
 public:
  // Both outlive it.
  WordTokenizer(const Compiled& tokenizer, WordSpace& space);

  // Puts the tokens of the word behind `out`.
  void run(std::span<const Char> word, uint32_t number, std::vector<Token>& out);

 private:
  using Word = std::span<const Char>;

  void run_whole(Word word, uint32_t number, std::vector<Token>& out);
  bool splits_words() const;
  void model(Word word);
  void word_piece(Word word);
  void word_level(Word word);
  void unigram(Word word);
  void best_paths(Word word);
  void put_unknown(uint32_t begin, uint32_t end);
  void bpe(Word word);
  void spell(Word word);
  bool whole_word(Word word);
  uint32_t letter(uint32_t code_point);
  void first_symbols(Word word);
  bool byte_symbols(std::string_view text);
  void add_symbol(uint32_t id, uint32_t length);
  static constexpr uint32_t kShortRun = 24;  // of symbols
  void merge_symbols();
  void merge_short_run(uint32_t begin, uint32_t end);
  void merge_long_run(uint32_t begin, uint32_t end);
  void offer(uint32_t at);
  void put(uint32_t id, uint32_t first, uint32_t last);
  void put_all(uint32_t id, Word word) { put(id, 0, static_cast<uint32_t>(word.size()) - 1); }

  const Compiled& tokenizer_;
  WordSpace& space_;
  const uint32_t continuing_;  // where tokens begin in the trie that do not begin a word
  const bool decorated_;       // BPE: letters are spelled otherwise inside of words, or at their ends
};

}  // namespace mlc::text
