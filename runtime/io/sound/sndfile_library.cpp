#include "runtime/io/sound/sndfile_library.h"

#include <string>
#include <utility>

#include "runtime/io/optional_library.h"

namespace mlc::io {

Result<const SndfileLibrary*> sndfile_library() {
  constexpr const char* kFile = "libsndfile.so.1";
  static const OptionalLibrary<SndfileLibrary> loaded = load_library<SndfileLibrary>(kFile, [](auto& functions, const auto& find) {
#define MLC_FIND(name) find(functions.name, #name);
    MLC_SNDFILE_FUNCTIONS(MLC_FIND)
#undef MLC_FIND
  });
  if (loaded.missing.empty()) return &loaded.functions;
  Status status(Code::Unsupported, std::string("sound: this machine has no ") + kFile + "; WAV works without");
  return std::move(status).fact(loaded.missing).hint("install libsndfile (Debian, Ubuntu: libsndfile1), or convert the sound to WAV");
}

}  // namespace mlc::io
