// If: in place where the condition is known while building, else a branch of the run whose results agree in all but extents.
#include <algorithm>

#include "packager/compile/expand/graph_expander.h"
#include "packager/ir/typical.h"

namespace mlc::compile {

using model::Node;

// One If while it is built.
struct GraphExpander::BranchBuild {
  GraphExpander& g;
  const Node& node;
  Item condition;

  struct Side {
    const model::Graph* graph = nullptr;
    std::unique_ptr<nest::Function> function = std::make_unique<nest::Function>();
    std::unique_ptr<GraphExpander> body;
    std::vector<Item> results;  // of all outputs; empty for those without a consumer
    std::set<const ir::Sym*> own;
    ItemShape shape_of(size_t output) const { return body->shape_of(results[output]); }
  };
  Side sides[2];  // then, else

  Status find_graphs();
  Status take(bool then);
  Status expand(Side& side, const std::string& name);
  bool ranks_agree() const;
  bool taken_by_rank(Ex condition);
  std::string other_branch(Ex condition, bool taken) const;
  Status branch();
  Result<Item> joined_lists(size_t output, Emit& emit);
  Result<Item> joined_tensors(size_t output, Emit& emit);
  Status differ(size_t output) const {
    return g.refuse(node, "'" + node.outputs[output] + "' is " + sides[0].body->type_text(sides[0].results[output]) + " in one branch and " +
                              sides[1].body->type_text(sides[1].results[output]) +
                              " in the other; only extents may differ where the condition is not known while building");
  }
};

Status GraphExpander::add_if(const Node& node, const Inputs& in) {
  MLC_ASSIGN(const Item condition, tensor_input(node, in, 0));
  if (function_.arrays[condition.tensor.array].dtype != DType::Bool) return refuse(node, "the condition is " + type_text(condition) + ", bool is expected");
  BranchBuild build{*this, node, condition, {}};
  MLC_RETURN_IF_ERROR(build.find_graphs());
  if (const auto settled = number_of(condition.tensor)) return build.take(*settled != 0);
  MLC_RETURN_IF_ERROR(build.expand(build.sides[0], "then_branch"));
  MLC_RETURN_IF_ERROR(build.expand(build.sides[1], "else_branch"));
  const std::vector<Ex> known = elements_of(condition.tensor);
  if (build.ranks_agree() || known.size() != 1) return build.branch();
  const bool taken = build.taken_by_rank(known[0]);
  function_.checks.push_back({taken ? known[0] : ctx_.logical_not(known[0]), build.other_branch(known[0], taken)});
  return build.take(taken);
}

Status GraphExpander::BranchBuild::find_graphs() {
  const std::string names[2] = {"then_branch", "else_branch"};
  for (int k = 0; k < 2; ++k) {
    MLC_ASSIGN(sides[k].graph, g.body_of(node, names[k]));
    if (!sides[k].graph->inputs.empty()) return g.refuse(node, "'" + names[k] + "' has inputs of its own");
    if (sides[k].graph->outputs.size() < node.outputs.size()) return g.refuse(node, "'" + names[k] + "' has fewer outputs than the node");
  }
  return ok();
}

// One side in place of the node.
Status GraphExpander::BranchBuild::take(bool then) {
  MLC_ASSIGN(std::vector<Item> results, g.inline_body(*sides[then ? 0 : 1].graph, {}, node.label()));
  for (size_t k = 0; k < node.outputs.size(); ++k) g.give(node, k, std::move(results[k]));
  return ok();
}

Status GraphExpander::BranchBuild::expand(Side& side, const std::string& name) {
  side.function->name = g.function_.name + "/" + node.label() + "." + name + "." + std::to_string(g.all_.bodies++);
  side.body = std::make_unique<GraphExpander>(g.all_, *side.function, &g);
  MLC_RETURN_IF_ERROR(side.body->expand(*side.graph));
  for (size_t output = 0; output < node.outputs.size(); ++output) {
    if (!g.wanted(node, output)) {
      side.results.emplace_back();
      continue;
    }
    MLC_ASSIGN(Item value, side.body->value_of(side.graph->outputs[output].name));
    MLC_ASSIGN(const uint32_t array, side.body->array_of(value, node.label()));
    side.function->outputs.push_back(array);
    side.results.push_back(std::move(value));
  }
  side.own = side.body->own_symbols();
  return ok();
}

bool GraphExpander::BranchBuild::ranks_agree() const {
  for (size_t output = 0; output < node.outputs.size(); ++output) {
    if (!g.wanted(node, output) || sides[0].results[output].list || sides[1].results[output].list) continue;
    if (sides[0].shape_of(output).axes->size() != sides[1].shape_of(output).axes->size()) return false;
  }
  return true;
}

// The rest of the graph can only be right for one of the ranks. Where the file says it, that settles it; else what extents
// usually are: of "if the extent is 1, squeeze", as exporters write squeeze(d), the branch that squeezes nothing.
bool GraphExpander::BranchBuild::taken_by_rank(Ex condition) {
  const bool usual = ir::typical(condition).value_or(1) != 0;
  auto [decision, is_new] = g.all_.decisions.try_emplace(node.label(), usual);
  for (size_t output = 0; is_new && output < node.outputs.size(); ++output) {
    const model::Port* said = g.wanted(node, output) && !sides[0].results[output].list ? g.hint(node.outputs[output]) : nullptr;
    if (said && said->has_shape) decision->second = sides[0].shape_of(output).axes->size() == said->shape.size();
  }
  return decision->second;
}

// What the run says to inputs of the other branch, and what its user can do.
std::string GraphExpander::BranchBuild::other_branch(Ex condition, bool taken) const {
  std::set<std::string> names;
  ir::walk(condition, [&](Ex e) {
    if (e->op == ir::Op::Sym) names.insert(e->sym->name);
  });
  std::string dims;
  for (const std::string& name : names) dims += " --dim " + name + "=VALUE";
  return node.label() + ": the model is built for inputs whose shapes take the " + (taken ? "then" : "else") +
         " branch, these take the other, whose result has another rank; mlpack build" + dims + " makes a file for them";
}

Status GraphExpander::BranchBuild::branch() {
  std::vector<uint32_t> inputs{condition.tensor.array}, outputs;
  for (uint32_t argument : share_arguments({sides[0].body.get(), sides[1].body.get()})) inputs.push_back(argument);
  Emit emit(g.ctx_, g.function_, node.label());
  for (size_t output = 0; output < node.outputs.size(); ++output) {
    if (!g.wanted(node, output)) continue;
    const bool lists = sides[0].results[output].list != nullptr;
    if (lists != (sides[1].results[output].list != nullptr)) return differ(output);
    MLC_ASSIGN(Item result, lists ? joined_lists(output, emit) : joined_tensors(output, emit));
    outputs.push_back(lists ? result.list->array : result.tensor.array);
    g.give(node, output, std::move(result));
  }
  nest::Control& control = emit.control(StepOp::Branch, std::move(inputs), std::move(outputs));
  for (Side& side : sides) control.bodies.push_back(std::move(side.function));
  return ok();
}

Result<Item> GraphExpander::BranchBuild::joined_lists(size_t output, Emit& emit) {
  const List &a = *sides[0].results[output].list, &b = *sides[1].results[output].list;
  if (a.depth != b.depth || a.dtype != b.dtype) return differ(output);
  ItemShape shapes[2] = {sides[0].shape_of(output), sides[1].shape_of(output)};
  for (int k = 0; k < 2; ++k)
    if (shapes[k].axes)
      for (Ex& extent : *shapes[k].axes)
        if (extent && !is_free_of(extent, sides[k].own)) extent = nullptr;
  auto list = g.made_of(a.dtype, a.depth, a.optional || b.optional, {});
  list->items.reset();
  list->shape = joined(shapes[0], shapes[1]);
  list->array = emit.array(node.outputs[output], list->dtype, {}, nest::Array::Kind::Temp, list->depth);
  return Item{lang::Value{nest::kNoArray, {}}, list};
}

Result<Item> GraphExpander::BranchBuild::joined_tensors(size_t output, Emit& emit) {
  const Item &a = sides[0].results[output], &b = sides[1].results[output];
  const std::string& name = node.outputs[output];
  const ItemShape shapes[2] = {sides[0].shape_of(output), sides[1].shape_of(output)};
  const DType dtype = sides[0].function->arrays[a.tensor.array].dtype;
  const auto &left = *shapes[0].axes, &right = *shapes[1].axes;
  if (dtype != sides[1].function->arrays[b.tensor.array].dtype || left.size() != right.size()) return differ(output);
  std::vector<Ex> shape;
  for (size_t axis = 0; axis < left.size(); ++axis) {
    if (left[axis] == right[axis] && is_free_of(left[axis], sides[0].own)) {
      shape.push_back(left[axis]);
      continue;
    }
    const ir::Interval l = ir::interval_of(left[axis]), r = ir::interval_of(right[axis]);
    const int64_t lo = std::max<int64_t>(std::min(l.lo, r.lo), 0);
    shape.push_back(g.ctx_.sym(g.fresh_symbol(name + "." + std::to_string(axis), lo, std::max({l.hi, r.hi, lo}))));
  }
  Item result = Item::of(emit.array(name, dtype, std::move(shape)));
  const std::vector<Ex> elements = sides[0].body->elements_of(a.tensor);
  const bool alike = !elements.empty() && elements == sides[1].body->elements_of(b.tensor) &&
                     std::all_of(elements.begin(), elements.end(), [&](Ex e) { return is_free_of(e, sides[0].own); });
  if (alike) result.tensor.elements = elements;
  return result;
}

}  // namespace mlc::compile
