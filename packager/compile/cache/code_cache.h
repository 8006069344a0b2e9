// Compiled kernels that are kept from one build for the next, in a folder of the user's own:
//
//   $XDG_CACHE_HOME/mlc/code/   (or ~/.cache/mlc/code/)   mode 0700
//     <key>                     64 hexadecimal digits (code_key): "mlc code 1\n", SHA-256 of the key and of what follows, the code
//
// Nothing in it is needed: it may be removed at any time, by other builds too, and what is not as it should be is compiled again
// and replaced. The folder is believed only if no user but this user and root can change it (signing/files/owned_file.h), an entry only
// if it belongs to this user and its digest is right. The digest is against damage; against people there is the folder, and the
// audit of instructions, which looks at all code of a module wherever it came from.
//
// It is kept small: where entries are more than `limit` bytes at the end of a build, those used longest ago go.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/status.h"
#include "signing/files/owned_file.h"
#include "targets/target.h"

namespace mlc::compile {

// The folder of this user; NotFound if no home is known.
[[nodiscard]] Result<std::string> code_cache_folder();

class CodeCache final : public targets::CodeStore {
 public:
  static constexpr uint64_t kLimit = uint64_t{1} << 30;

  // Opens the folder, or makes it. Fails where it cannot be used: reason enough to do without.
  [[nodiscard]] static Result<std::unique_ptr<CodeCache>> open(const std::string& folder);

  std::optional<std::vector<std::byte>> find(const std::string& key) override;
  // Complete or not at all, and no error: a full disk is no reason for a build to fail.
  void keep(const std::string& key, std::span<const std::byte> code) override;

  size_t found() const { return found_; }      // by `find`, so far
  size_t missed() const { return missed_; }
  const std::string& folder() const { return folder_.path(); }

  struct Contents {
    size_t entries = 0;
    uint64_t bytes = 0;
  };
  [[nodiscard]] Result<Contents> contents() const;
  // Removes entries, those used longest ago first, until at most `bytes` are left; 0: all. What others remove meanwhile is gone
  // as well.
  [[nodiscard]] Result<Contents> shrink(uint64_t bytes);  // what was removed

 private:
  explicit CodeCache(signing::OwnedFolder folder) : folder_(std::move(folder)) {}
  struct Entry;
  [[nodiscard]] Result<std::vector<Entry>> entries() const;

  signing::OwnedFolder folder_;
  std::atomic<size_t> found_ = 0, missed_ = 0;
};

// What tells this compiler from all others: its version, and the build ids of this program and of every library it has loaded.
// Empty if the program was linked without one; then nothing may be kept.
const std::string& compiler_identity();
// What tells the part of it that turns kernels into code from all others: the archives of this project that do, by their bytes, and
// the build ids of every loaded library. What else changes in this program leaves code as it was. The whole compiler's where LLVM is
// no loaded library.
const std::string& code_generator_identity();
// The key of a kernel's code. `identity`: code_generator_identity. `kernel`: loop::kernel_key.
std::string code_key(const std::string& identity, const targets::Target& target, const std::string& kernel);

}  // namespace mlc::compile
