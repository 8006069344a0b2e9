#include "packager/compile/build.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/compose.h"
#include "base/counted.h"
#include "base/run_on_threads.h"
#include "packager/compile/cache/code_cache.h"
#include "packager/compile/expand.h"
#include "packager/compile/golden/golden.h"
#include "packager/compile/source/golden_chunks.h"
#include "packager/compile/source/sources.h"
#include "packager/compile/source/states.h"
#include "packager/compile/programs.h"
#include "packager/compile/cache/recent_code.h"
#include "packager/compile/stored_program.h"
#include "packager/compile/weights.h"
#include "packager/container/builder.h"
#include "packager/container/output_file.h"
#include "packager/import/references.h"
#include "packager/model/print.h"
#include "packager/nest/text/print.h"
#include "packager/passes/passes.h"
#include "schema/validate/validate.h"
#include "signing/user_key.h"
#include "targets/families.h"

namespace mlc::compile {
namespace {

namespace fs = std::filesystem;

constexpr char kPipelineAsset[] = "pipeline.json";

// A model id from a file name: what the manifest allows of it.
// What a model without an id is called by: its file, or its folder.
std::string named_by(const std::string& given, const std::string& file) {
  if (given == file) return file;
  fs::path folder = fs::path(given).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  return folder.filename().string() + ".onnx";
}

std::string local_id(const std::string& path) {
  constexpr size_t kLongest = 200;
  std::string id;
  for (unsigned char c : fs::path(path).stem().string().substr(0, kLongest)) {
    const char lower = static_cast<char>(std::tolower(c));
    id += std::isalnum(c) || c == '.' || c == '-' ? lower : '_';
  }
  return "local/" + (id.empty() ? "model" : id);
}

std::string million(uint64_t n) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f M", static_cast<double>(n) / 1e6);
  return text;
}

class Build {
 public:
  explicit Build(const BuildOptions& options) : options_(options) {}

  Result<BuildReport> run() {
    MLC_RETURN_IF_ERROR(check_dump(options_.dump));
    MLC_RETURN_IF_ERROR(check_identity());
    MLC_RETURN_IF_ERROR(check_places());
    MLC_RETURN_IF_ERROR(load_key());
    MLC_RETURN_IF_ERROR(load_library());
    MLC_RETURN_IF_ERROR(import_models());
    MLC_RETURN_IF_ERROR(expand_programs());
    MLC_RETURN_IF_ERROR(compute_golden());
    MLC_RETURN_IF_ERROR(run_passes());
    MLC_RETURN_IF_ERROR(compile_variants());
    MLC_RETURN_IF_ERROR(pack());
    return std::move(report_);
  }

 private:
  // --dump: of the whole program. `text` is called where the level is asked for.
  Status show(const std::string& level, const std::function<std::string()>& text) {
    if (!options_.dump.wants(level) && !options_.dump.wants("passes")) return ok();
    return options_.dump.show({.target = "", .kernel = "", .level = level, .text = text()});
  }

  Status check_identity() {
    if (!options_.id.empty() && !format::is_model_id(options_.id))
      return Status(Code::Usage, "--id: " + format::quoted(options_.id) + " is no model id: organisation/name in [a-z0-9._-] expected");
    if (options_.version == 0) return Status(Code::Usage, "--model-version: versions begin with 1, 0 found");
    return ok();
  }

  Status check_places() {
    MLC_RETURN_IF_ERROR(container::OutputFile::try_create(options_.output_path));
    for (const targets::Target* target : options_.targets) MLC_RETURN_IF_ERROR(targets::can_emit(*target));
    return ok();
  }

  void stage(const std::string& name, const char* parts = "", size_t done = 0, size_t total = 0) {
    if (options_.progress) options_.progress({name, parts, done, total});
  }
  // The stage begins; what is returned counts its parts.
  Progress counted(const std::string& name, const char* parts) {
    stage(name);
    return [this, name, parts](size_t done, size_t total) { stage(name, parts, done, total); };
  }

  Status load_library() {
    std::vector<lang::SourceFile> files = lang::Library::builtin_files();
    for (const std::string& folder : options_.operator_folders) {
      MLC_ASSIGN(std::vector<lang::SourceFile> own, lang::Library::read_directory(folder));
      for (lang::SourceFile& file : own) files.push_back(std::move(file));
    }
    MLC_ASSIGN(lang::Library library, lang::Library::parse(files));
    library_ = std::make_unique<lang::Library>(std::move(library));
    return ok();
  }

