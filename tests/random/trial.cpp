#include "tests/random/trial.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "packager/import/onnx.h"
#include "packager/ir/numeric.h"
#include "tests/random/rng.h"

namespace mlc::random_graphs {
namespace {

using conformance::Answers;
using Tensors = std::vector<nest::Tensor>;

double element(const nest::Tensor& t, int64_t k) {
  const ir::Scalar s = ir::load_element(t.dtype, t.bytes.data(), static_cast<uint64_t>(k));
  return is_float(t.dtype) ? s.f : static_cast<double>(s.i);
}

// The narrowest float type of a graph decides how much its sums may be rounded.
struct Precision {
  double jitter;  // of inputs and of sums, relative: some sixteen units in the last place
  Bound bound;
};
Precision precision_of(const onnx::GraphProto& graph) {
  bool half = false, single = false;
  const auto see = [&](int type) {
    half = half || type == onnx::TensorProto::FLOAT16;
    single = single || type == onnx::TensorProto::FLOAT;
  };
  for (const auto& port : graph.input()) see(port.type().tensor_type().elem_type());
  for (const auto& constant : graph.initializer()) see(constant.data_type());
  for (const auto& node : graph.node()) {
    single = single ||
             node.op_type() == "LayerNormalization";  // stash_type: its statistics are floats, whatever it normalises
    for (const auto& a : node.attribute())
      if (node.op_type() == "Cast" && a.name() == "to") see(static_cast<int>(a.i()));
  }
  if (half) return {0x1p-10, {0x1p-8, 0x1p-9, 0}};
  if (single) return {0x1p-19, {0x1p-11, 0x1p-15, 0}};
  return {0x1p-44, {0x1p-30, 0x1p-36, 0}};
}

// Floats moved by a little, up or down.
Tensors jittered(const Tensors& inputs, double jitter) {
  Tensors moved = inputs;
  Random r(17);
  for (nest::Tensor& t : moved) {
    if (!is_float(t.dtype)) continue;
    for (int64_t k = 0; k < t.elements(); ++k) {
      ir::Scalar s;
      s.f = element(t, k) * (1 + (r.chance(50) ? jitter : -jitter));
      ir::store_element(t.dtype, t.bytes.data(), static_cast<uint64_t>(k), s);
    }
  }
  return moved;
}

bool is_finite(const Tensors& tensors) {
  for (const nest::Tensor& t : tensors)
    for (int64_t k = 0; is_float(t.dtype) && k < t.elements(); ++k)
      if (!std::isfinite(element(t, k))) return false;
  return true;
}

double largest_distance(const nest::Tensor& a, const nest::Tensor& b) {
  if (a.shape != b.shape) return INFINITY;
  double largest = 0;
  for (int64_t k = 0; k < a.elements(); ++k) {
    const double distance = std::abs(element(a, k) - element(b, k));
    if (std::isfinite(distance)) largest = std::max(largest, distance);
  }
  return largest;
}

// The outputs of the slow interpreter, and how far they move where sums and inputs are rounded otherwise.
Result<Oracle> oracle_of(Answers& answers, const onnx::GraphProto& graph) {
  Oracle oracle;
  MLC_ASSIGN(oracle.outputs, answers.on({"interpreter", nullptr, {}}));
  const Precision precision = precision_of(graph);
  oracle.bounds.assign(oracle.outputs.size(), precision.bound);
  for (const double jitter : {precision.jitter, -precision.jitter, precision.jitter / 8}) {
    nest::InterpretOptions options;
    options.threads = 1;
    options.jitter = jitter;
    const auto moved = answers.interpreted(jittered(answers.inputs(), jitter), options);
    if (!moved.ok()) continue;  // the answer stands, with tighter bounds
    for (size_t k = 0; k < moved->size(); ++k)
      oracle.bounds[k].spread = std::max(oracle.bounds[k].spread, largest_distance((*moved)[k], oracle.outputs[k]));
  }
  // What integer a NaN becomes is left to the processor.
  if (!is_finite(oracle.outputs) || !is_finite(answers.inputs()))
    for (size_t k = 0; k < oracle.outputs.size(); ++k)
      if (!is_float(oracle.outputs[k].dtype)) oracle.bounds[k].spread = INFINITY;
  return oracle;
}

std::string shape_text(const nest::Tensor& t) {
  std::string text = std::string(name_of(t.dtype)) + "[";
  for (size_t k = 0; k < t.shape.size(); ++k) text += (k ? ", " : "") + std::to_string(t.shape[k]);
  return text + "]";
}

double largest_of(const nest::Tensor& t) {
  double largest = 0;
  for (int64_t k = 0; k < t.elements(); ++k)
    if (std::isfinite(element(t, k))) largest = std::max(largest, std::abs(element(t, k)));
  return largest;
}

std::string difference(const nest::Tensor& got, const nest::Tensor& want, const Bound& bound) {
  // Where rounding moves how many there are (NonMaxSuppression), nothing can be said.
  if (std::isinf(bound.spread)) return "";
  if (got.dtype != want.dtype || got.shape != want.shape)
    return "is " + shape_text(got) + ", expected " + shape_text(want);
  const int64_t n = want.elements();
  const double largest = largest_of(want);
  const bool real = is_float(want.dtype);
  int64_t wrong = 0, first = -1;
  double worst = 0;
  for (int64_t k = 0; k < n; ++k) {
    const double a = element(got, k), b = element(want, k);
    if (!std::isfinite(b)) continue;  // what becomes of it is no matter of these comparisons
    const double allowed = 4 * bound.spread + (real ? bound.elementwise * std::abs(b) + bound.of_largest * largest : 0);
    const double distance = std::abs(a - b);
    if (distance <= allowed) continue;
    if (first < 0) first = k;
    ++wrong, worst = std::max(worst, distance);
  }
  if (!wrong) return "";
  char text[200];
  std::snprintf(
      text, sizeof text,
      "%s: %lld of %lld differ, by %.4g at most; element %lld is %.9g, expected %.9g (largest %.4g, spread %.3g)",
      shape_text(want).c_str(), static_cast<long long>(wrong), static_cast<long long>(n), worst,
      static_cast<long long>(first), element(got, first), element(want, first), largest, bound.spread);
  return text;
}

std::string text_of(const Status& status) {
  std::string text = status.message;
  for (const std::string& fact : status.facts) text += "; " + fact;
  return text;
}

bool has_free_axes(const onnx::ModelProto& model) {
  for (const auto& port : model.graph().input())
    for (const auto& dim : port.type().tensor_type().shape().dim())
      if (!dim.has_dim_value()) return true;
  return false;
}

Report failure(const std::string& path, const Status& status, bool free) {
  const bool refused = status.code == Code::Unsupported || (free && status.code != Code::Internal);
  return {path, refused ? Sort::Refused : Sort::Error, text_of(status)};
}

Result<conformance::LoadedCase> loaded(const Trial& trial) {
  std::string bytes;
  if (!trial.model.SerializeToString(&bytes)) return Status(Code::Internal, "the model cannot be written");
  conformance::LoadedCase c;
  MLC_ASSIGN(c.model, import::import_onnx(std::as_bytes(std::span(bytes)), "model.onnx", "."));
  c.inputs = trial.inputs;
  return c;
}

onnx::TensorProto proto_of(const nest::Tensor& t, const std::string& name) {
  onnx::TensorProto proto;
  proto.set_name(name);
  constexpr std::pair<DType, onnx::TensorProto_DataType> kTypes[] = {
      {DType::F32, onnx::TensorProto::FLOAT},  {DType::F16, onnx::TensorProto::FLOAT16},
      {DType::F64, onnx::TensorProto::DOUBLE}, {DType::I64, onnx::TensorProto::INT64},
      {DType::I32, onnx::TensorProto::INT32},  {DType::I8, onnx::TensorProto::INT8},
      {DType::U8, onnx::TensorProto::UINT8},   {DType::Bool, onnx::TensorProto::BOOL}};
  for (const auto& [ours, theirs] : kTypes)
    if (ours == t.dtype) proto.set_data_type(theirs);
  for (int64_t e : t.shape) proto.add_dims(e);
  proto.set_raw_data(t.bytes.data(), t.bytes.size());
  return proto;
}

}  // namespace

std::string difference(const Tensors& got, const Oracle& oracle) {
  if (got.size() < oracle.outputs.size())
    return "answers " + std::to_string(got.size()) + " outputs, expected " + std::to_string(oracle.outputs.size());
  for (size_t k = 0; k < oracle.outputs.size(); ++k) {
    const std::string text = difference(got[k], oracle.outputs[k], oracle.bounds[k]);
    if (!text.empty()) return "output " + std::to_string(k) + " " + text;
  }
  return "";
}

Begun begin_trial(const lang::Library& library, const Trial& trial) {
  const bool free = has_free_axes(trial.model);
  Begun begun;
  auto c = loaded(trial);
  if (!c.ok()) return begun.failed = failure("oracle", c.status(), false), std::move(begun);
  begun.answers = std::make_unique<Answers>(library, std::move(*c));
  const Status status = begun.answers->begin();
  if (!status.ok()) return begun.failed = failure("oracle", status, free), std::move(begun);
  if (begun.answers->given() != conformance::Given::Nothing) {
    begun.failed = {"oracle", free ? Sort::Refused : Sort::Error, "needs to be told the shapes of its inputs"};
    return begun;
  }
  auto oracle = oracle_of(*begun.answers, trial.model.graph());
  if (!oracle.ok()) return begun.failed = failure("oracle", oracle.status(), free), std::move(begun);
  begun.oracle = std::move(*oracle);
  begun.answers->expect(begun.oracle.outputs);
  return begun;
}

void run_trial(const lang::Library& library, const Trial& trial, const std::vector<conformance::Path>& paths,
               size_t first, const std::function<void(const Report&)>& report,
               const std::function<void(const Oracle&)>& know) {
  const Begun begun = begin_trial(library, trial);
  if (begun.failed) return report(*begun.failed);
  if (know) know(begun.oracle);
  begun.answers->will_run(paths);
  for (size_t k = first; k < paths.size(); ++k) {
    const auto got = begun.answers->on(paths[k]);
    if (!got.ok()) {
      report(failure(paths[k].name, got.status(), false));
      continue;
    }
    const std::string text = difference(*got, begun.oracle);
    report({paths[k].name, text.empty() ? Sort::Pass : Sort::Differs, text});
  }
}

bool moves(const nest::Tensor& output, const Bound& bound) {
  return bound.spread > (is_float(output.dtype) ? 2 * bound.elementwise * largest_of(output) : 0);
}

Status load_trial(const std::string& folder, Trial& trial) {
  std::ifstream in(folder + "/model.onnx", std::ios::binary);
  if (!trial.model.ParseFromIstream(&in)) return Status(Code::NotFound, folder + "/model.onnx is no model");
  MLC_ASSIGN(conformance::LoadedCase c, conformance::load({folder, folder}));
  trial.inputs = std::move(c.inputs);
  return ok();
}

bool save_trial(const std::string& folder, const Trial& trial, const Tensors& outputs) {
  std::error_code ec;
  std::filesystem::create_directories(folder + "/test_data_set_0", ec);
  const auto write = [](const std::string& path, const google::protobuf::MessageLite& message) {
    std::ofstream out(path, std::ios::binary);
    return message.SerializeToOstream(&out) && out.flush();
  };
  bool good = write(folder + "/model.onnx", trial.model);
  for (size_t k = 0; k < trial.inputs.size(); ++k)
    good = good && write(folder + "/test_data_set_0/input_" + std::to_string(k) + ".pb",
                         proto_of(trial.inputs[k], trial.model.graph().input(static_cast<int>(k)).name()));
  for (size_t k = 0; k < outputs.size(); ++k)
    good = good && write(folder + "/test_data_set_0/output_" + std::to_string(k) + ".pb",
                         proto_of(outputs[k], trial.model.graph().output(static_cast<int>(k)).name()));
  return good;
}

}  // namespace mlc::random_graphs
