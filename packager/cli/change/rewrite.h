// A container made of another one: a new manifest, and so a new root, around segments that stay as they are stored.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "packager/cli/container_file.h"
#include "packager/container/builder.h"

namespace mlc::cli {

// What the new file is signed with. Signatures of the file before are of another root, so none of them stays.
struct Resign {
  std::string key_file, passphrase;  // empty: this user's own key where the file was signed by a key that this user trusts, else none
  bool no_sign = false;
};

// Whether a key that this user trusts has signed the file, as mlrun decides it for a user who asks for nothing.
[[nodiscard]] bool is_signed_by_trusted(const ContainerFile& file);

// Bytes in place of those of an asset, or of an asset that is new.
struct NewAsset {
  std::string name, media;
  std::vector<std::byte> bytes;
};

struct Rewritten {
  Digest root{}, parent{};
  std::string output, key_name;  // key_name is empty where the new file is not signed
  size_t signatures_before = 0;
  uint64_t bytes = 0;
};

class Rewrite {
 public:
  // Refuses files of which a later version of the format knows more: that would be lost.
  [[nodiscard]] static Result<Rewrite> of(const std::string& path);

  const ContainerFile& file() const { return *file_; }
  // Its indices are handles of the builder.
  format::Manifest& manifest() { return builder_.manifest; }
  container::ContainerBuilder& builder() { return builder_; }
  [[nodiscard]] Result<std::vector<std::byte>> asset(uint32_t index) const;
  // Once at most. Assets that are not named stay.
  [[nodiscard]] Status replace_assets(const std::vector<NewAsset>& assets);

  // An untrusted signer's file is signed only where a key is named: a signature says that its code may run.
  // `accept`, which may be empty, is asked of the new file before it gets its name.
  [[nodiscard]] Result<Rewritten> write(const std::string& output, const Resign& resign, bool force, const std::function<Status(const OpenContainer&)>& accept = {});

 private:
  explicit Rewrite(ContainerFile file) : file_(std::make_unique<ContainerFile>(std::move(file))) {}
  std::unique_ptr<ContainerFile> file_;  // segments read from it
  container::ContainerBuilder builder_;
};

}  // namespace mlc::cli
