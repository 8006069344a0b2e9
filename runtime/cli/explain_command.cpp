#include <memory>
#include <set>

#include "base/cli/columns.h"
#include "base/cli/program.h"
#include "base/cli/report.h"
#include "runtime/cli/answers/duration.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/isolation.h"
#include "runtime/cli/options.h"
#include "runtime/cli/probe/probe_file.h"
#include "runtime/match/brief.h"
#include "runtime/probe/probe.h"

namespace mlc::cli {
namespace {

struct ExplainOptions {
  ContainerOptions container;
  VariantOptions variant;
  std::string probe;  // of another machine, whose record stands in for this one's
  bool as_json = false;
};

std::string head(std::string_view title) { return padded(title, 10); }

std::string host_lines(const probe::Record& r, unsigned threads) {
  const char* pages = r.code_pages == CodePages::Anonymous ? "S1" : r.code_pages == CodePages::SealedFd ? "S2" : "none";
  const std::string asked =
      threads > 0 ? "asked for: " + std::to_string(threads) + "; by default " + std::to_string(r.topology.workers) + ": " : std::string();
  return in_lines(head("host"), std::string(name_of(r.machine)) + ", " + printable(r.os_release) + ", page " +
                                    std::to_string(r.page_size) + ", code pages " + pages) +
         in_lines(head("workers"), std::to_string(probe::workers_for(r.topology, threads)) + " (" +
                                       asked + probe::workers_reason(r.topology) + ")");
}

std::string trust_lines(const OpenModel& model) {
  std::string out = in_lines(head("trust"), printable(model.info.trust));
  // As it stands, on one line: it is to be pasted.
  if (!model.info.native_allowed && *model.info.trust_help)
    out += head("") + "for native code: " + printable(as_called_here(model.info.trust_help)) + "\n";
  return out;
}

// Those that were asked for, each with what it is.
std::string device_lines(const OpenModel& model, Json& json) {
  std::string out;
  auto d = sized<MlcDevice>();
  for (uint32_t i = 0; api().device(model.model.get(), i, &d) == MLC_OK; ++i) {
    out += in_lines(head("device"), device_text(d) + (d.is_software ? ", software: slower than the processor itself, used when named" : ""));
    json.push_back({{"name", d.name}, {"api", d.api}, {"title", d.title}, {"driver", d.driver}, {"software", d.is_software != 0}, {"memory_bytes", d.memory_bytes}});
  }
  return out;
}

// How runs are divided where several devices do them together, and the variants that do.
struct Stages {
  std::string text;
  Json json = Json::array();
  std::set<std::string> variants;
  std::vector<ProgramChoice> programs;
};
Result<Stages> stages_of(const OpenModel& model, const VariantOptions& options) {
  MLC_ASSIGN(const OpenSession session, open_session(model, options));
  Stages out;
  auto s = sized<MlcStage>();
  for (uint32_t i = 0; api().stage(session.session.get(), i, &s) == MLC_OK; ++i) {
    std::string what = std::string(s.mode) + ", " + s.device + ", " + s.variant;
    if (s.estimate_ns) what += ", " + ms_text(s.estimate_ns) + (s.copies_ns ? ", of it copies " + ms_text(s.copies_ns) : std::string());
    out.text += in_lines(head("stage") + printable(s.segments) + "   ", what + "; " + printable(s.reason));
    out.json.push_back({{"segments", s.segments}, {"mode", s.mode}, {"device", s.device}, {"variant", s.variant}, {"estimate_ns", s.estimate_ns},
                        {"copies_ns", s.copies_ns}, {"reason", s.reason}});
    out.variants.insert(s.variant);
  }
  out.programs = programs_on(model, session.session.get());
  if (out.variants.empty()) out.variants.insert(session.info.variant);
  for (const ProgramChoice& p : out.programs)
    if (p.device.empty()) out.variants.insert(p.variant);
  return out;
}

// The same where no devices work together, before anything is loaded.
Status choose_programs(const OpenModel& model, const char* variant, const char* require, Stages& out) {
  auto program = sized<MlcProgram>();
  auto choice = sized<MlcChoice>();
  for (uint32_t i = 0; i < model.info.num_programs; ++i) {
    MlcError* error = nullptr;
    MLC_RETURN_IF_ERROR(status_of(api().choose_for(model.model.get(), i, variant, require, &choice, &error), error));
    out.variants.insert(choice.name);
    if (model.info.num_programs > 1 && api().program(model.model.get(), i, &program) == MLC_OK) out.programs.push_back({program.name, choice.name, choice.device, choice.measured_ns, choice.is_remembered != 0});
  }
  return ok();
}

// Where they do not all run alike, or some were measured.
std::string program_lines(const std::vector<ProgramChoice>& programs) {
  std::string out;
  bool differ = false;
  for (const ProgramChoice& p : programs) {
    std::string what = printable(p.program) + ": " + printable(p.variant) + (p.device.empty() ? std::string() : ", " + p.device);
    if (p.measured_ns) what += ", measured " + ms_text(p.measured_ns);
    if (p.is_remembered) what += ", the fastest when mlrun tune measured";
    out += in_lines(head("program"), what);
    differ |= p.measured_ns != 0 || p.variant != programs[0].variant || p.device != programs[0].device;
  }
  return differ ? out : std::string();
}

Json variant_json(const MlcVariant& v, const std::vector<FailingClause>& failing) {
  const char* answer = v.fits == MLC_FITS ? "fits" : v.fits == MLC_FITS_NOT ? "no" : "unknown";
  Json entry = {{"name", v.name}, {"target", v.target}, {"family", v.family}, {"answer", answer}};
  if (*v.device) entry["device"] = v.device;
  if (v.estimate_ns) entry["estimate_ns"] = v.estimate_ns;
  if (v.measured_ns) entry["measured_ns"] = v.measured_ns, entry["remembered"] = v.is_remembered != 0;
  if (!failing.empty()) {
    Json missing = Json::array();
    for (const FailingClause& f : failing)
      missing.push_back({{"clause", f.clause}, {"answer", name_of(f.answer)}, {"source", f.source}});
    entry["missing"] = std::move(missing);
  }
  if (v.fits != MLC_FITS) entry["reason"] = v.reason;
  return entry;
}

// What stands behind the name of a variant.
std::string remark(const OpenModel& model, const MlcVariant& v, const std::vector<FailingClause>& failing) {
  if (v.fits == MLC_FITS) {
    std::string out = v.device;
    if (v.estimate_ns) out += (out.empty() ? "estimate " : ", estimate ") + ms_text(v.estimate_ns);
    if (v.measured_ns) out += (out.empty() ? "measured " : ", measured ") + ms_text(v.measured_ns);
    if (v.is_remembered) out += ", the fastest when mlrun tune measured";
    return out;
  }
  if (!failing.empty()) return printable(match::brief_reason(failing));
  return std::string_view(v.reason) == model.info.trust ? "needs trust" : printable(v.reason);
}

Result<Report> explain(const ExplainOptions& o, OpenFiles& files) {
  MLC_ASSIGN(const OpenModel model, open_model(files));
  const char* variant = o.variant.variant.empty() ? nullptr : o.variant.variant.c_str();
  const char* require = o.variant.require.empty() ? nullptr : o.variant.require.c_str();
  uint32_t chosen = UINT32_MAX;
  MlcError* error = nullptr;
  Report report;
  report.failure = status_of(api().choose(model.model.get(), variant, require, &chosen, &error), error);
  Stages stages;
  const bool together = report.failure.ok() && !(o.variant.objective.empty() && o.variant.place.empty());
  if (together) {
    MLC_ASSIGN(stages, stages_of(model, o.variant));
  } else if (report.failure.ok()) {
    report.failure = choose_programs(model, variant, require, stages);
    if (!report.failure.ok()) stages = {};
  }

  size_t width = 0;
  for (uint32_t i = 0; i < model.info.num_variants; ++i)
    width = std::max(width, columns_of(printable(variant_at(model, i).name)));
  Json variants = Json::array();
  std::string lines[4];  // chosen, fits, no, unknown: in this order
  for (uint32_t i = 0; i < model.info.num_variants; ++i) {
    const MlcVariant v = variant_at(model, i);
    const std::vector<FailingClause> failing = failing_of(model, i);
    variants.push_back(variant_json(v, failing));
    const bool is_chosen = stages.variants.contains(v.name);
    const std::string answer = is_chosen ? "chosen" : variants.back()["answer"].text();
    lines[is_chosen ? 0 : v.fits + 1] +=
        in_lines(head(answer) + padded(printable(v.name), width) + "   ", remark(model, v, failing));
  }
  const probe::Record& host = probe::host();
  const bool copied = model.info.is_copied != 0;
  Json devices = Json::array();
  report.text = host_lines(host, o.variant.threads) + device_lines(model, devices) + trust_lines(model);
  if (copied)
    report.text += in_lines(head("file"), "copied into memory as it is verified: --verify copy, a strict policy, or others may write to it");
  for (const std::string& some : lines) report.text += some;
  report.json = {{"root", std::string("sha256:") + model.info.root},
                 {"trust", model.info.trust},
                 {"trust_help", as_called_here(model.info.trust_help)},
                 {"native_allowed", model.info.native_allowed != 0},
                 {"copied", copied},
                 {"chosen", stages.variants.empty() ? Json() : together && !stages.json.empty() ? stages.json.items().front()["variant"] : Json(variant_at(model, chosen).name)},
                 {"workers", probe::workers_for(host.topology, o.variant.threads)},
                 {"workers_reason", probe::workers_reason(host.topology)},
                 {"devices", std::move(devices)},
                 {"variants", std::move(variants)}};
  report.text += program_lines(stages.programs) + stages.text;
  if (!stages.programs.empty()) report.json["programs"] = programs_json(stages.programs);
  if (together) report.json["stages"] = std::move(stages.json);
  return report;
}

// Before anything asks what this machine has.
Status take_probe(ExplainOptions& o) {
  if (!o.variant.objective.empty() || !o.variant.place.empty() || !(o.container.devices.empty() || o.container.devices == std::vector<std::string>{"auto"}))
    return Status(Code::Usage, "--probe tells which variant another machine would take; --devices, --objective and --place are about devices that are here");
  MLC_ASSIGN(probe::Record record, read_probe_file(o.probe));
  o.container.devices = {"cpu"};
  if (!probe::stand_in_for_host(std::move(record))) return Status(Code::Internal, "this machine was probed before --probe was read");
  return ok();
}

}  // namespace

void add_explain_command(Program& program) {
  auto o = std::make_shared<ExplainOptions>();
  const Command command = program.add_command("explain", "every variant: why it is chosen here or not",
                                              "  mlrun explain cat.mlc\n  mlrun explain cat.mlc --require native --json\n", o->as_json);
  add_container_options(command, o->container);
  add_variant_options(command, o->variant);
  command.add_option("--probe", o->probe, "for another machine: what mlrun probe --json said there; of its processor, not of devices");
  command.on_run([o] {
    if (!o->probe.empty())
      if (Status taken = take_probe(*o); !taken.ok()) return finish("explain", o->as_json, std::move(taken));
    return answer({"explain", o->as_json, o->container}, [&](OpenFiles& files) { return explain(*o, files); });
  });
}

}  // namespace mlc::cli