  Status import_models() {
    MLC_ASSIGN(sources_, load_sources(options_.model_path, options_.pipeline_path, [this] { stage("import"); }));
    for (const SourceModel& source : sources_.models) {
      MLC_RETURN_IF_ERROR(show("import", [&] { return model::print(source.model); }));
      Status known = check_operators(*library_, source.model);
      if (!known.ok()) return sources_.are_named ? std::move(known).note("program '" + source.program + "'") : known;
    }
    MLC_RETURN_IF_ERROR(apply(ctx_, options_.interface, sources_));
    for (const SourceModel& source : sources_.models)
      if (std::string remark = defaults_remark(source.model); !remark.empty())
        report_.warnings.push_back((sources_.are_named ? "'" + source.program + "': " : "") + std::move(remark));
    if (sources_.are_named && !options_.golden.empty())
      return Status(Code::Usage, "--golden gives inputs of one model, and " + sources_.file + " names several").hint("leave it out: inputs are drawn");
    return ok();
  }

  Status expand_programs() {
    stage("expand");
    for (const SourceModel& source : sources_.models) {
      auto bare = expand_model(ctx_, *library_, source.model, source.program);
      if (!bare.ok()) return sources_.are_named ? std::move(bare).status().note("program '" + source.program + "'") : std::move(bare).status();
      if (programs_.empty()) MLC_RETURN_IF_ERROR(pair_states(options_.interface.states, *bare));
      programs_.push_back({.function = std::move(*bare)});
    }
    MLC_ASSIGN(std::vector<nest::Function> pipelines, expand_pipelines(ctx_, *library_, sources_.programs(), sources_.pipelines));
    const auto& described = sources_.pipelines.parsed.pipelines;
    for (nest::Function& function : pipelines) {
      const bool is_default = function.name == described.back().name;
      std::vector<std::string> runs = programs_of_section(sources_.pipelines, function.name);
      programs_.push_back({.function = std::move(function), .is_pipeline = true, .runs = std::move(runs), .is_default = is_default});
    }
    for (const Program& program : programs_)
      MLC_RETURN_IF_ERROR(show("expand", [&] { return nest::print(program.function); }));
    return ok();
  }

  Status compute_golden() {
    double work = options_.golden_seconds * 1e9;
    for (Program& program : programs_) {
      GoldenOptions options;
      if (!program.is_pipeline) options.given = options_.golden;
      options.none = options_.golden_seconds == 0 && options.given.empty();
      if (program.is_pipeline && !options.none) {
        MLC_ASSIGN(options.texts, vectors_of_texts(sources_.pipelines, program.function));
      }
      if (program.is_pipeline && !options.none) options.chunks = vectors_of_chunks(sources_.pipelines.parsed, program.function);
      options.takes_pictures = program.is_pipeline && options.texts.empty() && options.chunks.empty();
      if (!options.none) options.work = work;
      options.tolerance = options_.tolerance;
      options.progress = counted("golden vectors of " + program.function.name, "steps");
      const FirstRun first(program.function);
      auto golden = make_golden(program.function, options);
      if (!golden.ok()) return std::move(golden).status().note(program.function.name);
      program.golden = std::move(golden).value();
      work -= program.golden.work;
      if (options_.precision != passes::Precision::F32) {
        MLC_ASSIGN(const std::optional<Rounding> rounding, rounding_of(program, options, work));
        if (rounding && rounding->unknown != Rounding::Unknown::No) report_.unmeasured.push_back(*rounding);
        else if (rounding && (!report_.rounding || rounding->error > report_.rounding->error)) report_.rounding = rounding;
      }
      for (const GoldenVector& vector : program.golden.vectors)
        if (!vector.shown.hidden.empty()) report_.hidden.push_back({program.function.name, vector.shown.tried, vector.shown.hidden});
    }
    return vectors_suffice();
  }

