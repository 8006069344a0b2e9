#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "base/cli/program.h"
#include "base/cli/report.h"
#include "base/counted.h"
#include "runtime/cli/bench_measure.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/crash.h"
#include "runtime/cli/duration.h"
#include "runtime/cli/isolation.h"
#include "runtime/cli/options.h"
#include "runtime/cli/program_io.h"
#include "runtime/probe/probe.h"

namespace mlc::cli {
namespace {

struct BenchOptions {
  ContainerOptions container;
  VariantOptions variant;
  InputOptions input;
  std::string duration = "5s", warmup = "1s";
  uint32_t profile = 0;  // how many instructions to list
  uint32_t sessions = 1;
  bool as_json = false, as_csv = false;
};

// Inputs: what -i says; with --dim random ones; else those of the golden vector, which are legal and of a plausible shape;
// else random ones.
struct BenchInputs {
  const char* from = "";
  std::vector<NamedTensor> owned;
  mlio::Views views;
};
Result<BenchInputs> bench_inputs(const OpenModel& model, const mlio::Target& target, const InputOptions& o, io::InputFiles& files,
                                 InputMemory& memory) {
  BenchInputs in;
  if (!o.specs.empty()) {
    in.from = "given";
    MLC_ASSIGN(in.owned, make_inputs(model, target, o, files, memory));
    in.views = mlio::views_of(model, target.program, in.owned);
    return in;
  }
  if (o.dims.empty()) {
    in.from = "golden";
    in.views.tensors.resize(mlio::program_at(model, target.program).num_inputs);
    MlcError* error = nullptr;
    const int code = api().golden_inputs(model.model.get(), target.program, in.views.tensors.data(),
                                         static_cast<uint32_t>(in.views.tensors.size()), &error);
    if (code == MLC_OK) return in;
    Status why = status_of(code, error);
    if (why.code != Code::NotFound) return why;
  }
  in.from = "random";
  MLC_ASSIGN(in.owned, make_up_inputs(model, target, o, memory));
  in.views = mlio::views_of(model, target.program, in.owned);
  return in;
}

// The free extents of the inputs that are fed, in the order of the ports.
struct Extent {
  std::string name;
  int64_t value;
};
std::vector<Extent> extents_fed(const OpenModel& model, const mlio::Target& target, const std::vector<MlcTensor>& inputs) {
  std::vector<Extent> found;
  for (uint32_t i = 0; i < mlio::program_at(model, target.program).num_inputs; ++i) {
    const MlcPort port = mlio::port_at(model, target.program, false, i);
    const auto fed = std::find_if(inputs.begin(), inputs.end(), [&](const MlcTensor& t) {
      return t.list_depth == 0 && t.name && std::string_view(t.name) == port.name;
    });
    const MlcTensor* tensor = fed != inputs.end() ? &*fed : i < inputs.size() && !inputs[i].name ? &inputs[i] : nullptr;
    if (!tensor || tensor->rank != port.rank || port.list_depth > 0) continue;
    for (uint32_t k = 0; k < port.rank; ++k) {
      const bool is_named = port.extents[k] < 0 && port.max[k] >= 0;
      const auto same = [&](const Extent& e) { return e.name == port.dims[k]; };
      if (is_named && std::none_of(found.begin(), found.end(), same)) found.push_back({port.dims[k], tensor->shape[k]});
    }
  }
  return found;
}

std::string fed_text(const BenchInputs& inputs, const std::vector<Extent>& extents) {
  constexpr size_t kMostNamed = 6;
  std::string out = inputs.from;
  for (size_t i = 0; i < extents.size() && i < kMostNamed; ++i)
    out += ", " + printable(extents[i].name) + "=" + std::to_string(extents[i].value);
  if (extents.size() > kMostNamed) out += " and " + counted(extents.size() - kMostNamed, "extent") + " more";
  return out;
}

std::string profile_text(const OpenSession& session, const char* program, uint32_t top, ordered_json& json) {
  std::vector<MlcProfileEntry> entries;
  for (auto e = sized<MlcProfileEntry>();
       api().profile(session.session.get(), program, static_cast<uint32_t>(entries.size()), &e) == MLC_OK;)
    entries.push_back(e);
  uint64_t total = 1;
  for (const auto& e : entries) total += e.ns;
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.ns > b.ns; });
  std::string out;
  json = ordered_json::array();
  for (uint32_t i = 0; i < top && i < entries.size(); ++i) {
    const auto& e = entries[i];
    const uint64_t each = e.runs ? e.ns / e.runs : 0;
    char line[64];
    std::snprintf(line, sizeof line, "%10.3f us %5.1f %%  ", static_cast<double>(each) / 1e3,
                  100.0 * static_cast<double>(e.ns) / static_cast<double>(total));
    out += line + printable(e.name) + "\n";
    json.push_back({{"name", e.name}, {"ns", each}});
  }
  return out;
}

