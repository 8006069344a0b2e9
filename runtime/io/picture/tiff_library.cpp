#include "runtime/io/picture/tiff_library.h"

#include <string>
#include <utility>

#include "runtime/io/optional_library.h"

namespace mlc::io {

Result<const TiffLibrary*> tiff_library() {
  constexpr const char* kFile = "libtiff.so.6";  // from 4.5 on; what is called of it is not in earlier ones
  static const OptionalLibrary<TiffLibrary> loaded = load_library<TiffLibrary>(kFile, [](auto& functions, const auto& find) {
#define MLC_FIND(name) find(functions.name, #name);
    MLC_TIFF_FUNCTIONS(MLC_FIND)
#undef MLC_FIND
  });
  if (loaded.missing.empty()) return &loaded.functions;
  Status status(Code::Unsupported, std::string("tiff: this machine has no ") + kFile + "; PNG, JPEG, WebP, JPEG 2000, BMP and PNM work without");
  return std::move(status).fact(loaded.missing).hint("install libtiff 4.5 or later (Debian, Ubuntu: libtiff6), or convert the picture");
}

}  // namespace mlc::io
