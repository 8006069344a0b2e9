// Syntax trees of the operator language. Plain structs in one arena (Module); names stay text, as a definition is
// evaluated once per call and never compiled. Depth is bounded by the parser, so walking a tree may recurse.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "packager/loop/loop.h"

namespace mlc::lang {

struct Pos {
  int line = 0, column = 0;           // from 1
  const std::string* file = nullptr;  // its name, which the module holds
};

enum class NodeKind : uint8_t {
  Number,     // integer or real
  String,     // "text"
  Name,       // text
  Extent,     // |text|
  Neg, Not,   // kids[0]
  Binary,     // text is + - * / // %
  Compare,    // kids[0] ops[0] kids[1] ops[1] kids[2] ...
  And, Or,    // two kids
  Cond,       // c ? a : b
  Let,        // names[i] = kids[i], then the body as last kid
  Match,      // kids[0] matched against names[i] => kids[i + 1]
  Tuple, List,
  Comprehension,  // kids[0] for text in kids[1] [.. kids[2] if has_range] [if the last kid]
  Call,       // text(kids...)
  SatCast,    // sat<text>(kids[0])
  BitCast,    // bitcast<text>(kids[0])
  WideCast,   // wide<text>(kids[0])
  Index,      // kids[0][kids[1..]]
  Star,       // * inside an index
  Member,     // kids[0].text
  Fold,       // text(kids... for names where `where`); also scan
};

struct Node {
  NodeKind kind = NodeKind::Number;
  Pos pos;
  int depth = 1;
  std::string text;
  std::vector<const Node*> kids;
  std::vector<std::string> names;
  std::vector<std::string> ops;    // Compare
  bool is_real = false;            // Number
  int64_t integer = 0;             // Number
  double real = 0;                 // Number
  bool has_range = false, has_filter = false;              // Comprehension
  bool scan = false;                                       // Fold
  const Node* where = nullptr;                             // Fold
  const Node* exclusive = nullptr; const Node* reverse = nullptr;  // Fold with `scan`
};

// One entry of a type: x: T[n, (g, c), ~d..., r@axis, i..., 4]
struct DimSpec {
  enum class Kind : uint8_t { Dim, Pack, Product, Literal } kind = Kind::Dim;
  std::string name;
  std::vector<std::string> factors;  // Product, outer first
  int64_t literal = 0;
  bool broadcast = false;
  std::string axis;                  // name of the attribute or const input after @
  Pos pos;
};

struct TypeSpec {
  std::string element;  // a dtype name or a type variable
  std::vector<DimSpec> dims;
};

enum class ParamMode : uint8_t { Array, Sym, Const };

struct Param {
  std::string name;
  Pos pos;
  ParamMode mode = ParamMode::Array;
  TypeSpec type;
  bool optional = false, many = false;
  const Node* fallback = nullptr;
};

struct AttrDecl {
  std::string name;
  Pos pos;
  enum class Kind : uint8_t { Int, Float, String, Type, Tensor, Enum, Graph } kind = Kind::Int;
  std::vector<std::string> enumerators;
  bool list = false;
  std::vector<const Node*> shape;  // of a list: numbers and names of dims or packs; outer first
  std::string type_variable;       // Type, Tensor: bound to the value's element type
  bool optional = false;           // `?`: may be absent without a default
  const Node* fallback = nullptr;
};

struct Target {
  std::string array;
  std::vector<const Node*> index;
  Pos pos;
};

enum class StmtKind : uint8_t {
  Let,     // names = value (several names: a tuple)
  Dim,     // names[0] = value
  Dims,    // names[0]... = value: pack of existing dims
  Rank,    // names[0] = value
  Exists,  // names[0] <= value
  Check, When,
  Use,     // the clauses `text`, put here before anything is checked
  Map,     // targets = value
  Push,    // targets[0] <- value for names by `by`
  Each,    // targets[0] = value for each text
  Graph,   // targets = graph text(names)
  // Procs; For and below only inside.
  Proc,    // for names { body }
  ForDims, ForRange, While, If, Var, Assign, Store, Alloc, Yield,
};

struct Stmt {
  StmtKind kind = StmtKind::Let;
  Pos pos;
  std::vector<std::string> names;
  std::vector<Target> targets;  // also Store
  const Node* value = nullptr;  // also the condition of While and If, the first number of ForRange
  const Node* bound = nullptr;  // While: bound; ForRange: one past the last number
  const Node* by = nullptr;     // Push
  std::string text;             // Each: the parameter; Check: what is wrong if it fails; Use: the clauses
  size_t attrs_above = 0;       // how many attributes stand above it
  std::string source;           // Check: the condition as written
  TypeSpec type;                // Alloc
  bool wide = false;            // Alloc: of small floats, elements as arithmetic makes them
  std::vector<Stmt> body, orelse;
};

struct TypeVariable {
  std::string name;
  std::vector<std::string> classes;  // class or dtype names; any of them
  std::string fallback;              // what it is if no input says it: an earlier variable, or a dtype name; may be empty
};

struct ResultDecl {
  std::string name;
  Pos pos;
  TypeSpec type;
  bool optional = false, many = false;
};

// What stands below the header of a definition; or a block of it that definitions share by its name.
struct Clauses {
  std::string domain, name, text;
  Pos pos;
  std::vector<AttrDecl> attrs;
  std::vector<Stmt> body;  // clauses and statements in order, attributes taken out

