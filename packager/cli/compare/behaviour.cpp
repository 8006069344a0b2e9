#include "packager/cli/compare/behaviour.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include "base/counted.h"
#include "packager/cli/early_end.h"
#include "packager/cli/library.h"
#include "packager/cli/look.h"
#include "packager/compile/interface_text.h"
#include "runtime/api/session/golden.h"
#include "runtime/isolation/child_answer.h"
#include "schema/validate/validate.h"
#include "signing/hash_tree.h"
#include "signing/policy.h"

namespace mlc::cli {
namespace {

struct FileRelease {
  void operator()(MlcFile* f) const { api().file_release(f); }
};
using FileHandle = std::unique_ptr<MlcFile, FileRelease>;

Result<FileHandle> authenticated_file(const std::string& path) {
  const signing::TrustSources sources = signing::default_trust_sources();
  auto options = sized<MlcOpenOptions>();
  options.path = path.c_str();
  options.config_folder = sources.config_folder.empty() ? nullptr : sources.config_folder.c_str();
  options.devices = "cpu";
  options.allow_older = 1;  // the older one of two versions is asked as well
  MlcFile* file = nullptr;
  MlcError* error = nullptr;
  if (const int code = api().authenticate(&options, &file, &error); code != MLC_OK) return status_of(code, error);
  return FileHandle(file);
}

bool is_native_certain(const FileHandle& file) {
  auto info = sized<MlcFileInfo>();
  api().file_info(file.get(), &info);
  return info.native_code == MLC_NATIVE_CERTAIN;
}

// One of the two, with a session.
struct Side {
  std::string path, variant;
  ModelHandle model;
  SessionHandle session;
  MlcModelInfo info{};
};

Result<Side> open_side(const std::string& path, FileHandle file, bool portable_only) {
  Side side{path, {}, nullptr, nullptr, sized<MlcModelInfo>()};
  MlcModel* model = nullptr;
  MlcError* error = nullptr;
  if (const int code = api().open_file(file.get(), &model, &error); code != MLC_OK) return status_of(code, error).note(path);
  side.model.reset(model);
  api().model_info(model, &side.info);
  for (uint32_t k = 0; k < side.info.num_variants && portable_only; ++k) {
    auto v = sized<MlcVariant>();
    api().explain(model, k, &v);
    if (std::strcmp(v.family, "portable") == 0) side.variant = v.name;
  }
  auto options = sized<MlcSessionOptions>();
  options.variant = side.variant.empty() ? nullptr : side.variant.c_str();
  MlcSession* session = nullptr;
  if (const int code = api().session_create(model, &options, &session, &error); code != MLC_OK) return status_of(code, error).note(path);
  side.session.reset(session);
  auto info = sized<MlcSessionInfo>();
  api().session_info(session, &info);
  side.variant = info.variant;
  return side;
}

struct PortNames {
  std::vector<MlcPort> inputs, outputs;
};
std::optional<PortNames> ports_named(const Side& side, const std::string& program) {
  for (uint32_t k = 0;; ++k) {
    auto p = sized<MlcProgram>();
    if (api().program(side.model.get(), k, &p) != MLC_OK) return std::nullopt;
    if (program != p.name) continue;
    PortNames out;
    for (const bool is_output : {false, true})
      for (uint32_t i = 0; i < (is_output ? p.num_outputs : p.num_inputs); ++i) {
        auto port = sized<MlcPort>();
        api().port(side.model.get(), k, is_output, i, &port);
        (is_output ? out.outputs : out.inputs).push_back(port);
      }
    return out;
  }
}

// An answer, copied out of the session.
struct Answered {
  MlcTensor tensor{};
  std::vector<int64_t> shape;
};

Result<std::map<std::string, Answered>> answers_of(const Side& side, const std::string& program, const PortNames& ports, std::vector<MlcTensor> inputs) {
  MlcError* error = nullptr;
  if (const int code = api().state_reset(side.session.get(), &error); code != MLC_OK) status_of(code, error).message.clear();  // a model without state
  auto options = sized<MlcRunOptions>();
  options.program = program.c_str();
  std::vector<MlcTensor> outputs(ports.outputs.size());
  error = nullptr;
  if (const int code = api().run(side.session.get(), &options, inputs.data(), static_cast<uint32_t>(inputs.size()), outputs.data(), static_cast<uint32_t>(outputs.size()), &error); code != MLC_OK)
    return status_of(code, error).note(side.path);
  std::map<std::string, Answered> out;
  for (size_t k = 0; k < outputs.size(); ++k) {
    Answered& each = out[ports.outputs[k].name];
    each.tensor = outputs[k];
    if (outputs[k].list_depth == 0) each.shape.assign(outputs[k].shape, outputs[k].shape + outputs[k].rank);
  }
  return out;
}

// What is known of an output, over all vectors.
struct OutputDifference {
  std::string program, output, vector;  // of the largest difference
  uint64_t vectors = 0, differing = 0;  // in how many vectors anything differs
  double max_abs = 0, max_rel = 0;
  bool not_a_number = false;
};
struct NotCompared {
  std::string program, vector, output, reason;  // vector and output may be empty: all
};

bool same_strings(const MlcTensor& a, const MlcTensor& b) {
  const auto *x = static_cast<const MlcString*>(a.data), *y = static_cast<const MlcString*>(b.data);
  for (uint64_t k = 0; k < a.bytes / sizeof(MlcString); ++k)
    if (x[k].bytes != y[k].bytes || (x[k].bytes > 0 && std::memcmp(x[k].data, y[k].data, x[k].bytes) != 0)) return false;
  return true;
}

class BehaviourComparison {
 public:
  BehaviourComparison(const Side& a, const Side& b, const OpenContainer& golden) : a_(a), b_(b), golden_(golden) {}

