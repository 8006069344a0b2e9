// Blobs, asked for and sent, several at once. spec/registry.md, section 5.
#include <algorithm>

#include "registry/net/call.h"
#include "registry/net/client.h"

namespace mlc::registry {
namespace {

constexpr std::string_view kOctets = "application/octet-stream";

// How much of an upload the registry has, of "0-99" or "bytes=0-99". "0-0" is what Docker's registry says of none.
std::optional<uint64_t> uploaded(std::string_view text) {
  if (text.starts_with("bytes=")) text.remove_prefix(6);
  if (!text.starts_with("0-")) return std::nullopt;
  const auto last = number_in(text.substr(2));
  if (!last || *last >= kMaxBlobBytes) return std::nullopt;
  return *last == 0 ? 0 : *last + 1;
}

Request request_to(const char* method, std::string url) {
  Request request;
  request.method = method;
  request.url = std::move(url);
  request.body_limit = kMaxErrorBody;
  return request;
}

}  // namespace

Result<std::string> Client::upload_place(const Answer& answer, const std::string& asked) const {
  const auto place = resolved(asked, answer.header("location"));
  const auto origin = place ? origin_of(*place) : std::nullopt;
  if (!origin || (origin->scheme == "http" && !may_be_plain()))
    return Status(Code::Registry, "{} names no usable place for an upload: '{}'", host_, first_line(answer.header("location")));
  return *place;
}

// ---- Whether a blob is there

// HEAD; where it is not there and lies in another repository of the registry, POST with `mount`. A registry that does not mount begins an
// upload instead, which is given up: others may want what it keeps for it.
class Client::AskJob final : public Job {
 public:
  AskJob(Client& client, const std::string& repository, const Descriptor& blob, const std::string& other)
      : client_(client), repository_(repository), blob_(blob), other_(other) {}

  std::optional<Call> next() override {
    if (step_ == Step::Done) return std::nullopt;
    Request request = request_to(step_ == Step::Ask ? "HEAD" : step_ == Step::Mount ? "POST" : "DELETE", place_);
    if (step_ == Step::Ask) request.url = client_.url(repository_, "blobs/" + digest_text(blob_.digest)), request.body_limit = 0;
    if (step_ == Step::Mount) request.url = mount_url();
    return client_.call_of(std::move(request), repository_, Access::Push);
  }

  Status heard(Result<Answer> answered) override {
    const Step step = std::exchange(step_, Step::Done);
    if (step == Step::GiveUp) return ok();
    if (!answered.ok()) return std::move(answered).status();
    if (step == Step::Mount) {
      is_there_ = answered->status == 201;
      const auto place = upload_place_of(*answered);
      if (place) place_ = *place, step_ = Step::GiveUp;
      return ok();
    }
    if (answered->status == 404) {
      if (!other_.empty()) step_ = Step::Mount;
      return ok();
    }
    if (!answered->is_success()) return client_.refused(*answered, repository_);
    const auto size = number_in(answered->header("content-length"));
    is_there_ = !size || *size == blob_.size;  // of another length: not what it is called
    if (!is_there_ && !other_.empty()) step_ = Step::Mount;
    return ok();
  }
  [[nodiscard]] bool is_there() const { return is_there_; }

 private:
  enum class Step : uint8_t { Ask, Mount, GiveUp, Done };

  std::string mount_url() const {
    return with_parameter(with_parameter(client_.url(repository_, "blobs/uploads/"), "mount", digest_text(blob_.digest)), "from", other_);
  }
  std::optional<std::string> upload_place_of(const Answer& answer) const {
    if (answer.status != 202) return std::nullopt;
    auto place = client_.upload_place(answer, mount_url());
    return place.ok() ? std::optional(*place) : std::nullopt;
  }

  Client& client_;
  const std::string& repository_;
  const Descriptor& blob_;
  const std::string& other_;
  Step step_ = Step::Ask;
  std::string place_;
  bool is_there_ = false;
};

Result<std::vector<bool>> Client::has_blobs(const std::string& repository, std::span<const Descriptor> blobs, const std::string& mount_from) {
  std::vector<std::unique_ptr<Job>> jobs;
  std::vector<const AskJob*> asked;
  for (const Descriptor& blob : blobs) {
    auto job = std::make_unique<AskJob>(*this, repository, blob, mount_from);
    asked.push_back(job.get());
    jobs.push_back(std::move(job));
  }
  MLC_RETURN_IF_ERROR(Run(*this, jobs).run());
  std::vector<bool> there;
  for (const AskJob* job : asked) there.push_back(job->is_there());
  return there;
}

// ---- Sending

// POST, then the blob in PUT, or in pieces (PATCH) of which one that was lost is sent again from where the registry has it (GET).
class Client::SendJob final : public Job {
 public:
  SendJob(Client& client, const std::string& repository, const BlobUpload& upload, uint64_t at_once)
      : client_(client), repository_(repository), blob_(upload.blob), content_(upload.content), at_once_(at_once) {}

