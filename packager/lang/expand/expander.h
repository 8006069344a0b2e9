// Private to the library: one attempt to apply one definition to one call. Steps, each in a file of its own:
//   bind_types.cpp  inputs to parameters, element types
//   bind.cpp        ranks, unification of dims (bind_broadcasts.cpp: axes that broadcast)
//   attributes.cpp  the call's attributes against their declarations
//   eval.cpp        expressions (operations.cpp, lists.cpp; reads: access.cpp; calls: functions.cpp, builtins.cpp; folds: folds.cpp)
//   statements.cpp  clauses (array_statements.cpp: maps, pushes, scans, for each; targets.cpp: what they write)
//   graphs.cpp      graphs of the model's that a text calls
//   procs.cpp       imperative blocks
//   elements.cpp    values of small tensors, by evaluating the statements on symbols
//
// Numbers. A Scalar is *soft* if no array element went into it: literals, attributes, extents, indices. Soft numbers
// adapt to the element type that they meet (an index only to i64; it is data otherwise, and wants a cast); hard ones do
// not. Soft integers are i64 expressions, soft reals f64 ones, or f32 if elements of a `sym f32` went in.
#pragma once

#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "packager/ir/numeric.h"
#include "packager/lang/lang.h"
#include "packager/lang/parse/ast.h"

namespace mlc::lang {

using Ex = const ir::Expr*;

struct FlatPlace {  // flat(index, extents), kept so that unflat can rename instead of divide
  std::vector<Ex> index, extents;
};

// Items of a list that are plain numbers, as those of attributes are: there may be millions, and an entry takes eight bytes
// where a ExprValue and its expression take some hundred.
struct Numbers {
  DType dtype = DType::I64;     // of all items: I64, F64 or Bool
  std::vector<int64_t> values;  // of F64: the bits

  ir::Scalar at(size_t k) const {
    if (dtype == DType::F64) return {0, std::bit_cast<double>(values[k])};
    return {values[k], 0};
  }
};

// What an expression of a definition is once it is expanded: a scalar of the program, or something known by now.
struct ExprValue {
  enum class Kind : uint8_t { Scalar, List, Tuple, Enum, String, Type, Record, Absent } kind = Kind::Absent;
  enum class Special : uint8_t { None, Lowest, Highest, Bottom, Top } special = Special::None;
  bool soft = false;
  Ex e = nullptr;                    // Scalar without `special`
  DType rounds_to = DType::None;     // e is f32, made of small floats of this type: what it becomes where it is stored
  Ex clamp_lo = nullptr, clamp_hi = nullptr;  // the value came out of clamp(_, lo, hi)
  DType dtype = DType::None;         // Type
  std::string text;                  // Enum, String
  const AttrDecl* attr = nullptr;    // Enum
  std::vector<ExprValue> items;            // List without `numbers`, Tuple, Record
  std::shared_ptr<const Numbers> numbers;  // List: its items
  const CombinerDef* record = nullptr;
  std::shared_ptr<const FlatPlace> flat;

  bool is_scalar() const { return kind == Kind::Scalar; }
  bool is_list() const { return kind == Kind::List; }
  bool is_const() const { return is_scalar() && special == Special::None && e->is_const(); }
  size_t length() const { return numbers ? numbers->values.size() : items.size(); }  // List
};

// A list in the making: Numbers as long as plain numbers of one type are added.
class ListBuilder {
 public:
  explicit ListBuilder(ir::Context& ctx) : ctx_(ctx) {}
  void add(ExprValue item);
  ExprValue done();

 private:
  void spread();

