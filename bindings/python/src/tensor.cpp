#include "tensor.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "capsule.h"
#include "hooks.h"

namespace mlrt {
namespace {

struct Export {
  dlpack::Versioned versioned{};
  dlpack::Managed managed{};
  std::vector<int64_t> strides;  // in elements
  PyObject* owner = nullptr;
};

// Any thread of the process may be the last to use the memory, also when Python is gone.
void release(Export* e) {
  if (Py_IsInitialized()) {
    const nb::gil_scoped_acquire lock;
    Py_DECREF(e->owner);
  }
  delete e;
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) { return nb::inst_ptr<Tensor>(self)->fill(self, view, flags); }

PyType_Slot tensor_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)}, {0, nullptr}};

}  // namespace

const char* buffer_format(int32_t dtype) {
  switch (dtype) {
    case MLC_F64: return "d";
    case MLC_F32: return "f";
    case MLC_F16: return "e";
    case MLC_I64: return "q";
    case MLC_I32: return "i";
    case MLC_I16: return "h";
    case MLC_I8: case MLC_I4: case MLC_I2: return "b";
    case MLC_U64: return "Q";
    case MLC_U32: return "I";
    case MLC_U16: case MLC_BF16: return "H";
    case MLC_BOOL: return "?";
    case MLC_NONE: case MLC_STR: return nullptr;
    default: return "B";
  }
}

const char* dtype_name(int32_t dtype) {
  static constexpr const char* kNames[] = {"none", "f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i64", "i32", "i16",
                                           "i8", "i4", "u64", "u32", "u16", "u8", "u4", "bool", "str", "f8e4m3fnuz",
                                           "f8e5m2fnuz", "f4e2m1", "f8e8m0", "u2", "i2", "f6e2m3", "f6e3m2"};
  return dtype >= 0 && dtype <= MLC_F6E3M2 ? kNames[dtype] : "unknown";
}

Tensor::Tensor(int32_t dtype, const int64_t* shape, uint32_t rank, const std::shared_ptr<OutputMemory>& memory)
    : dtype_(dtype), shape_(shape, shape + rank), strides_(rank) {
  uint64_t bytes = mlc_dtype_bytes(dtype), room = bytes;
  for (uint32_t i = rank; i-- > 0;) {
    if (shape[i] < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(shape[i]), &bytes)) throw std::bad_alloc();
    strides_[i] = static_cast<int64_t>(room);
    if (shape[i] > 0 && __builtin_mul_overflow(room, static_cast<uint64_t>(shape[i]), &room)) throw std::bad_alloc();
  }
  if (!buffer_format(dtype) || bytes > PTRDIFF_MAX - 64) throw std::bad_alloc();
  bytes_ = bytes;
  if (memory && bytes >= OutputMemory::kLarge) {
    const uint64_t large = OutputMemory::room_for(bytes);
    data_ = std::unique_ptr<void, GiveBack>(memory->take(large), {memory, large});
  } else {
    data_.reset(std::aligned_alloc(64, std::max<uint64_t>(64, (bytes + 63) / 64 * 64)));
  }
  if (!data_) throw std::bad_alloc();
}

int Tensor::fill(PyObject* self, Py_buffer* view, int flags) {
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  view->buf = data_.get();
  view->len = static_cast<Py_ssize_t>(bytes_);
  view->itemsize = static_cast<Py_ssize_t>(mlc_dtype_bytes(dtype_));
  view->readonly = 0;
  view->format = flags & PyBUF_FORMAT ? const_cast<char*>(buffer_format(dtype_)) : nullptr;
  view->ndim = static_cast<int>(shape_.size());
  view->shape = flags & PyBUF_ND ? reinterpret_cast<Py_ssize_t*>(shape_.data()) : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? reinterpret_cast<Py_ssize_t*>(strides_.data()) : nullptr;
  view->suboffsets = nullptr;
  view->internal = nullptr;
  Py_INCREF(self);
  view->obj = self;
  return 0;
}

