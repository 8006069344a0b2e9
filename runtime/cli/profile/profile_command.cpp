#include <algorithm>
#include <map>
#include <memory>
#include <span>

#include "base/cli/columns.h"
#include "base/cli/program.h"
#include "base/cli/report.h"
#include "base/counted.h"
#include "runtime/cli/bench/bench_inputs.h"
#include "runtime/cli/profile/ceilings.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/crash.h"
#include "runtime/cli/answers/duration.h"
#include "runtime/cli/bench/environment.h"
#include "runtime/cli/isolation.h"
#include "runtime/cli/options.h"
#include "runtime/cli/profile/profile_pages.h"
#include "runtime/cli/profile/profile_runs.h"

namespace mlc::cli {
namespace {

struct ProfileOptions {
  ContainerOptions container;
  VariantOptions variant;
  InputOptions input;
  std::string duration = "2s", warmup = "300ms";
  std::string json_file, trace_file, html_file;
  uint32_t top = 30;
  bool as_json = false;  // on standard output
};
enum Document : size_t { kJson, kTrace, kHtml };

// Of all launches of an operator, or of all there are, in a run.
struct Sum {
  size_t launches = 0;
  double ns = 0, median_ns = 0, waited_ns = 0, operations = 0, bytes = 0, bound_ns = 0, bounded_ns = 0;  // bounded_ns: of those whose bound is known

