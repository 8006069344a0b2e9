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
Status prepare(const OpenModel& model, const TuneFlags& flags, uint32_t program, Candidate& candidate) {
  VariantOptions options;
  options.variant = candidate.name;
  options.threads = flags.threads;
  options.limits = flags.limits;
  MLC_ASSIGN(OpenSession session, open_session(model, options));
  auto info = sized<MlcSessionInfo>();
  if (api().program_info(session.session.get(), program, &info) != MLC_OK || info.variant != candidate.name)
    return Status(Code::Unsupported, "it has no code for the program that is measured");
  candidate.session = std::move(session);
  if (model.info.num_golden == 0) return ok();
  say_what_crashed(model, candidate.name.c_str());
  auto result = sized<MlcSelftest>();
  MlcError* error = nullptr;
  return status_of(api().selftest(candidate.session->session.get(), nullptr, &result, &error), error);
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

Report told(const OpenModel& model, const std::vector<Candidate>& candidates, const std::string& chosen, const std::string& not_written) {
  Report report;
  Json variants = Json::array();
  size_t width = 0;
  for (const Candidate& c : candidates) width = std::max(width, columns_of(printable(c.name)));
  for (const Candidate& c : candidates) {
    Json entry = {{"name", c.name}, {"answer", !c.fault.empty() ? "fault" : c.name == chosen ? "chosen" : "measured"}};
    if (!c.device.empty()) entry["device"] = c.device;
    std::string what = printable(c.fault);
    if (c.fault.empty()) {
      entry.update({{"p25_ns", match::quantile(c.samples, 0.25)}, {"p50_ns", match::quantile(c.samples, 0.5)}, {"p75_ns", match::quantile(c.samples, 0.75)}, {"rounds", c.samples.size()}});
      what = ms_text(match::quantile(c.samples, 0.5)) + "   " + ms_text(match::quantile(c.samples, 0.25)) + " to " + ms_text(match::quantile(c.samples, 0.75)) + " in " + counted(c.samples.size(), "round");
    } else {
      entry["reason"] = c.fault;
    }
    report.text += in_lines(padded(entry["answer"].text(), 10) + padded(printable(c.name), width) + "   ", what);
    variants.push_back(std::move(entry));
  }
  report.text += not_written.empty() ? "remembered for this machine: runs take " + printable(chosen) + " first\n" : "not remembered: " + printable(not_written) + "\n";
  report.json = {{"root", std::string("sha256:") + model.info.root}, {"chosen", chosen}, {"remembered", not_written.empty()}, {"variants", variants}};
  return report;
}

Result<Report> tune(const TuneFlags& flags, OpenFiles& files) {
  MLC_ASSIGN(const uint64_t duration, parse_duration(flags.duration));
  MLC_ASSIGN(const OpenModel model, open_model(files));
  if (model.isolated) return Status(Code::Untrusted, "{} runs in a process that remembers nothing: nobody who is trusted has signed it", model.info.file).hint("{}", model.info.trust_help);
  if (flags.forget) {
    MLC_ASSIGN(const bool any, forget_choices(model));
    Report report;
    report.text = any ? "forgotten: runs take what is estimated to be the fastest\n" : "nothing was remembered of this container\n";
    report.json = {{"root", std::string("sha256:") + model.info.root}, {"forgotten", any}};
    return report;
  }
  MLC_ASSIGN(mlio::Target target, choose_target(model, flags.input));
  MLC_ASSIGN(InputMemory memory, InputMemory::allowed(model, flags.limits));
  MLC_ASSIGN(const BenchInputs inputs, bench_inputs(model, target, flags.input, files.inputs, memory, false));
  const MlcProgram program = mlio::program_at(model, target.program);
  std::vector<Candidate> candidates = candidates_of(model, flags.most);
  std::vector<Candidate*> good;
  for (Candidate& c : candidates) {
    const Status status = prepare(model, flags, target.program, c);
    if (status.ok()) good.push_back(&c);
    else if (status.code == Code::Cancelled || status.code == Code::Malformed || status.code == Code::BadSignature) return status;
    else c.fault = status.message;
    // What does not load here may load where there is more memory; a wrong answer stays wrong.
    if (status.code != Code::SelfTest) continue;
    if (const Status written = remember_fault(model, c.name, "its answers to the golden vectors are wrong"); !written.ok()) note("warning: not remembered: " + written.message);
  }
  if (good.empty()) return Status(Code::NoVariant, 2001, "no variant of {} gives right answers here", model.info.file);
  MLC_RETURN_IF_ERROR(measure_all(model, good, {program.name, inputs.views.tensors, program.num_outputs, 0, 0}, duration));
  std::vector<std::vector<uint64_t>> samples;
  for (const Candidate* c : good) samples.push_back(c->samples);
  const size_t best = match::fastest_variant(samples);
  std::vector<match::RememberedVariant> measured;
  for (size_t i = 0; i < good.size(); ++i) measured.push_back({good[i]->name, match::quantile(samples[i], 0.5), i == best});
  const Status written = remember_measured(model, measured);
  return told(model, candidates, good[best]->name, written.message);
}

}  // namespace

void add_tune_command(Program& program) {
  auto o = std::make_shared<TuneFlags>();
  const Command command = program.add_command("tune", "measure which variant is the fastest here",
                                              "  mlrun tune cat.mlc\n  mlrun tune cat.mlc --dim N=8 --duration 5s\n", o->as_json);
  add_container_options(command, o->container);
  add_input_options(command, o->input);
  add_limit_options(command, o->limits);
  command.add_option("--threads", o->threads, "workers of each run; default: as mlrun probe says");
  command.add_option("--duration", o->duration, "how long to measure all of them: 5s, 300ms; at least 15 rounds");
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