  ir::Context& ctx_;
  Numbers numbers_;
  std::vector<ExprValue> items_;
};

// One dim or pack of the definition.
struct DimInfo {
  bool pack = false;
  bool known = false;                // extents are settled (a pack may be known and empty)
  std::vector<Ex> extents;
  std::vector<std::string> origins;  // of each extent: "axis 1 of x"
  struct Ref { std::string base; size_t index = 0; bool one = false; };
  bool alias = false;                // declared by `dims`: made of elements of other dims
  std::vector<Ref> refs;
  bool per_item = false;             // of a `many` parameter or result: one extent per item
  std::vector<Ex> item_extents;
};

// One axis as the text sees it.
struct Slot {
  Ex extent = nullptr;         // as declared: for a broadcast axis the extent broadcast to
  Ex actual = nullptr;         // of the array; null: missing on the left
  std::vector<Ex> factors;     // extents of a product, outer first
  Ex step = nullptr;           // the run decides whether it broadcasts: read at index * step (ir/broadcast.h)
};

struct ArrayInfo {
  std::string name;
  bool present = false;
  bool is_result = false, is_local = false;  // local: of one proc
  bool is_shared = false;      // allocated outside of procs, which write it
  uint32_t id = 0;             // in the function; locals: kFirstLocal + n
  DType dtype = DType::None;
  DType rounds_to = DType::None;  // temporaries of f32 that were made of small floats
  std::vector<Slot> slots;
  bool scalar_like = false;    // declared T[]: one element, whatever the rank
  std::vector<Ex> elements;
  const Param* param = nullptr;
  const ResultDecl* result = nullptr;
  bool wanted = true;          // results
};

struct Input {
  bool present = false;
  uint32_t array = 0;
  std::vector<Ex> elements;
};

// Floats that arithmetic widens to f32: one rounding is left, where the result is stored.
constexpr bool is_small_float(DType t) { return is_float(t) && bits_of(t) < 32; }

// What kernels see of an element: strings are numbers of texts there (texts.h).
constexpr DType in_memory(DType t) { return t == DType::Str ? DType::U64 : t; }

// "x", "xs[2]"
std::string item_name(const Param& param, size_t item);
// "axis 1 of x"
std::string axis_of(size_t axis, const std::string& param);

class Expander {
 public:
  static constexpr size_t kLeastSteps = size_t{1} << 24;  // seconds; more for a call with many numbers in its attributes
  // Of an expression whose value is not known while building: it becomes part of the program, and what comes behind is slower
  // than this. The built-in texts take less than two thousand of them for a call.
  static constexpr size_t kStepsOfOpen = 64;
  static constexpr size_t kStepsPerNumber = 32;
  static constexpr size_t kNumbersPerStep = 16;  // where plain numbers are worked on side by side
  Expander(const Module& module, ir::Context& ctx, nest::Function& function, const Call& call, const OpDef& op);

  // Throws Failure. `Applies::No` only where `when`, a type class or a rank says so before any statement was emitted;
  // the reason is in `why_not`.
  enum class Applies : uint8_t { Yes, No };
  Applies run();
  Status why_not;
  std::vector<Value> outputs() const;
  // Did the definition get past the checks of its header and its `when` clauses?
  bool committed() const { return committed_; }

  // For expand_math: evaluates a function of the module on scalars.
  static Ex evaluate_fn(const Module& module, ir::Context& ctx, const FnDef& fn, const std::vector<Ex>& args);

 private:
  friend struct ScopedDims;
  friend struct ScopedFrame;
  friend struct ScopedConditions;
  friend struct ScopedExpansion;
  friend class BuiltinCall;

  // --- messages
  const std::string& domain() const;                      // in which functions are looked up
  // For who writes definitions; the user of one that is built in learns only that it does not cover the node.
  [[noreturn]] void fail_here(Pos pos, std::string message) const;
  // For everybody: `message` is about what the node was given.
  [[noreturn]] void fail_call(Pos pos, std::string message) const;
  [[noreturn]] void mismatch(std::string message) const;  // the call does not fit this definition
  [[noreturn]] void wrong_rank(const std::string& what, size_t rank, size_t expected, bool or_more) const;
  Status refusal(const std::string& message) const;
  std::vector<std::string> inputs_shown() const;
  std::string sides_of(const Node* compare);
  static std::string shown(Ex e);                         // cut where it would fill pages: extents of long chains do
  std::string where() const;                              // "Conv_12 (ai.onnx.Conv, opset 11)"

