#include "interrupt.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace mlrt {
namespace {

// Of the run in the main thread; read by the handler, in whatever thread it is called.
std::atomic<MlcCancel*> running{nullptr};
std::atomic<bool> interrupted{false};
MlcCancel* own = nullptr;  // for runs without a token; of the main thread
struct sigaction of_python {};

void end_the_run(int signal, siginfo_t* info, void* context) {
  interrupted.store(true);
  if (MlcCancel* token = running.load()) mlc().cancel(token);  // a store and a wake-up
  if (of_python.sa_flags & SA_SIGINFO) of_python.sa_sigaction(signal, info, context);
  else if (of_python.sa_handler != SIG_DFL && of_python.sa_handler != SIG_IGN) of_python.sa_handler(signal);
}

bool is_main_thread() { return static_cast<pid_t>(syscall(SYS_gettid)) == getpid(); }

// A handler of the program's own may want the run to go on.
bool raises_keyboard_interrupt() {
  static const nb::object* const functions = [] {
    const nb::module_ signals = nb::module_::import_("signal");
    return new nb::object[2]{signals.attr("getsignal"), signals.attr("default_int_handler")};  // as long as the process
  }();
  return functions[0](SIGINT).is(functions[1]);
}

}  // namespace

Interruptible::Interruptible(const Cancel* given) : token_(given ? given->token() : nullptr) {
  if (!is_main_thread() || running.load() || !raises_keyboard_interrupt()) return;
  if (!own) {
    MlcError* error = nullptr;
    mlrt::check(mlc().cancel_create(&own, &error), error);
  }
  if (!token_) token_ = own;
  is_watched_ = true;
  interrupted.store(false);
  running.store(token_);
  sigaction(SIGINT, nullptr, &of_python);
  before_ = of_python;
  struct sigaction ours = of_python;
  ours.sa_sigaction = &end_the_run;
  ours.sa_flags |= SA_SIGINFO;
  sigaction(SIGINT, &ours, nullptr);
  if (PyErr_CheckSignals() == 0) return;  // what came just before
  stop_watching();
  throw nb::python_error();
}

Interruptible::~Interruptible() {
  if (is_watched_) stop_watching();
}

void Interruptible::stop_watching() {
  sigaction(SIGINT, &before_, nullptr);
  running.store(nullptr);
  if (interrupted.load() && token_ == own) {  // it stays cancelled
    mlc().cancel_release(own);
    own = nullptr;
  }
}

bool Interruptible::was_interrupted() const { return is_watched_ && interrupted.load(); }

}  // namespace mlrt
