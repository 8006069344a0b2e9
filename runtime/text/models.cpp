#include "runtime/text/models.h"

#include <algorithm>
#include <string>

#include "base/text.h"
#include "runtime/text/normalize.h"

namespace mlc::text {

WordTokenizer::WordTokenizer(const Compiled& tokenizer)
    : tokenizer_(tokenizer), continuing_(tokenizer.trie().walk(Trie::kRoot, tokenizer.text(tokenizer.options().continuing))) {}

void WordTokenizer::run(std::span<const Char> word, uint32_t number, std::vector<Token>& out) {
  switch (tokenizer_.options().model) {
    case Model::WordPiece: return word_piece(word, number, out);
    case Model::Bpe: return bpe(word, number, out);
    case Model::WordLevel: return word_level(word, number, out);
    case Model::Unigram: return unigram(word, number, out);
  }
}

void WordTokenizer::push(uint32_t id, const Char& first, const Char& last, uint32_t number, std::vector<Token>& out) const {
  Token token{id, first.begin, last.end, number, 0, 0};
  if (std::string_view text; (tokenizer_.options().flags & kTrimOffsets) && tokenizer_.token(id, text)) {
    uint32_t count = 0, spaces = 0;
    for (size_t at = 0; at < text.size(); ++count) {
      uint32_t c = 0;
      const unsigned size = decode_utf8(text, at, c);
      const bool blank = size != 0 && (c == code_point_of_byte(' ') || (tokenizer_.class_of(c) & kSpace));
      spaces = blank ? spaces + 1 : 0;
      if (spaces == count + 1) token.lead = spaces;
      at += size == 0 ? 1 : size;
    }
    token.trail = spaces;
  }
  out.push_back(token);
}

// The longest token that the rest of the word begins with, again and again; if there is none once, all of it is unknown.
void WordTokenizer::word_piece(std::span<const Char> word, uint32_t number, std::vector<Token>& out) {
  const uint32_t unknown = tokenizer_.options().unknown;
  const Trie& trie = tokenizer_.trie();
  if (word.size() > tokenizer_.options().max_word_chars || trie.empty()) return push(unknown, word.front(), word.back(), number, out);
  const size_t before = out.size();
  for (size_t begin = 0; begin < word.size();) {
    uint32_t state = begin == 0 ? Trie::kRoot : continuing_;
    uint32_t found = kNone;
    size_t end = begin;
    for (size_t i = begin; i < word.size() && state != kNone; ++i) {
      uint8_t bytes[4];
      const uint32_t count = encode_utf8(word[i].code_point, bytes);
      for (uint32_t b = 0; b < count && state != kNone; ++b) state = trie.step(state, bytes[b]);
      if (state != kNone && trie.value(state) != 0) found = trie.value(state) - 1, end = i + 1;
    }
    if (found == kNone) {
      out.resize(before);
      return push(unknown, word.front(), word.back(), number, out);
    }
    push(found, word[begin], word[end - 1], number, out);
    begin = end;
  }
}

void WordTokenizer::spell(std::span<const Char> word) {
  bytes_.clear(), char_of_byte_.clear(), byte_of_char_.clear();
  for (uint32_t i = 0; i < word.size(); ++i) {
    uint8_t bytes[4];
    const uint32_t count = encode_utf8(word[i].code_point, bytes);
    byte_of_char_.push_back(static_cast<uint32_t>(bytes_.size()));
    for (uint32_t b = 0; b < count; ++b) bytes_.push_back(static_cast<char>(bytes[b])), char_of_byte_.push_back(i);
  }
  byte_of_char_.push_back(static_cast<uint32_t>(bytes_.size()));
}

bool WordTokenizer::whole_word(std::span<const Char> word, uint32_t number, std::vector<Token>& out) {
  const uint32_t id = tokenizer_.trie().find({bytes_.data(), bytes_.size()});
  if (id == kNone) return false;
  push(id, word.front(), word.back(), number, out);
  return true;
}

void WordTokenizer::word_level(std::span<const Char> word, uint32_t number, std::vector<Token>& out) {
  spell(word);
  if (!whole_word(word, number, out) && tokenizer_.options().unknown != kNone)
    push(tokenizer_.options().unknown, word.front(), word.back(), number, out);
}

void WordTokenizer::add_symbol(uint32_t id, uint32_t length) {
  symbols_.push_back({id, length, kNone, kNone});
}

bool WordTokenizer::byte_symbols(std::string_view text) {
  uint32_t ids[4 + 2 * kMaxTokenLen];
  size_t count = 0;
  for (const char c : text) {
    ids[count] = tokenizer_.byte_token(static_cast<uint8_t>(c));
    if (ids[count] == kNone) return false;
    ++count;
  }
  for (size_t i = 0; i < count; ++i) add_symbol(ids[i], 1);
  return true;
}

// One symbol for each character. What is unknown is added only when something known follows, as the reference does it:
// with bytes in between it comes behind them.
void WordTokenizer::first_symbols(std::span<const Char> word) {
  const Options& options = tokenizer_.options();
  const std::string_view prefix = tokenizer_.text(options.continuing), suffix = tokenizer_.text(options.word_end);
  symbols_.clear();
  uint32_t unknown = 0;  // bytes
  std::string decorated;
  for (size_t i = 0; i < word.size(); ++i) {
    const uint32_t begin = byte_of_char_[i], length = byte_of_char_[i + 1] - begin;
    std::string_view text(bytes_.data() + begin, length);
    if ((i > 0 && !prefix.empty()) || (i + 1 == word.size() && !suffix.empty())) {
      decorated.assign(i > 0 ? prefix : std::string_view());
      decorated.append(text);
      if (i + 1 == word.size()) decorated.append(suffix);
      text = decorated;
    }
    if (const uint32_t id = tokenizer_.trie().find(text); id != kNone) {
      if (unknown != 0) add_symbol(options.unknown, std::exchange(unknown, 0));
      add_symbol(id, length);
    } else if (!((options.flags & kByteFallback) && byte_symbols(text)) && options.unknown != kNone) {
      if (unknown != 0 && !(options.flags & kFuseUnknown)) add_symbol(options.unknown, std::exchange(unknown, 0));
      unknown += length;
    }
  }
  if (unknown != 0) add_symbol(options.unknown, unknown);
}

void WordTokenizer::offer(uint32_t at) {
  Candidate candidate{0, at, 0};
  const uint32_t next = symbols_[at].next;
  if (next == kNone || !tokenizer_.merge(symbols_[at].id, symbols_[next].id, candidate.rank, candidate.result)) return;
  heap_.push_back(candidate);
}

// The pair of lowest rank is merged, of equal ones the first, until no pair is known. Runs between which nothing can be merged are
// looked at one by one: most are short, and what merges they have is found soonest by looking at all of them again.
void WordTokenizer::merge_symbols() {
  const auto size = static_cast<uint32_t>(symbols_.size());
  for (uint32_t begin = 0; begin < size;) {
    uint32_t end = begin + 1;
    while (end < size && tokenizer_.may_join(symbols_[end - 1].id, symbols_[end].id)) ++end;
    if (end - begin > kShortRun) merge_long_run(begin, end);
    else if (end - begin > 1) merge_short_run(begin, end);
    begin = end;
  }
}

void WordTokenizer::merge_short_run(uint32_t begin, uint32_t end) {
  struct Pair {
    uint32_t rank, result;
  };
  Pair pairs[kShortRun];
  uint32_t at[kShortRun + 1];  // the symbols that are left
  uint32_t count = end - begin;
  const auto look = [&](uint32_t i) {
    if (!tokenizer_.merge(symbols_[at[i]].id, symbols_[at[i + 1]].id, pairs[i].rank, pairs[i].result)) pairs[i] = {kNone, kNone};
  };
  for (uint32_t i = 0; i < count; ++i) at[i] = begin + i;
  for (uint32_t i = 0; i + 1 < count; ++i) look(i);
  while (count > 1) {
    uint32_t best = 0;
    for (uint32_t i = 1; i + 1 < count; ++i)
      if (pairs[i].rank < pairs[best].rank) best = i;
    if (pairs[best].result == kNone) return;
    Symbol &left = symbols_[at[best]], &right = symbols_[at[best + 1]];
    left.id = pairs[best].result, left.length += right.length, right.length = 0;
    --count;
    for (uint32_t i = best + 1; i < count; ++i) at[i] = at[i + 1];
    for (uint32_t i = best + 1; i + 1 < count; ++i) pairs[i] = pairs[i + 1];
    if (best + 1 < count) look(best);
    if (best > 0) look(best - 1);
  }
}

// A heap of candidates, of which those that meanwhile are others are passed over: n log n.
void WordTokenizer::merge_long_run(uint32_t begin, uint32_t end) {
  const auto later = [](const Candidate& a, const Candidate& b) { return a.rank != b.rank ? a.rank > b.rank : a.at > b.at; };
  heap_.clear();
  for (uint32_t i = begin; i < end; ++i) symbols_[i].previous = i == begin ? kNone : i - 1, symbols_[i].next = i + 1 == end ? kNone : i + 1;
  for (uint32_t i = begin; i < end; ++i) offer(i);
  std::make_heap(heap_.begin(), heap_.end(), later);
  const auto offer_again = [&](uint32_t at) {
    const size_t before = heap_.size();
    offer(at);
    if (heap_.size() > before) std::push_heap(heap_.begin(), heap_.end(), later);
  };
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Candidate top = heap_.back();
    heap_.pop_back();
    Symbol& left = symbols_[top.at];
    if (left.length == 0 || left.next == kNone) continue;
    Symbol& right = symbols_[left.next];
    uint32_t rank = 0, result = 0;
    if (!tokenizer_.merge(left.id, right.id, rank, result) || result != top.result) continue;
    left.id = top.result, left.length += right.length, left.next = right.next;
    right.length = 0;
    if (left.next != kNone) symbols_[left.next].previous = top.at;
    if (left.previous != kNone) offer_again(left.previous);
    offer_again(top.at);
  }
}

