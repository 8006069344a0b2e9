// The inside of Client, for the sources of this folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "registry/net/client.h"

namespace mlc::registry {

// A request on its way to an answer that counts.
struct Client::Call {
  Request request;  // as it is sent next
  std::string repository;
  Access access;
  uint64_t proof_round = 0;  // what Client had when the request got its proof
  int attempt = 1, hops = 0;
  bool asked_who = false;
  uint64_t wait_ms = 0;  // before it is sent again
  bool is_busy = false;  // it waits because the registry has too much to do
};

// Something that takes requests, one behind the other, while others do as well.
class Client::Job {
 public:
  virtual ~Job() = default;
  // What to send now; none: it is done. The job stays where it is as long as the request is on its way.
  [[nodiscard]] virtual std::optional<Call> next() = 0;
  // What came of it.
  [[nodiscard]] virtual Status heard(Result<Answer> answered) = 0;
  // How long the next request has to wait, because the last one failed.
  [[nodiscard]] virtual uint64_t wait_ms() const { return 0; }
  // Its request was on its way and is not any more.
  virtual void was_stopped() {}
};

// Jobs, up to `parallel` requests at once, half as many after each answer that the registry is busy. They are begun in their order. One that
// fails stops all behind it; the error is that of the first that fails in this order, whichever was told first.
class Client::Run {
 public:
  Run(Client& client, std::span<const std::unique_ptr<Job>> jobs) : client_(client), jobs_(jobs), end_(jobs.size()), most_(std::max(client.options_.parallel, 1u)) {}
  ~Run() { stop_from(0); }

  [[nodiscard]] Status run();
  // The place of the job that failed.
  [[nodiscard]] size_t failed() const { return end_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Open {
    Call call;
    std::optional<uint64_t> number = {};  // none: it waits to be sent
    Clock::time_point not_before = {};
  };

  bool send_what_may();
  void open_next(size_t place);
  size_t on_their_way() const;
  uint64_t patience() const;
  void take(Http::Ended ended);
  void wait(Open& open);
  void stop_with(size_t place, Status status);
  void stop_from(size_t place);

  Client& client_;
  std::span<const std::unique_ptr<Job>> jobs_;
  std::map<size_t, std::unique_ptr<Open>> open_;  // by the job's place; an exchange refers to it
  size_t begun_ = 0, end_;                        // the next job to begin; from where on none is wanted any more
  size_t most_;
  Clock::time_point not_before_ = {};
  Status outcome_;
};

// None: no decimal number.
[[nodiscard]] std::optional<uint64_t> number_in(std::string_view text);
// What a registry says, for people.
[[nodiscard]] std::string first_line(std::string_view body);

}  // namespace mlc::registry
