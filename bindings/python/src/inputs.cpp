#include "inputs.h"

#include <cstring>

#include "capsule.h"
#include "device_tensor.h"
#include "hooks.h"
#include "tensor.h"

namespace mlrt {
namespace {

// For arrays of no elements, whose owners may have no memory at all.
alignas(64) char nothing[64];

// The type of elements in the buffer protocol: one letter, in the order of this machine's bytes.
int32_t dtype_of_format(const char* format, Py_ssize_t itemsize) {
  if (!format) format = "B";
  if (*format == '@' || *format == '=' || (*format == '<' && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)) ++format;
  if (!*format || format[1]) return MLC_NONE;
  constexpr int32_t kSigned[] = {MLC_I8, MLC_I16, MLC_I32, MLC_I64}, kUnsigned[] = {MLC_U8, MLC_U16, MLC_U32, MLC_U64};
  const int log = itemsize == 1 ? 0 : itemsize == 2 ? 1 : itemsize == 4 ? 2 : itemsize == 8 ? 3 : -1;
  if (log < 0) return MLC_NONE;
  if (std::strchr("bhilqn", *format)) return kSigned[log];
  if (std::strchr("BHILQN", *format)) return kUnsigned[log];
  switch (*format) {
    case '?': return MLC_BOOL;
    case 'e': return MLC_F16;
    case 'f': return MLC_F32;
    case 'd': return MLC_F64;
    default: return MLC_NONE;
  }
}

// Types that the buffer protocol has no letter for come as integers of their size.
int32_t meant(int32_t found, int32_t wanted) {
  switch (wanted) {
    case MLC_BF16: return found == MLC_U16 ? wanted : found;
    case MLC_F8E4M3: case MLC_F8E5M2: case MLC_F8E4M3FNUZ: case MLC_F8E5M2FNUZ: case MLC_F4E2M1: case MLC_F8E8M0:
    case MLC_F6E2M3: case MLC_F6E3M2: case MLC_U4: case MLC_U2:
      return found == MLC_U8 ? wanted : found;
    case MLC_I4: case MLC_I2: return found == MLC_I8 ? wanted : found;
    default: return found;
  }
}

// Integers of fewer bits, all of whose values the wanted ones hold.
bool fits_wider(int32_t found, int32_t wanted) {
  const auto width = [](int32_t dtype) {
    switch (dtype) {
      case MLC_I8: case MLC_U8: return 1;
      case MLC_I16: case MLC_U16: return 2;
      case MLC_I32: case MLC_U32: return 4;
      case MLC_I64: case MLC_U64: return 8;
      default: return 0;
    }
  };
  const auto is_signed = [](int32_t dtype) { return dtype == MLC_I8 || dtype == MLC_I16 || dtype == MLC_I32 || dtype == MLC_I64; };
  return width(found) > 0 && width(found) < width(wanted) && (is_signed(wanted) || !is_signed(found));
}

bool is_dense(const dlpack::Tensor& t) {
  int64_t expected = 1;
  for (int32_t i = t.ndim; t.strides && i-- > 0;) {
    if (t.shape[i] == 0) return true;
    if (t.shape[i] != 1 && t.strides[i] != expected) return false;
    expected *= t.shape[i];
  }
  return true;
}

}  // namespace

bool Port::is_fixed() const {
  if (list_depth > 0 || dtype == MLC_STR) return false;
  for (const int64_t extent : extents)
    if (extent < 0) return false;
  return true;
}

Inputs::~Inputs() {
  for (Py_buffer& view : buffers_) PyBuffer_Release(&view);
}

MlcTensor Inputs::add(const char* name, const Port& port, nb::handle value) {
  if (port.list_depth > 0) return add_list(name, port, value, port.list_depth);
  return port.dtype == MLC_STR ? add_strings(name, value) : add_array(name, port.dtype, value);
}

MlcTensor Inputs::add_list(const char* name, const Port& port, nb::handle value, uint32_t depth) {
  std::vector<MlcTensor> items;
  if (!value.is_none())
    for (nb::handle item : nb::iter(value)) {
      kept_.push_back(nb::borrow(item));
      Port of_item = port;
      of_item.list_depth = depth - 1;
      items.push_back(add(nullptr, of_item, item));
    }
  items_.push_back(std::move(items));
  MlcTensor out{};
  out.name = name;
  out.list_depth = depth;
  out.num_items = static_cast<uint32_t>(items_.back().size());
  out.items = items_.back().data();
  return out;
}

bool Inputs::add_buffer(nb::handle value, MlcTensor& out) {
  if (!PyObject_CheckBuffer(value.ptr())) return false;
  Py_buffer& view = buffers_.emplace_back();
  if (PyObject_GetBuffer(value.ptr(), &view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0) {
    PyErr_Clear();  // strided, or of a type without a letter
    buffers_.pop_back();
    return false;
  }
  const int32_t dtype = dtype_of_format(view.format, view.itemsize);
  if (dtype == MLC_NONE) {
    PyBuffer_Release(&view);
    buffers_.pop_back();
    return false;
  }
  out.data = view.buf;
  out.bytes = static_cast<uint64_t>(view.len);
  out.dtype = dtype;
  out.rank = static_cast<uint32_t>(view.ndim);
  out.shape = reinterpret_cast<const int64_t*>(view.shape);
  return true;
}

bool Inputs::add_dlpack(nb::handle value, MlcTensor& out) {
  if (nb::hasattr(value, "__array_interface__")) return false;  // strided arrays of NumPy, and those of ml_dtypes
  if (!nb::hasattr(value, "__dlpack__") || !nb::hasattr(value, "__dlpack_device__")) return false;
  const auto device = nb::cast<nb::tuple>(value.attr("__dlpack_device__")());
  if (nb::cast<int>(device[0]) != dlpack::kCpu) {
    nb::list facts;
    facts.append(nb::str("found DLPack device {}, expected the CPU (1, 0)").format(device));
    raise_error(MLC_INPUT_MISMATCH, 4001, "an input lies in the memory of another device", facts, "move it first: tensor.cpu()");
  }
  const nb::object capsule = value.attr("__dlpack__")();
  auto* managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (!managed) throw nb::python_error();
  const dlpack::Tensor& t = managed->tensor;
  const int32_t dtype = dlpack::dtype_of(t.dtype);
  if (dtype == MLC_NONE || !is_dense(t)) return false;
  kept_.push_back(capsule);  // no consumer takes ownership, so it calls the deleter
  out.data = static_cast<char*>(t.data) + t.byte_offset;
  out.dtype = dtype;
  out.rank = static_cast<uint32_t>(t.ndim);
  out.shape = t.shape;
  out.bytes = mlc_tensor(nullptr, dtype, out.rank, out.shape).bytes;
  return true;
}

bool Inputs::add_on_device(nb::handle value, MlcTensor& out) {
  nb::object tensor = nb::borrow(value);
  if (!nb::isinstance<DeviceTensor>(value)) {
    if (!session_ || nb::hasattr(value, "__array_interface__") || !nb::hasattr(value, "__dlpack_device__") || !nb::hasattr(value, "__dlpack__")) return false;
    if (nb::cast<int>(nb::cast<nb::tuple>(value.attr("__dlpack_device__")())[0]) == dlpack::kCpu) return false;
    tensor = nb::cast(DeviceTensor(session_, value));
  }
  kept_.push_back(tensor);
  out = nb::cast<const DeviceTensor&>(tensor).view();
  return true;
}

MlcTensor Inputs::add_array(const char* name, int32_t dtype, nb::handle value) {
  MlcTensor out{};
  if (add_on_device(value, out)) {
    out.name = name;
    return out;
  }
  const bool is_given = add_buffer(value, out) || add_dlpack(value, out);
  if (!is_given || fits_wider(out.dtype, dtype)) {
    const auto converted = nb::cast<nb::tuple>(call(hooks().convert, value, nb::str(dtype_name(dtype))));
    kept_.push_back(converted);
    if (!add_buffer(converted[0], out) && !add_dlpack(converted[0], out))
      throw nb::type_error("no array of elements that a model can take");
    const auto said = nb::cast<nb::str>(converted[1]);  // of ml_dtypes, which come as integers; else empty
    for (int32_t number = MLC_F64; *said.c_str() && number <= MLC_F6E3M2; ++number)
      if (std::strcmp(said.c_str(), dtype_name(number)) == 0) out.dtype = number;
  } else {
    out.dtype = meant(out.dtype, dtype);
  }
  if (out.bytes == 0) out.data = nothing;
  out.name = name;
  return out;
}

MlcTensor Inputs::add_strings(const char* name, nb::handle value) {
  const auto given = nb::cast<nb::tuple>(call(hooks().strings, value));
  kept_.push_back(given);
  std::vector<int64_t>& shape = shapes_.emplace_back();
  for (nb::handle extent : nb::iter(given[0])) shape.push_back(nb::cast<int64_t>(extent));
  std::vector<MlcString>& strings = strings_.emplace_back();
  for (nb::handle item : nb::iter(given[1])) {
    char* data = nullptr;
    Py_ssize_t length = 0;
    if (PyBytes_AsStringAndSize(item.ptr(), &data, &length) != 0) throw nb::python_error();
    strings.push_back({data, static_cast<uint64_t>(length)});
  }
  MlcTensor out = mlc_tensor(strings.empty() ? static_cast<void*>(nothing) : strings.data(), MLC_STR,
                             static_cast<uint32_t>(shape.size()), shape.data());
  out.name = name;
  return out;
}

}  // namespace mlrt
