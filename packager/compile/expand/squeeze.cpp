// Squeeze without axes removes those of extent 1, and where extents are free only the run tells which these are, and so the
// rank of the result. It is settled while building and checked at run time: by what the file declares of the result, or, for
// a single free axis, by which way the rest of the graph fits (a decision, see expand_model).
#include <algorithm>

#include "packager/compile/expand/emit.h"
#include "packager/compile/expand/graph_expander.h"

namespace mlc::compile {
namespace {

using Ex = const ir::Expr*;

struct Axes {
  std::vector<size_t> ones, free;  // of extent 1, or perhaps
};

Axes axes_of(ir::Context& ctx, const std::vector<Ex>& shape) {
  Axes axes;
  for (size_t k = 0; k < shape.size(); ++k) {
    Ex is_one = ctx.binary(ir::Op::Eq, shape[k], ctx.integer(1));
    if (ir::proves(ctx, is_one)) axes.ones.push_back(k);
    else if (!ir::proves(ctx, ctx.logical_not(is_one))) axes.free.push_back(k);
  }
  return axes;
}

// Whether the axes that stay are those that the result is declared to have, by extent or by name.
bool stay_as_declared(const std::vector<Ex>& shape, const std::vector<size_t>& removed, const model::Port& said) {
  size_t at = 0;
  for (size_t k = 0; k < shape.size(); ++k) {
    if (std::find(removed.begin(), removed.end(), k) != removed.end()) continue;
    if (at == said.shape.size()) return false;
    const model::Axis& axis = said.shape[at++];
    const int64_t* extent = std::get_if<int64_t>(&axis);
    const bool same = extent ? shape[k]->is_int(*extent) : shape[k]->op == ir::Op::Sym && shape[k]->sym->name == std::get<std::string>(axis);
    if (!same) return false;
  }
  return at == said.shape.size();
}

// Which free axes go too, where the declared shape tells: by their number, or by the names of those that stay.
std::optional<std::vector<size_t>> declared(const std::vector<Ex>& shape, const Axes& axes, const model::Port& said) {
  constexpr size_t kMostFree = 10;  // their subsets are tried
  const size_t rank = shape.size(), left = said.shape.size();
  if (left + axes.ones.size() > rank || left + axes.ones.size() + axes.free.size() < rank) return {};
  const size_t wanted = rank - left - axes.ones.size();
  if (wanted == 0) return std::vector<size_t>();
  if (wanted == axes.free.size()) return axes.free;
  std::optional<std::vector<size_t>> found;
  if (axes.free.size() > kMostFree) return found;
  for (uint32_t chosen = 0; chosen < (1u << axes.free.size()); ++chosen) {
    std::vector<size_t> more, removed = axes.ones;
    for (size_t k = 0; k < axes.free.size(); ++k)
      if (chosen >> k & 1) more.push_back(axes.free[k]);
    removed.insert(removed.end(), more.begin(), more.end());
    if (more.size() != wanted || !stay_as_declared(shape, removed, said)) continue;
    if (found) return {};
    found = more;
  }
  return found;
}

}  // namespace

// `free` of `shape`, in words: "axis 1 ('T')".
std::string GraphExpander::axes_shown(const std::vector<Ex>& shape, const std::vector<size_t>& free) {
  std::string text;
  for (size_t k : free) text += (text.empty() ? "axis " : ", ") + std::to_string(k) + " ('" + (shape[k]->op == ir::Op::Sym ? shape[k]->sym->name : ir::to_string(shape[k])) + "')";
  return text;
}

Status GraphExpander::name_axes_of_squeeze(const model::Node& node, lang::Call& call) {
  if (node.domain != "ai.onnx" || node.op != "Squeeze" || node.outputs.empty() || node.attributes.count("axes")) return ok();
  if (call.inputs.empty() || !call.inputs[0] || (call.inputs.size() > 1 && call.inputs[1])) return ok();
  const std::vector<Ex> shape = function_.arrays[call.inputs[0]->array].shape;
  const Axes axes = axes_of(ctx_, shape);
  if (axes.free.empty()) return ok();
  const model::Port* said = hint(node.outputs[0]);
  auto more = said && said->has_shape && !said->list_depth ? declared(shape, axes, *said) : std::nullopt;
  if (!more) {
    Status open = refuse(node, "it removes all axes of extent 1, and whether " + axes_shown(shape, axes.free) + " of '" + node.inputs[0] +
                                   "' has extent 1 is not known while building, so neither is the rank of the result");
    Ex first = shape[axes.free[0]];
    const std::string name = first->op == ir::Op::Sym ? first->sym->name : "NAME";
    open = std::move(open).hint("--dim " + name + "=1, or --dim " + name + "=2..1000000 where it is never 1; or give the node its axes");
    if (axes.free.size() > 1) return open;
    all_.guesses.try_emplace(node.label(), std::move(open));
    more = all_.decisions.try_emplace(node.label(), true).first->second ? axes.free : std::vector<size_t>();
  }
  std::vector<size_t> removed = axes.ones;
  removed.insert(removed.end(), more->begin(), more->end());
  std::sort(removed.begin(), removed.end());
  for (size_t k : axes.free) {
    const bool goes = std::find(more->begin(), more->end(), k) != more->end();
    Ex one = ctx_.binary(ir::Op::Eq, shape[k], ctx_.integer(1));
    function_.checks.push_back({goes ? one : ctx_.logical_not(one), node.label() + ": the model is built for inputs whose " + axes_shown(shape, {k}) + " of '" + node.inputs[0] +
                                                                        (goes ? "' has extent 1" : "' has another extent than 1")});
  }
  const std::vector<int64_t> numbers(removed.begin(), removed.end());
  if (opset_of(node) < 13) {
    call.attributes["axes"] = numbers;
    return ok();
  }
  Emit emit(ctx_, function_, node.label());
  call.inputs.resize(2);
  call.inputs[1] = lang::Value{emit.numbers(numbers), {}};
  return ok();
}

}  // namespace mlc::compile
