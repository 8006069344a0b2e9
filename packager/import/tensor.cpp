#include "packager/import/tensor.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <span>

#include "base/files/links.h"
#include "packager/import/shown.h"

namespace mlc::import {
namespace {

using Proto = onnx::TensorProto;

template <class Stored, class Field>
std::shared_ptr<std::vector<std::byte>> narrow(const Field& field) {
  auto out = std::make_shared<std::vector<std::byte>>(field.size() * sizeof(Stored));
  for (int k = 0; k < field.size(); ++k) {
    const Stored value = static_cast<Stored>(field.Get(k));
    std::memcpy(out->data() + k * sizeof(Stored), &value, sizeof(Stored));
  }
  return out;
}

// The repeated field that ONNX assigns to an element type, narrowed to its width; null if the type has none.
std::shared_ptr<std::vector<std::byte>> typed_data(const Proto& proto, DType dtype) {
  switch (dtype) {
    case DType::F32: return narrow<float>(proto.float_data());
    case DType::F64: return narrow<double>(proto.double_data());
    case DType::I64: return narrow<int64_t>(proto.int64_data());
    case DType::U64: return narrow<uint64_t>(proto.uint64_data());
    case DType::U32: return narrow<uint32_t>(proto.uint64_data());
    case DType::I32: return narrow<int32_t>(proto.int32_data());
    case DType::I16: return narrow<int16_t>(proto.int32_data());
    case DType::U16: case DType::F16: case DType::BF16: return narrow<uint16_t>(proto.int32_data());
    case DType::I8: case DType::I4: case DType::I2: return narrow<int8_t>(proto.int32_data());
    case DType::U8: case DType::U4: case DType::U2: case DType::Bool: case DType::F4E2M1: case DType::F6E2M3: case DType::F6E3M2: case DType::F8E8M0:
    case DType::F8E4M3: case DType::F8E5M2: case DType::F8E4M3FNUZ: case DType::F8E5M2FNUZ:
      return narrow<uint8_t>(proto.int32_data());
    case DType::None: case DType::Str: return nullptr;
  }
  return nullptr;
}

// Elements of 6, 4 or 2 bits, one behind the other from the low bits on, to one per byte (integers with a sign are
// extended).
std::shared_ptr<std::vector<std::byte>> unpack_bits(const std::byte* packed, uint64_t count, DType dtype) {
  auto out = std::make_shared<std::vector<std::byte>>(count);
  const unsigned bits = bits_of(dtype), mask = (1u << bits) - 1, sign = is_signed_int(dtype) ? 1u << (bits - 1) : 0;
  for (uint64_t k = 0; k < count; ++k) {
    const uint64_t byte = k / 8 * bits + k % 8 * bits / 8;
    const unsigned shift = static_cast<unsigned>(k % 8 * bits % 8);
    unsigned v = std::to_integer<unsigned>(packed[byte]) >> shift;
    if (shift + bits > 8) v |= std::to_integer<unsigned>(packed[byte + 1]) << (8 - shift);
    v &= mask;
    (*out)[k] = static_cast<std::byte>((v ^ sign) - sign);
  }
  return out;
}

Result<uint64_t> number_of(const std::string& text, const char* what) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return Status(Code::Malformed, 1015, std::string("external data: ") + what + " '" + text + "' is not a number");
  return value;
}

struct ExternalData {
  Bytes bytes;
  std::shared_ptr<const void> owner;
};

Result<ExternalData> external_data(const Proto& proto, const TensorSource& source, uint64_t expected) {
  std::string location;
  uint64_t offset = 0, length = expected;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") { MLC_ASSIGN(offset, number_of(entry.value(), "offset")); }
    if (entry.key() == "length") { MLC_ASSIGN(length, number_of(entry.value(), "length")); }
  }
  const std::string who = "external data " + shown(location);
  auto place = place_inside(source.folder, location);
  if (!place.ok() && place.status().code == Code::Malformed) return Status(Code::Malformed, 1016, who + " lies outside the folder of the model");
  if (length != expected)
    return Status(Code::Malformed, 1015, who + " has " + std::to_string(length) + " bytes, expected " + std::to_string(expected));
  if (!place.ok()) {
    Status status = std::move(place).status();
    status.message = who + ": " + status.message;
    return status;
  }
  std::shared_ptr<Mapping>& file = source.files[*place];
  if (!file) {
    auto mapped = map_file(*place);
    if (!mapped) {
      Status status = std::move(mapped).status();
      status.message = who + ": " + status.message;
      source.files.erase(*place);
      return status;
    }
    file = std::move(*mapped);
  }
  if (!range_within(offset, length, file->bytes.size()))
    return Status(Code::Malformed, 1015, who + " has " + std::to_string(file->bytes.size()) + " bytes, fewer than offset " + std::to_string(offset) + " plus " + std::to_string(length));
  return ExternalData{file->bytes.subspan(offset, length), file};
}

}  // namespace

