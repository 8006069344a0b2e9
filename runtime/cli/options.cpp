#include "runtime/cli/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>

#include "base/cli/report.h"
#include "base/counted.h"
#include "base/text/real.h"
#include "base/text/shell_word.h"
#include "runtime/cli/alone/own_container.h"
#include "runtime/cli/isolation.h"
#include "runtime/isolation/child_answer.h"
#include "runtime/probe/devices.h"
#include "runtime/sandbox/sandbox.h"
#include "runtime/services/services.h"
#include "signing/policy.h"
#include "signing/user_key.h"

namespace mlc::cli {

bool use_own_container(ContainerOptions& o) {
  const auto& own = own_container();
  if (!own.ok() || !*own) return false;
  o.file = (*own)->name;
  return true;
}

std::string devices_of(const ContainerOptions& o) {
  std::string out;
  for (const std::string& part : o.devices) out += (out.empty() ? "" : ";") + part;
  return out;
}

std::string as_called_here(const std::string& hint) {
  const auto& own = own_container();
  constexpr std::string_view kTool = "mlrun ";
  return own.ok() && *own && hint.starts_with(kTool) ? shell_path((*own)->name) + hint.substr(kTool.size() - 1) : hint;
}

void add_container_options(const Command& command, ContainerOptions& o) {
  // Where it is not known whether there is one, that is said instead of that the name is missing.
  if (!use_own_container(o)) command.add_option("file", o.file, "the container (.mlc), or a folder with its parts (NAME.mlc.000 ...)").required(own_container().ok());
  command.add_option("--trust", o.trust_keys, "also trust this public key (PEM file)");
  command.add_option("--policy", o.policy, "trust policy (trust.json) instead of the system's or the user's own");
  command.add_flag("--allow-unsigned", o.allow_unsigned, "run native code although nobody trusted has signed it");
  command.add_flag("--allow-older", o.allow_older, "open a version below one that was accepted here before");
  std::vector<std::string> names;
  for (const MlcService& service : services::all()) names.emplace_back(service.name);
  command.add_option("--allow-service", o.services, "let the file use this service although nobody trusts it")
      .one_of(names);
  command.add_option("--verify", o.verify,
                 "lazy: before first use; full: everything first; copy: into memory; auto: copy what others may write, "
                 "else lazy")
      .one_of({"auto", "lazy", "full", "copy"});
  command.add_option("--devices", o.devices, "auto: what is no software, and the processor; cpu; gpu; or names, gpu0,cpu; for one of several programs detect=gpu0, more than once");
  command.add_flag("--isolated", o.isolated, "in a process without privileges, as files are that nobody trusted signed");
}

uint64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

Result<FileHandle> authenticate(const ContainerOptions& o, uint64_t& ns) {
  const signing::TrustSources sources = signing::default_trust_sources();
  std::vector<const char*> keys;
  for (const std::string& k : o.trust_keys) keys.push_back(k.c_str());
  std::vector<const char*> allowed;
  for (const std::string& service : o.services) allowed.push_back(service.c_str());
  const auto state = signing::state_folder();
  auto options = sized<MlcOpenOptions>();
  const auto& own = own_container();
  if (!own.ok() && o.file.empty()) return own.status();
  if (own.ok() && *own) options.use_fd = 1, options.fd = (*own)->fd, options.name = o.file.c_str();
  else options.path = o.file.c_str();
  options.verify = o.verify == "lazy"   ? MLC_VERIFY_LAZY
                   : o.verify == "full" ? MLC_VERIFY_FULL
                   : o.verify == "copy" ? MLC_VERIFY_COPY
                                        : MLC_VERIFY_AUTO;
  options.allow_unsigned = o.allow_unsigned;
  options.trust_keys = keys.data();
  options.num_trust_keys = static_cast<uint32_t>(keys.size());
  options.policy = o.policy.empty() ? nullptr : o.policy.c_str();
  options.config_folder = sources.config_folder.empty() ? nullptr : sources.config_folder.c_str();
  options.services = services::all().data();
  options.num_services = static_cast<uint32_t>(services::all().size());
  options.untrusted_services = allowed.data();
  options.num_untrusted_services = static_cast<uint32_t>(allowed.size());
  options.state_folder = state.ok() && o.remember ? state->c_str() : nullptr;
  options.allow_older = o.allow_older;
  // A process without privileges reaches no driver.
  const std::string devices = devices_of(o);
  options.devices = o.devices.empty() ? nullptr : devices.c_str();
  options.probe_program = o.isolated ? nullptr : probe::kOwnProgram;

  const uint64_t start = now_ns();
  MlcFile* file = nullptr;
  MlcError* error = nullptr;
  if (Status status = status_of(api().authenticate(&options, &file, &error), error); !status.ok()) {
    status.help = as_called_here(status.help);
    return status;
  }
  ns = now_ns() - start;
  if (!state.ok() && o.remember) note("warning: the versions seen are not remembered: " + state.status().message);
  return FileHandle(file);
}

Result<OpenModel> open_model(OpenFiles& files) {
  OpenModel out;
  const uint64_t start = now_ns();
  MlcModel* model = nullptr;
  MlcError* error = nullptr;
  MLC_RETURN_IF_ERROR(status_of(api().open_file(files.container.get(), &model, &error), error));
  out.model.reset(model);
  out.open_ns = files.authenticate_ns + now_ns() - start;
  out.isolated = files.isolated;
  api().model_info(model, &out.info);
  if (out.info.native_allowed == 0 && !files.isolated && !sandbox::why_no_process().empty()) return no_process_for(files.name);
  for (uint32_t i = 0; i < out.info.num_notes && !files.is_quiet; ++i) note("warning: " + printable(api().model_note(model, i)));
  return out;
}

void add_limit_options(const Command& command, LimitOptions& o) {
  command.add_option("--time-limit", o.time,
                 "how long one run may take, 10s or 500ms, or 'none'; default for files nobody trusts: 1.5s");
  command.add_option("--memory-limit", o.memory,
                 "how much memory runs may hold, 512M or 2G, or 'none'; default for files nobody trusts: 192M");
}

void add_variant_options(const Command& command, VariantOptions& o) {
  command.add_option("--variant", o.variant, "run exactly this variant");
  command.add_option("--require", o.require, "native, or a variant, target or family: exit 5 if nothing such fits");
  command.add_option("--objective", o.objective, "several devices together, for latency, throughput of several sessions, or memory: as few as hold the model")
      .one_of({"latency", "memory", "throughput"});
  command.add_option("--place", o.place, "which of several devices runs which segment: main.3=gpu0,main.4=cpu");
  command.add_option("--threads", o.threads, "at most this many workers; default: as mlrun probe says").within(1, 65536);
}

namespace {

Result<uint64_t> read_limit(const std::string& text, Result<uint64_t> (*parse)(const std::string&), const char* flag) {
  if (text.empty()) return uint64_t{0};
  if (text == "none") return uint64_t{MLC_NO_LIMIT};
  auto limit = parse(text);
  if (!limit.ok()) return std::move(limit).status().note(flag);
  if (*limit == 0) return Status(Code::Usage, "{}: nothing can be done in '{}'", flag, text);
  return limit;
}

}  // namespace

Result<uint64_t> memory_limit(const LimitOptions& o) { return read_limit(o.memory, &parse_size, "--memory-limit"); }
Result<uint64_t> time_limit(const LimitOptions& o) { return read_limit(o.time, &parse_duration, "--time-limit"); }

Status check_variant(const OpenModel& model, const VariantOptions& o) {
  uint32_t chosen = 0;
  MlcError* error = nullptr;
  return status_of(api().choose(model.model.get(), o.variant.empty() ? nullptr : o.variant.c_str(),
                                o.require.empty() ? nullptr : o.require.c_str(), &chosen, &error),
                   error);
}

Result<OpenSession> open_session(const OpenModel& model, const VariantOptions& o, const SessionUse& use) {
  auto options = sized<MlcSessionOptions>();
  options.variant = o.variant.empty() ? nullptr : o.variant.c_str();
  options.require = o.require.empty() ? nullptr : o.require.c_str();
  options.objective = o.objective.empty() ? nullptr : o.objective.c_str();
  options.placement = o.place.empty() ? nullptr : o.place.c_str();
  options.threads = o.threads;
  options.pin_caller = use.pin;
  options.profile = use.profile;
  MLC_ASSIGN(options.time_limit_ns, time_limit(o.limits));
  MLC_ASSIGN(options.memory_limit, memory_limit(o.limits));
  if (options.memory_limit != 0 && options.memory_limit != MLC_NO_LIMIT)
    options.memory_limit = options.memory_limit > use.taken ? options.memory_limit - use.taken : 1;
  OpenSession out;
  const uint64_t start = now_ns();
  MlcSession* session = nullptr;
  MlcError* error = nullptr;
  MLC_RETURN_IF_ERROR(status_of(api().session_create(model.model.get(), &options, &session, &error), error));
  out.session.reset(session);
  out.load_ns = now_ns() - start;
  api().session_info(session, &out.info);
  out.noted = out.info.note;
  if (use.program) api().program_info(session, *use.program, &out.info);
  out.program = use.program;
  if (!out.noted.empty() && !use.is_quiet) note("warning: " + printable(out.noted));
  return out;
}

std::string fell_back(const OpenSession& session) {
  auto info = sized<MlcSessionInfo>();
  api().session_info(session.session.get(), &info);
  std::string_view added = info.note;
  added.remove_prefix(std::min(added.size(), session.noted.size()));
  if (added.starts_with("; ")) added.remove_prefix(2);
  return printable(added);
}

void say_what_fell_back(const OpenSession& session) {
  if (const std::string added = fell_back(session); !added.empty()) note("warning: " + added);
}

std::vector<ProgramChoice> programs_on(const OpenModel& model, const MlcSession* session) {
  std::vector<ProgramChoice> out;
  auto program = sized<MlcProgram>();
  auto info = sized<MlcSessionInfo>();
  for (uint32_t i = 0; model.info.num_programs > 1 && i < model.info.num_programs; ++i)
    if (api().program(model.model.get(), i, &program) == MLC_OK && api().program_info(session, i, &info) == MLC_OK)
      out.push_back({program.name, info.variant, info.device});
  return out;
}

Json programs_json(const std::vector<ProgramChoice>& programs) {
  Json out = Json::array();
  for (const ProgramChoice& p : programs) {
    Json entry = {{"name", p.program}, {"variant", p.variant}, {"device", p.device}};
    if (p.measured_ns) entry["measured_ns"] = p.measured_ns, entry["remembered"] = p.is_remembered;
    out.push_back(std::move(entry));
  }
  return out;
}

namespace {

// "x86-64-v3 · 2 threads"; of several programs that run apart: "default x86-64-v3, detect cuda-sm90 on gpu0".
std::string what_runs(const OpenModel& model, const OpenSession& session) {
  const std::vector<ProgramChoice> programs = programs_on(model, session.session.get());
  const auto is_other = [&](const ProgramChoice& p) { return p.variant != session.info.variant || p.device != session.info.device; };
  const std::string threads = counted(session.info.threads, "thread");
  if (session.program || std::none_of(programs.begin(), programs.end(), is_other))
    return std::string(session.info.variant) + " · " + (*session.info.device ? std::string(session.info.device) : threads);
  std::string out;
  for (const ProgramChoice& p : programs)
    out += (out.empty() ? "" : ", ") + printable(p.program) + " " + p.variant + (p.device.empty() ? std::string() : " on " + p.device);
  return out;
}

}  // namespace

void say_what_runs(const OpenModel& model, const OpenSession& session, const std::string& figures, bool as_json) {
  if (as_json) return;  // the document says it
  std::string out = what_runs(model, session);
  if (!model.info.is_signed) out += " · unsigned";
  if (model.isolated) out += " · isolated";
  note(out + " · " + figures);
  if (model.info.native_allowed) return;
  note("  portable form only: " + printable(model.info.trust));
  if (*model.info.trust_help) note("  help: " + printable(as_called_here(model.info.trust_help)));
}

Json fields_of_run(const OpenModel& model, const OpenSession& session) {
  Json fields = {{"root", std::string("sha256:") + model.info.root},
                 {"variant", session.info.variant},
                 {"device", session.info.device},
                 {"threads", session.info.threads},
                 {"trust", model.info.trust},
                 {"native_allowed", model.info.native_allowed != 0}};
  if (const auto programs = programs_on(model, session.session.get()); !programs.empty()) fields["programs"] = programs_json(programs);
  if (const std::string added = fell_back(session); !added.empty()) fields["fell_back"] = added;
  return fields;
}

std::string device_text(const MlcDevice& d) {
  return std::string(d.name) + ", " + printable(d.title) + ", " + d.api + " (" + printable(d.driver) + "), " + std::to_string(d.memory_bytes >> 20) + " MiB";
}

std::string device_text(const OpenModel& model, const OpenSession& session) {
  std::string family;
  for (uint32_t i = 0; i < model.info.num_variants; ++i)
    if (const MlcVariant v = variant_at(model, i); std::string_view(v.name) == session.info.variant) family = v.family;
  auto d = sized<MlcDevice>();
  for (uint32_t i = 0; api().device(model.model.get(), i, &d) == MLC_OK; ++i)
    if (std::string_view(d.name) == session.info.device && family == d.api) return device_text(d);
  return "";
}

MlcVariant variant_at(const OpenModel& model, uint32_t index) {
  auto v = sized<MlcVariant>();
  api().explain(model.model.get(), index, &v);
  return v;
}

std::vector<FailingClause> failing_of(const OpenModel& model, uint32_t variant) {
  std::vector<FailingClause> out;
  auto c = sized<MlcClause>();
  for (uint32_t k = 0; api().failing(model.model.get(), variant, k, &c) == MLC_OK; ++k)
    out.push_back({c.clause, std::string_view(c.answer) == name_of(probe::Answer::No) ? probe::Answer::No : probe::Answer::Unknown, c.source});
  return out;
}

Result<uint64_t> parse_duration(const std::string& text) {
  double value = 0;
  const auto r = real_from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(r.ptr, text.data() + text.size());
  const double scale = unit == "s" ? 1e9 : unit == "ms" ? 1e6 : unit == "us" ? 1e3 : unit == "m" ? 60e9 : 0;
  if (r.ec != std::errc() || scale == 0 || !(value >= 0) || value * scale > 1e15)
    return Status(Code::Usage, "'" + text + "' is no duration such as 5s or 300ms");
  return static_cast<uint64_t>(value * scale);
}

Result<uint64_t> parse_size(const std::string& text) {
  double value = 0;
  const auto r = real_from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(r.ptr, text.data() + text.size());
  const double scale = unit.empty() ? 1 : unit == "K" ? 0x1p10 : unit == "M" ? 0x1p20 : unit == "G" ? 0x1p30 : 0;
  if (r.ec != std::errc() || scale == 0 || !(value >= 0) || value * scale > 0x1p46)
    return Status(Code::Usage, "'" + text + "' is no size such as 512M or 2G");
  return static_cast<uint64_t>(value * scale);
}

}  // namespace mlc::cli
