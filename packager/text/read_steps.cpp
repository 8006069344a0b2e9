#include <algorithm>
#include <iterator>

#include "base/text/base64.h"
#include "packager/text/charsmap.h"
#include "packager/text/draft.h"

namespace mlc::text {
namespace {

constexpr std::string_view kNormalizers = 
    "BertNormalizer, NFC, NFD, NFKC, NFKD, StripAccents, Lowercase, Nmt, Precompiled, Strip, Replace, Prepend, ByteLevel, Sequence";
constexpr std::string_view kSplitters =
    "BertPreTokenizer, ByteLevel, Metaspace, Whitespace, WhitespaceSplit, Punctuation, Digits, Split, Sequence";
constexpr std::string_view kProcessors = "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, Sequence";
constexpr std::string_view kDecoders = "WordPiece, ByteLevel, Metaspace, ByteFallback, Fuse, Strip, Replace, BPEDecoder, CTC, Sequence";

// What ByteLevel splits a text into.
constexpr std::string_view kWords = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Adds a step and what it asks of code points.
void add(std::vector<Step>& steps, Draft& draft, StepKind kind, uint32_t a = 0, uint32_t b = 0) {
  steps.push_back({kind, a, b, {0, 0}, {0, 0}});
  switch (kind) {
    case StepKind::Remove:
    case StepKind::Blank:
    case StepKind::Surround:
    case StepKind::SplitClass: draft.classes |= static_cast<uint16_t>(a); break;
    case StepKind::Decompose: draft.classes |= ((a & 1) ? kCompatible : kDecomposed) | kOrdered | ((a & 2) ? kComposing : 0); break;
    case StepKind::Lower: draft.classes |= kLowered; break;
    case StepKind::Strip: draft.classes |= kSpace; break;
    case StepKind::Prepend:
    case StepKind::Charsmap:
    case StepKind::Replace:
    case StepKind::ReplacePattern:
    case StepKind::SplitPattern:
    case StepKind::Bytes:
    case StepKind::SplitText:
    case StepKind::PrependMissing:
    case StepKind::PieceWords:
    case StepKind::PieceBytes:
    case StepKind::PieceReplace:
    case StepKind::PieceReplacePattern:
    case StepKind::PieceFallback:
    case StepKind::PieceCtc:
    case StepKind::PieceStrip:
    case StepKind::PieceMeta:
    case StepKind::PieceSuffix:
    case StepKind::TextStrip:
    case StepKind::FrontStrip:
    case StepKind::Count: break;
  }
}

Status put_text(const JsonNode& node, Draft& draft, TextRef& out) {
  std::string text;
  MLC_RETURN_IF_ERROR(node.text(text));
  if (text.size() > kMaxTokenLen)
    return Status(Code::Unsupported, "{} has {} bytes, at most {} are covered", node.path, uint64_t{text.size()}, kMaxTokenLen);
  return out = draft.put(text), ok();
}

Status read_bert(const JsonNode& node, Draft& draft) {
  bool clean = true, ideographs = true, small = true;
  MLC_RETURN_IF_ERROR(node["clean_text"].flag(clean));
  MLC_RETURN_IF_ERROR(node["handle_chinese_chars"].flag(ideographs));
  MLC_RETURN_IF_ERROR(node["lowercase"].flag(small));
  bool marks = small;
  MLC_RETURN_IF_ERROR(node["strip_accents"].flag(marks));
  auto& steps = draft.normalizer;
  if (clean) add(steps, draft, StepKind::Remove, kControl), add(steps, draft, StepKind::Blank, kSpace);
  if (ideographs) add(steps, draft, StepKind::Surround, kIdeograph);
  if (marks) add(steps, draft, StepKind::Decompose), add(steps, draft, StepKind::Remove, kMark);
  if (small) add(steps, draft, StepKind::Lower);
  return ok();
}

// What Replace and Split look for: a text, which goes into the step, or a regular expression, whose step is of another kind.
Status read_pattern(const JsonNode& pattern, Draft& draft, StepKind other_kind, Step& out) {
  if (!pattern.is(JsonValue::Kind::Object)) return pattern.expected("an object with 'String' or 'Regex'");
  if (const JsonNode regex = pattern["Regex"]; !regex.absent()) {
    std::string text;
    MLC_RETURN_IF_ERROR(regex.text(text));
    out.kind = other_kind;
    MLC_ASSIGN(out.a, draft.pattern(text, regex.path));
    return ok();
  }
  if (pattern["String"].absent()) return pattern.expected("an object with 'String' or 'Regex'");
  MLC_RETURN_IF_ERROR(put_text(pattern["String"], draft, out.text));
  return out.text.length != 0 ? ok() : Status(Code::Unsupported, "{} is empty", pattern["String"].path);
}

Status read_replace(const JsonNode& node, Draft& draft, std::pair<StepKind, StepKind> kinds, std::vector<Step>& steps) {
  add(steps, draft, kinds.first);
  Step step = steps.back();
  MLC_RETURN_IF_ERROR(read_pattern(node["pattern"], draft, kinds.second, step));
  MLC_RETURN_IF_ERROR(put_text(node["content"], draft, step.other));
  return steps.back() = step, ok();
}

Status read_precompiled(const JsonNode& node, Draft& draft) {
  const JsonNode map = node["precompiled_charsmap"];
  std::string text;
  if (map.absent()) return ok();
  MLC_RETURN_IF_ERROR(map.text(text));
  if (text.empty()) return ok();
  const std::optional<std::string> bytes = from_base64(text);
  if (!bytes) return Status(Code::Malformed, "{} is no base 64", map.path);
  MLC_RETURN_IF_ERROR(read_charsmap(*bytes, map.path, draft));
  MLC_ASSIGN(const uint32_t clusters, draft.pattern(kClusters, map.path));
  return add(draft.normalizer, draft, StepKind::Charsmap, clusters + 1), ok();
}

Status read_strip(const JsonNode& node, Draft& draft) {
  bool left = true, right = true;
  MLC_RETURN_IF_ERROR(node["strip_left"].flag(left));
  MLC_RETURN_IF_ERROR(node["strip_right"].flag(right));
  add(draft.normalizer, draft, StepKind::Strip, (left ? 1u : 0u) | (right ? 2u : 0u));
  return ok();
}

Status one_normalizer(const JsonNode& node, const std::string& type, Draft& draft) {
  if (type == "BertNormalizer") return read_bert(node, draft);
  if (type == "Replace") return read_replace(node, draft, {StepKind::Replace, StepKind::ReplacePattern}, draft.normalizer);
  if (type == "Precompiled") return read_precompiled(node, draft);
  static constexpr std::pair<std::string_view, uint32_t> kForms[] = {{"NFD", 0}, {"NFKD", 1}, {"NFC", 2}, {"NFKC", 3}};
  for (const auto& [name, how] : kForms)
    if (type == name) return add(draft.normalizer, draft, StepKind::Decompose, how), ok();
  if (type == "StripAccents") return add(draft.normalizer, draft, StepKind::Remove, kAnyMark), ok();
  if (type == "Nmt") return add(draft.normalizer, draft, StepKind::Remove, kUnwritten), add(draft.normalizer, draft, StepKind::Blank, kBlankLike), ok();
  if (type == "Strip") return read_strip(node, draft);
  if (type == "Lowercase") return add(draft.normalizer, draft, StepKind::Lower), ok();
  if (type == "ByteLevel") return add(draft.normalizer, draft, StepKind::Bytes), ok();
  if (type != "Prepend") return node["type"].unknown(type, kNormalizers);
  add(draft.normalizer, draft, StepKind::Prepend);
  return put_text(node["prepend"], draft, draft.normalizer.back().text);
}

Status read_behaviour(const JsonNode& node, Behaviour& out) {
  static constexpr std::pair<std::string_view, Behaviour> kNames[] = {{"Removed", Behaviour::Removed},
                                                                      {"Isolated", Behaviour::Isolated},
                                                                      {"MergedWithPrevious", Behaviour::MergedWithPrevious},
                                                                      {"MergedWithNext", Behaviour::MergedWithNext},
                                                                      {"Contiguous", Behaviour::Contiguous}};
  std::string text;
  MLC_RETURN_IF_ERROR(node.text(text));
  for (const auto& [name, behaviour] : kNames)
    if (name == text) return out = behaviour, ok();
  return node.unknown(text, "Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

void split_at(Draft& draft, uint32_t classes, Behaviour behaviour) {
  add(draft.splitter, draft, StepKind::SplitClass, classes, static_cast<uint32_t>(behaviour));
}

void prepend_missing(Draft& draft, TextRef text, bool only_first) {
  add(draft.splitter, draft, StepKind::PrependMissing, only_first);
  draft.splitter.back().text = text;
}

// The character that stands for a blank, and when one is put in front: "always", "first", "never". Older files have a flag instead.
Status read_metaspace(const JsonNode& node, Draft& draft, TextRef& replacement, std::string& scheme) {
  MLC_RETURN_IF_ERROR(put_text(node["replacement"], draft, replacement));
  if (replacement.length == 0) return Status(Code::Malformed, "{} is empty", node["replacement"].path);
  bool prefix = true;
  MLC_RETURN_IF_ERROR(node["add_prefix_space"].flag(prefix));
  scheme = prefix ? "always" : "never";
  if (node["prepend_scheme"].absent()) return ok();
  MLC_RETURN_IF_ERROR(node["prepend_scheme"].text(scheme));
  if (scheme != "always" && scheme != "first" && scheme != "never") return node["prepend_scheme"].unknown(scheme, "always, first, never");
  if (!prefix && scheme != "never")
    return Status(Code::Malformed, "{} is '{}', and {} is false", node["prepend_scheme"].path, scheme, node["add_prefix_space"].path);
  return ok();
}

Status split_metaspace(const JsonNode& node, Draft& draft) {
  TextRef replacement{};
  std::string scheme;
  MLC_RETURN_IF_ERROR(read_metaspace(node, draft, replacement, scheme));
  bool splits = true;
  MLC_RETURN_IF_ERROR(node["split"].flag(splits));
  add(draft.splitter, draft, StepKind::Replace);
  draft.splitter.back().text = draft.put(" "), draft.splitter.back().other = replacement;
  if (scheme != "never") prepend_missing(draft, replacement, scheme == "first");
  if (!splits) return ok();
  add(draft.splitter, draft, StepKind::SplitText, 0, static_cast<uint32_t>(Behaviour::MergedWithNext));
  return draft.splitter.back().text = replacement, ok();
}

Status read_split(const JsonNode& node, Draft& draft) {
  Behaviour behaviour{};
  bool invert = false;
  MLC_RETURN_IF_ERROR(read_behaviour(node["behavior"], behaviour));
  MLC_RETURN_IF_ERROR(node["invert"].flag(invert));
  add(draft.splitter, draft, StepKind::SplitText, 0, static_cast<uint32_t>(behaviour) | (invert ? kInverted : 0));
  Step step = draft.splitter.back();
  MLC_RETURN_IF_ERROR(read_pattern(node["pattern"], draft, StepKind::SplitPattern, step));
  return draft.splitter.back() = step, ok();
}

Status one_splitter(const JsonNode& node, const std::string& type, Draft& draft) {
  if (type == "BertPreTokenizer") return split_at(draft, kSpace, Behaviour::Removed), split_at(draft, kPunctuation, Behaviour::Isolated), ok();
  if (type == "WhitespaceSplit") return split_at(draft, kSpace, Behaviour::Removed), ok();
  if (type == "Whitespace") return split_at(draft, kSpace, Behaviour::Removed), split_at(draft, kWordChar, Behaviour::Contiguous), ok();
  if (type == "Punctuation") {
    Behaviour behaviour = Behaviour::Isolated;
    if (!node["behavior"].absent()) MLC_RETURN_IF_ERROR(read_behaviour(node["behavior"], behaviour));
    return split_at(draft, kPunctuation, behaviour), ok();
  }
  if (type == "Digits") {
    bool each = false;
    MLC_RETURN_IF_ERROR(node["individual_digits"].flag(each));
    return split_at(draft, kNumber, each ? Behaviour::Isolated : Behaviour::Contiguous), ok();
  }
  if (type == "Metaspace") return split_metaspace(node, draft);
  if (type == "Split") return read_split(node, draft);
  if (type != "ByteLevel") return node["type"].unknown(type, kSplitters);
  bool blank = true, words = true;
  MLC_RETURN_IF_ERROR(node["add_prefix_space"].flag(blank));
  MLC_RETURN_IF_ERROR(node["use_regex"].flag(words));
  if (blank) prepend_missing(draft, draft.put(" "), false);
  if (words) {
    MLC_ASSIGN(const uint32_t pattern, draft.pattern(kWords, node.path));
    add(draft.splitter, draft, StepKind::SplitPattern, pattern, static_cast<uint32_t>(Behaviour::Isolated));
  }
  return add(draft.splitter, draft, StepKind::Bytes), ok();
}

// ["[SEP]", 102]
Status read_named_id(const JsonNode& node, const Draft& draft, uint32_t& id) {
  if (!node.is(JsonValue::Kind::Array) || node.value->size() != 2) return node.expected("a token and its id");
  size_t index = 0;
  for (const JsonValue& item : node.value->items())
    if (index++ == 1) MLC_RETURN_IF_ERROR(node.item(item, 1).number(kMaxTokenIds - 1, id));
  for (const auto& one : draft.added)
    if (one.added.id == id) return ok();
  for (const auto& [text, number] : draft.vocabulary)
    if (number == id) return ok();
  return Status(Code::Malformed, "{} has id {}, which no token has", node.path, id);
}

Status read_trimming(const JsonNode& node, Draft& draft) {
  bool trims = true, keeps = true;
  MLC_RETURN_IF_ERROR(node["trim_offsets"].flag(trims));
  MLC_RETURN_IF_ERROR(node["add_prefix_space"].flag(keeps));
  if (!trims) return ok();
  draft.options.flags |= kTrimOffsets | (keeps ? kTrimKeepsFirst : 0);
  draft.classes |= kSpace;
  return ok();
}

Status read_pieces(const JsonNode& node, const JsonNode& specials, std::vector<TemplatePiece>& out) {
  if (!node.is(JsonValue::Kind::Array)) return node.expected("a list");
  size_t index = 0;
  for (const JsonValue& item : node.value->items()) {
    const JsonNode piece = node.item(item, index++);
    std::string id;
    uint32_t type = 0;
    const bool is_text = !piece["Sequence"].absent();
    const JsonNode inner = piece[is_text ? "Sequence" : "SpecialToken"];
    if (inner.absent()) return piece.expected("an object with 'Sequence' or 'SpecialToken'");
    MLC_RETURN_IF_ERROR(inner["id"].text(id));
    MLC_RETURN_IF_ERROR(inner["type_id"].number(kNone, type));
    if (is_text) {
      if (id != "A" && id != "B") return inner["id"].unknown(id, "A, B");
      out.push_back({id == "A" ? PieceKind::First : PieceKind::Second, 0, type});
      continue;
    }
    const JsonNode ids = specials[id]["ids"];
    if (!ids.is(JsonValue::Kind::Array)) return ids.expected("a list");
    size_t which = 0;
    for (const JsonValue& number : ids.value->items()) {
      uint32_t token = 0;
      MLC_RETURN_IF_ERROR(ids.item(number, which++).number(kMaxTokenIds - 1, token));
      out.push_back({PieceKind::Token, token, type});
    }
  }
  if (out.size() > kMaxTemplatePieces)
    return Status(Code::Unsupported, "{} has {} pieces, at most {} are covered", node.path, uint64_t{out.size()}, kMaxTemplatePieces);
  return ok();
}

Status set_template(const JsonNode& node, Draft& draft, std::vector<TemplatePiece> single, std::vector<TemplatePiece> pair) {
  if (!draft.single.empty()) return Status(Code::Unsupported, "{} is a second template", node.path);
  draft.single = std::move(single), draft.pair = std::move(pair);
  return ok();
}

Status one_processor(const JsonNode& node, const std::string& type, Draft& draft) {
  if (type == "ByteLevel") return read_trimming(node, draft);
  if (type == "TemplateProcessing") {
    std::vector<TemplatePiece> single, pair;
    MLC_RETURN_IF_ERROR(read_pieces(node["single"], node["special_tokens"], single));
    MLC_RETURN_IF_ERROR(read_pieces(node["pair"], node["special_tokens"], pair));
    for (const TemplatePiece& piece : single)
      if (piece.kind == PieceKind::Second) return Status(Code::Malformed, "{} names the second text, and there is one", node["single"].path);
    return set_template(node, draft, std::move(single), std::move(pair));
  }
  const bool is_bert = type == "BertProcessing";
  if (!is_bert && type != "RobertaProcessing") return node["type"].unknown(type, kProcessors);
  uint32_t begin = 0, end = 0;
  MLC_RETURN_IF_ERROR(read_named_id(node["cls"], draft, begin));
  MLC_RETURN_IF_ERROR(read_named_id(node["sep"], draft, end));
  const uint32_t second = is_bert ? 1 : 0;
  std::vector<TemplatePiece> single = {{PieceKind::Token, begin, 0}, {PieceKind::First, 0, 0}, {PieceKind::Token, end, 0}}, pair = single;
  if (!is_bert) {
    MLC_RETURN_IF_ERROR(read_trimming(node, draft));
    pair.push_back({PieceKind::Token, end, second});
  }
  pair.push_back({PieceKind::Second, 0, second}), pair.push_back({PieceKind::Token, end, second});
  return set_template(node, draft, std::move(single), std::move(pair));
}

// Behind Fuse all is one text.
bool is_fused(const Draft& draft) { return draft.fused || (!draft.decoder.empty() && draft.decoder.back().kind == StepKind::PieceBytes); }

Status decode_strip(const JsonNode& node, Draft& draft) {
  uint32_t start = 0, stop = 0;
  MLC_RETURN_IF_ERROR(node["start"].number(kNone, start));
  MLC_RETURN_IF_ERROR(node["stop"].number(kNone, stop));
  add(draft.decoder, draft, is_fused(draft) ? StepKind::TextStrip : StepKind::PieceStrip, start, stop);
  return put_text(node["content"], draft, draft.decoder.back().text);
}

Status decode_ctc(const JsonNode& node, Draft& draft) {
  bool cleanup = true;
  MLC_RETURN_IF_ERROR(node["cleanup"].flag(cleanup));
  add(draft.decoder, draft, StepKind::PieceCtc, cleanup);
  MLC_RETURN_IF_ERROR(put_text(node["pad_token"], draft, draft.decoder.back().text));
  return put_text(node["word_delimiter_token"], draft, draft.decoder.back().other);
}

Status one_decoder(const JsonNode& node, const std::string& type, Draft& draft) {
  if (type == "Fuse") return draft.fused = true, ok();
  if (type == "Strip") return decode_strip(node, draft);
  static constexpr std::string_view kOthers[] = {"WordPiece", "ByteLevel", "Metaspace", "ByteFallback", "Replace", "BPEDecoder", "CTC"};
  if (std::find(std::begin(kOthers), std::end(kOthers), type) == std::end(kOthers)) return node["type"].unknown(type, kDecoders);
  if (is_fused(draft)) return Status(Code::Unsupported, "{}: '{}' behind what makes one text of all tokens is not covered", node["type"].path, type);
  if (type == "ByteLevel") return add(draft.decoder, draft, StepKind::PieceBytes), ok();
  if (type == "ByteFallback") return add(draft.decoder, draft, StepKind::PieceFallback), ok();
  if (type == "Replace") return read_replace(node, draft, {StepKind::PieceReplace, StepKind::PieceReplacePattern}, draft.decoder);
  if (type == "Metaspace") {
    TextRef replacement{};
    std::string scheme;
    MLC_RETURN_IF_ERROR(read_metaspace(node, draft, replacement, scheme));
    add(draft.decoder, draft, StepKind::PieceMeta, scheme != "never");
    return draft.decoder.back().text = replacement, ok();
  }
  if (type == "CTC") return decode_ctc(node, draft);
  if (type == "BPEDecoder") {
    add(draft.decoder, draft, StepKind::PieceSuffix);
    return put_text(node["suffix"], draft, draft.decoder.back().text);
  }
  bool cleanup = true;
  MLC_RETURN_IF_ERROR(node["cleanup"].flag(cleanup));
  add(draft.decoder, draft, StepKind::PieceWords, cleanup);
  return put_text(node["prefix"], draft, draft.decoder.back().text);
}

// A list of steps that a reader would not take.
Status check_steps(const JsonNode& node, const std::vector<Step>& steps) {
  if (steps.size() <= kMaxTextSteps) return ok();
  return Status(Code::Unsupported, "{} has {} steps, at most {} are covered", node.path, uint64_t{steps.size()}, kMaxTextSteps);
}

}  // namespace

Status read_normalizer(const JsonNode& node, Draft& draft) {
  MLC_RETURN_IF_ERROR(each_of_sequence(node, "normalizers", [&](const JsonNode& one, const std::string& type) { return one_normalizer(one, type, draft); }));
  return check_steps(node, draft.normalizer);
}

Status read_splitter(const JsonNode& node, Draft& draft) {
  MLC_RETURN_IF_ERROR(each_of_sequence(node, "pretokenizers", [&](const JsonNode& one, const std::string& type) { return one_splitter(one, type, draft); }));
  return check_steps(node, draft.splitter);
}

Status read_processor(const JsonNode& node, Draft& draft) {
  MLC_RETURN_IF_ERROR(each_of_sequence(node, "processors", [&](const JsonNode& one, const std::string& type) { return one_processor(one, type, draft); }));
  if (draft.single.empty()) {
    draft.single = {{PieceKind::First, 0, 0}};
    draft.pair = {{PieceKind::First, 0, 0}, {PieceKind::Second, 0, 1}};
  }
  return ok();
}

Status read_decoder(const JsonNode& node, Draft& draft) {
  MLC_RETURN_IF_ERROR(each_of_sequence(node, "decoders", [&](const JsonNode& one, const std::string& type) { return one_decoder(one, type, draft); }));
  return check_steps(node, draft.decoder);
}

}  // namespace mlc::text
