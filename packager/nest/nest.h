// The Nest level: pure arrays over named dims. A Function is a list of statements in order; each writes arrays, and an
// array is complete after the last statement that writes it. Operator texts expand to this; the interpreter
// (nest/interpret.h) is its meaning; passes rewrite it; lowering turns each statement (or a fused group) into a kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
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

// Imperative block, one independent instance per point of `dims`. Its Loop tree loads and stores arrays of the function
// with one index per axis (loop::Stmt::index).
struct Proc {
  std::vector<const ir::Dim*> dims;
  std::vector<loop::StmtPtr> body;
  std::vector<loop::LocalArray> locals;  // Load/Store arrays numbered from kFirstLocal
  std::vector<uint32_t> reads, writes;
};
constexpr uint32_t kFirstLocal = 1u << 24;

struct Function;

constexpr uint32_t kNoArray = UINT32_MAX;

// What only the run decides: values of symbols, which body is run and how often, lists. An axis of a result whose extent
// is a Sym without a value gets it from what the run made; any other extent must agree with it.
struct Control {
  enum class Kind : uint8_t {
    // symbols[k] = element k (row-major) of the integer or bool array inputs[0]; fails outside the symbol's bounds.
    Read,
    // inputs: condition (bool, one element), arguments... -> results of bodies[0] if it is true, else of bodies[1],
    // which both take the arguments.
    Branch,
    // inputs: trip count (i64, one element, or kNoArray), condition (bool, one element, or kNoArray), `carried` initial
    // values, arguments... The body takes iteration number (i64 []), condition (bool []), carried values, arguments and
    // gives condition (bool, one element), carried values, scanned values. It runs while the condition holds, at most
    // `trip count` times. Results: the carried values after the last run, then every scanned value of all runs along a
    // new first axis; without a run that array has as many axes as its shape says, and no elements.
    Loop,
    ListMake,    // arrays or lists of one depth... -> list of them in this order; without inputs: the empty list
    ListInsert,  // list, item, position (i64, one element; kNoArray: at the end; negative counts from the end) -> list
    ListErase,   // list, position (kNoArray: the last) -> list
    ListAt,      // list, position -> item
    ListLength,  // list -> i64 []
    ListConcat,  // list -> array: the items along `axis`, which is a new one if `new_axis`
    // array, lengths (i64 [n], or i64 [] for equal pieces of which the last may be shorter; kNoArray: pieces of 1) ->
    // list of pieces along `axis`, which is dropped from pieces of one element if `drop_axis`
    ListSplit,
    // Strings. Below the interface a string is a u64: its place in a table of the run in which every text is once, so
    // that equal texts have equal numbers; 0 is the empty text. Arrays and lists of DType::Str are inputs and outputs only
    // (and stand for arrays of such numbers while a model is expanded).
    StringsIn,    // str array or list -> u64 array or list
    StringsOut,   // u64 array or list -> str array or list
    StringsMake,  // text (u8 [bytes]), ends (i64 [n], not falling) -> u64 [n]: the pieces of the text
    StringConcat,  // two u64 arrays of one shape -> u64 array: one text behind the other
    // u64 array, separator (u64, one element; empty: runs of blanks) -> u64 array with one more axis, i64 array of the
    // numbers of pieces. At most `max_cuts` cuts per text.
    StringSplit,
    // u64 array, table (as for StringMatch) -> as StringSplit: the longest pieces, from the left, that the table accepts; what
    // stands between them if `between`. Pieces of less than `min_letters` letters, and empty ones, are left out.
    StringTokens,
    // u64 [n], texts to leave out (u64 [k]) -> u64 [m], with `case_change`; `match_case`: case counts in the comparison.
    StringNormalize,
    StringMatch,       // u64 array, table (i32 [n], base/text.h: accepts) -> bool array
    StringRank,        // u64 array -> i64 array: how many of the different texts in it come before this one, byte by byte
    StringFromNumber,  // array of any numbers but small floats -> u64 array
    NumberFromString,  // u64 array -> f64 array, or an i64 array if `integers`
    Host,  // arrays but strings... -> arrays: what `service` of the application makes of them, told `options` as well
  };
  enum class CaseChange : uint8_t { None, Lower, Upper };  // numbered as in schema/plan.fbs

  // What the operation is told beside its operands; each kind reads the fields that name it.
  struct Settings {
    uint32_t axis = 0;         // ListConcat, ListSplit
    bool new_axis = false;     // ListConcat
    bool drop_axis = false;    // ListSplit
    uint32_t max_cuts = 0;     // StringSplit
    uint32_t min_letters = 0;  // StringTokens
    bool between = false;      // StringTokens
    CaseChange case_change = CaseChange::None;  // StringNormalize
    bool match_case = false;   // StringNormalize
    bool integers = false;     // NumberFromString
  };

  Kind kind = Kind::Read;
  Settings set;
  std::vector<uint32_t> inputs, outputs;  // arrays of the function; kNoArray: absent, not wanted
  std::vector<const ir::Sym*> symbols;    // Read only
  // Their extents may contain symbols of the function around them, whose values they see.
  std::vector<std::unique_ptr<Function>> bodies;
  uint32_t carried = 0;  // Loop only
  std::string service, options;  // Host; no byte of the options is 0
};

constexpr bool is_about_strings(Control::Kind k) {
  return k >= Control::Kind::StringsIn && k <= Control::Kind::NumberFromString;
}

struct Statement {
  std::string source;  // node and operator it came from: "Conv_12 (Conv)"
  std::unique_ptr<Nest> nest;  // exactly one of the three
  std::unique_ptr<Proc> proc;
  std::unique_ptr<Control> control;
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
  // Names of the first `counted` arrays, for those who add more (names.h).
  std::unordered_set<std::string> names;
  size_t counted = 0;
};

}  // namespace mlc::nest
