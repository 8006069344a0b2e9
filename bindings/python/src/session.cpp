// A session: what goes into a run, what comes out of it, what is kept between runs.
#include "model.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "device_tensor.h"
#include "hooks.h"
#include "interrupt.h"
#include "tensor.h"

namespace mlrt {

std::unique_ptr<Session> Session::create(std::shared_ptr<OpenModel> model, const SessionWishes& w) {
  auto o = sized<MlcSessionOptions>();
  o.variant = or_null(w.variant), o.require = or_null(w.require);
  o.threads = w.threads, o.profile = w.profile;
  o.time_limit_ns = w.time_limit_ns, o.memory_limit = w.memory_limit;
  o.pool = w.pool ? w.pool->pool() : nullptr;
  std::unique_ptr<Session> session(new Session);
  session->pool_ = w.pool;
  session->model_ = std::move(model);
  MlcError* error = nullptr;
  int code = MLC_OK;
  {
    const nb::gil_scoped_release unlocked;
    code = mlc().session_create(session->model_->handle, &o, &session->handle_, &error);
  }
  check(code, error);
  return session;
}

Session::~Session() {
  memory_->close();
  const nb::gil_scoped_release unlocked;  // a run that ends just now may want it
  mlc().session_release(handle_);
}

InUse Session::use() const {
  if (used_.exchange(true, std::memory_order_acquire))
    raise_error(MLC_USAGE, 0, "the session is in use by another thread", {}, "a session for each thread, or model.run, which takes care of it");
  return InUse(used_);
}

void CopyBound::take(uint64_t bytes, const char* name) {
  if (bytes > left_) {
    const auto sentence = nb::str("the strings and lists among the outputs take more than {} MiB, found at '{}'");
    raise_error(MLC_RESOURCE, 6006, nb::str(sentence.format(kCopiedBytes >> 20, name)).c_str(), {},
                "sign the file, or trust who has signed it: then there is no limit");
  }
  left_ -= left_ == UINT64_MAX ? 0 : bytes;
}

nb::object Session::output(const MlcTensor& out, nb::handle owned, bool tensors, CopyBound& bound) const {
  constexpr uint64_t kObjectBytes = 128;  // about, of an array or a text
  if (out.list_depth > 0) {
    nb::list items;
    for (uint32_t i = 0; i < out.num_items; ++i) {
      MlcTensor item = out.items[i];
      item.name = out.name;
      bound.take(kObjectBytes + item.bytes, item.name);
      items.append(output(item, nb::none(), tensors, bound));
    }
    return items;
  }
  if (out.dtype == MLC_STR) {
    nb::list texts;
    const auto* strings = static_cast<const MlcString*>(out.data);
    for (uint64_t i = 0; i < out.bytes / sizeof(MlcString); ++i) {
      bound.take(kObjectBytes + strings[i].bytes, out.name);
      texts.append(show(strings[i]));
    }
    return call(hooks().string_array, nb::cast(std::vector<int64_t>(out.shape, out.shape + out.rank)), texts);
  }
  nb::object tensor = nb::borrow(owned);
  // Memory that was allocated as the interface promises: only what the run says that it wrote is shown.
  if (!tensor.is_none() && !nb::cast<const Tensor&>(tensor).is_like(out)) raise_error(MLC_INTERNAL, 0, "an output has another type or shape than its model promises");
  if (tensor.is_none()) {
    Tensor copy(out.dtype, out.shape, out.rank);
    if (copy.bytes() != out.bytes) raise_error(MLC_INTERNAL, 0, "an output has not the bytes that its shape says");
    if (copy.bytes() > 0) std::memcpy(copy.data(), out.data, copy.bytes());
    tensor = nb::cast(std::move(copy));
  }
  return tensors ? tensor : as_numpy(tensor);
}

void Session::bind(uint32_t index, nb::dict given, Form form, Arrays& arrays) const {
  if (index >= model_->programs.size()) raise_error(MLC_USAGE, 0, "there is no such program");
  const Program& program = model_->programs[index];
  arrays.program = &program;
  arrays.form = form;
  arrays.inputs.set_session(handle_);
  std::vector<MlcTensor>&in = arrays.in, &out = arrays.out;
  out.resize(program.outputs.size());
  static const Port unknown;
  for (auto [key, value] : given) {
    const char* name = name_of(key);  // owned by the dict
    const Port* port = &unknown;
    for (const Port& p : program.inputs)
      if (p.name == name) port = &p;
    in.push_back(arrays.inputs.add(name, *port, value));
  }
  const auto num_in = static_cast<uint32_t>(in.size()), num_out = static_cast<uint32_t>(out.size());

  // Memory for what has a known shape, so that the library writes where Python reads.
  arrays.owned.assign(out.size(), nb::none());
  bool all_fixed = true;
  for (const Port& p : program.outputs) all_fixed = all_fixed && p.is_fixed();
  std::vector<MlcTensor> shapes(out.size());
  const bool inferred = !all_fixed && mlc().infer_shapes(handle_, program.name.c_str(), in.data(), num_in, shapes.data(), num_out, nullptr) == MLC_OK;
  uint64_t kept = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const Port& p = program.outputs[i];
    if (p.list_depth > 0 || p.dtype == MLC_STR || !(p.is_fixed() || inferred)) {
      if (form == Form::OnDevice) raise_error(MLC_UNSUPPORTED, 0, nb::str(nb::str("only a run tells the shape of '{}', so it cannot stay on a device").format(p.name)).c_str());
      continue;
    }
    if (form == Form::OnDevice) {
      arrays.owned[i] = p.is_fixed() ? nb::cast(DeviceTensor(handle_, p.dtype, p.extents.data(), static_cast<uint32_t>(p.extents.size())))
                                     : nb::cast(DeviceTensor(handle_, p.dtype, shapes[i].shape, shapes[i].rank));
      out[i] = nb::cast<const DeviceTensor&>(arrays.owned[i]).view();
      continue;
    }
    arrays.owned[i] = p.is_fixed() ? nb::cast(Tensor(p.dtype, p.extents.data(), static_cast<uint32_t>(p.extents.size()), memory_))
                            : nb::cast(Tensor(p.dtype, shapes[i].shape, shapes[i].rank, memory_));
    const Tensor& tensor = nb::cast<const Tensor&>(arrays.owned[i]);
    out[i] = tensor.view();
    kept += tensor.kept_bytes();
  }
  memory_->begin_run(kept);
}

