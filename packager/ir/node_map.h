// What has been seen of an expression: a table by node that takes memory only when there are many. Walks are short as a rule, and
// there are millions of them in a build.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "packager/ir/expr.h"

namespace mlc::ir {

// Of nodes of one Context. Neither copied nor moved.
template <class Value>
class NodeMap {
 public:
  NodeMap() = default;
  NodeMap(const NodeMap&) = delete;
  NodeMap& operator=(const NodeMap&) = delete;

  // Whether `e` is new; if not, its value stays.
  bool insert(const Expr* e, Value value) {
    if (Slot& slot = slot_of(e); slot.key) return false;
    if ((size_ + 1) * 2 > mask_ + 1) grow();
    slot_of(e) = {e, value};
    ++size_;
    return true;
  }
  // Null if it is not there; valid until the next insert.
  const Value* find(const Expr* e) const {
    const Slot& slot = slot_of(e);
    return slot.key ? &slot.value : nullptr;
  }
  bool contains(const Expr* e) const { return find(e) != nullptr; }
  size_t size() const { return size_; }

 private:
  struct Slot {
    const Expr* key = nullptr;
    Value value{};
  };
  static constexpr size_t kFirst = 32;  // a power of two, as all sizes

  Slot& slot_of(const Expr* e) const {
    size_t at = (e->id * size_t{0x9e3779b97f4a7c15u}) >> 32;
    while (slots_[at & mask_].key && slots_[at & mask_].key != e) ++at;
    return slots_[at & mask_];
  }
  void grow() {
    const size_t before = mask_ + 1;
    const std::unique_ptr<Slot[]> old = std::move(many_);
    const Slot* from = slots_;
    many_ = std::make_unique<Slot[]>(before * 4);
    slots_ = many_.get();
    mask_ = before * 4 - 1;
    for (size_t k = 0; k < before; ++k)
      if (from[k].key) slot_of(from[k].key) = from[k];
  }

  std::array<Slot, kFirst> few_{};
  std::unique_ptr<Slot[]> many_;
  Slot* slots_ = few_.data();
  size_t mask_ = kFirst - 1, size_ = 0;
};

struct Nothing {};
using NodeSet = NodeMap<Nothing>;

}  // namespace mlc::ir
