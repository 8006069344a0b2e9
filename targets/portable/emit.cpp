#include "loaders/portable/program.h"
#include "targets/family.h"
#include "targets/portable/encoder.h"

namespace mlc::targets::portable {

Result<Module> emit(const Target&, std::span<const loop::Kernel> kernels, const Progress& progress) {
  Module out;
  auto add = [&](uint64_t v, unsigned bytes) {
    for (unsigned k = 0; k < bytes; ++k) out.bytes.push_back(static_cast<std::byte>(v >> (8 * k)));
  };
  add(mlc::portable::kMagic, 4), add(mlc::portable::kVersion, 2), add(0, 2), add(kernels.size(), 4), add(0, 4);
  Encoder encoder;
  for (size_t k = 0; k < kernels.size(); ++k) {
    MLC_RETURN_IF_ERROR(encoder.encode(kernels[k], out.bytes));
    if (progress) progress(k + 1, kernels.size());
  }
  // The decoder is the judge of what was written, and knows how much scratch a worker needs.
  auto programs = mlc::portable::decode_module(out.bytes);
  if (!programs.ok()) return std::move(programs).status().note("the encoder wrote code that its decoder refuses");
  for (const auto& p : *programs) out.scratch_bytes.push_back(p.scratch_bytes);
  return out;
}

Status audit(std::span<const std::byte> module) {
  auto programs = mlc::portable::decode_module(module);
  return programs.ok() ? ok() : std::move(programs).status();
}

}  // namespace mlc::targets::portable
