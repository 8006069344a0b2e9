#include "runtime/io/tiff_library.h"

#include <dlfcn.h>

#include <string>
#include <type_traits>
#include <utility>

namespace mlc::io {
namespace {

constexpr const char* kFile = "libtiff.so.6";  // from 4.5 on; what is called of it is not in earlier ones

struct Loaded {
  TiffLibrary functions;
  std::string missing;  // empty: it is there
};

Loaded load() {
  Loaded loaded;
  void* const file = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);  // never closed: this is found once
  if (!file) {
    const char* why = ::dlerror();
    loaded.missing = why ? why : "it cannot be loaded";
    return loaded;
  }
  const auto find = [&](auto& field, const char* name) {
    field = reinterpret_cast<std::remove_reference_t<decltype(field)>>(::dlsym(file, name));
    if (!field) loaded.missing = std::string("it has no ") + name;
  };
#define MLC_FIND(name) find(loaded.functions.name, #name);
  MLC_TIFF_FUNCTIONS(MLC_FIND)
#undef MLC_FIND
  return loaded;
}

}  // namespace

Result<const TiffLibrary*> tiff_library() {
  static const Loaded loaded = load();
  if (loaded.missing.empty()) return &loaded.functions;
  Status status(Code::Unsupported, std::string("tiff: this machine has no ") + kFile + "; PNG, JPEG, WebP, JPEG 2000, BMP and PNM work without");
  return std::move(status).fact(loaded.missing).hint("install libtiff 4.5 or later (Debian, Ubuntu: libtiff6), or convert the picture");
}

}  // namespace mlc::io
