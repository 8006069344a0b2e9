// Values of programs: arrays and lists of them, counted by reference, in blocks of memory that are kept for the next
// value. One thread. Internal to the executor.
//
// Everything that grows with the run (elements, lists, the nodes of values themselves) comes from the pool, so that the
// limit of a session's memory covers all of it, and a run like the one before allocates nothing.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "runtime/memory/aligned_block.h"
#include "schema/format.h"

namespace mlc::exec {

// What an executor holds and may hold, in bytes.
struct MemoryBudget {
  uint64_t limit = 0, held = 0;
};

// 64-byte aligned and readable to the next multiple of 64 beyond what was asked for. Owned by who got it.
struct PoolBlock {
  std::byte* data = nullptr;
  uint32_t size_class = 0;
  uint32_t slot = 0;  // large ones
};

class BlockPool {
 public:
  explicit BlockPool(MemoryBudget& budget) : budget_(budget) {}
  ~BlockPool() { budget_.held -= slabs_.size() * kSlabBytes + large_bytes_; }
  BlockPool(const BlockPool&) = delete;

  Status take(uint64_t bytes, PoolBlock& out);  // Resource
  void give_back(const PoolBlock& block);
  static uint64_t capacity(const PoolBlock& block);
  // Gives the system back what large blocks nobody uses.
  void trim();

 private:
  static constexpr uint64_t kSlabBytes = 256 << 10;
  static constexpr uint64_t kLargeBytes = 32 << 10;  // from here on a block is an allocation of its own
  static constexpr uint32_t kClasses = 240;
  struct Free {  // in the first bytes of a free block
    Free* next;
    uint32_t slot;
  };
  Status allocate(uint64_t bytes, std::vector<AlignedBlock>& into, size_t slot);

  MemoryBudget& budget_;
  Free* free_[kClasses] = {};
  std::vector<AlignedBlock> slabs_;
  std::byte* slab_at_ = nullptr;
  uint64_t slab_left_ = 0;
  std::vector<AlignedBlock> large_;
  std::vector<uint32_t> empty_slots_;  // of large_
  uint64_t large_bytes_ = 0;
};

class Value;

struct ValueNode {
  BlockPool* pool = nullptr;
  uint32_t references = 0;
  DType dtype = DType::None;
  uint8_t list_depth = 0;  // 0: an array
  uint8_t rank = 0;
  bool borrowed = false;   // `data` is memory of the caller
  uint64_t size = 0;       // bytes of an array; items of a list
  std::byte* data = nullptr;
  PoolBlock block;         // what data lies in
  int64_t shape[format::kMaxRank] = {};

  ValueNode** items() { return reinterpret_cast<ValueNode**>(data); }
};

class Value {
 public:
  Value() = default;
  explicit Value(ValueNode* node) : node_(node) { ++node_->references; }
  Value(const Value& other) : node_(other.node_) {
    if (node_) ++node_->references;
  }
  Value(Value&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Value& operator=(Value other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~Value() {
    if (node_) release(node_);
  }

  explicit operator bool() const { return node_ != nullptr; }
  ValueNode* operator->() const { return node_; }
  ValueNode* node() const { return node_; }
  bool is_list() const { return node_->list_depth > 0; }
  bool shared() const { return node_->references > 1; }
  std::span<const int64_t> shape() const { return {node_->shape, node_->rank}; }
  Value item(uint64_t i) const { return Value(node_->items()[i]); }

  // Depth of the recursion: that of the list, at most kMaxListDepth.
  static void release(ValueNode* node);

 private:
  ValueNode* node_ = nullptr;
};

// All of these: Resource if there is no memory.
// An array with room for `bytes`, which must be what the shape takes by the time that anybody looks.
Status make_array(BlockPool& pool, DType dtype, std::span<const int64_t> shape, uint64_t bytes, Value& out);
Status make_borrowed(BlockPool& pool, DType dtype, std::span<const int64_t> shape, const void* data, uint64_t bytes,
                     Value& out);
Status make_list(BlockPool& pool, DType dtype, uint8_t depth, uint64_t room, Value& out);  // empty
// The first `used` bytes are kept.
Status make_room(ValueNode& node, uint64_t used, uint64_t bytes);
Status append(Value& list, const Value& item);  // to a list that nobody shares
// Makes `list` one that nobody else sees, with room for `more` items.
Status make_own(Value& list, uint64_t more);
// Replaces borrowed memory by a copy of it, in lists as well.
Status keep(const Value& value);

}  // namespace mlc::exec
