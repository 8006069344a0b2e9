#include "registry/pull.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/counted.h"
#include "packager/container/output_file.h"
#include "registry/host_part.h"
#include "registry/leaves.h"
#include "registry/part_readers.h"
#include "registry/policy.h"
#include "registry/stranger.h"
#include "registry/texts/tar.h"
#include "runtime/container/container.h"
#include "runtime/container/header.h"
#include "runtime/container/source.h"
#include "runtime/sandbox/sandbox.h"
#include "signing/policy.h"
#include "signing/user_key.h"
#include "signing/version_marks.h"

namespace mlc::registry {
namespace {

constexpr uint64_t kHeadBytes = 128u << 10;  // header page, manifest and small segments of most files
constexpr uint64_t kJoinedGap = 64u << 10;
constexpr uint64_t kPieceBytes = 32u << 20;  // of one request, where several go at once
constexpr uint64_t kMostTail = 32u << 20;    // leaf tables and signature: this, and a sixteenth of the file

class Puller {
 public:
  Puller(const PullOptions& options, Client& client, container::OutputFile& out, PullResult& result)
      : options_(options), client_(client), out_(out), result_(result), blobs_(result.artifact.blobs), blob_bytes_(result.artifact.bytes) {}

  Status run() {
    MLC_RETURN_IF_ERROR(load_trust());
    MLC_RETURN_IF_ERROR(fetch_head());
    if (result_.is_whole) MLC_RETURN_IF_ERROR(fetch_whole());
    MLC_RETURN_IF_ERROR(decide());
    if (!is_vouched_) return fetch_stranger();
    if (!result_.is_whole) MLC_RETURN_IF_ERROR(fetch_missing());
    if (result_.is_whole && !is_decided_whole_) {  // ranges ended on the way
      MLC_RETURN_IF_ERROR(fetch_whole());
      MLC_RETURN_IF_ERROR(decide());
    }
    return check_all();
  }

 private:
  Status load_trust() {
    signing::TrustSources sources = signing::default_trust_sources();
    if (!options_.policy.empty()) sources.policy_file = options_.policy;
    MLC_ASSIGN(trust_, signing::TrustSet::load(sources));
    if (const auto folder = signing::state_folder(); folder.ok()) {
      MLC_ASSIGN(marks_, signing::VersionMarks::load(*folder));
    }
    return ok();
  }

  using Readers = std::vector<std::unique_ptr<PartReader>>;
  Status read(const Readers& readers) {
    MLC_ASSIGN(const bool are_parts, client_.read_parts(options_.reference.repository, blobs_, readers));
    if (!are_parts) result_.is_whole = true;
    return ok();
  }

  // Bytes of the blobs, in order. What was cut goes on where it ended.
  Status fetch(uint64_t begin, uint64_t end, BytesReader::Sink sink) {
    Readers readers;
    if (!result_.is_whole) readers.push_back(std::make_unique<BytesReader>(transfer_, begin, end, std::move(sink)));
    return read(readers);
  }
  // How much one request brings.
  uint64_t most_at_once() const { return options_.client.parallel > 1 ? kPieceBytes : UINT64_MAX; }

  // [begin, end) of the file.
  Status fetch_to_file(uint64_t begin, uint64_t end) {
    return fetch(file_begin_ + begin, file_begin_ + end, [&](uint64_t at, Bytes bytes) { return take(at, bytes); });
  }

  // With the first bytes of the blobs it is known where the file is in them; a tar has something around it, which its digest covers too.
  Status locate(const std::vector<std::byte>& head) {
    file_begin_ = 0;
    file_size_ = blob_bytes_;
    if (result_.artifact.is_tar) {
      MLC_ASSIGN(const TarPlace place, find_in_tar(head, blob_bytes_));
      file_begin_ = place.offset;
      file_size_ = place.size;
    }
    result_.bytes = file_size_;
    before_.assign(head.begin(), head.begin() + static_cast<ptrdiff_t>(file_begin_));
    behind_.assign(blob_bytes_ - file_begin_ - file_size_, std::byte{0});
    MLC_RETURN_IF_ERROR(out_.set_size(file_size_));
    return take(0, head);
  }

