// libtiff, loaded when the first TIFF is decoded: it brings nine libraries along, of which some have other names on other
// distributions. A machine without it runs everything else.
#pragma once

#include <tiffio.h>

#include "base/status.h"

// What is called of it, as fields of the same names.
#define MLC_TIFF_FUNCTIONS(X)                                                                                           \
  X(TIFFClientOpenExt) X(TIFFClose) X(TIFFGetFieldDefaulted) X(TIFFGetStrileByteCount) X(TIFFGetStrileOffset)           \
  X(TIFFIsTiled) X(TIFFNumberOfStrips) X(TIFFNumberOfTiles) X(TIFFOpenOptionsAlloc) X(TIFFOpenOptionsFree)              \
  X(TIFFOpenOptionsSetErrorHandlerExtR) X(TIFFOpenOptionsSetMaxSingleMemAlloc) X(TIFFOpenOptionsSetWarningHandlerExtR)  \
  X(TIFFRGBAImageBegin) X(TIFFRGBAImageEnd) X(TIFFRGBAImageGet) X(TIFFRGBAImageOK) X(TIFFReadScanline)                  \
  X(TIFFScanlineSize64) X(TIFFStripSize64) X(TIFFTileSize64)

namespace mlc::io {

struct TiffLibrary {
#define MLC_FIELD(name) decltype(&::name) name = nullptr;
  MLC_TIFF_FUNCTIONS(MLC_FIELD)
#undef MLC_FIELD
};

// Unsupported, with what to install, where it is missing. What it returns stays for the life of the process.
[[nodiscard]] Result<const TiffLibrary*> tiff_library();

}  // namespace mlc::io
