// An array that the extension owns: what runs give. Python sees it through the buffer protocol and through DLPack, both
// without a copy; an array made of it keeps it alive.
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "errors.h"
#include "memory.h"

namespace mlrt {

struct GiveBack {
  void operator()(void* p) const { home ? home->give_back(p, room) : std::free(p); }
  std::shared_ptr<OutputMemory> home;  // null: it is malloc's
  uint64_t room = 0;
};

class Tensor {
 public:
  // Uninitialised, 64-byte aligned. Throws bad_alloc, also where the shape has no size.
  // Large ones from `memory`, if there is one.
  Tensor(int32_t dtype, const int64_t* shape, uint32_t rank, const std::shared_ptr<OutputMemory>& memory = nullptr);

  int32_t dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  void* data() const { return data_.get(); }
  uint64_t bytes() const { return bytes_; }
  // Of its memory, those that go back to the session.
  uint64_t kept_bytes() const { return data_.get_deleter().room; }
  MlcTensor view() const { return mlc_tensor(data_.get(), dtype_, static_cast<uint32_t>(shape_.size()), shape_.data()); }

  // Whether a run wrote all of it, as this type and shape.
  bool is_like(const MlcTensor& written) const;

  Tensor copy() const;
  int fill(PyObject* self, Py_buffer* view, int flags);
  nb::object to_dlpack(nb::handle self, bool versioned) const;

 private:
  std::unique_ptr<void, GiveBack> data_;
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