ordered_json environment() {
  const probe::Record& host = probe::host();
  return {{"cpu", host.cpu_model},
          {"arch", name_of(host.machine)},
          {"os", host.os_release},
          {"cpus", host.topology.allowed_cpus.size()},
          {"cores", host.topology.workers},
          {"mlrun", mlc_version_string()}};
}

ordered_json figures(const OpenModel& model, const std::vector<OpenSession>& sessions, const Measured& m) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
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
          {"peak_rss_bytes", static_cast<uint64_t>(usage.ru_maxrss) << 10}};
}

std::string text_of(const ordered_json& json, const BenchOptions& o, const std::string& fed) {
  const auto ms = [&](const char* name) { return ms_text(json["latency_ns"][name].get<uint64_t>()); };
  const ordered_json& env = json["env"];
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, "%.2f s after ", json["seconds"].get<double>());
  std::string out = "input       " + fed + "\nsamples     " + std::to_string(json["samples"].get<size_t>()) + " in " + numbers +
                    o.warmup + " of warming up\nlatency     min " + ms("min") + " · p50 " + ms("p50") + " · p90 " + ms("p90") +
                    " · p99 " + ms("p99") + " · max " + ms("max") + "\n";
  std::snprintf(numbers, sizeof numbers, "throughput  %.1f per second", json["throughput_per_s"].get<double>());
  out += numbers + (o.sessions > 1 ? ", " + std::to_string(o.sessions) + " sessions together" : std::string()) + "\n";
  out += "first run   " + ms_text(json["first_run_ns"].get<uint64_t>()) + "\nopen        " +
         ms_text(json["open_ns"].get<uint64_t>()) + "\n";
  std::snprintf(numbers, sizeof numbers, "memory      %.1f MiB at most\n", json["peak_rss_bytes"].get<double>() / 1048576.0);
  out += numbers;
  const std::string cpu = env["cpu"].get<std::string>();
  out += "machine     " + printable(cpu.empty() ? env["arch"].get<std::string>() : cpu) + ", " +
         std::to_string(env["cpus"].get<size_t>()) + " CPUs, " + printable(env["os"].get<std::string>()) + ", mlrun " +
         env["mlrun"].get<std::string>() + "\n";
  return out;
}

