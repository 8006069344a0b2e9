// The buffers and local arrays of a kernel that is interpreted. Every access is checked against its buffer, and in a device kernel
// against the other lanes (touches.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "packager/ir/numeric.h"
#include "tests/text/loop_interpret.h"
#include "tests/text/touches.h"

namespace mlc::loop {

// The first broken rule, and the fault code of the kernel.
struct Failure {
  std::string error;
  int32_t fault = 0;
  bool stopped() const { return fault != 0 || !error.empty(); }
  void fail(std::string what) {
    if (error.empty()) error = std::move(what);
  }
};

class Memory {
 public:
  // `kernel` and `run` stay alive. Internal if the number of buffers is wrong, or a local array has no size.
  static Result<Memory> make(const Kernel& kernel, const Run& run);

  // False: the index is out of range, and `failure` says so.
  bool load(uint32_t array, int64_t index, ir::Scalar& value, Failure& failure);
  bool store(uint32_t array, int64_t index, ir::Scalar value, Failure& failure);

  // A cluster of blocks begins, of so many lanes together, one block after the other: its memories hold nothing of the one before.
  void begin_block(size_t lanes);
  void set_lane(size_t lane);
  int64_t lane() const { return at_.lane; }
  // Copies of the lane (StmtKind::Copy): what the place holds is nothing until the wait for their group, when they are stores of it.
  void begin_copy(const Stmt& s, int64_t to, int64_t from, bool counts, Failure& failure);
  void close_copies();
  void wait_copies(int64_t groups, Failure& failure);
  void end_block(Failure& failure);
  void barrier() { ++at_.phase; }
  void cluster_barrier() { ++at_.phase, ++turn_; }
  // As `load`, of what the lane's block shares as block `peer` of the cluster has it.
  bool load_of_peer(uint32_t array, int64_t peer, int64_t index, ir::Scalar& value, Failure& failure);

 private:
  struct Place {
    DType dtype = DType::None;
    std::byte* base = nullptr;
    uint64_t elements = 0;
    bool tracked = false, in_block = false;  // in_block: its block's, of all in the cluster; `base` is that of the lane's block
  };
  struct Copy {
    uint32_t array = 0;
    int64_t first = 0;  // element
    std::vector<std::byte> bytes;
  };
  using Group = std::vector<Copy>;
  struct CopiesOfLane {
    Group open;
    std::deque<Group> closed;  // oldest first
  };
  Memory(const Kernel& kernel) : kernel_(&kernel) {}
  std::byte* touch_bytes(uint32_t array, int64_t first, size_t bytes, bool stores, Failure& failure);
  // `block`: of the cluster, whose element it is.
  bool touch(uint32_t array, int64_t block, int64_t index, bool stores, Failure& failure);
  int64_t block() const { return at_.lane / std::max<int64_t>(1, kernel_->lanes); }  // of the lane
  bool out_of_range(uint32_t array, int64_t index, Failure& failure) const;
  std::string name(uint32_t array) const;

  const Kernel* kernel_;
  std::vector<Place> places_;                                // parameters, then local arrays
  std::vector<std::vector<std::byte>> scratch_;              // per local array
  std::vector<std::vector<std::vector<std::byte>>> private_;  // of the block at work: per lane and local array
  std::vector<CopiesOfLane> copies_;                         // of the block at work: per lane
  std::vector<Touches> touches_;                             // per place; those that are not tracked are empty
  std::vector<Touches> crossings_;                           // the same of what blocks share, with blocks as lanes and turns as phases
  int64_t turn_ = 0;                                         // barriers of clusters
  LaneAt at_;
};

}  // namespace mlc::loop
