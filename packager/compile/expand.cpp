#include "packager/compile/expand.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/checked.h"
#include "base/counted.h"
#include "base/problems.h"
#include "base/text/nearest_name.h"
#include "packager/compile/expand/graph_expander.h"
#include "packager/nest/text/names.h"
#include "schema/format.h"

namespace mlc::compile {
namespace {

constexpr size_t kMaxPortName = format::kMaxNameLen - 24;  // what free extents add: ".7"

using model::Node;

int64_t opset_of(const model::Model& model, const Node& node) {
  if (node.opset) return node.opset;
  auto found = model.opsets.find(node.domain);
  return found == model.opsets.end() ? 1 : found->second;
}

constexpr size_t kMaxDecisions = 16;

// The interface of a model around the expansion of its graph.
class Expander {
 public:
  using Decisions = std::map<std::string, bool>;
  Expander(ir::Context& ctx, const lang::Library& library, const model::Model& model, nest::Function& function, Decisions decisions = {})
      : ctx_(ctx), model_(model), function_(function), all_{ctx, library, model}, graph_(all_, function) {
    all_.decisions = std::move(decisions);
  }
  const Decisions& decisions() const { return all_.decisions; }
  const std::map<std::string, Status>& guesses() const { return all_.guesses; }

  // Whether the results have the ranks that the file declares. It may be wrong about them, so that only ways to build it are compared by it.
  bool ranks_as_declared() const {
    for (size_t k = 0; k < function_.outputs.size() && model_.graph.outputs.size() == function_.outputs.size(); ++k) {
      const model::Port& said = model_.graph.outputs[k];
      if (said.has_shape && !said.list_depth && said.shape.size() != function_.arrays[function_.outputs[k]].shape.size()) return false;
    }
    return true;
  }

  // Free-standing: the function gets the graph's inputs and outputs as its interface.
  Status expand_whole() {
    for (const auto* ports : {&model_.graph.inputs, &model_.graph.outputs}) {
      std::set<std::string> names;
      for (const model::Port& port : *ports)
        for (const std::string& name : names_of(port))
          if (!names.insert(name).second) return Status(Code::Malformed, "'" + name + "' is there twice, once as part of a map");
    }
    if (model_.graph.outputs.empty()) return Status(Code::Malformed, 1012, "the model has no output").hint("name what it shall give as an output of the graph");
    MLC_RETURN_IF_ERROR(add_inputs());
    MLC_ASSIGN(const auto results, expand_nodes());
    for (const model::Port& port : model_.graph.outputs)
      for (const std::string& name : names_of(port)) {
        nest::Array& array = function_.arrays[results.at(name).array];
        MLC_RETURN_IF_ERROR(rank_fits("output", name, array.shape.size()));
        if (!port.list_depth && port.map_key == DType::None && port.dtype != DType::None && port.dtype != array.dtype)
          return Status(Code::Malformed, 1012, "output '" + name + "' is declared as " + std::string(name_of(port.dtype)) + ", the graph gives " +
                                                   std::string(name_of(array.dtype)));
        function_.outputs.push_back(results.at(name).array);
        if (array.kind == nest::Array::Kind::Temp) array.name = name;
      }
    nest::interface_names_first(function_);
    return sizes_fit();
  }

  // Whether the model takes these, each by its name and type.
  Status check_all_given(const std::map<std::string, lang::Value>& inputs) const {
    Status problems;
    for (const auto& [name, value] : inputs) add_problem(problems, check_given(name, function_.arrays[value.array]));
    return problems;
  }