  // --- bind_types.cpp, bind.cpp, bind_broadcasts.cpp
  void collect_inputs();
  void bind_types();
  void bind_type(const std::string& element, DType actual, const std::string& what);
  DType element_type(const std::string& element, Pos pos) const;
  bool class_admits(const std::string& cls, DType t) const;
  void bind_dims();
  void bind_given_dims();
  bool bind_param_ranks(const Param& param, const std::vector<Ex>& shape, size_t item);
  struct Given { const Param* param; size_t item; const std::vector<Ex>* shape; };
  std::vector<Given> given_shapes();
  void bind_outer_dims(const Given& g);
  void bind_axes(const Param& param, const std::vector<Ex>& shape, size_t item, size_t from, size_t to, size_t at);
  struct Group {  // the axes of an input that broadcast
    std::string name;
    std::vector<const DimSpec*> dims;
    std::vector<Ex> actual;
    size_t first;
  };
  void bind_broadcasts();
  Group broadcast_group(const Param& param, size_t item, const std::vector<Ex>& shape);
  void widen_pack(const Group& g);
  void check_broadcast(const Group& g);
  void bind_extent(const std::string& dim, size_t index, Ex extent, const std::string& origin);
  Ex unify(Ex a, Ex b, const std::string& what, const std::string& origin_a, const std::string& origin_b);
  // Two extents that broadcast, symmetrically; what both together are.
  Ex broadcast(Ex a, Ex b, const std::string& what, const std::string& origin_a, const std::string& origin_b);
  // An axis of extent `actual` that broadcasts to `full`; answers `full`, or its value where the two tell it. Sets `step`
  // if only the run tells whether it does.
  Ex broadcast_to(Ex full, Ex actual, const std::string& what, const std::string& origin_full, const std::string& origin_actual,
                  Ex* step = nullptr);
  Ex known_equal(Ex a, Ex b) const;                        // one for both if a check says that they are; else null
  void require(Ex condition, const std::string& message);  // proved, or refuted (Failure), or a run-time check
  void solve_products(bool final);
  std::optional<size_t> rank_of_pack(const std::string& name);
  DimInfo& dim_info(const std::string& name) { return dims_[name]; }
  std::vector<Ex> extents_of(const std::string& name, Pos pos);  // of a dim or pack
  std::vector<Slot> slots_of(const TypeSpec& type, Pos pos, std::optional<size_t> item = {});
  void make_param_arrays();
  std::optional<int64_t> axis_value(const std::string& name, size_t rank, const std::string& what);

  // --- attributes.cpp
  void bind_attributes();
  ExprValue attribute(const AttrDecl& decl);
  ExprValue attribute_value(const AttrDecl& decl, const Attribute& value);
  ExprValue shape_list(const AttrDecl& decl, ExprValue flat);
  bool has_attribute(const AttrDecl& decl) const;

