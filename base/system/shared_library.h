// A library of the machine that is looked for while the program runs.
#pragma once

#include <string>

namespace mlc {

// Never closed: drivers start threads and keep functions of their own. Null: it cannot be loaded, and `why` (if given)
// says so in the system's words, or that a static program loads none. `file` is a name without a folder; on Windows it is
// looked for where the system keeps its libraries, never in the current folder, nor beside the program.
[[nodiscard]] void* open_shared_library(const char* file, std::string* why = nullptr);
// How this system names it.
[[nodiscard]] const char* library_name(const char* posix, const char* windows);
// Null: it has none of that name.
[[nodiscard]] void* find_symbol(void* library, const char* name);

}  // namespace mlc