  void add(const ProfiledLaunch& l, const Ceilings& ceilings) {
    ++launches;
    ns += static_cast<double>(l.min_ns);
    waited_ns += static_cast<double>(l.waited_ns);
    median_ns += static_cast<double>(l.median_ns);
    operations += l.all_operations();
    bytes += l.all_bytes();
    if (const double share = l.share_of_roof(ceilings); share >= 0) {
      bound_ns += share * static_cast<double>(l.min_ns);
      bounded_ns += static_cast<double>(l.min_ns);
    }
  }
  double share_of_roof() const { return bounded_ns > 0 ? bound_ns / bounded_ns : -1; }
  // Of all threads' time.
  double waited(unsigned threads) const { return median_ns > 0 ? waited_ns / (median_ns * threads) : 0; }
};

Json known(uint64_t figure) { return figure == MLC_NOT_KNOWN ? Json() : Json(figure); }
Json share(double value) { return value < 0 ? Json() : Json(value); }

Json profile_json(const ProfiledLaunch& l, const Ceilings& ceilings) {
  Json cuts = Json::array();
  for (uint32_t k = 0; k < l.num_cuts; ++k) cuts.push_back({{"units", l.units[k]}, {"chunk", l.chunks[k]}});
  Json bound;
  if (l.knows_work() && l.is_on_processor()) bound = ceilings.bound(l.operations, l.read > UINT64_MAX - l.written ? UINT64_MAX : l.read + l.written, l.of_bytes).by;
  return {{"name", l.name}, {"operator", l.op}, {"function", l.function}, {"device", l.device}, {"kernel", l.is_launch ? Json(l.kernel) : Json()},
          {"times", l.each_run}, {"min_ns", l.min_ns}, {"median_ns", l.median_ns}, {"waited_ns", l.waited_ns},
          {"operations", known(l.operations)}, {"of_bytes", l.of_bytes}, {"bytes_read", known(l.read)}, {"bytes_written", known(l.written)},
          {"intensity", l.knows_work() && l.all_bytes() > 0 ? Json(l.all_operations() / l.all_bytes()) : Json()},
          {"roof", share(l.share_of_roof(ceilings))}, {"bound", bound}, {"parts", l.tiles}, {"threads", l.threads}, {"cuts", cuts}};
}

Json profile_json(const Sum& sum, unsigned threads) {
  return {{"launches", sum.launches}, {"min_ns", sum.ns}, {"waited", sum.waited(threads)}, {"operations", sum.operations}, {"bytes", sum.bytes},
          {"roof", share(sum.share_of_roof())}};
}

Json profile_json(const Ceilings& c) {
  if (!c.are_known()) return {};
  Json reads = Json::object();
  for (const Ceilings::Level& level : c.levels) reads[level.name] = level.bytes_per_s;
  return {{"threads", c.threads}, {"arithmetic", c.arithmetic}, {"operations_per_s", c.operations_per_s},
          {"byte_operations_per_s", c.byte_operations_per_s > 0 ? Json(c.byte_operations_per_s) : Json()}, {"reads_per_s", reads}};
}

std::string percent(double share) { return share < 0 ? "     -" : formatted("%5.1f%%", 100 * share); }
// A rate in units of 1e9 a second.
std::string rate(double amount, double ns) { return amount > 0 && ns > 0 ? formatted("%8.2f", amount / ns) : "       -"; }

std::string line_of(double ns, double median, double all, double operations, double bytes, double roof, const std::string& cut, double waited,
                    const std::string& name) {
  return formatted("%10.1f %10.1f %s ", ns / 1e3, median / 1e3, percent(all > 0 ? ns / all : 0).c_str()) + rate(operations, ns) + " " + rate(bytes, ns) + " " +
         (operations > 0 && bytes > 0 ? formatted("%8.2f", operations / bytes) : "       -") + "  " + percent(roof) + " " + formatted("%9s", cut.c_str()) + " " +
         percent(waited) + "  " + printable(name) + "\n";
}

constexpr const char* kColumnNames =
    "  least us  median us   time   Gop/s     GB/s   op/byte    roof parts/thr waited  ";

struct Sums {
  Sum all;
  std::vector<std::pair<std::string, Sum>> of_operators;  // those that take longest first
};
Sums sums_of(const Profile& profile, const Ceilings& ceilings) {
  Sums out;
  std::map<std::string, Sum> by_operator;
  for (const ProfiledLaunch& l : profile.launches) {
    out.all.add(l, ceilings);
    by_operator[l.op].add(l, ceilings);
  }
  out.of_operators.assign(by_operator.begin(), by_operator.end());
  std::stable_sort(out.of_operators.begin(), out.of_operators.end(), [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  return out;
}

std::string table_of(const Profile& profile, const Ceilings& ceilings, const Sums& sums, uint32_t top) {
  std::vector<const ProfiledLaunch*> order;
  for (const ProfiledLaunch& l : profile.launches) order.push_back(&l);
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->min_ns > b->min_ns; });
  // Where there are several, each launch says which did it.
  const bool apart = std::any_of(order.begin(), order.end(), [&](const ProfiledLaunch* l) { return l->device != order[0]->device; });
  std::string out = std::string(kColumnNames) + (apart ? "device  launch\n" : "launch\n");
  const double all = sums.all.ns;
  double rest = 0;
  for (size_t k = 0; k < order.size(); ++k) {
    const ProfiledLaunch& l = *order[k];
    const auto ns = static_cast<double>(l.min_ns);
    if (k >= top) {
      rest += ns;
      continue;
    }
    const std::string cut = std::to_string(l.tiles) + "/" + std::to_string(l.threads);
    out += line_of(ns, static_cast<double>(l.median_ns), all, l.all_operations(), l.all_bytes(), l.share_of_roof(ceilings), cut,
                   static_cast<double>(l.waited_ns) / (static_cast<double>(std::max<uint64_t>(l.median_ns, 1)) * ceilings.threads), (apart ? padded(l.device, 8) : std::string()) + l.name);
  }
  if (order.size() > top) out += formatted("%10.1f            ", rest / 1e3) + "in " + std::to_string(order.size() - top) + " more (--top)\n";
  out += "\n" + std::string(kColumnNames) + "operator\n";
  for (const auto& [op, sum] : sums.of_operators)
    out += line_of(sum.ns, sum.median_ns, all, sum.operations, sum.bytes, sum.share_of_roof(), std::to_string(sum.launches) + "x", sum.waited(ceilings.threads), op);
  return out + line_of(all, sums.all.median_ns, all, sums.all.operations, sums.all.bytes, sums.all.share_of_roof(), std::to_string(sums.all.launches) + "x",
                       sums.all.waited(ceilings.threads), "all");
}

std::string summary_of(const Json& json, const Profile& profile, const Ceilings& c, const Sums& sums) {
  std::string out = "input       " + fed_text(json["input"]);
  out += "run         least " + ms_text(profile.min_ns()) + " · median " + ms_text(profile.median_ns()) + " of " + counted(profile.runs.size(), "run") +
         " · launches " + ms_text(static_cast<uint64_t>(sums.all.ns)) + "\n";
  if (c.are_known()) {
    out += "ceilings    " + formatted("%.1f Gop/s (%s)", c.operations_per_s / 1e9, c.arithmetic.c_str());
    if (c.byte_operations_per_s > 0) out += formatted(" · bytes %.1f Gop/s", c.byte_operations_per_s / 1e9);
    for (const Ceilings::Level& level : c.levels) out += formatted(" · %s %.1f GB/s", level.name.c_str(), level.bytes_per_s / 1e9);
    out += "\n";
  }
  out += "variant     " + json["variant"].text() + ", " + counted(c.threads, "thread") + "\n";
  if (const std::string& device = json["device"].text(); !device.empty()) out += "device      " + device + "; each launch is submitted and waited for by itself here\n";
  return out + "machine     " + environment_text(json["env"]) + "\n";
}

Status write_document(OpenFiles& files, Document which, const std::string& text) {
  auto& file = files.documents[which];
  if (!file) return ok();
  MLC_RETURN_IF_ERROR(file->write(std::as_bytes(std::span(text))));
  return file->sync();
}

Result<Report> profile_model(const ProfileOptions& o, const HostState& host, OpenFiles& files) {
  MLC_ASSIGN(const uint64_t duration, parse_duration(o.duration));
  MLC_ASSIGN(const uint64_t warmup, parse_duration(o.warmup));
  MLC_ASSIGN(const OpenModel model, open_model(files));
  MLC_ASSIGN(mlio::Target target, choose_target(model, o.input));
  MLC_RETURN_IF_ERROR(check_variant(model, o.variant));
  MLC_ASSIGN(InputMemory memory, InputMemory::allowed(model, o.variant.limits));
  MLC_ASSIGN(const BenchInputs inputs, bench_inputs(model, target, o.input, files.inputs, memory, false));
  MLC_ASSIGN(const OpenSession session, open_session(model, o.variant, {.profile = true, .taken = memory.shared_with_session(), .program = target.program}));
  say_what_crashed(model, session.info.variant);
  const MlcProgram program = mlio::program_at(model, target.program);
  say_what_runs(model, session, "program " + printable(program.name), o.as_json);

  const bool on_processor = device_text(model, session).empty();  // what devices can do at most is not measured
  Ceilings ceilings;
  ceilings.threads = session.info.threads;
  if (on_processor) ceilings = measure_ceilings(session.info.threads);
  MLC_ASSIGN(const Profile found, profile(session, {program.name, inputs.views.tensors, program.num_outputs, warmup, duration}));
  say_what_fell_back(session);
  if (on_processor) ceilings.merge(measure_ceilings(session.info.threads));
  const Sums sums = sums_of(found, ceilings);
  Report report;
  report.json = {{"root", std::string("sha256:") + model.info.root},
                 {"variant", session.info.variant},
                 {"device", device_text(model, session)},
                 {"program", program.name},
                 {"input", fed_json(model, target, o.input, inputs)},
                 {"threads", session.info.threads},
                 {"runs", found.runs.size()},
                 {"run_ns", {{"min", found.min_ns()}, {"p50", found.median_ns()}}},
                 {"ceilings", profile_json(ceilings)},
                 {"total", profile_json(sums.all, ceilings.threads)},
                 {"operators", Json::array()},
                 {"launches", Json::array()}};
  for (const auto& [op, sum] : sums.of_operators) {
    Json entry = {{"operator", op}};
    entry.update(profile_json(sum, ceilings.threads));
    report.json["operators"].push_back(std::move(entry));
  }
  for (const ProfiledLaunch& l : found.launches) report.json["launches"].push_back(profile_json(l, ceilings));
  report.json["env"] = environment(host);
  const std::string summary = summary_of(report.json, found, ceilings, sums);
  report.text = summary + "\n" + table_of(found, ceilings, sums, o.top);

  if (files.documents[kJson]) {
    Json whole = first_fields("profile", ok());
    whole.update(report.json);
    MLC_RETURN_IF_ERROR(write_document(files, kJson, mlc::cli::line_of(whole)));
  }
  MLC_RETURN_IF_ERROR(write_document(files, kTrace, profile_trace(found)));
  MLC_RETURN_IF_ERROR(write_document(files, kHtml, profile_page(found, ceilings, "Profile of " + o.container.file, summary)));
  return report;
}

}  // namespace

void add_profile_command(Program& program) {
  auto o = std::make_shared<ProfileOptions>();
  const Command command = program.add_command("profile", "what each launch takes, and what the machine can do",
                                              "  mlrun profile net.mlc\n"
                                              "  mlrun profile net.mlc --dim N=8 --threads 1 --html net.html --json net.json\n",
                                              o->as_json);
  add_container_options(command, o->container);
  add_input_options(command, o->input);
  add_variant_options(command, o->variant);
  add_limit_options(command, o->variant.limits);
  command.add_option("--duration", o->duration, "how long to measure: 5s, 300ms");
  command.add_option("--warmup", o->warmup, "how long to run before that");
  command.add_option("--top", o->top, "how many launches the table lists; the files have all").within(0, 1000000);
  command.remove_option("--json");
  const Option json = command.add_option("--json", o->json_file, "print one JSON object, or write it to FILE").may_lack_value("[FILE]");
  if (o->container.file.empty()) command.option("file").required(false);  // by this callback: '--json net.mlc' takes it for the file to write
  command.add_option("--trace", o->trace_file, "write the last run for trace viewers (Perfetto, Chrome)");
  command.add_option("--html", o->html_file, "write a page: roofline plot, time line, table");
  command.on_run([o, json] {
    if (o->container.file.empty()) std::swap(o->container.file, o->json_file);
    o->as_json = json.is_given() && o->json_file.empty();
    if (o->container.file.empty())
      return finish("profile", o->as_json, Status(Code::Usage, "file is required").hint("mlrun profile --help"));
    const HostState host = host_state();
    uint64_t beside = 2'000'000'000;  // of the ceilings
    for (const std::string& text : {o->duration, o->warmup})
      if (const auto ns = parse_duration(text)) beside += *ns;
    return answer({.name = "profile", .as_json = o->as_json, .container = o->container, .inputs = o->input.specs,
                        .runs = {&o->variant.limits, 4, beside, o->variant.threads},
                        .documents = {o->json_file, o->trace_file, o->html_file}},
                       [&](OpenFiles& files) { return profile_model(*o, host, files); });
  });
}

}  // namespace mlc::cli
