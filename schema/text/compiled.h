// The compiled form of a tokenizer (spec/tokenizer.md): what `tokenizer.json` says, as tables that are read in place.
// The packager writes it (packager/text), the runtime reads it (runtime/text), perhaps from a stranger's file.
//
// `Compiled::open` looks once at every count, offset and number, in time linear in the bytes. After it every accessor may
// be called with any argument that its comment allows and stays inside of the bytes. The bytes are borrowed.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/checked.h"
#include "base/status.h"

namespace mlc::text {

inline constexpr uint32_t kMagic = 0x4B4F544D;  // "MTOK"
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kNone = 0xFFFFFFFF;       // no id, no state, no text
inline constexpr uint32_t kCodePoints = 0x110000;
inline constexpr uint64_t kMaxCompiledLen = 256u << 20;
inline constexpr uint32_t kMaxTokenIds = 1u << 22;
inline constexpr uint32_t kMaxTokenLen = 1024;        // bytes of a token; characters of a word
inline constexpr uint32_t kMaxTextSteps = 64;         // of a normaliser, splitter or decoder
inline constexpr uint32_t kMaxTemplatePieces = 64;
inline constexpr uint32_t kProbes = 32;               // slots of the merge table that a lookup looks at
inline constexpr uint32_t kMaxPatterns = 64;
inline constexpr uint32_t kMaxPatternClasses = 255;
inline constexpr uint32_t kMaxPatternStates = 1u << 14;
inline constexpr uint16_t kPatternMatch = 0x8000;     // a match ends before the code point

enum class Section : uint32_t {
  Options, Text, Tokens, Trie, Merges, Scores, Added, AddedTrie, NormalizedTrie, Classes, Maps, Normalizer, Splitter, Decoder, Template,
  PatternClasses, Patterns, Charsmap, CharsmapTrie, ByteTokens, Neighbours,
  Count
};

enum class Model : uint32_t { WordPiece, Bpe, Unigram, WordLevel };

// Bits of `Options::flags`.
inline constexpr uint32_t kFuseUnknown = 1, kByteFallback = 2, kIgnoreMerges = 4, kTrimOffsets = 8, kTrimKeepsFirst = 16, kSinglePrecision = 32;

struct TextRef {
  uint32_t offset, length;
};

struct Options {
  Model model;
  uint32_t flags;
  uint32_t unknown;         // id, or kNone
  uint32_t max_word_chars;  // WordPiece: a longer word is unknown
  TextRef continuing;       // before what does not begin a word: "##"
  TextRef word_end;         // BPE: behind what ends a word
  uint32_t unicode;         // version of the tables: major << 8 | minor
  uint32_t reserved;
};

// What a code point is, as far as this tokenizer asks.
enum ClassBit : uint16_t {
  kSpace = 1, kPunctuation = 2, kControl = 4, kMark = 8, kLetter = 16, kNumber = 32, kWordChar = 64, kIdeograph = 128,
  kOrdered = 256,       // has a combining class other than 0
  kDecomposed = 512,    // stands in the map of decompositions
  kLowered = 1024,      // in that of small letters
  kAnyMark = 2048,      // non-spacing, spacing or enclosing
  kUnwritten = 4096,    // controls that Nmt removes
  kBlankLike = 8192,    // what it makes a blank
  kCompatible = 16384,  // stands in the map of compatible decompositions
  kComposing = 32768    // may become one with what stands before
};

enum class StepKind : uint32_t {
  // normaliser
  Remove,      // code points of a class of `a`
  Blank,       // code points of a class of `a` become blanks
  Surround,    // blanks around those of a class of `a`
  Decompose,   // with ordering; a & 1: compatible, else canonical; a & 2: then composed
  Lower,
  Strip,       // white space: a & 1 at the beginning, a & 2 at the end
  Prepend,     // `text`, where there is a text
  Charsmap,    // what the charsmap has; a: by the clusters that pattern a - 1 finds, 0: the longest that it has
  // normaliser and splitter
  Replace,     // `text` by `other`
  ReplacePattern,  // matches of pattern `a` by `other`
  Bytes,       // every byte becomes the code point that stands for it
  // splitter
  SplitClass,  // code points of a class of `a`, `b` is a Behaviour
  SplitText,   // each `text`, `b` is a Behaviour, perhaps with kInverted
  SplitPattern,  // matches of pattern `a`, `b` likewise
  PrependMissing,  // `text`, where a piece does not begin with it; a: only at the text's begin
  // decoder
  PieceWords,    // a blank before tokens but the first; `text` at a token's begin is dropped instead; a: clean up
  PieceBytes,    // code points that stand for bytes
  PieceReplace,  // `text` by `other`
  PieceReplacePattern,  // matches of pattern `a` by `other`
  PieceFallback,  // runs of <0xHH> are bytes; a: what is no UTF-8 of them one by one, else all of the run
  PieceCtc,      // of equal tokens in a row one stays; `text` is dropped; a: clean up, then `other` becomes a blank
  PieceStrip,    // at most `a` times `text` at the begin of each token, `b` times at its end
  PieceMeta,     // `text` becomes a blank, or nothing in the first token with a
  PieceSuffix,   // `text` becomes a blank, or nothing in the last token
  TextStrip,     // at most `a` times `text` at the begin of the whole, `b` times at its end
  FrontStrip,    // `text` once at the begin of each token, until one has something behind it
  Count
};
enum class Behaviour : uint32_t { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };
inline constexpr uint32_t kInverted = 8;  // what stands between is what is looked for

struct Step {
  StepKind kind;
  uint32_t a, b;
  TextRef text, other;
};

// Bits of `Added::flags`.
inline constexpr uint32_t kSingleWord = 1, kStripLeft = 2, kStripRight = 4, kNormalized = 8, kSpecial = 16;
struct Added {
  uint32_t id, flags;
  TextRef content;  // what decoding answers
};

struct TrieUnit {
  uint32_t base, check, value;  // value: the number that ends here + 1, or 0
};
struct Merge {
  uint32_t left, right, rank, result;  // left is kNone: free
};
enum class PieceKind : uint32_t { First, Second, Token };
struct TemplatePiece {
  PieceKind kind;
  uint32_t id, type;
};
// A code point and what it becomes.
struct MapEntry {
  uint32_t from, first, count;
};
enum class Map : uint32_t { Decompositions, SmallLetters, CombiningClasses, Compatible, Compositions, Count };

// An array of T in bytes that need not be aligned.
template <class T>
class Table {
 public:
  Table() = default;
  explicit Table(Bytes bytes) : data_(bytes.data()), size_(static_cast<uint32_t>(bytes.size() / sizeof(T))) {}
  uint32_t size() const { return size_; }
  T operator[](uint32_t i) const {
    T value;
    std::memcpy(&value, data_ + size_t{i} * sizeof(T), sizeof(T));
    return value;
  }

