// The Nest level: pure arrays over named dims. A Function is a list of statements in order; each writes arrays, and an
// array is complete after the last statement that writes it. Operator texts expand to this; the interpreter
// (nest/interpret.h) is its meaning; passes rewrite it; lowering turns each statement (or a fused group) into a kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/checked.h"
#include "packager/ir/context.h"
#include "packager/loop/loop.h"
#include "packager/nest/layout.h"

namespace mlc::nest {

// Elements of a constant, row-major in the array's shape. Shared and immutable: a weight exists once.
struct ConstData {
  Bytes bytes;
  std::shared_ptr<const void> owner;
};

struct Array {
  enum class Kind : uint8_t { Temp, Input, Const };
  std::string name;   // of the source value where there is one; unique in the function
  Kind kind = Kind::Temp;
  DType dtype = DType::None;
  std::vector<const ir::Expr*> shape;
  std::shared_ptr<const ConstData> data;  // Const only
  Layout layout;                          // assigned by passes/layout; empty means row-major
};

// One array element per point of the nest's dims (those that satisfy `where`).
struct Write {
  uint32_t array = 0;
  std::vector<const ir::Expr*> index;  // per axis; for a map: each element is written by exactly one point
  const ir::Expr* value = nullptr;     // may contain Fold nodes over further dims
  // A push combines into what is there, which may coincide between points; `Last`: the highest point wins.
  bool push = false;
  ir::Join join = ir::Join::Last;
};

struct Nest {
  std::vector<const ir::Dim*> dims;  // map dims, outer to inner
  const ir::Expr* where = nullptr;   // points where it is false write nothing (null: all)
  std::vector<Write> writes;
  // Running fold along `scan_dim` (one of dims): the value written is the fold of `value` over the points before
  // (and, unless exclusive, at) this one, from the low end or, if reverse, from the high end.
  const ir::Dim* scan_dim = nullptr;
  const ir::Combiner* scan_combiner = nullptr;
  bool scan_exclusive = false, scan_reverse = false;
};

// Imperative block, one independent instance per point of `dims`. Its Loop tree loads and stores arrays of the function
// with one index per axis (loop::Stmt::index).
struct Proc {
  std::vector<const ir::Dim*> dims;
  std::vector<loop::StmtPtr> body;
  std::vector<loop::LocalArray> locals;  // Load/Store arrays numbered from kFirstLocal
  std::vector<uint32_t> reads, writes;
  std::vector<std::pair<const ir::Sym*, const ir::Expr*>> yields;  // existential extents, set after the block
};
constexpr uint32_t kFirstLocal = 1u << 24;

struct Statement {
  std::string source;  // node and operator it came from: "Conv_12 (Conv)"
  std::unique_ptr<Nest> nest;  // exactly one of the two
  std::unique_ptr<Proc> proc;
};

struct Function {
  std::string name;
  std::vector<Array> arrays;
  std::vector<Statement> body;
  std::vector<uint32_t> inputs, outputs;  // arrays, in the order of the interface
  // Conditions on symbols that the operators demand and that could not be settled while building.
  struct Check { const ir::Expr* condition; std::string message; };
  std::vector<Check> checks;
  // Symbols that stand for an expression over others, in order: a seam behind which code need not depend on how an
  // extent came about (the size of a resized picture, say), so that it is the same code wherever it is used.
  struct Definition { const ir::Sym* sym; const ir::Expr* value; };
  std::vector<Definition> definitions;
};

}  // namespace mlc::nest