Result<DType> dtype_of(int32_t type, const std::string& who) {
  switch (type) {
    case 0: return DType::None;
    case Proto::FLOAT: return DType::F32;
    case Proto::UINT8: return DType::U8;
    case Proto::INT8: return DType::I8;
    case Proto::UINT16: return DType::U16;
    case Proto::INT16: return DType::I16;
    case Proto::INT32: return DType::I32;
    case Proto::INT64: return DType::I64;
    case Proto::STRING: return DType::Str;
    case Proto::BOOL: return DType::Bool;
    case Proto::FLOAT16: return DType::F16;
    case Proto::DOUBLE: return DType::F64;
    case Proto::UINT32: return DType::U32;
    case Proto::UINT64: return DType::U64;
    case Proto::BFLOAT16: return DType::BF16;
    case 17: return DType::F8E4M3;  // numbers of ONNX 1.14 and later, unknown to older headers
    case 18: return DType::F8E4M3FNUZ;
    case 19: return DType::F8E5M2;
    case 20: return DType::F8E5M2FNUZ;
    case 21: return DType::U4;
    case 22: return DType::I4;
    case 23: return DType::F4E2M1;
    case 24: return DType::F8E8M0;
    case 25: return DType::U2;
    case 26: return DType::I2;
    case 27: return DType::F6E2M3;
    case 28: return DType::F6E3M2;
    case Proto::COMPLEX64: case Proto::COMPLEX128:
      return Status(Code::Unsupported, 2006, who + " has complex elements, which are not supported");
    default: return Status(Code::Malformed, 1010, who + " has the unknown element type " + std::to_string(type));
  }
}

Result<model::Tensor> tensor_of(const Proto& proto, const TensorSource& source) {
  model::Tensor tensor;
  const std::string who = "tensor " + shown(proto.name());
  MLC_ASSIGN(tensor.dtype, dtype_of(proto.data_type(), who));
  if (tensor.dtype == DType::None) return Status(Code::Malformed, 1010, who + " has no element type");
  if (proto.has_segment()) return Status(Code::Unsupported, 2006, who + " is one of several segments, which is not supported");
  for (int64_t extent : proto.dims()) {
    if (extent < 0) return Status(Code::Malformed, 1015, who + " has the negative extent " + std::to_string(extent));
    tensor.shape.push_back(extent);
  }
  auto count = checked_product(tensor.shape);
  if (!count || *count > INT64_MAX) return Status(Code::Malformed, 1015, "the extents of " + who + " overflow 64 bits");
  if (tensor.dtype == DType::Str) {
    if (static_cast<uint64_t>(proto.string_data_size()) != *count)
      return Status(Code::Malformed, 1015, who + " has " + std::to_string(proto.string_data_size()) + " strings, its shape wants " + std::to_string(*count));
    tensor.strings.assign(proto.string_data().begin(), proto.string_data().end());
    return tensor;
  }
  const unsigned bits = bits_of(tensor.dtype);
  const bool typed = proto.data_location() != Proto::EXTERNAL && !proto.has_raw_data();
  const bool packed = bits < 8 && !(typed && bits == 6);  // an entry of int32_data is one element of 6 bits, or a byte of smaller ones
  auto stored = packed ? std::optional(*count / 8 * bits + (*count % 8 * bits + 7) / 8) : checked_mul(*count, bytes_of(tensor.dtype));
  if (!stored) return Status(Code::Malformed, 1015, "the bytes of " + who + " overflow 64 bits");

  const std::byte* data = nullptr;
  uint64_t size = 0;
  if (proto.data_location() == Proto::EXTERNAL) {
    auto external = external_data(proto, source, *stored);
    if (!external) return std::move(external).status().note(who);
    data = external->bytes.data(), size = external->bytes.size();
    tensor.owner = external->owner;
  } else if (!typed) {
    data = reinterpret_cast<const std::byte*>(proto.raw_data().data());
    size = proto.raw_data().size();
    tensor.owner = source.owner;
  } else {
    auto bytes = typed_data(proto, tensor.dtype);
    data = bytes->data(), size = bytes->size();
    tensor.owner = bytes;
  }
  if (size != *stored)
    return Status(Code::Malformed, 1015, who + " has " + std::to_string(size) + " bytes of data, its shape wants " + std::to_string(*stored));
  if (packed) {
    auto bytes = unpack_bits(data, *count, tensor.dtype);
    data = bytes->data(), size = bytes->size();
    tensor.owner = bytes;
  } else if (reinterpret_cast<uintptr_t>(data) % bytes_of(tensor.dtype) != 0) {  // readers may use aligned loads
    auto bytes = std::make_shared<std::vector<std::byte>>(data, data + size);
    data = bytes->data();
    tensor.owner = bytes;
  }
  tensor.bytes = Bytes(data, size);
  return tensor;
}

