#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "base/cli/columns.h"
#include "base/cli/program.h"
#include "base/cli/report.h"
#include "base/counted.h"
#include "runtime/cli/answers/duration.h"
#include "runtime/cli/bench/bench_inputs.h"
#include "runtime/cli/bench/bench_measure.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/crash.h"
#include "runtime/cli/isolation.h"
#include "runtime/cli/options.h"
#include "runtime/cli/tune/remember.h"
#include "runtime/match/fastest.h"
#include "runtime/mlio/runner.h"

namespace mlc::cli {
namespace {

constexpr uint64_t kLeastSample = 2'000'000;  // ns of runs that one sample is the mean of
constexpr size_t kMostRounds = 101;

struct TuneFlags {
  ContainerOptions container;
  InputOptions input;
  LimitOptions limits;
  std::string duration = "2s";
  uint32_t most = 3, threads = 0;
  bool forget = false, as_json = false;
};

struct Candidate {
  std::string name, device, fault;  // `fault`: why it is out
  std::optional<OpenSession> session;
  std::optional<SessionRuns> runs;
  uint64_t runs_per_sample = 1;
  std::vector<uint64_t> samples;  // ns of a run
};

// The first ones in the order in which runs would take them.
std::vector<Candidate> candidates_of(const OpenModel& model, uint32_t most) {
  std::map<uint32_t, MlcVariant> fitting;  // by rank
  for (uint32_t i = 0; i < model.info.num_variants; ++i)
    if (const MlcVariant v = variant_at(model, i); v.rank < most) fitting[v.rank] = v;
  std::vector<Candidate> out;
  for (const auto& [rank, v] : fitting) out.push_back({v.name, v.device, {}, std::nullopt, std::nullopt, 1, {}});
  return out;
}

// Loaded, and right by the golden vectors: what is wrong is never measured.
Status prepare(const OpenModel& model, const TuneFlags& flags, Candidate& candidate) {
  VariantOptions options;
  options.variant = candidate.name;
  options.threads = flags.threads;
  options.limits = flags.limits;
  MLC_ASSIGN(OpenSession session, open_session(model, options));
  candidate.session = std::move(session);
  if (model.info.num_golden == 0) return ok();
  say_what_crashed(model, candidate.name.c_str());
  auto result = sized<MlcSelftest>();
  MlcError* error = nullptr;
  return status_of(api().selftest(candidate.session->session.get(), nullptr, &result, &error), error);
}

// All that are worth measuring, for all programs.
Result<std::vector<Candidate>> prepared(const OpenModel& model, const TuneFlags& flags) {
  std::vector<Candidate> candidates = candidates_of(model, flags.most);
  for (Candidate& c : candidates) {
    const Status status = prepare(model, flags, c);
    if (status.ok()) continue;
    if (status.code == Code::Cancelled || status.code == Code::Malformed || status.code == Code::BadSignature) return status;
    c.fault = status.message;
    // What does not load here may load where there is more memory; a wrong answer stays wrong.
    if (status.code != Code::SelfTest) continue;
    if (const Status written = remember_fault(model, c.name, "its answers to the golden vectors are wrong"); !written.ok()) note("warning: not remembered: " + written.message);
  }
  return candidates;
}

Result<uint64_t> sample(Candidate& candidate) {
  const uint64_t begin = now_ns();
  for (uint64_t i = 0; i < candidate.runs_per_sample; ++i) MLC_RETURN_IF_ERROR(candidate.runs->once());
  return (now_ns() - begin) / candidate.runs_per_sample;
}

// In rounds, each variant once a round and each round beginning with another one; the first round is not counted.
Status measure_all(const OpenModel& model, std::span<Candidate*> all, const MeasureOptions& how, uint64_t duration) {
  for (Candidate* c : all) {
    c->runs.emplace(*c->session, how);
    say_what_crashed(model, c->name.c_str());
    MLC_RETURN_IF_ERROR(c->runs->once());
    MLC_ASSIGN(const uint64_t ns, sample(*c));
    c->runs_per_sample = std::clamp<uint64_t>(kLeastSample / std::max<uint64_t>(ns, 1), 1, 100'000);
  }
  const uint64_t end = now_ns() + duration;
  for (size_t round = 0; round <= kMostRounds && (round <= match::kLeastRounds || now_ns() < end); ++round)
    for (size_t i = 0; i < all.size(); ++i) {
      Candidate& c = *all[(round + i) % all.size()];
      say_what_crashed(model, c.name.c_str());
      MLC_ASSIGN(const uint64_t ns, sample(c));
      if (round > 0) c.samples.push_back(ns);
    }
  return ok();
}

// What was measured of one program; `failure`: why nothing was.
struct TunedProgram {
  std::string name, failure;
  std::vector<Candidate> candidates;
  std::string chosen;
};

Json variants_json(const TunedProgram& tuned, std::string& text) {
  Json variants = Json::array();
  size_t width = 0;
  for (const Candidate& c : tuned.candidates) width = std::max(width, columns_of(printable(c.name)));
  for (const Candidate& c : tuned.candidates) {
    Json entry = {{"name", c.name}, {"answer", !c.fault.empty() ? "fault" : c.name == tuned.chosen ? "chosen" : "measured"}};
    if (!c.device.empty()) entry["device"] = c.device;
    std::string what = printable(c.fault);
    if (c.fault.empty()) {
      entry.update({{"p25_ns", match::quantile(c.samples, 0.25)}, {"p50_ns", match::quantile(c.samples, 0.5)}, {"p75_ns", match::quantile(c.samples, 0.75)}, {"rounds", c.samples.size()}});
      what = ms_text(match::quantile(c.samples, 0.5)) + "   " + ms_text(match::quantile(c.samples, 0.25)) + " to " + ms_text(match::quantile(c.samples, 0.75)) + " in " + counted(c.samples.size(), "round");
    } else {
      entry["reason"] = c.fault;
    }
    text += in_lines(padded(entry["answer"].text(), 10) + padded(printable(c.name), width) + "   ", what);
    variants.push_back(std::move(entry));
  }
  return variants;
}

Report told(const OpenModel& model, const std::vector<TunedProgram>& programs, const std::string& not_written) {
  Report report;
  report.json = {{"root", std::string("sha256:") + model.info.root}, {"remembered", not_written.empty()}};
  std::string takes;
  Json all = Json::array();
  for (const TunedProgram& p : programs) {
    if (programs.size() > 1) report.text += "program " + printable(p.name) + "\n";
    if (!p.failure.empty()) {
      report.text += "  not measured: " + printable(p.failure) + "\n";
      all.push_back({{"name", p.name}, {"reason", p.failure}});
      continue;
    }
    Json variants = variants_json(p, report.text);
    takes += (takes.empty() ? "" : ", ") + (programs.size() > 1 ? printable(p.name) + " " : std::string()) + printable(p.chosen);
    if (programs.size() == 1) report.json["chosen"] = p.chosen, report.json["variants"] = variants;
    all.push_back({{"name", p.name}, {"chosen", p.chosen}, {"variants", std::move(variants)}});
  }
  if (programs.size() > 1) report.json["programs"] = std::move(all);
  report.text += not_written.empty() ? "remembered for this machine: runs take " + takes + " first\n" : "not remembered: " + printable(not_written) + "\n";
  return report;
}

// The programs that are measured: the one that the options are about, or all of them.
Result<std::vector<mlio::Target>> targets_of(const OpenModel& model, const InputOptions& input) {
  std::vector<mlio::Target> targets;
  const bool is_one = model.info.num_programs == 1 || input.raw || !(input.specs.empty() && input.program.empty() && input.pipeline.empty());
  if (is_one) {
    MLC_ASSIGN(mlio::Target target, choose_target(model, input));
    targets.push_back(std::move(target));
    return targets;
  }
  for (uint32_t i = 0; i < model.info.num_programs; ++i) {
    mlio::Target target;
    target.program = i;
    targets.push_back(std::move(target));
  }
  return targets;
}

// Of --dim what is about free extents of the program; Usage where one is of no program.
Result<InputOptions> input_of(const OpenModel& model, const InputOptions& all, const std::vector<mlio::Target>& targets, const mlio::Target& target) {
  if (targets.size() == 1) return all;
  const auto has = [&](uint32_t program, std::string_view extent) {
    for (uint32_t i = 0; i < mlio::program_at(model, program).num_inputs; ++i) {
      const MlcPort port = mlio::port_at(model, program, false, i);
      for (uint32_t axis = 0; axis < port.rank; ++axis)
        if (port.extents[axis] < 0 && port.dims[axis] == extent) return true;
    }
    return false;
  };
  InputOptions own = all;
  own.dims.clear();
  for (const std::string& text : all.dims) {
    const std::string_view extent = std::string_view(text).substr(0, text.find('='));
    if (std::none_of(targets.begin(), targets.end(), [&](const mlio::Target& any) { return has(any.program, extent); }))
      return Status(Code::Usage, "--dim {}: no program has a free extent '{}'", text, extent);
    if (has(target.program, extent)) own.dims.push_back(text);
  }
  return own;
}

// In turns, the candidates that have code for the program.
Status tune_program(const OpenModel& model, const mlio::Target& target, const BenchInputs& inputs, uint64_t duration,
                    std::vector<Candidate>& all, TunedProgram& out) {
  const MlcProgram program = mlio::program_at(model, target.program);
  std::vector<Candidate*> good;
  std::vector<std::string> lacks(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].fault.empty()) continue;
    auto info = sized<MlcSessionInfo>();
    const bool has_code = api().program_info(all[i].session->session.get(), target.program, &info) == MLC_OK && info.variant == all[i].name;
    if (has_code) good.push_back(&all[i]);
    else lacks[i] = "it has no code for the program that is measured";
    all[i].samples.clear(), all[i].runs_per_sample = 1;
  }
  if (good.empty()) return Status(Code::NoVariant, 2001, "no variant of {} gives right answers here", model.info.file);
  const MeasureOptions how{program.name, inputs.views.tensors, program.num_outputs, 0, 0};
  MLC_RETURN_IF_ERROR(measure_all(model, good, how, duration));
  std::vector<std::vector<uint64_t>> samples;
  for (const Candidate* c : good) samples.push_back(c->samples);
  out.chosen = good[match::fastest_variant(samples)]->name;
  for (size_t i = 0; i < all.size(); ++i)
    out.candidates.push_back({all[i].name, all[i].device, all[i].fault.empty() ? lacks[i] : all[i].fault, std::nullopt, std::nullopt, 1, all[i].samples});
  return ok();
}

Report forgotten(const OpenModel& model, bool any) {
  Report report;
  report.text = any ? "forgotten: runs take what is estimated to be the fastest\n" : "nothing was remembered of this container\n";
  report.json = {{"root", std::string("sha256:") + model.info.root}, {"forgotten", any}};
  return report;
}

Result<Report> tune(const TuneFlags& flags, OpenFiles& files) {
  MLC_ASSIGN(const uint64_t duration, parse_duration(flags.duration));
  MLC_ASSIGN(const OpenModel model, open_model(files));
  if (model.isolated) return Status(Code::Untrusted, "{} runs in a process that remembers nothing: nobody who is trusted has signed it", model.info.file).hint("{}", model.info.trust_help);
  if (flags.forget) {
    MLC_ASSIGN(const bool any, forget_choices(model));
    return forgotten(model, any);
  }
  MLC_ASSIGN(const std::vector<mlio::Target> targets, targets_of(model, flags.input));
  MLC_ASSIGN(std::vector<Candidate> candidates, prepared(model, flags));
  std::vector<TunedProgram> programs;
  std::vector<match::RememberedVariant> measured;
  Status failure;
  for (const mlio::Target& target : targets) {
    TunedProgram& tuned = programs.emplace_back();
    tuned.name = mlio::program_at(model, target.program).name;
    MLC_ASSIGN(InputMemory memory, InputMemory::allowed(model, flags.limits));
    MLC_ASSIGN(const InputOptions input, input_of(model, flags.input, targets, target));
    auto inputs = bench_inputs(model, target, input, files.inputs, memory, false);
    Status status = inputs ? tune_program(model, target, *inputs, duration / targets.size(), candidates, tuned) : std::move(inputs).status();
    if (status.code == Code::Cancelled) return status;
    if (!status.ok()) tuned.failure = status.message, failure = std::move(status);
    const std::string of = model.info.num_programs > 1 ? tuned.name : std::string();
    for (const Candidate& c : tuned.candidates)
      if (c.fault.empty()) measured.push_back({c.name, match::quantile(c.samples, 0.5), c.name == tuned.chosen, of});
  }
  if (measured.empty()) return failure;
  const Status written = remember_measured(model, measured);
  return told(model, programs, written.message);
}

}  // namespace

