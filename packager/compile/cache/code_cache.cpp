#include "packager/compile/cache/code_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/files/unfinished.h"
#include "signing/hash_tree.h"
#include "signing/user_key.h"

namespace mlc::compile {
namespace {

using signing::Descriptor;

constexpr std::string_view kMagic = "mlc code 1\n";
constexpr size_t kHeader = kMagic.size() + sizeof(Digest), kMaxEntry = size_t{1} << 28;
constexpr size_t kMaxNames = 1'000'000;
constexpr std::string_view kTemporary = ".new-";  // beginning of the names of entries that are being written
constexpr int64_t kAbandoned = 3600;              // seconds after which no writer of such a file is left

bool is_key(std::string_view name) {
  return name.size() == 64 && std::all_of(name.begin(), name.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// Of the key, which is the entry's name, and of its code.
Digest digest_of(const std::string& key, std::string_view code) { return sha256(to_hex(sha256(key)) + to_hex(sha256(code))); }

}  // namespace

struct CodeCache::Entry {
  std::string name;
  uint64_t bytes = 0;
  struct timespec used {};
};

Result<std::string> code_cache_folder() {
  MLC_ASSIGN(const std::string folder, signing::cache_folder());
  return folder + "/code";
}

Result<std::unique_ptr<CodeCache>> CodeCache::open(const std::string& folder) {
  MLC_ASSIGN(signing::OwnedFolder owned, signing::OwnedFolder::make(folder));
  if (::faccessat(owned.descriptor(), ".", W_OK, AT_EACCESS) != 0) return Status(Code::NotFound, folder + ": cannot be written");
  return std::unique_ptr<CodeCache>(new CodeCache(std::move(owned)));
}

std::optional<std::vector<std::byte>> CodeCache::find(const std::string& key) {
  const auto read = [&]() -> std::optional<std::vector<std::byte>> {
    const Descriptor fd(::openat(folder_.descriptor(), key.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat info;
    if (!fd.valid() || ::fstat(fd.get(), &info) != 0) return std::nullopt;
    if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 022) != 0) return std::nullopt;
    const auto text = signing::read_all(fd, key, kMaxEntry);
    if (!text.ok() || text->size() < kHeader || !text->starts_with(kMagic)) return std::nullopt;
    const std::string_view code = std::string_view(*text).substr(kHeader);
    const Digest expected = digest_of(key, code);
    if (std::memcmp(text->data() + kMagic.size(), expected.data(), expected.size()) != 0) return std::nullopt;
    ::futimens(fd.get(), nullptr);  // used now
    const auto bytes = std::as_bytes(std::span(code));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  auto code = read();
  ++(code ? found_ : missed_);
  return code;
}

void CodeCache::keep(const std::string& key, std::span<const std::byte> code) {
  if (code.size() + kHeader > kMaxEntry) return;
  const std::string_view text(reinterpret_cast<const char*>(code.data()), code.size());
  const Digest digest = digest_of(key, text);
  std::string bytes(kMagic);
  bytes.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  bytes += text;
  const std::string temporary = std::string(kTemporary) + std::to_string(::getpid()) + "-" + key;
  const Unfinished unfinished(folder_.path() + "/" + temporary);
  Descriptor fd(::openat(folder_.descriptor(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return;
  const bool written = signing::write_all(fd, bytes);
  if (!(fd.close() && written && ::renameat(folder_.descriptor(), temporary.c_str(), folder_.descriptor(), key.c_str()) == 0))
    ::unlinkat(folder_.descriptor(), temporary.c_str(), 0);
}

Result<std::vector<CodeCache::Entry>> CodeCache::entries() const {
  MLC_ASSIGN(const std::vector<std::string> names, folder_.names(kMaxNames));
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::vector<Entry> found;
  for (const std::string& name : names) {
    struct stat info;
    const bool temporary = name.starts_with(kTemporary);
    if ((!temporary && !is_key(name)) || ::fstatat(folder_.descriptor(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (temporary && now.tv_sec - info.st_mtim.tv_sec < kAbandoned) continue;
    found.push_back({name, static_cast<uint64_t>(info.st_size), info.st_mtim});
  }
  return found;
}

Result<CodeCache::Contents> CodeCache::contents() const {
  MLC_ASSIGN(const std::vector<Entry> all, entries());
  Contents sum;
  for (const Entry& entry : all) ++sum.entries, sum.bytes += entry.bytes;
  return sum;
}

Result<CodeCache::Contents> CodeCache::shrink(uint64_t bytes) {
  MLC_ASSIGN(std::vector<Entry> all, entries());
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec, a.name) < std::tie(b.used.tv_sec, b.used.tv_nsec, b.name);
  });
  uint64_t left = 0;
  for (const Entry& entry : all) left += entry.bytes;
  Contents removed;
  for (const Entry& entry : all) {
    if (left <= bytes && bytes > 0) break;
    left -= entry.bytes;
    if (::unlinkat(folder_.descriptor(), entry.name.c_str(), 0) != 0) continue;
    ++removed.entries, removed.bytes += entry.bytes;
  }
  return removed;
}

std::string code_key(const std::string& identity, const targets::Target& target, const std::string& kernel) {
  return to_hex(sha256(to_hex(sha256(identity)) + to_hex(sha256(target.name)) + to_hex(sha256(kernel))));
}

}  // namespace mlc::compile
