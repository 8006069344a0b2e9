// Imperative blocks of the Nest level.
#pragma once

#include <cstdint>
#include <vector>

#include "packager/loop/loop.h"
#include "packager/nest/nest.h"

namespace mlc::nest {

// Imperative block, one independent instance per point of `dims`. Its Loop tree loads and stores arrays of the function
// with one index per axis (loop::Stmt::index).
struct Proc {
  std::vector<const ir::Dim*> dims;
  std::vector<loop::StmtPtr> body;
  std::vector<loop::LocalArray> locals;  // Load/Store arrays numbered from kFirstLocal
  std::vector<uint32_t> reads, writes;
};
constexpr uint32_t kFirstLocal = 1u << 24;

}  // namespace mlc::nest
