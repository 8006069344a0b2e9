#include "packager/text/compile_tokenizer.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/byte_cursor.h"
#include "base/text/text.h"
#include "packager/text/draft.h"
#include "packager/text/sentencepiece.h"
#include "packager/text/unicode.h"
#include "schema/text/normalized.h"

namespace mlc::text {
namespace {

constexpr size_t kMostPatternRanges = 1u << 22;  // of the sets of all places of all patterns
constexpr JsonLimits kLimits{.bytes = 256u << 20, .depth = 32, .values = 32'000'000};

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& items) {
  const auto bytes = std::as_bytes(std::span(items));
  return {bytes.begin(), bytes.end()};
}

// Of contents that are normalised, what they are after it: with the tokenizer as it is so far, by the one normaliser.
Status normalize_added(Draft& draft) {
  if (std::none_of(draft.added.begin(), draft.added.end(), [](const DraftAdded& one) { return (one.added.flags & kNormalized) != 0; })) return ok();
  MLC_ASSIGN(const std::vector<std::byte> bytes, draft.encode());
  MLC_ASSIGN(const Compiled tokenizer, Compiled::open(bytes));
  for (DraftAdded& added : draft.added) {
    if (!(added.added.flags & kNormalized)) continue;
    MLC_ASSIGN(added.normalized, normalized(tokenizer, added.content, 64u << 20));
  }
  return ok();
}

}  // namespace

// By which symbols a token that was merged may begin and end: what it was merged of is shorter, so each is known before it is asked for.
std::vector<std::pair<uint32_t, uint32_t>> Draft::neighbours() const {
  if (options.continuing.length != 0 || options.word_end.length != 0) return {};  // symbols are no characters
  std::unordered_map<uint32_t, std::set<uint32_t>> begins, ends;
  std::unordered_map<uint32_t, size_t> lengths;
  const auto is_symbol = [&](uint32_t id) { begins[id].insert(id), ends[id].insert(id); };
  for (const auto& [text, id] : vocabulary) {
    uint32_t unused = 0;
    lengths[id] = text.size();
    if (decode_utf8(text, 0, unused) == text.size()) is_symbol(id);
  }
  is_symbol(options.unknown);
  for (const uint32_t id : byte_tokens) is_symbol(id);
  std::vector<Merge> sorted = merges;
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Merge& a, const Merge& b) { return lengths[a.result] < lengths[b.result]; });
  std::set<std::pair<uint32_t, uint32_t>> pairs;
  for (const Merge& merge : sorted) {
    for (const uint32_t left : ends[merge.left])
      for (const uint32_t right : begins[merge.right]) pairs.emplace(left, right);
    if (merge.result != merge.left) begins[merge.result].insert(begins[merge.left].begin(), begins[merge.left].end());
    if (merge.result != merge.right) ends[merge.result].insert(ends[merge.right].begin(), ends[merge.right].end());
  }
  return {pairs.begin(), pairs.end()};
}

uint32_t Draft::id_of(std::string_view text) const {
  if (const auto found = vocabulary.find(text); found != vocabulary.end()) return found->second;
  for (const DraftAdded& one : added)
    if (one.content == text) return one.added.id;
  return kNone;
}

Result<uint32_t> Draft::pattern(std::string_view text, const std::string& path) {
  for (size_t i = 0; i < patterns.size(); ++i)
    if (patterns[i].text == text) return static_cast<uint32_t>(i);
  if (patterns.size() >= kMaxPatterns)
    return Status(Code::Unsupported, "{} is pattern {}, at most {} are covered", path, uint64_t{patterns.size()} + 1, kMaxPatterns);
  MLC_ASSIGN(Pattern parsed, parse_pattern(text, path));
  for (const PatternPlace& place : parsed.places) pattern_ranges += place.set.ranges().size();
  if (pattern_ranges > kMostPatternRanges)
    return Status(Code::Unsupported, "{}: the patterns of the tokenizer have more than {} ranges of characters together", path, uint64_t{kMostPatternRanges});
  patterns.push_back({std::move(parsed), std::string(text), path});
  return static_cast<uint32_t>(patterns.size() - 1);
}

std::vector<std::byte> Draft::tokens() {
  std::vector<TextRef> refs;
  const auto put_token = [&](const std::string& text, uint32_t id) {
    if (id >= refs.size()) refs.resize(id + 1, TextRef{kNone, 0});
    if (refs[id].offset == kNone) refs[id] = put(text);
  };
  for (const auto& [text, id] : vocabulary) put_token(text, id);
  for (const NamedNumber& one : unfound) put_token(one.text, one.number);
  for (const DraftAdded& one : added) put_token(one.content, one.added.id);
  return bytes_of(refs);
}

