#include "model.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "hooks.h"
#include "pipeline.h"
#include "tensor.h"

namespace mlrt {
namespace {

Port port_of(const MlcModel* model, uint32_t program, bool is_output, uint32_t index) {
  auto p = sized<MlcPort>();
  mlc().port(model, program, is_output, index, &p);
  return {p.name, p.dtype, p.list_depth, {p.extents, p.extents + p.rank}};
}

std::vector<Program> programs_of(const MlcModel* model) {
  auto info = sized<MlcModelInfo>();
  mlc().model_info(model, &info);
  std::vector<Program> programs;
  for (uint32_t i = 0; i < info.num_programs; ++i) {
    auto p = sized<MlcProgram>();
    mlc().program(model, i, &p);
    Program& program = programs.emplace_back();
    program.name = p.name, program.is_default = p.is_default != 0;
    for (uint32_t k = 0; k < p.num_inputs; ++k) program.inputs.push_back(port_of(model, i, false, k));
    for (uint32_t k = 0; k < p.num_outputs; ++k) program.outputs.push_back(port_of(model, i, true, k));
  }
  return programs;
}

// The strings of a list, for as long as the call lasts.
class Strings {
 public:
  explicit Strings(nb::handle list) {
    for (nb::handle item : nb::iter(list)) kept_.push_back(nb::cast<std::string>(item));
    for (const std::string& s : kept_) pointers_.push_back(s.c_str());
  }
  const char* const* data() const { return pointers_.data(); }
  uint32_t size() const { return static_cast<uint32_t>(pointers_.size()); }
  MlcBytes bytes(uint32_t i) const { return {kept_[i].data(), kept_[i].size()}; }

