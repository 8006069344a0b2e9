// An array that the extension owns: what runs give. Python sees it through the buffer protocol and through DLPack, both
// without a copy; an array made of it keeps it alive.
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "errors.h"

namespace mlrt {

class Tensor {
 public:
  // Uninitialised, 64-byte aligned. Throws bad_alloc, also where the shape has no size.
  Tensor(int32_t dtype, const int64_t* shape, uint32_t rank);

  int32_t dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  void* data() const { return data_.get(); }
  uint64_t bytes() const { return bytes_; }
  MlcTensor view() const { return mlc_tensor(data_.get(), dtype_, static_cast<uint32_t>(shape_.size()), shape_.data()); }

  Tensor copy() const;
  int fill(PyObject* self, Py_buffer* view, int flags);
  nb::object to_dlpack(nb::handle self, bool versioned) const;

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> data_;
  int32_t dtype_;
  uint64_t bytes_ = 0;
  std::vector<int64_t> shape_, strides_;  // strides in bytes
};

// The letter that stands for elements of this type in the buffer protocol, "f"; types that it does not know are shown as
// unsigned integers of their size. Null: no elements with a size.
const char* buffer_format(int32_t dtype);

// "f32", "bf16", ...
const char* dtype_name(int32_t dtype);

void add_tensor(nb::module_& m);

}  // namespace mlrt
