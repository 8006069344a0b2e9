#include "runtime/io/limits.h"

namespace mlc::io {
namespace {

std::string mebibytes(uint64_t bytes) {
  if (bytes < uint64_t{1} << 20) return std::to_string(bytes) + " bytes";
  return std::to_string(bytes / (uint64_t{1} << 20) + (bytes % (uint64_t{1} << 20) != 0)) + " MiB";
}

}  // namespace

Status MemoryNeed::check(const DecodeLimits& limits, std::string_view what) const {
  if (bytes <= limits.memory) return mlc::ok();
  const std::string need = bytes == UINT64_MAX ? "more than can be counted" : mebibytes(bytes);
  return Status(Code::Resource, std::string(what) + " may take " + need + ", at most " + mebibytes(limits.memory) +
                                    " are allowed for decoding")
      .hint("give a smaller one, or what it decodes to as .npy");
}

}  // namespace mlc::io