  // --- eval.cpp, operations.cpp
  ExprValue eval(const Node* n);
  ExprValue eval_node(const Node* n);
  // Of what expanding a definition may take: comprehensions nest, functions call functions twice, and what lists run over
  // comes from the file.
  void spend(size_t steps);
  ExprValue eval_name(const Node* n);
  ExprValue eval_bits(const Node* n);         // SatCast, BitCast
  ExprValue eval_let(const std::string& name);
  ExprValue eval_extent(const Node* n);
  ExprValue eval_compare(const Node* n);
  ExprValue eval_condition(const Node* n);   // Cond
  ExprValue eval_match(const Node* n);
  ExprValue eval_index(const Node* n);
  ExprValue eval_comprehension(const Node* n, const ExprValue* neutral);
  ExprValue index_list(const ExprValue& list, const ExprValue& at, Pos pos);
  ExprValue binary(const std::string& op, const ExprValue& a, const ExprValue& b, Pos pos);
  ExprValue compare(const std::string& op, const ExprValue& a, const ExprValue& b, Pos pos);
  ExprValue logic(bool is_and, const ExprValue& a, const ExprValue& b, Pos pos);
  ExprValue negate(const ExprValue& a, Pos pos);
  ExprValue choose(const ExprValue& c, const ExprValue& a, const ExprValue& b, Pos pos);
  ExprValue lift(const std::vector<ExprValue>& args, Pos pos, const std::function<ExprValue(const std::vector<ExprValue>&)>& f);
  // Brings scalars to one type; answers it, with `soft` and `rounds_to` of the result. What only chooses or compares leaves
  // small floats as they are, arithmetic widens them.
  enum class Meeting : uint8_t { Choice, Arithmetic };
  DType meet(ExprValue& a, ExprValue& b, Pos pos, Meeting meeting = Meeting::Choice);
  DType meet_all(std::vector<ExprValue>& vals, Pos pos, Meeting meeting = Meeting::Choice);
  // The element type of several, and what it rounds to.
  struct ElementType { DType type = DType::None, rounds_to = DType::None; };
  static std::optional<ElementType> common_type(ElementType a, ElementType b);
  ExprValue widened(const ExprValue& v);
  Ex adapted(const ExprValue& v, ElementType to, Pos pos);  // adapt, of what may widen
  Ex adapt(const ExprValue& v, DType to, Pos pos);         // soft to a type; hard must have it
  Ex special_number(ExprValue::Special special, DType t, Pos pos);
  std::optional<bool> settle(Ex condition);          // by constants and intervals under the conditions in force
  bool truth(const ExprValue& v, Pos pos, const char* what);  // must be settled
  Ex as_bool(const ExprValue& v, Pos pos);
  Ex conjunction(const ExprValue& v, Pos pos);             // a list: all of it
  Ex as_index(const ExprValue& v, Pos pos);                // an i64 expression
  int64_t as_number(const ExprValue& v, Pos pos, const char* what);
  std::vector<ExprValue> as_list(const ExprValue& v);
  Ex negated(Ex condition);
  bool has_dim(Ex e);
  bool build_time(const Node* n);
  static ExprValue scalar(Ex e, bool soft, DType rounds_to = DType::None);
  static ExprValue list(std::vector<ExprValue> items);
  static ExprValue list(Numbers numbers);
  ExprValue item(const ExprValue& list, size_t k);
  std::optional<ExprValue> on_numbers(ir::Op op, const ExprValue& a, const ExprValue& b);
  ExprValue table_of(const Numbers& numbers, const ExprValue& at, Ex index);
  ExprValue soft_int(int64_t v) { return scalar(ctx_.integer(v), true); }
  ExprValue soft_list(const std::vector<Ex>& es);
  ExprValue cast(DType to, const ExprValue& v, Pos pos);
  Ex stored(const ExprValue& v, const ArrayInfo& array, Pos pos);  // as an element of the array

  // --- access.cpp
  ArrayInfo* find_array(const std::string& name);   // null: no such array, or not read yet
  const ExprValue* find_local(const std::string& name) const;
  bool in_function() const;                          // op-level names are hidden
  ExprValue read(ArrayInfo& array, const std::vector<const Node*>& index, size_t first, Pos pos);
  ExprValue read_default(const ArrayInfo& array, const std::vector<const Node*>& index, size_t first, Pos pos);
  std::optional<ExprValue> read_numbers(const ArrayInfo& array, const std::vector<const Node*>& index, size_t first, Pos pos);
  void match_declared_dims(ArrayInfo& array, Pos pos);
  struct IndexItems {
    std::vector<ExprValue> items;
    std::vector<bool> product;
    std::optional<size_t> star;  // the place of '*'
  };
  IndexItems index_items(const std::vector<const Node*>& index, size_t first);
  std::vector<Ex> resolve_index(ArrayInfo& array, const std::vector<ExprValue>& items, const std::vector<bool>& product,
                                Pos pos, ir::Access* access);
  ExprValue load(ArrayInfo& array, const std::vector<Ex>& index, ir::Access access);
  ir::Access prove_access(Ex index, const ExprValue* from, Ex extent);
  ExprValue element(const ArrayInfo& array, size_t k);
  std::vector<const ir::Sym*> read_back(uint32_t array, size_t count);
  Ex computed(Ex value, const std::string& name);
  const std::vector<Ex>& known_elements(uint32_t array) const;
  std::optional<size_t> const_extent(Ex e) const;
  void mark_safe(Ex index, Ex extent) { safe_.insert({index, extent}); }
  std::optional<size_t> linear_const_index(const std::vector<Ex>& shape, const std::vector<Ex>& index) const;

