// libs: mlc_plan
// Any bytes as a plan: refused with a message, or bound and run with kernels that touch every byte they are promised.
#include "tests/support/any_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto pool = mlc::WorkerPool::create({}).value();
  mlc::test::run_any_plan(std::as_bytes(std::span(data, size)), *pool);
  return 0;
}
