// A library of the machine that is looked for when a file first needs it.
#pragma once

#include <string>
#include <type_traits>

#include "base/system/shared_library.h"

namespace mlc::io {

template <class Functions>
struct OptionalLibrary {
  Functions functions;
  std::string missing;  // why it cannot be used; empty: it can
};

// `each` is called with a visitor (field of the functions, name), once for every function that is needed. The library is never
// closed: it is looked for once.
template <class Functions, class Each>
OptionalLibrary<Functions> load_library(const char* file, Each&& each) {
  OptionalLibrary<Functions> loaded;
  void* const library = open_shared_library(file, &loaded.missing);
  if (!library) return loaded;
  each(loaded.functions, [&](auto& field, const char* name) {
    field = reinterpret_cast<std::remove_reference_t<decltype(field)>>(find_symbol(library, name));
    if (!field) loaded.missing = std::string("it has no ") + name;
  });
  return loaded;
}

}  // namespace mlc::io