  // --- functions.cpp
  ExprValue call(const Node* n);
  ExprValue call_fn(const FnDef& fn, std::vector<ExprValue> args, Pos pos);
  std::optional<ExprValue> call_builtin(const Node* n);   // builtins.cpp
  std::optional<ExprValue> call_scalar_function(const std::string& name, const std::vector<ExprValue>& args, Pos pos);
  std::optional<ExprValue> call_of_one(const std::string& name, const std::vector<ExprValue>& args, Pos pos);
  std::optional<ExprValue> call_of_two(const std::string& name, const std::vector<ExprValue>& args, Pos pos);
  std::optional<ExprValue> call_of_three(const std::string& name, const std::vector<ExprValue>& args, Pos pos);
  ExprValue real_argument(const std::string& name, const ExprValue& v, Pos pos);
  Ex quotient_up(Ex a, Ex b, Pos pos);
  Ex power(Ex x, Ex exponent);
  ExprValue flat(const std::vector<ExprValue>& index, const std::vector<ExprValue>& extents, Pos pos);
  ExprValue unflat(const ExprValue& place, const std::vector<ExprValue>& extents, Pos pos);
  ExprValue exact_quotient(const ExprValue& a, const ExprValue& b);
  bool agree(Ex a, Ex b);
  std::vector<DimInfo::Ref> dim_refs(const Node* n);

  // --- folds.cpp
  ExprValue fold(const Node* n);
  bool folds_numbers(const Node* n);                // a fold over elements of `sym` inputs: a number of the build
  std::optional<ExprValue> fold_of_numbers(const Node* n);
  const ir::Combiner* combiner_for(const CombinerDef& def, const std::vector<ExprValue>& args, std::vector<ElementType>& types, Pos pos);
  struct Joining { const ir::Combiner* combiner = nullptr; bool rounds = false; };  // rounds: a join computes in f32
  Joining join_texts(const CombinerDef& def, const std::vector<DType>& types);
  const ir::Combiner* named_combiner(const std::string& name);
  Ex where_of(const Node* n);                       // simplified; null: always
  Ex unit_of(const ir::Combiner& c, size_t k, DType t);
  Ex join_of(const ir::Combiner& c, size_t k, const std::vector<Ex>& accumulators, const std::vector<Ex>& values);
  ExprValue fold_in_proc(const ir::Combiner* c, const std::vector<const ir::Dim*>& dims, Ex where, std::vector<Ex> bodies);

  // --- statements.cpp
  void execute(const Stmt& s);
  void let_clause(const Stmt& s);
  void dim_clause(const Stmt& s);
  void set_dim(const std::string& name, const ExprValue& v, Pos pos);
  void map_statement(const Stmt& s);
  void push_statement(const Stmt& s);
  void each_statement(const Stmt& s);
  void graph_statement(const Stmt& s);
  void bind_temporary(const Target& t, const Value& value, const std::string& what);
  Value whole_array(const std::string& name, Pos pos);
  void emit(nest::Nest n);
  uint32_t scanned(DType wide, const ArrayInfo& array, const std::vector<Ex>& index, const std::vector<const ir::Dim*>& dims,
                   std::vector<nest::Nest>& rounded);
  std::vector<std::string> dims_in(const std::vector<const Node*>& index);
  ArrayInfo* target_array(const Target& t, ElementType of_temporary, const std::vector<Slot>& slots);
  std::vector<Ex> target_index(const Target& t, std::vector<Slot>* slots_of_temporary);
  void record_region(ArrayInfo& array, const std::vector<Ex>& index, Pos pos);
  void check_coverage();
  void declare_result(ArrayInfo& array, std::optional<size_t> item = {});
  bool wanted(const Target& t);
  uint32_t new_array(const std::string& name, DType dtype, std::vector<Ex> shape);
  uint32_t new_table(DType dtype, const Numbers& numbers);

  // --- procs.cpp
  void proc_statement(const Stmt& s);
  void cut_to_yields(nest::Statement statement);
  void proc_block(const std::vector<Stmt>& body, std::vector<loop::StmtPtr>& out);
  void proc_one(const Stmt& s);
  void proc_let(const Stmt& s);
  void proc_var(const Stmt& s);
  void proc_assign(const Stmt& s);
  void proc_for_dims(const Stmt& s);
  void proc_for_range(const Stmt& s);
  void proc_while(const Stmt& s);
  void proc_if(const Stmt& s);
  void proc_alloc(const Stmt& s);
  void alloc_statement(const Stmt& s);
  ArrayInfo allocated(const Stmt& s);
  void proc_store(const Stmt& s);
  void proc_yield(const Stmt& s);
  ExprValue proc_number(const Node* n);
  Ex named(Ex value, std::vector<loop::StmtPtr>& at);
  Ex in_order(Ex value, std::vector<loop::StmtPtr>& at);
  bool stable(Ex e) const;

