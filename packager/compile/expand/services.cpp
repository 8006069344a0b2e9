// Operators that the application does (nest.h: Host). A service is a feature of the host, "app.<service>", so that a
// file which needs it says so before anything runs; one more service is a row of schema/features.tbl, and its operator
// here.
#include "packager/compile/expand/graph_expander.h"
#include "schema/features.h"

namespace mlc::compile {

using model::Node;

bool is_host_operator(const std::string& domain, const std::string& op, int64_t opset) {
  return (domain.empty() || domain == "ai.onnx") && op == "ImageDecoder" && opset >= 20;
}

Status GraphExpander::add_host_operator(const Node& node) {
  if (node.inputs.size() != 1 || node.inputs[0].empty()) return refuse(node, "one input is expected");
  MLC_ASSIGN(const Item file, value_of(node.inputs[0]));
  const bool is_file = !file.list && function_.arrays[file.tensor.array].dtype == DType::U8 &&
                       function_.arrays[file.tensor.array].shape.size() == 1;
  if (!is_file) return refuse(node, "the input is " + type_text(file) + ", the bytes of a file are expected: u8[n]");
  std::string format = "RGB";
  if (auto found = node.attributes.find("pixel_format"); found != node.attributes.end())
    if (const auto* text = std::get_if<std::string>(&found->second)) format = *text;
  if (format != "RGB" && format != "BGR" && format != "Grayscale")
    return refuse(node, "pixel_format is '" + format + "', known: RGB, BGR, Grayscale");
  if (!wanted(node, 0)) return ok();

  constexpr int64_t kMostPixels = 1 << 30;  // along an axis; extents that are multiplied with others stay in 64 bits
  const std::string& name = node.outputs[0];
  Emit emit(ctx_, function_, node.label());
  const uint32_t pixels = emit.array(
      name, DType::U8,
      {ctx_.sym(fresh_symbol(name + ".height", 0, kMostPixels)),
       ctx_.sym(fresh_symbol(name + ".width", 0, kMostPixels)), ctx_.integer(format == "Grayscale" ? 1 : 3)});
  nest::Control& call = emit.control(StepOp::Host, {file.tensor.array}, {pixels});
  static_assert(feature_named("app.image.decode") != Feature::None);
  call.service = "image.decode";
  call.options = format + " or-empty";  // what cannot be decoded gives no pixels, as the operator says
  give(node, 0, Item::of(pixels));
  return ok();
}

}  // namespace mlc::compile
