// One variant of a model, loaded, and its runs. Read ../mlc.hpp first.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "open.hpp"
#include "run.hpp"

namespace mlrt {

struct SessionOptions {
  std::string variant = {};
  std::string require = {};
  uint32_t threads = 0;
  bool pin_caller = false;
  bool profile = false;
  std::chrono::nanoseconds time_limit{0};
  uint64_t memory_limit = 0;
  const Pool* pool = nullptr;
  const MlcAllocator* allocator = nullptr;
};

struct SessionInfo {
  std::string variant;
  bool is_portable;
  uint32_t threads;
  uint64_t arena_bytes;
  std::string note;
  std::string device;  // "gpu0"; empty: the processor
};
struct Selftest {
  uint32_t vectors, failures;
  double max_abs, max_rel;
  std::string text;  // the first failure
};
struct ProfileEntry {
  std::string name;
  std::chrono::nanoseconds time;
  uint64_t runs;
};

namespace detail {

// Of a session: its handle, what it uses, and what a run needs, so that it need not be made again.
struct SessionState {
  struct Results {
    std::string_view program;
    bool is_default;
    std::vector<MlcTensor> outputs;  // all that the program has, to be in memory of the session
  };
  std::shared_ptr<ModelState> model;
  std::shared_ptr<MlcPool> pool;
  std::vector<Results> programs;
  std::vector<MlcTensor> inputs;
  MlcSession* session = nullptr;

  SessionState() = default;
  SessionState(const SessionState&) = delete;
  ~SessionState() {
    if (session) api()->session_release(session);
  }
  // Of a program that there is not: none, and the library says why.
  std::vector<MlcTensor> outputs_of(std::string_view program) const {
    const Results* found = nullptr;
    for (const Results& p : programs)
      if (program.empty() ? p.program == "main" || (!found && p.is_default) : p.program == program) found = &p;
    return found ? found->outputs : std::vector<MlcTensor>();
  }
};

}  // namespace detail

// A run that was begun: to be asked for its end, by the thread that uses the session, which does nothing else meanwhile. One whose
// end was not asked for is waited for when this goes, and cancelled before unless a CancelSource of the caller does that. It keeps what
// outputs in memory of the session need.
class Ticket {
 public:
  // The end of the run, once.
  Result<Outputs> wait() { return *wait_for_ns(UINT64_MAX); }
  // None: it goes on after so long.
  template <class Rep, class Period>
  std::optional<Result<Outputs>> wait_for(std::chrono::duration<Rep, Period> at_most) {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(at_most).count();
    return wait_for_ns(static_cast<uint64_t>(std::max<decltype(ns)>(ns, 0)));
  }
  // Whether `wait` would give the end without waiting.
  bool done() const { return !run_ || api()->run_done(run_->session->session) != 0; }

  Ticket(Ticket&&) noexcept = default;
  Ticket& operator=(Ticket&&) noexcept = default;
  Ticket(const Ticket&) = delete;

 private:
  friend class Session;
  struct Run {
    std::shared_ptr<detail::SessionState> session;
    std::vector<Input> given;
    std::vector<MlcTensor> inputs, outputs;
    CancelSource cancel;
    detail::RunToken token;
    bool is_begun = false;
    ~Run() {
      if (!is_begun) return;
      cancel.cancel();
      api()->run_wait(session->session, UINT64_MAX, nullptr);
    }
  };
  explicit Ticket(std::unique_ptr<Run> run) : session_(run->session), run_(std::move(run)) {}
  std::optional<Result<Outputs>> wait_for_ns(uint64_t ns) {
    if (!run_) return Result<Outputs>(Error(MLC_USAGE, "the end of this run was given already"));
    MlcError* error = nullptr;
    const int code = api()->run_wait(run_->session->session, ns, &error);
    if (code == MLC_NO) return std::nullopt;
    const auto run = std::move(run_);
    run->is_begun = false;
    if (code != MLC_OK) return Result<Outputs>(Error(code, error));
    return Result<Outputs>(Outputs(std::move(run->outputs)));
  }
  std::shared_ptr<detail::SessionState> session_;
  std::unique_ptr<Run> run_;  // null: its end was given
};

// One variant of a model, loaded, with its memory. Used by one thread at a time.
class Session {
 public:
  // All outputs of the program, in memory of the session.
  Result<Outputs> run(std::span<const Input> inputs, const RunOptions& options = {}) {
    return run_into(inputs, state_->outputs_of(options.program), options);
  }
  Result<Outputs> run(std::initializer_list<Input> inputs, const RunOptions& options = {}) {
    return run(std::span(inputs.begin(), inputs.size()), options);
  }
  // These outputs alone.
  Result<Outputs> run(std::span<const Input> inputs, std::span<const Output> outputs, const RunOptions& options = {}) {
    return run_into(inputs, bound(outputs, options.program), options);
  }
  Result<Outputs> run(std::initializer_list<Input> inputs, std::initializer_list<Output> outputs, const RunOptions& options = {}) {
    return run(std::span(inputs.begin(), inputs.size()), std::span(outputs.begin(), outputs.size()), options);
  }

