// An array in memory of a device: what runs give that leave it there, and what they take without a copy. Other libraries take it over
// by DLPack; NumPy gets a copy of it.
#pragma once

#include <vector>

#include "errors.h"
#include "tensor.h"

namespace mlrt {

class DeviceTensor {
 public:
  // Room where the session runs, whatever is in it.
  DeviceTensor(MlcSession* session, int32_t dtype, const int64_t* shape, uint32_t rank);
  // What a value with __dlpack__ shares with the session; raises what the library says of it.
  DeviceTensor(MlcSession* session, nb::handle value);
  DeviceTensor(DeviceTensor&& other) noexcept;
  ~DeviceTensor() { mlc().memory_release(memory_); }

  int32_t dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  uint64_t bytes() const { return view().bytes; }
  const char* device() const;  // "gpu0"; empty: the processor
  nb::object note() const;     // why it is a copy of what was shared; None: it is that
  MlcTensor view() const { return mlc_tensor_in(memory_, offset_, dtype_, static_cast<uint32_t>(shape_.size()), shape_.data()); }

  Tensor to_host() const;
  nb::object to_dlpack(bool versioned) const;
  nb::tuple dlpack_device() const;

 private:
  int32_t dtype_ = MLC_NONE;
  std::vector<int64_t> shape_;
  MlcMemory* memory_ = nullptr;
  uint64_t offset_ = 0;
};

void add_device_tensor(nb::module_& m);

}  // namespace mlrt
