#include "runtime/container/container.h"

#include <algorithm>
#include <atomic>

#include "base/compose.h"
#include "runtime/container/state.h"
#include "runtime/threads/team.h"
#include "signing/hash_tree.h"

namespace mlc::container {
namespace {

// Lists of a validated manifest are sorted by name.
template <class T>
std::optional<uint32_t> find(const std::vector<T>& list, std::string_view name) {
  auto found =
      std::lower_bound(list.begin(), list.end(), name, [](const T& item, std::string_view n) { return item.name < n; });
  if (found == list.end() || found->name != name) return std::nullopt;
  return static_cast<uint32_t>(found - list.begin());
}

// Fewer are hashed sooner than a thread starts.
constexpr size_t kLeavesPerThread = 4;

bool is_mappable(const format::Segment& s) {
  return s.kind == format::SegmentKind::Weights && s.codec == format::Codec::Raw;
}

}  // namespace

Container::Container(std::unique_ptr<State> state) : state_(std::move(state)) {}
Container::~Container() = default;

const std::string& Container::name() const { return state_->source->name(); }
const format::Manifest& Container::manifest() const { return state_->manifest; }
const Digest& Container::root() const { return state_->root; }
const signing::Verdict& Container::verdict() const { return state_->verdict; }
bool Container::native_allowed() const { return state_->verdict.may_run == signing::MayRun::AllVariants; }
const std::vector<std::string>& Container::notes() const { return state_->notes; }

std::optional<uint32_t> Container::find_segment(std::string_view name) const { return find(manifest().segments, name); }
std::optional<uint32_t> Container::find_tensor(std::string_view name) const { return find(manifest().tensors, name); }
std::optional<uint32_t> Container::find_variant(std::string_view name) const { return find(manifest().variants, name); }
std::optional<uint32_t> Container::find_method(std::string_view name) const { return find(manifest().methods, name); }
std::optional<uint32_t> Container::find_asset(std::string_view name) const { return find(manifest().assets, name); }

bool Container::present(uint32_t segment) const {
  return segment < manifest().segments.size() && state_->store->present(segment);
}
bool Container::copies() const { return state_->store->copies(); }
Status Container::unchanged() const { return copies() ? ok() : state_->source->unchanged(); }
uint64_t Container::file_size() const { return state_->source->size(); }
uint64_t Container::segment_offset(uint32_t segment) const {
  return state_->store->placement().segments[segment].offset;
}
uint64_t Container::body_size() const { return state_->store->placement().body_size; }

// Native code of a file without a trusted signer stays in the file.
Status Container::may_read(uint32_t segment) const {
  if (segment >= manifest().segments.size())
    return Status(Code::Internal, "segment {} does not exist", segment);
  if (!state_->native_module[segment] || native_allowed()) return ok();
  const signing::Verdict& verdict = state_->verdict;
  Code code = verdict.trust == signing::Trust::Unsigned ? Code::Unsigned : Code::Untrusted;
  return Status(code, "{} holds native code, and {} may run its portable form only: {}",
                label_of(manifest().segments[segment]), name(), verdict.reason)
      .hint(verdict.help.empty() ? "mlrun --allow-unsigned, or allow_unsigned" : verdict.help);
}

// What a file that is not trusted may have decoded at once: a few bytes of it may stand for a thousand times as many, which are memory
// of this process before any budget of a run counts. A module becomes three times as much when it is loaded.
constexpr uint64_t kMaxUntrustedModule = uint64_t{32} << 20, kMaxUntrustedPart = uint64_t{64} << 20;
Status Container::may_decode(uint32_t segment, uint64_t length) const {
  const format::Segment& s = manifest().segments[segment];
  const uint64_t most = s.kind == format::SegmentKind::Module ? kMaxUntrustedModule : kMaxUntrustedPart;
  if (native_allowed() || s.codec == format::Codec::Raw || length <= most) return ok();
  return Status(Code::Resource, 6006, "{} MiB of {} would be decoded, at most {} MiB are for a file that is not trusted", length >> 20, label_of(s), most >> 20)
      .hint("sign the file, or trust who has signed it: then there is no limit");
}

Result<VerifiedBytes> Container::segment(uint32_t index) const {
  MLC_RETURN_IF_ERROR(may_read(index));
  MLC_RETURN_IF_ERROR(may_decode(index, manifest().segments[index].decoded_len));
  MLC_ASSIGN(AlignedBlock bytes, state_->store->read_all(index));
  return VerifiedBytesMaker::make(std::move(bytes), manifest().segments[index].name);
}

Result<VerifiedBytes> Container::bytes(const format::Ref& ref) const {
  if (ref.length == 0) return VerifiedBytesMaker::make({}, "nothing");  // whichever segment it names
  MLC_RETURN_IF_ERROR(may_read(ref.segment));
  MLC_RETURN_IF_ERROR(may_decode(ref.segment, ref.length));
  MLC_ASSIGN(AlignedBlock bytes, state_->store->read(ref.segment, ref.offset, ref.length));
  return VerifiedBytesMaker::make(std::move(bytes), manifest().segments[ref.segment].name);
}

Result<VerifiedBytes> Container::asset(uint32_t index) const {
  if (index >= manifest().assets.size())
    return Status(Code::Internal, "asset {} does not exist", index);
  const format::Asset& asset = manifest().assets[index];
  MLC_ASSIGN(VerifiedBytes content, bytes(asset.ref));
  if (Digest found = sha256(content.bytes()); found != asset.digest)
    return digest_mismatch(manifest().segments[asset.ref.segment], compose("asset \"{}\"", asset.name), asset.digest, found);
  return content;
}

// What `asset` checks, piece by piece: nothing of it is held, so its size has no limit.
Status Container::check_asset(uint32_t index) const {
  const format::Asset& asset = manifest().assets[index];
  Sha256 hash;
  for (uint64_t at = 0; at < asset.ref.length; at += kLeafSize) {
    MLC_ASSIGN(const AlignedBlock piece, state_->store->read(asset.ref.segment, asset.ref.offset + at, std::min(kLeafSize, asset.ref.length - at)));
    hash.update({piece.data(), static_cast<size_t>(piece.size())});
  }
  if (const Digest found = hash.finish(); found != asset.digest)
    return digest_mismatch(manifest().segments[asset.ref.segment], compose("asset \"{}\"", asset.name), asset.digest, found);
  return ok();
}

Result<const std::byte*> Container::acquire(uint32_t segment, uint64_t offset, uint64_t length) const {
  return state_->store->acquire(segment, offset, length);
}

void Container::prepare(uint32_t segment, uint64_t offset, uint64_t length) const {
  state_->store->prepare(segment, offset, length);
}

Result<const std::byte*> Container::acquire_tensor(uint32_t tensor) const {
  if (tensor >= manifest().tensors.size())
    return Status(Code::Internal, "tensor {} does not exist", tensor);
  const format::Tensor& t = manifest().tensors[tensor];
  if (t.copies.empty()) return static_cast<const std::byte*>(nullptr);
  const format::Ref& ref = t.copies[0].ref;
  auto pointer = acquire(ref.segment, ref.offset, ref.length);
  if (!pointer.ok()) return std::move(pointer).status().note("tensor \"{}\"", t.name);
  return pointer;
}

Status Container::check(uint32_t segment) const { return state_->store->check(segment); }

std::vector<Status> Container::verify_report() const {
  std::vector<Status> failures;
  for (uint32_t i = 0; i < manifest().segments.size(); ++i)
    if (present(i))
      if (Status status = state_->store->check(i); !status.ok()) failures.push_back(std::move(status));
  for (uint32_t i = 0; i < manifest().assets.size(); ++i)
    if (Status status = check_asset(i); !status.ok() && failures.empty()) failures.push_back(std::move(status));
  return failures;
}

// Before `verify_all` looks at the segments one by one. Threads that cannot be started are done without.
void Container::prepare_weights() const {
  struct Work {
    const Container& container;
    std::vector<format::Ref> leaves;
    std::atomic<size_t> next{0};
  } work{*this, {}};
  for (uint32_t i = 0; i < manifest().segments.size(); ++i) {
    if (!present(i) || !is_mappable(manifest().segments[i])) continue;
    const uint64_t length = manifest().segments[i].decoded_len;
    for (uint64_t at = 0; at < length; at += kLeafSize) work.leaves.push_back({i, at, std::min(kLeafSize, length - at)});
  }
  const size_t threads = std::min<size_t>(state_->workers, work.leaves.size() / kLeavesPerThread);
  if (threads < 2) return;
  auto pool = WorkerPool::create({.workers = static_cast<unsigned>(threads)});
  if (!pool) return;
  Team team(**pool);
  WorkMeter unlimited;
  if (!team.gather(unlimited).ok()) return;
  team.run(
      [](void* context, unsigned) {
        Work& w = *static_cast<Work*>(context);
        for (size_t i = w.next++; i < w.leaves.size(); i = w.next++)
          w.container.prepare(w.leaves[i].segment, w.leaves[i].offset, w.leaves[i].length);
      },
      &work);
  team.dismiss();
}

Status Container::verify_all() const {
  prepare_weights();
  for (uint32_t i = 0; i < manifest().segments.size(); ++i) {
    if (!present(i)) continue;
    MLC_RETURN_IF_ERROR(is_mappable(manifest().segments[i]) ? state_->store->check_mapped(i) : state_->store->check(i));
  }
  for (uint32_t i = 0; i < manifest().assets.size(); ++i) MLC_RETURN_IF_ERROR(check_asset(i));
  return ok();
}

}  // namespace mlc::container