 private:
  const std::byte* data_ = nullptr;
  uint32_t size_ = 0;
};

// Texts to numbers: a double array. The child of state s by byte c is t = base(s) ^ c, if check(t) is s.
class Trie {
 public:
  Trie() = default;
  explicit Trie(Bytes bytes) : units_(bytes) {}
  bool empty() const { return units_.size() == 0; }
  static constexpr uint32_t kRoot = 0;
  // The state behind `state` by that byte, or kNone.
  uint32_t step(uint32_t state, uint8_t byte) const {
    const uint32_t next = units_[state].base ^ byte;
    return units_[next].check == state && next != kRoot ? next : kNone;
  }
  uint32_t value(uint32_t state) const { return units_[state].value; }
  // The state behind a text, or kNone. Of no units: kNone.
  uint32_t walk(uint32_t state, std::string_view text) const {
    if (empty()) return kNone;
    for (size_t i = 0; i < text.size() && state != kNone; ++i) state = step(state, static_cast<uint8_t>(text[i]));
    return state;
  }
  // The number of a text, or kNone.
  uint32_t find(std::string_view text) const {
    const uint32_t state = walk(kRoot, text);
    return state == kNone || value(state) == 0 ? kNone : value(state) - 1;
  }

 private:
  Table<TrieUnit> units_;
};

// A regular expression as states, left by classes of code points. State 0: no match is possible any more.
class PatternTable {
 public:
  PatternTable() = default;
  PatternTable(Bytes bytes, uint32_t classes) : table_(bytes), width_(classes + 1) {}
  // Of the text's edge the class is num_pattern_classes.
  uint32_t start(uint32_t class_before) const { return table_[class_before]; }
  // Perhaps with kPatternMatch. No state behind the edge.
  uint32_t next(uint32_t state, uint32_t next_class) const { return table_[(state + 1) * width_ + next_class]; }