  // Drawn inputs, of which some channels are large, may ask for more digits than usual ones: scores of attention become steps. Others are drawn
  // where the vectors of a program cannot tell right from wrong any more, and where a factor is beyond what its type holds, which is told. They
  // may ask for none as well, where a softmax is all of one class: then the figure is of the others, and the vectors stay.
  Result<std::optional<Rounding>> rounding_of(Program& program, GoldenOptions options, double& work) {
    auto first = measure_rounding(ctx_, program.function, program.golden, options_.precision, rounded_values(), work);
    const bool overflows = !first.ok() && first.status().code == Code::Unsupported;
    const bool is_saturated = first.ok() && *first && (*first)->unknown == Rounding::Unknown::Saturated;
    if ((first.ok() && !is_saturated) || (!first.ok() && first.status().code != Code::SelfTest && !overflows) || !options.given.empty()) return first;
    options.are_tame = true;
    options.work = work;
    MLC_ASSIGN(GoldenSet tame, make_golden(program.function, options));
    work -= tame.work;
    auto second = measure_rounding(ctx_, program.function, tame, options_.precision, rounded_values(), work);
    if (!second.ok() || !*second) return first;
    if (is_saturated) return second;
    program.golden = std::move(tame);
    if (overflows) report_.warnings.push_back(compose("'{}' is tested by inputs of at most 1: larger ones were beyond {}, and its answers no numbers; --golden in.npz tests inputs of yours", program.function.name, passes::name_of(options_.precision)));
    return second;
  }

  // Of a variant's answers; vectors have one for all variants.
  double tolerance_of(const targets::Target& target) const {
    const bool is_exact = options_.precision == passes::Precision::TF32 && !target.has_mma;
    return is_exact ? std::min(options_.tolerance, BuildOptions().tolerance) : options_.tolerance;
  }

  // A file that nothing tests is made where the user wants one, or where containers can hold no vector of what it takes and gives.
  Status vectors_suffice() {
    const auto is_missing = [](const Program& program) { return !program.golden.missing.empty(); };
    const bool none = std::all_of(programs_.begin(), programs_.end(), [](const Program& program) { return program.golden.vectors.empty(); });
    for (const Program& program : programs_) {
      if (!program.golden.left_out.empty()) report_.warnings.push_back("'" + program.function.name + "' is tested by fewer inputs: " + program.golden.left_out);
      if (!is_missing(program)) continue;
      const std::string text = "no golden vector for '" + program.function.name + "': " + program.golden.missing;
      const std::string more = program.golden.needs_work ? "--golden-time SECONDS allows more work, " : "";
      const std::string own = program.is_pipeline ? "" : "--golden in.npz takes inputs of yours";
      // Inputs of pipelines cannot be given; each takes pictures for which an answer can be found.
      if (none || program.is_pipeline) return Status(Code::SelfTest, text).hint(more + (own.empty() ? "" : own + ", ") + "--no-golden makes the file without a test");
      report_.warnings.push_back(text + "; " + more + own);
    }
    return ok();
  }

  Status run_passes() {
    passes::Options options;
    options.after = [&](const std::string& pass, const nest::Function& f) { return show(pass, [&] { return nest::print(f); }); };
    if (options_.most_derived) options.most_derived = *options_.most_derived;
    options.precision = options_.precision;
    options.pipeline = passes::with_precision(options.pipeline, options_.precision, rounded_values());
    if (!options_.forms) options.pipeline = passes::without_forms(options.pipeline);
    MLC_ASSIGN(parts_, optimise(ctx_, programs_, weights_, options, counted("optimise", "parts"), has_devices() || options_.for_devices));
    return ok();
  }

  // Beside devices a file keeps products of two values on processors in f32: up to where programs are cut both are the same statements.
  passes::RoundedValues rounded_values() const {
    if (has_devices() || options_.for_devices) return passes::RoundedValues::Devices;
    return multiplies_tiles() ? passes::RoundedValues::All : passes::RoundedValues::None;
  }

  // Whether rounding products of two values pays: a target has a unit for them.
  bool multiplies_tiles() const {
    return std::any_of(options_.targets.begin(), options_.targets.end(), [](const targets::Target* target) { return target->has_tiles; });
  }

  bool has_devices() const {
    return std::any_of(options_.targets.begin(), options_.targets.end(), [](const targets::Target* target) { return target->is_device(); });
  }