  const AttrDecl* attr(std::string_view n) const {
    for (const auto& a : attrs) if (a.name == n) return &a;
    return nullptr;
  }
};

struct OpDef : Clauses {
  std::string file;
  int64_t since = 1;
  std::vector<TypeVariable> type_variables;
  std::vector<Param> params;
  std::vector<ResultDecl> results;

  const Param* param(std::string_view n) const {
    for (const auto& p : params) if (p.name == n) return &p;
    return nullptr;
  }
  const ResultDecl* result(std::string_view n) const {
    for (const auto& r : results) if (r.name == n) return &r;
    return nullptr;
  }
};

struct FnDef {
  std::string domain, name;
  Pos pos;
  std::vector<std::string> params;
  const Node* body = nullptr;
};

struct CombinerDef {
  std::string domain, name;
  Pos pos;
  std::vector<TypeVariable> type_variables;
  std::vector<std::pair<std::string, std::string>> fields;  // name, element type
  bool ordered = false;  // not commutative: never split
  std::vector<const Node*> units, joins;  // one per field (joins: one Tuple-valued expression)
  std::string left, right;
};

class Embedded;

// Everything parsed from a set of files. Nodes live as long as the module.
struct Module {
  Module();
  ~Module();

  std::deque<std::string> files;  // their names, in the order in which they were read
  std::deque<Node> nodes;
  std::deque<OpDef> ops;
  // Functions and combiners belong to a domain, written "domain:name"; those of ai.onnx are seen by all.
  std::map<std::string, FnDef> fns;
  std::map<std::string, CombinerDef> combiners;
  std::map<std::string, std::vector<Clauses>> clauses;  // by name, in the order of the files
  // The definitions before all of these, which are parsed when they are asked for (embedded.h); null: there are none.
  std::unique_ptr<const Embedded> embedded;

  const FnDef* fn(const std::string& domain, const std::string& name) const;
  const CombinerDef* combiner(const std::string& domain, const std::string& name) const;
};

// "ops/pool.mlop:12:5: message"
Status error_at(Pos pos, std::string message);

// How parser and evaluator unwind inside this library; the public functions turn it into its Status.
struct Failure {
  Status status;
  std::string file = {};  // of the definition that says no more than that it does not cover the case; else empty
  int line = 0;
  std::string reason = {};  // why, if that can be told in the words of a model
  bool is_other_case = false;  // the definition is one for inputs of other ranks
};
[[noreturn]] void fail(Status status);
[[noreturn]] void fail_at(Pos pos, std::string message);

}  // namespace mlc::lang
