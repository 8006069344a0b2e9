#include "runtime/text/models.h"

#include <algorithm>
#include <string>

#include "base/text/text.h"

namespace mlc::text {

WordTokenizer::WordTokenizer(const Compiled& tokenizer, WordSpace& space)
    : tokenizer_(tokenizer), space_(space), continuing_(tokenizer.trie().walk(Trie::kRoot, tokenizer.text(tokenizer.options().continuing))),
      decorated_(tokenizer.options().continuing.length != 0 || tokenizer.options().word_end.length != 0) {}

// Whether a word of BPE is the same as its parts between letters that no merge joins. What is dropped moves the offsets of
// what follows in the word, and a word may be a token that no merges make.
bool WordTokenizer::splits_words() const {
  const Options& options = tokenizer_.options();
  return options.model == Model::Bpe && options.unknown != kNone && !decorated_ && !(options.flags & kIgnoreMerges);
}

void WordTokenizer::run(Word word, uint32_t number, std::vector<Token>& out) {
  if (word.size() <= WordCache::kMostBytes / 2 || !splits_words()) return run_whole(word, number, out);
  uint32_t begin = 0, before = letter(word[0].code_point);
  for (uint32_t i = 1; i < word.size(); ++i) {
    const uint32_t next = letter(word[i].code_point);
    if (before != kNone && next != kNone && !tokenizer_.may_join(before, next)) {
      run_whole(word.subspan(begin, i - begin), number, out);
      begin = i;
    }
    before = next;
  }
  run_whole(word.subspan(begin), number, out);
}

void WordTokenizer::run_whole(Word word, uint32_t number, std::vector<Token>& out) {
  WordCache::Key key;
  const bool is_short = key.assign(word);
  if (is_short && space_.cache.find(key, word, number, out)) return;
  space_.tokens.clear();
  model(word);
  for (const WordToken& t : space_.tokens) out.push_back({t.id, word[t.first].begin, word[t.last].end, number, t.lead, t.trail});
  if (is_short) space_.cache.keep(key, space_.tokens);
}

void WordTokenizer::model(Word word) {
  switch (tokenizer_.options().model) {
    case Model::WordPiece: return word_piece(word);
    case Model::Bpe: return bpe(word);
    case Model::WordLevel: return word_level(word);
    case Model::Unigram: return unigram(word);
  }
}

void WordTokenizer::put(uint32_t id, uint32_t first, uint32_t last) {
  WordToken token{id, first, last, 0, 0};
  if (std::string_view text; (tokenizer_.options().flags & kTrimOffsets) && tokenizer_.token(id, text)) {
    uint32_t count = 0;
    uint16_t spaces = 0;
    for (size_t at = 0; at < text.size(); ++count) {
      uint32_t c = 0;
      const unsigned size = decode_utf8(text, at, c);
      const bool blank = size != 0 && (c == code_point_of_byte(' ') || (tokenizer_.class_of(c) & kSpace));
      spaces = static_cast<uint16_t>(blank ? spaces + 1 : 0);
      if (spaces == count + 1) token.lead = spaces;
      at += size == 0 ? 1 : size;
    }
    token.trail = spaces;
  }
  space_.tokens.push_back(token);
}

// The longest token that the rest of the word begins with, again and again; if there is none once, all of it is unknown.
void WordTokenizer::word_piece(Word word) {
  const uint32_t unknown = tokenizer_.options().unknown;
  const Trie& trie = tokenizer_.trie();
  const auto size = static_cast<uint32_t>(word.size());
  if (size > tokenizer_.options().max_word_chars || trie.empty()) return put_all(unknown, word);
  for (uint32_t begin = 0; begin < size;) {
    uint32_t state = begin == 0 ? Trie::kRoot : continuing_;
    uint32_t found = kNone, end = begin;
    for (uint32_t i = begin; i < size && state != kNone; ++i) {
      uint8_t bytes[4];
      const uint32_t count = encode_utf8(word[i].code_point, bytes);
      for (uint32_t b = 0; b < count && state != kNone; ++b) state = trie.step(state, bytes[b]);
      if (state != kNone && trie.value(state) != 0) found = trie.value(state) - 1, end = i + 1;
    }
    if (found == kNone) {
      space_.tokens.clear();
      return put_all(unknown, word);
    }
    put(found, begin, end - 1);
    begin = end;
  }
}

void WordTokenizer::spell(Word word) {
  space_.bytes.clear(), space_.char_of_byte.clear(), space_.byte_of_char.clear();
  for (uint32_t i = 0; i < word.size(); ++i) {
    uint8_t bytes[4];
    const uint32_t count = encode_utf8(word[i].code_point, bytes);
    space_.byte_of_char.push_back(static_cast<uint32_t>(space_.bytes.size()));
    for (uint32_t b = 0; b < count; ++b) space_.bytes.push_back(static_cast<char>(bytes[b])), space_.char_of_byte.push_back(i);
  }
  space_.byte_of_char.push_back(static_cast<uint32_t>(space_.bytes.size()));
}

bool WordTokenizer::whole_word(Word word) {
  const uint32_t id = tokenizer_.trie().find({space_.bytes.data(), space_.bytes.size()});
  if (id == kNone) return false;
  put_all(id, word);
  return true;
}

void WordTokenizer::word_level(Word word) {
  spell(word);
  if (!whole_word(word) && tokenizer_.options().unknown != kNone) put_all(tokenizer_.options().unknown, word);
}

uint32_t WordTokenizer::letter(uint32_t code_point) {
  WordSpace::Letter& known = space_.letters[code_point & 255];
  if (known.code_point == code_point) return known.id;
  uint8_t bytes[4];
  const uint32_t count = encode_utf8(code_point, bytes);
  known = {code_point, tokenizer_.trie().find({reinterpret_cast<const char*>(bytes), count})};
  return known.id;
}

void WordTokenizer::add_symbol(uint32_t id, uint32_t length) {
  space_.symbols.push_back({id, length, kNone, kNone});
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
void WordTokenizer::first_symbols(Word word) {
  const Options& options = tokenizer_.options();
  const std::string_view prefix = tokenizer_.text(options.continuing), suffix = tokenizer_.text(options.word_end);
  space_.symbols.clear();
  uint32_t unknown = 0;  // bytes
  std::string decorated;
  for (size_t i = 0; i < word.size(); ++i) {
    const uint32_t begin = space_.byte_of_char[i], length = space_.byte_of_char[i + 1] - begin;
    std::string_view text(space_.bytes.data() + begin, length);
    if ((i > 0 && !prefix.empty()) || (i + 1 == word.size() && !suffix.empty())) {
      decorated.assign(i > 0 ? prefix : std::string_view());
      decorated.append(text);
      if (i + 1 == word.size()) decorated.append(suffix);
      text = decorated;
    }
    if (const uint32_t id = !decorated_ ? letter(word[i].code_point) : tokenizer_.trie().find(text); id != kNone) {
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
  WordSpace::Candidate candidate{0, at, 0};
  const uint32_t next = space_.symbols[at].next;
  if (next == kNone || !tokenizer_.merge(space_.symbols[at].id, space_.symbols[next].id, candidate.rank, candidate.result)) return;
  space_.heap.push_back(candidate);
}

// The pair of lowest rank is merged, of equal ones the first, until no pair is known. Runs between which nothing can be merged are
// looked at one by one: most are short, and what merges they have is found soonest by looking at all of them again.
void WordTokenizer::merge_symbols() {
  const auto size = static_cast<uint32_t>(space_.symbols.size());
  for (uint32_t begin = 0; begin < size;) {
    uint32_t end = begin + 1;
    while (end < size && tokenizer_.may_join(space_.symbols[end - 1].id, space_.symbols[end].id)) ++end;
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
    if (!tokenizer_.merge(space_.symbols[at[i]].id, space_.symbols[at[i + 1]].id, pairs[i].rank, pairs[i].result)) pairs[i] = {kNone, kNone};
  };
  for (uint32_t i = 0; i < count; ++i) at[i] = begin + i;
  for (uint32_t i = 0; i + 1 < count; ++i) look(i);
  while (count > 1) {
    uint32_t best = 0;
    for (uint32_t i = 1; i + 1 < count; ++i)
      if (pairs[i].rank < pairs[best].rank) best = i;
    if (pairs[best].result == kNone) return;
    WordSpace::Symbol &left = space_.symbols[at[best]], &right = space_.symbols[at[best + 1]];
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
  const auto later = [](const WordSpace::Candidate& a, const WordSpace::Candidate& b) { return a.rank != b.rank ? a.rank > b.rank : a.at > b.at; };
  space_.heap.clear();
  for (uint32_t i = begin; i < end; ++i) space_.symbols[i].previous = i == begin ? kNone : i - 1, space_.symbols[i].next = i + 1 == end ? kNone : i + 1;
  for (uint32_t i = begin; i < end; ++i) offer(i);
  std::make_heap(space_.heap.begin(), space_.heap.end(), later);
  const auto offer_again = [&](uint32_t at) {
    const size_t before = space_.heap.size();
    offer(at);
    if (space_.heap.size() > before) std::push_heap(space_.heap.begin(), space_.heap.end(), later);
  };
  while (!space_.heap.empty()) {
    std::pop_heap(space_.heap.begin(), space_.heap.end(), later);
    const WordSpace::Candidate top = space_.heap.back();
    space_.heap.pop_back();
    WordSpace::Symbol& left = space_.symbols[top.at];
    if (left.length == 0 || left.next == kNone) continue;
    WordSpace::Symbol& right = space_.symbols[left.next];
    uint32_t rank = 0, result = 0;
    if (!tokenizer_.merge(left.id, right.id, rank, result) || result != top.result) continue;
    left.id = top.result, left.length += right.length, left.next = right.next;
    right.length = 0;
    if (left.next != kNone) space_.symbols[left.next].previous = top.at;
    if (left.previous != kNone) offer_again(left.previous);
    offer_again(top.at);
  }
}

void WordTokenizer::bpe(Word word) {
  spell(word);
  if ((tokenizer_.options().flags & kIgnoreMerges) && whole_word(word)) return;
  first_symbols(word);
  merge_symbols();
  uint32_t at = 0;
  for (const WordSpace::Symbol& symbol : space_.symbols) {
    if (symbol.length == 0) continue;
    const uint32_t last = std::min<uint32_t>(at + symbol.length, static_cast<uint32_t>(space_.bytes.size())) - 1;
    put(symbol.id, space_.char_of_byte[std::min(at, last)], space_.char_of_byte[last]);
    at += symbol.length;
  }
}

// Of all ways to make the word of tokens the one of the highest sum of scores, of equal ones the one found first. What no
// token begins with is unknown, for 10 less than the lowest score.
void WordTokenizer::best_paths(Word word) {
  const Trie& trie = tokenizer_.trie();
  const auto size = static_cast<uint32_t>(word.size());
  const bool single = (tokenizer_.options().flags & kSinglePrecision) != 0;
  space_.ends.assign(size + 1, {});
  const auto offer = [&](uint32_t begin, uint32_t end, double score, uint32_t id) {
    WordSpace::PathEnd& to = space_.ends[end];
    double sum = score + space_.ends[begin].score;
    if (single) sum = static_cast<float>(sum);
    if (to.begin == kNone || sum > to.score) to = {sum, id, begin};
  };
  const auto* bytes = reinterpret_cast<const uint8_t*>(space_.bytes.data());
  const auto num_bytes = static_cast<uint32_t>(space_.bytes.size());
  for (uint32_t begin = 0; begin < size; ++begin) {
    bool alone = false;
    uint32_t state = trie.empty() ? kNone : Trie::kRoot, end = begin;
    const uint32_t stop = space_.byte_of_char[begin + std::min(size - begin, kMaxTokenLen)];
    for (uint32_t at = space_.byte_of_char[begin]; at < stop; ++at) {
      if ((state = trie.step(state, bytes[at])) == kNone) break;
      if (at + 1 < num_bytes && (bytes[at + 1] & 0xC0) == 0x80) continue;  // inside of a code point
      ++end;
      if (trie.value(state) == 0) continue;
      const uint32_t id = trie.value(state) - 1;
      offer(begin, end, tokenizer_.score(id), id);
      alone |= end == begin + 1;
    }
    if (!alone) offer(begin, begin + 1, tokenizer_.unknown_score(), tokenizer_.options().unknown);
  }
}

// Several unknown ones in a row.
void WordTokenizer::put_unknown(uint32_t begin, uint32_t end) {
  const std::string_view text(space_.bytes.data() + space_.byte_of_char[begin], space_.byte_of_char[end] - space_.byte_of_char[begin]);
  if (const uint32_t id = tokenizer_.trie().find(text); id != kNone) return put(id, begin, end - 1);
  if (tokenizer_.options().flags & kByteFallback) {
    const size_t before = space_.tokens.size();
    for (size_t i = 0; i < text.size(); ++i) {
      const uint32_t id = tokenizer_.byte_token(static_cast<uint8_t>(text[i]));
      if (id == kNone) {
        space_.tokens.resize(before);
        break;
      }
      put(id, begin, end - 1);
    }
    if (space_.tokens.size() > before) return;
  }
  put(tokenizer_.options().unknown, begin, end - 1);
}

void WordTokenizer::unigram(Word word) {
  spell(word);
  best_paths(word);
  const uint32_t unknown = tokenizer_.options().unknown;
  // From the end: where each token begins, unknown ones in a row as one.
  space_.starts.clear();
  bool was_unknown = false;
  for (auto at = static_cast<uint32_t>(word.size()); at > 0;) {
    const WordSpace::PathEnd& end = space_.ends[at];
    const bool is_unknown = end.id == unknown;
    if (is_unknown && was_unknown) space_.starts.back() = end.begin;
    else space_.starts.push_back(end.begin);
    was_unknown = is_unknown;
    at = end.begin;
  }
  for (size_t i = space_.starts.size(); i-- > 0;) {
    const uint32_t begin = space_.starts[i], end = i == 0 ? static_cast<uint32_t>(word.size()) : space_.starts[i - 1];
    if (const uint32_t id = space_.ends[end].id; id != unknown) put(id, begin, end - 1);
    else put_unknown(begin, end);
  }
}

}  // namespace mlc::text