  Status compile_variants() {
    std::vector<const targets::Target*> targets = options_.targets;
    const auto is_native = [](const targets::Target* target) { return target->machine != Machine::None; };
    if (has_devices() && std::none_of(targets.begin(), targets.end(), is_native))
      report_.warnings.push_back("no target of a processor stands beside those of devices: without a device the model is interpreted; --target native adds one");
    // The portable form first: expressions are numbered as they are made, and their numbers order sums in a plan. So its plan does not depend on
    // what else is compiled, and is the same for equal programs.
    const targets::Target* portable = targets::find_target("portable");
    std::erase(targets, portable);
    targets.insert(targets.begin(), portable);
    const std::unique_ptr<CodeCache> cache = open_cache();
    RecentCode code(cache.get());
    std::vector<LeftOut> left_out;
    for (size_t k = 0; k < targets.size(); ++k) {
      const targets::Target* target = targets[k];
      if (target->base.empty()) code.forget();  // shared with those based on this one, which follow it
      const Progress progress = counted(nth("target", k, targets.size()) + ", " + target->name, "kernels");
      const VariantOptions options{progress, options_.threads, &code, &options_.dump, options_.choose};
      auto variant = compile_variant(ctx_, *library_, parts_.of(*target), weights_, *target, options);
      if (!variant.ok() && target->is_device() && variant.status().code == Code::Unsupported) {
        left_out.push_back({target, {}, Status(variant.status())});
        MLC_ASSIGN(std::optional<CompiledVariant> part, compile_possible(options, left_out.back()));
        if (part) variants_.push_back(std::move(*part));
      } else if (!variant.ok()) {
        return std::move(variant).status();
      } else {
        variants_.push_back(std::move(*variant));
      }
    }
    std::rotate(variants_.begin(), variants_.begin() + 1, variants_.end());  // reported last
    MLC_RETURN_IF_ERROR(leave_out(left_out));
    drop_equal_variants(variants_);
    std::vector<targets::ptx::CubinReport> cubins(variants_.size());
    MLC_RETURN_IF_ERROR(add_cubins(cubins));
    for (size_t k = 0; k < variants_.size(); ++k) {
      const CompiledVariant& v = variants_[k];
      report_.variants.push_back({v.target->name, v.module.size(), v.plan.size(), v.num_kernels, v.num_launches, 0, std::move(cubins[k]), v.launches});
    }
    if (cache) {
      report_.cache->found = cache->found();
      report_.cache->compiled = cache->missed();
      if (cache->missed() > 0) (void)cache->shrink(CodeCache::kLimit);  // another build may be at it
    }
    return ok();
  }

  // Beside the PTX of each variant that has some. Without the assembler there are none, which is an error only where architectures were named.
  Status add_cubins(std::vector<targets::ptx::CubinReport>& reports) {
    const auto is_ptx = [](const CompiledVariant& v) { return v.target->emitter == &targets::ptx::emitter(); };
    if (!options_.cubins || std::none_of(variants_.begin(), variants_.end(), is_ptx)) return ok();
    const std::vector<uint32_t>& named = options_.cubins->architectures;
    const auto ptxas = targets::ptx::Ptxas::find(options_.cubins->folders);
    if (!ptxas.ok()) {
      if (!named.empty()) return Status(ptxas.status()).note("--cubin");
      report_.no_cubins = ptxas.status().message;
      return ok();
    }
    for (size_t k = 0; k < variants_.size(); ++k) {
      CompiledVariant& v = variants_[k];
      if (!is_ptx(v)) continue;
      stage("cubins, " + v.target->name);
      auto module = targets::ptx::add_cubins(*v.target, v.module, named.empty() ? targets::ptx::usual_architectures(*v.target) : named, *ptxas, options_.threads, reports[k]);
      if (!module.ok()) return std::move(module).status().note("cubins of " + v.target->name);
      v.module = std::move(*module);
      MLC_RETURN_IF_ERROR(targets::audit_module(*v.target, v.module));
      for (const std::string& line : reports[k].left_out)
        if (!named.empty()) report_.warnings.push_back("no cubin for " + line);
    }
    return ok();
  }

  // Devices that cannot do something of the model, and why.
  struct LeftOut {
    const targets::Target* target = nullptr;
    std::vector<std::string> programs;  // empty: all
    Status why;
  };