  // Bytes of the blobs from `at` on to where they belong.
  Status take(uint64_t at, Bytes bytes) {
    const uint64_t file_end = file_begin_ + file_size_;
    if (at < file_begin_) {
      const auto known = static_cast<size_t>(std::min<uint64_t>(bytes.size(), file_begin_ - at));
      bytes = bytes.subspan(known);
      at += known;
    }
    if (at < file_end && !bytes.empty()) {
      const auto inside = static_cast<size_t>(std::min<uint64_t>(bytes.size(), file_end - at));
      MLC_RETURN_IF_ERROR(out_.write_at(at - file_begin_, bytes.first(inside)));
      bytes = bytes.subspan(inside);
      at += inside;
    }
    std::copy(bytes.begin(), bytes.end(), behind_.begin() + static_cast<ptrdiff_t>(bytes.empty() ? 0 : at - file_end));
    return ok();
  }

  // What the signature covers, and the signature: everything that the policy is asked about lies in these bytes.
  Status fetch_head() {
    std::vector<std::byte> head;
    MLC_RETURN_IF_ERROR(fetch(0, std::min(kHeadBytes, blob_bytes_), [&](uint64_t, Bytes bytes) {
      head.insert(head.end(), bytes.begin(), bytes.end());
      return ok();
    }));
    if (result_.is_whole) return ok();
    const uint64_t in_head = head.size();
    MLC_RETURN_IF_ERROR(locate(head));
    MLC_RETURN_IF_ERROR(fetch(std::max(in_head, file_begin_ + file_size_), blob_bytes_, [&](uint64_t at, Bytes bytes) { return take(at, bytes); }));
    head_end_ = std::min(in_head - file_begin_, file_size_);
    if (result_.is_whole || head_end_ == file_size_) return ok();
    MLC_ASSIGN(const auto source, container::open_descriptor(out_.descriptor(), name()));
    std::array<std::byte, format::kHeaderLen> page{};
    MLC_RETURN_IF_ERROR(source->read(0, page));
    const auto header = container::parse_header(page);
    if (!header.ok()) return ok();  // the reader of containers says what it is instead
    const uint64_t manifest_end = header->manifest_off + header->manifest_len;
    if (header->body_size > file_size_ || header->leaves_off > header->body_size || manifest_end > header->leaves_off) return ok();  // likewise
    if (file_size_ - header->leaves_off > kMostTail + file_size_ / 16)
      return Status(Code::Malformed, "{}: leaf tables and signature are said to have {} bytes of {}", name(), file_size_ - header->leaves_off, file_size_);
    MLC_RETURN_IF_ERROR(fetch_to_file(head_end_, manifest_end));
    return fetch_to_file(std::max(head_end_, header->leaves_off), file_size_);
  }

  // A registry without ranges: each blob in one stream, in order, and once more if its bytes are wrong.
  Status fetch_whole() {
    std::vector<std::byte> head;  // until it is known where the file is
    uint64_t begin = 0;
    for (const Descriptor& blob : blobs_) {
      MLC_RETURN_IF_ERROR(fetch_whole_blob(blob, begin, head));
      begin += blob.size;
    }
    return ok();
  }

  Status fetch_whole_blob(const Descriptor& blob, uint64_t begin, std::vector<std::byte>& head) {
    Digest found{};
    const uint64_t first = std::min(kHeadBytes, blob_bytes_);
    const size_t head_before = head.size();
    for (int attempt = 0, cuts = 0; attempt < 2;) {
      Sha256 sha;
      uint64_t at = begin;
      head.resize(head_before);
      ++result_.requests;
      MLC_ASSIGN(const RangeAnswer answer, client_.blob(options_.reference.repository, blob, [&](Bytes bytes) -> Status {
        sha.update(bytes);
        const uint64_t here = std::exchange(at, at + bytes.size());
        if (here >= first) return take(here, bytes);
        head.insert(head.end(), bytes.begin(), bytes.end());
        return head.size() < first ? ok() : locate(head);
      }));
      if (!answer.is_whole) {
        MLC_RETURN_IF_ERROR(count_cut(client_.host(), answer.why_not_whole, false, cuts));
        continue;
      }
      found = sha.finish();
      if (found == blob.digest) return ok();
      ++attempt;
    }
    return wrong_bytes(name_of_blob(begin, begin + blob.size), blob.digest, found);
  }

