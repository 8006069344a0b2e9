// libs: mlc_io
// RIFF/WAVE, FLAC and Vorbis in Ogg. Properties: the first channel and all channels have the same number of frames; no more memory is held than
// may be.
#include <cstdlib>

#include "runtime/io/sound/sound.h"
#include "tests/fuzz/heap_peak.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlc::io;
  mlc::Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  static const mlc::fuzz::HeapPeak heap;
  DecodeLimits limits;
  limits.memory = 24 << 20;  // FLAC and Ogg may take 16 MiB whatever they hold
  heap.begin();
  auto all = decode_sound(bytes, Channels::Keep, limits);
  heap.check_at_most(limits.beyond(bytes).memory);
  auto first = decode_sound(bytes, Channels::First);
  if (!all.ok() && all.status().code == mlc::Code::Resource) return 0;  // the first channel takes less
  if (all.ok() != first.ok()) std::abort();
  if (all.ok() && (all->samples.shape[0] != first->samples.shape[0] || all->rate == 0)) std::abort();
  return 0;
}
