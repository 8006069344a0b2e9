// How mlpack ends where no function returns: by a signal, or because memory is used up or LLVM gives up. What was begun is removed
// (base/files/unfinished.h), the process of a self-test ends too, and the exit code is one of the documented ones.
#pragma once

#include <sys/types.h>

namespace mlc::cli {

// Call first in main. A signal ends the process as it would have done (128+n in a shell), memory that is used up with 7.
// The command line says how that is told: in a line, or in the one object of --json.
void handle_early_ends(int argc, const char* const* argv);

// Whether a line of progress is on the terminal, which an early end wipes out.
void line_is_shown(bool shown);

// From now on `child` ends with this process; 0: none does.
void ends_with_us(pid_t child);
// In a process made by fork: it ends quietly, in silence also if its parent does, and removes nothing of the parent's.
void end_as_child();

}  // namespace mlc::cli
