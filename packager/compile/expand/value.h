// What the expansion knows of a value of the graph: a tensor (an array of the function, perhaps with its elements), or a
// list. A list whose items are known while building is just that; it becomes a list of the run only where one is needed.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "packager/lang/lang.h"

namespace mlc::compile {

struct List;

// Two arrays: keys, of one axis, and values, of one more for a list of maps that all have these keys.
struct Map {
  uint32_t keys = nest::kNoArray, values = nest::kNoArray;
};

struct Item {
  lang::Value tensor{lang::Library::kNoArray, {}};
  std::shared_ptr<const List> list;  // null: a tensor

  static Item of(uint32_t array) { return {lang::Value{array, {}}, nullptr}; }
};

// The shapes of the tensors in a list.
struct ItemShape {
  bool none = false;  // there is no tensor in it
  // Per axis the extent that all have, or null; nothing: not even the rank is the same, or known.
  std::optional<std::vector<const ir::Expr*>> axes;
};

struct List {
  DType dtype = DType::None;
  uint8_t depth = 1;
  bool optional = false;              // its outermost level
  std::optional<std::vector<Item>> items;
  uint32_t array = nest::kNoArray;    // where items are not known: the list of the run
  ItemShape shape;                    // of the tensors, at whatever depth
};

inline bool same(const ItemShape& a, const ItemShape& b) { return a.none == b.none && a.axes == b.axes; }

// What holds for the tensors of both.
inline ItemShape joined(const ItemShape& a, const ItemShape& b) {
  if (a.none) return b;
  if (b.none) return a;
  if (!a.axes || !b.axes || a.axes->size() != b.axes->size()) return {};
  ItemShape r = a;
  for (size_t k = 0; k < r.axes->size(); ++k)
    if ((*a.axes)[k] != (*b.axes)[k]) (*r.axes)[k] = nullptr;
  return r;
}

}  // namespace mlc::compile
