// Text that tells whether two things made of expressions have the same structure, up to names: equal structures, equal texts.
// Its length is that of the graph of expressions: a node that is used often is written once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "packager/ir/node_map.h"

namespace mlc::ir {

class StructureKey {
 public:
  // Writes numbers for what names a node when it is met first: a Var, Sym or Dim, the array of a Load, combiner and dims of a
  // Fold.
  using Leaf = std::function<void(StructureKey& key, const Expr* leaf)>;
  // What is_extent is part of the structure, or a thing of its own that is the same in things of one Context alone.
  enum class Extents { Inside, AsOne };
  // Whether an argument is left open: anything may stand there. Asked once per argument of every node.
  using Open = std::function<bool(const Expr* node, size_t argument)>;
  explicit StructureKey(Leaf leaf, Extents extents = Extents::Inside, Open open = {})
      : leaf_(std::move(leaf)), extents_(extents), open_(std::move(open)) {}

  void number(int64_t value);
  // The nodes of `e` that have not been written yet, then the number of `e`, which may be null.
  void expression(const Expr* e);
  const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }

 private:
  void constant(const Expr* e);
  void refer(const Expr* e);  // to what has been written

  const Leaf leaf_;
  const Extents extents_;
  const Open open_;
  std::string text_;
  NodeMap<int64_t> nodes_;
};

}  // namespace mlc::ir
