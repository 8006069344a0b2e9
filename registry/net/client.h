// A registry, as the distribution specification describes it: manifests and blobs, read and written. Here is what a registry may make
// this program do: where its redirects may lead, which host gets a password, how often is asked (spec/registry.md, section 3).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "registry/net/credentials.h"
#include "registry/net/http.h"
#include "registry/texts/manifest.h"
#include "registry/texts/reference.h"

namespace mlc::registry {

inline constexpr uint32_t kParallel = 4;

struct ClientOptions {
  bool plain_http = false;  // http:// to any host; else to this machine only
  uint32_t timeout = 60;    // seconds without a byte
  uint32_t parallel = kParallel;  // requests that are on their way at once, for parts of a blob or with blobs
};

inline constexpr int kMaxRedirects = 5, kMaxAttempts = 5, kMaxCuts = 5, kMaxPages = 64;
inline constexpr uint32_t kMaxRetryAfter = 60;  // seconds

enum class Access : uint8_t { Pull, Push };

struct FetchedManifest {
  std::string text;
  Digest digest{};
  std::string media_type;
};

// What came of a request for part of a blob.
struct RangeAnswer {
  bool is_range = true;      // false: the registry gives whole blobs only, and nothing was handed on
  bool is_whole = true;      // false: the connection ended too early
  std::string why_not_whole;
};

// A blob that is to be sent.
struct BlobUpload {
  Descriptor blob;
  Upload content;
};

// One of several that read a file at once, each its part, request by request.
class PartReader {
 public:
  virtual ~PartReader() = default;
  struct Part {
    uint64_t offset = 0, length = 0;  // in the blobs, as if they were one
  };
  // What to ask for now; none: all is there. As much of it comes as one blob has, then it is asked again.
  [[nodiscard]] virtual std::optional<Part> next() = 0;
  // The bytes of it in order, as they arrive; whether they are right is the reader's business.
  [[nodiscard]] virtual Status take(Bytes bytes) = 0;
  // The answer was cut.
  [[nodiscard]] virtual Status was_cut(const std::string& why) = 0;
};

// One registry and the tokens that it gave. Used from one thread.
class Client {
 public:
  Client(std::string host, const ClientOptions& options);

  [[nodiscard]] const std::string& host() const { return host_; }

  // Of at most kMaxManifestBytes. NotFound where there is none. With a digest as `object` the text has it, else BadSignature; a digest that
  // the registry states for a tag is compared as well.
  [[nodiscard]] Result<FetchedManifest> manifest(const std::string& repository, const std::string& object);
  // None where there is no such manifest.
  [[nodiscard]] Result<std::optional<FetchedManifest>> manifest_if_there(const std::string& repository, const std::string& object);
  // The indexes that the registry's own listing of referrers has, a page each; none where it has no listing.
  [[nodiscard]] Result<std::vector<std::string>> listed_referrers(const std::string& repository, const Digest& subject);
  [[nodiscard]] Status put_manifest(const std::string& repository, const std::string& object, std::string_view media_type, std::string_view text);

  // Bytes [offset, offset + length) in order, as they arrive; whether they are right is the caller's business. An answer that is about
  // other bytes is an error.
  [[nodiscard]] Result<RangeAnswer> blob_range(const std::string& repository, const Descriptor& blob, uint64_t offset, uint64_t length,
                                               const std::function<Status(Bytes)>& sink);
  // All of it in one answer.
  [[nodiscard]] Result<RangeAnswer> blob(const std::string& repository, const Descriptor& blob, const std::function<Status(Bytes)>& sink);
  // What the readers ask for, up to `parallel` requests at once, half as many after each answer that the registry is busy. They are begun in
  // their order. One that fails stops all behind it; the error is that of the first that fails in this order, whichever was told first.
  // `blobs` are one file, cut; none is empty where there are several. False: the registry gives whole blobs only.
  [[nodiscard]] Result<bool> read_parts(const std::string& repository, std::span<const Descriptor> blobs, const std::vector<std::unique_ptr<PartReader>>& readers);
  // Which of the blobs the repository has, several asked for at once, for one that is to be written. Where `mount_from` names another repository
  // of the registry, it is asked to give the repository those that it has not, so that no byte of them is sent.
  [[nodiscard]] Result<std::vector<bool>> has_blobs(const std::string& repository, std::span<const Descriptor> blobs, const std::string& mount_from);
  // Several at once, as with read_parts; no digest twice. Up to `at_once` bytes go in one request, larger blobs in pieces of which one that was cut is
  // sent again from where the registry has it.
  [[nodiscard]] Status put_blobs(const std::string& repository, std::span<const BlobUpload> uploads, uint64_t at_once);

  // For answers: bytes of bodies that came from the registry and went to it.
  [[nodiscard]] uint64_t bytes_received() const { return received_; }
  [[nodiscard]] uint64_t bytes_sent() const { return sent_; }

 private:
  std::string manifest_name(const std::string& repository, const std::string& object) const;
  std::string url(const std::string& repository, std::string_view what) const;
  // One request, with what it takes to be heard: credentials, redirects of what is read, and patience.
  struct Call;
  // Several at once.
  class Job;
  class Run;
  class ReadJob;
  class AskJob;
  class SendJob;
  [[nodiscard]] Result<Answer> send(Request request, const std::string& repository, Access access);
  void give_proof(Call& call) const;
  [[nodiscard]] Call call_of(Request request, const std::string& repository, Access access) const;
  // What comes of the call's request. None: it is to be sent again as it now is, after its `wait_ms`.
  [[nodiscard]] Result<std::optional<Answer>> heard(Call& call, Answer answer);
  [[nodiscard]] Status redirect(Call& call, const Answer& answer) const;
  [[nodiscard]] Status prove(Call& call, const Answer& answer);
  [[nodiscard]] Result<RangeAnswer> part_heard(struct RangeCheck& check, Result<Answer> answered, const std::string& repository);
  [[nodiscard]] Status authorise(const Answer& answer, const std::string& repository, Access access);
  [[nodiscard]] Result<std::string> fetch_token(const struct Challenge& challenge, const std::string& repository, Access access);
  [[nodiscard]] bool may_be_plain() const { return options_.plain_http || is_loopback(host_); }
  [[nodiscard]] Proof proof_for(const std::string& url, const std::string& repository, Access access) const;
  [[nodiscard]] Status refused(const Answer& answer, const std::string& what) const;
  [[nodiscard]] Result<std::string> upload_place(const Answer& answer, const std::string& asked) const;

  const std::string host_;
  const ClientOptions options_;
  std::string base_;  // "https://host"
  Http http_;
  std::optional<Credentials> credentials_;                // once they are asked for
  std::map<std::pair<std::string, Access>, Proof> proofs_;  // by repository
  uint64_t proof_round_ = 0;                              // how often there was a new one
  std::optional<Status> denied_;  // why there is no proof, for what else is on its way with that
  uint64_t received_ = 0, sent_ = 0;
};

}  // namespace mlc::registry