  Status run() {
    const format::Manifest& m = golden_.opened->manifest();
    std::map<uint32_t, size_t> vectors;
    for (const format::Golden& g : m.golden) {
      if (g.entry == format::GoldenEntry::Core) continue;  // another form of what the others have
      ++vectors[g.method];
      MLC_RETURN_IF_ERROR(compare(g, m.methods[g.method]));
    }
    for (uint32_t k = 0; k < m.methods.size(); ++k)
      if (vectors[k] == 0) not_compared.push_back({m.methods[k].name, "", "", a_.path + " has no golden vector of it"});
    return ok();
  }
  std::vector<OutputDifference> outputs;
  std::vector<NotCompared> not_compared;

 private:
  // Each thing that stands against a comparison is told once.
  void cannot(const std::string& program, const std::string& vector, const std::string& output, const std::string& reason) {
    const auto known = [&](const NotCompared& n) { return n.program == program && n.output == output && n.reason == reason; };
    if (std::none_of(not_compared.begin(), not_compared.end(), known)) not_compared.push_back({program, vector, output, reason});
  }

  // Inputs of B by name from what A's vector has; null: one of them is missing, which was told.
  Status compare(const format::Golden& g, const format::Method& method) {
    const std::optional<PortNames> of_a = ports_named(a_, method.name), of_b = ports_named(b_, method.name);
    if (!of_a || !of_b) return cannot(method.name, "", "", (of_a ? b_.path : a_.path) + " has no such program"), ok();
    std::vector<VerifiedBytes> bytes;
    std::vector<std::vector<int64_t>> shapes(g.inputs.size());
    std::map<std::string, MlcTensor> given;
    for (size_t k = 0; k < g.inputs.size(); ++k) {
      const format::GoldenArray& array = g.inputs[k];
      if (array.port >= of_a->inputs.size()) return Status(Code::Malformed, "golden vector {}: no such input", format::quoted(g.name));
      shapes[k].assign(array.shape.begin(), array.shape.end());
      MlcTensor tensor{};
      tensor.dtype = static_cast<int32_t>(array.dtype);
      tensor.rank = static_cast<uint32_t>(shapes[k].size());
      tensor.shape = shapes[k].data();
      if (array.ref.length > 0) {
        MLC_ASSIGN(VerifiedBytes read, golden_.opened->bytes(array.ref));
        tensor.data = const_cast<std::byte*>(read.bytes().data());
        tensor.bytes = read.bytes().size();
        bytes.push_back(std::move(read));
      }
      given[of_a->inputs[array.port].name] = tensor;
    }
    const auto in_order = [&](const PortNames& ports) -> std::optional<std::vector<MlcTensor>> {
      std::vector<MlcTensor> out;
      for (const MlcPort& port : ports.inputs) {
        const auto found = given.find(port.name);
        if (found == given.end()) return cannot(method.name, "", "", b_.path + " wants an input " + format::quoted(port.name) + ", which no vector of " + a_.path + " has"), std::nullopt;
        out.push_back(found->second);
        out.back().name = port.name;
      }
      for (const auto& [name, tensor] : given)
        if (std::none_of(out.begin(), out.end(), [&](const MlcTensor& t) { return name == t.name; }))
          return cannot(method.name, "", "", b_.path + " has no input " + format::quoted(name)), std::nullopt;
      return out;
    };
    const auto inputs_a = in_order(*of_a), inputs_b = in_order(*of_b);
    if (!inputs_a || !inputs_b) return ok();
    auto found_a = answers_of(a_, method.name, *of_a, *inputs_a), found_b = answers_of(b_, method.name, *of_b, *inputs_b);
    for (const auto* found : {&found_a, &found_b})
      if (!found->ok()) return cannot(method.name, g.name, "", found->status().message), ok();
    compare_answers(g, method.name, *found_a, *found_b);
    return ok();
  }

