#include "tests/conformance/run_case.h"

#include <chrono>
#include <cstdio>
#include <optional>

#include "packager/compile/expand.h"
#include "packager/compile/programs.h"
#include "packager/container/builder.h"
#include "packager/nest/interpret.h"
#include "packager/nest/print.h"
#include "packager/nest/verify.h"
#include "packager/passes/passes.h"
#include "tests/conformance/execute.h"
#include "tests/conformance/execute_images.h"
#include "tests/conformance/interpret_kernels.h"
#include "tests/conformance/interpreter_services.h"
#include "tests/conformance/known_devices.h"
#include "tests/conformance/verdict.h"

namespace mlc::conformance {
namespace {

constexpr int64_t kLargestConstant = static_cast<int64_t>(lang::kMaxElements) * 16;  // elements

std::string text_of(const Status& status) {
  std::string text = status.message;
  for (const std::string& fact : status.facts) text += "; " + fact;
  return text;
}

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

class CaseRun {
 public:
  CaseRun(const RunOptions& options, const std::string& set, const Case& c, const std::function<void(const Outcome&)>& report)
      : options_(options), case_(c), report_(report) {
    base_.set = set;
    base_.test = c.name;
    base_.op = operator_of(c);
  }

  void run(size_t first) {
    const Status begun = begin();
    for (size_t k = first; k < options_.paths.size(); ++k) {
      const Path& path = options_.paths[k];
      const auto start = std::chrono::steady_clock::now();
      Outcome outcome = base_;
      outcome.path = path.name;
      launches_ = true;
      judge(begun.ok() ? answers(path) : Result<std::vector<nest::Tensor>>(begun), outcome);
      if (outcome.kind == Kind::Pass && !launches_) outcome.kind = Kind::Host;
      outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      report_(outcome);
    }
  }

 private:
  Status begin() {
    MLC_ASSIGN(loaded_, load(case_));
    if (options_.relative) loaded_.tolerance.relative = *options_.relative;
    MLC_RETURN_IF_ERROR(compile::check_operators(*options_.library, loaded_.model));
    MLC_RETURN_IF_ERROR(expand());
    if (options_.print) std::printf("%s\n", nest::print(programs_[0].function).c_str());
    if (!options_.check) return ok();
    const auto errors = nest::verify(*ctx_, programs_[0].function);
    return errors.empty() ? ok() : Status(Code::Internal, "verify: " + errors[0]);
  }

