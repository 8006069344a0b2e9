// An open container: the one way from the bytes of a file to anything that may be used.
//
// `open` performs steps 1 to 7 of the open sequence (spec/container.md, "Opening"): file, header page, signature over
// header core and manifest, structure of the manifest, placement, policy. After it the manifest is a validated value,
// and nothing of the segments has been read. What runs next takes its bytes from here:
//
//   segment(i)            modules, plans, assets, golden, ...: read, hashed and decoded into memory of their own
//   acquire(i, off, len)  weights: mapped; each leaf of 1 MiB is hashed before its first use
//
// Every byte handed out was compared with a digest that the root covers. The signature verdict stands beside the
// content (`verdict()`): the caller decides what an unsigned file may do, except that `segment` never hands out native
// code of a file whose verdict does not allow it.
//
// Threads: every const member may be called from any thread at any time. Errors: Malformed (structure, truncated,
// foreign file), BadSignature (a digest or signature does not match; names the segment), Unsigned, Untrusted, Expired
// (policy), NotFound (file), Resource. The library installs no signal handler: a file that is truncated by another
// process while it is mapped raises SIGBUS on access; where others may write it is copied, unless that is not wanted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "runtime/verified.h"
#include "schema/manifest.h"
#include "signing/policy.h"

namespace mlc::container {

enum class Verify : uint8_t {
  Auto,  // as Copy where others than this user and root may write to the file or its folder, else as Lazy
  Lazy,  // weights are mapped; a leaf is hashed before its first use: it was good when checked
  Full,  // as Lazy, and every segment is hashed by open: the whole file was good at the start
  Copy,  // weights are read into memory, the copy is hashed and used: costs memory, immune to later writers
};

// A strict rule of the policy makes a copy of whatever can change, whichever of these is asked for.
struct OpenOptions {
  Verify verify = Verify::Auto;
  // Whom to trust; must outlive the call of `open` only. None: no key, so a signed file is "unknown signer".
  const signing::TrustSet* trust = nullptr;
  bool allow_unsigned = false;  // native code without a trusted signature
  bool allow_older = false;     // a version below one that was accepted before
  const signing::VersionMarks* marks = nullptr;  // the versions seen; must outlive the call of `open` only
  uint64_t now = 0;             // seconds since 1970, for expiry; 0: the system's clock
  const Allocator* allocator = nullptr;  // for weights that are copied and segments that are read; outlives the container and
                                         // what it hands out; null: the system
  unsigned workers = 1;         // threads that hash weights where all of them are verified, the caller's included
};

// Where the bytes come from (source.h): a file (mapped), a folder of parts (mapped), memory (an embedded container), or functions that read.
class Source;

// Steps 1 to 3 done: the file is open, its header page is well-formed, and its signatures, if it has any, belong to the
// bytes of header core and manifest, which were hashed and not looked into. A process that has privileges goes no further
// with a stranger's file, and lets one without open the rest (runtime/sandbox). Errors: as of `Container`.
class AuthenticatedFile {
 public:
  [[nodiscard]] static Result<AuthenticatedFile> open(const std::string& path);
  // `bytes` must outlive the result and the container made of it, and must not change. `name` is for messages.
  [[nodiscard]] static Result<AuthenticatedFile> open_memory(Bytes bytes, const std::string& name);
  [[nodiscard]] static Result<AuthenticatedFile> open_source(std::unique_ptr<Source> source);
  AuthenticatedFile(AuthenticatedFile&&) noexcept;
  ~AuthenticatedFile();

  const std::string& name() const;
  // None: the file ends before its body does. `Container::open` says what is missing.
  const std::optional<signing::Authentication>& authentication() const;
  uint64_t manifest_len() const;  // of the stored bytes, as the header page says
  // SHA-256 of all bytes of the file, its signatures included: what statements beside it name. Reads the whole file.
  [[nodiscard]] Result<Digest> file_digest() const;

