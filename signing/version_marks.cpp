#include "signing/version_marks.h"

#include <string.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <tuple>

#include "base/compose.h"
#include "signing/envelope.h"
#include "signing/files/owned_file.h"

namespace mlc::signing {

namespace {

constexpr std::string_view kFirstLine = "mlc-versions 1";
constexpr size_t kMaxLine = 64 + 1 + 20 + 1 + 255 + 1;
constexpr size_t kMaxFile = kFirstLine.size() + 1 + VersionMarks::kMaxMarks * kMaxLine;

std::string path_in(const std::string& state_folder) { return state_folder + "/versions"; }

// A decimal from 1 to 2^64-1 in its one spelling.
bool read_version(std::string_view text, uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && text[0] != '0';
}

}  // namespace

Result<VersionMarks> VersionMarks::load(const std::string& state_folder) {
  const std::string path = path_in(state_folder);
  MLC_ASSIGN(const std::optional<std::string> text, read_owned_file(path, kMaxFile));
  return text ? parse(*text, path) : VersionMarks();
}

Result<VersionMarks> VersionMarks::parse(std::string_view text, const std::string& name) {
  VersionMarks out;
  for (size_t line = 1; !text.empty() || line == 1; ++line) {
    const auto damaged = [&](const char* why) {
      return Status(Code::Usage, 3306, "{}:{}: {}", name, line, why)
          .hint("mv {} {}.damaged forgets which versions were seen", name, name);
    };
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return damaged("the line does not end, the file is cut off");
    const std::string_view content = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line == 1) {
      if (content != kFirstLine) return damaged("not a list of versions of this format");
      continue;
    }
    if (out.marks_.size() == kMaxMarks) return damaged("more lines than there may be");
    const size_t space = content.find(' ', 65);
    if (content.size() < 68 || content[64] != ' ' || space == std::string_view::npos) return damaged("not a mark");
    const auto key = digest_from_hex(content.substr(0, 64));
    Mark mark{{}, std::string(content.substr(space + 1)), 0};
    if (!key || !read_version(content.substr(65, space - 65), mark.version) || !is_model_id(mark.model))
      return damaged("not a mark");
    mark.key = *key;
    if (out.place_of(mark.key, mark.model) != out.marks_.size() || out.version(mark.key, mark.model) != 0)
      return damaged("not in order");
    out.marks_.push_back(std::move(mark));
  }
  return out;
}

std::string VersionMarks::encode() const {
  std::string text(kFirstLine);
  text += '\n';
  for (const Mark& mark : marks_) text += compose("{} {} {}\n", to_hex(mark.key), mark.version, mark.model);
  return text;
}

size_t VersionMarks::place_of(const Digest& key, std::string_view model) const {
  const auto before = [&](const Mark& mark, const Digest&) {
    return std::tuple(mark.key, std::string_view(mark.model)) < std::tuple(key, model);
  };
  return static_cast<size_t>(std::lower_bound(marks_.begin(), marks_.end(), key, before) - marks_.begin());
}

uint64_t VersionMarks::version(const Digest& key, std::string_view model_id) const {
  const size_t place = place_of(key, model_id);
  const bool found = place < marks_.size() && marks_[place].key == key && marks_[place].model == model_id;
  return found ? marks_[place].version : 0;
}

bool VersionMarks::raise(const Digest& key, std::string_view model_id, uint64_t version) {
  const size_t place = place_of(key, model_id);
  if (this->version(key, model_id) != 0) {
    marks_[place].version = std::max(marks_[place].version, version);
    return true;
  }
  if (marks_.size() == kMaxMarks) return false;
  marks_.insert(marks_.begin() + static_cast<ptrdiff_t>(place), Mark{key, std::string(model_id), version});
  return true;
}

Status remember_version(const std::string& state_folder, std::span<const Digest> keys, std::string_view model_id,
                        uint64_t version) {
  MLC_ASSIGN(OwnedFolder folder, OwnedFolder::make(state_folder));
  MLC_RETURN_IF_ERROR(folder.lock());
  return remember_version(folder, keys, model_id, version);
}

Status remember_version(const OwnedFolder& locked, std::span<const Digest> keys, std::string_view model_id, uint64_t version) {
  const std::string& state_folder = locked.path();
  MLC_ASSIGN(VersionMarks marks, VersionMarks::load(state_folder));  // again: another process may have raised them
  for (const Digest& key : keys)
    if (!marks.raise(key, model_id, version))
      return Status(Code::Resource, 3306, "{}: {} versions are remembered, no more fit", path_in(state_folder),
                    VersionMarks::kMaxMarks)
          .hint("delete the lines of models that are no longer used");
  return replace_file(path_in(state_folder), marks.encode(), 0600);
}

}  // namespace mlc::signing
