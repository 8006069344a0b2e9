// Private to packager/model_folder: a file of JSON in a folder.
#pragma once

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>

#include "base/files/regular_file.h"
#include "base/status.h"
#include "base/text/json.h"

namespace mlc::model_folder {

inline constexpr JsonLimits kFolderFileLimits{.bytes = 16 << 20, .depth = 32, .values = 1'000'000};
inline constexpr int64_t kNoLength = 1 << 20;  // Transformers writes 10^30 for a tokenizer without a length

inline bool is_there(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::exists(path, unknown);
}

// One JSON file; its keys are asked for one by one.
class FolderFile {
 public:
  static Result<FolderFile> read(const std::string& folder, const std::string& name) {
    MLC_ASSIGN(const std::string text, read_regular_file(folder + "/" + name, kFolderFileLimits.bytes, Code::Usage));
    MLC_ASSIGN(JsonDocument document, parse_json(text, name, kFolderFileLimits));
    return FolderFile(name, std::move(document));
  }
  // As if it held nothing where it is missing.
  static Result<FolderFile> read_optional(const std::string& folder, const std::string& name) {
    if (is_there(folder + "/" + name)) return read(folder, name);
    MLC_ASSIGN(JsonDocument document, parse_json("{}", name, kFolderFileLimits));
    return FolderFile(name, std::move(document));
  }

  const JsonValue& root() const { return document_.root(); }
  // Null where it is missing or null.
  const JsonValue* find(std::string_view key) const {
    const JsonValue* value = root().find(key);
    return value && !value->is(JsonValue::Kind::Null) ? value : nullptr;
  }
  Status wrong(std::string_view key, std::string_view what) const { return Status(Code::Usage, "{}: '{}' {}", name_, key, what).hint("--pipeline FILE says all of it by hand"); }

  // -1 where it is missing.
  Result<int64_t> whole(std::string_view key) const {
    const JsonValue* value = find(key);
    if (!value) return int64_t{-1};
    if (value->is(JsonValue::Kind::Real) && value->number() > 1e9) return kNoLength;
    if (!value->is(JsonValue::Kind::Integer)) return wrong(key, "is no whole number");
    const auto number = value->as_i64();
    return !number || *number > kNoLength ? kNoLength : *number;
  }
  Result<bool> flag(std::string_view key, bool otherwise) const {
    const JsonValue* value = find(key);
    if (!value) return otherwise;
    if (!value->is(JsonValue::Kind::Bool)) return wrong(key, "is neither true nor false");
    return value->boolean();
  }
  Result<std::string> side(std::string_view key) const {
    const JsonValue* value = find(key);
    if (!value) return std::string("right");
    if (value->text() != "right" && value->text() != "left") return wrong(key, "is neither right nor left");
    return std::string(value->text());
  }
  // All its keys are among these.
  Status knows(std::initializer_list<std::string_view> keys) const {
    if (!root().is(JsonValue::Kind::Object)) return Status(Code::Usage, "{} is {}, expected an object", name_, name_of(root().kind()));
    for (const auto& [key, value] : root().members())
      if (std::find(keys.begin(), keys.end(), key.text()) == keys.end()) return wrong(key.text(), "is not understood");
    return ok();
  }

 private:
  FolderFile(std::string name, JsonDocument document) : name_(std::move(name)), document_(std::move(document)) {}
  std::string name_;
  JsonDocument document_;
};

}  // namespace mlc::model_folder
