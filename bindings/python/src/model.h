// Models and sessions as Python holds them: owners of the handles of mlc.h. A session keeps its model alive, a model the
// bytes that it was opened from.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "inputs.h"
#include "memory.h"

namespace mlrt {

// As the C API takes texts that need not be given.
inline const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

struct Program {
  std::string name;
  bool is_default = false;
  std::vector<Port> inputs, outputs;
};

// One open container. Immutable.
struct OpenModel {
  OpenModel() = default;
  OpenModel(const OpenModel&) = delete;
  ~OpenModel();

  MlcModel* handle = nullptr;
  Py_buffer memory{};  // that it was opened from, or obj is null
  std::vector<Program> programs;
  bool native_allowed = false;
};

class Cancel {
 public:
  Cancel();
  Cancel(const Cancel&) = delete;
  ~Cancel() { mlc().cancel_release(token_); }
  void cancel() { mlc().cancel(token_), is_cancelled_ = true; }
  bool is_cancelled() const { return is_cancelled_; }
  MlcCancel* token() const { return token_; }

 private:
  MlcCancel* token_ = nullptr;
  bool is_cancelled_ = false;
};

// Threads that several sessions share.
class ThreadPool {
 public:
  ThreadPool(uint32_t threads, std::vector<int32_t> cpus, bool pin);
  ThreadPool(const ThreadPool&) = delete;
  ~ThreadPool() { mlc().pool_release(pool_); }
  MlcPool* pool() const { return pool_; }

 private:
  MlcPool* pool_ = nullptr;
};

struct SessionWishes {
  std::string variant, require;
  std::shared_ptr<ThreadPool> pool;  // null: that of the process
  uint32_t threads = 0;
  uint64_t time_limit_ns = 0, memory_limit = 0;
  bool profile = false;
};

// What the strings and lists of a run may take as objects of Python, beside the memory of the session: they can share theirs
// there. Bounded for untrusted files.
class CopyBound {
 public:
  explicit CopyBound(const OpenModel& model) : left_(model.native_allowed ? UINT64_MAX : kCopiedBytes) {}
  // Raises MLC_RESOURCE, E6006, at the end of it.
  void take(uint64_t bytes, const char* name);

 private:
  static constexpr uint64_t kCopiedBytes = uint64_t{48} << 20;
  uint64_t left_;
};

// Taken while a session is used; may be given back by another thread than that which took it.
class InUse {
 public:
  InUse() = default;
  explicit InUse(std::atomic<bool>& flag) : flag_(&flag) {}
  InUse(InUse&& other) noexcept : flag_(std::exchange(other.flag_, nullptr)) {}
  InUse& operator=(InUse&& other) noexcept {
    std::swap(flag_, other.flag_);
    return *this;
  }
  ~InUse() {
    if (flag_) flag_->store(false, std::memory_order_release);
  }

 private:
  std::atomic<bool>* flag_ = nullptr;
};

// What outputs are: NumPy arrays, Tensor, or DeviceTensor where the session runs.
enum class Form : uint32_t { Numpy, Tensors, OnDevice };

// What a run of arrays takes and gives, for as long as it lasts.
struct Arrays {
  const Program* program = nullptr;
  Inputs inputs;
  std::vector<MlcTensor> in, out;
  std::vector<nb::object> owned;  // memory that the library writes to and Python reads
  Form form = Form::Numpy;
};

class Session {
 public:
  static std::unique_ptr<Session> create(std::shared_ptr<OpenModel> model, const SessionWishes& wishes);
  ~Session();

  struct RunWishes {
    const Cancel* cancel = nullptr;
    uint64_t time_limit_ns = 0;
    Form form = Form::Numpy;
  };
  nb::dict run(uint32_t program, nb::dict inputs, const RunWishes& wishes);
  // The parts of it, for a run that goes on by itself (async.h).
  void bind(uint32_t program, nb::dict inputs, Form form, Arrays& out) const;
  nb::dict results(Arrays& arrays) const;

  nb::dict info() const;
  // Of one program. Raises MLC_USAGE for an index behind the last, MLC_UNSUPPORTED where the library is too old to tell.
  nb::dict program_info(uint32_t program) const;
  nb::dict selftest(const std::optional<std::string>& vector);
  nb::list profile(const std::string& program) const;
  void state_reset();
  nb::bytes state_save();
  void state_restore(nb::bytes state);

  MlcSession* handle() const { return handle_; }
  // Held while the session is used; raises MLC_USAGE where another thread does.
  InUse use() const;
  // An output as Python has it. `owned`: the Tensor that the library has written to, or none: then the data is copied.
  nb::object output(const MlcTensor& out, nb::handle owned, bool tensors, CopyBound& bound) const;
  const OpenModel& model() const { return *model_; }

 private:
  Session() = default;

  std::shared_ptr<OpenModel> model_;
  std::shared_ptr<ThreadPool> pool_;
  std::shared_ptr<OutputMemory> memory_ = std::make_shared<OutputMemory>();
  MlcSession* handle_ = nullptr;
  mutable std::atomic<bool> used_{false};
};

// Sessions of one model for callers on any thread: an idle one, or a new one.
class Pool {
 public:
  Pool(std::shared_ptr<OpenModel> model, SessionWishes wishes) : model_(std::move(model)), wishes_(std::move(wishes)) {}

  class Lease {
   public:
    Lease(Pool& pool, std::unique_ptr<Session> session) : pool_(pool), session_(std::move(session)) {}
    Lease(const Lease&) = delete;
    ~Lease();
    Session* operator->() const { return session_.get(); }
    Session& operator*() const { return *session_; }

   private:
    Pool& pool_;
    std::unique_ptr<Session> session_;
  };
  Lease lease() { return {*this, take()}; }
  std::unique_ptr<Lease> new_lease() { return std::make_unique<Lease>(*this, take()); }

 private:
  std::unique_ptr<Session> take();

  std::shared_ptr<OpenModel> model_;
  const SessionWishes wishes_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Session>> idle_;  // guarded by mutex_
};

std::shared_ptr<OpenModel> open_model(nb::dict options);
void add_model(nb::module_& m);

}  // namespace mlrt
