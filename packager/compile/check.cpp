#include "packager/compile/check.h"

#include <algorithm>
#include <cstdio>
#include <span>

#include "packager/compile/expand.h"
#include "packager/compile/interface.h"
#include "packager/compile/source/sources.h"
#include "packager/compile/source/states.h"
#include "packager/compile/programs.h"
#include "targets/target.h"

namespace mlc::compile {
namespace {

ShownPort shown(const nest::Function& function, uint32_t number, bool is_output) {
  const nest::Array& array = function.arrays[number];
  ShownPort port{is_output ? "output" : "input", array.name, std::string(name_of(array.dtype)), array.list_depth == 0, {}, {}, is_output};
  for (uint8_t k = 0; k < array.list_depth; ++k) port.type = "list of " + port.type;
  for (const ir::Expr* extent : array.shape) port.extents.push_back(extent->op == ir::Op::Sym ? extent->sym->name : ir::to_string(extent));
  return port;
}

// "x: f32[N, 3, 48, W]"
std::string described(const ShownPort& port) {
  std::string text = port.name + ": " + port.type;
  if (!port.has_shape) return text;
  text += "[";
  for (size_t axis = 0; axis < port.extents.size(); ++axis) text += (axis ? ", " : "") + port.extents[axis];
  return text + "]";
}

std::string described(const pipeline::Pipeline& p) {
  std::string in, out;
  for (const pipeline::ValueId id : p.inputs) {
    in += (in.empty() ? "" : ", ") + p.value(id).name + " (";
    for (const std::string& type : p.value(id).accept) in += (in.ends_with('(') ? "" : " ") + type;
    in += ")";
  }
  for (const pipeline::ValueId id : p.outputs) out += (out.empty() ? "" : ", ") + p.value(id).name;
  return p.name + ": " + in + " -> " + out;
}

// Nodes of a graph and of the bodies in it.
void count_nodes(const lang::Library& library, const model::Model& model, CheckReport& report) {
  std::vector<const model::Graph*> open = {&model.graph};
  while (!open.empty()) {
    const model::Graph* graph = open.back();
    open.pop_back();
    for (const model::Node& node : graph->nodes) {
      ++report.nodes;
      const std::string name = (node.domain == "ai.onnx" ? "" : node.domain + ":") + node.op;
      ++report.operators[name];
      const auto opset = model.opsets.find(node.domain);
      const int64_t version = node.opset ? node.opset : opset == model.opsets.end() ? 1 : opset->second;
      int64_t used = 0;
      for (int64_t s : library.versions(node.domain, node.op))
        if (s <= version) used = std::max(used, s);
      report.versions[name] = used;
      for (const auto& [key, value] : node.attributes) {
        if (const auto* body = std::get_if<std::shared_ptr<const model::Graph>>(&value); body && *body) open.push_back(body->get());
        if (const auto* constant = std::get_if<model::Tensor>(&value); constant && node.op == "Constant" && bytes_of(constant->dtype))
          report.parameters += constant->bytes.size() / bytes_of(constant->dtype);
      }
    }
    for (const auto& [name, tensor] : graph->initializers)
      if (bytes_of(tensor.dtype) != 0) report.parameters += tensor.bytes.size() / bytes_of(tensor.dtype);
  }
}

void count_decisions(const nest::Function& function, CheckReport& report) {
  std::vector<const nest::Function*> open = {&function};
  while (!open.empty()) {
    const nest::Function* f = open.back();
    open.pop_back();
    for (const nest::Statement& statement : f->body) {
      if (!statement.control) continue;
      switch (statement.control->kind) {
        case StepOp::Read: ++report.decided["size"]; break;
        case StepOp::Branch: ++report.decided["branch"]; break;
        case StepOp::Loop: ++report.decided["loop"]; break;
        case StepOp::Host: ++report.decided["service"]; break;
        default: ++report.decided["list"]; break;
      }
      for (const auto& body : statement.control->bodies) open.push_back(body.get());
    }
  }
}

void describe_extents(const std::map<const ir::Sym*, int64_t>& typical, CheckReport& report) {
  std::map<std::string, const ir::Sym*> by_name;
  for (const auto& [sym, value] : typical) by_name[sym->name] = sym;
  for (const auto& [name, sym] : by_name) {
    std::string text = name;
    if (sym->lo > 1 || sym->hi < INT64_MAX) text += " in " + std::to_string(sym->lo) + ".." + (sym->hi < INT64_MAX ? std::to_string(sym->hi) : "");
    if (sym->multiple > 1) text += ", a multiple of " + std::to_string(sym->multiple);
    report.free_extents.push_back(text);
    report.assumed += (report.assumed.empty() ? "" : ", ") + name + " = " + std::to_string(typical.at(sym));
  }
}

// `prefix`: of the names of the ports.
void describe_ports(const nest::Function& function, const std::string& prefix, CheckReport& report) {
  const auto add = [&](uint32_t array, bool is_output, std::vector<std::string>* texts) {
    ShownPort port = shown(function, array, is_output);
    port.name = prefix + port.name;
    if (texts) texts->push_back(described(port));
    else port.title = "state";
    report.ports.push_back(std::move(port));
  };
  for (uint32_t k = 0; k < function.inputs.size(); ++k)
    if (!is_state(function, k, &nest::Function::State::input)) add(function.inputs[k], /*is_output=*/false, &report.inputs);
  for (uint32_t k = 0; k < function.outputs.size(); ++k)
    if (!is_state(function, k, &nest::Function::State::output)) add(function.outputs[k], /*is_output=*/true, &report.outputs);
  for (const nest::Function::State& s : function.states) add(function.inputs[s.input], /*is_output=*/false, nullptr);
}

size_t num_statements(const nest::Function& function) {
  size_t n = 0;
  std::vector<const nest::Function*> open = {&function};
  while (!open.empty()) {
    const nest::Function* f = open.back();
    open.pop_back();
    n += f->body.size();
    for (const nest::Statement& statement : f->body)
      if (statement.control)
        for (const auto& body : statement.control->bodies) open.push_back(body.get());
  }
  return n;
}

// Any target with vectors stands for all: what is scalar on it is on others.
const targets::Target* target_with_vectors() {
  for (const targets::Target& target : targets::all_targets())
    if (target.machine != Machine::None && target.vector_bytes >= 16) return &target;
  return targets::find_target("portable");
}

void find_slow(const passes::Parts& parts, const std::vector<LoweredStatement>& lowered, const std::map<const ir::Sym*, int64_t>& extents, CheckReport& report) {
  constexpr double kMuch = 0.05;
  std::vector<Estimate> costs;
  double all = 0;
  for (const auto& segment : parts.segments) {
    costs.push_back(estimate(*segment, extents));
    all += costs.back().operations;
  }
  std::map<std::string, double> slow;
  for (const LoweredStatement& s : lowered)
    if (s.is_scalar) slow[parts.segments[s.segment]->body[s.statement].source] += costs[s.segment].of_statement[s.statement];
  for (const auto& [node, operations] : slow)
    if (operations >= kMuch * all && all > 0) report.slow.push_back({node, operations / all});
  std::stable_sort(report.slow.begin(), report.slow.end(), [](const auto& a, const auto& b) { return a.share > b.share; });
}

const char* kind_of(StepOp op) {
  if (is_about_strings(op)) return "step on strings";
  if (op == StepOp::Branch) return "branch";
  if (op == StepOp::Loop) return "loop";
  return op == StepOp::Host ? "service" : "step on a list";
}

// Nodes in the order of the segments that programs run. Segments of devices alone have the same statements once more.
void list_nodes(const passes::Parts& parts, const std::vector<RefusedStatement>& refused, CheckReport::Device& device) {
  std::map<std::string, size_t> known;
  const auto entry = [&](const std::string& node) -> CheckReport::Device::Node& {
    const auto [found, is_new] = known.try_emplace(node, device.nodes.size());
    if (is_new) device.nodes.push_back({node, true, {}});
    return device.nodes[found->second];
  };
  for (size_t k = 0; k < std::min(parts.num_whole, parts.segments.size()); ++k)
    for (const nest::Statement& s : parts.segments[k]->body) entry(s.source);
  for (const auto& program : parts.programs)
    for (const nest::Step& step : program->steps)
      if (step.op != StepOp::Call) entry(step.source) = {step.source, false, std::string("a ") + kind_of(step.op) + ", which the processor does between kernels"};
  for (const RefusedStatement& r : refused) {
    CheckReport::Device::Node& node = entry(parts.segments[r.segment]->body[r.statement].source);
    node.compiles = false;
    node.why = r.why;
  }
}

// As a build decides: what a device refuses leaves it without a variant, which ends the build where nothing else is asked for.
Status ask_device(ir::Context& ctx, const lang::Library& library, const passes::Parts& parts, const WeightStore& weights, const targets::Target& target,
                  std::span<const std::string> programs, CheckReport& report) {
  CheckReport::Device& device = report.devices.emplace_back();
  device.target = target.name;
  auto refused = refused_by_device(ctx, library, parts, weights, target);
  if (!refused.ok() && refused.status().code != Code::Unsupported) return std::move(refused).status();
  if (!refused.ok()) {
    device.why = refused.status().message;
    return ok();
  }
  device.programs = possible_programs(parts, programs, *refused);
  device.has_variant = !device.programs.empty();
  for (const std::string& program : programs)
    if (std::find(device.programs.begin(), device.programs.end(), program) == device.programs.end()) device.lacking.push_back(program);
  list_nodes(parts, *refused, device);
  return ok();
}

// The rest of a build's way up to machine code, so that nothing is left for it to refuse.
Status compile_all_but_code(ir::Context& ctx, const lang::Library& library, std::vector<Program> programs, const std::map<const ir::Sym*, int64_t>& typical,
                            const std::vector<const targets::Target*>& asked, CheckReport& report) {
  std::vector<const targets::Target*> devices, processors;
  for (const targets::Target* target : asked) (target->is_device() ? devices : processors).push_back(target);
  if (processors.empty()) processors.push_back(target_with_vectors());
  WeightStore weights;
  MLC_ASSIGN(const Optimised parts, optimise(ctx, programs, weights, {}, {}, !devices.empty()));
  for (const targets::Target* target : processors) {
    MLC_ASSIGN(const std::vector<LoweredStatement> lowered, try_variant(ctx, library, parts.processors, weights, *target));
    if (target == processors.front()) find_slow(parts.processors, lowered, typical, report);
  }
  std::vector<std::string> names;
  for (const Program& program : programs) names.push_back(program.method.name);
  for (const targets::Target* target : devices) MLC_RETURN_IF_ERROR(ask_device(ctx, library, parts.of(*target), weights, *target, names, report));
  const auto has_variant = [](const CheckReport::Device& device) { return device.has_variant; };
  if (asked.size() > report.devices.size() || std::any_of(report.devices.begin(), report.devices.end(), has_variant) || devices.empty()) return ok();
  const CheckReport::Device& first = report.devices.front();
  const auto refused = std::find_if(first.nodes.begin(), first.nodes.end(), [&](const auto& node) { return !node.compiles; });
  return Status(Code::Unsupported, first.why.empty() && refused != first.nodes.end() ? refused->why : first.why);
}

size_t num_native() {
  const auto all = targets::all_targets();
  return static_cast<size_t>(std::count_if(all.begin(), all.end(), [](const targets::Target& target) { return target.machine != Machine::None; }));
}

std::string scaled(double value, double step, const std::vector<const char*>& units) {
  size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) value /= step, ++unit;
  char text[48];
  std::snprintf(text, sizeof text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}

}  // namespace

Result<CheckReport> check(const CheckOptions& options) {
  std::vector<lang::SourceFile> files = lang::Library::builtin_files();
  for (const std::string& folder : options.operator_folders) {
    MLC_ASSIGN(std::vector<lang::SourceFile> own, lang::Library::read_directory(folder));
    files.insert(files.end(), own.begin(), own.end());
  }
  MLC_ASSIGN(const lang::Library library, lang::Library::parse(files));
  MLC_ASSIGN(Sources sources, load_sources(options.model_path, options.pipeline_path));
  CheckReport report;
  report.models = sources.models.size();
  for (const SourceModel& source : sources.models) {
    report.opset = std::max(report.opset, source.model.opsets.at("ai.onnx"));
    count_nodes(library, source.model, report);
    report.problem = check_operators(library, source.model);
    if (!report.problem.ok()) return report;
  }
  ir::Context ctx;
  MLC_RETURN_IF_ERROR(apply(ctx, options.interface, sources));
  std::vector<Program> programs;
  std::map<const ir::Sym*, int64_t> typical;
  for (const SourceModel& source : sources.models) {
    const std::string remark = defaults_remark(source.model);
    report.remark += (report.remark.empty() || remark.empty() ? "" : "; ") + remark;
    auto function = expand_model(ctx, library, source.model, source.program);
    if (!function.ok()) {
      report.problem = std::move(function).status();
      return report;
    }
    if (programs.empty()) MLC_RETURN_IF_ERROR(pair_states(options.interface.states, *function));
    const auto extents = typical_extents(*function);
    describe_ports(*function, sources.models.size() > 1 || sources.are_named ? source.program + "." : "", report);
    count_decisions(*function, report);
    report.cost.add(estimate(*function, extents));
    typical.insert(extents.begin(), extents.end());
    programs.push_back({.function = std::move(*function)});
  }
  describe_extents(typical, report);
  for (const pipeline::Pipeline& p : sources.pipelines.parsed.pipelines) report.pipelines.push_back(described(p));
  auto around = expand_pipelines(ctx, library, sources.programs(), sources.pipelines);
  if (!around.ok()) {
    report.problem = std::move(around).status();
    return report;
  }
  for (nest::Function& pipeline : *around) programs.push_back({.function = std::move(pipeline), .is_pipeline = true});
  report.is_tried = std::all_of(programs.begin(), programs.end(), [](const Program& p) { return num_statements(p.function) <= kMostTried; });
  if (report.is_tried) report.problem = compile_all_but_code(ctx, library, std::move(programs), typical, options.targets, report);
  if (!report.problem.ok()) return report;
  for (const targets::Target& target : targets::all_targets()) {
    const bool is_asked = options.targets.empty() || std::find(options.targets.begin(), options.targets.end(), &target) != options.targets.end();
    if (target.machine != Machine::None && is_asked) report.native.push_back(target.name);
  }
  return report;
}

std::string CheckReport::Device::text() const {
  constexpr size_t kShown = 8;
  std::vector<const Node*> apart;
  for (const Node& node : nodes)
    if (!node.compiles) apart.push_back(&node);
  std::string others;
  for (const std::string& program : lacking) others += (others.empty() ? "" : ", ") + program;
  std::string out = line(target, !why.empty()    ? "no variant: " + why
                                 : has_variant && !others.empty() ? "compiles but for " + others + ", on the processor because of"
                                 : has_variant ? "compiles: " + std::to_string(nodes.size() - apart.size()) + " nodes on the device" +
                                                     (apart.empty() ? "" : ", " + std::to_string(apart.size()) + " between its kernels on the processor")
                                               : "no variant: all of it runs on the processor, because of");
  for (size_t k = 0; k < std::min(kShown, apart.size()); ++k) out += line("", apart[k]->node + ": " + apart[k]->why);
  if (apart.size() > kShown) out += line("", "and " + std::to_string(apart.size() - kShown) + " more, which --json lists");
  return out;
}

std::string CheckReport::text() const {
  std::string out = (models > 1 ? line("models", std::to_string(models)) : "") + line("opset", std::to_string(opset)) + line("nodes", std::to_string(nodes)) + line("parameters", std::to_string(parameters));
  out += interface_lines(ports);
  for (const std::string& pipeline : pipelines) out += line("pipeline", pipeline);
  std::string free;
  for (const std::string& extent : free_extents) free += (free.empty() ? "" : "   ") + extent;
  if (!free.empty()) out += line("free", free);
  if (!remark.empty()) out += line("defaults", remark);
  for (const auto& [name, count] : operators) {
    const int64_t version = versions.at(name);
    out += "  " + std::to_string(count) + " × " + name + (version ? " (definition of opset " + std::to_string(version) + ")" : "") + "\n";
  }
  if (!problem.ok()) return out;
  const std::string least = cost.at_least ? "at least " : "";
  out += line("work", least + scaled(cost.operations, 1000, {"operations", "thousand operations", "million operations", "billion operations", "trillion operations"}) +
                          " per run" + (assumed.empty() ? "" : " for " + assumed));
  out += line("memory", least + scaled(cost.constant_bytes, 1024, {"B", "KiB", "MiB", "GiB"}) + " of constants and " + least +
                            scaled(cost.activation_bytes, 1024, {"B", "KiB", "MiB", "GiB"}) + " of arrays alive at once");
  static const std::map<std::string, std::pair<const char*, const char*>> kWords = {
      {"branch", {"branch", "branches"}}, {"list", {"step on a list", "steps on lists"}}, {"loop", {"loop", "loops"}},
      {"service", {"service of the application", "services of the application"}}, {"size", {"size read from data", "sizes read from data"}}};
  std::string run_time;
  for (const auto& [kind, count] : decided) run_time += (run_time.empty() ? "" : ", ") + std::to_string(count) + " " + (count == 1 ? kWords.at(kind).first : kWords.at(kind).second);
  if (!run_time.empty()) out += line("at run time", run_time + ": steps of the plan between kernels, on every target");
  constexpr size_t kShown = 5;
  for (size_t k = 0; k < slow.size() && k < kShown; ++k) {
    char share[16];
    std::snprintf(share, sizeof share, "%.0f %%", 100 * slow[k].share);
    out += line(k == 0 ? "slow" : "", slow[k].node + ": " + share + " of the work, one element at a time");
  }
  std::string targets;
  for (const std::string& target : native) targets += target + " ";
  for (const Device& device : devices) out += device.text();
  const bool asked = !devices.empty() || native.size() < num_native();
  return out + line("runs on", targets + (native.empty() ? "" : "(machine code), ") + "portable (interpreted)") +
         (is_tried ? asked ? "" : "  compiles for every target\n"
                   : "  operators and extents are right; of more than " + std::to_string(kMostTried) + " operations in all, the rest is seen by build\n");
}

}  // namespace mlc::compile
