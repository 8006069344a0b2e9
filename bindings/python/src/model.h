// Models and sessions as Python holds them: owners of the handles of mlc.h. A session keeps its model alive, a model the
// bytes that it was opened from.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "inputs.h"

namespace mlrt {

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

struct SessionWishes {
  std::string variant, require;
  uint32_t threads = 0;
  uint64_t time_limit_ns = 0, memory_limit = 0;
  bool profile = false;
};

// What the strings and lists of a run may take as objects of Python, beside the memory of the session: they can share theirs
// there. Bounded for files that nobody trusts.
class CopyBound {
 public:
  explicit CopyBound(const OpenModel& model) : left_(model.native_allowed ? UINT64_MAX : kCopiedBytes) {}
  // Raises MLC_RESOURCE, E6006, at the end of it.
  void take(uint64_t bytes, const char* name);

 private:
  static constexpr uint64_t kCopiedBytes = uint64_t{48} << 20;
  uint64_t left_;
};

class Session {
 public:
  static std::unique_ptr<Session> create(std::shared_ptr<OpenModel> model, const SessionWishes& wishes);
  ~Session() { mlc().session_release(handle_); }

  struct RunWishes {
    const Cancel* cancel = nullptr;
    uint64_t time_limit_ns = 0;
    bool tensors = false;  // give Tensor, not NumPy arrays
  };
  nb::dict run(uint32_t program, nb::dict inputs, const RunWishes& wishes);

  nb::dict info() const;
  nb::dict selftest(const std::optional<std::string>& vector);
  nb::list profile(const std::string& program) const;
  void state_reset();
  nb::bytes state_save();
  void state_restore(nb::bytes state);

  MlcSession* handle() const { return handle_; }
  // Held while the session is used; raises MLC_USAGE where another thread does.
  std::unique_lock<std::mutex> use() const;
  // An output as Python has it. `owned`: the Tensor that the library has written to, or none: then the data is copied.
  nb::object output(const MlcTensor& out, nb::handle owned, bool tensors, CopyBound& bound) const;
  const OpenModel& model() const { return *model_; }

 private:
  Session() = default;

  std::shared_ptr<OpenModel> model_;
  MlcSession* handle_ = nullptr;
  mutable std::mutex used_;
};

// Sessions of one model for whoever runs it, from any thread: an idle one, or a new one.
class Pool {
 public:
  Pool(std::shared_ptr<OpenModel> model, SessionWishes wishes) : model_(std::move(model)), wishes_(std::move(wishes)) {}

  class Lease {
   public:
    Lease(Pool& pool, std::unique_ptr<Session> session) : pool_(pool), session_(std::move(session)) {}
    Lease(const Lease&) = delete;
    ~Lease();
    Session* operator->() const { return session_.get(); }

   private:
    Pool& pool_;
    std::unique_ptr<Session> session_;
  };
  Lease lease();

 private:
  std::shared_ptr<OpenModel> model_;
  const SessionWishes wishes_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Session>> idle_;  // guarded by mutex_
};

std::shared_ptr<OpenModel> open_model(nb::dict options);
void add_model(nb::module_& m);

}  // namespace mlrt
