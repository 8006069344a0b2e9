// Blobs, read: one request after the other, and several at once in one thread, the caller's. spec/registry.md, section 4.
#include <algorithm>

#include "registry/net/call.h"
#include "registry/net/client.h"

namespace mlc::registry {
namespace {

struct ContentRange {
  uint64_t first = 0, last = 0;
  std::optional<uint64_t> total;
};
// "bytes 0-99/1000", "bytes 0-99/*"
std::optional<ContentRange> content_range(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  const size_t hyphen = text.find('-'), slash = text.find('/');
  if (hyphen == std::string_view::npos || slash == std::string_view::npos || slash < hyphen) return std::nullopt;
  const auto first = number_in(text.substr(0, hyphen)), last = number_in(text.substr(hyphen + 1, slash - hyphen - 1));
  if (!first || !last) return std::nullopt;
  return ContentRange{*first, *last, number_in(text.substr(slash + 1))};
}

}  // namespace

// What one answer with bytes of a blob may be.
struct RangeCheck {
  const Descriptor& blob;
  uint64_t offset, length;
  uint64_t arrived = 0;
  bool is_whole_blob = false;  // instead of a range

  Status check_head(const Answer& head) {
    if (head.status == 206) {
      const auto range = content_range(head.header("content-range"));
      if (range && range->first == offset && range->last == offset + length - 1 && (!range->total || *range->total == blob.size)) return ok();
      return Status(Code::Registry, "the registry answers with other bytes than it was asked for")
          .fact("asked for  bytes {}-{}/{}", offset, offset + length - 1, blob.size)
          .fact("found      " + first_line(head.header("content-range")));
    }
    is_whole_blob = offset != 0 || length != blob.size;
    if (is_whole_blob) return Status(Code::Registry, "no ranges");  // ends the exchange; blob_range knows
    const auto stated = number_in(head.header("content-length"));
    if (!stated || *stated == length) return ok();
    return Status(Code::Registry, "the registry has {} bytes of {}, its manifest says {}", *stated, digest_text(blob.digest), length);
  }
  Status take(const Answer& head, Bytes bytes, const std::function<Status(Bytes)>& sink) {
    if (arrived == 0) MLC_RETURN_IF_ERROR(check_head(head));
    if (bytes.size() > length - arrived)
      return Status(Code::Registry, "the registry sends more than the {} bytes that it was asked for", length);
    arrived += bytes.size();
    return sink(bytes);
  }
};

namespace {

// For what `check` looks at; both it and `sink` must outlive the request.
Request request_of(const std::string& url, RangeCheck& check, const std::function<Status(Bytes)>& sink) {
  Request request;
  request.url = url;
  request.headers["Accept-Encoding"] = "identity";
  if (check.offset != 0 || check.length != check.blob.size)
    request.headers["Range"] = "bytes=" + std::to_string(check.offset) + "-" + std::to_string(check.offset + check.length - 1);
  request.sink = [&check, &sink](const Answer& head, Bytes bytes) { return check.take(head, bytes, sink); };
  return request;
}

}  // namespace

Result<RangeAnswer> Client::part_heard(RangeCheck& check, Result<Answer> answered, const std::string& repository) {
  received_ += check.arrived;
  if (check.is_whole_blob) return RangeAnswer{.is_range = false};
  if (!answered.ok()) return std::move(answered).status();
  if (!answered->is_success()) return refused(*answered, digest_text(check.blob.digest) + " of " + host_ + "/" + repository);
  RangeAnswer out;
  out.is_whole = answered->is_whole && check.arrived == check.length;
  out.why_not_whole = answered->is_whole ? compose("it ended behind {} of {} bytes", check.arrived, check.length) : answered->why_not_whole;
  return out;
}

Result<RangeAnswer> Client::blob_range(const std::string& repository, const Descriptor& blob, uint64_t offset, uint64_t length,
                                       const std::function<Status(Bytes)>& sink) {
  RangeCheck check{blob, offset, length};
  Request request = request_of(url(repository, "blobs/" + digest_text(blob.digest)), check, sink);
  auto answered = send(std::move(request), repository, Access::Pull);
  return part_heard(check, std::move(answered), repository);
}

Result<RangeAnswer> Client::blob(const std::string& repository, const Descriptor& blob, const std::function<Status(Bytes)>& sink) {
  return blob_range(repository, blob, 0, blob.size, sink);
}

// ---- Several at once

// A reader's requests.
class Client::ReadJob final : public Job {
 public:
  ReadJob(Client& client, const std::string& repository, std::span<const Descriptor> blobs, PartReader& reader)
      : client_(client), repository_(repository), blobs_(blobs), reader_(reader), sink_([&reader](Bytes bytes) { return reader.take(bytes); }) {}

  std::optional<Call> next() override {
    auto part = reader_.next();
    if (!part) return std::nullopt;
    const Descriptor* blob = blobs_.data();
    for (const Descriptor* const last = &blobs_.back(); blob != last && part->offset >= blob->size; ++blob) part->offset -= blob->size;
    check_.emplace(RangeCheck{*blob, part->offset, std::min(part->length, blob->size - part->offset)});
    Request request = request_of(client_.url(repository_, "blobs/" + digest_text(blob->digest)), *check_, sink_);
    return client_.call_of(std::move(request), repository_, Access::Pull);
  }
  Status heard(Result<Answer> answered) override {
    MLC_ASSIGN(const RangeAnswer part, client_.part_heard(*check_, std::move(answered), repository_));
    gives_ranges_ = part.is_range;
    if (!gives_ranges_) return Status(Code::Registry, "no ranges");  // read_parts knows
    return part.is_whole ? ok() : reader_.was_cut(part.why_not_whole);
  }
  void was_stopped() override { client_.received_ += check_->arrived; }
  [[nodiscard]] bool gives_ranges() const { return gives_ranges_; }

 private:
  Client& client_;
  const std::string& repository_;
  const std::span<const Descriptor> blobs_;
  PartReader& reader_;
  const std::function<Status(Bytes)> sink_;
  std::optional<RangeCheck> check_;
  bool gives_ranges_ = true;
};

Result<bool> Client::read_parts(const std::string& repository, std::span<const Descriptor> blobs, const std::vector<std::unique_ptr<PartReader>>& readers) {
  std::vector<std::unique_ptr<Job>> jobs;
  std::vector<const ReadJob*> reads;
  for (const auto& reader : readers) {
    auto job = std::make_unique<ReadJob>(*this, repository, blobs, *reader);
    reads.push_back(job.get());
    jobs.push_back(std::move(job));
  }
  Run run(*this, jobs);
  Status status = run.run();
  if (status.ok()) return true;
  if (!reads[run.failed()]->gives_ranges()) return false;
  return status;
}

}  // namespace mlc::registry