void WordTokenizer::bpe(std::span<const Char> word, uint32_t number, std::vector<Token>& out) {
  spell(word);
  if ((tokenizer_.options().flags & kIgnoreMerges) && whole_word(word, number, out)) return;
  first_symbols(word);
  merge_symbols();
  uint32_t at = 0;
  for (const Symbol& symbol : symbols_) {
    if (symbol.length == 0) continue;
    const uint32_t last = std::min<uint32_t>(at + symbol.length, static_cast<uint32_t>(bytes_.size())) - 1;
    push(symbol.id, word[char_of_byte_[std::min(at, last)]], word[char_of_byte_[last]], number, out);
    at += symbol.length;
  }
}

// Of all ways to make the word of tokens the one of the highest sum of scores, of equal ones the one found first. What no
// token begins with is unknown, for 10 less than the lowest score.
void WordTokenizer::best_paths(std::span<const Char> word) {
  const Trie& trie = tokenizer_.trie();
  const auto size = static_cast<uint32_t>(word.size());
  const bool single = (tokenizer_.options().flags & kSinglePrecision) != 0;
  ends_.assign(size + 1, {});
  const auto offer = [&](uint32_t begin, uint32_t end, double score, uint32_t id) {
    PathEnd& to = ends_[end];
    double sum = score + ends_[begin].score;
    if (single) sum = static_cast<float>(sum);
    if (to.begin == kNone || sum > to.score) to = {sum, id, begin};
  };
  for (uint32_t begin = 0; begin < size; ++begin) {
    bool alone = false;
    uint32_t state = trie.empty() ? kNone : Trie::kRoot;
    for (uint32_t i = begin; i < size && i - begin < kMaxTokenLen && state != kNone; ++i) {
      uint8_t bytes[4];
      const uint32_t count = encode_utf8(word[i].code_point, bytes);
      for (uint32_t b = 0; b < count && state != kNone; ++b) state = trie.step(state, bytes[b]);
      if (state == kNone || trie.value(state) == 0) continue;
      const uint32_t id = trie.value(state) - 1;
      offer(begin, i + 1, tokenizer_.score(id), id);
      alone |= i == begin;
    }
    if (!alone) offer(begin, begin + 1, tokenizer_.unknown_score(), tokenizer_.options().unknown);
  }
}