  Result<std::map<std::string, lang::Value>> expand_within(const std::string& scope, const std::map<std::string, lang::Value>& inputs,
                                                           const std::vector<std::string>& wanted) {
    Status problems = check_all_given(inputs);
    for (const model::Port& port : model_.graph.inputs)
      if (!inputs.count(port.name)) add_problem(problems, mismatch("needs input '" + port.name + "', which the pipeline does not give"));
    std::vector<std::string> outputs;
    for (const model::Port& port : model_.graph.outputs)
      for (const std::string& name : names_of(port)) outputs.push_back(name);
    for (const std::string& name : wanted)
      if (std::find(outputs.begin(), outputs.end(), name) == outputs.end()) add_problem(problems, unknown_port("output", name, outputs));
    if (!problems.ok()) return problems;
    for (const auto& [name, value] : inputs) {
      name_extents(scope, *input_named(name), function_.arrays[value.array]);
      graph_.bind(name, {value, nullptr});
    }
    return expand_nodes();
  }

 private:
  static Status rank_fits(const char* what, const std::string& name, size_t rank) {
    if (rank <= format::kMaxRank) return ok();
    return Status(Code::Unsupported, 2011, std::string(what) + " '" + name + "' has " + counted(rank, "axis", "axes") + ", inputs and outputs may have " +
                                               std::to_string(format::kMaxRank));
  }

  // "conv1 (Conv): ", of the first statement that has to do with an array; empty if none has.
  std::string place_of(size_t array) const {
    for (const nest::Statement& s : function_.body) {
      if (!s.nest) continue;
      bool found = false;
      for (const nest::Write& w : s.nest->writes) {
        found = found || w.array == array;
        ir::walk(w.value, [&](const ir::Expr* e) { found = found || (e->op == ir::Op::Load && e->array == array); });
      }
      if (found) return s.source + ": ";
    }
    return "";
  }

  // Extents that are known, and the bytes they make, must fit 64 bits: the run could only refuse them.
  Status sizes_fit() const {
    const auto none = [](const ir::Sym*) -> std::optional<int64_t> { return std::nullopt; };
    for (size_t id = 0; id < function_.arrays.size(); ++id) {
      const nest::Array& array = function_.arrays[id];
      uint64_t bytes = std::max(1u, bytes_of(array.dtype));
      for (const ir::Expr* extent : array.shape) {
        bool constant = true;  // an overflow stays as it is written
        ir::walk(extent, [&](const ir::Expr* e) { constant = constant && (e->args.empty() ? e->is_const() : e->op != ir::Op::Load); });
        if (!constant) continue;
        const auto value = ir::evaluate_extent(extent, none);
        if (!value) return Status(Code::Malformed, 1015, place_of(id) + "the extent " + ir::to_string(extent) + " of '" + array.name + "' overflows 64 bits");
        const auto more = checked_mul(bytes, static_cast<uint64_t>(std::max<int64_t>(*value, 1)));
        if (!more || *more > INT64_MAX) return Status(Code::Malformed, 1015, place_of(id) + "the bytes of '" + array.name + "' overflow 64 bits");
        bytes = *more;
      }
    }
    return ok();
  }

  const model::Port* input_named(const std::string& name) const {
    const auto port = std::find_if(model_.graph.inputs.begin(), model_.graph.inputs.end(), [&](const model::Port& p) { return p.name == name; });
    return port == model_.graph.inputs.end() ? nullptr : &*port;
  }

  // Whether an input of that name takes this array.
  Status check_given(const std::string& name, const nest::Array& array) const {
    const model::Port* port = input_named(name);
    if (!port) {
      std::vector<std::string> inputs;
      for (const model::Port& p : model_.graph.inputs) inputs.push_back(p.name);
      return unknown_port("input", name, inputs);
    }
    if (port->list_depth) return mismatch("takes a list as '" + name + "', which a pipeline cannot give");
    if (port->map_key != DType::None) return mismatch("takes a map as '" + name + "', which a pipeline cannot give");
    return check_fit(*port, array);
  }

