// Signals that a run can raise: a mapped file that was truncated, and a fault in a kernel. mlrun says what happened
// and ends; the library installs no handlers.
#pragma once

#include <string_view>

#include "runtime/cli/options.h"

namespace mlc::cli {

// To be called once, early.
void install_crash_handlers();
// From now on a crash is answered as `command` answers with --json: an object on stdout. Call before say_what_crashed; for
// the process that answers. `command` must live until the process ends.
void crash_with_json(std::string_view command);
// What is running, for the message, and for what is remembered: the next run leaves a native variant out in which a kernel faulted
// (runtime/match/choices.h). `variant` must live until the process ends.
void say_what_crashed(const OpenModel& model, const char* variant);

}  // namespace mlc::cli
