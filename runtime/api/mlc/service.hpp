// What models ask of the application: services, and a reader of the container. Read ../mlc.hpp first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "tensor.hpp"

namespace mlrt {

// One call of a service: see MlcServiceCall.
class ServiceCall {
 public:
  explicit ServiceCall(MlcServiceCall* call) noexcept : call_(call) {}

  std::string_view options() const noexcept { return call_->options; }
  uint32_t num_inputs() const noexcept { return call_->num_inputs; }
  uint32_t num_outputs() const noexcept { return call_->num_outputs; }
  View input(uint32_t index) const noexcept { return View(call_->inputs[index]); }
  uint64_t memory_bytes() const noexcept { return call_->memory_bytes; }
  // Memory for a result, to be filled, once for each. Null: the function returns, with any code.
  template <Element T>
  T* result(uint32_t output, const Shape& shape) {
    return static_cast<T*>(result(output, dtype_of<T>, shape));
  }
  void* result(uint32_t output, MlcDType dtype, const Shape& shape) {
    return call_->result(call_, output, dtype, detail::count(shape.extents().size()), shape.extents().data());
  }
  // return call.fail(MLC_MALFORMED, "no picture");
  int fail(int code, std::string_view sentence) noexcept {
    const size_t length = std::min(sentence.size(), sizeof call_->message - 1);
    std::memcpy(call_->message, sentence.data(), length);
    call_->message[length] = 0;
    return code;
  }

 private:
  MlcServiceCall* call_;
};

struct Service {
  std::string name;
  std::function<int(ServiceCall&)> run;  // may be called by several threads at once
};

// A container that the application reads. `read` may be called by several threads at once.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual uint64_t size() const = 0;
  virtual bool read(uint64_t offset, std::span<std::byte> out) = 0;
};

}  // namespace mlrt
