// Blobs, read: one request after the other, and several at once in one thread, the caller's. spec/registry.md, section 4.
#include <algorithm>
#include <chrono>
#include <map>

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

class Client::PartsRun {
 public:
  PartsRun(Client& client, const std::string& repository, const Descriptor& blob, const std::vector<std::unique_ptr<PartReader>>& readers)
      : client_(client), repository_(repository), blob_(blob), readers_(readers), end_(readers.size()), most_(std::max(client.options_.parallel, 1u)) {}
  ~PartsRun() { stop_from(0); }

  Result<bool> run() {
    while (send_what_may() || !open_.empty()) {
      // All that ended is looked at before anything is sent: one of the answers may say that the registry is busy.
      for (auto ended = client_.http_.wait(patience()); ended; ended = client_.http_.wait(0)) take(std::move(*ended));
    }
    return std::move(outcome_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  // A reader's request. It stays where it is: the exchange refers to it.
  struct Open {
    PartReader& reader;
    RangeCheck check;
    std::function<Status(Bytes)> sink;
    Call call;
    std::optional<uint64_t> number = {};  // none: it waits to be sent
    Clock::time_point not_before = {};
  };

  // False: there is nothing to begin any more.
  bool send_what_may() {
    const auto now = Clock::now();
    while (begun_ < end_ && open_.size() < most_ && not_before_ <= now) open_next(begun_++);
    for (auto& [place, open] : open_)
      if (!open->number && on_their_way() < most_ && std::max(open->not_before, not_before_) <= now) open->number = client_.http_.begin(open->call.request);
    return begun_ < end_;
  }

  size_t on_their_way() const {
    return static_cast<size_t>(std::count_if(open_.begin(), open_.end(), [](const auto& one) { return one.second->number.has_value(); }));
  }

  void open_next(size_t place) {
    PartReader& reader = *readers_[place];
    const auto part = reader.next();
    if (!part) return;
    auto open = std::make_unique<Open>(Open{reader, RangeCheck{blob_, part->offset, part->length}, [&reader](Bytes bytes) { return reader.take(bytes); }, Call{}});
    Request request = request_of(client_.url(repository_, "blobs/" + digest_text(blob_.digest)), open->check, open->sink);
    open->call = client_.call_of(std::move(request), repository_, Access::Pull);
    open_.emplace(place, std::move(open));
  }

  // Milliseconds until something may be sent.
  uint64_t patience() const {
    const auto now = Clock::now();
    auto wait = Clock::duration(std::chrono::seconds(1));
    if (on_their_way() < most_)
      for (const auto& [place, open] : open_)
        if (!open->number) wait = std::min(wait, std::max(open->not_before, not_before_) - now);
    return static_cast<uint64_t>(std::max<int64_t>(std::chrono::ceil<std::chrono::milliseconds>(wait).count(), 0));
  }

  void take(Http::Ended ended) {
    const auto found = std::find_if(open_.begin(), open_.end(), [&](const auto& one) { return one.second->number == ended.number; });
    if (found == open_.end()) return;
    Open& open = *found->second;
    open.number.reset();
    Result<Answer> answered = std::move(ended.answer);
    if (answered.ok()) {
      auto heard = client_.heard(open.call, std::move(*answered));
      if (heard.ok() && !*heard) return wait(open);
      answered = heard.ok() ? Result<Answer>(std::move(**heard)) : Result<Answer>(std::move(heard).status());
    }
    const size_t place = found->first;
    Result<RangeAnswer> part = client_.part_heard(open.check, std::move(answered), repository_);
    if (!part.ok()) return stop_with(place, std::move(part).status());
    if (!part->is_range) return stop_with(place, false);
    if (!part->is_whole) {
      if (Status status = open.reader.was_cut(part->why_not_whole); !status.ok()) return stop_with(place, std::move(status));
    }
    open_.erase(found);
    open_next(place);
  }

  // A registry that is busy hears nothing new until the time that it names, and has fewer requests at once from then on.
  void wait(Open& open) {
    open.not_before = Clock::now() + std::chrono::milliseconds(open.call.wait_ms);
    if (!open.call.is_busy) return;
    not_before_ = std::max(not_before_, open.not_before);
    most_ = std::max(most_ / 2, size_t{1});
  }

  // Those before it in the order go on: what they come to may be told instead.
  void stop_with(size_t place, Result<bool> outcome) {
    stop_from(place);
    end_ = place;
    outcome_ = std::move(outcome);
  }
  void stop_from(size_t place) {
    for (auto at = open_.lower_bound(place); at != open_.end(); at = open_.erase(at)) {
      if (!at->second->number) continue;
      client_.http_.stop(*at->second->number);
      client_.received_ += at->second->check.arrived;
    }
  }

  Client& client_;
  const std::string& repository_;
  const Descriptor& blob_;
  const std::vector<std::unique_ptr<PartReader>>& readers_;
  std::map<size_t, std::unique_ptr<Open>> open_;  // by the reader's place
  size_t begun_ = 0, end_;  // the next reader to begin; from where on none is wanted any more
  size_t most_;
  Clock::time_point not_before_ = {};
  Result<bool> outcome_ = true;
};

Result<bool> Client::read_parts(const std::string& repository, const Descriptor& blob, const std::vector<std::unique_ptr<PartReader>>& readers) {
  denied_.reset();
  return PartsRun(*this, repository, blob, readers).run();
}

}  // namespace mlc::registry
