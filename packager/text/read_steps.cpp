#include "packager/text/draft.h"

namespace mlc::text {
namespace {

constexpr std::string_view kNormalizers = "BertNormalizer, NFD, Lowercase, Strip, Replace, Prepend, ByteLevel, Sequence";
constexpr std::string_view kSplitters = "BertPreTokenizer, ByteLevel, Whitespace, WhitespaceSplit, Punctuation, Digits, Sequence";
constexpr std::string_view kProcessors = "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, Sequence";
constexpr std::string_view kDecoders = "WordPiece, ByteLevel, Sequence";

// Adds a step and what it asks of code points.
void add(std::vector<Step>& steps, Draft& draft, StepKind kind, uint32_t a = 0, uint32_t b = 0) {
  steps.push_back({kind, a, b, {0, 0}, {0, 0}});
  switch (kind) {
    case StepKind::Remove:
    case StepKind::Blank:
    case StepKind::Surround:
    case StepKind::SplitClass: draft.classes |= static_cast<uint16_t>(a); break;
    case StepKind::Decompose: draft.classes |= kDecomposed | kOrdered; break;
    case StepKind::Lower: draft.classes |= kLowered; break;
    case StepKind::Strip: draft.classes |= kSpace; break;
    case StepKind::SplitWords: draft.classes |= kSpace | kLetter | kNumber; break;
    case StepKind::Replace:
    case StepKind::Prepend:
    case StepKind::Bytes:
    case StepKind::PrependBlank:
    case StepKind::PieceWords:
    case StepKind::PieceBytes:
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

Status read_replace(const JsonNode& node, Draft& draft) {
  const JsonNode pattern = node["pattern"];
  if (!pattern.is(JsonValue::Kind::Object)) return pattern.expected("an object with 'String'");
  if (pattern["String"].absent()) return Status(Code::Unsupported, "{}: only patterns of kind 'String' are covered", pattern.path);
  add(draft.normalizer, draft, StepKind::Replace);
  MLC_RETURN_IF_ERROR(put_text(pattern["String"], draft, draft.normalizer.back().text));
  if (draft.normalizer.back().text.length == 0) return Status(Code::Unsupported, "{} is empty", pattern["String"].path);
  return put_text(node["content"], draft, draft.normalizer.back().other);
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
  if (type == "Replace") return read_replace(node, draft);
  if (type == "Strip") return read_strip(node, draft);
  if (type == "NFD") return add(draft.normalizer, draft, StepKind::Decompose), ok();
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
  if (type != "ByteLevel") return node["type"].unknown(type, kSplitters);
  bool blank = true, words = true;
  MLC_RETURN_IF_ERROR(node["add_prefix_space"].flag(blank));
  MLC_RETURN_IF_ERROR(node["use_regex"].flag(words));
  if (blank) add(draft.splitter, draft, StepKind::PrependBlank);
  if (words) add(draft.splitter, draft, StepKind::SplitWords);
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

Status read_pieces(const JsonNode& node, const JsonNode& specials, const Draft& draft, std::vector<TemplatePiece>& out) {
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
  (void)draft;
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
    MLC_RETURN_IF_ERROR(read_pieces(node["single"], node["special_tokens"], draft, single));
    MLC_RETURN_IF_ERROR(read_pieces(node["pair"], node["special_tokens"], draft, pair));
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

Status one_decoder(const JsonNode& node, const std::string& type, Draft& draft) {
  if (type == "ByteLevel") return add(draft.decoder, draft, StepKind::PieceBytes), ok();
  if (type != "WordPiece") return node["type"].unknown(type, kDecoders);
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
