#include "schema/text/compiled.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "base/byte_cursor.h"

static_assert(std::endian::native == std::endian::little, "the tables are read where they lie");

namespace mlc::text {
namespace {

constexpr uint32_t kSections = static_cast<uint32_t>(Section::Count);
constexpr uint32_t kHeaderWords = 4;
constexpr uint32_t kBlocks = kCodePoints >> 8;
constexpr uint64_t kMostGrowth = 1024;  // of a token while it is decoded
constexpr const char* kNames[kSections] = {"options", "text", "tokens", "trie", "merges", "scores", "added", "added trie", "normalized trie",
                                           "classes", "maps", "normalizer", "splitter", "decoder", "template", "pattern classes", "patterns",
                                           "charsmap", "charsmap trie", "byte tokens", "neighbours"};

Status malformed(Section section, const char* what) {
  return Status(Code::Malformed, "tokenizer: section '{}' {}", kNames[static_cast<uint32_t>(section)], what);
}

bool is_scalar(uint32_t c) { return c < kCodePoints && (c < 0xD800 || c > 0xDFFF); }

}  // namespace

// Reads and checks one section after the other.
class Opener {
 public:
  explicit Opener(Bytes bytes) : bytes_(bytes) {}

  Result<Compiled> open() {
    MLC_RETURN_IF_ERROR(sections());
    MLC_RETURN_IF_ERROR(options());
    MLC_RETURN_IF_ERROR(tokens());
    MLC_RETURN_IF_ERROR(added());
    MLC_RETURN_IF_ERROR(scores());
    MLC_RETURN_IF_ERROR(trie(Section::Trie, c_.options_.model == Model::Unigram ? c_.scores_.size() : c_.tokens_.size(), c_.trie_));
    MLC_RETURN_IF_ERROR(trie(Section::AddedTrie, c_.added_.size(), c_.added_trie_));
    MLC_RETURN_IF_ERROR(trie(Section::NormalizedTrie, c_.added_.size(), c_.normalized_trie_));
    MLC_RETURN_IF_ERROR(merges());
    MLC_RETURN_IF_ERROR(classes());
    MLC_RETURN_IF_ERROR(maps());
    MLC_RETURN_IF_ERROR(patterns());
    MLC_RETURN_IF_ERROR(charsmap());
    MLC_RETURN_IF_ERROR(byte_tokens());
    MLC_RETURN_IF_ERROR(steps(Section::Normalizer, StepKind::Remove, StepKind::Bytes, c_.normalizer_));
    MLC_RETURN_IF_ERROR(steps(Section::Splitter, StepKind::Replace, StepKind::PrependMissing, c_.splitter_));
    MLC_RETURN_IF_ERROR(steps(Section::Decoder, StepKind::PieceWords, StepKind::FrontStrip, c_.decoder_));
    MLC_RETURN_IF_ERROR(pieces());
    static std::atomic<uint64_t> opened = 0;
    c_.number_ = ++opened;
    return std::move(c_);
  }

 private:
  Bytes section(Section s) const { return sections_[static_cast<uint32_t>(s)]; }
  bool holds_text(TextRef ref) const { return range_within(ref.offset, ref.length, c_.texts_.size()); }
  bool is_id(uint32_t id) const {
    std::string_view unused;
    return c_.token(id, unused);
  }

  Status sections() {
    if (bytes_.size() > kMaxCompiledLen)
      return Status(Code::Malformed, "tokenizer: it has {} bytes, at most {} are read", uint64_t{bytes_.size()}, kMaxCompiledLen);
    ByteCursor cursor(bytes_);
    const auto magic = cursor.take<uint32_t>();
    const auto version = cursor.take<uint32_t>();
    const auto count = cursor.take<uint32_t>();
    cursor.skip_zeros(4);
    if (cursor.failed() || magic != kMagic) return Status(Code::Malformed, "tokenizer: these bytes are no compiled tokenizer");
    if (version != kVersion)
      return Status(Code::Malformed, "tokenizer: its version is {}, this program reads version {}", version, kVersion);
    if (count != kSections) return Status(Code::Malformed, "tokenizer: it has {} sections, expected {}", count, kSections);
    uint64_t end = 4 * (kHeaderWords + 2 * uint64_t{kSections});
    for (uint32_t i = 0; i < kSections; ++i) {
      const uint64_t offset = cursor.take<uint32_t>(), length = cursor.take<uint32_t>();
      if (cursor.failed() || offset != (end + 3) / 4 * 4 || !range_within(offset, length, bytes_.size()))
        return malformed(Section{i}, "lies outside of the bytes or not behind the one before");
      sections_[i] = bytes_.subspan(offset, length);
      end = offset + length;
    }
    if (end != bytes_.size()) return Status(Code::Malformed, "tokenizer: {} bytes follow its last section", bytes_.size() - end);
    return ok();
  }

