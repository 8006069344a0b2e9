#include <dlfcn.h>

#include "base/system/shared_library.h"

namespace mlc {

void* open_shared_library(const char* file, std::string* why) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library || !why) return library;
  const char* const text = ::dlerror();
  *why = text ? text : "it cannot be loaded";
  return nullptr;
}

const char* library_name(const char* posix, const char*) { return posix; }

void* find_symbol(void* library, const char* name) { return ::dlsym(library, name); }

}  // namespace mlc
