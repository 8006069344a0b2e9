// Runs that go on by themselves. The library calls from a thread of its own when one is over; it only puts it into a queue,
// which a thread of Python empties: no thread of the library ever waits for the lock of the interpreter.
#pragma once

#include <memory>
#include <optional>

#include "model.h"

namespace mlrt {

// One run, from its start until `next_done` has given it. Made and destroyed with the lock of the interpreter.
class AsyncRun {
 public:
  // `of`: the object of Python that owns the session, kept as long as the run. `future`: what `next_done` gives back.
  static void start(Session& session, std::unique_ptr<Pool::Lease> lease, nb::object of, uint32_t program, nb::dict inputs,
                    const Session::RunWishes& wishes, nb::object cancel, nb::object future);

  nb::tuple result();  // (future, outputs), or what `check` raises: (future, exception)

 private:
  AsyncRun(Session& session, std::unique_ptr<Pool::Lease> lease, nb::object of, nb::object cancel, nb::object future)
      : of_(std::move(of)), cancel_(std::move(cancel)), future_(std::move(future)), lease_(std::move(lease)), session_(session) {}
  static void done(void* run, int code, MlcError* error);

  nb::object of_, cancel_, future_;
  std::unique_ptr<Pool::Lease> lease_;  // of a pool
  Session& session_;
  Arrays arrays_;
  InUse in_use_;
  int code_ = MLC_OK;
  MlcError* error_ = nullptr;
};

void add_async(nb::module_& m);

}  // namespace mlrt