  template <class T>
  Status table(Section s, uint64_t at_most, Table<T>& out) const {
    const Bytes bytes = section(s);
    if (bytes.size() % sizeof(T) != 0) return malformed(s, "ends within an item");
    if (bytes.size() / sizeof(T) > at_most)
      return Status(Code::Malformed, "tokenizer: section '{}' has {} items, at most {} are read", kNames[static_cast<uint32_t>(s)],
                    uint64_t{bytes.size() / sizeof(T)}, at_most);
    out = Table<T>(bytes);
    return ok();
  }

  Status options() {
    const Bytes bytes = section(Section::Options);
    if (bytes.size() != sizeof(Options)) return malformed(Section::Options, "has another size");
    std::memcpy(&c_.options_, bytes.data(), sizeof(Options));
    const Bytes texts = section(Section::Text);
    c_.texts_ = {reinterpret_cast<const char*>(texts.data()), texts.size()};
    if (c_.options_.model > Model::WordLevel)
      return malformed(Section::Options, "names a model that this program does not know");
    if (!holds_text(c_.options_.continuing) || !holds_text(c_.options_.word_end) || c_.options_.continuing.length > kMaxTokenLen ||
        c_.options_.word_end.length > kMaxTokenLen)
      return malformed(Section::Options, "names a text outside of the texts or longer than a token may be");
    if (c_.options_.model == Model::WordPiece && (c_.options_.max_word_chars == 0 || c_.options_.max_word_chars > kMaxTokenLen))
      return malformed(Section::Options, "has a length of words outside of 1 to 1,024");
    return ok();
  }

  Status tokens() {
    MLC_RETURN_IF_ERROR(table(Section::Tokens, kMaxTokenIds, c_.tokens_));
    for (uint32_t i = 0; i < c_.tokens_.size(); ++i) {
      const TextRef ref = c_.tokens_[i];
      if (ref.offset == kNone ? ref.length != 0 : !holds_text(ref) || ref.length > kMaxTokenLen)
        return Status(Code::Malformed, "tokenizer: token {} lies outside of the texts or has more than {} bytes", i, kMaxTokenLen);
    }
    const uint32_t unknown = c_.options_.unknown;
    if (unknown == kNone ? c_.options_.model == Model::WordPiece || c_.options_.model == Model::Unigram : !is_id(unknown))
      return malformed(Section::Options, "has no token for what is unknown");
    return ok();
  }

  Status scores() {
    MLC_RETURN_IF_ERROR(table(Section::Scores, c_.tokens_.size(), c_.scores_));
    if (c_.options_.model != Model::Unigram) return ok();
    if (c_.options_.unknown >= c_.scores_.size()) return malformed(Section::Scores, "has none of what is unknown");
    for (uint32_t i = 0; i < c_.scores_.size(); ++i) {
      if (!(c_.scores_[i] >= -1e30 && c_.scores_[i] <= 1e30)) return malformed(Section::Scores, "has what is no number up to 1e30");
      c_.lowest_score_ = i == 0 ? c_.scores_[i] : std::min(c_.lowest_score_, c_.scores_[i]);
    }
    return ok();
  }

  Status added() {
    MLC_RETURN_IF_ERROR(table(Section::Added, kMaxTokenIds, c_.added_));
    for (uint32_t i = 0; i < c_.added_.size(); ++i) {
      const Added added = c_.added_[i];
      if (!is_id(added.id) || !holds_text(added.content) || added.content.length > kMaxTokenLen || added.flags > 31)
        return malformed(Section::Added, "has a token without an id or text");
      if (i > 0 && c_.added_[i - 1].id >= added.id) return malformed(Section::Added, "is not sorted by id");
    }
    return ok();
  }

