// Containers run by a program for another processor, through files. The program stays and serves one case after the other:
// an emulator translates its code once.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "packager/nest/evaluate/tensor.h"

namespace mlc::conformance {

class Emulated {
 public:
  explicit Emulated(std::vector<std::string> command) : command_(std::move(command)) {}
  ~Emulated();
  Emulated(const Emulated&) = delete;
  Emulated& operator=(const Emulated&) = delete;

  // A program that ended is an Internal error, and started anew for the next case.
  Result<std::vector<nest::Tensor>> run(Bytes container, const std::string& variant, const std::vector<nest::Tensor>& inputs);

 private:
  Status start();
  Status ask(const std::string& question);
  std::string stop();  // how it ended

  std::vector<std::string> command_;
  pid_t pid_ = 0;
  int to_ = -1, from_ = -1;
};

// Tensors one after the other: u32 element type, u32 list depth, u32 rank, i64 extents, u64 bytes, the bytes; of lists
// u64 items, the items. The host's byte order.
Status write_tensors(const std::string& path, const std::vector<nest::Tensor>& tensors);
Result<std::vector<nest::Tensor>> read_tensors(const std::string& path);

}  // namespace mlc::conformance