  // Before a weight is fetched: who signed it, and whether the policy lets it be here.
  Status decide() {
    is_decided_whole_ = result_.is_whole;
    MLC_ASSIGN(auto source, container::open_descriptor(out_.descriptor(), name()));
    MLC_ASSIGN(container::AuthenticatedFile file, container::AuthenticatedFile::open_source(std::move(source)));
    manifest_len_ = file.manifest_len();
    if (!file.authentication()) return Status(Code::Malformed, 1101, "{} is truncated: it ends before its body does", name());
    const signing::Authentication& authentication = *file.authentication();
    const signing::DecideOptions asked{.marks = marks_ ? &*marks_ : nullptr, .now = static_cast<uint64_t>(::time(nullptr)), .file = name()};
    signing::Verdict verdict = signing::decide_signer(authentication, *trust_, asked);
    if (verdict.may_run == signing::MayRun::Refused) return std::move(verdict.status);
    result_.root = authentication.root();
    result_.reason = verdict.reason;
    result_.trust = name_of(verdict.trust);
    const auto& stated = result_.artifact.root;
    if (stated && *stated != result_.root)
      return Status(Code::BadSignature, 3102, "{} is another container than its manifest says", name())
          .fact("root of the manifest  " + digest_text(*stated))
          .fact("root of the file      " + digest_text(result_.root));
    is_vouched_ = verdict.trust == signing::Trust::Trusted || (result_.artifact.is_pinned() && stated);
    if (!is_vouched_) return may_be_whole_only(verdict);
    MLC_ASSIGN(container_, container::Container::open(std::move(file), how_to_open()));
    result_.id = container_->manifest().model.id;
    result_.version = container_->manifest().model.version;
    result_.reason = container_->verdict().reason;
    result_.trust = name_of(container_->verdict().trust);
    result_.warnings = container_->verdict().warnings;
    if (!options_.keep_host) return ok();
    part_ = host_part(*container_);
    result_.absent = part_->absent;
    return ok();
  }

  Status may_be_whole_only(const signing::Verdict& verdict) const {
    if (options_.from.empty() && !options_.keep_host) return ok();
    const char* flag = !options_.from.empty() ? "--from" : "--keep-host";
    const Code code = verdict.trust == signing::Trust::Unsigned ? Code::Unsigned : Code::Untrusted;
    return Status(code, "{}: nobody whom you trust vouches for {}: {}", flag, name(), verdict.reason)
        .fact("the digest of a blob vouches for all of it only, not for parts")
        .hint("name the artifact by its digest, HOST/REPOSITORY@sha256:..., or pull it without {}", flag);
  }

  // Of a file without a trusted signer the leaves are not known, since its manifest is not read here: all of it, until the digests are right.
  Status fetch_stranger() {
    std::vector<Range> missing = {{file_begin_ + head_end_, blob_bytes_}};
    for (int attempt = 0; !result_.is_whole; ++attempt) {
      Readers readers;
      for (const Range& range : missing) {
        for (uint64_t at = range.begin, end = 0; at < range.end; at = end) {
          end = at + std::min(most_at_once(), range.end - at);
          readers.push_back(std::make_unique<BytesReader>(transfer_, at, end, [&](uint64_t here, Bytes bytes) { return take(here, bytes); }));
        }
      }
      MLC_RETURN_IF_ERROR(read(readers));
      if (result_.is_whole) break;
      MLC_ASSIGN(const std::vector<BlobDigests::Wrong> wrong, wrong_blobs());
      if (wrong.empty()) break;
      if (attempt == 1) return wrong_bytes(name_of_blob(wrong.front().begin, wrong.front().end), wrong.front().expected, wrong.front().found);
      missing.clear();
      for (const BlobDigests::Wrong& one : wrong) missing.push_back({one.begin, one.end});
    }
    if (result_.is_whole && !is_decided_whole_) {
      MLC_RETURN_IF_ERROR(fetch_whole());
      MLC_RETURN_IF_ERROR(decide());
    }
    if (const std::string why = sandbox::why_no_call_filter(); !why.empty())
      result_.warnings.push_back("system calls of the process that read the file were not filtered: " + why);
    MLC_ASSIGN(auto source, container::open_descriptor(out_.descriptor(), name()));
    MLC_ASSIGN(container::AuthenticatedFile file, container::AuthenticatedFile::open_source(std::move(source)));
    MLC_ASSIGN(const Stranger found, verify_apart(std::move(file), how_to_open(), file_size_));
    result_.id = found.id;
    result_.version = found.version;
    return ok();
  }