  // "the model has no input 'img', it has 'image'"; of many names the nearest is told too.
  static Status unknown_port(const char* what, const std::string& name, const std::vector<std::string>& known) {
    constexpr size_t kShown = 8;
    std::string text = std::string("has no ") + what + " '" + name + "', it has ";
    for (size_t k = 0; k < known.size() && k < kShown; ++k) text += (k ? ", '" : "'") + known[k] + "'";
    if (known.empty()) text += "none";
    if (known.size() > kShown) text += " and " + std::to_string(known.size() - kShown) + " more";
    const std::vector<std::string_view> names(known.begin(), known.end());
    if (const std::string_view near = nearest_name(name, names); known.size() > 1 && !near.empty()) text += "; did you mean '" + std::string(near) + "'?";
    return mismatch(text);
  }

  static Status mismatch(const std::string& what) { return Status(Code::Usage, 5009, "the model " + what); }

  // A free axis of the model gets a symbol of its own, whatever the caller knows of it: what follows is then the same
  // code as that of the bare model, and is emitted once.
  void name_extents(const std::string& scope, const model::Port& port, nest::Array& array) {
    for (size_t axis = 0; axis < array.shape.size() && port.has_shape; ++axis) {
      const ir::Expr*& extent = array.shape[axis];
      if (std::holds_alternative<int64_t>(port.shape[axis])) continue;
      const ir::Sym* free = free_extent(port, axis);
      const ir::Sym* sym = ctx_.declare_sym(scope + ":" + free->name, free->lo, free->hi, free->multiple);
      const auto& known = function_.definitions;
      const bool is_new = std::none_of(known.begin(), known.end(), [&](const auto& d) { return d.sym == sym; });
      if (is_new) {
        function_.definitions.push_back({sym, extent});
        bound(extent, *sym);
      }
      else function_.checks.push_back({ctx_.binary(ir::Op::Eq, ctx_.sym(sym), extent), "'" + free->name + "' must be the same everywhere in input '" + port.name + "'"});
      extent = ctx_.sym(sym);
    }
  }

  // The bounds of a symbol as checks on the value that it stands for.
  void bound(const ir::Expr* extent, const ir::Sym& sym) {
    const std::string message = "'" + sym.name + "' is outside of what the model takes";
    if (sym.lo > 0) function_.checks.push_back({ctx_.binary(ir::Op::Le, ctx_.integer(sym.lo), extent), message});
    if (sym.hi < INT64_MAX) function_.checks.push_back({ctx_.binary(ir::Op::Le, extent, ctx_.integer(sym.hi)), message});
    if (sym.multiple > 1)
      function_.checks.push_back({ctx_.binary(ir::Op::Eq, ctx_.floormod(extent, ctx_.integer(sym.multiple)), ctx_.integer(0)), message});
  }

  const ir::Sym* free_extent(const model::Port& port, size_t axis) {
    return ctx_.declare_sym(free_axis_name(port, axis));
  }

  // What is fixed in the port must be what the array has.
  Status check_fit(const model::Port& port, const nest::Array& array) const {
    std::string found = std::string(name_of(array.dtype)) + "[", expected = std::string(name_of(port.dtype)) + "[";
    bool fits = array.dtype == port.dtype && (!port.has_shape || array.shape.size() == port.shape.size());
    for (size_t axis = 0; axis < array.shape.size(); ++axis) found += (axis ? ", " : "") + ir::to_string(array.shape[axis]);
    for (size_t axis = 0; axis < port.shape.size(); ++axis) {
      const int64_t* extent = std::get_if<int64_t>(&port.shape[axis]);
      expected += (axis ? ", " : "") + (extent ? std::to_string(*extent) : std::get<std::string>(port.shape[axis]));
      if (fits && extent && array.shape[axis]->is_const() && array.shape[axis]->i != *extent) fits = false;
    }
    return fits ? ok() : mismatch("wants '" + port.name + "' as " + expected + "], the pipeline gives " + found + "]");
  }

