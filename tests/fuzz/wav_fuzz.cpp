// libs: mlc_io
// RIFF/WAVE. Property: the first channel and all channels have the same number of frames.
#include <cstdlib>

#include "runtime/io/wav.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlc::io;
  mlc::Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  auto all = decode_wav(bytes, Channels::Keep), first = decode_wav(bytes, Channels::First);
  if (all.ok() != first.ok()) std::abort();
  if (all.ok() && (all->samples.shape[0] != first->samples.shape[0] || all->rate == 0)) std::abort();
  return 0;
}
