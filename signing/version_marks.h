// The versions seen: for each signer and model, the highest version of it that was accepted on this account. An older one
// is refused from then on (spec/signing.md, section 8): a signature does not end when a better model is published, so
// an attacker who can replace files could otherwise bring back one with a known fault.
//
//   <state folder>/versions   mode 0600, at most kMaxMarks lines behind the first, sorted, no line ends but '\n':
//     mlc-versions 1
//     <key id, 64 lower-case hex digits> <version, decimal> <model id>
//
// A mark belongs to a key: what another key signs cannot raise it, and the marks of a key that is no longer trusted do
// not count. The file is one of those of owned_file.h; one that is damaged is an error (E3306), never empty.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "signing/hash_tree.h"

namespace mlc::signing {

class OwnedFolder;

class VersionMarks {
 public:
  static constexpr size_t kMaxMarks = 4096;

  // What the folder's file says; nothing seen if there is none.
  [[nodiscard]] static Result<VersionMarks> load(const std::string& state_folder);
  // Usage E3306 with the line. `name` is for messages.
  [[nodiscard]] static Result<VersionMarks> parse(std::string_view text, const std::string& name);
  [[nodiscard]] std::string encode() const;  // parse(encode()) is the same

  // 0 if none of this model was seen with that key's signature.
  uint64_t version(const Digest& key, std::string_view model_id) const;
  // False if the mark would be one too many.
  [[nodiscard]] bool raise(const Digest& key, std::string_view model_id, uint64_t version);

 private:
  struct Mark {
    Digest key;
    std::string model;
    uint64_t version;
  };
  size_t place_of(const Digest& key, std::string_view model) const;  // of the first mark that is not less

  std::vector<Mark> marks_;  // ascending by key and model
};

// Raises the marks of these keys to `version`, in the file: under a lock of the folder, which is made if need be, so that
// no process loses what another one saw; complete or not at all.
[[nodiscard]] Status remember_version(const std::string& state_folder, std::span<const Digest> keys,
                                      std::string_view model_id, uint64_t version);
// The same of a folder that the caller holds locked.
[[nodiscard]] Status remember_version(const OwnedFolder& locked, std::span<const Digest> keys, std::string_view model_id, uint64_t version);

}  // namespace mlc::signing
