// Private to the expansion: one graph (the model's, or the body of a control) expanded into one function. The operators
// that texts cannot say, those of control flow and of lists, are here; everything else is a call of the library.
//   graph_expander.cpp   values by name, values of the graph around, calls of the library
//   control.cpp          If, Loop, Scan, SequenceMap
//   squeeze.cpp          the axes of Squeeze where the file does not name them
//   loop_build.cpp       the shapes that a loop carries
//   lists.cpp            sequences and optionals
//   strings.cpp          operators on strings
//   maps.cpp             operators on maps
//   generate.cpp         a model run again and again on the token that it chose
//   services.cpp         what the application does: decoding pictures
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "packager/compile/expand.h"
#include "packager/compile/expand/emit.h"
#include "packager/compile/expand/value.h"
#include "packager/model/model.h"

namespace mlc::compile {

// Is it one of those operators?
bool is_structural(const std::string& domain, const std::string& op);
const std::set<std::string>& structural_operators();  // their names, all of ai.onnx

// What all graphs of one expansion share.
struct Expansion {
  ir::Context& ctx;
  const lang::Library& library;
  const model::Model& model;
  size_t bodies = 0;                 // functions made so far: their names are unique
  std::set<std::string> symbols;     // names given so far
  // Branches of different rank: which one is taken is settled while building and checked at run time. By label of the
  // node; true is the then-branch.
  std::map<std::string, bool> decisions = {};
  // Of these, decisions that nothing speaks for but that the rest of the graph fits: what to say where both ways fit.
  std::map<std::string, Status> guesses = {};
  // Bodies are expanded more than once: to find what a loop carries, in place for each item of a sequence, both ways of
  // a branch. Nested ones multiply, so there is an end.
  size_t nodes = 0, max_nodes = size_t{1} << 16;  // expanded so far, and at most
};

// A loop to be made: `run` expands one run into the body and answers its results.
struct LoopPlan {
  struct Run {
    Item condition;
    std::vector<Item> carried, scanned;
  };
  std::string label;
  uint32_t trips = nest::kNoArray;      // arrays of the function around
  const ir::Expr* trip_count = nullptr; // its value, where that is known
  uint32_t condition = nest::kNoArray;
  std::vector<Item> carried;
  size_t num_scanned = 0;
  std::vector<std::string> names;       // of the results: carried, then scanned; may be empty
  std::function<Result<Run>(class GraphExpander& body, const Item& iteration, const Item& condition, const std::vector<Item>& carried)> run;
};

class GraphExpander {
 public:
  using Ex = const ir::Expr*;
  // `around`: the graph whose values this one sees; of the same function where a body is expanded in place. All must
  // outlive this.
  GraphExpander(Expansion& all, nest::Function& function, GraphExpander* around = nullptr)
      : all_(all), ctx_(all.ctx), function_(function), around_(around) {}

  void bind(const std::string& name, Item value) { values_[name] = std::move(value); }
  // The tokens i64 [1, n] that the graph gives when it is run again and again. `given`: its other inputs, which do not change, and the first tokens
  // if `generation` does not say them.
  Result<Item> generate(const model::Graph& graph, const std::map<std::string, Item>& given, const Generation& generation, const std::optional<Sampling>& sampling,
                        const std::string& label);
  // Expands all nodes; results are then asked for by value_of.
  Status expand(const model::Graph& graph);
  Result<Item> value_of(const std::string& name);
  // An array or list of strings at the interface, as what it is inside; and back (the array itself if it holds none).
  uint32_t strings_in(uint32_t array);
  uint32_t strings_out(uint32_t array, const std::string& name);
  // A map has no array: its keys and its values are two (maps.cpp). Null: `name` is no map.
  const Map* map_named(const std::string& name) const;
  void bind_map(const std::string& name, Map value) { maps_[name] = value; }
  // The array, or the list of the run, that holds a value.
  Result<uint32_t> array_of(const Item& value, const std::string& source);

 private:
  friend class Structural;
  struct Decoding;  // one `generate` (generate.cpp)

  struct Capture { uint32_t outer = 0, inner = 0; };

  size_t count_readers(const model::Graph& graph);  // answers the nodes, those of bodies included
  const model::Tensor* initializer(const std::string& name) const;
  Result<Item> add_constant(const std::string& name, const model::Tensor& tensor);
  Item adopt(const Item& outer);           // a value of the function around, as one of this function
  uint32_t adopt_array(uint32_t outer);
  Status add_node(const model::Node& node);
  Status call_library(const model::Node& node);
  Status fix_lengths(const model::Node& node, lang::Call& call);  // told_lengths.cpp
  Status name_axes_of_squeeze(const model::Node& node, lang::Call& call);  // squeeze.cpp
  static std::string axes_shown(const std::vector<Ex>& shape, const std::vector<size_t>& axes);
  Result<std::vector<lang::Value>> inline_for_text(const model::Node& node, const model::Graph& body, const std::vector<lang::Value>& inputs);
  Result<std::vector<lang::Value>> call(const std::string& op, int64_t opset, std::map<std::string, lang::Attribute> attributes,
                                        const std::vector<lang::Value>& inputs, const std::string& source, const std::string& name = "");
  int64_t opset_of(const model::Node& node) const;