  // That each base stays inside whatever byte is asked follows from blocks of 256.
  Status trie(Section s, uint32_t values, Trie& out) const {
    Table<TrieUnit> units;
    MLC_RETURN_IF_ERROR(table(s, kMaxCompiledLen, units));
    if (units.size() % 256 != 0) return malformed(s, "does not consist of whole blocks");
    for (uint32_t i = 0; i < units.size(); ++i) {
      const TrieUnit unit = units[i];
      if (unit.base >= units.size() || unit.value > values) return malformed(s, "leads outside of itself");
    }
    out = Trie(section(s));
    return ok();
  }

  Status merges() {
    MLC_RETURN_IF_ERROR(table(Section::Merges, uint64_t{kMaxTokenIds} * 4, c_.merges_));
    const uint32_t size = c_.merges_.size();
    if (size != 0 && !std::has_single_bit(size)) return malformed(Section::Merges, "has a size that is no power of two");
    for (uint32_t i = 0; i < size; ++i) {
      const Merge merge = c_.merges_[i];
      if (merge.left != kNone && !is_id(merge.result)) return malformed(Section::Merges, "makes an id that is no token");
    }
    MLC_RETURN_IF_ERROR(table(Section::Neighbours, kMaxTokenIds, c_.neighbours_));
    if (const uint32_t words = c_.neighbours_.size(); words != 0 && !std::has_single_bit(words))
      return malformed(Section::Neighbours, "has a size that is no power of two");
    return ok();
  }

  Status classes() { return blocks(Section::Classes, c_.class_index_, c_.class_blocks_); }

  // For each 256 code points the block, then the blocks.
  Status blocks(Section s, Table<uint16_t>& index, Table<uint16_t>& content) const {
    const Bytes bytes = section(s);
    const size_t index_len = kBlocks * sizeof(uint16_t);
    if (bytes.size() < index_len || (bytes.size() - index_len) % 512 != 0) return malformed(s, "has another size");
    index = Table<uint16_t>(bytes.first(index_len));
    content = Table<uint16_t>(bytes.subspan(index_len));
    for (uint32_t i = 0; i < kBlocks; ++i)
      if (index[i] >= content.size() / 256) return malformed(s, "names a block that is not there");
    return ok();
  }

  // The numbers of patterns and classes, the number of states of each pattern; then its starts and its states.
  Status patterns() {
    ByteCursor cursor(section(Section::Patterns));
    if (cursor.left() == 0) return section(Section::PatternClasses).empty() ? ok() : malformed(Section::PatternClasses, "belongs to no pattern");
    const auto count = cursor.take<uint32_t>(), classes = cursor.take<uint32_t>();
    if (cursor.failed() || count == 0 || count > kMaxPatterns || classes == 0 || classes > kMaxPatternClasses)
      return Status(Code::Malformed, "tokenizer: it has {} patterns with {} classes, at most {} and {} are read", count, classes, kMaxPatterns,
                    kMaxPatternClasses);
    c_.num_patterns_ = count, c_.num_pattern_classes_ = classes;
    MLC_RETURN_IF_ERROR(blocks(Section::PatternClasses, c_.pattern_index_, c_.pattern_blocks_));
    for (uint32_t i = 0; i < c_.pattern_blocks_.size(); ++i)
      if (c_.pattern_blocks_[i] >= classes) return malformed(Section::PatternClasses, "has a class that no pattern knows");
    uint32_t states[kMaxPatterns];
    for (uint32_t p = 0; p < count; ++p) states[p] = cursor.take<uint32_t>();
    for (uint32_t p = 0; p < count; ++p) {
      if (cursor.failed() || states[p] == 0 || states[p] > kMaxPatternStates) return malformed(Section::Patterns, "has a pattern of no or too many states");
      const Bytes bytes = cursor.bytes((uint64_t{states[p]} + 1) * (classes + 1) * sizeof(uint16_t));
      const Table<uint16_t> table(bytes);
      for (uint32_t i = 0; i < table.size(); ++i)
        if ((table[i] & (kPatternMatch - 1u)) >= states[p] || (i <= classes && (table[i] & kPatternMatch)))
          return malformed(Section::Patterns, "leads to a state that is not there");
      c_.patterns_[p] = PatternTable(bytes, classes);
    }
    return cursor.done() ? ok() : malformed(Section::Patterns, "has another size");
  }

