#include <memory>

#include "base/cli/program.h"
#include "base/cli/report.h"
#include "runtime/cli/commands.h"
#include "runtime/probe/devices.h"
#include "runtime/probe/probe.h"
#include "runtime/sandbox/sandbox.h"
#include "runtime/services/services.h"

namespace mlc::cli {
namespace {

std::string number_of(const FeatureRow& row, const probe::FeatureAnswer& a) {
  if (row.kind == FeatureKind::Flag || a.answer != probe::Answer::Yes) return std::string(name_of(a.answer));
  if (row.feature == Feature::HostArch) return std::string(name_of(static_cast<Machine>(a.number)));
  return std::to_string(a.number);
}

bool is_of_this_host(std::string_view feature, Machine machine) {
  const auto starts = [&](std::string_view prefix) { return feature.starts_with(prefix); };
  if (starts("x86.")) return machine == Machine::X86_64;
  if (starts("a64.")) return machine == Machine::AArch64;
  if (starts("rv.")) return machine == Machine::RiscV64;
  if (starts("cuda.") || starts("vk.")) return false;  // of a device
  return true;
}

// Services are this program's, not the machine's.
probe::FeatureAnswer offered(std::string_view feature) {
  for (const MlcService& s : services::all())
    if (feature.substr(kServicePrefix.size()) == s.name) return {probe::Answer::Yes, 0, "mlrun"};
  return {probe::Answer::No, 0, "mlrun does not offer it"};
}

std::string cpu_list(const std::vector<int>& cpus) {
  std::string out;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    out += (out.empty() ? "" : ",") + std::to_string(cpus[i]) + (last > i ? "-" + std::to_string(cpus[last]) : "");
    i = last + 1;
  }
  return out;
}

// What one driver interface says of a card.
Json describe_driver(const device::Info& d, std::string& text) {
  text += "driver     " + d.api + ", " + printable(d.driver) + "\n";
  Json facts = Json::object();
  for (const device::Fact& f : d.facts) {
    std::string line(name_of(f.feature));
    line.resize(24, ' ');
    text += line + std::to_string(f.number) + "\n";
    facts[std::string(name_of(f.feature))] = f.number;
  }
  return {{"api", d.api}, {"driver", d.driver}, {"facts", std::move(facts)}};
}

// What children that may crash say of devices; nothing of them is known without these.
void describe_devices(Report& report) {
  constexpr uint64_t kDeadlineNs = 10'000'000'000;
  std::vector<device::Info> found;
  Json devices = Json::array(), absent = Json::array();
  for (const char* const api : {"cuda", "vulkan"}) {  // the first is preferred where a card has both
    auto asked = probe::ask_child(probe::kOwnProgram, api, kDeadlineNs);
    if (asked.ok() && !asked->empty()) {
      for (device::Info& d : *asked) found.push_back(std::move(d));
      continue;
    }
    const std::string why = asked.ok() ? "no device" : asked.status().message;
    report.text += "devices    none by " + std::string(api) + ": " + printable(why) + "\n";
    absent.push_back({{"api", api}, {"why", why}});
  }
  for (const probe::Card& card : probe::cards_of(found)) {
    const device::Info& d = *card.shown.front();
    report.text += "device     " + printable(d.title) + ", " + std::to_string(d.memory_bytes >> 20) + " MiB, UUID " + d.identity +
                   (d.is_software ? ", software" : "") + "\n";
    Json drivers = Json::array();
    for (const device::Info* shown : card.shown) drivers.push_back(describe_driver(*shown, report.text));
    devices.push_back({{"identity", d.identity}, {"title", d.title}, {"software", d.is_software}, {"memory_bytes", d.memory_bytes},
                       {"drivers", std::move(drivers)}});
  }
  report.json["devices"] = std::move(devices);
  report.json["no_devices"] = std::move(absent);
}

Report describe(const probe::Record& r, const probe::Layout& layout, const std::vector<std::string>& raw) {
  Report report;
  const probe::Topology& t = r.topology;
  const char* pages = r.code_pages == CodePages::Anonymous ? "S1" : r.code_pages == CodePages::SealedFd ? "S2" : "none";
  std::string& out = report.text;
  out += "os         " + r.os_release + ", page " + std::to_string(r.page_size) + "\n";
  out += "cpu        " + std::string(name_of(r.machine)) + (r.cpu_model.empty() ? "" : ", " + printable(r.cpu_model));
  if (const auto level = probe::derived_level(r); !level.empty()) out += ", level " + std::string(level);
  out += "\ncode       " + std::string(pages) + (r.code_pages_note.empty() ? "" : " (" + r.code_pages_note + ")") + "\n";
  const std::vector<int> near(t.worker_cpus.begin(), t.worker_cpus.begin() + t.near_cores());
  const std::string reason = probe::workers_reason(t);
  out += "workers    " + std::to_string(t.workers) + " (" + reason + "), CPUs " + cpu_list(near) + " of " + cpu_list(t.allowed_cpus) + "\n";
  for (const probe::Cache& c : layout.caches)
    out += "cache      L" + std::to_string(c.level) + " " + c.type + " " + std::to_string(c.size_bytes >> 10) +
           " KiB, shared by " + std::to_string(c.shared_by) + "\n";
  out += "memory     " + std::to_string(r.memory.total_bytes >> 20) + " MiB, " +
         std::to_string(r.memory.effective_free_bytes >> 20) + " MiB free to us\n";
  const std::string no_process = sandbox::why_no_process();
  if (!no_process.empty()) out += "isolation  none: " + no_process + ", so files that no trusted key has signed are not opened\n";
  Json features = Json::object();
  for (size_t i = 0; i < kNumFeatures; ++i) {
    const FeatureRow& row = kFeatures[i];
    if (!is_of_this_host(kFeatureNames[i], r.machine)) continue;
    const bool is_ours = is_service(static_cast<uint32_t>(row.feature));
    const probe::FeatureAnswer a = is_ours ? offered(kFeatureNames[i]) : r.features[i];
    std::string line(kFeatureNames[i]);
    line.resize(24, ' ');
    std::string answer = number_of(row, a);
    answer.resize(std::max<size_t>(answer.size(), 10), ' ');
    out += line + answer + a.source + "\n";
    Json entry = {{"answer", name_of(a.answer)}};
    if (row.kind == FeatureKind::Number && a.answer == probe::Answer::Yes) entry["number"] = a.number;
    entry["source"] = a.source;
    features[std::string(kFeatureNames[i])] = std::move(entry);
  }
  for (const std::string& e : r.errors) out += "error      " + printable(e) + "\n";

  Json caches = Json::array();
  for (const probe::Cache& c : layout.caches)
    caches.push_back({{"level", c.level}, {"type", c.type}, {"size_bytes", c.size_bytes}, {"shared_by", c.shared_by}});
  report.json = {{"os", {{"release", r.os_release}, {"page_size", r.page_size}}},
                 {"cpu", {{"arch", name_of(r.machine)}, {"model", r.cpu_model}, {"vendor", r.cpu_vendor},
                          {"level", probe::derived_level(r)}, {"raw", raw}}},
                 {"code_pages", pages},
                 {"topology", {{"allowed_cpus", t.allowed_cpus}, {"worker_cpus", near}, {"cores", t.cores},
                               {"slow_cores", t.slow_cores}, {"far_cores", t.far_cores},
                               {"packages", layout.packages}, {"numa_nodes", layout.numa_nodes},
                               {"uneven_cores", layout.uneven_cores},
                               {"quota_cpus", t.quota_cpus ? Json(*t.quota_cpus) : Json()},
                               {"workers", t.workers}, {"workers_reason", reason}, {"caches", caches}}},
                 {"memory", {{"total_bytes", r.memory.total_bytes}, {"available_bytes", r.memory.available_bytes},
                             {"effective_free_bytes", r.memory.effective_free_bytes}}},
                 {"isolation", no_process.empty() ? Json() : Json(no_process)},
                 {"features", std::move(features)},
                 {"errors", r.errors}};
  return report;
}

// What `ray start --resources` takes: a node has as much of each target that fits as threads would run there.
Report ray_resources(const probe::Record& record) {
  Report report;
  report.json = Json::object();
  for (const std::string_view name : probe::fitting_targets(record)) report.json["mlc." + std::string(name)] = record.topology.workers;
  report.text = report.json.print() + "\n";
  return report;
}

}  // namespace

void add_probe_command(Program& program) {
  struct Options {
    bool as_json = false, for_ray = false;
    std::string devices = "auto";
  };
  auto o = std::make_shared<Options>();
  const Command command = program.add_command("probe", "what this machine has, and how we know",
                                              "  mlrun probe\n  mlrun probe --json\n  ray start --head --resources=\"$(mlrun probe --ray)\"\n", o->as_json);
  command.add_option("--devices", o->devices, "cpu: ask no drivers for devices").one_of({"auto", "cpu"});
  command.add_flag("--ray", o->for_ray, "print resources for ray start: threads, by targets whose code runs here");
  command.on_run([o] {
    if (o->for_ray && o->as_json) return finish("probe", true, Status(Code::Usage, "--ray and --json found, one of the two expected: --ray prints JSON of Ray's form"));
    const auto sources = probe::system_sources();
    const probe::Record record = probe::run(*sources);
    if (o->for_ray) return finish("probe", false, ray_resources(record));
    Report report = describe(record, probe::probe_layout(*sources, record.topology), probe::probe_raw(*sources, record.topology));
    if (o->devices != "cpu") describe_devices(report);
    return finish("probe", o->as_json, std::move(report));
  });
}

}  // namespace mlc::cli
