// The memory of values: blocks, what a small budget does to them, references, lists.
#include "runtime/plan/value.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

using namespace mlc;
using namespace mlc::exec;

namespace {

constexpr uint64_t kKiB = 1 << 10, kMiB = 1 << 20;

void fill(const PoolBlock& block, uint64_t bytes, uint8_t with) { std::memset(block.data, with, bytes); }
bool holds(const PoolBlock& block, uint64_t bytes, uint8_t what) {
  return std::all_of(block.data, block.data + bytes, [&](std::byte b) { return b == std::byte{what}; });
}

Value array_of(BlockPool& pool, int64_t number) {
  Value v;
  REQUIRE(make_array(pool, DType::I64, {}, sizeof number, v).ok());
  std::memcpy(v->data, &number, sizeof number);
  return v;
}
int64_t number_in(const Value& v) {
  int64_t number = 0;
  std::memcpy(&number, v->data, sizeof number);
  return number;
}
Value list_of(BlockPool& pool, uint8_t depth = 1) {
  Value v;
  REQUIRE(make_list(pool, DType::I64, depth, 0, v).ok());
  return v;
}

}  // namespace

TEST_CASE("a block that is taken while the pool gives memory back to the system belongs to its taker alone") {
  MemoryBudget budget{kMiB, 0};
  {
    BlockPool pool(budget);
    PoolBlock a, b, c, d, e;
    REQUIRE(pool.take(Content::Elements, 320 * kKiB, a).ok());
    REQUIRE(pool.take(Content::Elements, 384 * kKiB, b).ok());
    pool.give_back(a);
    pool.give_back(b);
    REQUIRE(pool.take(Content::Elements, 512 * kKiB, c).ok());  // of another size: both free ones go to make room
    CHECK(budget.held == 512 * kKiB);
    fill(c, 512 * kKiB, 0x5a);
    REQUIRE(pool.take(Content::Elements, 64 * kKiB, d).ok());
    REQUIRE(pool.take(Content::Elements, 96 * kKiB, e).ok());
    fill(d, 64 * kKiB, 0x11);
    fill(e, 96 * kKiB, 0x22);
    CHECK(holds(c, 512 * kKiB, 0x5a));
    CHECK(holds(d, 64 * kKiB, 0x11));
    for (const PoolBlock& block : {c, d, e}) pool.give_back(block);
  }
  CHECK(budget.held == 0);
}

TEST_CASE("any order of taking and giving back under any budget: blocks never meet, the budget is never exceeded") {
  std::mt19937_64 random(5);
  for (const uint64_t limit : {uint64_t{0}, 255 * kKiB, 256 * kKiB, 400 * kKiB, kMiB, 3 * kMiB}) {
    MemoryBudget budget{limit, 0};
    int taken = 0, refused = 0;
    {
      BlockPool pool(budget);
      struct Live {
        PoolBlock block;
        uint64_t bytes;
        uint8_t content;
      };
      std::vector<Live> live;
      for (int round = 0; round < 6000; ++round) {
        if (random() % 2 == 0 || live.empty()) {
          const uint64_t bytes = random() % (uint64_t{1} << random() % 21);
          PoolBlock block;
          if (pool.take(Content::Elements, bytes, block).ok()) {
            ++taken;
            CHECK(reinterpret_cast<uintptr_t>(block.data) % 64 == 0);
            CHECK(BlockPool::capacity(block) >= (bytes + 63) / 64 * 64);
            live.push_back({block, bytes, static_cast<uint8_t>(random())});
            fill(block, bytes, live.back().content);
          } else {
            ++refused;
            CHECK(block.data == nullptr);
          }
        } else {
          std::swap(live[random() % live.size()], live.back());
          CHECK(holds(live.back().block, live.back().bytes, live.back().content));
          pool.give_back(live.back().block);
          live.pop_back();
        }
        CHECK(budget.held <= limit);
        uint64_t large = 0;
        for (const Live& l : live) large += BlockPool::capacity(l.block) >= 32 * kKiB ? BlockPool::capacity(l.block) : 0;
        CHECK(budget.held >= large);
      }
      for (const Live& l : live) pool.give_back(l.block);
      pool.trim();
      CHECK(budget.held % (256 * kKiB) == 0);  // slabs are all that is kept
    }
    CHECK(budget.held == 0);
    CHECK((taken > 1000) == (limit >= 256 * kKiB));
    CHECK(refused > 0);
  }
}