namespace {

// Where in the dense tensor value `k` lies: `indices` has a number for each value, or one for each axis of it.
std::optional<uint64_t> place_of(std::span<const int64_t> indices, size_t k, const std::vector<int64_t>& shape, bool by_axis, uint64_t count) {
  if (!by_axis) return indices[k] >= 0 && static_cast<uint64_t>(indices[k]) < count ? std::optional(static_cast<uint64_t>(indices[k])) : std::nullopt;
  uint64_t place = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t at = indices[k * shape.size() + axis];
    if (at < 0 || at >= shape[axis]) return std::nullopt;
    place = place * static_cast<uint64_t>(shape[axis]) + static_cast<uint64_t>(at);
  }
  return place;
}

}  // namespace

Result<model::Tensor> dense_of(const onnx::SparseTensorProto& proto, const TensorSource& source) {
  const std::string who = "sparse tensor " + shown(proto.values().name());
  MLC_ASSIGN(const model::Tensor values, tensor_of(proto.values(), source));
  MLC_ASSIGN(const model::Tensor indices, tensor_of(proto.indices(), source));
  model::Tensor dense;
  dense.dtype = values.dtype;
  if (values.dtype == DType::Str) return Status(Code::Unsupported, 2006, who + " has strings, which is not supported");
  for (int64_t extent : proto.dims()) {
    if (extent < 0) return Status(Code::Malformed, 1015, who + " has the negative extent " + std::to_string(extent));
    dense.shape.push_back(extent);
  }
  const auto count = checked_product(dense.shape);
  const unsigned width = bytes_of(values.dtype);
  const auto size = count ? checked_mul(*count, width) : std::nullopt;
  if (!size || *size > source.dense_left)
    return Status(Code::Resource, 2008, who + ": the sparse tensors of the model have more than " + std::to_string(kMaxDenseBytes >> 20) + " MiB of elements, at most so many are written out")
        .hint("store them as dense initializers");
  const size_t given = values.bytes.size() / width, rank = dense.shape.size();
  const bool by_axis = indices.shape.size() == 2, fits = values.shape.size() == 1 && indices.dtype == DType::I64 &&
                       (by_axis ? indices.shape[0] == values.shape[0] && indices.shape[1] == static_cast<int64_t>(rank) : indices.shape == values.shape);
  if (!fits) return Status(Code::Malformed, 1015, who + " has indices that are not one for each value, or one for each value and axis");
  source.dense_left -= *size;
  auto bytes = std::make_shared<std::vector<std::byte>>(*size);
  const std::span<const int64_t> at(reinterpret_cast<const int64_t*>(indices.bytes.data()), indices.bytes.size() / sizeof(int64_t));
  for (size_t k = 0; k < given; ++k) {
    const auto place = place_of(at, k, dense.shape, by_axis, *count);
    if (!place) return Status(Code::Malformed, 1015, who + ": index " + std::to_string(k) + " lies outside of its shape");
    std::memcpy(bytes->data() + *place * width, values.bytes.data() + k * width, width);
  }
  dense.bytes = *bytes;
  dense.owner = bytes;
  return dense;
}

}  // namespace mlc::import