// A token of the best path, or several unknown ones in a row.
void WordTokenizer::put_unigram(std::span<const Char> word, uint32_t begin, uint32_t end, uint32_t number, std::vector<Token>& out) {
  const Char &first = word[begin], &last = word[end - 1];
  const std::string_view text(bytes_.data() + byte_of_char_[begin], byte_of_char_[end] - byte_of_char_[begin]);
  if (const uint32_t id = tokenizer_.trie().find(text); id != kNone) return push(id, first, last, number, out);
  if (tokenizer_.options().flags & kByteFallback) {
    const size_t before = out.size();
    for (size_t i = 0; i < text.size(); ++i) {
      const uint32_t id = tokenizer_.byte_token(static_cast<uint8_t>(text[i]));
      if (id == kNone) {
        out.resize(before);
        break;
      }
      push(id, first, last, number, out);
    }
    if (out.size() > before) return;
  }
  push(tokenizer_.options().unknown, first, last, number, out);
}

void WordTokenizer::unigram(std::span<const Char> word, uint32_t number, std::vector<Token>& out) {
  spell(word);
  best_paths(word);
  const uint32_t unknown = tokenizer_.options().unknown;
  // From the end: where each token begins, unknown ones in a row as one.
  starts_.clear();
  bool was_unknown = false;
  for (auto at = static_cast<uint32_t>(word.size()); at > 0;) {
    const PathEnd& end = ends_[at];
    const bool is_unknown = end.id == unknown;
    if (is_unknown && was_unknown) starts_.back() = end.begin;
    else starts_.push_back(end.begin);
    was_unknown = is_unknown;
    at = end.begin;
  }
  for (size_t i = starts_.size(); i-- > 0;)
    put_unigram(word, starts_[i], i == 0 ? static_cast<uint32_t>(word.size()) : starts_[i - 1], number, out);
}

}  // namespace mlc::text
