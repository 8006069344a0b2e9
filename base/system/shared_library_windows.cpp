#include <windows.h>

#include "base/system/shared_library.h"
#include "base/system/windows_text.h"

namespace mlc {

void* open_shared_library(const char* file, std::string* why) {
  const HMODULE library = LoadLibraryExW(windows::wide(file).c_str(), nullptr, LOAD_LIBRARY_SEARCH_SYSTEM32);
  if (!library && why) *why = std::string(file) + ": " + windows::last_error();
  return library;
}

const char* library_name(const char*, const char* windows) { return windows; }

void* find_symbol(void* library, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}

}  // namespace mlc