Result<std::vector<std::byte>> Draft::encode() {
  const std::string texts_before = texts_;
  std::vector<std::byte> sections[static_cast<size_t>(Section::Count)];
  const auto section = [&](Section s) -> std::vector<std::byte>& { return sections[static_cast<size_t>(s)]; };
  section(Section::Tokens) = tokens();
  std::vector<NamedNumber> words, raw, normal;
  for (const auto& [text, id] : vocabulary)
    if (!text.empty()) words.push_back({text, id});
  section(Section::Trie) = make_trie(std::move(words));
  section(Section::Scores) = bytes_of(scores);
  section(Section::Merges) = make_merges(merges);
  if (const auto pairs = neighbours(); !pairs.empty()) section(Section::Neighbours) = make_neighbours(pairs);
  section(Section::ByteTokens) = bytes_of(std::vector<uint32_t>(byte_tokens.begin(), byte_tokens.end()));
  std::sort(added.begin(), added.end(), [](const DraftAdded& a, const DraftAdded& b) { return a.added.id < b.added.id; });
  std::vector<Added> list;
  for (const DraftAdded& one : added) {
    const bool is_normal = one.added.flags & kNormalized;
    const auto& text = is_normal ? one.normalized : one.content;
    if (!text.empty()) (is_normal ? normal : raw).push_back({text, static_cast<uint32_t>(list.size())});
    list.push_back({one.added.id, one.added.flags, put(one.decoded ? *one.decoded : text)});
  }
  // Two contents that are normalised to one: the token of the lower id.
  std::stable_sort(normal.begin(), normal.end(), [](const NamedNumber& a, const NamedNumber& b) { return a.text < b.text; });
  normal.erase(std::unique(normal.begin(), normal.end(), [](const NamedNumber& a, const NamedNumber& b) { return a.text == b.text; }), normal.end());
  section(Section::Added) = bytes_of(list);
  section(Section::AddedTrie) = make_trie(std::move(raw));
  section(Section::NormalizedTrie) = make_trie(std::move(normal));
  section(Section::Classes) = make_classes(classes);
  section(Section::Maps) = make_maps(classes);
  MLC_ASSIGN(const PatternTables tables, make_pattern_tables(patterns));
  if (!tables.tables.empty()) section(Section::PatternClasses) = make_blocks(tables.classes);
  section(Section::Patterns) = make_patterns(tables);
  section(Section::Charsmap) = bytes_of(charsmap_texts);
  section(Section::CharsmapTrie) = make_trie(charsmap);
  section(Section::Normalizer) = bytes_of(normalizer);
  section(Section::Splitter) = bytes_of(splitter);
  section(Section::Decoder) = bytes_of(decoder);
  ByteBuilder pieces;
  pieces.put_uint(single.size(), 4).put_uint(pair.size(), 4).put(bytes_of(single)).put(bytes_of(pair));
  section(Section::Template) = pieces.take();
  options.unicode = unicode_version();
  section(Section::Options) = bytes_of(std::vector<Options>{options});
  const auto texts = std::as_bytes(std::span(texts_.data(), texts_.size()));
  section(Section::Text).assign(texts.begin(), texts.end());
  texts_ = texts_before;

  ByteBuilder out;
  constexpr auto kCount = static_cast<uint64_t>(Section::Count);
  out.put_uint(kMagic, 4).put_uint(kVersion, 4).put_uint(kCount, 4).put_uint(0, 4);
  uint64_t at = 16 + 8 * kCount;
  for (const auto& bytes : sections) {
    at = (at + 3) / 4 * 4;
    out.put_uint(at, 4).put_uint(bytes.size(), 4);
    at += bytes.size();
    if (at > kMaxCompiledLen) return Status(Code::Unsupported, "the tokenizer has more than {} bytes", kMaxCompiledLen);
  }
  for (const auto& bytes : sections) out.pad(4), out.put(Bytes(bytes));
  return out.take();
}

namespace {

Status read_json(std::string_view json, std::string_view name, Draft& draft) {
  MLC_ASSIGN(const JsonDocument document, parse_json(json, name, kLimits));
  const JsonNode root{&document.root(), "$"};
  if (!root.is(JsonValue::Kind::Object)) return root.expected("an object");
  MLC_RETURN_IF_ERROR(read_model(root["model"], draft));
  MLC_RETURN_IF_ERROR(read_added(root["added_tokens"], draft));
  MLC_RETURN_IF_ERROR(read_normalizer(root["normalizer"], draft));
  MLC_RETURN_IF_ERROR(read_splitter(root["pre_tokenizer"], draft));
  MLC_RETURN_IF_ERROR(read_processor(root["post_processor"], draft));
  MLC_RETURN_IF_ERROR(read_decoder(root["decoder"], draft));
  for (size_t byte = 0; byte < 256; ++byte) {
    static constexpr char kDigits[] = "0123456789ABCDEF";
    const auto found = draft.vocabulary.find(std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">");
    if (found != draft.vocabulary.end()) draft.byte_tokens[byte] = found->second;
  }
  return normalize_added(draft);
}

}  // namespace

Result<std::vector<std::byte>> compile_tokenizer(std::string_view file, std::string_view name) {
  Draft draft;
  if (name.ends_with(".model")) MLC_RETURN_IF_ERROR(read_sentencepiece(file, std::string(name), draft));
  else MLC_RETURN_IF_ERROR(read_json(file, name, draft));
  MLC_ASSIGN(std::vector<std::byte> bytes, draft.encode());
  const Result<Compiled> opened = Compiled::open(bytes);
  if (!opened.ok()) return Status(opened.status());
  return bytes;
}

}  // namespace mlc::text
