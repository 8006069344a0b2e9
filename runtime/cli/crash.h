// Signals that a run can raise: a mapped file that somebody truncated, and a fault in a kernel. mlrun says what happened
// and ends; the library installs no handlers.
#pragma once

namespace mlc::cli {

// To be called once, early.
void install_crash_handlers();
// What is running, for the message. The strings must live until the process ends.
void say_what_crashed(const char* file, const char* variant);

}  // namespace mlc::cli
