// libsndfile, loaded when the first FLAC or Ogg file is decoded: it brings nine libraries along. A machine without it runs everything else.
#pragma once

#include <sndfile.h>

#include "base/status.h"

// What is called of it, as fields of the same names.
#define MLC_SNDFILE_FUNCTIONS(X) X(sf_open_virtual) X(sf_close) X(sf_readf_float) X(sf_error) X(sf_strerror)

namespace mlc::io {

struct SndfileLibrary {
#define MLC_FIELD(name) decltype(&::name) name = nullptr;
  MLC_SNDFILE_FUNCTIONS(MLC_FIELD)
#undef MLC_FIELD
};

// Unsupported, with what to install, where it is missing. What it returns stays for the life of the process.
[[nodiscard]] Result<const SndfileLibrary*> sndfile_library();

}  // namespace mlc::io
