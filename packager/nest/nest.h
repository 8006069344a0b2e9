// The Nest level: pure arrays over named dims. A Function is a list of statements in order; each writes arrays, and an
// array is complete after the last statement that writes it. Operator texts expand to this; the interpreter
// (nest/interpret/interpret.h) is its meaning; passes rewrite it; lowering turns each statement (or a fused group) into a kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/checked.h"
#include "packager/ir/context.h"
#include "packager/nest/layout.h"
#include "schema/steps.h"

namespace mlc::nest {

// Elements of a constant, row-major in the array's shape. Shared and immutable: a weight exists once.
struct ConstData {
  Bytes bytes;
  std::shared_ptr<const void> owner;
  // Of one that was joined: the constants of the model that lie in it side by side along `axis`. Empty: it is none.
  std::vector<std::shared_ptr<const ConstData>> parts = {};
  size_t axis = 0;
};

struct Array {
  // Derived: a constant of the model that statements compute from constants, once for each opened model.
  enum class Kind : uint8_t { Temp, Input, Const, Derived };
  std::string name;   // of the source value where there is one; unique in the function
  Kind kind = Kind::Temp;
  DType dtype = DType::None;
  std::vector<const ir::Expr*> shape;
  std::shared_ptr<const ConstData> data;  // Const only
  Layout layout;                          // assigned by passes/layout; empty means row-major
  // Not 0: a list of arrays of this element type whose shapes differ (1), a list of such lists (2), ... An optional is
  // a list of at most one item. `shape` is empty then. Only Controls read and write lists.
  uint8_t list_depth = 0;
  uint32_t derived = 0;  // Derived only: its number in the plan, given by passes/derive
  // Whose memory it lies in where `layout` says that it is a part: a Temp that is no part itself, and that a statement copies it to (is_in_place).
  uint32_t whole = UINT32_MAX;

  bool is_result() const { return kind == Kind::Temp || kind == Kind::Derived; }  // what statements write
};
constexpr std::string_view kArrayKinds[] = {"temp", "input", "const", "derived"};  // in texts

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

struct Proc;  // an imperative block: nest/proc.h
struct DeleteProc {
  DeleteProc() = default;
  DeleteProc(std::default_delete<Proc>) {}
  void operator()(Proc* proc) const;
};
using ProcPtr = std::unique_ptr<Proc, DeleteProc>;

struct Function;

constexpr uint32_t kNoArray = UINT32_MAX;

// What only the run decides: values of symbols, which body is run and how often, lists. An axis of a result whose extent
// is a Sym without a value gets it from what the run made; any other extent must agree with it.
struct Control {
  StepOp kind = StepOp::Read;  // schema/steps.h says what each does; not Call
  StepSettings set;
  std::vector<uint32_t> inputs, outputs;  // arrays of the function; kNoArray: absent, not wanted
  std::vector<const ir::Sym*> symbols;    // Read only
  // Their extents may contain symbols of the function around them, whose values they see.
  std::vector<std::unique_ptr<Function>> bodies;
  uint32_t carried = 0;  // Loop only
  std::string service, options;  // Host; no byte of the options is 0
};

struct Statement {
  std::string source;  // node and operator it came from: "Conv_12 (Conv)"
  std::unique_ptr<Nest> nest;  // exactly one of the three
  ProcPtr proc;
  std::unique_ptr<Control> control;
  uint32_t part = 0;   // of the function where that is cut in parts, rising (passes/segments/cut.h)
  bool joins = false;  // in one launch with the statement before it, where lowering can do that (group.h)
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
  // Symbols that are elements (row-major) of integer or bool inputs, known as soon as the function is called.
  struct Element { const ir::Sym* sym; uint32_t input; uint64_t element; };  // `input` is an array
  std::vector<Element> elements;
  // What a model keeps between runs: state `number` of the plan is read as an input, and becomes an output when everything else is done.
  // Places in `inputs` and `outputs`, whose arrays have equal, constant shapes; kNoArray: only read, only written.
  struct State { uint32_t number, input, output; };
  std::vector<State> states;
  // Names of the first `counted` arrays, for passes that add more (names.h).
  std::unordered_set<std::string> names;
  size_t counted = 0;
};

}  // namespace mlc::nest
