// Arrays of DLPack, in and out. Of libmlrt-gpu.
#include "runtime/api/devices/dlpack.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "runtime/api/devices/memory.h"
#include "runtime/api/table.h"

namespace mlc::api {
namespace {

alignas(kLine) std::byte nothing[kLine];

// Whether elements are contiguous in C order; axes without choice count for nothing.
bool is_dense(const dlpack::Tensor& t) {
  int64_t expected = 1;  // its products were seen to fit
  for (int32_t i = t.ndim; t.strides && i-- > 0;) {
    if (t.shape[i] != 1 && t.strides[i] != expected) return false;
    expected *= t.shape[i];
  }
  return true;
}

// What the device is to know it by, and where in that its first element is.
struct There {
  std::shared_ptr<device::Memory> memory;
  uint64_t offset = 0;
};

// Where it lies on the session's device.
Result<There> find_there(device::Device& device, const dlpack::Tensor& t, const DescribedArray& array) {
  if (t.device.type == dlpack::kVulkan) {  // a buffer: of another instance of the driver's device it would mean something else
    auto own = find_own(device, reinterpret_cast<uintptr_t>(t.data));
    if (!own) return Status(Code::InputMismatch, "a buffer of Vulkan that this library did not make belongs to another device of the driver");
    if (!range_within(t.byte_offset, array.bytes, own->size()))
      return Status(Code::InputMismatch, "{} bytes from {} on, in a buffer of {}", array.bytes, t.byte_offset, own->size());
    return There{std::move(own), t.byte_offset};
  }
  MLC_RETURN_IF_ERROR(device.settle());
  MLC_ASSIGN(std::shared_ptr<device::Memory> memory, device.adopt(array.address, array.bytes));
  return There{std::move(memory), 0};
}

// Empty: runs use it where it is.
std::string why_not_in_place(const device::Device& device, const There& there, uint64_t bytes) {
  const uint64_t alignment = device.limits().buffer_alignment, begin = device.info().api == "cuda" ? device.address_of(*there.memory) : there.offset;
  if (begin % alignment != 0) return compose("it begins at {}, multiples of {} are used in place", begin, alignment);
  if (!range_within(there.offset, (bytes + kLine - 1) / kLine * kLine, there.memory->size())) return "its last line of 64 bytes is not whole";
  return {};
}

// Where in `out` it begins.
Result<uint64_t> import_on_device(const Session& session, const dlpack::Tensor& t, const DescribedArray& array, MlcMemory& out) {
  device::Device* const device = session.device_of_runs();
  const char* const api = t.device.type == dlpack::kCuda ? "cuda" : "vulkan";
  if (!device || device->info().api != api || device->number() != t.device.id)
    return Status(Code::InputMismatch, "the array lies on device {} of {}, the session runs on {}", t.device.id, api,
                  session.device().empty() ? "the processor" : session.device());
  out.device = device;
  out.device_name = session.device();
  if (array.bytes == 0) {
    MLC_ASSIGN(out.memory, device->allocate(0, device::MemoryKind::Local));
    return uint64_t{0};
  }
  MLC_ASSIGN(There there, find_there(*device, t, array));
  out.note = why_not_in_place(*device, there, array.bytes);
  out.bytes = there.offset + array.bytes;
  if (out.note.empty()) {
    out.memory = std::move(there.memory);
    return there.offset;
  }
  MlcMemory from;
  from.device = device;
  from.memory = std::move(there.memory);
  out.bytes = array.bytes;
  MLC_ASSIGN(out.memory, device->allocate(array.bytes, device::MemoryKind::Local));
  MLC_RETURN_IF_ERROR(copy_within(out, 0, from, there.offset, array.bytes));
  return uint64_t{0};
}

struct Exported {
  dlpack::Versioned versioned{};
  std::vector<int64_t> shape, strides;
  MlcMemory* memory = nullptr;
};

void release_exported(dlpack::Versioned* v) {
  auto* const e = static_cast<Exported*>(v->context);
  e->memory->release();
  delete e;
}

Result<dlpack::Versioned*> make_export(const MlcTensor& t) {
  MLC_ASSIGN(MlcMemory* const memory, find_memory(t));
  dlpack::DataType type{};
  if (!dlpack::find(t.dtype, type)) return Status(Code::Unsupported, "DLPack has no elements like these");
  if (t.list_depth != 0 || t.rank > MLC_MAX_RANK || (t.rank > 0 && !t.shape)) return Status(Code::Usage, "no array");
  auto e = std::make_unique<Exported>();
  e->shape.assign(t.shape, t.shape + t.rank);
  e->strides.resize(t.rank);
  uint64_t elements = 1;
  for (size_t i = t.rank; i-- > 0;) {
    e->strides[i] = static_cast<int64_t>(std::min<uint64_t>(elements, INT64_MAX));
    const auto more = e->shape[i] < 0 ? std::nullopt : checked_mul(elements, static_cast<uint64_t>(e->shape[i]));
    if (!more) return Status(Code::InputMismatch, "an extent is negative or too large");
    elements = *more;
  }
  const auto bytes = checked_mul(elements, mlc_dtype_bytes(t.dtype));
  if (!bytes || !range_within(t.reserved[1], *bytes, memory->bytes))
    return Status(Code::InputMismatch, "an array that reaches beyond its memory of {} bytes", memory->bytes);
  dlpack::Tensor& out = e->versioned.tensor;
  out.data = memory->data;
  out.device = {dlpack::kCpu, 0};
  if (memory->device) {
    out.device = {memory->device->info().api == "cuda" ? dlpack::kCuda : dlpack::kVulkan, memory->device->number()};
    out.data = reinterpret_cast<void*>(static_cast<uintptr_t>(memory->device->address_of(*memory->memory)));
  }
  out.ndim = static_cast<int32_t>(t.rank);
  out.dtype = type;
  out.shape = e->shape.data();
  out.strides = e->strides.data();
  out.byte_offset = t.reserved[1];
  e->versioned.major = dlpack::kMajor;
  e->versioned.minor = dlpack::kMinor;
  e->versioned.deleter = &release_exported;
  e->versioned.flags = (memory->is_read_only ? dlpack::kReadOnly : 0) | (memory->note.empty() ? 0 : dlpack::kIsCopied);
  e->versioned.context = e.get();
  memory->hold();
  e->memory = memory;
  return &e.release()->versioned;
}

Status import(const MlcSession& s, dlpack::Versioned& given, MlcTensor& out, std::unique_ptr<MlcMemory>& memory, std::vector<int64_t>& shape) {
  if (given.major != dlpack::kMajor) return Status(Code::Unsupported, "DLPack {}.{}, expected {}", given.major, given.minor, dlpack::kMajor);
  const dlpack::Tensor& t = given.tensor;
  MLC_ASSIGN(DescribedArray array, describe(t));
  memory = std::make_unique<MlcMemory>();
  uint64_t offset = 0;
  switch (t.device.type) {
    case dlpack::kCpu:
    case dlpack::kCudaHost:
      // Of no bytes it may say any address, and none.
      memory->data = array.bytes > 0 ? reinterpret_cast<std::byte*>(static_cast<uintptr_t>(array.address)) : nothing;
      memory->bytes = array.bytes;
      break;
    case dlpack::kCuda:
    case dlpack::kVulkan: {
      MLC_ASSIGN(offset, import_on_device(*s.session, t, array, *memory));
      break;
    }
    default: return Status(Code::InputMismatch, "the array lies on a device of kind {} of DLPack, expected the CPU (1, 3), CUDA (2) or Vulkan (7)", t.device.type);
  }
  memory->is_read_only = (given.flags & dlpack::kReadOnly) != 0 || !memory->note.empty();
  shape = std::move(array.shape);
  out = {};
  out.dtype = static_cast<int32_t>(array.dtype);
  out.bytes = array.bytes;
  out.rank = static_cast<uint32_t>(shape.size());
  out.reserved[0] = reinterpret_cast<uintptr_t>(memory.get());
  out.reserved[1] = offset;
  return ok();
}

}  // namespace

Result<DescribedArray> describe(const dlpack::Tensor& t) {
  const auto wrong = [](std::string what) { return Status(Code::InputMismatch, "array of DLPack: {}", what); };
  DescribedArray out;
  out.dtype = static_cast<DType>(dlpack::dtype_of(t.dtype));
  if (out.dtype == DType::None) return wrong(compose("elements of type {}, {} bits, {} lanes", t.dtype.code, t.dtype.bits, t.dtype.lanes));
  if (t.ndim < 0 || t.ndim > MLC_MAX_RANK) return wrong(compose("{} axes, at most {} are expected", t.ndim, MLC_MAX_RANK));
  if (t.ndim > 0 && !t.shape) return wrong("no shape");
  bool is_empty = false;
  out.bytes = bytes_of(out.dtype);
  for (int32_t i = 0; i < t.ndim; ++i) {
    if (t.shape[i] < 0) return wrong(compose("extent {}", t.shape[i]));
    is_empty = is_empty || t.shape[i] == 0;
    const auto more = checked_mul(out.bytes, static_cast<uint64_t>(std::max<int64_t>(t.shape[i], 1)));
    if (!more || *more > INT64_MAX) return wrong("its size is out of range");
    out.bytes = *more;
    out.shape.push_back(t.shape[i]);
  }
  if (is_empty) out.bytes = 0;
  else if (!is_dense(t)) return wrong("its strides are not those of a dense array in C order");
  const auto first = checked_add(reinterpret_cast<uintptr_t>(t.data), t.byte_offset);
  if (!first || !checked_add(*first, out.bytes)) return wrong("it reaches beyond all addresses");
  if (out.bytes > 0 && !t.data) return wrong("no data");
  out.address = *first;
  return out;
}

namespace table {

int tensor_from_dlpack(MlcSession* s, DLManagedTensorVersioned* given, MlcTensor* tensor, MlcMemory** out, MlcError** error) {
  if (out) *out = nullptr;
  if (!s || !given || !tensor || !out) return fail(Status(Code::Usage, "tensor_from_dlpack: no session, no array, or no place for the result"), error);
  auto* const managed = reinterpret_cast<dlpack::Versioned*>(given);
  std::unique_ptr<MlcMemory> memory;
  std::vector<int64_t> shape;
  Status status = import(*s, *managed, *tensor, memory, shape);
  if (!status.ok()) return fail(std::move(status), error);
  memory->shape = std::move(shape);
  tensor->shape = memory->shape.data();
  memory->source = managed;  // from here on it is the memory's
  *out = memory.release();
  return MLC_OK;
}

int tensor_to_dlpack(const MlcTensor* tensor, DLManagedTensorVersioned** out, MlcError** error) {
  if (out) *out = nullptr;
  if (!tensor || !out) return fail(Status(Code::Usage, "tensor_to_dlpack: no tensor, or no place for the result"), error);
  auto made = make_export(*tensor);
  if (!made) return fail(std::move(made).status(), error);
  *out = reinterpret_cast<DLManagedTensorVersioned*>(*made);
  return MLC_OK;
}

}  // namespace table
}  // namespace mlc::api
