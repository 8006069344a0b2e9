// Services of the application: what a plan asks for by name because neither its kernels nor this library have it, such
// as decoding a picture. The application brings them with the model; an executor refuses a plan that needs another.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/plan/execute/executor.h"
#include "runtime/plan/value.h"

namespace mlc::exec {

// One call of a service by a step of a program. Its results are values of the run: they count against the limit of its
// memory, and whatever the service says of them is checked against the step before there is any.
class ServiceCall {
 public:
  ServiceCall(const Step& step, std::span<const InputArg> inputs, BlockPool& pool, std::span<Value> results)
      : step(step), inputs(inputs), pool_(pool), results_(results) {}

  const Step& step;
  const std::span<const InputArg> inputs;

  // Bytes that the service may take for itself and its results: what the limit leaves when no block is kept for later.
  uint64_t available() const {
    pool_.trim();
    return pool_.available();
  }
  // Memory for a result, once for each: 64-byte aligned, to be filled before the service returns.
  Status make(uint32_t result, DType dtype, std::span<const int64_t> shape, void*& data);

 private:
  BlockPool& pool_;
  std::span<Value> results_;
};

struct Service {
  std::string name;
  // Called by the thread that runs the session; sessions of other threads may be in it at the same time.
  Status (*run)(const Service& self, ServiceCall& call) = nullptr;
  void (*function)() = nullptr;  // for `run`: the function to call, and its argument
  void* user = nullptr;
};

}  // namespace mlc::exec