nb::object Tensor::to_dlpack(nb::handle self, bool versioned) const {
  dlpack::DataType type{};
  if (!dlpack::find(dtype_, type)) throw nb::buffer_error("DLPack has no such type");
  auto* e = new Export;
  for (const int64_t stride : strides_) e->strides.push_back(stride / static_cast<int64_t>(mlc_dtype_bytes(dtype_)));
  const dlpack::Tensor tensor = {data_.get(), {dlpack::kCpu, 0}, static_cast<int32_t>(shape_.size()), type,
                                 const_cast<int64_t*>(shape_.data()), e->strides.data(), 0};
  e->owner = self.inc_ref().ptr();
  e->versioned = {1, 1, e, [](dlpack::Versioned* v) { release(static_cast<Export*>(v->context)); }, 0, tensor};
  e->managed = {tensor, e, [](dlpack::Managed* v) { release(static_cast<Export*>(v->context)); }};
  return versioned ? capsule_of(&e->versioned, kNewCapsule) : capsule_of(&e->managed, kOldCapsule);
}

namespace {

// The protocol's own parameters: no streams, and no devices but the CPU.
nb::object dlpack_of(nb::handle self, nb::object stream, nb::object max_version, nb::object dl_device, nb::object copy) {
  if (!stream.is_none()) throw nb::buffer_error("a CPU tensor has no stream");
  if (!dl_device.is_none()) {
    const auto device = nb::cast<std::pair<int, int>>(dl_device);
    if (device.first != dlpack::kCpu) throw nb::buffer_error("the tensor lies in the memory of the CPU");
  }
  const bool versioned = !max_version.is_none() && nb::cast<std::pair<int, int>>(max_version).first >= 1;
  const Tensor& t = nb::cast<const Tensor&>(self);
  if (!copy.is_none() && nb::cast<bool>(copy)) {
    const nb::object other = nb::cast(t.copy());
    return nb::cast<const Tensor&>(other).to_dlpack(other, versioned);
  }
  return t.to_dlpack(self, versioned);
}

}  // namespace

bool Tensor::is_like(const MlcTensor& written) const {
  return written.dtype == dtype_ && written.bytes == bytes_ && written.rank == shape_.size() && std::equal(shape_.begin(), shape_.end(), written.shape);
}

Tensor Tensor::copy() const {
  Tensor other(dtype_, shape_.data(), static_cast<uint32_t>(shape_.size()));
  std::memcpy(other.data(), data(), bytes_);
  return other;
}

void add_tensor(nb::module_& m) {
  nb::class_<Tensor>(m, "Tensor", nb::type_slots(tensor_slots))
      .def_prop_ro("shape", [](const Tensor& t) { return nb::tuple(nb::cast(t.shape())); })
      .def_prop_ro("dtype", [](const Tensor& t) { return dtype_name(t.dtype()); })
      .def_prop_ro("nbytes", &Tensor::bytes)
      .def_prop_ro("pointer", [](const Tensor& t) { return reinterpret_cast<uintptr_t>(t.data()); })
      .def("copy", &Tensor::copy)
      .def("numpy", [](nb::handle self) { return as_numpy(self); })
      .def("__array__",
           [](nb::handle self, nb::object dtype, nb::object copy) {
             const nb::object array = as_numpy(self);
             const bool copies = !copy.is_none() && nb::cast<bool>(copy);
             if (dtype.is_none()) return copies ? array.attr("copy")() : array;
             return array.attr("astype")(dtype, nb::arg("copy") = copies);
           },
           nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack__", &dlpack_of, nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
           nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack_device__", [](const Tensor&) { return nb::make_tuple(dlpack::kCpu, 0); })
      .def("__repr__", [](const Tensor& t) {
        std::string text = dtype_name(t.dtype()) + std::string("[");
        for (size_t i = 0; i < t.shape().size(); ++i) text += (i ? "," : "") + std::to_string(t.shape()[i]);
        return "mlrt.Tensor(" + text + "])";
      });
  m.def("zeros", [](const std::string& dtype, const std::vector<int64_t>& shape) {
    for (int32_t number = MLC_F64; number <= MLC_F6E3M2; ++number)
      if (dtype == dtype_name(number) && buffer_format(number)) {
        Tensor t(number, shape.data(), static_cast<uint32_t>(shape.size()));
        std::memset(t.data(), 0, t.bytes());
        return t;
      }
    throw nb::value_error(("no element type '" + dtype + "'").c_str());
  }, nb::arg("dtype"), nb::arg("shape"));
}

}  // namespace mlrt
