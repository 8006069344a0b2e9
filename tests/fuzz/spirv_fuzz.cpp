// libs: mlc_targets mlc_loop mlc_ir mlc_schema mlc_base
// Any words as an image: refused with a message, or a module that the executor reads. The first bytes say what the entry states.
#include <cstdlib>

#include "targets/spirv/verify.h"
#include "tests/support/spirv/executor.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 8) return 0;
  mlc::gpu::Entry entry;
  entry.name = "main";
  entry.lanes = {8, 1, 1};
  entry.may_fault = data[0] & 1, entry.has_barriers = data[0] & 2;
  entry.num_buffers = data[1], entry.num_scalars = data[2];
  entry.shared_bytes = data[3] * 4u;
  entry.written = data[4];
  std::vector<uint32_t> words((size - 8) / 4);
  if (!words.empty()) std::memcpy(words.data(), data + 8, words.size() * 4);
  const auto found = mlc::targets::spirv::verify(words, entry);
  if (!found.ok()) {
    if (found.status().message.empty()) std::abort();
    return 0;
  }
  if (!mlc::testing::spirv::Executor(words).error().empty()) std::abort();
  return 0;
}
