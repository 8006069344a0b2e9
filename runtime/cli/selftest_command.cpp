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

Result<Report> selftest(const SelftestOptions& o, OpenFiles& files) {
  MLC_ASSIGN(const OpenModel model, open_model(files));
  if (model.info.num_golden == 0) return Status(Code::SelfTest, "this container has no golden vectors");
  std::vector<uint32_t> threads = o.threads;
  if (threads.empty()) threads = {0};
  Report report;
  Json variants = Json::array();
  bool found = o.variant.empty(), ran = false;
  for (uint32_t i = 0; i < model.info.num_variants; ++i) {
    const MlcVariant v = variant_at(model, i);
    if (!o.variant.empty() && o.variant != v.name) continue;
    found = true;
    const std::string name = padded(printable(v.name), 18);
    if (v.fits != MLC_FITS) {
      const std::vector<FailingClause> failing = failing_of(model, i);
      const std::string why = failing.empty() ? printable(v.reason) : printable(match::brief_reason(failing));
      report.text += in_lines("skip  " + name + " ", why);
      variants.push_back({{"name", v.name}, {"answer", "skip"}, {"reason", v.reason}});
      continue;
    }
    for (uint32_t n : threads) {
      VariantOptions options;
      options.variant = v.name;
      options.threads = n;
      options.limits = o.limits;
      Status status;
      auto result = sized<MlcSelftest>();
      uint32_t workers = n;
      std::string device = v.device;
      if (auto session = open_session(model, options); session) {
        workers = session->info.threads;
        say_what_crashed(model, v.name);
        MlcError* error = nullptr;
        status = status_of(api().selftest(session->session.get(), nullptr, &result, &error), error);
      } else {
        status = std::move(session).status();
      }
      char numbers[64];
      std::snprintf(numbers, sizeof numbers, "max |d| %.2g, relative %.2g\n", result.max_abs, result.max_rel);
      const std::string where = device.empty() ? counted(workers, "thread") : device;
      if (status.code == Code::NoVariant && !device.empty()) {  // its shapes or loops are not for this device, which said so
        report.text += in_lines("skip  " + name + " ", where + ": " + printable(status.message));
        variants.push_back({{"name", v.name}, {"device", device}, {"answer", "skip"}, {"reason", status.message}});
        break;
      }
      if (status.ok()) report.text += "ok    " + name + " " + counted(result.vectors, "vector") + ", " + where + ", " + numbers;
      else report.text += in_lines("fail  " + name + " ", (device.empty() ? "" : device + ": ") + printable(status.message));
      Json entry = {{"name", v.name}};
      if (!device.empty()) entry["device"] = device;
      entry.update({{"answer", status.ok() ? "ok" : "fail"}, {"threads", workers}, {"vectors", result.vectors}, {"max_abs", result.max_abs}, {"max_rel", result.max_rel}});
      if (!status.ok()) entry["reason"] = status.message;
      variants.push_back(std::move(entry));
      ran = true;
      if (status.code == Code::SelfTest && std::string_view(v.family) != "portable" && !model.isolated) {
        if (const Status written = remember_fault(model, v.name, "its answers to the golden vectors are wrong"); written.ok())
          note(printable(v.name) + " is left out from now on, mlrun tune --forget takes it in again");
      }
      if (!status.ok() && report.failure.ok()) report.failure = std::move(status);
    }
  }
  if (!found) return Status(Code::Usage, "no variant '" + o.variant + "' in this container");
  if (!ran && report.failure.ok()) report.failure = Status(Code::NoVariant, 2001, "no variant could be tested here");
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
