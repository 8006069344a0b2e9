#include <memory>

#include <CLI/CLI.hpp>

#include "base/cli/program.h"
#include "base/cli/report.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/duration.h"
#include "runtime/cli/isolation.h"
#include "runtime/cli/options.h"
#include "runtime/probe/probe.h"

namespace mlc::cli {
namespace {

struct ExplainOptions {
  ContainerOptions container;
  VariantOptions variant;
  bool as_json = false;
};

std::string host_line(const probe::Record& r, unsigned threads) {
  const char* pages = r.code_pages == CodePages::Anonymous ? "S1" : r.code_pages == CodePages::SealedFd ? "S2" : "none";
  const unsigned workers = probe::workers_for(r.topology, threads);
  return "host      " + std::string(name_of(r.machine)) + ", " + r.os_release + ", page " + std::to_string(r.page_size) +
         ", code pages " + pages + ", workers " + std::to_string(workers) + " (" + r.topology.workers_reason + ")\n";
}

Result<Report> explain(const ExplainOptions& o, OpenFiles& files) {
  MLC_ASSIGN(const OpenModel model, open_model(files));
  const char* variant = o.variant.variant.empty() ? nullptr : o.variant.variant.c_str();
  const char* require = o.variant.require.empty() ? nullptr : o.variant.require.c_str();
  uint32_t chosen = UINT32_MAX;
  MlcError* error = nullptr;
  Report report;
  report.failure = status_of(api().choose(model.model.get(), variant, require, &chosen, &error), error);

  size_t width = 0;
  for (uint32_t i = 0; i < model.info.num_variants; ++i) {
    auto v = sized<MlcVariant>();
    api().explain(model.model.get(), i, &v);
    width = std::max(width, std::string_view(v.name).size());
  }
  ordered_json variants = ordered_json::array();
  std::string lines[4];  // chosen, fits, no, unknown: in this order
  for (uint32_t i = 0; i < model.info.num_variants; ++i) {
    auto v = sized<MlcVariant>();
    api().explain(model.model.get(), i, &v);
    const bool is_chosen = report.failure.ok() && i == chosen;
    const char* answer = v.fits == MLC_FITS ? "fits" : v.fits == MLC_FITS_NOT ? "no" : "unknown";
    ordered_json entry = {{"name", v.name}, {"target", v.target}, {"answer", answer}, {"chosen", is_chosen}};
    if (v.estimate_ns) entry["estimate_ns"] = v.estimate_ns;
    if (v.num_failing) {
      ordered_json missing = ordered_json::array();
      for (uint32_t k = 0; k < v.num_failing; ++k) {
        auto c = sized<MlcClause>();
        api().failing(model.model.get(), i, k, &c);
        missing.push_back({{"clause", c.clause}, {"answer", c.answer}, {"source", c.source}});
      }
      entry["missing"] = std::move(missing);
    }
    if (v.fits != MLC_FITS) entry["reason"] = v.reason;
    variants.push_back(std::move(entry));

    std::string line = is_chosen ? "chosen" : answer;
    line.resize(10, ' ');
    line += printable(v.name);
    std::string rest = v.estimate_ns ? "estimate " + ms_text(v.estimate_ns) : "";
    if (v.fits != MLC_FITS) rest = printable(v.reason);
    if (!rest.empty()) line += std::string(width + 3 - std::string_view(v.name).size(), ' ') + rest;
    lines[is_chosen ? 0 : v.fits + 1] += line + "\n";
  }
  const probe::Record& host = probe::host();
  const bool copied = model.info.is_copied != 0;
  report.text = host_line(host, o.variant.threads) + "trust     " + printable(model.info.trust) + "\n" +
                (copied ? "file      copied into memory as it is verified: --verify copy, a strict policy, or others may write to it\n" : "") + lines[0] +
                lines[1] + lines[2] + lines[3];
  auto best = sized<MlcVariant>();
  if (report.failure.ok()) api().explain(model.model.get(), chosen, &best);
  report.json = {{"root", std::string("sha256:") + model.info.root},
                 {"trust", model.info.trust},
                 {"native_allowed", model.info.native_allowed != 0},
                 {"copied", copied},
                 {"chosen", report.failure.ok() ? ordered_json(best.name) : ordered_json()},
                 {"workers", probe::workers_for(host.topology, o.variant.threads)},
                 {"workers_reason", host.topology.workers_reason},
                 {"variants", std::move(variants)}};
  return report;
}

}  // namespace

void add_explain_command(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<ExplainOptions>();
  CLI::App* command = add_command(app, "explain", "every variant: why it is chosen here or not",
                                  "  mlrun explain cat.mlc\n  mlrun explain cat.mlc --require native --json\n", o->as_json);
  add_container_options(*command, o->container);
  add_variant_options(*command, o->variant);
  command->callback([o, &exit_code] {
    exit_code = answer({"explain", o->as_json, o->container}, [&](OpenFiles& files) { return explain(*o, files); });
  });
}

}  // namespace mlc::cli