void add_tune_command(Program& program) {
  auto o = std::make_shared<TuneFlags>();
  const Command command = program.add_command("tune", "measure which variant is the fastest here",
                                              "  mlrun tune cat.mlc\n  mlrun tune cat.mlc --dim N=8 --duration 5s\n  mlrun tune ocr.mlc --raw --program read\n", o->as_json);
  add_container_options(command, o->container);
  add_input_options(command, o->input);
  add_limit_options(command, o->limits);
  command.add_option("--threads", o->threads, "workers of each run; default: as mlrun probe says");
  command.add_option("--duration", o->duration, "how long to measure all of them, of all programs together: 5s, 300ms; at least 15 rounds of each program");
  command.add_option("--most", o->most, "measure so many variants, those first that are estimated to be fast").within(2, 64).shows_default();
  command.add_flag("--forget", o->forget, "drop what is remembered of this container, faults as well");
  command.on_run([o] {
    for (const std::string& devices : o->container.devices)
      if (devices.find('=') != devices.npos)
        return finish("tune", o->as_json, Status(Code::Usage, "mlrun tune measures variants for all programs of a file: --devices '{}' is for one of them", devices));
    uint64_t beside = 0;
    if (const auto ns = parse_duration(o->duration)) beside = *ns;
    return answer({"tune", o->as_json, o->container, o->input.specs, "", {&o->limits, 2, beside, o->threads, o->most}},
                  [&](OpenFiles& files) { return tune(*o, files); });
  });
}

}  // namespace mlc::cli