  Result<std::map<std::string, lang::Value>> expand_nodes() {
    MLC_RETURN_IF_ERROR(graph_.expand(model_.graph));
    std::map<std::string, lang::Value> results;
    for (const model::Port& port : model_.graph.outputs) {
      if (const Map* map = graph_.map_named(port.name)) {
        const auto names = names_of(port);
        if (names.size() != 2) return Status(Code::Malformed, "output '" + port.name + "' is a map, which its type does not say");
        const uint32_t arrays[] = {map->keys, map->values};
        for (size_t k = 0; k < 2; ++k) results[names[k]] = {graph_.strings_out(arrays[k], names[k]), {}};
        continue;
      }
      if (port.map_key != DType::None) return Status(Code::Malformed, "output '" + port.name + "' is no map, which its type says");
      MLC_ASSIGN(const Item value, graph_.value_of(port.name));
      results[port.name] = value.tensor;
      MLC_ASSIGN(results[port.name].array, graph_.array_of(value, port.name));
      results[port.name].array = graph_.strings_out(results[port.name].array, port.name);
    }
    numbers_for_strings(function_);
    return results;
  }

  // Told here, where the port has a name, and not when the file is written.
  Status ports_fit() const {
    for (const auto* ports : {&model_.graph.inputs, &model_.graph.outputs})
      for (const model::Port& port : *ports)
        if (port.name.size() > kMaxPortName)
          return Status(Code::Unsupported, 2011, "the name '" + port.name.substr(0, 40) + "...' has " + std::to_string(port.name.size()) + " bytes, at most " + std::to_string(kMaxPortName) + " are possible")
              .hint("give it a shorter name in the model");
    for (const auto& [what, count] : {std::pair{"inputs", model_.graph.inputs.size()}, {"outputs", model_.graph.outputs.size()}})
      if (count > format::kMaxPorts)
        return Status(Code::Unsupported, 2011, "the model has " + std::to_string(count) + " " + what + ", at most " + std::to_string(format::kMaxPorts) + " are possible");
    return ok();
  }

  Status add_inputs() {
    MLC_RETURN_IF_ERROR(ports_fit());
    for (const model::Port& port : model_.graph.inputs) {
      if (port.map_key != DType::None) {
        MLC_RETURN_IF_ERROR(add_map(port));
        continue;
      }
      if (!port.has_shape && !port.list_depth)
        return Status(Code::Unsupported, 2011, "input '" + port.name + "' does not say its rank")
            .hint("--shape '" + port.name + "=[N,3]', with a number or a name for each of its axes");
      if (port.dtype == DType::None)
        return Status(Code::Unsupported, 2012, "input '" + port.name + "' has the element type " + std::string(name_of(port.dtype)) + ", which no target supports");
      if (!port.list_depth) MLC_RETURN_IF_ERROR(rank_fits("input", port.name, port.shape.size()));
      nest::Array array;
      array.name = port.name;
      array.kind = nest::Array::Kind::Input;
      array.dtype = port.dtype;
      array.list_depth = port.list_depth;
      for (size_t axis = 0; axis < port.shape.size() && !port.list_depth; ++axis) {
        if (auto extent = std::get_if<int64_t>(&port.shape[axis])) {
          array.shape.push_back(ctx_.integer(*extent));
        } else {
          array.shape.push_back(ctx_.sym(free_extent(port, axis)));
        }
      }
      const uint32_t number = static_cast<uint32_t>(function_.arrays.size());
      function_.inputs.push_back(number);
      function_.arrays.push_back(std::move(array));
      const uint32_t inside = graph_.strings_in(number);
      graph_.bind(port.name, port.list_depth ? list_of(port, inside) : Item::of(inside));
    }
    return ok();
  }

  // What the interface calls a value: a map is two arrays.
  static std::vector<std::string> names_of(const model::Port& port) {
    if (port.map_key == DType::None) return {port.name};
    return {port.name + ".keys", port.name + ".values"};
  }