std::string csv_field(const ordered_json& value) {
  if (!value.is_string()) return value.dump();
  std::string out = "\"";
  for (const char c : printable(value.get<std::string>())) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

// Two lines, names and values: the fields of the JSON that hold one value, those of objects as OBJECT_NAME.
std::string csv_of(const ordered_json& json) {
  std::string names, values;
  const auto add = [&](const std::string& name, const ordered_json& value) {
    names += (names.empty() ? "" : ",") + name;
    values += (values.empty() ? "" : ",") + csv_field(value);
  };
  for (const auto& [name, value] : json.items()) {
    if (name == "latency_ns") {
      for (const auto& [part, ns] : value.items()) add(part + "_ns", ns);
    } else if (name == "env") {
      for (const auto& [part, text] : value.items()) add(part, text);
    } else if (!value.is_structured()) {
      add(name, value);
    }
  }
  return names + "\n" + values + "\n";
}

Result<std::vector<OpenSession>> open_sessions(const OpenModel& model, const BenchOptions& o, uint64_t taken) {
  std::vector<OpenSession> sessions;
  VariantOptions options = o.variant;
  SessionUse use{.profile = o.profile > 0, .taken = taken};
  if (o.sessions > 1) {
    use.pin = false;  // several threads call
    if (options.threads == 0)
      options.threads = std::max(1u, probe::workers_for(probe::host().topology, 0) / o.sessions);
  }
  for (uint32_t i = 0; i < o.sessions; ++i) {
    MLC_ASSIGN(OpenSession session, open_session(model, options, use));
    sessions.push_back(std::move(session));
    options.variant = sessions.front().info.variant;  // all of them the same
  }
  return sessions;
}

Result<Report> bench(const BenchOptions& o, OpenFiles& files) {
  if (o.profile > 0 && o.sessions > 1) return Status(Code::Usage, "--profile needs one session");
  MLC_ASSIGN(const uint64_t duration, parse_duration(o.duration));
  MLC_ASSIGN(const uint64_t warmup, parse_duration(o.warmup));
  MLC_ASSIGN(const OpenModel model, open_model(files));
  MLC_ASSIGN(mlio::Target target, choose_target(model, o.input));
  MLC_RETURN_IF_ERROR(check_variant(model, o.variant));
  MLC_ASSIGN(InputMemory memory, InputMemory::allowed(model, o.variant.limits));
  MLC_ASSIGN(const BenchInputs inputs, bench_inputs(model, target, o.input, files.inputs, memory));
  MLC_ASSIGN(const std::vector<OpenSession> sessions, open_sessions(model, o, memory.shared_with_session()));
  const OpenSession& session = sessions.front();
  say_what_crashed(model.info.file, session.info.variant);
  const MlcProgram program = mlio::program_at(model, target.program);
  say_what_runs(model, session, "program " + printable(program.name));

  MLC_ASSIGN(const Measured measured, measure(sessions, {program.name, inputs.views.tensors, program.num_outputs, warmup, duration}));
  const std::vector<Extent> extents = extents_fed(model, target, inputs.views.tensors);
  ordered_json fed = {{"from", inputs.from}, {"extents", ordered_json::object()}};
  for (const Extent& e : extents) fed["extents"][e.name] = e.value;
  Report report;
  report.json = {{"root", std::string("sha256:") + model.info.root},
                 {"variant", session.info.variant},
                 {"program", program.name},
                 {"input", fed},
                 {"threads", session.info.threads},
                 {"sessions", o.sessions}};
  report.json.update(figures(model, sessions, measured));
  report.json["env"] = environment();
  report.text = o.as_csv ? csv_of(report.json) : text_of(report.json, o, fed_text(inputs, extents));
  if (o.profile > 0) {
    const std::string listed = profile_text(session, program.name, o.profile, report.json["profile"]);
    if (!o.as_csv) report.text += listed;
  }
  return report;
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<BenchOptions>();
  CLI::App* command = add_command(app, "bench", "latency and throughput of the compiled program",
                                  "  mlrun bench net.mlc --dim N=8 --duration 2s --json\n"
                                  "  mlrun bench net.mlc --sessions 4 --threads 1 --csv\n",
                                  o->as_json);
  add_container_options(*command, o->container);
  add_input_options(*command, o->input);
  add_variant_options(*command, o->variant);
  add_limit_options(*command, o->variant.limits);
  command->add_option("--duration", o->duration, "how long to measure: 5s, 300ms");
  command->add_option("--warmup", o->warmup, "how long to run before that");
  command->add_option("--sessions", o->sessions, "so many side by side, for throughput; they share the cores")
      ->check(CLI::Range(1, 1024));
  command->add_option("--profile", o->profile, "also list the N instructions that take longest");
  command->add_flag("--csv", o->as_csv, "print a line of names and one of values")->excludes(command->get_option("--json"));
  command->callback([o, &exit_code] {
    uint64_t beside = 0;
    for (const std::string& text : {o->duration, o->warmup})
      if (const auto ns = parse_duration(text)) beside += *ns;
    exit_code = answer({"bench", o->as_json, o->container, o->input.specs, "",
                        {&o->variant.limits, 2, beside, o->variant.threads * o->sessions}},
                       [&](OpenFiles& files) { return bench(*o, files); });
  });
}

}  // namespace mlc::cli
