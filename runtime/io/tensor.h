// A tensor in host memory: what decoders return and what a run is given. It owns its bytes, unless it was made by `view`.
//
// Elements lie densely in C order, little-endian, one byte for types of less than 8 bits and bool (base/dtype.h). The bytes are
// aligned to kHostAlignment, so that a run can bind them without a copy. Types move; `clone` copies on purpose. Running
// out of memory is a Status, never an exception, because sizes come from files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/status.h"

namespace mlc {

inline constexpr size_t kHostAlignment = 64;
inline constexpr size_t kMaxRank = 64;

// Bytes aligned to kHostAlignment, zeroed where nothing else is said. Empty after being moved from.
class HostBuffer {
 public:
  HostBuffer() = default;
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;
  ~HostBuffer();

  static Result<HostBuffer> allocate(uint64_t size);
  // The same for a caller that writes every byte, or drops it all: what is in it before is not defined.
  static Result<HostBuffer> unwritten(uint64_t size);
  // Borrowed bytes, which outlive this.
  static HostBuffer borrow(std::byte* data, size_t size) {
    HostBuffer b;
    b.data_ = data, b.size_ = size, b.borrowed_ = true;
    return b;
  }

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Forgets the bytes from `size` on, which must not be larger; the memory stays.
  void shrink(size_t size) {
    assert(size <= size_);
    size_ = size;
  }
  std::span<std::byte> bytes() { return {data_, size_}; }
  Bytes bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;  // never null when size_ > 0
  size_t size_ = 0;
  bool borrowed_ = false;
};

struct HostTensor {
  DType dtype = DType::None;
  std::vector<int64_t> shape;
  HostBuffer data;
  std::vector<std::string> strings = {};  // the elements of dtype Str, which has no data

  // A tensor of zeros. Refuses negative dims, a rank above kMaxRank, types without a size, and sizes that overflow.
  static Result<HostTensor> zeros(DType dtype, std::vector<int64_t> shape);
  // The same with the elements copied from `values`, whose length must be the product of `shape`.
  template <class T>
  static Result<HostTensor> from(DType dtype, std::vector<int64_t> shape, std::span<const T> values);

  // Over memory that outlives the result; as `zeros`, and the memory must have the bytes that the shape takes.
  static Result<HostTensor> view(DType dtype, std::vector<int64_t> shape, void* data, uint64_t bytes);

  static HostTensor of_strings(std::vector<int64_t> shape, std::vector<std::string> strings);

  int64_t elements() const;
  Result<HostTensor> clone() const;

  // The elements as T; sizeof(T) must be the size of one element (asserted). The view lives as long as the tensor.
  template <class T>
  std::span<T> as() {
    assert(sizeof(T) == bytes_of(dtype));
    return {reinterpret_cast<T*>(data.data()), data.size() / sizeof(T)};
  }
  template <class T>
  std::span<const T> as() const {
    assert(sizeof(T) == bytes_of(dtype));
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
};

struct NamedTensor {
  std::string name;
  HostTensor tensor;
};

// Bytes that a tensor of this type and shape takes; the checks are those of HostTensor::zeros.
Result<uint64_t> tensor_size(DType dtype, std::span<const int64_t> shape);
// "f32[1,3,224,224]", as in messages and in the raw form of `-i`.
std::string type_text(DType dtype, std::span<const int64_t> shape);

template <class T>
Result<HostTensor> HostTensor::from(DType dtype, std::vector<int64_t> shape, std::span<const T> values) {
  MLC_ASSIGN(HostTensor t, zeros(dtype, std::move(shape)));
  assert(sizeof(T) == bytes_of(dtype));
  if (values.size_bytes() != t.data.size())
    return Status(Code::InputMismatch,
                  std::to_string(values.size()) + " values do not fill " + type_text(dtype, t.shape));
  if (!values.empty()) __builtin_memcpy(t.data.data(), values.data(), values.size_bytes());
  return t;
}

}  // namespace mlc