  Status add_map(const model::Port& port) {
    if (port.list_depth) return Status(Code::Unsupported, 2012, "input '" + port.name + "' is a list of maps, which no operator takes");
    const auto names = names_of(port);
    const ir::Expr* extent = ctx_.sym(ctx_.declare_sym(names[0] + ".0"));
    uint32_t inside[2];
    for (size_t k = 0; k < 2; ++k) {
      nest::Array array;
      array.name = names[k];
      array.kind = nest::Array::Kind::Input;
      array.dtype = k == 0 ? port.map_key : port.dtype;
      array.shape = {extent};
      const uint32_t number = static_cast<uint32_t>(function_.arrays.size());
      function_.inputs.push_back(number);
      function_.arrays.push_back(std::move(array));
      inside[k] = graph_.strings_in(number);
    }
    graph_.bind_map(port.name, {inside[0], inside[1]});
    return ok();
  }

  // Free axes of what is in a list may differ from one item to the next.
  Item list_of(const model::Port& port, uint32_t array) {
    auto list = std::make_shared<List>();
    list->dtype = port.dtype;
    list->depth = port.list_depth;
    list->optional = port.optional;
    list->array = array;
    if (port.has_shape) {
      list->shape.axes.emplace();
      for (const model::Axis& axis : port.shape) {
        const int64_t* extent = std::get_if<int64_t>(&axis);
        list->shape.axes->push_back(extent ? ctx_.integer(*extent) : nullptr);
      }
    }
    return {lang::Value{nest::kNoArray, {}}, list};
  }

