#include "packager/cli/build/build_commands.h"

#include <cmath>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>

#include "base/cli/program.h"
#include "base/cli/report.h"
#include "base/counted.h"
#include "base/text/shell_word.h"
#include "packager/cli/build/dump_files.h"
#include "packager/cli/build/golden_files.h"
#include "packager/cli/build/self_test.h"
#include "packager/cli/build/starter.h"
#include "packager/cli/container_file.h"
#include "packager/cli/executable/executable_commands.h"
#include "packager/cli/model_flags.h"
#include "packager/cli/progress.h"
#include "packager/cli/tune/tune_commands.h"
#include "packager/cli/tune/tune_ops.h"
#include "packager/compile/build.h"
#include "packager/compile/cache/code_cache.h"
#include "packager/compile/check.h"
#include "packager/compile/interface_text.h"
#include "packager/import/onnx.h"
#include "signing/files/file.h"
#include "targets/target_groups.h"

namespace mlc::cli {
namespace {

constexpr char kModelHelp[] = "ONNX file, a folder of Transformers with one, or a pipeline.json that names several";

struct BuildFlags {
  compile::BuildOptions options;
  ModelFlags model;
  std::vector<std::string> targets = {std::string(targets::kDefaultGroup)}, golden;
  std::string progress = "auto", tuned;
  std::vector<std::string> cubins = {"auto"};
  std::string dump_folder;
  std::string executable, runner;
  bool tuned_by_others = false, force = false, no_sign = false, no_selftest = false, no_golden = false, no_cache = false, no_program = false, as_json = false;
};

std::string megabytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

// What a build found in the folder of compiled kernels.
void report_cache(const compile::BuildReport::Cache& cache, std::ostringstream& text, Json& json) {
  json = {{"found", cache.found}, {"compiled", cache.compiled}};
  if (!cache.unused.ok()) json["unused"] = cache.unused.message;
  if (!cache.unused.ok()) text << "  cache     not used: " << cache.unused.message << "\n";
  else if (cache.found) text << "  cache     " << cache.found << " of " << cache.found + cache.compiled << " kernels were compiled before\n";
}

// Of a program whose bodies could not be measured: how far its answers were off where they ran in a variant that rounds; 0: in none.
double error_of_runs(const std::string& program, const std::optional<SelfTestReport>& tested) {
  double most = 0;
  if (!tested) return 0;
  for (const SelfTestReport::Variant& v : tested->variants)
    if (const auto found = v.errors.find(program); found != v.errors.end()) most = std::max(most, found->second);
  return most;
}

// Programs of which it is not known what rounded factors cost, or only from runs.
void report_unmeasured(const compile::BuildReport& built, const std::optional<SelfTestReport>& tested, passes::Precision precision, std::ostringstream& text, Json& json) {
  if (built.unmeasured.empty()) return;
  const std::string type(passes::name_of(precision));
  if (!built.rounding) json = {{"type", type}, {"program", nullptr}, {"output", nullptr}, {"error", nullptr}};
  Json list = Json::array();
  for (const compile::Rounding& r : built.unmeasured) {
    const bool has_control = r.unknown == compile::Rounding::Unknown::ControlFlow;
    // Processors compute in f32 in a file of tf32.
    const double error = has_control && precision != passes::Precision::TF32 ? error_of_runs(r.program, tested) : 0;
    text << "  precision " << type << ": ";
    Json entry = {{"program", r.program}, {"error", nullptr}};
    if (error > 0) {
      char figure[80];
      std::snprintf(figure, sizeof figure, " is off by %.2g %% of the largest value of an output", 100 * error);
      text << r.program << figure << " where its vectors ran here, which has control flow\n";
      entry["error"] = error;
    } else {
      const std::string why = has_control ? "it has control flow, and was run by nothing that rounds" : "its answers to drawn inputs are saturated, whatever is rounded; --golden in.npz measures inputs of yours";
      text << "what it costs " << r.program << " is not known: " << why << "\n";
      entry["reason"] = why;
    }
    list.push_back(std::move(entry));
  }
  json["not_measured"] = std::move(list);
}

// What rounded factors cost.
void report_rounding(const compile::Rounding& most, std::string_view precision, std::ostringstream& text, Json& json) {
  json = {{"type", std::string(precision)}, {"program", most.program}, {"output", most.output}, {"error", nullptr}};
  char error[48] = "of another shape";
  if (std::isfinite(most.error)) {
    json["error"] = most.error;
    std::snprintf(error, sizeof error, "off by %.2g %% of its largest value", 100 * most.error);
  }
  text << "  precision " << precision << ": '" << printable(most.output) << "' of " << most.program << " is " << error << ", which is the most\n";
}

// Empty without --tuned.
Result<tune::Records> records_of(const BuildFlags& flags) {
  if (flags.tuned.empty()) return tune::Records();
  MLC_ASSIGN(tune::Records all, read_records(flags.tuned));
  if (flags.tuned_by_others) return all;
  tune::Records own = all.of_compiler(compiler_name());
  if (const size_t others = all.all().size() - own.all().size(); others > 0)
    note("warning: " + counted(others, "record") + " of '" + printable(flags.tuned) + "' are of another version of mlpack and not followed: mlpack tune again, or --tuned-by-others");
  return own;
}

// Where --dump shows things.
Status set_up_dump(BuildFlags& flags) {
  compile::DumpOptions& dump = flags.options.dump;
  if (dump.levels.empty()) {
    if (!dump.only.empty() || !flags.dump_folder.empty()) return Status(Code::Usage, "--only and --dump-dir go with --dump");
    return ok();
  }
  if (flags.dump_folder.empty()) {
    if (flags.as_json) return Status(Code::Usage, "--dump and --json both write to standard output").hint("--dump-dir DIR");
    dump.show = show_on_stdout;
    return ok();
  }
  dump.show = DumpFolder(flags.dump_folder);
  return ok();
}

// "x86-64-v4 12 records"
std::string tuned_text(const compile::BuildReport& built) {
  std::string out;
  for (const auto& v : built.variants)
    if (v.tuned > 0) out += (out.empty() ? "" : " · ") + v.name + " " + counted(v.tuned, "record");
  return out.empty() ? "nothing: no record is better than what this mlpack does" : out;
}

// --cubin: "auto", "none", or architectures.
Status set_up_cubins(BuildFlags& flags) {
  if (flags.cubins == std::vector<std::string>{"none"}) return ok();
  compile::BuildOptions::Cubins& cubins = flags.options.cubins.emplace();
  const char* const path = std::getenv("PATH");
  cubins.folders = std::string(path ? path : "") + ":/usr/local/cuda/bin";
  if (flags.cubins == std::vector<std::string>{"auto"}) return ok();
  for (const std::string& word : flags.cubins) {
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size() || number < 75 || number > 255)
      return Status(Code::Usage, "--cubin '{}': expected auto, none, or compute capabilities such as 80,90", printable(word));
    cubins.architectures.push_back(number);
  }
  return ok();
}

// "cuda-sm80 for 80, 86: 12 kernels, at most 64 registers, no spill"
std::string cubins_text(const compile::BuildReport& built) {
  std::string out;
  for (const auto& v : built.variants) {
    if (v.cubins.architectures.empty()) continue;
    out += (out.empty() ? "" : " · ") + v.name + " for ";
    for (const uint32_t a : v.cubins.architectures) out += (a == v.cubins.architectures.front() ? "" : ", ") + std::to_string(a);
    uint64_t registers = 0, spills = 0;
    for (const auto& k : v.cubins.kernels) registers = std::max(registers, k.registers), spills += k.spilled_bytes > 0;
    out += ": at most " + std::to_string(registers) + " registers, " + (spills ? counted(spills, "kernel") + " with spills" : std::string("no spill"));
  }
  return out.empty() ? "none: " + built.no_cubins : out;
}

Json cubins_json(const targets::ptx::CubinReport& cubins) {
  Json kernels = Json::array();
  for (const auto& k : cubins.kernels) kernels.push_back({{"name", k.name}, {"registers", k.registers}, {"spilled_bytes", k.spilled_bytes}, {"stack_bytes", k.stack_bytes}});
  return {{"architectures", cubins.architectures}, {"kernels", std::move(kernels)}, {"left_out", cubins.left_out}};
}

Result<Report> run_build(BuildFlags& flags) {
  MLC_ASSIGN(flags.options.targets, targets_named(flags.targets));
  MLC_RETURN_IF_ERROR(set_up_cubins(flags));
  MLC_RETURN_IF_ERROR(apply(flags.model, flags.options));
  for (const std::string& path : flags.golden) {
    MLC_ASSIGN(compile::GivenVector vector, read_golden(path));
    flags.options.golden.push_back(std::move(vector));
  }
  MLC_ASSIGN(const tune::Records records, records_of(flags));
  if (!flags.tuned.empty()) follow(records, flags.options);
  MLC_RETURN_IF_ERROR(set_up_dump(flags));
  flags.options.sign = !flags.no_sign;
  if (!flags.no_program) flags.options.program = to_text(flags.model);
  if (flags.no_golden && !flags.golden.empty()) return Status(Code::Usage, "--golden and --no-golden exclude each other");
  if (flags.no_golden) flags.options.golden_seconds = 0;
  if (flags.no_cache) flags.options.cache_folder.clear();
  else if (flags.options.cache_folder.empty())
    if (auto folder = compile::code_cache_folder(); folder.ok()) flags.options.cache_folder = std::move(folder).value();
  MLC_RETURN_IF_ERROR(container::may_write(flags.options.output_path, flags.force));
  const ExecutableOptions executable{flags.options.output_path, flags.executable, flags.runner, flags.force};
  if (!flags.executable.empty()) MLC_RETURN_IF_ERROR(may_write_executable(executable));
  else if (!flags.runner.empty()) return Status(Code::Usage, "--runner goes with --executable");
  ProgressLine progress(flags.progress, flags.as_json);
  flags.options.progress = [&](const compile::Stage& stage) { progress.show(stage); };
  std::optional<SelfTestReport> tested;
  if (!flags.no_selftest)
    flags.options.accept = [&](const compile::FinishedFile& file) -> Status {
      MLC_ASSIGN(tested, self_test(file, flags.options.progress));
      return ok();
    };
  auto built = compile::build(flags.options);
  progress.clear();
  if (!built.ok()) return std::move(built).status();
  if (!flags.as_json)
    for (const std::string& warning : built->warnings) note("warning: " + printable(warning));
  Report report;
  std::ostringstream text;
  text << "  import    " << flags.options.model_path << "   " << built->model_line << "\n  variants ";
  Json variants = Json::array();
  for (const auto& v : built->variants) {
    text << (variants.empty() ? " " : " · ") << v.name << " " << megabytes(v.module_bytes + v.plan_bytes);
    variants.push_back({{"name", v.name}, {"module_bytes", v.module_bytes}, {"plan_bytes", v.plan_bytes}, {"kernels", v.kernels}, {"launches", v.launches}, {"tuned", v.tuned}});
    if (!v.cubins.architectures.empty()) variants.back()["cubins"] = cubins_json(v.cubins);
  }
  const std::string root = "sha256:" + to_hex(built->root);
  text << "\n  wrote     " << flags.options.output_path << "   " << megabytes(built->file_bytes) << "   root " << root << "   "
       << (built->key_name.empty() ? "not signed" : "signed by " + built->key_name) << "\n";
  const bool has_cubins = std::any_of(built->variants.begin(), built->variants.end(), [](const auto& v) { return !v.cubins.architectures.empty(); });
  if (has_cubins || !built->no_cubins.empty()) text << "  cubins    " << cubins_text(*built) << "\n";
  if (!built->no_program.empty()) text << "  program   not kept: " << printable(built->no_program) << "\n";
  if (!flags.tuned.empty()) text << "  tuned     " << tuned_text(*built) << "\n";
  Json cache = nullptr;
  if (built->cache) report_cache(*built->cache, text, cache);
  Json precision = nullptr;
  if (built->rounding) report_rounding(*built->rounding, passes::name_of(flags.options.precision), text, precision);
  report_unmeasured(*built, tested, flags.options.precision, text, precision);
  text << "  tested    " << (tested ? tested->text() : "nothing: --no-selftest") << "\n";
  for (const auto& hidden : built->hidden)
    text << "            of " << hidden.tried << " steps of " << hidden.program << " that were made wrong the vector does not show " << hidden.nodes.size() << ": " << printable(hidden.nodes.front())
         << (hidden.nodes.size() > 1 ? ", ..." : "") << "\n";
  report.text = text.str();
  Json selftest = nullptr;
  if (tested) {
    selftest = {{"vectors", tested->vectors}, {"variants", Json::array()}, {"hidden", Json::array()}};
    for (const auto& hidden : built->hidden) selftest["hidden"].push_back({{"program", hidden.program}, {"tried", hidden.tried}, {"nodes", hidden.nodes}});
    for (const auto& v : tested->variants) {
      Json entry = {{"name", v.name}, {"vectors", v.vectors}};
      if (!v.device.empty()) entry["device"] = v.device;
      if (!v.reason.empty()) entry["reason"] = v.reason;
      selftest["variants"].push_back(std::move(entry));
    }
  }
  report.json = {{"file", flags.options.output_path}, {"root", root}, {"bytes", built->file_bytes}, {"key", built->key_name}, {"variants", variants}, {"selftest", selftest},
                 {"precision", precision}, {"cache", cache}, {"phases", Json::array()}, {"warnings", built->warnings}};
  if (!built->no_program.empty()) report.json["no_program"] = built->no_program;
  if (!flags.executable.empty()) {
    MLC_ASSIGN(const ExecutableResult written, write_executable(executable));
    const Report added = report_of(written);
    report.text += "  " + added.text;
    report.json["executable"] = added.json;
  }
  for (const ProgressLine::Phase& phase : progress.phases()) report.json["phases"].push_back({{"name", phase.name}, {"seconds", phase.seconds}});
  return report;
}

void add_build(Program& program) {
  auto flags = std::make_shared<BuildFlags>();
  const Command command = program.add_command("build", "compile a model and pack it into one signed file",
                                              "  mlpack build model.onnx -o model.mlc\n"
                                              "  mlpack build m.onnx --pipeline p.json --target x86-64-v3,armv8-a -o m.mlc\n",
                                              flags->as_json);
  auto& o = flags->options;
  command.add_option("-o,--output", o.output_path, "the container to write").required();
  command.add_option("--target", flags->targets, "targets and groups of 'mlpack targets', separated by commas, of which the file gets those that gain something by their instructions; native, the best that this machine can run; vulkan or cuda, all of such devices but cuda-sm90a and vulkan-matrix, beside those of processors")
      .separated_by(',').shows_default(std::string(targets::kDefaultGroup));
  command.add_option("--cubin", flags->cubins, "code of CUDA that drivers need not compile, beside its text: auto, where NVIDIA's ptxas is in PATH or in /usr/local/cuda/bin; none; or for compute capabilities, 80,86,90, which needs ptxas")
      .separated_by(',').shows_default("auto");
  command.add_option("--pipeline", o.pipeline_path, "pre- and post-processing (pipeline.json)");
  add_model_flags(command, flags->model, kModelHelp);
  command.add_option("--tuned", flags->tuned, "records of mlpack tune, whose schedules are taken where they are better");
  command.add_flag("--tuned-by-others", flags->tuned_by_others, "also follow records that another version of mlpack has made");
  command.add_option("--id", o.id, "model id, organisation/name (default local/<file name>)");
  command.add_option("--model-version", o.version, "version of the model, 1 or more");
  command.add_option("--key", o.key_path, "private key to sign with (default: this user's own key)");
  command.add_option("--key-passphrase", o.key_passphrase, "of an encrypted key: file:PATH, or fd:N for a descriptor");
  command.add_flag("--no-sign", flags->no_sign, "leave the container unsigned");
  command.add_option("--golden", flags->golden, "inputs of a golden vector (.npz), once for each, instead of drawn ones");
  command.add_option("--golden-time", o.golden_seconds, "the most work for golden vectors, in seconds of one core, counted and not timed; beyond it the build fails; 0 is --no-golden")
      .not_negative().shows_default();
  command.add_flag("--no-golden", flags->no_golden, "no golden vectors: the file is not tested here and cannot be tested elsewhere");
  command.add_flag("--no-program", flags->no_program, "keep nothing of the model by which mlpack add could compile more targets");
  command.add_flag("--no-selftest", flags->no_selftest, "write the file without running its golden vectors here");
  command.add_option("--threads", o.threads, "threads that compile at once; the file does not depend on it (default: one per core)").within(1, 4096);
  command.add_option("--cache", o.cache_folder, "folder of kernels compiled before (default: this user's own; see mlpack cache)");
  command.add_flag("--no-cache", flags->no_cache, "compile all kernels, keep none");
  command.add_option("--progress", flags->progress, "auto, tty, plain or none").one_of({"auto", "tty", "plain", "none"});
  command.add_option("--dump", o.dump.levels, "show, separated by commas: the program as it was read (import), as nests (expand), behind a pass (its name) or all of them (passes); of each kernel its nest, schedule, loop, llvm, asm")
      .separated_by(',');
  command.add_option("--only", o.dump.only, "of kernels show this one, called as mlrun profile calls it");
  command.add_option("--dump-dir", flags->dump_folder, "write what --dump shows to files in this folder, instead of standard output");
  command.add_option("--executable", flags->executable, "also write a file that runs by itself: mlrun and the container (mlpack executable)");
  command.add_option("--runner", flags->runner, kRunnerHelp);
  command.add_flag("-f,--force", flags->force, "replace an output file that is no container");
  command.on_run([flags] { return finish("build", flags->as_json, run_build(*flags)); });
}

void add_targets(Program& program) {
  auto as_json = std::make_shared<bool>(false);
  const Command command = program.add_command("targets", "list what this build can compile for", "  mlpack targets\n  mlpack targets --json\n", *as_json);
  command.on_run([as_json] {
    Report report;
    report.json["targets"] = Json::array();
    std::vector<const targets::Target*> all;
    for (const auto some : {targets::all_targets(), targets::device_targets()})
      for (const targets::Target& target : some) all.push_back(&target);
    for (const targets::Target* each : all) {
      const targets::Target& target = *each;
      std::string features;
      for (const std::string& feature : target.features) features += (features.empty() ? "" : " ") + feature;
      char line[64];
      std::snprintf(line, sizeof line, "%-24s", target.name.c_str());
      report.text += line + (features.empty() ? std::string("runs everywhere, interpreted") : features) + "\n";
      report.json["targets"].push_back({{"name", target.name}, {"features", target.features}, {"vector_bytes", target.vector_bytes}});
    }
    report.json["groups"] = Json::array();
    for (const targets::TargetGroup& group : targets::target_groups()) {
      std::vector<std::string> names;
      for (const targets::Target* target : group.targets) names.push_back(target->name);
      std::string title(group.name);
      if (title.size() < 24) title.resize(24, ' ');
      std::string list;
      for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
      const bool is_default = group.name == targets::kDefaultGroup;
      report.text += title + std::string(group.about) + (is_default ? " (default): " : ": ") + list + "\n";
      report.json["groups"].push_back({{"name", group.name}, {"about", group.about}, {"targets", names}, {"default", is_default}});
    }
    return finish("targets", *as_json, report);
  });
}

void add_check(Program& program) {
  struct Flags {
    compile::CheckOptions options;
    ModelFlags model;  // those of its flags that check takes
    std::vector<std::string> targets;
    bool as_json = false;
  };
  auto flags = std::make_shared<Flags>();
  const Command command = program.add_command("check", "tell whether and how a model will compile",
                                              "  mlpack check model.onnx\n  mlpack check model.onnx --pipeline pipeline.json\n"
                                              "  mlpack check model.onnx --target cuda-sm80,native\n", flags->as_json);
  command.add_option("MODEL", flags->options.model_path, kModelHelp).required();
  command.add_option("--pipeline", flags->options.pipeline_path, "pre- and post-processing (pipeline.json)");
  command.add_option("--target", flags->targets, "targets as build takes them; for those of devices it is said of each node whether it compiles for them (default: all processors)")
      .separated_by(',');
  add_interface_flags(command, flags->model);
  command.add_option("--ops", flags->options.operator_folders, "folder with operators of your own (*.mlop)");
  command.on_run([flags] {
    const auto run = [&]() -> Result<Report> {
      MLC_ASSIGN(flags->options.interface, interface_of(flags->model));
      if (!flags->targets.empty()) {
        MLC_ASSIGN(flags->options.targets, targets_named(flags->targets));
      }
      MLC_ASSIGN(const compile::CheckReport found, compile::check(flags->options));
      Report report;
      report.text = found.text();
      Json slow = Json::array();
      for (const auto& [node, share] : found.slow) slow.push_back({{"node", node}, {"share", share}});
      Json devices = Json::array();
      for (const auto& device : found.devices) {
        Json nodes = Json::array();
        for (const auto& [node, compiles, why] : device.nodes) nodes.push_back({{"node", node}, {"compiles", compiles}, {"why", why}});
        devices.push_back({{"target", device.target}, {"has_variant", device.has_variant}, {"programs", device.programs}, {"why", device.why}, {"nodes", nodes}});
      }
      report.json = {{"opset", found.opset}, {"nodes", found.nodes}, {"operators", found.operators}, {"versions", found.versions}, {"parameters", found.parameters},
                     {"inputs", found.inputs}, {"outputs", found.outputs}, {"pipelines", found.pipelines}, {"free_extents", found.free_extents}, {"remark", found.remark}, {"assumed", found.assumed},
                     {"operations", found.cost.operations}, {"constant_bytes", found.cost.constant_bytes}, {"activation_bytes", found.cost.activation_bytes},
                     {"at_least", found.cost.at_least}, {"decided_at_run_time", found.decided}, {"slow", slow}, {"tried", found.is_tried}, {"native_targets", found.native}, {"devices", devices}};
      report.failure = found.problem;
      return report;
    };
    return finish("check", flags->as_json, run());
  });
}

void add_init(Program& program) {
  struct Flags {
    std::string model, output = "pipeline.json";
    bool force = false, as_json = false;
  };
  auto flags = std::make_shared<Flags>();
  const Command command = program.add_command("init", "write a pipeline to begin with, from a model",
                                              "  mlpack init model.onnx\n  mlpack init model.onnx -o page.json\n", flags->as_json);
  command.add_option("MODEL", flags->model, "ONNX file").required();
  command.add_option("-o,--output", flags->output, "the pipeline").shows_default();
  command.add_flag("-f,--force", flags->force, "replace a file that is there");
  command.on_run([flags] {
    const auto run = [&]() -> Result<Report> {
      MLC_ASSIGN(const model::Model model, import::import_onnx(flags->model));
      MLC_ASSIGN(const Starter starter, starter_for(model));
      MLC_RETURN_IF_ERROR(flags->force ? signing::replace_file(flags->output, starter.text, 0644) : signing::create_file(flags->output, starter.text, 0644));
      Report report;
      report.text = compile::line("wrote", flags->output + "   " + starter.what);
      for (const std::string& line : starter.assumed) report.text += compile::line("assumed", line);
      report.text += compile::line("next", "mlpack check " + shell_path(flags->model) + " --pipeline " + shell_path(flags->output) + "   (steps: man mlc-pipeline)");
      report.json = {{"file", flags->output}, {"what", starter.what}, {"assumed", starter.assumed}};
      return report;
    };
    return finish("init", flags->as_json, run());
  });
}

}  // namespace

void add_build_commands(Program& program) {
  add_init(program);
  add_build(program);
  add_check(program);
  add_targets(program);
}

}  // namespace mlc::cli