  // Starts a run and returns. `done(Result<Outputs>)` is called once, by a thread of the library, unless this gives an
  // error; within, the session may be used again, but not destroyed. What inputs refer to stays until then. A session that
  // is destroyed waits for its run.
  template <class Function>
    requires std::invocable<Function&, Result<Outputs>> && std::move_constructible<std::decay_t<Function>>
  Result<void> run_async(std::vector<Input> inputs, Function&& done, const RunOptions& options = {}) {
    using Run = detail::AsyncRun<std::decay_t<Function>>;
    std::unique_ptr<Run> run(new Run{std::move(inputs), {}, state_->outputs_of(options.program), {}, std::forward<Function>(done)});
    if (auto set = run->token.set(options); !set) return set;
    for (const Input& i : run->given) run->inputs.push_back(i.bind());
    const MlcRunOptions raw = detail::raw_options(options, run->token);
    MlcError* error = nullptr;
    if (const int code = api()->run_async(state_->session, &raw, run->inputs.data(), detail::count(run->inputs.size()),
                                          run->outputs.data(), detail::count(run->outputs.size()), &Run::ended, run.get(), &error);
        code != MLC_OK)
      return Error(code, error);
    run.release();  // `ended` has it
    return {};
  }

  // Starts a run and returns: the caller asks the ticket for its end. On a device no thread waits meanwhile. What
  // inputs and outputs refer to stays until then; no outputs: all of the program, in memory of the session.
  Result<Ticket> start(std::vector<Input> inputs, std::span<const Output> outputs = {}, const RunOptions& options = {}) {
    auto cancel = CancelSource::create();
    if (!cancel) return std::move(cancel).error();
    RunOptions how = options;
    std::unique_ptr<Ticket::Run> run(new Ticket::Run{state_, std::move(inputs), {}, bound(outputs, options.program), *std::move(cancel), {}});
    if (!how.cancel) how.cancel = &run->cancel;
    if (auto set = run->token.set(how); !set) return std::move(set).error();
    for (const Input& i : run->given) run->inputs.push_back(i.bind());
    const MlcRunOptions raw = detail::raw_options(how, run->token);
    MlcError* error = nullptr;
    if (const int code = api()->run_start(state_->session, &raw, run->inputs.data(), detail::count(run->inputs.size()),
                                          run->outputs.data(), detail::count(run->outputs.size()), &error);
        code != MLC_OK)
      return Error(code, error);
    run->is_begun = true;
    return Ticket(std::move(run));
  }
  Result<Ticket> start(std::vector<Input> inputs, const RunOptions& options) { return start(std::move(inputs), {}, options); }

  // Type and shape of all outputs, without running. MLC_UNSUPPORTED where only a run tells.
  Result<Outputs> infer_shapes(std::span<const Input> inputs, const std::string& program = {}) {
    bind(inputs);
    auto outputs = state_->outputs_of(program);
    MlcError* error = nullptr;
    const int code = api()->infer_shapes(state_->session, detail::or_null(program), state_->inputs.data(),
                                         detail::count(inputs.size()), outputs.data(), detail::count(outputs.size()), &error);
    if (code != MLC_OK) return Error(code, error);
    return Outputs(std::move(outputs));
  }

  SessionInfo info() const {
    auto raw = detail::sized<MlcSessionInfo>();
    api()->session_info(state_->session, &raw);
    return info_of(raw);
  }
  // The same of one program, by its index in Model::programs: programs differ where devices were given by program. MLC_USAGE if there
  // is none of the index, MLC_UNSUPPORTED where the library is too old to tell.
  Result<SessionInfo> program_info(uint32_t program) const {
    if (!detail::has(offsetof(MlcApi, program_info))) return detail::too_old();
    auto raw = detail::sized<MlcSessionInfo>();
    if (const int code = api()->program_info(state_->session, program, &raw); code != MLC_OK)
      return Error(code, "the container has no such program");
    return info_of(raw);
  }