  ir::Context& ctx_;
  const model::Model& model_;
  nest::Function& function_;
  Expansion all_;
  GraphExpander graph_;
};

}  // namespace

namespace {

// A model expanded under some decisions.
struct Attempt {
  Attempt(ir::Context& ctx, const lang::Library& library, const model::Model& model, const std::string& name, Expander::Decisions given) {
    auto made = std::make_shared<nest::Function>();
    made->name = name;
    Expander expander(ctx, library, model, *made, std::move(given));
    status = expander.expand_whole();
    decisions = expander.decisions();
    guesses = expander.guesses();
    fits = status.ok() && expander.ranks_as_declared();
    if (status.ok()) function = std::move(made);
  }
  Status status;
  Expander::Decisions decisions;
  std::map<std::string, Status> guesses;
  std::shared_ptr<nest::Function> function;  // null: it failed
  bool fits = false;
};

// Where ranks were decided and the rest of the graph, or what the file declares of its results, does not fit: each decision
// the other way. Fails if no way can be built, or a guess is not the only way.
Result<Attempt> best_attempt(ir::Context& ctx, const lang::Library& library, const model::Model& model, const std::string& name) {
  Attempt attempt(ctx, library, model, name, {}), best = attempt;
  std::vector<std::string> flipped;
  while (!attempt.fits && attempt.status.code != Code::Resource && flipped.size() < kMaxDecisions) {
    Expander::Decisions decisions = attempt.decisions;
    const auto next = std::find_if(decisions.begin(), decisions.end(), [&](const auto& d) { return std::find(flipped.begin(), flipped.end(), d.first) == flipped.end(); });
    if (next == decisions.end()) break;
    flipped.push_back(next->first);
    next->second = !next->second;
    attempt = Attempt(ctx, library, model, name, decisions);
    if (attempt.fits || (attempt.function && !best.function)) best = attempt;
  }
  if (!best.function) return best.status;
  for (const auto& [label, open] : best.guesses) {
    if (!best.fits) return open;
    Expander::Decisions other = best.decisions;
    other[label] = !other[label];
    if (Attempt(ctx, library, model, name, other).fits) return open;
  }
  return best;
}

// Whether expansion may meet a choice between ranks.
bool may_decide(const model::Model& model) {
  std::vector<const model::Graph*> open{&model.graph};
  for (size_t next = 0; next < open.size(); ++next)
    for (const Node& node : open[next]->nodes) {
      if (node.op == "If" || node.op == "Squeeze") return true;
      for (const auto& [key, value] : node.attributes)
        if (auto body = std::get_if<std::shared_ptr<const model::Graph>>(&value)) open.push_back(body->get());
    }
  return false;
}

}  // namespace

std::string free_axis_name(const model::Port& port, size_t axis) {
  const std::string& name = std::get<std::string>(port.shape[axis]);
  return name.empty() || name == "?" ? port.name + "." + std::to_string(axis) : name;
}

Status check_operators(const lang::Library& library, const model::Model& model) {
  struct Missing {
    size_t count = 0;
    std::string first, why;
  };
  std::map<std::string, Missing> missing;
  size_t nodes = 0, total = 0;
  const char* layout = nullptr;
  std::vector<const model::Graph*> open{&model.graph};  // bodies nest
  for (size_t next = 0; next < open.size(); ++next) {
    for (const Node& node : open[next]->nodes) {
      ++total;
      for (const auto& [key, value] : node.attributes)
        if (auto body = std::get_if<std::shared_ptr<const model::Graph>>(&value)) open.push_back(body->get());
      const int64_t opset = opset_of(model, node);
      if (is_structural(node.domain, node.op) || is_string_operator(node.domain, node.op) ||
          is_map_operator(node.domain, node.op) || is_host_operator(node.domain, node.op, opset))
        continue;
      const auto known = library.knows(node.domain, node.op, opset);
      if (known == lang::Library::Known::Yes) continue;
      ++nodes;
      if (node.domain == "com.microsoft.nchwc" || node.domain == "com.ms.internal.nhwc") layout = node.domain.c_str();
      const std::string domain = node.domain == "ai.onnx" ? "" : node.domain + ":";
      Missing& entry = missing[domain + node.op + "-" + std::to_string(opset)];
      if (entry.count++ == 0) {
        entry.first = node.label();
        entry.why = known == lang::Library::Known::OpsetTooOld ? " (only newer opsets of it are known)" : "";
      }
    }
  }
  if (missing.empty()) return ok();
  Status status(Code::Unsupported, 2004, counted(missing.size(), "operator is", "operators are") +
                " not supported (" + std::to_string(nodes) + " of " + counted(total, "node") + ")");
  for (const auto& [name, entry] : missing)
    status.facts.push_back(name + "  " + counted(entry.count, "node") + ", first '" + entry.first + "'" + entry.why);
  if (layout)
    return std::move(status).hint("ONNX Runtime optimised this file for the machine it ran on: " + std::string(layout) +
                                  " is a layout of that machine. Give the file from before, or optimise it at ORT_ENABLE_EXTENDED");
  return std::move(status).hint("define them in the operator language and pass --ops DIR (spec/operator-language.md)");
}

Result<std::map<std::string, lang::Value>> expand_graph(ir::Context& ctx, const lang::Library& library, const model::Model& model,
                                                        nest::Function& function, const std::string& scope,
                                                        const std::map<std::string, lang::Value>& inputs, const std::vector<std::string>& wanted) {
  Expander::Decisions decisions;
  if (may_decide(model)) {  // as in the bare model
    MLC_ASSIGN(const Attempt bare, best_attempt(ctx, library, model, scope + ".bare"));
    decisions = bare.decisions;
  }
  return Expander(ctx, library, model, function, std::move(decisions)).expand_within(scope, inputs, wanted);
}

Result<lang::Value> expand_generation(ir::Context& ctx, const lang::Library& library, const model::Model& model, nest::Function& function, const std::string& label,
                                      const std::map<std::string, lang::Value>& inputs, const Generation& generation, const std::optional<Sampling>& sampling) {
  MLC_RETURN_IF_ERROR(Expander(ctx, library, model, function).check_all_given(inputs));
  Expansion all{ctx, library, model};
  GraphExpander graph(all, function);
  std::map<std::string, Item> given;
  for (const auto& [name, value] : inputs) given[name] = {value, nullptr};
  MLC_ASSIGN(const Item tokens, graph.generate(model.graph, given, generation, sampling, label));
  return tokens.tensor;
}

Result<nest::Function> expand_model(ir::Context& ctx, const lang::Library& library, const model::Model& model, std::string name) {
  MLC_ASSIGN(const Attempt best, best_attempt(ctx, library, model, name));
  return std::move(*best.function);
}

}  // namespace mlc::compile
