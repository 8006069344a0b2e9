// Ctrl-C ends a run, as it ends a loop of Python.
#pragma once

#include <csignal>

#include "model.h"

namespace mlrt {

// While a run goes on in the main thread, SIGINT cancels it too, where Python would raise KeyboardInterrupt. Made and
// destroyed with the lock of the interpreter, in one thread.
class Interruptible {
 public:
  explicit Interruptible(const Cancel* given);  // the token of the caller, or null
  Interruptible(const Interruptible&) = delete;
  ~Interruptible();

  MlcCancel* token() const { return token_; }
  // Raises KeyboardInterrupt where that ended the run, and releases its error.
  template <class Error>
  void check(Error*& error) const {
    if (!was_interrupted() || PyErr_CheckSignals() == 0) return;
    release(error);
    error = nullptr;
    throw nb::python_error();
  }

 private:
  static void release(MlcError* error) { mlc().error_release(error); }
  static void release(MlioError* error) { mlio().error_release(error); }
  bool was_interrupted() const;
  void stop_watching();

  MlcCancel* token_ = nullptr;
  bool is_watched_ = false;
  struct sigaction before_ {};
};

}  // namespace mlrt