 private:
  std::vector<std::string> kept_;
  std::vector<const char*> pointers_;
};

// A path may hold bytes that are no UTF-8, which Python shows as lone surrogates.
std::string text_or_empty(nb::handle value) {
  if (value.is_none()) return "";
  if (!PyUnicode_Check(value.ptr())) return nb::cast<std::string>(value);
  const nb::object bytes = nb::steal(PyUnicode_EncodeFSDefault(value.ptr()));
  if (!bytes.is_valid()) throw nb::python_error();
  return {PyBytes_AsString(bytes.ptr()), static_cast<size_t>(PyBytes_Size(bytes.ptr()))};
}

}  // namespace

OpenModel::~OpenModel() {
  mlc().model_release(handle);
  if (memory.obj) PyBuffer_Release(&memory);
}

std::shared_ptr<OpenModel> open_model(nb::dict given) {
  auto model = std::make_shared<OpenModel>();
  auto o = sized<MlcOpenOptions>();
  const std::string path = text_or_empty(given["path"]), policy = text_or_empty(given["policy"]);
  const std::string devices = text_or_empty(given["devices"]), probe = text_or_empty(given["probe_program"]);
  const std::string config = text_or_empty(given["config_folder"]), state = text_or_empty(given["state_folder"]);
  const Strings keys(given["trust_keys"]), key_data(given["trust_key_data"]), services(given["untrusted_services"]);
  std::vector<MlcBytes> key_bytes;
  for (uint32_t i = 0; i < key_data.size(); ++i) key_bytes.push_back(key_data.bytes(i));
  o.path = or_null(path);
  if (path.empty()) {
    if (PyObject_GetBuffer(nb::object(given["memory"]).ptr(), &model->memory, PyBUF_SIMPLE) != 0) throw nb::python_error();
    o.memory = model->memory.buf;
    o.memory_bytes = static_cast<uint64_t>(model->memory.len);
  }
  o.verify = nb::cast<int32_t>(given["verify"]);
  o.allow_unsigned = nb::cast<bool>(given["allow_unsigned"]);
  o.allow_older = nb::cast<bool>(given["allow_older"]);
  o.trust_keys = keys.data(), o.num_trust_keys = keys.size();
  o.trust_key_data = key_bytes.data(), o.num_trust_key_data = key_data.size();
  o.devices = or_null(devices), o.probe_program = or_null(probe);
  o.policy = or_null(policy), o.config_folder = or_null(config), o.state_folder = or_null(state);
  if (const MlioApi* io = mlio_if_there()) o.services = io->services(&o.num_services);
  o.untrusted_services = services.data(), o.num_untrusted_services = services.size();
  MlcError* error = nullptr;
  int code = MLC_OK;
  {
    const nb::gil_scoped_release unlocked;
    code = mlc().open(&o, &model->handle, &error);
  }
  check(code, error);
  auto info = sized<MlcModelInfo>();
  mlc().model_info(model->handle, &info);
  model->native_allowed = info.native_allowed != 0;
  model->programs = programs_of(model->handle);
  return model;
}

Cancel::Cancel() {
  MlcError* error = nullptr;
  check(mlc().cancel_create(&token_, &error), error);
}

ThreadPool::ThreadPool(uint32_t threads, std::vector<int32_t> cpus, bool pin) {
  auto o = sized<MlcPoolOptions>();
  o.threads = threads;
  o.cpus = cpus.empty() ? nullptr : cpus.data(), o.num_cpus = static_cast<uint32_t>(cpus.size());
  o.pin = pin;
  MlcError* error = nullptr;
  mlrt::check(mlc().pool_create(&o, &pool_, &error), error);
}

namespace {

nb::dict model_info(const OpenModel& m) {
  auto info = sized<MlcModelInfo>();
  mlc().model_info(m.handle, &info);
  nb::dict out;
  out["file"] = info.file, out["id"] = info.id, out["version"] = info.version;
  out["root"] = std::string("sha256:") + info.root;
  out["trust"] = info.trust, out["trust_help"] = info.trust_help;
  out["native_allowed"] = info.native_allowed != 0, out["is_signed"] = info.is_signed != 0;
  out["is_copied"] = info.is_copied != 0, out["file_bytes"] = info.file_bytes;
  out["golden_vectors"] = info.num_golden;
  nb::list notes, assets;
  for (uint32_t i = 0; const char* note = mlc().model_note(m.handle, i); ++i) notes.append(nb::str(note));
  for (uint32_t i = 0; i < info.num_assets; ++i) {
    auto asset = sized<MlcAsset>();
    mlc().asset(m.handle, i, &asset);
    nb::dict a;
    a["name"] = asset.name, a["media_type"] = asset.media_type, a["bytes"] = asset.bytes;
    assets.append(a);
  }
  out["notes"] = notes, out["assets"] = assets;
  return out;
}

nb::list ports(const OpenModel& m, uint32_t program, bool is_output) {
  nb::list out;
  if (program >= m.programs.size()) return out;
  const auto count = (is_output ? m.programs[program].outputs : m.programs[program].inputs).size();
  for (uint32_t i = 0; i < count; ++i) {
    auto p = sized<MlcPort>();
    mlc().port(m.handle, program, is_output, i, &p);
    nb::list dims;
    for (uint32_t k = 0; k < p.rank; ++k) dims.append(nb::make_tuple(p.extents[k], nb::str(p.dims[k]), p.min[k], p.max[k]));
    out.append(nb::make_tuple(p.name, dtype_name(p.dtype), dims, p.list_depth));
  }
  return out;
}

nb::list programs(const OpenModel& m) {
  nb::list out;
  for (const Program& p : m.programs) out.append(nb::make_tuple(p.name, p.is_default));
  return out;
}

nb::list variants(const OpenModel& m) {
  auto info = sized<MlcModelInfo>();
  mlc().model_info(m.handle, &info);
  nb::list out;
  for (uint32_t i = 0; i < info.num_variants; ++i) {
    auto v = sized<MlcVariant>();
    mlc().explain(m.handle, i, &v);
    nb::dict d;
    d["name"] = v.name, d["target"] = v.target, d["family"] = v.family;
    d["fits"] = v.fits == MLC_FITS ? "yes" : v.fits == MLC_FITS_NOT ? "no" : "unknown";
    d["reason"] = v.reason;
    d["estimate_ns"] = v.estimate_ns == 0 ? nb::none() : nb::cast(v.estimate_ns);
    nb::list failing;
    for (uint32_t k = 0; k < v.num_failing; ++k) {
      auto c = sized<MlcClause>();
      mlc().failing(m.handle, i, k, &c);
      nb::dict clause;
      clause["clause"] = c.clause, clause["answer"] = c.answer, clause["source"] = c.source;
      failing.append(clause);
    }
    d["failing"] = failing;
    out.append(d);
  }
  return out;
}

// The variant that a session with these wishes would try first.
uint32_t choose(const OpenModel& m, const std::string& variant, const std::string& require) {
  uint32_t out = 0;
  MlcError* error = nullptr;
  check(mlc().choose(m.handle, or_null(variant), or_null(require), &out, &error), error);
  return out;
}

// The same for one program: the name of the variant, and the device.
nb::tuple choose_for(const OpenModel& m, uint32_t program, const std::string& variant, const std::string& require) {
  if (!has(offsetof(MlcApi, choose_for))) raise_error(MLC_UNSUPPORTED, 0, "libmlrt is too old to tell what runs each program");
  auto choice = sized<MlcChoice>();
  MlcError* error = nullptr;
  check(mlc().choose_for(m.handle, program, or_null(variant), or_null(require), &choice, &error), error);
  return nb::make_tuple(choice.name, choice.device);
}

nb::bytes asset(const OpenModel& m, const std::string& name) {
  MlcBytes data{};
  MlcError* error = nullptr;
  check(mlc().asset_data(m.handle, name.c_str(), &data, &error), error);
  return nb::bytes(data.data, data.bytes);
}

nb::dict golden_inputs(const OpenModel& m, uint32_t program) {
  nb::dict out;
  if (program >= m.programs.size()) return out;
  std::vector<MlcTensor> inputs(m.programs[program].inputs.size());
  MlcError* error = nullptr;
  check(mlc().golden_inputs(m.handle, program, inputs.data(), static_cast<uint32_t>(inputs.size()), &error), error);
  for (const MlcTensor& t : inputs) {
    if (t.dtype == MLC_STR) {
      nb::list texts;
      for (uint64_t i = 0; i < t.bytes / sizeof(MlcString); ++i) texts.append(show(static_cast<const MlcString*>(t.data)[i]));
      out[t.name] = call(hooks().string_array, nb::cast(std::vector<int64_t>(t.shape, t.shape + t.rank)), texts);
      continue;
    }
    Tensor copy(t.dtype, t.shape, t.rank);
    if (copy.bytes() == t.bytes && t.bytes > 0) std::memcpy(copy.data(), t.data, t.bytes);
    out[t.name] = as_numpy(nb::cast(std::move(copy)));
  }
  return out;
}

}  // namespace

nb::object as_numpy(nb::handle tensor) {
  const int32_t dtype = nb::cast<const Tensor&>(tensor).dtype();
  const nb::object array = call(hooks().asarray, tensor);
  switch (dtype) {
    case MLC_F64: case MLC_F32: case MLC_F16: case MLC_I64: case MLC_I32: case MLC_I16: case MLC_I8: case MLC_U64:
    case MLC_U32: case MLC_U16: case MLC_U8: case MLC_BOOL:
      return array;
    default: return call(hooks().extended_array, array, nb::str(dtype_name(dtype)));
  }
}

void add_model(nb::module_& m) {
  nb::class_<Cancel>(m, "Cancel")
      .def(nb::init<>())
      .def("cancel", &Cancel::cancel)
      .def_prop_ro("cancelled", &Cancel::is_cancelled);
  nb::class_<OpenModel>(m, "OpenModel")
      .def("info", &model_info)
      .def("programs", &programs)
      .def("ports", &ports, nb::arg("program"), nb::arg("is_output"))
      .def("variants", &variants)
      .def("choose", &choose, nb::arg("variant"), nb::arg("require"))
      .def("choose_for", &choose_for, nb::arg("program"), nb::arg("variant"), nb::arg("require"))
      .def("asset", &asset, nb::arg("name"))
      .def("golden_inputs", &golden_inputs, nb::arg("program"));
  m.def("open", &open_model, nb::arg("options"));

  nb::class_<ThreadPool>(m, "ThreadPool")
      .def("__init__",
           [](ThreadPool* made, uint32_t threads, std::vector<int32_t> cpus, bool pin) { new (made) ThreadPool(threads, std::move(cpus), pin); },
           nb::arg("threads") = 0, nb::kw_only(), nb::arg("cpus") = std::vector<int32_t>(), nb::arg("pin") = false);
  nb::class_<SessionWishes>(m, "SessionWishes")
      .def(nb::init<>())
      .def_rw("variant", &SessionWishes::variant)
      .def_rw("require", &SessionWishes::require)
      .def_rw("threads", &SessionWishes::threads)
      .def_rw("time_limit_ns", &SessionWishes::time_limit_ns)
      .def_rw("memory_limit", &SessionWishes::memory_limit)
      .def_rw("profile", &SessionWishes::profile)
      .def_rw("pool", &SessionWishes::pool, nb::arg().none());
  nb::class_<Session>(m, "Session")
      .def_static("create", &Session::create, nb::arg("model"), nb::arg("wishes"))
      .def("run",
           [](Session& s, uint32_t program, nb::dict inputs, const Cancel* cancel, uint64_t time_limit_ns, uint32_t form) {
             return s.run(program, std::move(inputs), {cancel, time_limit_ns, static_cast<Form>(form)});
           },
           nb::arg("program"), nb::arg("inputs"), nb::arg("cancel").none(), nb::arg("time_limit_ns"), nb::arg("form"))
      .def("run_pipeline", &run_pipeline, nb::arg("pipeline"), nb::arg("inputs"), nb::arg("top"), nb::arg("cancel").none(),
           nb::arg("time_limit_ns"), nb::arg("tensors"))
      .def("info", &Session::info)
      .def("program_info", &Session::program_info, nb::arg("program"))
      .def("selftest", &Session::selftest, nb::arg("vector").none())
      .def("profile", &Session::profile, nb::arg("program"))
      .def("state_reset", &Session::state_reset)
      .def("state_save", &Session::state_save)
      .def("state_restore", &Session::state_restore, nb::arg("state"));
  nb::class_<Pool>(m, "Pool")
      .def(nb::init<std::shared_ptr<OpenModel>, SessionWishes>(), nb::arg("model"), nb::arg("wishes"))
      .def("run",
           [](Pool& p, uint32_t program, nb::dict inputs, const Cancel* cancel, uint64_t time_limit_ns, uint32_t form) {
             return p.lease()->run(program, std::move(inputs), {cancel, time_limit_ns, static_cast<Form>(form)});
           },
           nb::arg("program"), nb::arg("inputs"), nb::arg("cancel").none(), nb::arg("time_limit_ns"), nb::arg("form"))
      .def("run_pipeline",
           [](Pool& p, const Pipeline& pipeline, nb::dict inputs, uint32_t top, const Cancel* cancel,
              uint64_t time_limit_ns, bool tensors) {
             const auto session = p.lease();
             return run_pipeline(*session.operator->(), pipeline, std::move(inputs), top, cancel, time_limit_ns, tensors);
           },
           nb::arg("pipeline"), nb::arg("inputs"), nb::arg("top"), nb::arg("cancel").none(), nb::arg("time_limit_ns"),
           nb::arg("tensors"));
}

}  // namespace mlrt
