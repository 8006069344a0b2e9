// Text that tells whether two things made of expressions have the same structure, up to names: equal structures, equal texts.
// Its length is that of the graph of expressions: a node that is used often is written once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

#include "packager/ir/expr.h"

namespace mlc::ir {

class StructureKey {
 public:
  // Writes numbers for what names a node when it is met first: a Var, Sym or Dim, the array of a Load, combiner and dims of a
  // Fold.
  using Leaf = std::function<void(StructureKey& key, const Expr* leaf)>;
  explicit StructureKey(Leaf leaf) : leaf_(std::move(leaf)) {}

  void number(int64_t value);
  // The nodes of `e` that have not been written yet, then the number of `e`, which may be null.
  void expression(const Expr* e);
  const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }

 private:
  const Leaf leaf_;
  std::string text_;
  std::unordered_map<const Expr*, int64_t> nodes_;
};

}  // namespace mlc::ir
