#include "runtime/cli/bench/bench_inputs.h"

#include <algorithm>

#include "base/counted.h"
#include "runtime/cli/inputs/made_up.h"
#include "runtime/io/input_spec.h"

namespace mlc::cli {
namespace {

// The free extents of the inputs that are fed, in the order of the ports.
struct Extent {
  std::string name;
  int64_t value;
};
std::vector<Extent> extents_fed(const OpenModel& model, const mlio::Target& target, const std::vector<MlcTensor>& inputs) {
  std::vector<Extent> found;
  for (uint32_t i = 0; i < mlio::program_at(model, target.program).num_inputs; ++i) {
    const MlcPort port = mlio::port_at(model, target.program, false, i);
    const auto fed = std::find_if(inputs.begin(), inputs.end(), [&](const MlcTensor& t) {
      return t.list_depth == 0 && t.name && std::string_view(t.name) == port.name;
    });
    const MlcTensor* tensor = fed != inputs.end() ? &*fed : i < inputs.size() && !inputs[i].name ? &inputs[i] : nullptr;
    if (!tensor || tensor->rank != port.rank || port.list_depth > 0) continue;
    for (uint32_t k = 0; k < port.rank; ++k) {
      const bool is_named = port.extents[k] < 0 && port.max[k] >= 0;
      const auto same = [&](const Extent& e) { return e.name == port.dims[k]; };
      if (is_named && std::none_of(found.begin(), found.end(), same)) found.push_back({port.dims[k], tensor->shape[k]});
    }
  }
  return found;
}

// Where an array of a program is from: the text of the -i that gives it, where one says so by name or is the only one.
std::string source_of(const OpenModel& model, const mlio::Target& target, const InputOptions& o, const BenchInputs& inputs,
                      const std::string& name) {
  if (std::string_view(inputs.from) != "given") return inputs.from;
  const std::vector<std::string> names = input_names(model, target);
  std::string unnamed;
  for (const std::string& text : o.specs) {
    const auto spec = io::parse_input_spec(text, names);
    if (!spec) continue;
    const std::string what = spec->kind == io::InputSpec::Kind::Random ? "random" : spec->kind == io::InputSpec::Kind::Zeros ? "zeros" : spec->path;
    if (spec->name == name) return what;
    if (spec->name.empty()) unnamed += (unnamed.empty() ? "" : ", ") + what;
  }
  return unnamed.empty() ? "given" : unnamed;
}

// Golden vectors of pipelines are pictures of a few points: what takes long with those of users does not show.
bool takes_pictures(const OpenModel& model, const mlio::Target& target) {
  for (uint32_t i = 0; i < mlio::program_at(model, target.program).num_inputs; ++i)
    if (is_picture_of_any_size(mlio::port_at(model, target.program, false, i))) return true;
  return false;
}

}  // namespace

bool runs_several(const mlio::Target& target) { return target.pipeline && target.pipeline->programs().size() > 1; }

Result<BenchInputs> bench_inputs(const OpenModel& model, const mlio::Target& target, const InputOptions& o, io::InputFiles& files,
                                 InputMemory& memory, bool pipeline_too) {
  BenchInputs in;
  if (runs_several(target)) {
    const std::vector<std::string> names = target.pipeline->programs();
    Status several(Code::Usage, "pipeline '{}' runs {} programs: which runs there are follows from an input, and none is given", target.pipeline->description().name, names.size());
    for (const std::string& name : names) several.facts.push_back(name);
    if (o.specs.empty() || !pipeline_too) return std::move(several).hint(pipeline_too ? "-i FILE, or one program alone: --raw --program " + names.front() : "one program alone: --raw --program " + names.front());
  }
  if (!o.specs.empty() && target.pipeline && target.pipeline->description().stream)
    return Status(Code::Usage, "one run of this pipeline is a chunk of a stream, which begins with what the one before carries, and no file is that")
        .hint("without an input the chunk is that of the golden vector");
  if (!o.specs.empty()) {
    in.from = "given";
    MLC_ASSIGN(in.owned, make_inputs(model, target, o, files, memory));
    if (!runs_several(target)) in.views = mlio::views_of(model, target.program, in.owned);
    return in;
  }
  if (o.dims.empty() && !takes_pictures(model, target)) {
    in.from = "golden";
    in.views.tensors.resize(mlio::program_at(model, target.program).num_inputs);
    MlcError* error = nullptr;
    const int code = api().golden_inputs(model.model.get(), target.program, in.views.tensors.data(),
                                         static_cast<uint32_t>(in.views.tensors.size()), &error);
    if (code == MLC_OK) return in;
    Status why = status_of(code, error);
    if (why.code != Code::NotFound) return why;
  }
  in.from = "random";
  MLC_ASSIGN(in.owned, make_up_inputs(model, target, o, memory));
  in.views = mlio::views_of(model, target.program, in.owned);
  return in;
}

Json fed_json(const OpenModel& model, const mlio::Target& target, const InputOptions& o, const BenchInputs& inputs) {
  Json fed = {{"from", inputs.from}, {"extents", Json::object()}, {"arrays", Json::array()}};
  const std::vector<MlcTensor>& tensors = inputs.views.tensors;
  for (const Extent& e : extents_fed(model, target, tensors)) fed["extents"][e.name] = e.value;
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    const MlcTensor& t = tensors[i];
    const uint32_t ports = mlio::program_at(model, target.program).num_inputs;
    const std::string name = t.name ? t.name : i < ports ? mlio::port_at(model, target.program, false, i).name : "";
    const bool is_list = t.list_depth > 0;
    const std::string type = is_list ? "list" : type_text(static_cast<DType>(t.dtype), {t.shape, t.rank});
    fed["arrays"].push_back({{"name", name}, {"type", type}, {"from", source_of(model, target, o, inputs, name)}});
  }
  for (size_t k = 0; runs_several(target) && k < inputs.owned.size(); ++k) {
    const NamedTensor& t = inputs.owned[k];
    fed["arrays"].push_back({{"name", t.name}, {"type", type_text(t.tensor.dtype, t.tensor.shape)}, {"from", "given"}});
  }
  return fed;
}

std::string fed_text(const Json& fed) {
  constexpr size_t kMostNamed = 6;
  std::string out = fed["from"].text();
  size_t named = 0;
  for (const auto& [name, value] : fed["extents"].members())
    if (named++ < kMostNamed) out += ", " + printable(name) + "=" + std::to_string(value.as_i64());
  if (named > kMostNamed) out += " and " + counted(named - kMostNamed, "extent") + " more";
  out += "\n";
  for (const Json& array : fed["arrays"].items())
    out += "            " + printable(array["name"].text()) + " " + array["type"].text() + ", " +
           printable(array["from"].text()) + "\n";
  return out;
}

}  // namespace mlc::cli