  Status byte_tokens() {
    MLC_RETURN_IF_ERROR(table(Section::ByteTokens, 256, c_.byte_tokens_));
    if (c_.byte_tokens_.size() != 0 && c_.byte_tokens_.size() != 256) return malformed(Section::ByteTokens, "has another size");
    for (uint32_t i = 0; i < c_.byte_tokens_.size(); ++i)
      if (c_.byte_tokens_[i] != kNone && !is_id(c_.byte_tokens_[i])) return malformed(Section::ByteTokens, "has an id that is no token");
    return ok();
  }

  Status charsmap() {
    MLC_RETURN_IF_ERROR(table(Section::Charsmap, kMaxTokenIds, c_.charsmap_));
    for (uint32_t i = 0; i < c_.charsmap_.size(); ++i)
      if (!holds_text(c_.charsmap_[i]) || c_.charsmap_[i].length > kMaxTokenLen)
        return malformed(Section::Charsmap, "has a text that lies outside of the texts or is longer than a token may be");
    return trie(Section::CharsmapTrie, c_.charsmap_.size(), c_.charsmap_trie_);
  }

  // The numbers of entries of each map, the entries, then what they become.
  Status maps() {
    ByteCursor cursor(section(Section::Maps));
    constexpr auto kMaps = static_cast<uint32_t>(Map::Count);
    uint32_t counts[kMaps];
    for (uint32_t& count : counts) count = cursor.take<uint32_t>();
    for (uint32_t m = 0; m < kMaps; ++m) c_.maps_[m] = Table<MapEntry>(cursor.bytes(uint64_t{counts[m]} * sizeof(MapEntry)));
    if (cursor.failed() || cursor.left() % 4 != 0) return malformed(Section::Maps, "ends too early");
    c_.pool_ = Table<uint32_t>(cursor.rest());
    for (uint32_t i = 0; i < c_.pool_.size(); ++i)
      if (!is_scalar(c_.pool_[i])) return malformed(Section::Maps, "has what is no code point");
    for (const auto& map : c_.maps_) {
      for (uint32_t i = 0; i < map.size(); ++i) {
        const MapEntry entry = map[i];
        if (!range_within(entry.first, entry.count, c_.pool_.size()) || entry.count == 0 || (i > 0 && map[i - 1].from >= entry.from))
          return malformed(Section::Maps, "is not sorted or leads outside of itself");
      }
    }
    const auto& pairs = c_.maps_[static_cast<size_t>(Map::Compositions)];
    for (uint32_t i = 0; i < pairs.size(); ++i)
      if (pairs[i].count % 2 != 0) return malformed(Section::Maps, "has compositions that are no pairs");
    return ok();
  }

  Status steps(Section s, StepKind first, StepKind last, Table<Step>& out) const {
    MLC_RETURN_IF_ERROR(table(s, kMaxTextSteps, out));
    uint64_t growth = 1;
    for (uint32_t i = 0; i < out.size(); ++i) {
      const Step step = out[i];
      if (step.kind < first || step.kind > last || !holds_text(step.text) || !holds_text(step.other) || step.text.length > kMaxTokenLen ||
          step.other.length > kMaxTokenLen)
        return malformed(s, "has a step that this program does not know, or one with a text outside of the texts");
      const bool splits = step.kind == StepKind::SplitClass || step.kind == StepKind::SplitText || step.kind == StepKind::SplitPattern;
      if (splits && (step.b & ~kInverted) > static_cast<uint32_t>(Behaviour::Contiguous))
        return malformed(s, "has a step with a behaviour that this program does not know");
      const bool has_pattern = step.kind == StepKind::SplitPattern || step.kind == StepKind::ReplacePattern ||
                               step.kind == StepKind::PieceReplacePattern;
      if ((has_pattern && step.a >= c_.num_patterns_) || (step.kind == StepKind::Charsmap && step.a > c_.num_patterns_))
        return malformed(s, "has a step with a pattern that is not there");
      const bool needs_text = step.kind == StepKind::Replace || step.kind == StepKind::SplitText || step.kind == StepKind::PieceReplace ||
                              step.kind >= StepKind::PieceCtc;
      if ((needs_text && step.text.length == 0) || (step.kind == StepKind::PieceCtc && step.other.length == 0))
        return malformed(s, "has a step that looks for the empty text");
      if (step.kind != StepKind::PieceReplace && step.kind != StepKind::PieceReplacePattern) continue;
      const uint64_t least = std::max(step.text.length, 1u);  // a pattern matches one byte at least
      growth *= std::max<uint64_t>(1, (step.other.length + least - 1) / least);
      if (growth > kMostGrowth) return malformed(s, "has steps that make a token more than 1,024 times as long");
    }
    return ok();
  }