  Status fetch_missing() {
    MLC_ASSIGN(const auto source, container::open_descriptor(out_.descriptor(), name()));
    MLC_ASSIGN(std::vector<Leaf> leaves, leaves_of(*container_, *source, manifest_len_));
    if (part_) std::erase_if(leaves, [&](const Leaf& leaf) { return part_->segments.count(leaf.segment) == 0; });
    std::erase_if(leaves, [&](const Leaf& leaf) { return leaf.offset + leaf.length <= head_end_ && is_there(*source, leaf); });
    for (const std::string& path : options_.from) MLC_RETURN_IF_ERROR(reuse(path, leaves));
    std::vector<Leaf> wrong;
    Readers readers;
    for (const Range& range : ranges_of(leaves, kJoinedGap, most_at_once())) {
      const auto begins = [](const Leaf& leaf, uint64_t offset) { return leaf.offset < offset; };
      const auto first = std::lower_bound(leaves.begin(), leaves.end(), range.begin, begins);
      const auto last = std::lower_bound(first, leaves.end(), range.end, begins);
      readers.push_back(std::make_unique<LeafReader>(transfer_, std::span<const Leaf>(first, last), file_begin_, out_, &wrong));
    }
    MLC_RETURN_IF_ERROR(read(readers));
    if (result_.is_whole) return ok();
    std::sort(wrong.begin(), wrong.end(), [](const Leaf& a, const Leaf& b) { return a.offset < b.offset; });
    readers.clear();
    for (const Leaf& leaf : wrong) readers.push_back(std::make_unique<LeafReader>(transfer_, std::span(&leaf, 1), file_begin_, out_, nullptr));
    return read(readers);
  }

  static bool is_there(const container::Source& source, const Leaf& leaf) {
    std::vector<std::byte> bytes(leaf.length);
    return source.read(leaf.offset, bytes).ok() && leaf_digest(bytes) == leaf.digest;
  }

  // Leaves that an older file has, whatever its signer: each is hashed again.
  Status reuse(const std::string& path, std::vector<Leaf>& wanted) {
    MLC_ASSIGN(const auto source, container::open_file(path));
    MLC_ASSIGN(const std::vector<Leaf> offered, leaves_apart(path));
    std::map<Digest, const Leaf*> by_digest;
    for (const Leaf& leaf : offered) by_digest.emplace(leaf.digest, &leaf);
    std::vector<Leaf> left;
    std::vector<std::byte> bytes;
    for (const Leaf& leaf : wanted) {
      const auto found = by_digest.find(leaf.digest);
      bytes.resize(leaf.length);
      const bool is_offered = found != by_digest.end() && found->second->length == leaf.length && source->read(found->second->offset, bytes).ok();
      if (!is_offered || leaf_digest(bytes) != leaf.digest) {
        left.push_back(leaf);
        continue;
      }
      MLC_RETURN_IF_ERROR(out_.write_at(leaf.offset, bytes));
      result_.bytes_reused += leaf.length;
    }
    wanted = std::move(left);
    return ok();
  }

  std::string name_of_blob(uint64_t begin, uint64_t end) const {
    return blobs_.size() == 1 ? "the file" : "the part of " + std::to_string(end - begin) + " bytes at " + std::to_string(begin);
  }

  // As they lie there.
  Result<std::vector<BlobDigests::Wrong>> wrong_blobs() const {
    MLC_ASSIGN(auto source, container::open_descriptor(out_.descriptor(), name()));
    BlobDigests digests(blobs_);
    digests.update(before_);
    std::vector<std::byte> piece(1u << 20);
    for (uint64_t at = 0; at < file_size_; at += piece.size()) {
      piece.resize(static_cast<size_t>(std::min<uint64_t>(piece.size(), file_size_ - at)));
      MLC_RETURN_IF_ERROR(source->read(at, piece));
      digests.update(piece);
    }
    digests.update(behind_);
    return digests.finish();
  }