nb::dict Session::results(Arrays& arrays) const {
  nb::dict results;
  CopyBound bound(*model_);
  for (size_t i = 0; i < arrays.out.size(); ++i) {
    arrays.out[i].name = arrays.program->outputs[i].name.c_str();
    if (arrays.form == Form::OnDevice) results[arrays.out[i].name] = arrays.owned[i];
    else results[arrays.out[i].name] = output(arrays.out[i], arrays.owned[i], arrays.form == Form::Tensors, bound);
  }
  return results;
}

nb::dict Session::run(uint32_t index, nb::dict given, const RunWishes& wishes) {
  const auto lock = use();
  Arrays arrays;
  bind(index, std::move(given), wishes.form, arrays);
  Interruptible interruptible(wishes.cancel);
  auto options = sized<MlcRunOptions>();
  options.program = arrays.program->name.c_str();
  options.cancel = interruptible.token();
  options.time_limit_ns = wishes.time_limit_ns;
  MlcError* error = nullptr;
  int code = MLC_OK;
  {
    const nb::gil_scoped_release unlocked;
    code = mlc().run(handle_, &options, arrays.in.data(), static_cast<uint32_t>(arrays.in.size()), arrays.out.data(),
                     static_cast<uint32_t>(arrays.out.size()), &error);
  }
  interruptible.check(error);
  check(code, error);
  return results(arrays);
}

namespace {

nb::dict dict_of(const MlcSessionInfo& info) {
  nb::dict out;
  out["variant"] = info.variant;
  out["is_portable"] = info.is_portable != 0;
  out["threads"] = info.threads;
  out["arena_bytes"] = info.arena_bytes;
  out["note"] = info.note, out["device"] = info.device;
  return out;
}

}  // namespace

nb::dict Session::info() const {
  auto info = sized<MlcSessionInfo>();
  mlc().session_info(handle_, &info);
  return dict_of(info);
}

nb::dict Session::program_info(uint32_t program) const {
  if (!has(offsetof(MlcApi, program_info))) raise_error(MLC_UNSUPPORTED, 0, "libmlrt is too old to tell what runs each program");
  const auto lock = use();
  auto info = sized<MlcSessionInfo>();
  if (const int code = mlc().program_info(handle_, program, &info); code != MLC_OK) raise_error(code, 0, code == MLC_NO_VARIANT ? "the variant that was asked for has no code for this program" : "there is no such program");
  return dict_of(info);
}

nb::dict Session::selftest(const std::optional<std::string>& vector) {
  const auto lock = use();
  auto result = sized<MlcSelftest>();
  MlcError* error = nullptr;
  int code = MLC_OK;
  {
    const nb::gil_scoped_release unlocked;
    code = mlc().selftest(handle_, vector ? vector->c_str() : nullptr, &result, &error);
  }
  check(code, error);
  nb::dict out;
  out["vectors"] = result.vectors;
  out["max_abs"] = result.max_abs;
  out["max_rel"] = result.max_rel;
  return out;
}

nb::list Session::profile(const std::string& program) const {
  const auto lock = use();
  nb::list out;
  auto entry = sized<MlcProfileEntry>();
  for (uint32_t i = 0; mlc().profile(handle_, or_null(program), i, &entry) == MLC_OK; ++i)
    out.append(nb::make_tuple(entry.name, entry.ns, entry.runs));
  return out;
}

void Session::state_reset() {
  const auto lock = use();
  MlcError* error = nullptr;
  check(mlc().state_reset(handle_, &error), error);
}

nb::bytes Session::state_save() {
  const auto lock = use();
  MlcBytes state{};
  MlcError* error = nullptr;
  check(mlc().state_save(handle_, &state, &error), error);
  return nb::bytes(state.data, state.bytes);
}

void Session::state_restore(nb::bytes state) {
  const auto lock = use();
  MlcError* error = nullptr;
  check(mlc().state_restore(handle_, state.data(), state.size(), &error), error);
}

std::unique_ptr<Session> Pool::take() {
  std::unique_ptr<Session> session;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      session = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!session) session = Session::create(model_, wishes_);
  return session;
}

Pool::Lease::~Lease() {
  const std::lock_guard lock(pool_.mutex_);
  pool_.idle_.push_back(std::move(session_));
}

}  // namespace mlrt