  Result<void> state_reset() {
    MlcError* error = nullptr;
    if (const int code = api()->state_reset(state_->session, &error); code != MLC_OK) return Error(code, error);
    return {};
  }
  // Valid until the session is used again.
  Result<std::span<const std::byte>> state_save() {
    MlcBytes bytes{};
    MlcError* error = nullptr;
    if (const int code = api()->state_save(state_->session, &bytes, &error); code != MLC_OK) return Error(code, error);
    return std::span(static_cast<const std::byte*>(bytes.data), static_cast<size_t>(bytes.bytes));
  }
  Result<void> state_restore(std::span<const std::byte> bytes) {
    MlcError* error = nullptr;
    if (const int code = api()->state_restore(state_->session, bytes.data(), bytes.size(), &error); code != MLC_OK)
      return Error(code, error);
    return {};
  }

  // The golden vector of this name; empty: all of them. Differences are a value: `failures`.
  Result<Selftest> selftest(const std::string& vector = {}) {
    auto raw = detail::sized<MlcSelftest>();
    MlcError* error = nullptr;
    const int code = api()->selftest(state_->session, detail::or_null(vector), &raw, &error);
    Error why(code, error);
    if (code != MLC_OK && !(code == MLC_SELFTEST && raw.failures > 0)) return why;
    return Selftest{raw.vectors, raw.failures, raw.max_abs, raw.max_rel, detail::text(raw.text)};
  }
  // The instructions of a program, after runs of a session with `profile`.
  std::vector<ProfileEntry> profile(const std::string& program = {}) const {
    std::vector<ProfileEntry> found;
    auto raw = detail::sized<MlcProfileEntry>();
    while (api()->profile(state_->session, detail::or_null(program), detail::count(found.size()), &raw) == MLC_OK)
      found.push_back({detail::text(raw.name), std::chrono::nanoseconds(raw.ns), raw.runs});
    return found;
  }

  MlcSession* handle() const noexcept { return state_->session; }

  Session(Session&&) noexcept = default;
  Session& operator=(Session&&) noexcept = default;
  Session(const Session&) = delete;

 private:
  friend class Model;
  explicit Session(std::shared_ptr<detail::SessionState> state) : state_(std::move(state)) {}

  static SessionInfo info_of(const MlcSessionInfo& raw) {
    return {detail::text(raw.variant), raw.is_portable != 0, raw.threads, raw.arena_bytes, detail::text(raw.note), detail::text(raw.device)};
  }
  // None: all of the program. What a run gives bears the model's names, for it outlives `outputs`.
  std::vector<MlcTensor> bound(std::span<const Output> outputs, std::string_view program) const {
    std::vector<MlcTensor> known = state_->outputs_of(program);
    if (outputs.empty()) return known;
    std::vector<MlcTensor> found;
    for (size_t i = 0; i < outputs.size(); ++i) {
      MlcTensor& t = found.emplace_back(outputs[i].bind());
      if (!t.name && i < known.size()) t.name = known[i].name;
      for (const MlcTensor& k : known)
        if (t.name && std::string_view(t.name) == k.name) t.name = k.name;
    }
    return found;
  }
  void bind(std::span<const Input> inputs) {
    state_->inputs.clear();
    for (const Input& i : inputs) state_->inputs.push_back(i.bind());
  }
  Result<Outputs> run_into(std::span<const Input> inputs, std::vector<MlcTensor> outputs, const RunOptions& options) {
    detail::RunToken token;
    if (auto set = token.set(options); !set) return std::move(set).error();
    bind(inputs);
    const MlcRunOptions raw = detail::raw_options(options, token);
    MlcError* error = nullptr;
    const int code = api()->run(state_->session, &raw, state_->inputs.data(), detail::count(inputs.size()), outputs.data(),
                                detail::count(outputs.size()), &error);
    if (code != MLC_OK) return Error(code, error);
    return Outputs(std::move(outputs));
  }
  std::shared_ptr<detail::SessionState> state_;  // of tickets as well
};

}  // namespace mlrt