  Status pieces() {
    ByteCursor cursor(section(Section::Template));
    const auto single = cursor.take<uint32_t>(), pair = cursor.take<uint32_t>();
    if (single > kMaxTemplatePieces || pair > kMaxTemplatePieces)
      return Status(Code::Malformed, "tokenizer: a template has {} pieces, at most {} are read", std::max(single, pair), kMaxTemplatePieces);
    if (cursor.failed() || cursor.left() != (uint64_t{single} + pair) * sizeof(TemplatePiece))
      return malformed(Section::Template, "has another size");
    c_.pieces_ = Table<TemplatePiece>(cursor.rest());
    c_.num_single_ = single, c_.num_pair_ = pair;
    for (uint32_t i = 0; i < c_.pieces_.size(); ++i) {
      const TemplatePiece piece = c_.pieces_[i];
      if (piece.kind > PieceKind::Token || (piece.kind == PieceKind::Token && !is_id(piece.id)) ||
          (i < single && piece.kind == PieceKind::Second))
        return malformed(Section::Template, "has a piece that is no text and no token");
    }
    return ok();
  }

  Bytes bytes_;
  Bytes sections_[kSections];
  Compiled c_;
};

uint32_t Compiled::composed(uint32_t first, uint32_t second) const {
  uint32_t at = 0;
  const uint32_t count = find_mapped(Map::Compositions, first, at);
  for (uint32_t i = 0; i < count; i += 2)
    if (pool_[at + i] == second) return pool_[at + i + 1];
  return kNone;
}

Result<Compiled> Compiled::open(Bytes bytes) { return Opener(bytes).open(); }

bool Compiled::token(uint32_t id, std::string_view& out) const {
  if (id >= tokens_.size()) return false;
  const TextRef ref = tokens_[id];
  if (ref.offset == kNone) return false;
  out = text(ref);
  return true;
}

uint32_t Compiled::added_of(uint32_t id) const {
  uint32_t low = 0, high = added_.size();
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (added_[middle].id < id) low = middle + 1;
    else high = middle;
  }
  return low < added_.size() && added_[low].id == id ? low : added_.size();
}

bool Compiled::merge(uint32_t left, uint32_t right, uint32_t& rank, uint32_t& result) const {
  const uint32_t size = merges_.size();
  if (size == 0) return false;
  uint32_t slot = merge_slot(left, right, size);
  for (uint32_t i = 0; i < kProbes; ++i, slot = (slot + 1) & (size - 1)) {
    const Merge merge = merges_[slot];
    if (merge.left == kNone) return false;
    if (merge.left != left || merge.right != right) continue;
    rank = merge.rank, result = merge.result;
    return true;
  }
  return false;
}

uint32_t Compiled::find_mapped(Map map, uint32_t code_point, uint32_t& first) const {
  const Table<MapEntry>& entries = maps_[static_cast<size_t>(map)];
  uint32_t low = 0, high = entries.size();
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (entries[middle].from < code_point) low = middle + 1;
    else high = middle;
  }
  if (low == entries.size() || entries[low].from != code_point) return 0;
  first = entries[low].first;
  return entries[low].count;
}

namespace {

bool can_be_seen(uint32_t byte) { return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD); }

}  // namespace

uint32_t code_point_of_byte(uint8_t byte) {
  if (can_be_seen(byte)) return byte;
  if (byte <= 0x20) return 256u + byte;
  if (byte <= 0xA0) return 256u + 33 + (byte - 0x7F);
  return 256u + 67;
}

int byte_of_name(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return -1;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

int byte_of_code_point(uint32_t c) {
  if (c < 256) return can_be_seen(c) ? static_cast<int>(c) : -1;
  if (c <= 256 + 0x20) return static_cast<int>(c - 256);
  if (c < 256 + 67) return static_cast<int>(c - 256 - 33 + 0x7F);
  return c == 256 + 67 ? 0xAD : -1;
}

}  // namespace mlc::text
