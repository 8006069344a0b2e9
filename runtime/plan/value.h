// Values of programs: arrays and lists of them, counted by reference, in blocks of memory that are kept for the next
// value. One thread. Internal to the executor.
//
// Everything that grows with the run (elements, lists, the nodes of values themselves, what describes them to the caller)
// comes from the pool, so that the limit of a session's memory covers all of it, and a run like the one before allocates
// nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/status.h"
#include "runtime/plan/memory_budget.h"
#include "schema/format.h"

namespace mlc::exec {

// What a block holds. Blocks of one kind never become blocks of the other, so that a kernel, which sees what was in the
// memory of its arrays before, finds elements of earlier arrays there and no addresses.
enum class Content : uint8_t { Elements, Objects };

// 64-byte aligned and readable to the next multiple of 64 beyond what was asked for. Owned by the caller.
struct PoolBlock {
  std::byte* data = nullptr;
  uint32_t size_class = 0;
  Content content = Content::Elements;
};

// Blocks of a few sizes. Small ones are cut from slabs, which stay; a large one is a mapping of its own. What the pool knows
// of its memory lies in that memory: free blocks and slabs are chained through their first bytes, and of a large block
// that is taken the pool keeps nothing at all. So no table can disagree with what is in use, and nothing grows outside of
// the budget.
class BlockPool {
 public:
  explicit BlockPool(MemoryBudget& budget) : budget_(budget) {}
  ~BlockPool();  // every block has been given back
  BlockPool(const BlockPool&) = delete;

  // Room for `bytes`, whatever was in it. Resource, and `out` is what it was.
  Status take(Content content, uint64_t bytes, PoolBlock& out);
  void give_back(const PoolBlock& block);
  static uint64_t capacity(const PoolBlock& block);
  // Of the block's capacity the first `bytes` are in use from now on; take has said so for those that were asked for. Only
  // a sanitizer looks at this.
  static void use(const PoolBlock& block, uint64_t bytes);
  // Gives the system back unused large blocks.
  void trim();
  // What the budget still has, for this pool or beside it.
  uint64_t available() const { return budget_.available(); }

 private:
  static constexpr uint64_t kSlabBytes = 256 << 10;
  static constexpr uint64_t kLargeBytes = 32 << 10;  // from here on a block is a mapping of its own
  static constexpr uint32_t kClasses = 240;
  struct Link {
    Link* next;
  };
  struct Kind {                // of content
    Link* free[kClasses] = {};  // unused blocks, by size class; poisoned
    std::byte* slab_at = nullptr;
    uint64_t slab_left = 0;
  };
  static Link* link(Link* next, std::byte* at);
  static Link* next_of(Link* link);
  Status map(uint64_t bytes, std::byte*& out);
  void unmap(std::byte* data, uint64_t bytes);
  Status cut(Kind& kind, uint64_t bytes, std::byte*& out);  // from its last slab, or a new one

  MemoryBudget& budget_;
  Kind kinds_[2];
  Link* slabs_ = nullptr;  // all of them; the first line of each is the link
};

class Value;

struct ValueNode {
  BlockPool* pool = nullptr;
  uint64_t references = 0;  // as many as 8-byte items of lists may name it
  DType dtype = DType::None;
  uint8_t list_depth = 0;  // 0: an array
  uint8_t rank = 0;
  bool borrowed = false;   // `data` is memory of the caller
  uint64_t size = 0;       // bytes of an array; items of a list
  std::byte* data = nullptr;
  PoolBlock block;         // what data lies in
  int64_t shape[format::kMaxRank] = {};

  ValueNode** items() const { return reinterpret_cast<ValueNode**>(data); }
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
// An array with room for `bytes`, which must be what the shape takes by the first read. Content::Objects: what
// no kernel is to see.
Status make_array(BlockPool& pool, DType dtype, std::span<const int64_t> shape, uint64_t bytes, Value& out,
                  Content content = Content::Elements);
Status make_borrowed(BlockPool& pool, DType dtype, std::span<const int64_t> shape, const void* data, uint64_t bytes,
                     Value& out);
Status make_list(BlockPool& pool, DType dtype, uint8_t depth, uint64_t room, Value& out);  // empty
// Room for `bytes` in a block of the node's own, of which the first `used` are kept. A block that is too small is replaced by
// one at least twice as large, so that growing piece by piece copies each byte a bounded number of times.
Status make_room(ValueNode& node, uint64_t used, uint64_t bytes);
void set_size(ValueNode& node, uint64_t bytes);  // of an array, within the room that it has
Status append(Value& list, const Value& item);  // to a list with one reference
// Makes `list` one with one reference, with room for `more` items.
Status make_own(Value& list, uint64_t more);
// Replaces borrowed memory by a copy of it, in lists as well.
Status keep(const Value& value);

// An array in the pool's memory: a std::vector that says when there is none. Keeps its memory when it shrinks.
template <class T>
class PoolArray {
 public:
  explicit PoolArray(BlockPool& pool) : pool_(&pool) {}
  PoolArray(PoolArray&& other) noexcept
      : pool_(other.pool_), block_(std::exchange(other.block_, {})), size_(std::exchange(other.size_, 0)) {}
  PoolArray& operator=(PoolArray&&) = delete;
  ~PoolArray() {
    clear();
    if (block_.data) pool_->give_back(block_);
  }

  // New elements are T{}. Resource, and nothing has changed.
  Status resize(uint64_t size) {
    const auto bytes = checked_mul(size, sizeof(T));
    if (!bytes) return Status(Code::Resource, "an array of {}", size);
    if (!block_.data || BlockPool::capacity(block_) < *bytes) {
      PoolBlock bigger;
      MLC_RETURN_IF_ERROR(pool_->take(Content::Objects, *bytes, bigger));
      if (block_.data) {
        std::uninitialized_move_n(data(), size_, reinterpret_cast<T*>(bigger.data));
        std::destroy_n(data(), size_);
        pool_->give_back(block_);
      }
      block_ = bigger;
    }
    if (size > size_) {
      BlockPool::use(block_, *bytes);
      std::uninitialized_value_construct_n(end(), size - size_);
    } else {
      std::destroy_n(data() + size, size_ - size);
      BlockPool::use(block_, *bytes);
    }
    size_ = size;
    return ok();
  }
  void clear() {
    std::destroy_n(data(), size_);
    size_ = 0;
  }

  T* data() { return reinterpret_cast<T*>(block_.data); }
  uint64_t size() const { return size_; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  T& operator[](uint64_t i) { return data()[i]; }

 private:
  static_assert(alignof(T) <= 64 && std::is_nothrow_move_constructible_v<T>);
  BlockPool* pool_;
  PoolBlock block_;
  uint64_t size_ = 0;
};

}  // namespace mlc::exec