  void compare_answers(const format::Golden& g, const std::string& program, const std::map<std::string, Answered>& a, const std::map<std::string, Answered>& b) {
    for (const auto& [name, there] : b)
      if (a.count(name) == 0) cannot(program, "", name, "only " + b_.path + " has it");
    for (const auto& [name, one] : a) {
      const auto other = b.find(name);
      if (other == b.end()) cannot(program, "", name, "only " + a_.path + " has it");
      else if (one.tensor.list_depth > 0 || other->second.tensor.list_depth > 0) cannot(program, "", name, "it is a list");
      else if (one.tensor.dtype != other->second.tensor.dtype) cannot(program, "", name, "its element types differ");
      else if (one.shape != other->second.shape) cannot(program, g.name, name, "its shapes differ");
      else add(g, program, name, one.tensor, other->second.tensor);
    }
  }

  void add(const format::Golden& g, const std::string& program, const std::string& name, const MlcTensor& a, const MlcTensor& b) {
    const auto known = std::find_if(outputs.begin(), outputs.end(), [&](const OutputDifference& o) { return o.program == program && o.output == name; });
    OutputDifference& out = known != outputs.end() ? *known : outputs.emplace_back(OutputDifference{program, name, "", 0, 0, 0, 0, false});
    ++out.vectors;
    if (static_cast<DType>(a.dtype) == DType::Str) {
      if (same_strings(a, b)) return;
      ++out.differing;
      out.vector = g.name;
      return;
    }
    const api::Difference d = api::compare_arrays(static_cast<DType>(a.dtype), {static_cast<const std::byte*>(b.data), b.bytes}, {static_cast<const std::byte*>(a.data), a.bytes});
    if (d.max_abs == 0 && !d.not_a_number) return;
    ++out.differing;
    if (out.vector.empty() || d.max_abs > out.max_abs || (d.not_a_number && !out.not_a_number)) out.vector = g.name;
    out.max_abs = std::max(out.max_abs, d.max_abs);
    out.max_rel = std::max(out.max_rel, d.max_rel);
    out.not_a_number = out.not_a_number || d.not_a_number;
  }