TEST_CASE("sizes are rounded up by a quarter at most, and freed blocks serve any size of their class") {
  MemoryBudget budget{uint64_t{1} << 40, 0};
  BlockPool pool(budget);
  for (uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{64}, uint64_t{65}, uint64_t{257}, 4 * kKiB + 1, 31 * kKiB, 32 * kKiB,
                         33 * kKiB, 100 * kKiB, kMiB + 1, 5 * kMiB}) {
    PoolBlock block, again;
    REQUIRE(pool.take(Content::Elements, bytes, block).ok());
    const uint64_t capacity = BlockPool::capacity(block);
    CHECK(capacity >= bytes);
    CHECK(capacity <= std::max<uint64_t>(64, (bytes + 63) / 64 * 64 * 5 / 4));
    pool.give_back(block);
    const uint64_t held = budget.held;
    REQUIRE(pool.take(Content::Elements, capacity, again).ok());
    CHECK(again.data == block.data);
    CHECK(budget.held == held);
    pool.give_back(again);
  }
  PoolBlock none;
  for (uint64_t bytes : {uint64_t{1} << 41, (uint64_t{1} << 56) + 1, UINT64_MAX}) {
    CHECK(pool.take(Content::Elements, bytes, none).code == Code::Resource);
    CHECK(none.data == nullptr);
  }
}

TEST_CASE("memory of arrays never was memory of anything that holds addresses") {
  MemoryBudget budget{uint64_t{1} << 30, 0};
  BlockPool pool(budget);
  const auto is_empty = [](const PoolBlock& block) { return holds(block, BlockPool::capacity(block), 0); };
  for (uint64_t bytes = 1; bytes < kMiB; bytes *= 2) {
    std::vector<PoolBlock> objects(5), elements(10);
    for (PoolBlock& block : objects) {
      REQUIRE(pool.take(Content::Objects, bytes, block).ok());
      BlockPool::use(block, BlockPool::capacity(block));
      fill(block, BlockPool::capacity(block), 0xad);
    }
    for (const PoolBlock& block : objects) pool.give_back(block);
    for (int round = 0; round < 2; ++round) {  // the second one takes what the first one gave back: chained by then
      for (PoolBlock& block : elements) {
        REQUIRE(pool.take(Content::Elements, bytes, block).ok());
        BlockPool::use(block, BlockPool::capacity(block));
        CHECK(is_empty(block));
      }
      for (const PoolBlock& block : elements) pool.give_back(block);
    }
  }
  // Lists, and arrays of texts for the caller, hold addresses as well.
  Value list = list_of(pool), texts, numbers = array_of(pool, 1);
  REQUIRE(append(list, numbers).ok());
  REQUIRE(make_array(pool, DType::Str, {}, 640, texts, Content::Objects).ok());
  REQUIRE(make_room(*texts.node(), 640, 1280).ok());
  CHECK(list->block.content == Content::Objects);
  CHECK(texts->block.content == Content::Objects);
  CHECK(numbers->block.content == Content::Elements);
}

TEST_CASE("what the pool refuses leaves everything as it was") {
  MemoryBudget budget{600 * kKiB, 0};  // a slab of each kind, and a list that was doubled a few times
  {
    BlockPool pool(budget);
    Value list = list_of(pool);
    const Value item = array_of(pool, 7);
    Status status;
    uint64_t items = 0;
    for (; status.ok(); ++items) status = append(list, item);  // until a list of twice its size has no room any more
    CHECK(status.code == Code::Resource);
    CHECK(list->size == items - 1);
    CHECK(item->references == items);
    for (uint64_t i = 0; i < list->size; ++i) REQUIRE(list.item(i).node() == item.node());
    Value big;
    CHECK(make_array(pool, DType::U8, {}, 600 * kKiB, big).code == Code::Resource);
    CHECK(!big);
    CHECK(make_list(pool, DType::U8, 1, UINT64_MAX, big).code == Code::Resource);
    CHECK(!big);
  }
  CHECK(budget.held == 0);
}

