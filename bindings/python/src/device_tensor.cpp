#include "device_tensor.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>

#include "capsule.h"
#include "hooks.h"

namespace mlrt {
namespace {

DLManagedTensorVersioned* as_theirs(dlpack::Versioned* v) { return reinterpret_cast<DLManagedTensorVersioned*>(v); }
dlpack::Versioned* as_ours(DLManagedTensorVersioned* v) { return reinterpret_cast<dlpack::Versioned*>(v); }

// The older form of an array as the newer one, which it belongs to.
dlpack::Versioned* newer(dlpack::Managed* old) {
  auto* made = new dlpack::Versioned{};
  made->major = dlpack::kMajor;
  made->minor = dlpack::kMinor;
  made->context = old;
  made->tensor = old->tensor;
  made->deleter = [](dlpack::Versioned* self) {
    auto* const owned = static_cast<dlpack::Managed*>(self->context);
    delete self;
    if (owned->deleter) owned->deleter(owned);
  };
  return made;
}

// And back, for consumers of the older version.
dlpack::Managed* older(dlpack::Versioned* now) {
  return new dlpack::Managed{now->tensor, now, [](dlpack::Managed* self) {
                               auto* const owned = static_cast<dlpack::Versioned*>(self->context);
                               delete self;
                               owned->deleter(owned);
                             }};
}

}  // namespace

DeviceTensor::DeviceTensor(MlcSession* session, int32_t dtype, const int64_t* shape, uint32_t rank) : dtype_(dtype), shape_(shape, shape + rank) {
  MlcError* error = nullptr;
  check(mlc().memory_create(session, bytes(), &memory_, &error), error);
}

DeviceTensor::DeviceTensor(MlcSession* session, nb::handle value) {
  nb::object capsule;
  try {
    capsule = value.attr("__dlpack__")(nb::arg("max_version") = nb::make_tuple(dlpack::kMajor, dlpack::kMinor));
  } catch (nb::python_error& e) {  // of before that parameter
    if (!e.matches(PyExc_TypeError)) throw;
    capsule = value.attr("__dlpack__")();
  }
  const bool is_new = PyCapsule_IsValid(capsule.ptr(), kNewCapsule);
  void* const held = PyCapsule_GetPointer(capsule.ptr(), is_new ? kNewCapsule : kOldCapsule);
  if (!held) throw nb::python_error();
  auto* const given = is_new ? static_cast<dlpack::Versioned*>(held) : newer(static_cast<dlpack::Managed*>(held));
  MlcTensor tensor{};
  MlcError* error = nullptr;
  const int code = mlc().tensor_from_dlpack(session, as_theirs(given), &tensor, &memory_, &error);
  if (code != MLC_OK && !is_new) delete given;  // the capsule has the rest
  check(code, error);
  PyCapsule_SetName(capsule.ptr(), is_new ? "used_dltensor_versioned" : "used_dltensor");
  dtype_ = tensor.dtype;
  shape_.assign(tensor.shape, tensor.shape + tensor.rank);
  offset_ = tensor.reserved[1];
}

DeviceTensor::DeviceTensor(DeviceTensor&& other) noexcept
    : dtype_(other.dtype_), shape_(std::move(other.shape_)), memory_(std::exchange(other.memory_, nullptr)), offset_(other.offset_) {}

const char* DeviceTensor::device() const {
  auto info = sized<MlcMemoryInfo>();
  return mlc().memory_info(memory_, &info) == MLC_OK ? info.device : "";
}

nb::object DeviceTensor::note() const {
  auto info = sized<MlcMemoryInfo>();
  mlc().memory_info(memory_, &info);
  return info.note && *info.note ? nb::object(nb::str(info.note)) : nb::none();
}

Tensor DeviceTensor::to_host() const {
  Tensor host(dtype_, shape_.data(), static_cast<uint32_t>(shape_.size()));
  const MlcTensor from = view(), to = host.view();
  MlcError* error = nullptr;
  int code = MLC_OK;
  {
    const nb::gil_scoped_release unlocked;
    code = mlc().tensor_copy(&from, &to, &error);
  }
  check(code, error);
  return host;
}

nb::object DeviceTensor::to_dlpack(bool versioned) const {
  const MlcTensor tensor = view();
  DLManagedTensorVersioned* made = nullptr;
  MlcError* error = nullptr;
  check(mlc().tensor_to_dlpack(&tensor, &made, &error), error);
  return versioned ? capsule_of(as_ours(made), kNewCapsule) : capsule_of(older(as_ours(made)), kOldCapsule);
}

nb::tuple DeviceTensor::dlpack_device() const {
  const MlcTensor tensor = view();
  DLManagedTensorVersioned* made = nullptr;
  MlcError* error = nullptr;
  check(mlc().tensor_to_dlpack(&tensor, &made, &error), error);
  const dlpack::Device device = as_ours(made)->tensor.device;
  as_ours(made)->deleter(as_ours(made));
  return nb::make_tuple(device.type, device.id);
}

namespace {

// The protocol's own parameters. A run is over when it has given this, so that every stream may read it.
nb::object dlpack_of(nb::handle self, nb::object, nb::object max_version, nb::object dl_device, nb::object copy) {
  const DeviceTensor& t = nb::cast<const DeviceTensor&>(self);
  const nb::tuple own = t.dlpack_device();
  const bool to_cpu = !dl_device.is_none() && nb::cast<int>(nb::cast<nb::tuple>(dl_device)[0]) == dlpack::kCpu && nb::cast<int>(own[0]) != dlpack::kCpu;
  const bool copies = !copy.is_none() && nb::cast<bool>(copy), may_copy = copy.is_none() || copies;
  if (to_cpu && may_copy) return nb::cast(t.to_host()).attr("__dlpack__")(nb::arg("max_version") = max_version);
  if (!dl_device.is_none() && !own.equal(dl_device)) throw nb::buffer_error("the array lies in the memory of another device");
  if (copies) throw nb::buffer_error("no copies are made on a device");
  return t.to_dlpack(!max_version.is_none() && nb::cast<std::pair<int, int>>(max_version).first >= 1);
}

}  // namespace

void add_device_tensor(nb::module_& m) {
  nb::class_<DeviceTensor>(m, "DeviceTensor")
      .def_prop_ro("shape", [](const DeviceTensor& t) { return nb::tuple(nb::cast(t.shape())); })
      .def_prop_ro("dtype", [](const DeviceTensor& t) { return dtype_name(t.dtype()); })
      .def_prop_ro("nbytes", &DeviceTensor::bytes)
      .def_prop_ro("device", &DeviceTensor::device)
      .def_prop_ro("note", &DeviceTensor::note)
      .def("host", &DeviceTensor::to_host)
      .def("numpy", [](const DeviceTensor& t) { return as_numpy(nb::cast(t.to_host())); })
      .def("__dlpack__", &dlpack_of, nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
           nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack_device__", &DeviceTensor::dlpack_device)
      .def("__repr__", [](const DeviceTensor& t) { return std::string("<mlrt.DeviceTensor of ") + dtype_name(t.dtype()) + " on " + (*t.device() ? t.device() : "the processor") + ">"; });
}

}  // namespace mlrt
