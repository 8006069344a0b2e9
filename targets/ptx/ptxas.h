// NVIDIA's assembler, run as a process of its own where it is installed: it makes cubins of PTX.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace mlc::targets::ptx {

struct Assembled {
  struct Kernel {
    std::string name;
    uint64_t registers = 0, spilled_bytes = 0, stack_bytes = 0;  // of a lane
  };
  std::vector<std::byte> cubin;
  std::vector<Kernel> kernels;  // as it says of them
};

class Ptxas {
 public:
  // `ptxas` in one of these folders, which are written as PATH is; relative ones are passed over. NotFound.
  static Result<Ptxas> find(std::string_view folders);

  const std::string& path() const { return path_; }
  // `is_specific`: text for this architecture alone, sm_90a. NotFound if it does not know the architecture or does not take this version of PTX for it, Resource if it does not end within the
  // deadline, else what it said.
  Result<Assembled> assemble(std::string_view text, uint32_t architecture, bool is_specific, uint64_t deadline_ns) const;

 private:
  explicit Ptxas(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// What `ptxas -v` says of each entry.
std::vector<Assembled::Kernel> kernels_in_log(std::string_view log);

}  // namespace mlc::targets::ptx
