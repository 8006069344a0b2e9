#include "packager/cli/change/same_programs.h"

#include <algorithm>
#include <array>
#include <string>

#include "schema/pipeline/pipeline.h"

namespace mlc::cli {
namespace {

// Fields of steps that only the library reads, when it has what the compiled steps gave. All else decides what is compiled, or what reaches it.
struct FreeFields {
  std::string_view op;
  std::array<std::string_view, 5> names;
};
constexpr FreeFields kFree[] = {
    {"top_k", {"k", "labels", "label_offset"}},
    {"detections", {"labels", "label_offset"}},
    {"ctc_greedy", {"blank", "charset", "final_space"}},
    {"detokenize", {"skip_special"}},
    {"text_boxes", {"threshold", "box_threshold", "unclip_ratio", "min_side", "max_candidates"}},
};

bool is_free(const JsonValue& object, std::string_view field) {
  const JsonValue* op = object.find("op");
  if (op == nullptr) return field == "accept" || field == "comment";
  for (const FreeFields& free : kFree)
    if (free.op == op->text()) return std::find(free.names.begin(), free.names.end(), field) != free.names.end();
  return false;
}

// Where `now` differs, none if it does not. Recursion: as deep as the parser lets a text be.
std::optional<TextPosition> difference(const JsonValue& before, const JsonValue& now) {
  if (before.kind() != now.kind()) return now.where();
  switch (now.kind()) {
    case JsonValue::Kind::Null: return std::nullopt;
    case JsonValue::Kind::Bool: return before.boolean() == now.boolean() ? std::nullopt : std::optional(now.where());
    case JsonValue::Kind::Integer: return before.as_i64() == now.as_i64() && before.as_u64() == now.as_u64() ? std::nullopt : std::optional(now.where());
    case JsonValue::Kind::Real: return before.number() == now.number() ? std::nullopt : std::optional(now.where());
    case JsonValue::Kind::String: return before.text() == now.text() ? std::nullopt : std::optional(now.where());
    case JsonValue::Kind::Array: {
      if (before.size() != now.size()) return now.where();
      auto old = before.items().begin();
      for (const JsonValue& item : now.items()) {
        if (auto found = difference(*old, item)) return found;
        ++old;
      }
      return std::nullopt;
    }
    case JsonValue::Kind::Object: {
      for (const auto& [key, value] : now.members()) {
        if (is_free(now, key.text())) continue;
        const JsonValue* old = before.find(key.text());
        if (old == nullptr) return key.where();
        if (auto found = difference(*old, value)) return found;
      }
      for (const auto& [key, value] : before.members())
        if (now.find(key.text()) == nullptr && !is_free(before, key.text())) return now.where();
      return std::nullopt;
    }
  }
  return now.where();
}

}  // namespace

Status check_same_programs(std::string_view before, std::string_view now, std::string_view name) {
  MLC_ASSIGN(const JsonDocument old, parse_json(before, "pipeline.json", pipeline::kTextLimits));
  MLC_ASSIGN(const JsonDocument fresh, parse_json(now, name, pipeline::kTextLimits));
  const auto where = difference(old.root(), fresh.root());
  if (!where) return ok();
  return Status(Code::Unsupported, std::string(name) + ":" + std::to_string(where->line) + ":" + std::to_string(where->column) +
                                       ": differs from the pipeline of the file in what is compiled")
      .fact("without compiling can change: of top_k k, labels and label_offset; of detections labels and label_offset; of ctc_greedy charset, blank and final_space; "
            "of detokenize skip_special; of text_boxes the thresholds; of inputs accept")
      .hint("mlpack build with this pipeline");
}

}  // namespace mlc::cli