  // A variant of the programs that the device can do, of several; none: it can do none. Notes which it cannot.
  Result<std::optional<CompiledVariant>> compile_possible(VariantOptions options, LeftOut& left_out) {
    const targets::Target& target = *left_out.target;
    const passes::Parts& parts = parts_.of(target);
    std::vector<std::string> names;
    for (const Program& program : programs_) names.push_back(program.method.name);
    if (names.size() < 2) return std::optional<CompiledVariant>();
    const auto refused = refused_by_device(ctx_, *library_, parts, weights_, target);
    if (!refused.ok() && refused.status().code != Code::Unsupported) return Status(refused.status());
    if (refused.ok()) options.programs = possible_programs(parts, names, *refused);
    if (options.programs.empty() || options.programs.size() == names.size()) return std::optional<CompiledVariant>();
    auto variant = compile_variant(ctx_, *library_, parts, weights_, target, options);
    if (!variant.ok() && variant.status().code == Code::Unsupported) return std::optional<CompiledVariant>();
    if (!variant.ok()) return std::move(variant).status();
    std::copy_if(names.begin(), names.end(), std::back_inserter(left_out.programs), [&](const std::string& name) {
      return std::find(options.programs.begin(), options.programs.end(), name) == options.programs.end();
    });
    return std::optional<CompiledVariant>(std::move(*variant));
  }

  // The file is made without them, unless there is nothing else that was asked for.
  Status leave_out(std::vector<LeftOut>& left_out) {
    const auto has_none = [](const LeftOut& one) { return one.programs.empty(); };
    if (!left_out.empty() && left_out.size() == options_.targets.size() && std::all_of(left_out.begin(), left_out.end(), has_none)) return std::move(left_out.front().why);
    for (const LeftOut& one : left_out) {
      std::string line = "no variant for " + one.target->name + ": ";
      if (!one.programs.empty()) {
        line = "the variant for " + one.target->name + " has no code for ";
        for (const std::string& program : one.programs) line += (program == one.programs.front() ? "'" : ", '") + program + "'";
        line += ": ";
      }
      line += one.why.message;
      for (const std::string& fact : one.why.facts) line += "; " + fact;
      report_.warnings.push_back(std::move(line));
    }
    return ok();
  }

  // None: none is wanted, or what it needs is not there.
  std::unique_ptr<CodeCache> open_cache() {
    if (options_.cache_folder.empty()) return nullptr;
    report_.cache = BuildReport::Cache{};
    Result<std::unique_ptr<CodeCache>> cache = Status(Code::Unsupported, "this mlpack was linked without a build id");
    if (!code_generator_identity().empty()) cache = CodeCache::open(options_.cache_folder);
    if (cache.ok()) return std::move(cache).value();
    report_.cache->unused = std::move(cache).status();
    return nullptr;
  }

  Status pack() {
    const Progress progress = counted("pack", "segments");
    container::ContainerBuilder builder;
    builder.threads = number_of_threads(options_.threads);
    describe_model(builder.manifest);
    for (const Program& program : programs_) add_program(builder, program, options_.tolerance);
    const PipelineFiles& pipelines = sources_.pipelines;
    for (const auto& [name, bytes] : pipelines.assets)
      builder.add_asset(name, pipelines.tokenizers.count(name) > 0 ? "application/vnd.mlc.tokenizer" : "text/plain", bytes);
    if (!pipelines.text.empty()) builder.add_asset(kPipelineAsset, "application/json", pipelines.text);
    MLC_RETURN_IF_ERROR(weights_.write(builder));
    add_stored_program(builder);
    add_tuning(builder);
    for (CompiledVariant& variant : variants_) add_variant(builder, variant, programs_, tolerance_of(*variant.target));
    MLC_RETURN_IF_ERROR(builder.finish(progress));
    std::function<Status(const std::string&)> accept;
    if (options_.accept) accept = [&](const std::string& path) { return options_.accept(finished(path, builder)); };
    MLC_RETURN_IF_ERROR(builder.write(options_.output_path, key_ ? &*key_ : nullptr, accept));
    report_.root = builder.root();
    report_.file_bytes = fs::file_size(options_.output_path);
    report_.model_line = model_line();
    return ok();
  }

  // What `mlpack add` compiles. A file does without where it would be large, or where a part of it is not in the container as it was given.
  void add_stored_program(container::ContainerBuilder& builder) {
    if (!options_.program) return;
    if (sources_.are_named || fs::is_directory(options_.model_path)) report_.no_program = "it is of several files";
    else if (!options_.operator_folders.empty()) report_.no_program = "it has operators of its own";
    else if (!sources_.pipelines.tokenizers.empty()) report_.no_program = "tokenizers are kept as they are compiled";
    if (!report_.no_program.empty()) return;
    constexpr uint64_t kMostConstants = 256 << 10;
    auto model = import::model_with_references(sources_.models.front().file, weights_.references(), kMostConstants);
    if (!model.ok()) {
      report_.no_program = model.status().message;
      return;
    }
    const uint32_t segment = builder.add_segment("program", format::SegmentKind::PortableIr, /*droppable=*/true, encode_program({*options_.program, std::move(*model)}));
    builder.manifest.portable = format::PortableIr{format::PortableLevel::Model, kProgramVersion, segment};
  }

