#include "runtime/plan/value.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "base/compose.h"
#include "runtime/memory/aligned_block.h"
#include "runtime/memory/poison.h"
#include "schema/plan/plan.h"

namespace mlc::exec {
namespace {

constexpr uint64_t kLine = 64;

// Sizes in lines: 1, 2, 3, then four to each doubling.
uint32_t class_of(uint64_t lines) {
  if (lines < 4) return static_cast<uint32_t>(lines - 1);
  const auto shift = static_cast<uint32_t>(std::bit_width(lines)) - 3;
  const uint64_t quarters = (lines + (uint64_t{1} << shift) - 1) >> shift;  // 4 to 8
  return 3 + 4 * shift + static_cast<uint32_t>(quarters - 4);
}
uint64_t bytes_in(uint32_t size_class) {
  if (size_class < 3) return (size_class + 1) * kLine;
  return uint64_t{4 + ((size_class - 3) & 3)} << ((size_class - 3) >> 2) << 6;
}

}  // namespace

uint64_t BlockPool::capacity(const PoolBlock& block) { return bytes_in(block.size_class); }

void BlockPool::use(const PoolBlock& block, uint64_t bytes) { expose(block.data, bytes, capacity(block)); }

BlockPool::Link* BlockPool::link(Link* next, std::byte* at) {
  unpoison(at, sizeof(Link));
  Link* made = new (at) Link{next};
  poison(at, sizeof(Link));
  return made;
}

BlockPool::Link* BlockPool::next_of(Link* link) {
  unpoison(link, sizeof(Link));
  return link->next;
}

BlockPool::~BlockPool() {
  trim();
  while (slabs_) unmap(reinterpret_cast<std::byte*>(std::exchange(slabs_, next_of(slabs_))), kSlabBytes);
}

Status BlockPool::map(uint64_t bytes, std::byte*& out) {
  if (bytes > budget_.available()) trim();
  if (bytes > budget_.available()) return budget_.refusal("values", bytes);
  auto block = AlignedBlock::allocate(bytes, budget_.allocator);
  if (!block) return std::move(block).status();
  budget_.held += bytes;
  out = block->release();
  return ok();
}

void BlockPool::unmap(std::byte* data, uint64_t bytes) {
  const AlignedBlock gone = AlignedBlock::adopt(data, bytes, budget_.allocator);
  budget_.held -= bytes;
}

Status BlockPool::cut(Kind& kind, uint64_t bytes, std::byte*& out) {
  if (kind.slab_left < bytes) {
    std::byte* slab = nullptr;
    MLC_RETURN_IF_ERROR(map(kSlabBytes, slab));
    poison(slab, kSlabBytes);
    slabs_ = link(slabs_, slab);
    kind.slab_at = slab + kLine;
    kind.slab_left = kSlabBytes - kLine;
  }
  out = kind.slab_at;
  kind.slab_at += bytes, kind.slab_left -= bytes;
  return ok();
}

Status BlockPool::take(Content content, uint64_t bytes, PoolBlock& out) {
  if (bytes > uint64_t{1} << 56) return budget_.refusal("values", bytes);
  PoolBlock block;
  block.content = content;
  block.size_class = class_of(bytes == 0 ? 1 : (bytes + kLine - 1) / kLine);
  const uint64_t size = bytes_in(block.size_class);
  Kind& kind = kinds_[static_cast<size_t>(content)];
  if (Link* free = kind.free[block.size_class]) {
    kind.free[block.size_class] = next_of(free);
    free->next = nullptr;  // an address, too
    block.data = reinterpret_cast<std::byte*>(free);
  } else {
    MLC_RETURN_IF_ERROR(size < kLargeBytes ? cut(kind, size, block.data) : map(size, block.data));
  }
  use(block, bytes);
  out = block;
  return ok();
}

void BlockPool::give_back(const PoolBlock& block) {
  poison(block.data, capacity(block));
  Link*& first = kinds_[static_cast<size_t>(block.content)].free[block.size_class];
  first = link(first, block.data);
}

void BlockPool::trim() {
  for (Kind& kind : kinds_)
    for (uint32_t c = class_of(kLargeBytes / kLine); c < kClasses; ++c)
      while (Link* free = kind.free[c]) {
        kind.free[c] = next_of(free);
        unmap(reinterpret_cast<std::byte*>(free), bytes_in(c));
      }
}

void Value::release(ValueNode* node) {
  if (--node->references > 0) return;
  if (node->list_depth > 0)
    for (uint64_t i = 0; i < node->size; ++i) release(node->items()[i]);
  BlockPool& pool = *node->pool;
  if (node->block.data) pool.give_back(node->block);
  PoolBlock own;
  own.data = reinterpret_cast<std::byte*>(node);
  own.size_class = class_of((sizeof(ValueNode) + kLine - 1) / kLine);
  own.content = Content::Objects;
  pool.give_back(own);
}

namespace {

Status make_node(BlockPool& pool, DType dtype, std::span<const int64_t> shape, Value& out) {
  PoolBlock own;
  MLC_RETURN_IF_ERROR(pool.take(Content::Objects, sizeof(ValueNode), own));
  auto* node = new (own.data) ValueNode;
  node->pool = &pool;
  node->dtype = dtype;
  node->rank = static_cast<uint8_t>(shape.size());
  std::copy(shape.begin(), shape.end(), node->shape);
  out = Value(node);
  return ok();
}

}  // namespace

Status make_array(BlockPool& pool, DType dtype, std::span<const int64_t> shape, uint64_t bytes, Value& out, Content content) {
  Value made;
  MLC_RETURN_IF_ERROR(make_node(pool, dtype, shape, made));
  MLC_RETURN_IF_ERROR(pool.take(content, bytes, made->block));
  made->data = made->block.data;
  made->size = bytes;
  out = std::move(made);
  return ok();
}

Status make_borrowed(BlockPool& pool, DType dtype, std::span<const int64_t> shape, const void* data, uint64_t bytes,
                     Value& out) {
  MLC_RETURN_IF_ERROR(make_node(pool, dtype, shape, out));
  out->data = static_cast<std::byte*>(const_cast<void*>(data));
  out->size = bytes;
  out->borrowed = true;
  return ok();
}

Status make_list(BlockPool& pool, DType dtype, uint8_t depth, uint64_t room, Value& out) {
  if (room > uint64_t{1} << 48) return Status(Code::Resource, "a list of {}", room);
  Value made;
  MLC_RETURN_IF_ERROR(make_node(pool, dtype, {}, made));
  made->list_depth = depth;
  MLC_RETURN_IF_ERROR(make_room(*made.node(), 0, room * sizeof(ValueNode*)));
  out = std::move(made);
  return ok();
}

Status make_room(ValueNode& node, uint64_t used, uint64_t bytes) {
  if (node.block.data && BlockPool::capacity(node.block) >= bytes) {
    BlockPool::use(node.block, bytes);
    return ok();
  }
  PoolBlock bigger;
  const Content content = node.list_depth > 0 ? Content::Objects : node.block.content;
  MLC_RETURN_IF_ERROR(node.pool->take(content, node.block.data ? std::max(bytes, 2 * used) : bytes, bigger));
  if (used > 0) std::memcpy(bigger.data, node.data, used);
  if (node.block.data) node.pool->give_back(node.block);
  node.block = bigger;
  node.data = bigger.data;
  BlockPool::use(bigger, bytes);
  return ok();
}

void set_size(ValueNode& node, uint64_t bytes) {
  node.size = bytes;
  BlockPool::use(node.block, bytes);
}

Status append(Value& list, const Value& item) {
  const uint64_t used = list->size * sizeof(ValueNode*);
  MLC_RETURN_IF_ERROR(make_room(*list.node(), used, used + sizeof(ValueNode*)));
  list->items()[list->size++] = item.node();
  ++item->references;
  return ok();
}

Status make_own(Value& list, uint64_t more) {
  const uint64_t used = list->size * sizeof(ValueNode*), wanted = used + more * sizeof(ValueNode*);
  if (!list.shared()) return make_room(*list.node(), used, wanted);
  Value copy;
  MLC_RETURN_IF_ERROR(make_list(*list->pool, list->dtype, list->list_depth, list->size + more, copy));
  for (uint64_t i = 0; i < list->size; ++i) MLC_RETURN_IF_ERROR(append(copy, list.item(i)));
  list = std::move(copy);
  return ok();
}

Status keep(const Value& value) {
  if (value.is_list()) {
    for (uint64_t i = 0; i < value->size; ++i) MLC_RETURN_IF_ERROR(keep(value.item(i)));
    return ok();
  }
  if (!value->borrowed) return ok();
  MLC_RETURN_IF_ERROR(make_room(*value.node(), value->size, value->size));  // it has no block yet
  value->borrowed = false;
  return ok();
}

}  // namespace mlc::exec