  const Side &a_, &b_;
  const OpenContainer& golden_;
};

std::string difference_text(const OutputDifference& d) {
  if (d.differing == 0) return "equal in " + counted(d.vectors, "vector");
  char numbers[96] = "";
  if (d.max_abs > 0) std::snprintf(numbers, sizeof numbers, "differs by at most %.3g (%.2g of the largest value), ", d.max_abs, d.max_rel);
  return std::string(numbers) + (d.max_abs > 0 ? "" : "differs, ") + (d.not_a_number ? "also in what is no number, " : "") + "in " + std::to_string(d.differing) + " of " + counted(d.vectors, "vector") + ", most in " + format::quoted(d.vector);
}

Report behaviour_report(const Side& a, const Side& b, const BehaviourComparison& found) {
  Report report;
  report.json = {{"a", a.path}, {"b", b.path}};
  Json& json = report.json["behaviour"] = {{"variant_a", a.variant}, {"variant_b", b.variant}};
  json["outputs"] = Json::array();
  json["not_compared"] = Json::array();
  size_t differing = 0;
  for (const OutputDifference& d : found.outputs) {
    report.text += compile::line(d.differing == 0 ? "equal" : "differs", printable(d.program + "  " + d.output + "  " + difference_text(d)));
    json["outputs"].push_back({{"program", d.program}, {"output", d.output}, {"vectors", d.vectors}, {"differing", d.differing}, {"max_abs", d.max_abs}, {"max_rel", d.max_rel}, {"vector", d.vector}, {"not_a_number", d.not_a_number}});
    differing += d.differing > 0;
  }
  for (const NotCompared& n : found.not_compared) {
    report.text += compile::line("not known", printable(n.program + (n.output.empty() ? "" : "  " + n.output) + (n.vector.empty() ? "" : "  vector " + format::quoted(n.vector)) + ": " + n.reason));
    json["not_compared"].push_back({{"program", n.program}, {"vector", n.vector}, {"output", n.output}, {"reason", n.reason}});
  }
  report.text += compile::line("ran", printable(a.variant + " of " + a.path + ", " + b.variant + " of " + b.path));
  if (differing > 0) report.failure = Status(Code::No, a.path + " and " + b.path + " answer differently: " + counted(differing, "output"));
  else if (!found.not_compared.empty()) report.failure = Status(Code::No, "not all answers of " + a.path + " and " + b.path + " can be compared");
  return report;
}

// Limits of the process in which strangers' files run: vectors of a container at most (spec/limits.md), each in both.
ChildWork behaviour_work(const BehaviourOptions& options) {
  constexpr uint64_t kMostVectors = 1024, kSecondsOfRun = 3;
  ChildWork work{.sessions = 3, .threads = std::thread::hardware_concurrency()};  // the third one is what reads the vectors
  work.run_seconds = 2 * kMostVectors * kSecondsOfRun * std::max<uint64_t>(work.threads, 1);
  for (const std::string& path : {options.a, options.b}) {
    std::error_code unknown;
    const uint64_t bytes = std::filesystem::file_size(path, unknown);
    if (!unknown) work.container_bytes += bytes;
  }
  return work;
}

}  // namespace

int compare_behaviour(const BehaviourOptions& options) {
  std::vector<int> inherited = sandbox::open_descriptors();
  auto a = authenticated_file(options.a), b = authenticated_file(options.b);
  for (const auto* file : {&a, &b})
    if (!file->ok()) return finish("diff", options.as_json, file->status());
  SealedContainer sealed{options.a, container::AuthenticatedFile::open(options.a), Status(Code::Internal, options.a + ": not opened twice")};
  sealed.isolated = !is_native_certain(*a) || !is_native_certain(*b);
  const bool isolated = sealed.isolated;
  const auto body = [&]() -> Result<Report> {
    MLC_ASSIGN(const OpenContainer golden, look_into(sealed));
    MLC_ASSIGN(const Side of_a, open_side(options.a, std::move(*a), isolated));
    MLC_ASSIGN(const Side of_b, open_side(options.b, std::move(*b), isolated));
    if (golden.opened->manifest().golden.empty()) return Status(Code::Unsupported, options.a + " has no golden vectors, so nothing can be compared").hint("build it without --no-golden");
    if (to_hex(golden.opened->root()) != of_a.info.root) return changed_while_mapped(options.a);
    BehaviourComparison comparison(of_a, of_b, golden);
    MLC_RETURN_IF_ERROR(comparison.run());
    return behaviour_report(of_a, of_b, comparison);
  };
  if (!isolated) return finish("diff", options.as_json, body());
  const ChildCommand child{.name = "diff", .as_json = options.as_json, .file = options.a + " or " + options.b, .inherited = std::move(inherited), .begin = end_as_child,
                           .work = [&] { return Result<ChildWork>(behaviour_work(options)); }};
  return answer_in_child(child, false, body);
}

}  // namespace mlc::cli