  // --- elements.cpp
  void fold_elements(const nest::Nest& n);

  ir::Context& ctx_;
  const Module& module_;
  nest::Function& function_;
  const Call& call_;
  const OpDef& op_;
  bool committed_ = false;

  std::map<std::string, DType> types_;            // type variables
  std::vector<std::vector<Input>> inputs_;        // per parameter, its items
  std::map<std::string, DimInfo> dims_;
  std::map<std::string, size_t> pack_ranks_;
  struct PendingProduct { std::vector<std::string> factors; Ex extent; std::string what; };
  std::vector<PendingProduct> products_;
  std::map<std::string, const Node*> rank_clauses_;
  std::set<std::string> clause_dims_;             // set by `dim`, `dims`, `exists`: not inferred by broadcasting
  std::map<std::string, const Attribute*> attributes_;
  std::map<std::string, ExprValue> tensor_attributes_, attribute_lists_;

  std::map<std::string, std::vector<ArrayInfo>> arrays_;  // by name; several for `many`
  mutable std::map<uint32_t, std::vector<Ex>> elements_;          // of arrays of the function
  std::map<uint32_t, std::vector<Ex>> partial_;           // being filled in by several statements: null where unknown

  struct LetInfo {
    const Node* value = nullptr;
    bool ready = false;
    int part = -1;                                // of a tuple
    uint64_t version = 0;
    std::optional<ExprValue> cached;
  };
  std::map<std::string, LetInfo> lets_;
  struct Frame {
    std::map<std::string, ExprValue> names;
    std::map<std::string, ArrayInfo*> arrays;     // items of a `many` parameter
    bool barrier = false;                         // names below are not visible: the body of a function
    const std::string* domain = nullptr;          // of the function whose body this is
  };
  std::vector<Frame> frames_;
  std::map<std::string, std::vector<Ex>> bound_;  // running indices of dims, per element; null: not bound
  std::vector<Ex> conditions_;                    // hold where the expression is evaluated
  uint64_t version_ = 0, next_version_ = 1;       // of bound_ and conditions_
  std::vector<std::string> number_dims_;          // dims of the folds of numbers that build_time() is in
  std::set<Ex> run_time_numbers_;                 // loads that stand for elements of `sym` inputs
  std::set<std::pair<Ex, Ex>> safe_;              // (index, extent): in range by construction
  int depth_ = 0;
  const FnDef* expanding_ = nullptr;              // the function that the definition itself calls
  size_t most_steps_ = kLeastSteps, steps_left_ = kLeastSteps;
  std::optional<size_t> item_;                    // `for each`: the item
  std::string item_param_;
  std::map<std::string, Ex> before_;              // `before(n)` at this item
  std::map<std::pair<std::string, std::vector<DType>>, Joining> joinings_;
  std::unordered_map<Ex, bool> has_dim_;

  struct Region { std::vector<Ex> offset, extent; Pos pos; };
  std::map<std::string, std::vector<Region>> regions_;
  bool any_proc_ = false;

  // Of the proc being built.
  nest::Proc* proc_ = nullptr;
  std::vector<std::vector<loop::StmtPtr>*> blocks_;
  std::set<std::string> proc_writes_;  // arrays that procs have stored to
  std::set<std::string> stored_here_;  // those of the proc under construction
  std::set<Ex> variables_;  // of `var`: their values change
  // Extents known only after the run. The blocks that yield them write them to `counts_`, in the order of the clauses.
  struct Existential {
    const ir::Sym* sym = nullptr;
    Ex bound = nullptr;
    bool yielded = false;
  };
  std::map<std::string, Existential> existential_;
  std::vector<std::string> existential_order_;
  uint32_t counts_ = nest::kNoArray;
};

}  // namespace mlc::lang
