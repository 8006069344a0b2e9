// What is behind the handles of mlc.h.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel_flag.h"
#include "base/status.h"
#include "runtime/api/mlc.h"
#include "runtime/api/session/model.h"
#include "runtime/api/session/program_sessions.h"
#include "runtime/plan/memory_budget.h"

struct MlcError {
  mlc::Status status;
  std::string text;
};

struct MlcFile {
  std::optional<mlc::api::ModelFile> file;  // none: used up
  std::string name;
};

struct MlcModel {
  std::unique_ptr<mlc::api::Model> model;
  // What the table hands out.
  std::string root;
  std::vector<std::string> reasons;                              // per variant
  std::vector<uint32_t> ranks;                                   // likewise: its place among those that fit
  std::vector<std::vector<std::vector<int64_t>>> golden_shapes;  // per program and input, of its first golden vector
};

struct MlcPool {
  std::unique_ptr<mlc::WorkerPool> pool;
};

// A run that goes on by itself: what it was given, and its end where there is no callback.
struct AsyncRun {
  MlcRunOptions options{};  // `program` is that of the next
  std::string program;
  const MlcTensor* inputs = nullptr;
  uint32_t num_inputs = 0;
  MlcTensor* outputs = nullptr;
  uint32_t num_outputs = 0;
  MlcDone done = nullptr;  // null: run_wait tells
  void* user = nullptr;
  bool is_on_device = false;  // it was submitted there, and goes on without a thread
  uint32_t function = 0;      // of a run on a device
  int code = 0;               // once it is over, for run_wait, as the next
  MlcError* error = nullptr;
};
enum class Phase : uint32_t { Idle, Going, Over };  // Over: run_wait has not told yet

struct MlcSession {
  std::unique_ptr<mlc::api::ProgramSessions> sessions;  // first: its allocator is the one of what follows
  mlc::api::Session* session = nullptr;     // of them, that of the program that tensors were bound to last
  std::vector<mlc::exec::InputArg> inputs;  // reused, so that a run allocates nothing
  std::vector<mlc::exec::OutputArg> outputs;
  std::vector<mlc::exec::InputArg> input_items;  // of lists
  std::vector<MlcTensor> output_items;      // of lists
  mlc::exec::Charge output_items_charge;
  std::shared_ptr<void> places;             // of arrays in memory of the application (places.cpp)
  std::vector<std::vector<int64_t>> inferred;
  std::string selftest_text;
  mlc::AlignedBlock saved_state;
  AsyncRun async;
  std::atomic<uint32_t> phase{static_cast<uint32_t>(Phase::Idle)};  // of `async`; Idle: another run may begin
  std::atomic<uint32_t> not_done{0};     // threads that have something left to do for runs

  bool is_in(Phase p) const { return phase.load(std::memory_order_acquire) == static_cast<uint32_t>(p); }
};

// Its owners are the application and the runs that go on by themselves; the last one deletes it.
struct MlcCancel {
  mlc::CancelFlag cancelled;
  std::atomic<uint32_t> owners{1};

  void hold() { owners.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
};

namespace mlc::api {

// The code of a failure; and the error, if the caller wants one.
int fail(Status status, MlcError** error);
// The same where there was no memory. Needs none: the error is the one that is kept for this.
int fail_without_memory(MlcError** error);
// What that error says. Short enough to need no memory.
inline Status no_memory() { return Status(Code::Resource, "no memory"); }

// Usage where a function of it is missing; nothing for null.
Result<std::optional<Allocator>> allocator_of(const MlcAllocator* given);

inline std::string text_or_empty(const char* s) { return s ? s : ""; }

}  // namespace mlc::api