  std::string model_line() const {
    std::set<std::string> ops;
    size_t nodes = 0;
    for (const SourceModel& source : sources_.models) {
      nodes += source.model.graph.nodes.size();
      for (const model::Node& node : source.model.graph.nodes) ops.insert(node.domain + ":" + node.op);
    }
    const std::string what = sources_.are_named ? mlc::counted(sources_.models.size(), "model") : "opset " + std::to_string(sources_.models[0].model.opsets.at("ai.onnx"));
    return what + ", " + mlc::counted(nodes, "node") + ", " + mlc::counted(ops.size(), "operator") + ", " + million(weights_.num_parameters()) + " parameters";
  }

  static std::vector<std::byte> bytes_of_text(const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }

  void add_tuning(container::ContainerBuilder& builder) {
    if (!options_.followed) return;
    for (size_t k = 0; k < variants_.size(); ++k) {
      TuningText tuning = options_.followed(variants_[k]);
      report_.variants[k].tuned = tuning.records;
      if (tuning.records == 0) continue;
      const std::string& target = variants_[k].target->name;
      const uint32_t segment = builder.add_segment("tuning/" + target, format::SegmentKind::Tuning, true, bytes_of_text(tuning.text));
      builder.manifest.tuning.push_back({segment, tuning.records, target, sha256(compiler_identity())});
    }
  }

  FinishedFile finished(const std::string& path, const container::ContainerBuilder& builder) const {
    FinishedFile file{path, {}};
    for (size_t k = programs_.size(); k-- > 0;)
      for (const GoldenVector& golden : programs_[k].golden.vectors) {
        const std::string name = golden_name(programs_[k].method.name, golden);
        const auto& recorded = builder.finished().golden;
        if (std::any_of(recorded.begin(), recorded.end(), [&](const format::Golden& g) { return g.name == name; })) file.vectors.push_back({name, programs_[k].method.name, golden.operations});
      }
    return file;
  }

  Status load_key() {
    if (!options_.sign) return ok();
    if (!options_.key_path.empty()) {
      MLC_ASSIGN(key_, signing::PrivateKey::load_with(options_.key_path, options_.key_passphrase));
    } else {
      MLC_ASSIGN(const std::string folder, signing::config_folder());
      MLC_ASSIGN(key_, signing::user_key(folder));
    }
    report_.key_name = signing::local_name(key_->public_key());
    return ok();
  }

  void describe_model(format::Manifest& manifest) {
    manifest.model.id = options_.id.empty() ? local_id(sources_.are_named ? options_.model_path : named_by(options_.model_path, sources_.file)) : options_.id;
    manifest.model.version = options_.version;
    manifest.provenance.tool = "mlpack";
    manifest.provenance.tool_version = MLC_VERSION;
    manifest.provenance.source_name = clean_name(fs::path(sources_.file).filename().string(), format::kMaxNameLen);
    std::replace(manifest.provenance.source_name.begin(), manifest.provenance.source_name.end(), '\\', '_');
    if (auto source = sources_.digest(); source.ok()) manifest.provenance.source = *source;
    if (const char* epoch = std::getenv("SOURCE_DATE_EPOCH")) manifest.provenance.source_date_epoch = std::strtoull(epoch, nullptr, 10);
  }

  const BuildOptions& options_;
  BuildReport report_;
  std::optional<signing::PrivateKey> key_;  // none: not signed
  ir::Context ctx_;
  std::unique_ptr<lang::Library> library_;
  Sources sources_;
  std::vector<Program> programs_;  // bare models, then sections of pipelines
  Optimised parts_;
  WeightStore weights_;
  std::vector<CompiledVariant> variants_;
};

}  // namespace

std::string nth(const std::string& noun, size_t index, size_t count) {
  return count == 1 ? noun : noun + " " + std::to_string(index + 1) + " of " + std::to_string(count);
}

Result<BuildReport> build(const BuildOptions& options) { return Build(options).run(); }

}  // namespace mlc::compile