 private:
  Table<uint16_t> table_;  // starts, then a row of each state
  uint32_t width_ = 0;
};

// Where the search of a pair begins in a table of merges, whose size is a power of two.
inline uint32_t merge_slot(uint32_t left, uint32_t right, uint32_t size) {
  uint64_t hash = (uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15;
  return static_cast<uint32_t>(hash >> 32) & (size - 1);
}

class Compiled {
 public:
  // Malformed (E4xxx of the container is the caller's) if the bytes are no compiled tokenizer.
  [[nodiscard]] static Result<Compiled> open(Bytes bytes);

  // Of copies the same, of nothing else that the process has opened.
  uint64_t number() const { return number_; }
  const Options& options() const { return options_; }
  uint32_t num_tokens() const { return tokens_.size(); }
  // The text of an id; false if there is none. Any id.
  bool token(uint32_t id, std::string_view& out) const;
  std::string_view text(TextRef ref) const { return texts_.substr(ref.offset, ref.length); }  // a ref of these bytes
  const Trie& trie() const { return trie_; }
  const Trie& added_trie() const { return added_trie_; }
  const Trie& normalized_trie() const { return normalized_trie_; }
  uint32_t num_added() const { return added_.size(); }
  Added added(uint32_t i) const { return added_[i]; }  // i < num_added(), as the values of both tries are
  // The added token of that id, or num_added(). Any id.
  uint32_t added_of(uint32_t id) const;
  // What two neighbours become; false if they are not merged.
  // Whether a merge may join what ends with the one symbol and what begins with the other.
  bool may_join(uint32_t left, uint32_t right) const {
    if (neighbours_.size() == 0) return true;
    const uint32_t bit = merge_slot(left, right, neighbours_.size() * 32);
    return (neighbours_[bit / 32] >> (bit % 32) & 1) != 0;
  }
  bool merge(uint32_t left, uint32_t right, uint32_t& rank, uint32_t& result) const;
  uint16_t class_of(uint32_t code_point) const {  // below kCodePoints
    const uint32_t block = class_index_[code_point >> 8];
    return class_blocks_[block << 8 | (code_point & 255)];
  }
  // What a code point becomes; 0 if it stands not in the map. `first` and on are asked of `mapped`.
  uint32_t find_mapped(Map map, uint32_t code_point, uint32_t& first) const;
  uint32_t mapped(uint32_t i) const { return pool_[i]; }
  // What two code points become together, or kNone; Hangul aside.
  uint32_t composed(uint32_t first, uint32_t second) const;
  uint32_t num_pattern_classes() const { return num_pattern_classes_; }
  uint32_t pattern_class(uint32_t code_point) const {  // below kCodePoints; where there is a pattern
    const uint32_t block = pattern_index_[code_point >> 8];
    return pattern_blocks_[block << 8 | (code_point & 255)];
  }
  const PatternTable& pattern(uint32_t i) const { return patterns_[i]; }  // one that a step names
  const Trie& charsmap_trie() const { return charsmap_trie_; }
  std::string_view charsmap(uint32_t i) const { return text(charsmap_[i]); }  // a value of that trie
  double score(uint32_t id) const { return scores_[id]; }  // Unigram: of an id of `trie`, and of what is unknown
  // Unigram: of a code point that is unknown.
  double unknown_score() const { return (options_.flags & kSinglePrecision) ? scores_[options_.unknown] : lowest_score_ - 10.0; }
  // The token of a byte where a text is told by its bytes, or kNone.
  uint32_t byte_token(uint8_t byte) const { return byte_tokens_.size() == 0 ? kNone : byte_tokens_[byte]; }
  const Table<Step>& normalizer() const { return normalizer_; }
  const Table<Step>& splitter() const { return splitter_; }
  const Table<Step>& decoder() const { return decoder_; }
  // Of one text, or of two.
  uint32_t num_pieces(bool pair) const { return pair ? num_pair_ : num_single_; }
  TemplatePiece piece(bool pair, uint32_t i) const { return pieces_[(pair ? num_single_ : 0) + i]; }

 private:
  friend class Opener;
  Compiled() = default;
  uint64_t number_ = 0;
  Options options_{};
  std::string_view texts_;
  Table<TextRef> tokens_;
  Trie trie_, added_trie_, normalized_trie_;
  Table<Merge> merges_;
  Table<double> scores_;
  Table<uint32_t> byte_tokens_, neighbours_;
  double lowest_score_ = 0;
  Table<Added> added_;
  Table<uint16_t> class_index_, class_blocks_;
  Table<MapEntry> maps_[static_cast<size_t>(Map::Count)];
  Table<uint32_t> pool_;
  uint32_t num_pattern_classes_ = 0, num_patterns_ = 0;
  Table<uint16_t> pattern_index_, pattern_blocks_;
  PatternTable patterns_[kMaxPatterns];
  Table<TextRef> charsmap_;
  Trie charsmap_trie_;
  Table<Step> normalizer_, splitter_, decoder_;
  uint32_t num_single_ = 0, num_pair_ = 0;
  Table<TemplatePiece> pieces_;
};

// The code point that stands for a byte in byte-level vocabularies: itself if it can be seen, else one from 256 on.
uint32_t code_point_of_byte(uint8_t byte);
// The byte of a token <0xHH>, or -1.
int byte_of_name(std::string_view token);
// The byte that a code point stands for, or -1.
int byte_of_code_point(uint32_t code_point);

}  // namespace mlc::text