 private:
  friend class Container;
  struct Parts;
  explicit AuthenticatedFile(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

class Container {
 public:
  // The remaining steps. `file` is used up.
  [[nodiscard]] static Result<std::unique_ptr<Container>> open(AuthenticatedFile file, const OpenOptions& options);
  // `path` must be a regular file, or a folder of parts (source.h); a symbolic link to it is followed, devices and pipes are refused.
  [[nodiscard]] static Result<std::unique_ptr<Container>> open(const std::string& path, const OpenOptions& options);
  // A container that is stored in memory, which must outlive the result and must not change. `name` is for messages.
  [[nodiscard]] static Result<std::unique_ptr<Container>> open_memory(Bytes bytes, const std::string& name,
                                                                      const OpenOptions& options);
  // From any source (source.h).
  [[nodiscard]] static Result<std::unique_ptr<Container>> open_source(std::unique_ptr<Source> source,
                                                                      const OpenOptions& options);
  ~Container();
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;

  const std::string& name() const;            // the path, or the name given to open_memory
  const format::Manifest& manifest() const;   // validated; valid as long as this object
  const Digest& root() const;                 // identifies the content, whatever its signer
  const signing::Verdict& verdict() const;    // signer, what may run, why
  bool native_allowed() const;                // verdict().may_run == AllVariants
  const std::vector<std::string>& notes() const;  // unknown optional things that were ignored

  // Index by name; none if there is no such item.
  std::optional<uint32_t> find_segment(std::string_view name) const;
  std::optional<uint32_t> find_tensor(std::string_view name) const;
  std::optional<uint32_t> find_variant(std::string_view name) const;
  std::optional<uint32_t> find_method(std::string_view name) const;
  std::optional<uint32_t> find_asset(std::string_view name) const;

  // Whether weights are copied into memory; else they are mapped.
  bool copies() const;
  // Malformed (E6001) if mapped bytes have changed since the file was opened, as far as its size and time tell: what was
  // computed meanwhile may be wrong. OK where nothing is mapped: bytes that are read are hashed then.
  [[nodiscard]] Status unchanged() const;

  bool present(uint32_t segment) const;  // false: left out of this copy of the file (thinned)
  uint64_t file_size() const;
  uint64_t segment_offset(uint32_t segment) const;  // of the stored bytes, 0 if absent; for tools
  uint64_t body_size() const;                       // where the signature block begins

  // The decoded bytes of a segment, owned by the result: read, hashed, then decoded. Not cached. Refuses the module of
  // a native variant unless native_allowed() (Unsigned or Untrusted), and weights larger than memory (Resource).
  [[nodiscard]] Result<VerifiedBytes> segment(uint32_t index) const;
  // The same for the bytes of a Ref: reads only what the range needs.
  [[nodiscard]] Result<VerifiedBytes> bytes(const format::Ref& ref) const;
  [[nodiscard]] Result<VerifiedBytes> asset(uint32_t index) const;  // also checks Asset::digest

  // Pointer to bytes [offset, offset + length) of a raw weights segment, valid as long as this object and readable to the end
  // of the line of 64 bytes in which the last one is (contents unspecified). Hashes the leaves of the range that are not yet known to be
  // good, on the calling thread; several threads share the work. A bad leaf poisons the container: this and every
  // later call fails with the same status. 256-aligned whenever `offset` is.
  [[nodiscard]] Result<const std::byte*> acquire(uint32_t segment, uint64_t offset, uint64_t length) const;
  // Hashes those leaves of the range that are not hashed or being hashed, and does not wait: how several threads divide
  // what they will acquire. Damage poisons the container; everything that fails is told by `acquire`.
  void prepare(uint32_t segment, uint64_t offset, uint64_t length) const;
  // The primary copy of a tensor (null with OK for one without elements).
  [[nodiscard]] Result<const std::byte*> acquire_tensor(uint32_t tensor) const;

  // Hashes and decodes a present segment and hands out nothing, so also native code that may not run.
  [[nodiscard]] Status check(uint32_t segment) const;
  // Hashes every present segment, and decodes and checks padding inside. OK, or the first failure. Weights are hashed by
  // OpenOptions::workers threads.
  [[nodiscard]] Status verify_all() const;
  // The same, reporting every segment's failure: one Status per damaged segment.
  [[nodiscard]] std::vector<Status> verify_report() const;

 private:
  struct State;
  [[nodiscard]] Status may_read(uint32_t segment) const;
  [[nodiscard]] Status may_decode(uint32_t segment, uint64_t length) const;
  [[nodiscard]] Status check_asset(uint32_t index) const;
  void prepare_weights() const;
  explicit Container(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mlc::container
