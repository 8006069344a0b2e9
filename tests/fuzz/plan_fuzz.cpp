// libs: mlc_plan
// Any bytes as a plan: refused with a message, or bound and run with kernels that touch every byte they are promised, in
// memory for all of its values and in memory for few of them. AddressSanitizer knows what of the executor's memory is in use.
#include "tests/support/containers/any_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto pool = mlc::WorkerPool::create({}).value();
  for (const uint64_t memory : {mlc::test::kAnyMemory, mlc::test::kTightMemory})
    mlc::test::run_any_plan(std::as_bytes(std::span(data, size)), *pool, memory);
  return 0;
}
