#include "runtime/io/sndfile_library.h"

#include <dlfcn.h>

#include <string>
#include <type_traits>
#include <utility>

namespace mlc::io {
namespace {

constexpr const char* kFile = "libsndfile.so.1";

struct Loaded {
  SndfileLibrary functions;
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
  MLC_SNDFILE_FUNCTIONS(MLC_FIND)
#undef MLC_FIND
  return loaded;
}

}  // namespace

Result<const SndfileLibrary*> sndfile_library() {
  static const Loaded loaded = load();
  if (loaded.missing.empty()) return &loaded.functions;
  Status status(Code::Unsupported, std::string("sound: this machine has no ") + kFile + "; WAV works without");
  return std::move(status).fact(loaded.missing).hint("install libsndfile (Debian, Ubuntu: libsndfile1), or convert the sound to WAV");
}

}  // namespace mlc::io