TEST_CASE("a value lives as long as somebody names it, and its memory is used again afterwards") {
  MemoryBudget budget{kMiB, 0};
  BlockPool pool(budget);
  Value a = array_of(pool, 1);
  const std::byte* memory = a->data;
  {
    const Value b = a;
    CHECK(a.shared());
    Value list = list_of(pool);
    REQUIRE(append(list, a).ok());
    CHECK(a->references == 3);
    const Value item = list.item(0);
    CHECK(a->references == 4);
    a = Value();
    CHECK(number_in(item) == 1);
  }
  const Value c = array_of(pool, 2);
  CHECK(c->data == memory);
}

TEST_CASE("references of a value do not wrap at 2^32") {
  MemoryBudget budget{kMiB, 0};
  BlockPool pool(budget);
  Value list = list_of(pool);
  const Value item = array_of(pool, 1);
  item->references = uint64_t{UINT32_MAX} - 1;  // as if so many lists named it
  for (int i = 0; i < 3; ++i) REQUIRE(append(list, item).ok());
  CHECK(item->references == uint64_t{UINT32_MAX} + 2);
  item->references = 1 + list->size;
}

TEST_CASE("lists: a shared one is copied before it changes, one that nobody else sees is not") {
  MemoryBudget budget{kMiB, 0};
  {
    BlockPool pool(budget);
    Value list = list_of(pool);
    for (int64_t i = 0; i < 1000; ++i) REQUIRE(append(list, array_of(pool, i)).ok());
    const ValueNode* node = list.node();
    REQUIRE(make_own(list, 5).ok());
    CHECK(list.node() == node);
    const Value other = list;
    REQUIRE(make_own(list, 1).ok());
    CHECK(list.node() != node);
    REQUIRE(append(list, array_of(pool, 1000)).ok());
    CHECK(other->size == 1000);
    CHECK(list->size == 1001);
    for (uint64_t i = 0; i < 1001; ++i) REQUIRE(number_in(list.item(i)) == static_cast<int64_t>(i));
    CHECK(list.item(0)->references == 3);  // both lists and this one
    Value outer = list_of(pool, 2);
    for (int i = 0; i < 3; ++i) REQUIRE(append(outer, list).ok());
    CHECK(list->references == 4);
  }
  CHECK(budget.held == 0);
}

TEST_CASE("borrowed memory becomes the pool's when it is kept, in lists as well") {
  MemoryBudget budget{kMiB, 0};
  BlockPool pool(budget);
  alignas(64) uint8_t mine[100];
  std::fill(std::begin(mine), std::end(mine), uint8_t{9});
  const int64_t extent = 100;
  Value array, list = list_of(pool);
  REQUIRE(make_borrowed(pool, DType::U8, {&extent, 1}, mine, sizeof mine, array).ok());
  REQUIRE(append(list, array).ok());
  CHECK(array->data == reinterpret_cast<std::byte*>(mine));
  REQUIRE(keep(list).ok());
  CHECK(array->data != reinterpret_cast<std::byte*>(mine));
  mine[99] = 0;
  CHECK(array->data[99] == std::byte{9});
  CHECK(array.shape()[0] == 100);
}

TEST_CASE("an array of the pool's keeps its elements when it grows, ends their lives when it shrinks, and fails softly") {
  MemoryBudget budget{kMiB, 0};
  {
    BlockPool pool(budget);
    const Value item = array_of(pool, 3);
    PoolArray<Value> array(pool);
    REQUIRE(array.resize(2).ok());
    CHECK(!array[0]);
    array[0] = array[1] = item;
    REQUIRE(array.resize(10'000).ok());
    CHECK(array[1].node() == item.node());
    CHECK(!array[9999]);
    for (Value& v : array) v = item;
    CHECK(item->references == 10'001);
    CHECK(array.resize(uint64_t{1} << 40).code == Code::Resource);
    CHECK(array.resize(UINT64_MAX).code == Code::Resource);
    CHECK(array.size() == 10'000);
    CHECK(item->references == 10'001);
    REQUIRE(array.resize(1).ok());
    CHECK(item->references == 2);
    array.clear();
    CHECK(item->references == 1);
  }
  CHECK(budget.held == 0);
}
