// The structures of the kernel interface lie as spec/module.md says, for every compiler that builds this.
#include <doctest/doctest.h>

#include <cstddef>

#include "schema/module_abi.h"

TEST_CASE("the structures of the kernel interface lie as the specification says") {
  CHECK(sizeof(MlrunHost) == 16);
  CHECK(offsetof(MlrunHost, vector_bytes) == 8);
  CHECK(offsetof(MlrunModule, entry_count) == 8);
  CHECK(offsetof(MlrunModule, entry_size) == 12);
  CHECK(offsetof(MlrunModule, entries) == 16);
  CHECK(sizeof(MlrunEntry) == 24);
  CHECK(offsetof(MlrunEntry, scratch_bytes) == 8);
  CHECK(offsetof(MlrunEntry, run) == 16);
  CHECK(offsetof(MlrunLaunch, lengths) == 8);
  CHECK(offsetof(MlrunLaunch, scalars) == 16);
  CHECK(offsetof(MlrunLaunch, scratch) == 24);
  CHECK(offsetof(MlrunLaunch, worker) == 32);
  CHECK(offsetof(MlrunLaunch, workers) == 36);
  CHECK(MLRUN_MODULE_MAGIC == 0x314b434cu);
}
