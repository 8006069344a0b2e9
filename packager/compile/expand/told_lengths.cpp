// Lists of sizes whose length is dynamic (dynamic rank). Their length is a rank, which must be known while building:
// it is, where the operand beside the list has it, or where the model declares the shape of the result.
#include "packager/compile/expand/emit.h"
#include "packager/compile/expand/graph_expander.h"

namespace mlc::compile {
namespace {

// Which input of an operator is a list with one size (Pad: two) for each axis of its first input, or of its result.
struct SizeList {
  const char* op;
  size_t input;
  bool of_result;
  int64_t per_axis;
};
constexpr SizeList kSizeLists[] = {
    {"Reshape", 1, true, 1}, {"ConstantOfShape", 0, true, 1}, {"Expand", 1, true, 1}, {"Tile", 1, false, 1},
    {"Upsample", 1, false, 1}, {"Resize", 2, false, 1},       {"Resize", 3, false, 1}, {"Pad", 1, false, 2},
};

}  // namespace

Status GraphExpander::fix_lengths(const model::Node& node, lang::Call& call) {
  if (node.domain != "ai.onnx" || node.outputs.empty()) return ok();
  const auto present = [&](size_t k) { return k < call.inputs.size() && call.inputs[k]; };
  for (const SizeList& list : kSizeLists) {
    if (node.op != list.op || !present(list.input)) continue;
    const uint32_t array = call.inputs[list.input]->array;
    const std::vector<Ex> shape = function_.arrays[array].shape;
    if (shape.size() != 1 || shape[0]->is_const()) continue;
    // As many as there are axes named; of two lists one is empty.
    if ((node.op == "Pad" && present(3)) || node.attributes.count("axes") || (node.op == "Resize" && present(2) && present(3))) continue;
    if (!list.of_result && !present(0)) continue;  // the operator's text refuses that
    const size_t rank = present(0) ? function_.arrays[call.inputs[0]->array].shape.size() : 0;
    std::optional<size_t> axes;
    if (!list.of_result) axes = rank;
    else if (const model::Port* port = hint(node.outputs.at(0)); port && port->has_shape && !port->list_depth) axes = port->shape.size();
    // A list shorter than the result leaves the first axes of x as they are.
    if (node.op == "Expand" && axes && *axes <= rank) axes.reset();
    if (!axes)
      return refuse(node, "'" + node.inputs[list.input] + "' has as many elements as the result has axes, and only the run tells how many")
          .hint("declare the rank of '" + node.outputs.at(0) + "' in the model, by onnx.shape_inference or by its exporter");
    Ex length = ctx_.integer(static_cast<int64_t>(*axes) * list.per_axis);
    function_.checks.push_back({ctx_.binary(ir::Op::Eq, shape[0], length),
                                node.label() + ": '" + node.inputs[list.input] + "' must have " + std::to_string(length->i) + " elements"});
    call.inputs[list.input] = lang::Value{Emit(ctx_, function_, node.label()).piece(node.inputs[list.input], array, 0, ctx_.integer(0), length), {}};
  }
  return ok();
}

}  // namespace mlc::compile
