#include "async.h"

#include <condition_variable>
#include <deque>
#include <mutex>

namespace mlrt {
namespace {

// Of runs that are over. It lives as long as the process: threads of the library may come late.
struct Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<AsyncRun*> runs;
  bool is_closed = false;
};
Queue& queue() {
  static auto* const all = new Queue;
  return *all;
}

// Waits for the end of a run: (future, outputs or an exception). None after `close_queue`, when no run is left.
nb::object next_done() {
  AsyncRun* run = nullptr;
  {
    const nb::gil_scoped_release unlocked;
    std::unique_lock lock(queue().mutex);
    queue().changed.wait(lock, [] { return !queue().runs.empty() || queue().is_closed; });
    if (!queue().runs.empty()) {
      run = queue().runs.front();
      queue().runs.pop_front();
    }
  }
  if (!run) return nb::none();
  const std::unique_ptr<AsyncRun> owned(run);
  return owned->result();
}

void close_queue() {
  const std::lock_guard lock(queue().mutex);
  queue().is_closed = true;
  queue().changed.notify_all();
}

}  // namespace

void AsyncRun::start(Session& session, std::unique_ptr<Pool::Lease> lease, nb::object of, uint32_t program, nb::dict inputs,
                     const Session::RunWishes& wishes, nb::object cancel, nb::object future) {
  std::unique_ptr<AsyncRun> run(new AsyncRun(session, std::move(lease), std::move(of), std::move(cancel), std::move(future)));
  run->in_use_ = session.use();
  session.bind(program, std::move(inputs), wishes.form, run->arrays_);
  auto options = sized<MlcRunOptions>();
  options.program = run->arrays_.program->name.c_str();
  options.cancel = wishes.cancel ? wishes.cancel->token() : nullptr;
  options.time_limit_ns = wishes.time_limit_ns;
  MlcError* error = nullptr;
  Arrays& a = run->arrays_;
  const int code = mlc().run_async(session.handle(), &options, a.in.data(), static_cast<uint32_t>(a.in.size()), a.out.data(),
                                   static_cast<uint32_t>(a.out.size()), &AsyncRun::done, run.get(), &error);
  check(code, error);
  (void)run.release();  // the queue's, when it is over
}

void AsyncRun::done(void* over, int code, MlcError* error) {
  auto* const run = static_cast<AsyncRun*>(over);
  run->code_ = code;
  run->error_ = error;
  const std::lock_guard lock(queue().mutex);
  queue().runs.push_back(run);
  queue().changed.notify_one();
}

nb::tuple AsyncRun::result() {
  try {
    check(code_, error_);
    return nb::make_tuple(future_, session_.results(arrays_));
  } catch (...) {  // whatever it is, it is the answer: the thread that delivers must go on
    return nb::make_tuple(future_, exception_in_flight());
  }
}

void add_async(nb::module_& m) {
  m.def("run_async",
        [](nb::object of, uint32_t program, nb::dict inputs, nb::object cancel, uint64_t time_limit_ns, uint32_t form, nb::object future) {
          const Session::RunWishes wishes{nb::cast<const Cancel*>(cancel), time_limit_ns, static_cast<Form>(form)};
          if (nb::isinstance<Pool>(of)) {
            auto lease = nb::cast<Pool&>(of).new_lease();
            Session& session = **lease;
            AsyncRun::start(session, std::move(lease), std::move(of), program, std::move(inputs), wishes, std::move(cancel), std::move(future));
          } else {
            Session& session = nb::cast<Session&>(of);
            AsyncRun::start(session, nullptr, std::move(of), program, std::move(inputs), wishes, std::move(cancel), std::move(future));
          }
        },
        nb::arg("of"), nb::arg("program"), nb::arg("inputs"), nb::arg("cancel"), nb::arg("time_limit_ns"), nb::arg("form"),
        nb::arg("future"));
  m.def("next_done", &next_done);
  m.def("close_queue", &close_queue);
}

}  // namespace mlrt
