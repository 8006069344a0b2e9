#include "runtime/io/tensor.h"

#include <cstring>

#include "runtime/io/aligned_memory.h"

namespace mlc {
namespace {

// More than any host has. Allocators answer absurd sizes in their own ways (sanitizers abort), so they are not asked.
constexpr uint64_t kMaxBuffer = uint64_t{1} << 39;

}  // namespace

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)),
      borrowed_(std::exchange(other.borrowed_, false)) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(borrowed_, other.borrowed_);
  return *this;
}

HostBuffer::~HostBuffer() {
  if (!borrowed_) io::free_aligned(data_);
}

Result<HostBuffer> HostBuffer::unwritten(uint64_t size) {
  HostBuffer b;
  if (size == 0) return b;
  auto padded = checked_align(size, kHostAlignment);
  if (padded && *padded <= kMaxBuffer) b.data_ = static_cast<std::byte*>(io::allocate_aligned(kHostAlignment, *padded));
  if (!b.data_) return Status(Code::Resource, "out of memory: " + std::to_string(size) + " bytes wanted");
  std::memset(b.data_ + size, 0, *padded - size);
  b.size_ = size;
  return b;
}

Result<HostBuffer> HostBuffer::allocate(uint64_t size) {
  MLC_ASSIGN(HostBuffer b, unwritten(size));
  if (size) std::memset(b.data_, 0, size);
  return b;
}

std::string type_text(DType dtype, std::span<const int64_t> shape) {
  std::string text(name_of(dtype));
  text += '[';
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i) text += ',';
    text += std::to_string(shape[i]);
  }
  return text + ']';
}

Result<uint64_t> tensor_size(DType dtype, std::span<const int64_t> shape) {
  if (bytes_of(dtype) == 0)
    return Status(Code::Unsupported, "elements of type " + std::string(name_of(dtype)) + " have no size in memory");
  if (shape.size() > kMaxRank)
    return Status(Code::Malformed, "rank " + std::to_string(shape.size()) + ", at most " + std::to_string(kMaxRank));
  // The product must fit without its zeros too: a shape like [0, 2^62, 2^62] has no sane strides.
  uint64_t size = bytes_of(dtype);
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0) return Status(Code::Malformed, "negative dim in " + type_text(dtype, shape));
    if (dim == 0) {
      empty = true;
      continue;
    }
    auto next = checked_mul(size, static_cast<uint64_t>(dim));
    if (!next || *next > INT64_MAX) return Status(Code::Malformed, "size of " + type_text(dtype, shape) + " overflows");
    size = *next;
  }
  return empty ? 0 : size;
}

Result<HostTensor> HostTensor::view(DType dtype, std::vector<int64_t> shape, void* data, uint64_t bytes) {
  MLC_ASSIGN(const uint64_t size, tensor_size(dtype, shape));
  if (size != bytes)
    return Status(Code::InputMismatch, std::to_string(bytes) + " bytes do not fill " + type_text(dtype, shape));
  HostTensor t;
  t.dtype = dtype;
  t.shape = std::move(shape);
  t.data = HostBuffer::borrow(static_cast<std::byte*>(data), size);
  return t;
}

Result<HostTensor> HostTensor::zeros(DType dtype, std::vector<int64_t> shape) {
  MLC_ASSIGN(uint64_t size, tensor_size(dtype, shape));
  MLC_ASSIGN(HostBuffer data, HostBuffer::allocate(size));
  HostTensor t;
  t.dtype = dtype;
  t.shape = std::move(shape);
  t.data = std::move(data);
  return t;
}

HostTensor HostTensor::of_strings(std::vector<int64_t> shape, std::vector<std::string> strings) {
  HostTensor t;
  t.dtype = DType::Str;
  t.shape = std::move(shape);
  t.strings = std::move(strings);
  return t;
}

int64_t HostTensor::elements() const {
  if (dtype == DType::Str) return static_cast<int64_t>(strings.size());
  return bytes_of(dtype) ? static_cast<int64_t>(data.size() / bytes_of(dtype)) : 0;
}

Result<HostTensor> HostTensor::clone() const {
  if (dtype == DType::Str) return of_strings(shape, strings);
  MLC_ASSIGN(HostTensor copy, zeros(dtype, shape));
  if (data.size()) std::memcpy(copy.data.data(), data.data(), data.size());
  return copy;
}

}  // namespace mlc
