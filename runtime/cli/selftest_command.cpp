#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/cli/columns.h"
#include "base/cli/program.h"
#include "base/cli/report.h"
#include "base/counted.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/crash.h"
#include "runtime/cli/isolation.h"
#include "runtime/cli/options.h"
#include "runtime/cli/tune/remember.h"
#include "runtime/match/brief.h"

namespace mlc::cli {
namespace {

constexpr uint64_t kMostGolden = 1024;  // vectors of a container (spec/limits.md)

struct SelftestOptions {
  ContainerOptions container;
  std::string variant;
  std::vector<uint32_t> threads;
  bool all_variants = true;
  LimitOptions limits;
  bool as_json = false;
};

// The devices that the user named: none by "auto", which takes what there is, and by "cpu". By program ("detect=gpu0") they run together what no variant runs alone.
struct NamedDevices {
  bool beside_processor = false, by_program = false;
};

NamedDevices named_devices(const std::vector<std::string>& devices) {
  NamedDevices out;
  for (const std::string& part : devices)
    for (size_t at = 0; at <= part.size();) {
      const size_t end = std::min(part.find_first_of(",;", at), part.size());
      const std::string item = part.substr(at, end - at), name = item.substr(item.find('=') + 1);
      out.by_program |= item.size() != name.size();
      out.beside_processor |= !name.empty() && name != "auto" && name != "cpu";
      at = end + 1;
    }
  return out;
}

// A session with a variant, or as it is chosen, against the golden vectors.
struct Tested {
  Status status;
  MlcSelftest result = sized<MlcSelftest>();
  uint32_t workers = 0;
};

Tested test(const OpenModel& model, const VariantOptions& options, const char* variant) {
  Tested out;
  out.workers = options.threads;
  const auto session = open_session(model, options);
  if (!session) {
    out.status = session.status();
    return out;
  }
  out.workers = session->info.threads;
  say_what_crashed(model, variant);
  MlcError* error = nullptr;
  out.status = status_of(api().selftest(session->session.get(), nullptr, &out.result, &error), error);
  return out;
}

void report_on(const Tested& t, const std::string& variant, const std::string& device, Report& report, Json& variants) {
  const std::string name = padded(printable(variant), 18);
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, "max |d| %.2g, relative %.2g\n", t.result.max_abs, t.result.max_rel);
  if (t.status.ok()) report.text += "ok    " + name + " " + counted(t.result.vectors, "vector") + ", " + (device.empty() ? counted(t.workers, "thread") : device) + ", " + numbers;
  else report.text += in_lines("fail  " + name + " ", (device.empty() ? "" : device + ": ") + printable(t.status.message));
  Json entry = {{"name", variant}};
  if (!device.empty()) entry["device"] = device;
  entry.update({{"answer", t.status.ok() ? "ok" : "fail"}, {"threads", t.workers}, {"vectors", t.result.vectors}, {"max_abs", t.result.max_abs}, {"max_rel", t.result.max_rel}});
  if (!t.status.ok()) entry["reason"] = t.status.message;
  variants.push_back(std::move(entry));
  if (!t.status.ok() && report.failure.ok()) report.failure = t.status;
}

Result<Report> selftest(const SelftestOptions& o, OpenFiles& files) {
  MLC_ASSIGN(const OpenModel model, open_model(files));
  if (model.info.num_golden == 0) return Status(Code::SelfTest, "this container has no golden vectors");
  std::vector<uint32_t> threads = o.threads;
  if (threads.empty()) threads = {0};
  Report report;
  Json variants = Json::array();
  const NamedDevices named = o.variant.empty() ? named_devices(o.container.devices) : NamedDevices{};
  bool found = o.variant.empty(), ran = false, ran_on_device = false;
  VariantOptions options;
  options.limits = o.limits;
  for (uint32_t i = 0; i < model.info.num_variants; ++i) {
    const MlcVariant v = variant_at(model, i);
    if (!o.variant.empty() && o.variant != v.name) continue;
    found = true;
    options.variant = v.name;
    const std::string head = "skip  " + padded(printable(v.name), 18) + " ", device = v.device;
    if (v.fits != MLC_FITS) {
      const std::vector<FailingClause> failing = failing_of(model, i);
      const std::string why = failing.empty() ? printable(v.reason) : printable(match::brief_reason(failing));
      report.text += in_lines(head, why);
      variants.push_back({{"name", v.name}, {"answer", "skip"}, {"reason", v.reason}});
      continue;
    }
    for (uint32_t n : threads) {
      options.threads = n;
      const Tested t = test(model, options, v.name);
      if (t.status.code == Code::NoVariant && !device.empty()) {  // its shapes or loops are not for this device, which said so
        report.text += in_lines(head, device + ": " + printable(t.status.message));
        variants.push_back({{"name", v.name}, {"device", device}, {"answer", "skip"}, {"reason", t.status.message}});
        if (named.beside_processor && !named.by_program && report.failure.ok())
          report.failure = Status(Code::NoVariant, 2001, "{} was not tested on {}: {}", v.name, device, t.status.message);
        break;
      }
      report_on(t, v.name, device, report, variants);
      ran = true;
      ran_on_device |= !device.empty();
      if (t.status.code == Code::SelfTest && std::string_view(v.family) != "portable" && !model.isolated) {
        if (const Status written = remember_fault(model, v.name, "its answers to the golden vectors are wrong"); written.ok())
          note(printable(v.name) + " is left out from now on, mlrun tune --forget takes it in again");
      }
    }
  }
  if (!found) return Status(Code::Usage, "no variant '" + o.variant + "' in this container");
  if (named.by_program) {
    options.variant.clear();
    for (uint32_t n : threads) {
      options.threads = n;
      report_on(test(model, options, "by program"), "by program", devices_of(o.container), report, variants);
    }
    ran = ran_on_device = true;
  }
  if (!ran && report.failure.ok()) report.failure = Status(Code::NoVariant, 2001, "no variant could be tested here");
  if (named.beside_processor && !ran_on_device && report.failure.ok())
    report.failure = Status(Code::NoVariant, 2001, "no variant was tested on the devices that --devices names, only on the processor; lines that begin with skip say why");
  report.json = {{"root", std::string("sha256:") + model.info.root}, {"variants", std::move(variants)}};
  return report;
}

}  // namespace

void add_selftest_command(Program& program) {
  auto o = std::make_shared<SelftestOptions>();
  const Command command = program.add_command("selftest", "golden vectors on every variant that fits here",
                                              "  mlrun selftest cat.mlc\n  mlrun selftest cat.mlc --threads 1,2,7\n", o->as_json);
  add_container_options(command, o->container);
  command.add_option("--variant", o->variant, "only this one");
  command.add_flag("--all-variants", o->all_variants, "every variant that fits here, the default");
  command.add_option("--threads", o->threads, "numbers of workers to try").separated_by(',').positive();
  add_limit_options(command, o->limits);
  command.on_run([o] {
    return answer({"selftest", o->as_json, o->container, {}, "", {&o->limits, kMostGolden}}, [&](OpenFiles& files) { return selftest(*o, files); });
  });
}

}  // namespace mlc::cli