  // What is there once more: of a whole file the digest that the manifest names, and what `mlpack verify --deep` looks at.
  Status check_all() {
    if (leaves_out() && !result_.is_whole) return ok();  // leaf by leaf; the smaller file is looked at when it is written
    MLC_ASSIGN(const std::vector<BlobDigests::Wrong> wrong, wrong_blobs());
    if (!wrong.empty())
      return Status(Code::BadSignature, 3102, "{}: {} does not match the digest that the manifest names", name(), name_of_blob(wrong.front().begin, wrong.front().end))
          .fact("expected  " + digest_text(wrong.front().expected))
          .fact("found     " + digest_text(wrong.front().found));
    return container_->verify_all();
  }

 public:
  // Only the part that this machine runs, into a file of its own, which the policy is asked about once more. Returns its size.
  Result<uint64_t> write_host_part(container::OutputFile& thin) {
    MLC_ASSIGN(const auto source, container::open_descriptor(out_.descriptor(), name()));
    MLC_RETURN_IF_ERROR(write_part(*part_, *container_, *source, thin));
    MLC_ASSIGN([[maybe_unused]] const std::string place, thin.flushed());
    MLC_ASSIGN(auto written, container::open_descriptor(thin.descriptor(), name()));
    const uint64_t size = written->size();
    MLC_ASSIGN(const auto again, container::Container::open_source(std::move(written), how_to_open()));
    if (again->root() != result_.root) return Status(Code::Internal, "{}: the part for this machine has another root", name());
    MLC_RETURN_IF_ERROR(again->verify_all());
    return size;
  }
  [[nodiscard]] bool leaves_out() const { return part_ && !part_->absent.empty(); }

 private:
  container::OpenOptions how_to_open() const {
    container::OpenOptions how;
    how.verify = container::Verify::Lazy;
    how.trust = &*trust_;
    how.marks = marks_ ? &*marks_ : nullptr;
    return how;
  }
  std::string name() const { return options_.reference.text(); }

  const PullOptions& options_;
  Client& client_;
  container::OutputFile& out_;
  PullResult& result_;
  const std::vector<Descriptor>& blobs_;
  const uint64_t blob_bytes_;
  Transfer transfer_{client_.host(), result_.requests};
  // Where the file is in the blobs, and what is around it there; how much of the file came with the first request.
  uint64_t file_begin_ = 0, file_size_ = 0, head_end_ = 0;
  std::vector<std::byte> before_, behind_;
  std::optional<signing::TrustSet> trust_;
  std::optional<signing::VersionMarks> marks_;
  std::unique_ptr<container::Container> container_;
  std::optional<HostPart> part_;  // with --keep-host
  uint64_t manifest_len_ = 0;
  bool is_vouched_ = false, is_decided_whole_ = false;
};

}  // namespace

Result<PullResult> pull(const PullOptions& options) {
  MLC_RETURN_IF_ERROR(container::may_write(options.output, options.force));
  MLC_RETURN_IF_ERROR(container::OutputFile::try_create(options.output));
  Client client(options.reference.host, options.client);
  PullResult result;
  MLC_ASSIGN(result.artifact, find_artifact(client, options.reference));
  if (result.artifact.is_policy) {
    MLC_ASSIGN(result.policy, pull_policy(options, client, result.artifact));
    result.bytes = result.bytes_written = result.artifact.bytes;
    result.bytes_fetched = client.bytes_received();
    return result;
  }
  MLC_ASSIGN(container::OutputFile out, container::OutputFile::create(options.output));
  Puller puller(options, client, out, result);
  MLC_RETURN_IF_ERROR(puller.run());
  result.bytes_written = result.bytes;
  if (puller.leaves_out()) {
    MLC_ASSIGN(container::OutputFile thin, container::OutputFile::create(options.output));
    MLC_ASSIGN(result.bytes_written, puller.write_host_part(thin));
    MLC_RETURN_IF_ERROR(thin.commit());
  } else {
    MLC_RETURN_IF_ERROR(out.commit());
  }
  result.bytes_fetched = client.bytes_received();
  return result;
}

}  // namespace mlc::registry
