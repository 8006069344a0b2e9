#include "packager/cli/tune/tune_runs.h"

#include <algorithm>
#include <cmath>

#include "base/text/nearest_name.h"
#include "runtime/io/input_spec.h"

namespace mlc::cli {
namespace {

constexpr const char* kProgram = "main";

Result<ModelHandle> opened(const std::string& path) {
  auto options = sized<MlcOpenOptions>();
  options.path = path.c_str();
  options.verify = MLC_VERIFY_LAZY;
  options.allow_unsigned = 1;  // this process has just made it
  MlcModel* model = nullptr;
  MlcError* error = nullptr;
  if (const int code = api().open(&options, &model, &error); code != MLC_OK) return status_of(code, error);
  return ModelHandle(model);
}

MlcPort port_at(const MlcModel* model, uint32_t program, uint32_t index) {
  auto port = sized<MlcPort>();
  api().port(model, program, false, index, &port);
  return port;
}

Status check_extents(const std::vector<MlcPort>& ports, const std::map<std::string, int64_t>& extents) {
  std::vector<std::string> known;
  for (const MlcPort& port : ports)
    for (uint32_t i = 0; i < port.rank; ++i)
      if (port.extents[i] < 0) known.emplace_back(port.dims[i]);
  for (const auto& [name, value] : extents)
    if (std::find(known.begin(), known.end(), name) == known.end()) return Status(Code::Usage, "--at: " + unknown_word("extent", name, known));
  for (const std::string& name : known)
    if (!extents.contains(name)) return Status(Code::Usage, "extent '" + name + "' is free, and times depend on it").hint("--at " + name + "=1, or a value that runs have");
  return ok();
}

MlcTensor tensor_of(HostTensor& t) {
  MlcTensor out{};
  out.dtype = static_cast<int32_t>(t.dtype);
  out.data = t.data.data(), out.bytes = t.data.size();
  out.rank = static_cast<uint32_t>(t.shape.size()), out.shape = t.shape.data();
  return out;
}

}  // namespace

Result<MeasuredModel> MeasuredModel::open(const std::string& path, const std::string& variant, unsigned threads) {
  MeasuredModel out;
  MLC_ASSIGN(out.model_, opened(path));
  auto info = sized<MlcModelInfo>();
  api().model_info(out.model_.get(), &info);
  auto program = sized<MlcProgram>();
  while (out.program_ < info.num_programs && api().program(out.model_.get(), out.program_, &program) == MLC_OK && std::string(program.name) != kProgram) ++out.program_;
  out.name_ = program.name;
  out.outputs_.resize(program.num_outputs);
  auto options = sized<MlcSessionOptions>();
  options.variant = variant.c_str();
  options.threads = threads;
  options.profile = 1;
  MlcSession* session = nullptr;
  MlcError* error = nullptr;
  if (const int code = api().session_create(out.model_.get(), &options, &session, &error); code != MLC_OK) return status_of(code, error);
  out.session_.reset(session);
  return out;
}

Result<std::vector<HostTensor>> MeasuredModel::made_up(const std::map<std::string, int64_t>& extents, bool random_integers) const {
  auto program = sized<MlcProgram>();
  api().program(model_.get(), program_, &program);
  std::vector<MlcPort> ports;
  for (uint32_t k = 0; k < program.num_inputs; ++k) ports.push_back(port_at(model_.get(), program_, k));
  MLC_RETURN_IF_ERROR(check_extents(ports, extents));
  std::vector<HostTensor> made;
  for (const MlcPort& port : ports) {
    if (port.list_depth > 0 || port.dtype == MLC_STR)
      return Status(Code::Unsupported, "input " + std::string(port.name) + " takes " + (port.list_depth > 0 ? "a list" : "strings") + ", which are not made up");
    std::vector<int64_t> shape;
    for (uint32_t i = 0; i < port.rank; ++i) shape.push_back(port.extents[i] >= 0 ? port.extents[i] : extents.at(port.dims[i]));
    const auto dtype = static_cast<DType>(port.dtype);
    MLC_ASSIGN(HostTensor t, HostTensor::zeros(dtype, std::move(shape)));
    if (is_float(dtype) || random_integers) io::fill_random(t, made.size() + 1);
    made.push_back(std::move(t));
  }
  return made;
}

Status MeasuredModel::run() {
  std::vector<MlcTensor> inputs;
  for (HostTensor& t : inputs_) inputs.push_back(tensor_of(t));
  auto options = sized<MlcRunOptions>();
  options.program = name_.c_str();
  MlcError* error = nullptr;
  outputs_.assign(outputs_.size(), MlcTensor{});
  const int code = api().run(session_.get(), &options, inputs.data(), static_cast<uint32_t>(inputs.size()), outputs_.data(),
                             static_cast<uint32_t>(outputs_.size()), &error);
  return code == MLC_OK ? ok() : status_of(code, error);
}

Status MeasuredModel::make_inputs(const std::map<std::string, int64_t>& extents) {
  Status last;
  for (const bool random_integers : {true, false}) {
    MLC_ASSIGN(inputs_, made_up(extents, random_integers));
    const auto took = once();
    if (took.ok()) return ok();
    last = took.status();
  }
  return last;
}

Status MeasuredModel::take_inputs(const MeasuredModel& other) {
  inputs_.clear();
  for (const HostTensor& t : other.inputs_) {
    MLC_ASSIGN(HostTensor copy, t.clone());
    inputs_.push_back(std::move(copy));
  }
  MLC_ASSIGN(const auto took, once());
  (void)took;  // of the first run
  return ok();
}

Result<std::map<LaunchPlace, uint64_t>> MeasuredModel::once() {
  MLC_RETURN_IF_ERROR(run());
  std::map<LaunchPlace, uint64_t> took;
  std::map<std::string, size_t> numbers;
  auto entry = sized<MlcProfileEntry>();
  for (uint32_t k = 0; api().profile(session_.get(), name_.c_str(), k, &entry) == MLC_OK; ++k) {
    if (!entry.is_launch) continue;
    const LaunchPlace place{entry.function, numbers[entry.function]++};
    uint64_t& before = before_[place];
    took[place] = entry.ns - before;
    before = entry.ns;
  }
  return took;
}

double MeasuredModel::difference(const MeasuredModel& other) const {
  double worst = 0;
  for (size_t k = 0; k < std::min(outputs_.size(), other.outputs_.size()); ++k) {
    const MlcTensor &a = outputs_[k], &b = other.outputs_[k];
    if (a.dtype != MLC_F32 || b.dtype != MLC_F32 || a.list_depth > 0 || b.list_depth > 0) continue;
    if (a.bytes != b.bytes) return INFINITY;
    const auto *x = static_cast<const float*>(a.data), *y = static_cast<const float*>(b.data);
    double largest = 0, apart = 0;
    for (size_t i = 0; i < a.bytes / sizeof(float); ++i) {
      if (std::isnan(x[i]) || std::isnan(y[i]) || x[i] == y[i]) {
        if (std::isnan(x[i]) != std::isnan(y[i])) return INFINITY;
        continue;
      }
      largest = std::max(largest, static_cast<double>(std::fabs(y[i])));
      apart = std::max(apart, static_cast<double>(std::fabs(x[i] - y[i])));
    }
    if (apart > 0) worst = std::max(worst, apart / std::max(largest, 1e-30));
  }
  return worst;
}

}  // namespace mlc::cli
