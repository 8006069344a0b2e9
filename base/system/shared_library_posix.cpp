#include <dlfcn.h>
#include <link.h>

#include "base/system/shared_library.h"

namespace mlc {
namespace {

// Of the program, which is asked about before its libraries: whether a dynamic linker has started it.
int has_interpreter(dl_phdr_info* program, size_t, void* out) {
  for (size_t k = 0; k < program->dlpi_phnum; ++k)
    if (program->dlpi_phdr[k].p_type == PT_INTERP) *static_cast<bool*>(out) = true;
  return 1;
}

// In a static program dlopen has none (musl), or brings a second C library (glibc).
bool is_static_program() {
  bool is_dynamic = false;
  dl_iterate_phdr(has_interpreter, &is_dynamic);
  return !is_dynamic;
}

}  // namespace

void* open_shared_library(const char* file, std::string* why) {
  if (is_static_program()) {
    if (why) *why = std::string(file) + ": this program is linked statically and loads no libraries";
    return nullptr;
  }
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library || !why) return library;
  const char* const text = ::dlerror();
  *why = text ? text : "it cannot be loaded";
  return nullptr;
}

const char* library_name(const char* posix, const char*) { return posix; }

void* find_symbol(void* library, const char* name) { return ::dlsym(library, name); }

}  // namespace mlc