  std::optional<Call> next() override {
    if (step_ == Step::Done) return std::nullopt;
    Request request = step_ == Step::Begin   ? request_to("POST", client_.url(repository_, "blobs/uploads/"))
                      : step_ == Step::Piece ? piece_request()
                      : step_ == Step::Where ? request_to("GET", place_)
                                             : end_request();
    asked_ = request.url;
    return client_.call_of(std::move(request), repository_, Access::Push);
  }
  uint64_t wait_ms() const override { return step_ == Step::Where ? 100u << failures_ : 0; }

  Status heard(Result<Answer> answered) override {
    if (step_ == Step::Piece) {
      client_.sent_ += take_;
      if (is_lost(answered)) {
        if (++failures_ == kMaxAttempts) return answered.ok() ? client_.refused(*answered, "a part of an upload") : std::move(answered).status();
        step_ = Step::Where;
        return ok();
      }
    }
    if (!answered.ok()) return std::move(answered).status();
    if (step_ == Step::Begin) return begun(*answered);
    if (step_ == Step::End) return ended(*answered);
    return piece_heard(*answered);
  }

 private:
  enum class Step : uint8_t { Begin, Piece, Where, End, Done };

  bool in_pieces() const { return blob_.size > at_once_; }

  Status begun(const Answer& answer) {
    if (answer.status != 202) return client_.refused(answer, "an upload to " + repository_);
    MLC_ASSIGN(place_, client_.upload_place(answer, asked_));
    const uint64_t least = std::min(number_in(answer.header("oci-chunk-min-length")).value_or(0), kMaxBlobBytes);
    piece_ = std::max(at_once_ / 2, least);
    step_ = in_pieces() ? Step::Piece : Step::End;
    return ok();
  }

  Request piece_request() {
    take_ = std::min(piece_, content_.size - done_);
    Request patch = request_to("PATCH", place_);
    patch.headers["Content-Type"] = kOctets;
    patch.headers["Content-Range"] = std::to_string(done_) + "-" + std::to_string(done_ + take_ - 1);
    patch.upload = Upload{take_, [this, from = done_](uint64_t offset, std::span<std::byte> out) { return content_.read(from + offset, out); }};
    return patch;
  }

  static bool is_lost(const Result<Answer>& answered) {
    if (!answered.ok()) return answered.status().code == Code::Registry;
    return !answered->is_whole || answered->status >= 500 || answered->status == 416 || answered->status == 429;
  }

  // Of a piece that arrived, or of the question where to go on.
  Status piece_heard(const Answer& answer) {
    const bool was_lost = step_ == Step::Where;
    if (!answer.is_success()) return client_.refused(answer, "a part of an upload");
    const auto has = uploaded(answer.header("range"));
    const uint64_t now = has ? *has : was_lost ? done_ : done_ + take_;
    if (now > content_.size || (!was_lost && now <= done_))
      return Status(Code::Registry, "{} says that it has {} bytes of an upload of {}", client_.host_, now, content_.size);
    if (now > done_) failures_ = was_lost ? failures_ : 0;
    done_ = now;
    if (!answer.header("location").empty()) {
      MLC_ASSIGN(place_, client_.upload_place(answer, place_));
    }
    step_ = done_ < content_.size ? Step::Piece : Step::End;
    return ok();
  }

  Request end_request() const {
    Request end = request_to("PUT", with_parameter(place_, "digest", digest_text(blob_.digest)));
    end.headers["Content-Type"] = kOctets;
    end.upload = in_pieces() ? Upload{0, content_.read} : content_;
    return end;
  }

  Status ended(const Answer& answer) {
    if (!answer.is_success()) return client_.refused(answer, digest_text(blob_.digest));
    if (!in_pieces()) client_.sent_ += content_.size;
    step_ = Step::Done;
    return ok();
  }

  Client& client_;
  const std::string& repository_;
  const Descriptor& blob_;
  const Upload& content_;
  const uint64_t at_once_;
  Step step_ = Step::Begin;
  std::string place_, asked_;
  uint64_t piece_ = 0, done_ = 0, take_ = 0;  // bytes of a piece; that the registry has; of the piece on its way
  int failures_ = 0;
};

Status Client::put_blobs(const std::string& repository, std::span<const BlobUpload> uploads, uint64_t at_once) {
  std::vector<std::unique_ptr<Job>> jobs;
  for (const BlobUpload& upload : uploads) jobs.push_back(std::make_unique<SendJob>(*this, repository, upload, at_once));
  return Run(*this, jobs).run();
}

}  // namespace mlc::registry
