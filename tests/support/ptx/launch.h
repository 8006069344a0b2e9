// Launches of kernels of a device module as the loader does them, on the executor.
#pragma once

#include <memory>
#include <optional>

#include "schema/gpu_module.h"
#include "tests/support/ptx/executor.h"

namespace mlc::testing::ptx {

// The entries of a module of format Ptx, parsed.
class LoadedModule {
 public:
  explicit LoadedModule(std::span<const std::byte> bytes) {
    Result<gpu::Module> m = gpu::decode(bytes);
    if (!m.ok()) {
      error_ = m.status().text();
      return;
    }
    module_ = std::move(*m);
    for (const gpu::Image& image : module_.images) {
      images_.emplace_back();
      if (image.kind != gpu::ImageKind::Ptx) continue;
      const auto* text = reinterpret_cast<const char*>(image.bytes.data());
      auto parsed = targets::ptx::parse(std::string_view(text, image.bytes.size() - 1));
      if (parsed.ok()) images_.back() = std::move(*parsed);
      else error_ = parsed.status().text();
    }
  }
  const std::string& error() const { return error_; }
  const gpu::Entry& entry(size_t k) const { return module_.entries[k]; }
  size_t size() const { return module_.entries.size(); }
  const targets::ptx::Entry* code(size_t k) const {
    for (const targets::ptx::Entry& e : images_[module_.entries[k].image].entries)
      if (e.name == module_.entries[k].name) return &e;
    return nullptr;
  }

 private:
  gpu::Module module_;
  std::vector<targets::ptx::Image> images_;
  std::string error_;
};

struct Outcome {
  std::string error;  // what went wrong; empty: nothing did
  std::array<uint32_t, 2> fault{};  // the buffer of faults
};

// `buffers` are those of the launch; which are read only the entry says. Tiles before `first` are left out.
inline Outcome run_kernel(const LoadedModule& module, size_t kernel, std::vector<std::span<std::byte>> buffers, const std::vector<int64_t>& scalars,
                          uint32_t tiles, uint32_t launch_number = 7, uint32_t first = 0, lanes::Counts* counts = nullptr) {
  const gpu::Entry& entry = module.entry(kernel);
  const targets::ptx::Entry* code = module.code(kernel);
  Outcome out;
  if (!code) return out.error = "no code", out;
  if (code->cluster > 1 && tiles <= first) return out;
  lanes::Memory memory;
  std::vector<uint64_t> params;
  for (size_t k = 0; k < buffers.size(); ++k) params.push_back(memory.add(buffers[k], k >= 64 || (entry.written >> k & 1)));
  params.push_back(tiles);
  params.push_back(launch_number);
  for (const int64_t s : scalars) params.push_back(uint64_t(s));
  if (entry.may_fault) params.push_back(memory.add(std::as_writable_bytes(std::span(out.fault)), true));
  Executor program(*code, params);
  if (!program.error().empty()) return out.error = program.error(), out;
  lanes::Launch launch;
  launch.lanes = entry.lanes[0];
  launch.cluster = code->cluster;
  const uint32_t x = std::max(1u, std::min(tiles, 65535u));
  launch.grid = {x, (tiles + x - 1) / x, 1};
  launch.first = first;
  launch.shared_bytes = entry.shared_bytes + entry.dynamic_shared_bytes;
  launch.counts = counts;
  out.error = lanes::run(program, memory, launch);
  return out;
}

}  // namespace mlc::testing::ptx
