#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>

#include <CLI/CLI.hpp>

#include "base/cli/program.h"
#include "base/cli/report.h"
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
  bool as_json = false;
};

// The value that a share `q` of the sorted samples does not exceed (nearest rank).
uint64_t percentile(const std::vector<uint64_t>& sorted, double q) {
  const auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

// Inputs: what -i says; else those of the golden vector, which are legal and of a plausible shape; else random ones.
struct BenchInputs {
  std::vector<NamedTensor> owned;
  mlio::Views views;
};
Result<BenchInputs> bench_inputs(const OpenModel& model, const mlio::Target& target, const InputOptions& o,
                                 io::InputFiles& files) {
  BenchInputs in;
  if (o.specs.empty()) {
    in.views.tensors.resize(mlio::program_at(model, target.program).num_inputs);
    MlcError* error = nullptr;
    const int code = api().golden_inputs(model.model.get(), target.program, in.views.tensors.data(),
                                         static_cast<uint32_t>(in.views.tensors.size()), &error);
    if (code == MLC_OK) return in;
    Status why = status_of(code, error);
    if (why.code != Code::NotFound) return why;
  }
  InputOptions options = o;
  if (options.specs.empty()) options.specs = {"random"};
  MLC_ASSIGN(in.owned, make_inputs(model, target, options, files));
  in.views = mlio::views_of(model, target.program, in.owned);
  return in;
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

Result<Report> bench(const BenchOptions& o, OpenFiles& files) {
  MLC_ASSIGN(const uint64_t duration, parse_duration(o.duration));
  MLC_ASSIGN(const uint64_t warmup, parse_duration(o.warmup));
  MLC_ASSIGN(const OpenModel model, open_model(files));
  MLC_ASSIGN(mlio::Target target, choose_target(model, o.input));
  MLC_ASSIGN(const OpenSession session, open_session(model, o.variant, o.profile > 0));
  say_what_crashed(model.info.file, session.info.variant);
  MLC_ASSIGN(const BenchInputs inputs, bench_inputs(model, target, o.input, files.inputs));
  const char* program = mlio::program_at(model, target.program).name;
  note(what_runs(model, session) + " · program " + program);

  // One output array for all runs: the loop allocates nothing.
  std::vector<MlcTensor> outputs(mlio::program_at(model, target.program).num_outputs);
  auto how = sized<MlcRunOptions>();
  how.program = program;
  const auto run = [&]() -> Status {
    std::fill(outputs.begin(), outputs.end(), MlcTensor{});
    MlcError* error = nullptr;
    return status_of(api().run(session.session.get(), &how, inputs.views.tensors.data(),
                               static_cast<uint32_t>(inputs.views.tensors.size()), outputs.data(),
                               static_cast<uint32_t>(outputs.size()), &error),
                     error);
  };
  const uint64_t begin = now_ns();
  MLC_RETURN_IF_ERROR(run());
  const uint64_t first_run = now_ns() - begin;
  while (now_ns() - begin < warmup) MLC_RETURN_IF_ERROR(run());

  std::vector<uint64_t> samples;
  samples.reserve(1 << 20);
  const uint64_t start = now_ns();
  uint64_t before = start;
  do {
    MLC_RETURN_IF_ERROR(run());
    const uint64_t after = now_ns();
    samples.push_back(after - before);
    before = after;
  } while (before - start < duration && samples.size() < samples.capacity());
  const double seconds = static_cast<double>(before - start) / 1e9;
  std::sort(samples.begin(), samples.end());
  const double mean = static_cast<double>(std::accumulate(samples.begin(), samples.end(), uint64_t{0})) /
                      static_cast<double>(samples.size());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto rss = static_cast<uint64_t>(usage.ru_maxrss) << 10;

  Report report;
  char text[512];
  std::snprintf(text, sizeof text,
                "samples     %zu in %.2f s after %s of warming up\n"
                "latency     min %s · p50 %s · p90 %s · p99 %s · max %s\n"
                "throughput  %.1f per second\nfirst run   %s\nopen        %s\nmemory      %.1f MiB at most\n",
                samples.size(), seconds, o.warmup.c_str(), ms_text(samples.front()).c_str(),
                ms_text(percentile(samples, 0.5)).c_str(), ms_text(percentile(samples, 0.9)).c_str(),
                ms_text(percentile(samples, 0.99)).c_str(), ms_text(samples.back()).c_str(),
                static_cast<double>(samples.size()) / seconds, ms_text(first_run).c_str(),
                ms_text(model.open_ns + session.load_ns).c_str(), static_cast<double>(rss) / 1048576.0);
  report.text = text;
  report.json = {{"root", std::string("sha256:") + model.info.root},
                 {"variant", session.info.variant},
                 {"program", program},
                 {"threads", session.info.threads},
                 {"samples", samples.size()},
                 {"latency_ns", {{"min", samples.front()}, {"mean", static_cast<uint64_t>(mean)},
                                 {"p50", percentile(samples, 0.5)}, {"p90", percentile(samples, 0.9)},
                                 {"p95", percentile(samples, 0.95)}, {"p99", percentile(samples, 0.99)},
                                 {"max", samples.back()}}},
                 {"throughput_per_s", static_cast<double>(samples.size()) / seconds},
                 {"first_run_ns", first_run},
                 {"open_ns", model.open_ns + session.load_ns},
                 {"peak_rss_bytes", rss},
                 {"env", {{"cpu", probe::host().cpu_model}, {"os", probe::host().os_release},
                          {"mlrun", mlc_version_string()}}}};
  if (o.profile > 0) report.text += profile_text(session, program, o.profile, report.json["profile"]);
  return report;
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<BenchOptions>();
  CLI::App* command = add_command(app, "bench", "latency and throughput of the compiled program",
                                  "  mlrun bench net.mlc --threads 1\n"
                                  "  mlrun bench net.mlc --raw -i in.npz --duration 2s --json\n",
                                  o->as_json);
  add_container_options(*command, o->container);
  add_input_options(*command, o->input);
  add_variant_options(*command, o->variant);
  add_limit_options(*command, o->variant.limits);
  command->add_option("--duration", o->duration, "how long to measure: 5s, 300ms");
  command->add_option("--warmup", o->warmup, "how long to run before that");
  command->add_option("--profile", o->profile, "also list the N instructions that take longest");
  command->callback([o, &exit_code] {
    exit_code = answer({"bench", o->as_json, o->container, o->input.specs},
                       [&](OpenFiles& files) { return bench(*o, files); });
  });
}

}  // namespace mlc::cli
