#include "packager/cli/build_commands.h"

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>

#include <CLI/CLI.hpp>

#include "base/cli/program.h"
#include "base/cli/report.h"
#include "base/nearest_name.h"
#include "packager/cli/container_file.h"
#include "packager/cli/dump_files.h"
#include "packager/cli/golden_files.h"
#include "packager/cli/progress.h"
#include "packager/cli/self_test.h"
#include "packager/compile/build.h"
#include "packager/compile/check.h"
#include "packager/compile/code_cache.h"
#include "targets/target.h"

namespace mlc::cli {
namespace {

using nlohmann::ordered_json;

// Of golden vectors, relative to the largest output: what a model of some dozen layers loses to factors of 8 bits.
constexpr double kToleranceOfBf16 = 3e-2;

struct BuildFlags {
  compile::BuildOptions options;
  std::vector<std::string> targets, dims, golden;
  std::string progress = "auto", forms = "all", precision = "f32", derived;
  std::string dump_folder;
  bool force = false, no_sign = false, no_selftest = false, no_cache = false, as_json = false;
};

Result<std::vector<const targets::Target*>> targets_named(const std::vector<std::string>& names) {
  std::vector<const targets::Target*> found;
  std::vector<std::string> problems;
  const auto add = [&](const targets::Target* target) {
    if (std::find(found.begin(), found.end(), target) == found.end()) found.push_back(target);
  };
  for (const std::string& name : names) {
    if (name == "all") {
      for (const targets::Target& target : targets::all_targets()) add(&target);
    } else if (name == "native") {
      add(targets::native_target());
    } else if (const targets::Target* target = targets::find_target(name)) {
      add(target);
    } else {
      std::vector<std::string> known = {"all", "native"};
      for (const targets::Target& target : targets::all_targets()) known.push_back(target.name);
      problems.push_back(unknown_word("target", name, known));
    }
  }
  if (!problems.empty()) {
    Status status(Code::Usage, problems.front());
    status.facts.assign(problems.begin() + 1, problems.end());
    return std::move(status).hint("mlpack targets");
  }
  return found;
}

// "batch=1..8" or "width=320"
Result<compile::DimBound> parse_dim(const std::string& text) {
  const Status wrong(Code::Usage, "--dim '" + text + "' is not NAME=LOW..HIGH or NAME=VALUE");
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return wrong;
  compile::DimBound bound;
  bound.name = text.substr(0, equals);
  const std::string range = text.substr(equals + 1);
  const size_t dots = range.find("..");
  const auto parse = [](const std::string& digits, int64_t& out) {
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
  };
  const bool good = dots == std::string::npos ? parse(range, bound.lo) && (bound.hi = bound.lo, true)
                                              : parse(range.substr(0, dots), bound.lo) && parse(range.substr(dots + 2), bound.hi);
  if (!good || bound.lo < 0) return wrong;
  if (bound.hi < bound.lo)
    return Status(Code::Usage, "--dim '" + text + "': the low bound " + std::to_string(bound.lo) + " is above the high bound " + std::to_string(bound.hi));
  return bound;
}

Result<std::vector<compile::DimBound>> parse_dims(const std::vector<std::string>& texts) {
  std::vector<compile::DimBound> dims;
  for (const std::string& text : texts) {
    MLC_ASSIGN(compile::DimBound bound, parse_dim(text));
    dims.push_back(std::move(bound));
  }
  return dims;
}

// "none" or a number of bytes
Result<uint64_t> parse_derived(const std::string& text) {
  uint64_t bytes = 0;
  if (text == "none") return bytes;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error == std::errc() && end == text.data() + text.size()) return bytes;
  return Status(Code::Usage, "--derived '" + text + "' is neither none nor a number of bytes");
}

std::string megabytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

// What a build found in the folder of compiled kernels.
void report_cache(const compile::BuildReport::Cache& cache, std::ostringstream& text, ordered_json& json) {
  json = {{"found", cache.found}, {"compiled", cache.compiled}};
  if (!cache.unused.ok()) json["unused"] = cache.unused.message;
  if (!cache.unused.ok()) text << "  cache     not used: " << cache.unused.message << "\n";
  else if (cache.found) text << "  cache     " << cache.found << " of " << cache.found + cache.compiled << " kernels were compiled before\n";
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

Result<Report> run_build(BuildFlags& flags) {
  MLC_ASSIGN(flags.options.targets, targets_named(flags.targets));
  MLC_ASSIGN(flags.options.dims, parse_dims(flags.dims));
  for (const std::string& path : flags.golden) {
    MLC_ASSIGN(compile::GivenVector vector, read_golden(path));
    flags.options.golden.push_back(std::move(vector));
  }
  flags.options.forms = flags.forms != "none";
  if (flags.precision == "bf16") {
    flags.options.products_in_bf16 = true;
    flags.options.tolerance = kToleranceOfBf16;
  }
  if (!flags.derived.empty()) {
    MLC_ASSIGN(flags.options.most_derived, parse_derived(flags.derived));
  }
  MLC_RETURN_IF_ERROR(set_up_dump(flags));
  flags.options.sign = !flags.no_sign;
  if (flags.no_cache) flags.options.cache_folder.clear();
  else if (flags.options.cache_folder.empty())
    if (auto folder = compile::code_cache_folder(); folder.ok()) flags.options.cache_folder = std::move(folder).value();
  MLC_RETURN_IF_ERROR(may_write(flags.options.output_path, flags.force));
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
  ordered_json variants = ordered_json::array();
  for (const auto& v : built->variants) {
    text << (variants.empty() ? " " : " · ") << v.name << " " << megabytes(v.module_bytes + v.plan_bytes);
    variants.push_back({{"name", v.name}, {"module_bytes", v.module_bytes}, {"plan_bytes", v.plan_bytes}, {"kernels", v.kernels}, {"launches", v.launches}});
  }
  const std::string root = "sha256:" + to_hex(built->root);
  text << "\n  wrote     " << flags.options.output_path << "   " << megabytes(built->file_bytes) << "   root " << root << "   "
       << (built->key_name.empty() ? "not signed" : "signed by " + built->key_name) << "\n";
  ordered_json cache = nullptr;
  if (built->cache) report_cache(*built->cache, text, cache);
  text << "  tested    " << (tested ? tested->text() : "nothing: --no-selftest") << "\n";
  report.text = text.str();
  ordered_json selftest = nullptr;
  if (tested) {
    selftest = {{"vectors", tested->vectors}, {"variants", ordered_json::array()}};
    for (const auto& v : tested->variants) {
      ordered_json entry = {{"name", v.name}, {"vectors", v.vectors}};
      if (!v.reason.empty()) entry["reason"] = v.reason;
      selftest["variants"].push_back(std::move(entry));
    }
  }
  report.json = {{"file", flags.options.output_path}, {"root", root}, {"bytes", built->file_bytes}, {"key", built->key_name}, {"variants", variants}, {"selftest", selftest},
                 {"cache", cache}, {"phases", ordered_json::array()}, {"warnings", built->warnings}};
  for (const ProgressLine::Phase& phase : progress.phases()) report.json["phases"].push_back({{"name", phase.name}, {"seconds", phase.seconds}});
  return report;
}

void add_build(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<BuildFlags>();
  CLI::App* command = add_command(app, "build", "compile a model and pack it into one signed file",
                                  "  mlpack build model.onnx -o model.mlc\n"
                                  "  mlpack build m.onnx --pipeline p.json --target x86-64-v3,armv8-a -o m.mlc\n",
                                  flags->as_json);
  auto& o = flags->options;
  command->add_option("MODEL", o.model_path, "ONNX file")->required();
  command->add_option("-o,--output", o.output_path, "the container to write")->required();
  command->add_option("--target", flags->targets, "targets, separated by commas: names of 'mlpack targets'; native, the best that this machine can run; all, of which the file gets those that gain something by their instructions (default)")
      ->delimiter(',')->default_val(std::vector<std::string>{"all"})->default_str("all");
  command->add_option("--pipeline", o.pipeline_path, "pre- and post-processing (pipeline.json)");
  command->add_option("--dim", flags->dims, "bounds of a free extent, NAME=LOW..HIGH, or NAME=VALUE to freeze it");
  command->add_option("--ops", o.operator_folders, "folder with operators of your own (*.mlop)");
  command->add_option("--forms", flags->forms, "all, or none: whether convolutions may be computed with fewer multiplications, which rounds a little more")
      ->check(CLI::IsMember({"all", "none"}))->default_val("all");
  command->add_option("--precision", flags->precision, "f32, or bf16: of what products with weights multiply; bf16 halves these weights and rounds to 8 bits, sums stay f32")
      ->check(CLI::IsMember({"f32", "bf16"}))->default_val("f32");
  command->add_option("--derived", flags->derived, "memory for constants that are computed when the model is opened: none or BYTES (default: 64 MiB)");
  command->add_option("--id", o.id, "model id, organisation/name (default local/<file name>)");
  command->add_option("--model-version", o.version, "version of the model, 1 or more");
  command->add_option("--key", o.key_path, "private key to sign with (default: this user's own key)");
  command->add_flag("--no-sign", flags->no_sign, "leave the container unsigned");
  command->add_option("--golden", flags->golden, "inputs of a golden vector (.npz), once for each, instead of drawn ones");
  command->add_option("--golden-time", o.golden_seconds, "seconds that may be spent on drawing golden vectors and answering them; where they do not suffice the file has none")
      ->check(CLI::NonNegativeNumber)->default_val(o.golden_seconds);
  command->add_flag("--no-selftest", flags->no_selftest, "write the file without running its golden vectors here");
  command->add_option("--threads", o.threads, "threads that compile at once; the file does not depend on it (default: one per core)")->check(CLI::Range(1, 4096));
  command->add_option("--cache", o.cache_folder, "folder of kernels compiled before (default: this user's own; see mlpack cache)");
  command->add_flag("--no-cache", flags->no_cache, "compile all kernels, keep none");
  command->add_option("--progress", flags->progress, "auto, tty, plain or none")->check(CLI::IsMember({"auto", "tty", "plain", "none"}));
  command->add_option("--dump", o.dump.levels, "show, separated by commas: the program as it was read (import), as nests (expand), behind a pass (its name) or all of them (passes); of each kernel its nest, schedule, loop, llvm, asm")
      ->delimiter(',');
  command->add_option("--only", o.dump.only, "of kernels show this one, called as mlrun profile calls it");
  command->add_option("--dump-dir", flags->dump_folder, "write what --dump shows to files in this folder, instead of standard output");
  command->add_flag("-f,--force", flags->force, "replace an output file that is no container");
  command->callback([flags, &exit_code] { exit_code = finish("build", flags->as_json, run_build(*flags)); });
}

void add_targets(CLI::App& app, int& exit_code) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command = add_command(app, "targets", "list what this build can compile for", "  mlpack targets\n  mlpack targets --json\n", *as_json);
  command->callback([as_json, &exit_code] {
    Report report;
    report.json["targets"] = ordered_json::array();
    for (const targets::Target& target : targets::all_targets()) {
      std::string features;
      for (const std::string& feature : target.features) features += (features.empty() ? "" : " ") + feature;
      char line[64];
      std::snprintf(line, sizeof line, "%-24s", target.name.c_str());
      report.text += line + (features.empty() ? std::string("runs everywhere, interpreted") : features) + "\n";
      report.json["targets"].push_back({{"name", target.name}, {"features", target.features}, {"vector_bytes", target.vector_bytes}});
    }
    exit_code = finish("targets", *as_json, report);
  });
}

void add_check(CLI::App& app, int& exit_code) {
  struct Flags {
    compile::CheckOptions options;
    std::vector<std::string> dims;
    bool as_json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = add_command(app, "check", "tell whether and how a model will compile",
                                  "  mlpack check model.onnx\n  mlpack check model.onnx --pipeline pipeline.json\n", flags->as_json);
  command->add_option("MODEL", flags->options.model_path, "ONNX file")->required();
  command->add_option("--pipeline", flags->options.pipeline_path, "pre- and post-processing (pipeline.json)");
  command->add_option("--dim", flags->dims, "bounds of a free extent, as of build");
  command->add_option("--ops", flags->options.operator_folders, "folder with operators of your own (*.mlop)");
  command->callback([flags, &exit_code] {
    const auto run = [&]() -> Result<Report> {
      MLC_ASSIGN(flags->options.dims, parse_dims(flags->dims));
      MLC_ASSIGN(const compile::CheckReport found, compile::check(flags->options));
      Report report;
      report.text = found.text();
      ordered_json slow = ordered_json::array();
      for (const auto& [node, share] : found.slow) slow.push_back({{"node", node}, {"share", share}});
      report.json = {{"opset", found.opset}, {"nodes", found.nodes}, {"operators", found.operators}, {"versions", found.versions}, {"parameters", found.parameters},
                     {"inputs", found.inputs}, {"outputs", found.outputs}, {"pipelines", found.pipelines}, {"free_extents", found.free_extents}, {"assumed", found.assumed},
                     {"operations", found.cost.operations}, {"constant_bytes", found.cost.constant_bytes}, {"activation_bytes", found.cost.activation_bytes},
                     {"at_least", found.cost.at_least}, {"decided_at_run_time", found.decided}, {"slow", slow}, {"tried", found.is_tried}, {"native_targets", found.native}};
      report.failure = found.problem;
      return report;
    };
    exit_code = finish("check", flags->as_json, run());
  });
}

}  // namespace

void add_build_commands(CLI::App& app, int& exit_code) {
  add_build(app, exit_code);
  add_check(app, exit_code);
  add_targets(app, exit_code);
}

}  // namespace mlc::cli
