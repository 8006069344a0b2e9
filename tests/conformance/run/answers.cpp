#include "tests/conformance/run/answers.h"

#include "packager/compile/expand.h"
#include "packager/compile/programs.h"
#include "packager/container/builder.h"
#include "packager/nest/interpret/interpret.h"
#include "packager/nest/verify/verify.h"
#include "tests/conformance/run/execute.h"
#include "tests/conformance/run/execute_images.h"
#include "tests/conformance/run/interpret_kernels.h"
#include "tests/conformance/run/interpreter_services.h"
#include "tests/conformance/run/kept_code.h"
#include "tests/conformance/run/known_devices.h"

namespace mlc::conformance {
namespace {

constexpr int64_t kLargestConstant = static_cast<int64_t>(lang::kMaxElements) * 16;  // elements

struct Declared {
  bool open = false;   // leaves some extent to the run
  bool wrong = false;  // contradicts the case's input: four cases of 1.12 do
};
Declared declared(const LoadedCase& c) {
  Declared d;
  if (c.has_maps) return d;
  for (size_t k = 0; k < c.model.graph.inputs.size(); ++k) {
    const model::Port& port = c.model.graph.inputs[k];
    if (port.list_depth) {
      d.open = d.open || !port.has_shape;
      continue;
    }
    d.open = d.open || !port.has_shape;
    d.wrong = d.wrong || (port.has_shape && port.shape.size() != c.inputs[k].shape.size());
    for (size_t axis = 0; axis < port.shape.size() && axis < c.inputs[k].shape.size(); ++axis) {
      const int64_t* extent = std::get_if<int64_t>(&port.shape[axis]);
      d.open = d.open || !extent;
      d.wrong = d.wrong || (extent && *extent != c.inputs[k].shape[axis]);
    }
  }
  return d;
}

// The shape of all tensors in a list, its extents that differ being free; nothing if not even the rank is the same.
void describe(const nest::Tensor& value, model::Port& port, bool& first) {
  if (value.list_depth) {
    for (const nest::Tensor& item : value.items) describe(item, port, first);
    return;
  }
  if (first) port.shape.assign(value.shape.begin(), value.shape.end());
  port.has_shape = first || (port.has_shape && port.shape.size() == value.shape.size());
  first = false;
  if (!port.has_shape) port.shape.clear();
  for (size_t axis = 0; axis < port.shape.size(); ++axis)
    if (port.shape[axis] != model::Axis(value.shape[axis])) port.shape[axis] = std::string();
}

// The model as it is built when so much is known of the inputs.
model::Model knowing(const LoadedCase& c, Given given) {
  model::Model m = c.model;
  if (given == Given::Nothing) return m;
  std::vector<model::Port> open;
  for (size_t k = 0; k < m.graph.inputs.size(); ++k) {
    model::Port& port = m.graph.inputs[k];
    const nest::Tensor& value = c.inputs[k];
    if (port.list_depth) {
      bool first = true;
      if (!port.has_shape) describe(value, port, first);
      open.push_back(port);
      continue;
    }
    const bool vector = value.shape.size() <= 1, wanted = given == Given::Constants || (given == Given::Vectors && vector) ||
                                                          (given == Given::Integers && vector && !is_float(value.dtype));
    if (wanted && value.elements() <= kLargestConstant) {
      m.graph.initializers[port.name] = {value.dtype, value.shape, value.bytes, nullptr, value.strings};
      continue;
    }
    port.has_shape = true;
    port.shape.assign(value.shape.begin(), value.shape.end());
    open.push_back(port);
  }
  m.graph.inputs = std::move(open);
  return m;
}

}  // namespace

Status Answers::begin() {
  MLC_RETURN_IF_ERROR(compile::check_operators(library_, loaded_.model));
  MLC_RETURN_IF_ERROR(expand());
  if (!check_) return ok();
  const auto errors = nest::verify(*ctx_, programs_[0].function);
  return errors.empty() ? ok() : Status(Code::Internal, "verify: " + errors[0]);
}

void Answers::bound_executors(double most_work) {
  double left = most_work;
  const auto ran = interpreted(inputs_, {.threads = 1, .work = &left, .host = interpreter_services()});
  if (ran.ok() || ran.status().code != Code::Cancelled) return;
  too_large_ = "too much work for an executor: more than " + std::to_string(static_cast<uint64_t>(most_work)) + " units of the interpreter's";
}

Result<std::vector<nest::Tensor>> Answers::interpreted(const std::vector<nest::Tensor>& inputs, const nest::InterpretOptions& options) const {
  return nest::interpret(programs_[0].function, inputs, options);
}

void Answers::expect(std::vector<nest::Tensor> outputs) {
  loaded_.outputs = std::move(outputs);
  programs_[0].golden.vectors = {golden()};
}

// What the file alone allows, then with the shapes of the inputs, then with their values.
Status Answers::expand() {
  const Declared known = declared(loaded_);
  Status last;
  for (const Given given : {Given::Nothing, Given::Shapes, Given::Integers, Given::Vectors, Given::Constants}) {
    if (given == Given::Nothing ? known.wrong : given == Given::Shapes && !known.open && !known.wrong) continue;
    if (loaded_.has_maps && given != Given::Nothing) continue;
    const model::Model m = knowing(loaded_, given);
    ctx_.emplace();
    auto function = compile::expand_model(*ctx_, library_, m, "main");
    if (!function.ok()) {
      last = std::move(function).status();
      continue;
    }
    given_ = given;
    inputs_.clear();
    if (loaded_.has_maps) inputs_ = loaded_.inputs;
    for (size_t k = 0; k < loaded_.inputs.size() && !loaded_.has_maps; ++k)
      for (const model::Port& port : m.graph.inputs)
        if (port.name == loaded_.model.graph.inputs[k].name) inputs_.push_back(loaded_.inputs[k]);
    programs_.clear();
    programs_.push_back({.function = std::move(function).value()});
    programs_[0].golden.vectors = {golden()};
    return ok();
  }
  return last;
}

Result<std::vector<nest::Tensor>> Answers::on(const Path& path) {
  launches_ = true;
  if (!path.target) return interpreted(inputs_, {.threads = 1, .host = interpreter_services()});
  if (path.target->is_device()) return on_device(path);
  MLC_ASSIGN(const std::vector<std::byte> container, container_for(*path.target));
  if (path.emulator) return path.emulator->run(container, path.target->name, inputs_);
  return execute(container, path.target->name, inputs_);
}

// The variant of a device: there, or without one by interpretation or as its kernels were emitted.
Result<std::vector<nest::Tensor>> Answers::on_device(const Path& path) {
  if (path.way == Way::OnDevice) {
    MLC_ASSIGN(const std::vector<std::byte> whole, container_for(*path.target));
    MLC_ASSIGN(OnDevice ran, execute_on({kFirstDevice, kAsksDrivers}, whole, path.target->name, inputs_));
    launches_ = ran.has_kernels;
    return std::move(ran.results);
  }
  if (path.way == Way::Executed && !too_large_.empty()) return Status(Code::Unsupported, too_large_);
  MLC_ASSIGN(const std::vector<std::byte> container, container_for(*targets::find_target("portable")));
  const KeptKernels kept(*path.target);
  MLC_ASSIGN(const compile::CompiledVariant variant, compile::compile_variant(*ctx_, library_, parts_.of(kept.target()), weights_, kept.target()));
  if (path.way == Way::Executed) return execute_images(container, variant.plan, variant.module, inputs_, path.subgroup);
  return interpret_kernels(container, variant.plan, kept.kernels(), inputs_);
}

Result<Answers::Kernels> Answers::kernels_for(const targets::Target& target) {
  Kernels kernels;
  MLC_ASSIGN(kernels.container, container_for(*targets::find_target("portable")));
  const KeptKernels kept(target, KeptKernels::Emits::No);
  MLC_ASSIGN(compile::CompiledVariant variant, compile::compile_variant(*ctx_, library_, parts_.of(kept.target()), weights_, kept.target()));
  kernels.plan = std::move(variant.plan);
  kernels.texts = kept.kernels();
  return kernels;
}

// What `mlpack build` writes for one target, without a signature: the portable form is in every container.
Result<std::vector<std::byte>> Answers::container_for(const targets::Target& target) {
  if (!optimised_) optimised_ = optimise();
  MLC_RETURN_IF_ERROR(*optimised_);
  if (!portable_) portable_ = compile::compile_variant(*ctx_, library_, parts_.processors, weights_, *targets::find_target("portable"), {.store = kept_code()});
  if (!portable_->ok()) return portable_->status();
  container::ContainerBuilder builder;
  builder.effort = container::Effort::Fast;
  builder.manifest.model.id = "local/case";
  builder.manifest.model.version = 1;
  builder.manifest.provenance.tool = "tests";
  builder.manifest.provenance.tool_version = "1";
  compile::add_program(builder, programs_[0], loaded_.tolerance.relative);
  MLC_RETURN_IF_ERROR(weights_.write(builder));
  compile::CompiledVariant portable = **portable_;
  compile::add_variant(builder, portable, programs_, loaded_.tolerance.relative);
  if (&target != portable.target) {
    MLC_ASSIGN(compile::CompiledVariant variant, compile::compile_variant(*ctx_, library_, parts_.of(target), weights_, target, {.store = kept_code()}));
    compile::add_variant(builder, variant, programs_, loaded_.tolerance.relative);
  }
  return builder.to_bytes(nullptr);
}

// Every program of a container has one: here the case itself.
compile::GoldenVector Answers::golden() const {
  compile::GoldenVector golden{inputs_, loaded_.outputs, {}};
  const nest::Function& function = programs_[0].function;
  for (size_t k = 0; k < function.inputs.size(); ++k) {
    const nest::Array& array = function.arrays[function.inputs[k]];
    for (size_t axis = 0; axis < array.shape.size() && axis < inputs_[k].shape.size(); ++axis)
      if (array.shape[axis]->op == ir::Op::Sym) golden.extents[array.shape[axis]->sym->name] = inputs_[k].shape[axis];
  }
  return golden;
}

void Answers::will_run(const std::vector<Path>& paths) {
  for_devices_ = std::any_of(paths.begin(), paths.end(), [](const Path& p) { return p.target && p.target->is_device(); });
}

Status Answers::optimise() {
  passes::Options passes;
  passes.check = check_;
  if (check_) passes.inputs = inputs_;
  MLC_ASSIGN(parts_, compile::optimise(*ctx_, programs_, weights_, passes, {}, for_devices_));
  return ok();
}

}  // namespace mlc::conformance
