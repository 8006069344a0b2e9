#include "packager/compile/check.h"

#include "packager/compile/expand.h"
#include "packager/import/onnx.h"

namespace mlc::compile {
namespace {

std::string described(const nest::Function& function, uint32_t number) {
  const nest::Array& array = function.arrays[number];
  std::string text = array.name + ": " + std::string(name_of(array.dtype)) + "[";
  for (size_t axis = 0; axis < array.shape.size(); ++axis) text += (axis ? ", " : "") + ir::to_string(array.shape[axis]);
  return text + "]";
}

// Operations of a statement: points of its map times, per point, two for every point of each fold (a multiply and an
// add), or one where there is no fold.
const ir::Expr* work_of(ir::Context& ctx, const nest::Nest& nest) {
  const ir::Expr* points = ctx.integer(1);
  for (const ir::Dim* dim : nest.dims) points = ctx.mul(points, dim->extent);
  const ir::Expr* per_point = ctx.integer(0);
  for (const nest::Write& write : nest.writes)
    ir::walk(write.value, [&](const ir::Expr* e) {
      if (e->op != ir::Op::Fold) return;
      const ir::Expr* folded = ctx.integer(2);
      for (const ir::Dim* dim : e->fold->dims) folded = ctx.mul(folded, dim->extent);
      per_point = ctx.add(per_point, folded);
    });
  return ctx.mul(points, ctx.max(per_point, ctx.integer(1)));
}

}  // namespace

Result<CheckReport> check(const CheckOptions& options) {
  std::vector<lang::SourceFile> files = lang::Library::builtin_files();
  for (const std::string& folder : options.operator_folders) {
    MLC_ASSIGN(std::vector<lang::SourceFile> own, lang::Library::read_directory(folder));
    files.insert(files.end(), own.begin(), own.end());
  }
  MLC_ASSIGN(const lang::Library library, lang::Library::parse(files));
  MLC_ASSIGN(const model::Model model, import::import_onnx(options.model_path));
  CheckReport report;
  report.opset = model.opsets.at("ai.onnx");
  report.nodes = model.graph.nodes.size();
  for (const model::Node& node : model.graph.nodes) ++report.operators[(node.domain == "ai.onnx" ? "" : node.domain + ":") + node.op];
  for (const auto& [name, tensor] : model.graph.initializers)
    if (bytes_of(tensor.dtype) != 0) report.parameters += tensor.bytes.size() / bytes_of(tensor.dtype);
  report.problem = check_operators(library, model);
  if (!report.problem.ok()) return report;
  ir::Context ctx;
  auto function = expand_model(ctx, library, model, "main");
  if (!function.ok()) {
    report.problem = std::move(function).status();
    return report;
  }
  for (uint32_t input : function->inputs) report.inputs.push_back(described(*function, input));
  for (uint32_t output : function->outputs) report.outputs.push_back(described(*function, output));
  const ir::Expr* flops = ctx.integer(0);
  for (const nest::Statement& statement : function->body)
    if (statement.nest) flops = ctx.add(flops, work_of(ctx, *statement.nest));
  report.flops = ir::to_string(flops);
  if (report.flops.size() > 400) report.flops = "depends on free extents";
  return report;
}

std::string CheckReport::text() const {
  std::string out = "  opset       " + std::to_string(opset) + "\n  nodes       " + std::to_string(nodes) + "\n  parameters  " + std::to_string(parameters) + "\n";
  for (const std::string& input : inputs) out += "  input       " + input + "\n";
  for (const std::string& output : outputs) out += "  output      " + output + "\n";
  if (!flops.empty()) out += "  operations  " + flops + " per run\n";
  for (const auto& [name, count] : operators) out += "  " + std::to_string(count) + " × " + name + "\n";
  if (problem.ok()) out += "  compiles for every target\n";
  return out;
}

}  // namespace mlc::compile
