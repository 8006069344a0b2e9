#include <utility>

#include "packager/text/draft.h"

namespace mlc::text {
namespace {

constexpr std::string_view kModels = "WordPiece, BPE, Unigram, WordLevel";

Status check_length(const JsonNode& node, std::string_view text) {
  if (text.size() <= kMaxTokenLen) return ok();
  return Status(Code::Unsupported, "{}: '{}...' has {} bytes, at most {} are covered", node.path, text.substr(0, 32), uint64_t{text.size()}, kMaxTokenLen);
}

Status read_vocabulary(const JsonNode& node, Draft& draft) {
  if (!node.is(JsonValue::Kind::Object)) return node.expected("an object");
  std::vector<bool> seen;
  for (const auto& [key, value] : node.value->members()) {
    uint32_t id = 0;
    MLC_RETURN_IF_ERROR(check_length(node, key.text()));
    const JsonNode member{&value, node.path + "." + std::string(key.text())};
    MLC_RETURN_IF_ERROR(member.number(kMaxTokenIds - 1, id));
    if (id >= seen.size()) seen.resize(id + 1);
    if (seen[id]) return Status(Code::Malformed, "{} has id {}, which another token has", member.path, id);
    seen[id] = true;
    draft.vocabulary.emplace(key.text(), id);
  }
  return ok();
}

// Where it is not null: a token of the vocabulary.
Status read_unknown(const JsonNode& node, Draft& draft) {
  if (node.absent()) return ok();
  std::string text;
  MLC_RETURN_IF_ERROR(node.text(text));
  const auto found = draft.vocabulary.find(text);
  if (found == draft.vocabulary.end()) return Status(Code::Malformed, "{}: '{}' is no token of the vocabulary", node.path, text);
  draft.options.unknown = found->second;
  return ok();
}

Status read_affix(const JsonNode& node, Draft& draft, TextRef& out) {
  if (node.absent()) return ok();
  std::string text;
  MLC_RETURN_IF_ERROR(node.text(text));
  MLC_RETURN_IF_ERROR(check_length(node, text));
  return out = draft.put(text), ok();
}

// "left right", or a list of both.
Status read_pair(const JsonNode& node, std::string& left, std::string& right) {
  if (node.is(JsonValue::Kind::String)) {
    const std::string_view text = node.value->text();
    const size_t blank = text.find(' ');
    if (blank == std::string_view::npos || text.find(' ', blank + 1) != std::string_view::npos)
      return Status(Code::Malformed, "{} is '{}', expected two tokens with one blank between them", node.path, text);
    return left = text.substr(0, blank), right = text.substr(blank + 1), ok();
  }
  if (!node.is(JsonValue::Kind::Array) || node.value->size() != 2) return node.expected("two tokens");
  size_t index = 0;
  for (const JsonValue& item : node.value->items()) {
    MLC_RETURN_IF_ERROR(node.item(item, index).text(index == 0 ? left : right));
    ++index;
  }
  return ok();
}

Status read_merges(const JsonNode& node, std::string_view prefix, Draft& draft) {
  if (!node.is(JsonValue::Kind::Array)) return node.expected("a list");
  std::map<std::pair<uint32_t, uint32_t>, size_t> seen;
  size_t index = 0;
  for (const JsonValue& item : node.value->items()) {
    const JsonNode merge = node.item(item, index);
    std::string left, right;
    MLC_RETURN_IF_ERROR(read_pair(merge, left, right));
    const std::string result = left + (right.size() >= prefix.size() ? right.substr(prefix.size()) : std::string());
    uint32_t ids[3];
    size_t which = 0;
    for (const std::string* text : {&std::as_const(left), &std::as_const(right), &result}) {
      const auto found = draft.vocabulary.find(*text);
      if (found == draft.vocabulary.end()) return Status(Code::Malformed, "{}: '{}' is no token of the vocabulary", merge.path, *text);
      ids[which++] = found->second;
    }
    const Merge made{ids[0], ids[1], static_cast<uint32_t>(index++), ids[2]};
    const auto [at, is_new] = seen.try_emplace({ids[0], ids[1]}, draft.merges.size());
    if (is_new) draft.merges.push_back(made);
    else draft.merges[at->second] = made;  // the last one counts
  }
  return ok();
}

Status read_word_piece(const JsonNode& node, Draft& draft) {
  draft.options.model = Model::WordPiece;
  if (node["unk_token"].absent()) return node["unk_token"].expected("a string");
  MLC_RETURN_IF_ERROR(read_affix(node["continuing_subword_prefix"], draft, draft.options.continuing));
  draft.options.max_word_chars = 100;
  if (const JsonNode most = node["max_input_chars_per_word"]; !most.absent()) MLC_RETURN_IF_ERROR(most.number(kMaxTokenLen, draft.options.max_word_chars));
  return ok();
}

Status read_bpe(const JsonNode& node, Draft& draft) {
  draft.options.model = Model::Bpe;
  if (const JsonNode dropout = node["dropout"]; !dropout.absent() && dropout.value->number() != 0)
    return Status(Code::Unsupported, "{}: dropout draws merges at random, which no answer can be compared with; expected null", dropout.path);
  MLC_RETURN_IF_ERROR(read_affix(node["continuing_subword_prefix"], draft, draft.options.continuing));
  MLC_RETURN_IF_ERROR(read_affix(node["end_of_word_suffix"], draft, draft.options.word_end));
  static constexpr std::pair<std::string_view, uint32_t> kFlags[] = {
      {"fuse_unk", kFuseUnknown}, {"byte_fallback", kByteFallback}, {"ignore_merges", kIgnoreMerges}};
  for (const auto& [name, bit] : kFlags) {
    bool set = false;
    MLC_RETURN_IF_ERROR(node[name].flag(set));
    if (set) draft.options.flags |= bit;
  }
  std::string prefix;
  if (const JsonNode text = node["continuing_subword_prefix"]; !text.absent()) MLC_RETURN_IF_ERROR(text.text(prefix));
  return read_merges(node["merges"], prefix, draft);
}

// A list of tokens with their scores, in the order of the ids.
Status read_scores(const JsonNode& node, Draft& draft) {
  if (!node.is(JsonValue::Kind::Array)) return node.expected("a list");
  size_t index = 0;
  for (const JsonValue& item : node.value->items()) {
    const JsonNode pair = node.item(item, index);
    if (index >= kMaxTokenIds) return Status(Code::Unsupported, "{} has more than {} tokens", node.path, kMaxTokenIds);
    if (!pair.is(JsonValue::Kind::Array) || pair.value->size() != 2) return pair.expected("a token and its score");
    const JsonValue& text = *pair.value->items().begin();
    const JsonValue& score = *++pair.value->items().begin();
    if (!text.is(JsonValue::Kind::String)) return pair.item(text, 0).expected("a string");
    if (!score.is(JsonValue::Kind::Real) && !score.is(JsonValue::Kind::Integer)) return pair.item(score, 1).expected("a number");
    MLC_RETURN_IF_ERROR(check_length(pair, text.text()));
    // Of a text that is there twice the last id is found, as in the reference; the others still have it.
    if (const auto [at, is_new] = draft.vocabulary.emplace(text.text(), static_cast<uint32_t>(index)); !is_new)
      draft.unfound.push_back({at->first, std::exchange(at->second, static_cast<uint32_t>(index))});
    draft.scores.push_back(score.number());
    ++index;
  }
  return ok();
}

Status read_unigram(const JsonNode& node, Draft& draft) {
  draft.options.model = Model::Unigram;
  if (const JsonNode alpha = node["alpha"]; !alpha.absent() && alpha.value->number() != 0)
    return Status(Code::Unsupported, "{}: tokens would be drawn at random, which no answer can be compared with; expected null", alpha.path);
  MLC_RETURN_IF_ERROR(read_scores(node["vocab"], draft));
  MLC_RETURN_IF_ERROR(node["unk_id"].number(kMaxTokenIds - 1, draft.options.unknown));
  if (draft.options.unknown >= draft.scores.size())
    return Status(Code::Malformed, "{} is {}, and there are {} tokens", node["unk_id"].path, draft.options.unknown, uint64_t{draft.scores.size()});
  bool bytes = false;
  MLC_RETURN_IF_ERROR(node["byte_fallback"].flag(bytes));
  if (bytes) draft.options.flags |= kByteFallback;
  return ok();
}

// Files of the first versions do not name it.
Status model_type(const JsonNode& node, std::string& out) {
  if (!node["type"].absent()) return node["type"].text(out);
  if (node["vocab"].is(JsonValue::Kind::Array)) return out = "Unigram", ok();
  out = node["merges"].absent() ? (node["continuing_subword_prefix"].absent() ? "WordLevel" : "WordPiece") : "BPE";
  return ok();
}

}  // namespace

Status read_model(const JsonNode& node, Draft& draft) {
  if (!node.is(JsonValue::Kind::Object)) return node.expected("an object");
  std::string type;
  MLC_RETURN_IF_ERROR(model_type(node, type));
  if (type == "Unigram") return read_unigram(node, draft);
  if (type != "WordPiece" && type != "BPE" && type != "WordLevel") return node["type"].unknown(type, kModels);
  MLC_RETURN_IF_ERROR(read_vocabulary(node["vocab"], draft));
  MLC_RETURN_IF_ERROR(read_unknown(node["unk_token"], draft));
  if (type == "WordPiece") return read_word_piece(node, draft);
  if (type == "BPE") return read_bpe(node, draft);
  draft.options.model = Model::WordLevel;
  return ok();
}

Status read_added(const JsonNode& node, Draft& draft) {
  if (node.absent()) return ok();
  if (!node.is(JsonValue::Kind::Array)) return node.expected("a list");
  static constexpr std::pair<std::string_view, uint32_t> kFlags[] = {
      {"single_word", kSingleWord}, {"lstrip", kStripLeft}, {"rstrip", kStripRight}, {"normalized", kNormalized}, {"special", kSpecial}};
  std::map<uint32_t, std::string> ids;
  size_t index = 0;
  for (const JsonValue& item : node.value->items()) {
    const JsonNode token = node.item(item, index++);
    DraftAdded added{};
    MLC_RETURN_IF_ERROR(token["content"].text(added.content));
    MLC_RETURN_IF_ERROR(check_length(token["content"], added.content));
    MLC_RETURN_IF_ERROR(token["id"].number(kMaxTokenIds - 1, added.added.id));
    if (added.content.empty()) continue;  // as the reference does
    for (const auto& [name, bit] : kFlags) {
      bool set = false;
      MLC_RETURN_IF_ERROR(token[name].flag(set));
      if (set) added.added.flags |= bit;
    }
    if (const uint32_t id = draft.id_of(added.content); id != kNone && id != added.added.id)
      return Status(Code::Malformed, "{} is {}, and the token '{}' has id {} before it", token["id"].path, added.added.id, added.content, id);
    if (const auto [at, is_new] = ids.try_emplace(added.added.id, added.content); !is_new)
      return Status(Code::Malformed, "{} is {}, which the token '{}' has", token["id"].path, added.added.id, at->second);
    draft.classes |= (added.added.flags & kSingleWord ? kWordChar : 0) | (added.added.flags & (kStripLeft | kStripRight) ? kSpace : 0);
    added.normalized = added.content;
    draft.added.push_back(std::move(added));
  }
  return ok();
}

}  // namespace mlc::text
