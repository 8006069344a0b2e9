#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/cli/program.h"
#include "base/cli/report.h"
#include "base/counted.h"
#include "runtime/cli/bench/bench_inputs.h"
#include "runtime/cli/bench/bench_measure.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/crash.h"
#include "runtime/cli/answers/duration.h"
#include "runtime/cli/bench/environment.h"
#include "runtime/cli/isolation.h"
#include "runtime/cli/options.h"
#include "runtime/cli/inputs/program_io.h"
#include "runtime/cli/system.h"
#include "runtime/probe/probe.h"

namespace mlc::cli {
namespace {

struct BenchOptions {
  ContainerOptions container;
  VariantOptions variant;
  InputOptions input;
  std::string duration = "5s", warmup = "1s";
  uint32_t sessions = 1;
  bool as_json = false, as_csv = false;
};

Json figures(const OpenModel& model, const std::vector<OpenSession>& sessions, const Measured& m) {
  uint64_t open_ns = model.open_ns;
  for (const OpenSession& session : sessions) open_ns += session.load_ns;
  return {{"samples", m.samples.size()},
          {"seconds", m.seconds},
          {"latency_ns", {{"min", m.samples.front()}, {"mean", static_cast<uint64_t>(m.mean_ns())}, {"p50", m.percentile(0.5)},
                          {"p90", m.percentile(0.9)}, {"p95", m.percentile(0.95)}, {"p99", m.percentile(0.99)},
                          {"p999", m.percentile(0.999)}, {"max", m.samples.back()}}},
          {"throughput_per_s", m.runs_per_second()},
          {"first_run_ns", m.first_run_ns},
          {"open_ns", open_ns},
          {"peak_rss_bytes", most_memory_bytes()}};
}

std::string text_of(const Json& json, const BenchOptions& o) {
  const auto ms = [&](const char* name) { return ms_text(json["latency_ns"][name].as_u64()); };
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, "%.2f s after ", json["seconds"].number());
  std::string out = "input       " + fed_text(json["input"]) + "samples     " + std::to_string(json["samples"].as_u64()) + " in " + numbers +
                    o.warmup + " of warming up\nlatency     min " + ms("min") + " · p50 " + ms("p50") + " · p90 " + ms("p90") +
                    " · p99 " + ms("p99") + " · max " + ms("max") + "\n";
  std::snprintf(numbers, sizeof numbers, "throughput  %.1f per second", json["throughput_per_s"].number());
  out += numbers + (o.sessions > 1 ? ", " + std::to_string(o.sessions) + " sessions together" : std::string()) + "\n";
  out += "first run   " + ms_text(json["first_run_ns"].as_u64()) + "\nopen        " +
         ms_text(json["open_ns"].as_u64()) + "\n";
  std::snprintf(numbers, sizeof numbers, "memory      %.1f MiB at most\n", json["peak_rss_bytes"].number() / 1048576.0);
  out += numbers;
  out += "variant     " + json["variant"].text() + ", " + counted(json["threads"].as_u64(), "thread") +
         (o.sessions > 1 ? " each\n" : "\n");
  out += "machine     " + environment_text(json["env"]) + "\n";
  return out;
}

std::string csv_field(const Json& value) {
  if (!value.is(Json::Kind::String)) return value.print();
  std::string out = "\"";
  for (const char c : printable(value.text())) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

// Two lines, names and values: the fields of the JSON that hold one value, those of objects as OBJECT_NAME.
std::string csv_of(const Json& json) {
  std::string names, values;
  const auto add = [&](const std::string& name, const Json& value) {
    names += (names.empty() ? "" : ",") + name;
    values += (values.empty() ? "" : ",") + csv_field(value);
  };
  for (const auto& [name, value] : json.members()) {
    if (name == "latency_ns") {
      for (const auto& [part, ns] : value.members()) add(part + "_ns", ns);
    } else if (name == "env") {
      for (const auto& [part, text] : value.members()) add(part, text);
    } else if (!value.is(Json::Kind::Array) && !value.is(Json::Kind::Object)) {
      add(name, value);
    }
  }
  return names + "\n" + values + "\n";
}

Result<std::vector<OpenSession>> open_sessions(const OpenModel& model, const BenchOptions& o, std::optional<uint32_t> program, uint64_t taken) {
  std::vector<OpenSession> sessions;
  VariantOptions options = o.variant;
  SessionUse use{.taken = taken, .program = program};
  if (o.sessions > 1) {
    use.pin = false;  // several threads call
    // Sessions that share devices do one run at a time on the processor.
    if (options.threads == 0 && options.objective != "throughput")
      options.threads = std::max(1u, probe::workers_for(probe::host().topology, UINT32_MAX) / o.sessions);
  }
  for (uint32_t i = 0; i < o.sessions; ++i) {
    MLC_ASSIGN(OpenSession session, open_session(model, options, use));
    sessions.push_back(std::move(session));
  }
  return sessions;
}

// From what decoders made to answers: all programs, and what hosts do between them and behind.
Status run_pipeline(const OpenModel& model, const mlio::Target& target, const BenchOptions& o, const OpenSession& session, const std::vector<NamedTensor>& made) {
  std::vector<NamedTensor> inputs;
  for (const NamedTensor& t : made) {
    NamedTensor& lent = inputs.emplace_back();
    lent.name = t.name;
    if (t.tensor.dtype == DType::Str) {
      lent.tensor = HostTensor::of_strings(t.tensor.shape, t.tensor.strings);
      continue;
    }
    // Steps read what they are given.
    MLC_ASSIGN(lent.tensor, HostTensor::view(t.tensor.dtype, t.tensor.shape, const_cast<std::byte*>(t.tensor.data.data()), t.tensor.data.size()));
  }
  MLC_ASSIGN(pipeline::AnswerBudget budget, answer_budget(model, o.variant.limits));
  uint64_t run_ns = 0;
  const pipeline::Programs programs = mlio::programs_of(model, session.session.get(), nullptr, budget, run_ns);
  auto answers = target.pipeline->run(std::move(inputs), std::nullopt, budget, programs);
  return answers.ok() ? ok() : std::move(answers).status();
}

Result<Report> bench(const BenchOptions& o, const HostState& host, OpenFiles& files) {
  MLC_ASSIGN(const uint64_t duration, parse_duration(o.duration));
  MLC_ASSIGN(const uint64_t warmup, parse_duration(o.warmup));
  MLC_ASSIGN(const OpenModel model, open_model(files));
  MLC_ASSIGN(mlio::Target target, choose_target(model, o.input));
  MLC_RETURN_IF_ERROR(check_variant(model, o.variant));
  MLC_ASSIGN(InputMemory memory, InputMemory::allowed(model, o.variant.limits));
  MLC_ASSIGN(const BenchInputs inputs, bench_inputs(model, target, o.input, files.inputs, memory, true));
  MLC_ASSIGN(const std::vector<OpenSession> sessions, open_sessions(model, o, runs_several(target) ? std::nullopt : std::optional(target.program), memory.shared_with_session()));
  const OpenSession& session = sessions.front();
  say_what_crashed(model, session.info.variant);
  const bool several = runs_several(target);
  const MlcProgram program = mlio::program_at(model, target.program);
  const std::string name = several ? target.pipeline->description().name : program.name;
  say_what_runs(model, session, (several ? "pipeline " : "program ") + printable(name), o.as_json);

  const MeasureOptions how{program.name, inputs.views.tensors, program.num_outputs};
  std::vector<SessionRuns> program_runs;
  for (const OpenSession& each : sessions) program_runs.emplace_back(each, how);
  std::vector<Run> runs;
  for (size_t k = 0; k < sessions.size(); ++k)
    runs.push_back(several ? Run([&, k] { return run_pipeline(model, target, o, sessions[k], inputs.owned); }) : Run([&, k] { return program_runs[k].once(); }));
  MLC_ASSIGN(const Measured measured, measure(runs, warmup, duration));
  for (const OpenSession& each : sessions) say_what_fell_back(each);
  Report report;
  report.json = {{"root", std::string("sha256:") + model.info.root},
                 {"variant", session.info.variant},
                 {several ? "pipeline" : "program", name},
                 {"input", fed_json(model, target, o.input, inputs)},
                 {"threads", session.info.threads},
                 {"sessions", o.sessions}};
  report.json.update(figures(model, sessions, measured));
  report.json["env"] = environment(host);
  report.text = o.as_csv ? csv_of(report.json) : text_of(report.json, o);
  return report;
}

}  // namespace

void add_bench_command(Program& program) {
  auto o = std::make_shared<BenchOptions>();
  const Command command = program.add_command("bench", "latency and throughput of a program or a pipeline",
                                              "  mlrun bench net.mlc --dim N=8 --duration 2s --json\n"
                                              "  mlrun bench net.mlc --sessions 4 --threads 1 --csv\n"
                                              "  mlrun bench ocr.mlc -i page.png\n",
                                              o->as_json);
  add_container_options(command, o->container);
  add_input_options(command, o->input);
  add_variant_options(command, o->variant);
  add_limit_options(command, o->variant.limits);
  command.add_option("--duration", o->duration, "how long to measure: 5s, 300ms");
  command.add_option("--warmup", o->warmup, "how long to run before that");
  command.add_option("--sessions", o->sessions, "so many side by side, for throughput; they share the cores")
      .within(1, 1024);
  command.add_flag("--csv", o->as_csv, "print a line of names and one of values").excludes(command.option("--json"));
  command.on_run([o] {
    const HostState host = host_state();
    uint64_t beside = 0;
    for (const std::string& text : {o->duration, o->warmup})
      if (const auto ns = parse_duration(text)) beside += *ns;
    return answer({"bench", o->as_json, o->container, o->input.specs, "",
                        {&o->variant.limits, 2, beside, o->variant.threads * o->sessions, o->sessions}},
                       [&](OpenFiles& files) { return bench(*o, host, files); });
  });
}

}  // namespace mlc::cli
