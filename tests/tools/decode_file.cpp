// Decodes one file as mlrun does, for decoders_test.py: prints "ok" with the answer's type, or the sentence of the
// failure, and then how much memory the process has ever held. Exit code: that of the failure.
//
//   decode_file FILE [LIMIT_IN_BYTES]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/io/file.h"
#include "runtime/io/npy.h"
#include "runtime/io/npz.h"
#include "runtime/io/picture/image.h"
#include "runtime/io/sound/sound.h"

using namespace mlc;

namespace {

Result<std::string> decode(Bytes file, const io::DecodeLimits& limits) {
  const auto text = [](const HostTensor& t) { return type_text(t.dtype, t.shape); };
  switch (io::media_of(file)) {
    case io::Media::Wav:
    case io::Media::Flac:
    case io::Media::Ogg: {
      MLC_ASSIGN(const io::Audio audio, io::decode_sound(file, io::Channels::Keep, limits));
      return text(audio.samples);
    }
    case io::Media::Npy: {
      MLC_ASSIGN(const HostTensor tensor, io::parse_npy(file, limits));
      return text(tensor);
    }
    case io::Media::Zip: {
      MLC_ASSIGN(const auto tensors, io::parse_npz(file, limits));
      return std::to_string(tensors.size()) + " arrays";
    }
    default: break;
  }
  MLC_ASSIGN(const HostTensor picture, io::decode_image(file, {}, limits));
  return text(picture);
}

// VmHWM of /proc/self/status, in KiB: unlike ru_maxrss it does not begin with what the parent had.
long peak_kib() {
  std::FILE* const status = std::fopen("/proc/self/status", "r");
  long kib = 0;
  char line[256];
  while (status && std::fgets(line, sizeof line, status)) std::sscanf(line, "VmHWM: %ld", &kib);
  if (status) std::fclose(status);
  return kib;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) return 2;
  io::DecodeLimits limits;
  if (argc == 3) limits.memory = std::strtoull(argv[2], nullptr, 10);
  const auto file = io::read_file(argv[1]);
  if (!file.ok()) return static_cast<int>(file.status().code);
  const long before = peak_kib();
  const auto answer = decode(file->bytes(), limits);
  std::printf("%s\n%ld\n", answer.ok() ? ("ok " + *answer).c_str() : answer.status().message.c_str(),
              peak_kib() - before);
  return answer.ok() ? 0 : static_cast<int>(answer.status().code);
}