  // --- what is known
  std::vector<Ex> elements_of(const lang::Value& value) const;
  std::optional<int64_t> number_of(const lang::Value& value) const;  // one constant integer or truth value
  const ir::Sym* fresh_symbol(const std::string& name, int64_t lo, int64_t hi);
  std::set<const ir::Sym*> own_symbols() const;  // those that have no meaning outside of this function
  static bool is_free_of(Ex e, const std::set<const ir::Sym*>& symbols);
  ItemShape shape_of(const Item& value) const;
  std::shared_ptr<List> made_of(DType dtype, uint8_t depth, bool optional, std::vector<Item> items) const;
  std::string type_text(const Item& value) const;

  // --- structural operators: inputs are there (nullopt: absent), results go to values_
  using Inputs = std::vector<std::optional<Item>>;
  Status structural(const model::Node& node);
  struct BranchBuild;  // one If (branch_build.cpp)
  Status add_if(const model::Node& node, const Inputs& in);
  Status add_loop(const model::Node& node, const Inputs& in);
  Item as_declared(const model::Port& port, Item scalar);
  Status add_scan(const model::Node& node, const Inputs& in);
  Status add_scan8(const model::Node& node, const Inputs& in);
  Status add_sequence_map(const model::Node& node, const Inputs& in);
  struct ListCall;  // one node (lists.cpp)
  Status add_list_operator(const model::Node& node, const Inputs& in);
  Status split_to_sequence(const model::Node& node, const Inputs& in);
  Status concat_from_sequence(const model::Node& node, const Inputs& in);
  Result<Item> list_at(const List& list, uint32_t position, const std::string& source, const std::string& name, const model::Port* hint);
  Result<uint32_t> position_array(const Item& position, const std::string& source);
  Result<std::vector<Item>> inline_body(const model::Graph& body, const std::vector<Item>& inputs, const std::string& source);
  struct LoopBuild;  // one loop (loop_build.cpp)
  Result<std::vector<Item>> build_loop(const LoopPlan& plan);
  struct ScanShape;
  Result<std::vector<Item>> scan_loop(const model::Node& node, const model::Graph& body, std::vector<Item> states, const std::vector<Item>& inputs,
                                      const ScanShape& shape, uint32_t trips, Ex trip_count);

  // --- strings (strings.cpp)
  struct StringCall;  // one node
  bool touches_strings(const model::Node& node);
  Status add_string_operator(const model::Node& node);
  Status add_map_operator(const model::Node& node);
  Result<Item> string_constant(const std::string& name, const std::vector<int64_t>& shape, const std::vector<std::string>& texts);

  // --- maps (maps.cpp)
  struct MapCall;  // one node

  Status add_tokenizer(const model::Node& node, const Item& texts);  // tokens.cpp
  // Any element as a string, and back (Cast).
  Result<uint32_t> text_of_numbers(uint32_t from, const std::string& source, const std::string& name);
  Result<uint32_t> numbers_of_text(uint32_t from, DType to, const std::string& source, const std::string& name);
  // An operator of a text of any domain; answers its first result.
  Result<uint32_t> text_call(const std::string& domain, const std::string& op, int64_t opset, const std::vector<uint32_t>& inputs,
                             std::map<std::string, lang::Attribute> attributes, const std::string& source, const std::string& name);
  // Where numbers or texts stand among keys, -1 where they do not; of equal keys at the last.
  Result<uint32_t> places_among(uint32_t wanted, uint32_t keys, const std::string& source);
  Status add_host_operator(const model::Node& node);  // services.cpp

  Status refuse(const model::Node& node, const std::string& what) const;
  Result<const model::Graph*> body_of(const model::Node& node, const std::string& name) const;
  Result<Item> tensor_input(const model::Node& node, const Inputs& in, size_t k) const;
  Result<Item> list_input(const model::Node& node, const Inputs& in, size_t k) const;
  void give(const model::Node& node, size_t output, Item value);
  bool wanted(const model::Node& node, size_t output) const;
  const model::Port* hint(const std::string& name) const;
  // The same arguments for all bodies, in one order; `first` inputs of a body come before them.
  static std::vector<uint32_t> share_arguments(std::vector<GraphExpander*> bodies);

  Expansion& all_;
  ir::Context& ctx_;
  nest::Function& function_;
  GraphExpander* around_;
  const model::Graph* graph_ = nullptr;
  std::unordered_map<std::string, Item> values_;
  std::unordered_map<std::string, Map> maps_;  // of the model's graph only: no operator of a body gives or takes them
  std::unordered_map<std::string, size_t> readers_;
  std::vector<Capture> captures_;
  std::unordered_map<uint32_t, uint32_t> adopted_;  // arrays of the function around by number
  std::set<const ir::Sym*> fresh_;
};

// Operators that no text defines because they make, take or compare strings; or give or take maps.
bool is_string_operator(const std::string& domain, const std::string& op);
bool is_map_operator(const std::string& domain, const std::string& op);
// Strings are u64 numbers from here on, but at the interface (nest.h: StringsIn); in all bodies too.
void numbers_for_strings(nest::Function& function);

// Operators that a service of the application does, in this version of them.
bool is_host_operator(const std::string& domain, const std::string& op, int64_t opset);

// Attributes of structural operators.
int64_t int_attribute(const model::Node& node, const std::string& name, int64_t fallback);
std::vector<int64_t> ints_attribute(const model::Node& node, const std::string& name);

}  // namespace mlc::compile