  // What the file alone allows, then with the shapes of the inputs, then with their values.
  Status expand() {
    const Declared known = declared(loaded_);
    Status last;
    for (const Given given : {Given::Nothing, Given::Shapes, Given::Integers, Given::Vectors, Given::Constants}) {
      if (given == Given::Nothing ? known.wrong : given == Given::Shapes && !known.open && !known.wrong) continue;
      if (loaded_.has_maps && given != Given::Nothing) continue;
      const model::Model m = knowing(loaded_, given);
      ctx_.emplace();
      auto function = compile::expand_model(*ctx_, *options_.library, m, "main");
      if (!function.ok()) {
        last = std::move(function).status();
        continue;
      }
      base_.given = given;
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

  Result<std::vector<nest::Tensor>> answers(const Path& path) {
    if (!path.target) return nest::interpret(programs_[0].function, inputs_, {.threads = 1, .host = interpreter_services()});
    if (path.target->is_device()) return on_device(path);
    MLC_ASSIGN(const std::vector<std::byte> container, container_for(*path.target));
    if (path.emulator) return path.emulator->run(container, path.target->name, inputs_);
    return execute(container, path.target->name, inputs_);
  }

  // The variant of a device: there, or without one by interpretation or as its kernels were emitted.
  Result<std::vector<nest::Tensor>> on_device(const Path& path) {
    if (path.way == Way::OnDevice) {
      MLC_ASSIGN(const std::vector<std::byte> whole, container_for(*path.target));
      MLC_ASSIGN(OnDevice ran, execute_on({kFirstDevice, kAsksDrivers}, whole, path.target->name, inputs_));
      launches_ = ran.has_kernels;
      return std::move(ran.results);
    }
    MLC_ASSIGN(const std::vector<std::byte> container, container_for(*targets::find_target("portable")));
    const KeptKernels kept(*path.target);
    MLC_ASSIGN(const compile::CompiledVariant variant, compile::compile_variant(*ctx_, *options_.library, parts_, weights_, kept.target()));
    if (path.way == Way::Executed) return execute_images(container, variant.plan, variant.module, inputs_, path.subgroup);
    return interpret_kernels(container, variant.plan, kept.kernels(), inputs_);
  }

  // What `mlpack build` writes for one target, without a signature: the portable form is in every container.
  Result<std::vector<std::byte>> container_for(const targets::Target& target) {
    if (!optimised_) optimised_ = optimise();
    MLC_RETURN_IF_ERROR(*optimised_);
    if (!portable_) portable_ = compile::compile_variant(*ctx_, *options_.library, parts_, weights_, *targets::find_target("portable"));
    if (!portable_->ok()) return portable_->status();
    container::ContainerBuilder builder;
    builder.manifest.model.id = "local/case";
    builder.manifest.model.version = 1;
    builder.manifest.provenance.tool = "onnx_node_tests";
    builder.manifest.provenance.tool_version = "1";
    compile::add_program(builder, programs_[0], loaded_.tolerance.relative);
    MLC_RETURN_IF_ERROR(weights_.write(builder));
    compile::CompiledVariant portable = **portable_;
    compile::add_variant(builder, portable, programs_[0], loaded_.tolerance.relative);
    if (&target != portable.target) {
      MLC_ASSIGN(compile::CompiledVariant variant, compile::compile_variant(*ctx_, *options_.library, parts_, weights_, target));
      compile::add_variant(builder, variant, programs_[0], loaded_.tolerance.relative);
    }
    return builder.to_bytes(nullptr);
  }

  // Every program of a container has one: here the case itself.
  compile::GoldenVector golden() const {
    compile::GoldenVector golden{inputs_, loaded_.outputs, {}};
    const nest::Function& function = programs_[0].function;
    for (size_t k = 0; k < function.inputs.size(); ++k) {
      const nest::Array& array = function.arrays[function.inputs[k]];
      for (size_t axis = 0; axis < array.shape.size() && axis < inputs_[k].shape.size(); ++axis)
        if (array.shape[axis]->op == ir::Op::Sym) golden.extents[array.shape[axis]->sym->name] = inputs_[k].shape[axis];
    }
    return golden;
  }

  Status optimise() {
    passes::Options passes;
    passes.check = options_.check;
    MLC_ASSIGN(parts_, compile::optimise(*ctx_, programs_, weights_, passes));
    return ok();
  }

  void judge(const Result<std::vector<nest::Tensor>>& got, Outcome& outcome) const {
    if (!got.ok()) {
      const Code code = got.status().code;
      outcome.kind = code == Code::Unsupported || code == Code::NoVariant ? Kind::Unsupported : Kind::Fail;  // no variant: not on this device
      outcome.reason = text_of(got.status());
      return;
    }
    if (got->size() < loaded_.outputs.size()) {
      outcome.kind = Kind::Fail;
      outcome.reason = "answers " + std::to_string(got->size()) + " outputs, expected " + std::to_string(loaded_.outputs.size());
      return;
    }
    Difference all;
    for (size_t k = 0; k < loaded_.outputs.size(); ++k) {
      const Difference one = compare((*got)[k], loaded_.outputs[k], loaded_.tolerance);
      if (all.text.empty() && !one.text.empty()) all.text = "output " + std::to_string(k) + " " + one.text;
      all.add(one);
    }
    const Verdict verdict = judge_difference(all, known_difference(base_.set, case_.name));
    outcome.kind = verdict.kind;
    outcome.reason = verdict.reason;
  }

  const RunOptions& options_;
  const Case& case_;
  const std::function<void(const Outcome&)>& report_;
  Outcome base_;
  LoadedCase loaded_;
  std::optional<ir::Context> ctx_;
  std::vector<compile::Program> programs_;  // one, "main"
  std::vector<nest::Tensor> inputs_;        // of the program
  bool launches_ = true;                    // the last path had kernels to launch
  passes::Parts parts_;
  compile::WeightStore weights_;
  std::optional<Status> optimised_;
  std::optional<Result<compile::CompiledVariant>> portable_;
};

}  // namespace

void run_case(const RunOptions& options, const std::string& set, const Case& c, size_t first, const std::function<void(const Outcome&)>& report) {
  CaseRun(options, set, c, report).run(first);
}

}  // namespace mlc::conformance
