// A compiled kernel, loaded into this process by the system's loader: for measuring only.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "packager/loop/loop.h"
#include "schema/module_abi.h"
#include "targets/target.h"

namespace mlc::bench {

class Loaded {
 public:
  static Result<std::unique_ptr<Loaded>> compile(const targets::Target& target,
                                                 const std::vector<loop::Kernel>& kernels);
  ~Loaded();
  const MlrunEntry& entry(size_t k) const { return module_->entries[k]; }
  size_t code_bytes = 0;

 private:
  void* handle_ = nullptr;
  const MlrunModule* module_ = nullptr;
};

// Buffers with guard-free padding as module_abi.h promises; filled with small random numbers.
struct Buffer {
  explicit Buffer(size_t floats, bool random = true);
  ~Buffer();
  Buffer(Buffer&& o) noexcept : data(std::exchange(o.data, nullptr)), bytes(o.bytes) {}
  float* data = nullptr;
  size_t bytes = 0;
};

}  // namespace mlc::bench
