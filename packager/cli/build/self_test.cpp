#include "packager/cli/build/self_test.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>
#include <thread>

#include "base/counted.h"
#include "packager/cli/build/apart.h"
#include "packager/cli/library.h"
#include "runtime/isolation/child_answer.h"

namespace mlc::cli {
namespace {

// A run that fails is as wrong as an answer that differs; only of one that lacks memory nothing is known.
Status as_failure(Status s) {
  if (s.code != Code::Resource && s.code != Code::NoVariant) s.code = Code::SelfTest;
  return s;
}

// What went well has a fact for each vector: how far its answers were off.
Status run_vectors(MlcModel* model, const char* variant, const std::vector<std::string>& vectors) {
  auto options = sized<MlcSessionOptions>();
  options.variant = variant;
  options.time_limit_ns = options.memory_limit = MLC_NO_LIMIT;  // also where a policy keeps native code from running
  MlcSession* opened = nullptr;
  MlcError* error = nullptr;
  if (const int code = api().session_create(model, &options, &opened, &error); code != MLC_OK) return as_failure(status_of(code, error));
  const SessionHandle session(opened);
  Status done;
  for (const std::string& vector : vectors) {
    auto result = sized<MlcSelftest>();
    const int code = api().selftest(session.get(), vector.c_str(), &result, &error);
    if (code == MLC_OK) {
      char error[32];
      std::snprintf(error, sizeof error, "%.9g", result.max_rel);
      done.facts.push_back(error);
      continue;
    }
    Status failure = status_of(code, error);
    if (code == MLC_SELFTEST) failure.message = result.text;
    return as_failure(std::move(failure));
  }
  return done;
}

std::map<std::string, double> errors_of(const compile::FinishedFile& file, const std::vector<std::string>& vectors, const std::vector<std::string>& facts) {
  std::map<std::string, double> all;
  for (const compile::FinishedFile::Vector& vector : file.vectors) {
    const auto k = static_cast<size_t>(std::find(vectors.begin(), vectors.end(), vector.name) - vectors.begin());
    if (k < std::min(vectors.size(), facts.size())) all[vector.program] = std::max(all[vector.program], std::strtod(facts[k].c_str(), nullptr));
  }
  return all;
}

// Programs that a variant has code for here.
std::set<std::string> programs_of(const MlcModel* model, const MlcModelInfo& info, const char* variant) {
  std::set<std::string> names;
  for (uint32_t k = 0; k < info.num_programs; ++k) {
    auto program = sized<MlcProgram>();
    auto choice = sized<MlcChoice>();
    if (api().program(model, k, &program) == MLC_OK && api().choose_for(model, k, variant, nullptr, &choice, nullptr) == MLC_OK) names.insert(program.name);
  }
  return names;
}

// Of these programs, up to so many operations, and at least as many vectors.
std::vector<std::string> chosen(const compile::FinishedFile& file, const std::set<std::string>& programs, double most_operations, size_t least) {
  std::vector<std::string> names;
  double operations = 0;
  for (const compile::FinishedFile::Vector& vector : file.vectors) {
    if (!programs.contains(vector.program)) continue;
    operations += vector.operations;
    if (names.size() >= least && operations > most_operations) break;
    names.push_back(vector.name);
  }
  return names;
}

// The program that asks drivers for devices in a process of its own: the mlrun beside this program. Empty: there is none.
std::string probe_program() {
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::filesystem::path beside = self.parent_path() / "mlrun";
  return !failed && std::filesystem::exists(beside, failed) ? beside.string() : std::string();
}

// By its name in this process; none: `d` is not changed.
void find_device(const MlcModel* model, const char* name, MlcDevice& d) {
  auto each = sized<MlcDevice>();
  for (uint32_t k = 0; api().device(model, k, &each) == MLC_OK; ++k)
    if (std::strcmp(each.name, name) == 0) d = each;
}

// In the process that runs a stranger's vectors.
Status give_up_privileges_for_vectors(size_t vectors) {
  constexpr uint64_t kSecondsOfVector = 120;
  ChildWork work{.is_memory_unlimited = true, .threads = std::thread::hardware_concurrency()};
  work.run_seconds = kSecondsOfVector * vectors * std::max<uint64_t>(work.threads, 1);
  MLC_ASSIGN(const sandbox::Confinement confinement, sandbox::confine(limits_of(work)));
  if (!confinement.no_call_filter.empty()) note("warning: system calls are not filtered: " + confinement.no_call_filter);
  return ok();
}

std::vector<std::string> vectors_for(const compile::FinishedFile& file, const std::set<std::string>& programs, const MlcVariant& v, const MlcDevice& device) {
  constexpr double kAll = std::numeric_limits<double>::infinity();
  if (std::strcmp(v.family, "portable") == 0) return chosen(file, programs, kPortableOperations, 1);
  return chosen(file, programs, device.is_software ? kSoftwareOperations : kAll, 0);
}

}  // namespace

std::string SelfTestReport::text() const {
  if (vectors == 0) return "nothing: the file has no golden vectors";
  std::string here, elsewhere;
  for (const Variant& v : variants) {
    if (!v.reason.empty()) {
      elsewhere += (elsewhere.empty() ? "" : ", ") + v.name;
      continue;
    }
    here += (here.empty() ? "" : " · ") + v.name + (v.device.empty() ? "" : " on " + v.device);
    if (v.vectors < vectors) here += " (" + std::to_string(v.vectors) + " of them)";
  }
  std::string line = here.empty() ? "nothing: no variant runs here" : counted(vectors, "vector") + ": " + here;
  return elsewhere.empty() ? line : line + "   not here: " + elsewhere;
}

Result<SelfTestReport> self_test(const compile::FinishedFile& file, const std::function<void(const compile::Stage&)>& progress, CodeOf code_of) {
  SelfTestReport report;
  report.vectors = file.vectors.size();
  auto options = sized<MlcOpenOptions>();
  options.path = file.path.c_str();
  options.verify = MLC_VERIFY_LAZY;
  options.allow_unsigned = code_of == CodeOf::Us;  // this process has just made it
  const std::string prober = code_of == CodeOf::Us ? probe_program() : std::string();
  options.probe_program = prober.empty() ? nullptr : prober.c_str();
  options.devices = prober.empty() ? "auto" : "gpu";
  MlcModel* opened = nullptr;
  MlcError* error = nullptr;
  if (const int code = api().open(&options, &opened, &error); code != MLC_OK) return status_of(code, error).note("self-test");
  const ModelHandle model(opened);
  auto info = sized<MlcModelInfo>();
  api().model_info(model.get(), &info);
  for (uint32_t k = 0; k < info.num_variants; ++k) {
    auto v = sized<MlcVariant>();
    api().explain(model.get(), k, &v);
    SelfTestReport::Variant& variant = report.variants.emplace_back();
    variant.name = v.name;
    if (v.fits != MLC_FITS) {
      variant.reason = v.reason;
      continue;
    }
    auto device = sized<MlcDevice>();
    device.title = "";
    find_device(model.get(), v.device, device);
    const std::vector<std::string> vectors = vectors_for(file, programs_of(model.get(), info, v.name), v, device);
    if (vectors.empty() && report.vectors > 0)
      variant.reason = device.is_software ? std::string("its golden vectors are long for software such as ") + device.title : "no golden vector is of a program that it has code for";
    if (vectors.empty()) continue;
    variant.vectors = vectors.size();
    variant.device = device.title;
    progress({compile::nth("self-test of variant", k, info.num_variants) + ", " + variant.name, "vectors", 0, vectors.size()});
    Status status = run_apart([&]() -> Status {
      if (code_of == CodeOf::Stranger) MLC_RETURN_IF_ERROR(give_up_privileges_for_vectors(vectors.size()));
      return run_vectors(model.get(), v.name, vectors);
    });
    if (status.ok()) {
      variant.errors = errors_of(file, vectors, status.facts);
      continue;
    }
    if (status.code == Code::NoVariant && !variant.device.empty()) {  // the device says that it cannot do this
      variant = {variant.name, 0, "", status.message};
      continue;
    }
    status.message = "variant '" + variant.name + "': " + status.message;
    if (status.code == Code::Resource) return std::move(status).note("self-test").hint("more memory, or --no-selftest writes the file untested");
    return std::move(status).hint("this is a bug of mlpack; --no-selftest writes the file as it is");
  }
  return report;
}

}  // namespace mlc::cli
