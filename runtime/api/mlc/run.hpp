// Runs: how they end, how long they may take, threads that sessions share. Read ../mlc.hpp first.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "tensor.hpp"

namespace mlrt {

// Ends runs, from any thread. A source that was cancelled stays so.
class CancelSource {
 public:
  static Result<CancelSource> create() {
    if (!api()) return detail::too_old();
    MlcCancel* token = nullptr;
    MlcError* error = nullptr;
    if (const int code = api()->cancel_create(&token, &error); code != MLC_OK) return Error(code, error);
    return CancelSource(token);
  }
  void cancel() const noexcept { api()->cancel(token_.get()); }
  MlcCancel* handle() const noexcept { return token_.get(); }

 private:
  struct Release {
    void operator()(MlcCancel* t) const noexcept { api()->cancel_release(t); }
  };
  explicit CancelSource(MlcCancel* token) noexcept : token_(token) {}
  std::unique_ptr<MlcCancel, Release> token_;
};

struct RunOptions {
  std::string program = {};                // empty: `main`, or the container's default one
  std::stop_token stop = {};               // ends the run
  const CancelSource* cancel = nullptr;    // ends it too; a stop that is requested cancels this source
  std::chrono::nanoseconds time_limit{0};  // instead of the session's
};

struct PoolOptions {
  uint32_t threads = 0;
  std::vector<int32_t> cpus = {};
  bool pin = false;
};

// Threads that sessions share.
class Pool {
 public:
  static Result<Pool> create(const PoolOptions& options = {}) {
    if (!api()) return detail::too_old();
    auto raw = detail::sized<MlcPoolOptions>();
    raw.threads = options.threads;
    raw.cpus = options.cpus.empty() ? nullptr : options.cpus.data();
    raw.num_cpus = detail::count(options.cpus.size());
    raw.pin = options.pin;
    MlcPool* pool = nullptr;
    MlcError* error = nullptr;
    if (const int code = api()->pool_create(&raw, &pool, &error); code != MLC_OK) return Error(code, error);
    return Pool(pool);
  }
  Pool(Pool&&) noexcept = default;
  Pool& operator=(Pool&&) noexcept = default;
  Pool(const Pool&) = delete;

 private:
  friend class Model;
  explicit Pool(MlcPool* pool) : pool_(pool, [](MlcPool* p) { api()->pool_release(p); }) {}
  std::shared_ptr<MlcPool> pool_;
};

namespace detail {

// The token of one run: the caller's, or one for its stop token.
class RunToken {
 public:
  Result<void> set(const RunOptions& options) {
    token_ = options.cancel ? options.cancel->handle() : nullptr;
    if (!options.stop.stop_possible()) return {};
    if (!token_) {
      auto made = CancelSource::create();
      if (!made) return std::move(made).error();
      token_ = own_.emplace(*std::move(made)).handle();
    }
    callback_.emplace(options.stop, Cancel{token_});
    return {};
  }
  MlcCancel* token() const noexcept { return token_; }

 private:
  struct Cancel {
    MlcCancel* token;
    void operator()() const noexcept { api()->cancel(token); }
  };
  MlcCancel* token_ = nullptr;
  std::optional<CancelSource> own_;
  std::optional<std::stop_callback<Cancel>> callback_;  // last: it refers to the token
};

inline MlcRunOptions raw_options(const RunOptions& options, const RunToken& token) noexcept {
  auto raw = sized<MlcRunOptions>();
  raw.program = or_null(options.program);
  raw.cancel = token.token();
  raw.time_limit_ns = static_cast<uint64_t>(std::max<int64_t>(options.time_limit.count(), 0));
  return raw;
}

// A run that goes on by itself, with all that it uses.
template <class Function>
struct AsyncRun {
  std::vector<Input> given;
  std::vector<MlcTensor> inputs, outputs;
  RunToken token;
  Function done;

  static void ended(void* user, int code, MlcError* error) noexcept {
    std::unique_ptr<AsyncRun> run(static_cast<AsyncRun*>(user));
    Result<Outputs> result = code == MLC_OK ? Result<Outputs>(Outputs(std::move(run->outputs))) : Error(code, error);
    Function done = std::move(run->done);
    run.reset();  // a function that starts the next run finds this one gone
    done(std::move(result));
  }
};

}  // namespace detail

}  // namespace mlrt
