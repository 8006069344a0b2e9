// The table of machines (targets/machines.tbl): which row a target has, and that columns say their unit.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "targets/machines.h"
#include "targets/target.h"

using namespace mlc;

namespace {

struct Column {
  std::string name, meaning;
  double value;
};

const Column kColumns[] = {
#define MLC_PROCESSOR_COLUMN(type, name, value, meaning) {#name, meaning, static_cast<double>(value)},
#define MLC_DEVICE_COLUMN(type, name, value, meaning) {#name, meaning, static_cast<double>(value)},
#define MLC_PROCESSOR(...)
#define MLC_DEVICE(...)
#include "targets/machines.tbl"
#undef MLC_PROCESSOR_COLUMN
#undef MLC_DEVICE_COLUMN
#undef MLC_PROCESSOR
#undef MLC_DEVICE
};

template <class Row, size_t N>
void check_order(const Row (&rows)[N]) {
  CHECK(rows[N - 1].targets.empty());
  for (size_t k = 0; k < N; ++k) CHECK_MESSAGE(&targets::row_of(rows, rows[k].targets) == &rows[k], rows[k].targets);
}

}  // namespace

TEST_CASE("each column of the table of machines is named with its unit, has a meaning and a figure") {
  const std::set<std::string> units{"bytes", "ns", "cycles", "cycle", "operations", "steps", "points", "rows", "passes", "blocks", "lanes", "warps",
                                    "multiprocessors", "banks", "piece", "pieces", "groups", "columns", "times"};
  for (const Column& c : kColumns) {
    const size_t at = c.name.rfind('_');
    CHECK_MESSAGE(units.contains(at == std::string::npos ? c.name : c.name.substr(at + 1)), c.name);
    CHECK_MESSAGE(c.meaning.size() > 10, c.name);
    CHECK_MESSAGE(c.value > 0, c.name);
  }
}

TEST_CASE("a target has the first row of the table of machines that its name begins with, and no row hides another one") {
  check_order(targets::kProcessors);
  check_order(targets::kDevices);
  CHECK(targets::device_of("cuda-sm90").multiprocessors == 132);
  CHECK(targets::device_of("cuda-sm90").few_blocks == targets::kAnyDevice.few_blocks);
  CHECK(targets::device_of("cuda-sm120").targets == "cuda");
  CHECK(&targets::device_of("vulkan-base") == &targets::kAnyDevice);
  CHECK(&targets::processor_of("portable") == &targets::kAnyProcessor);
  CHECK(targets::most_multiprocessors() == 132);
}

TEST_CASE("each row of devices is of some target, that of cuda of targets to come") {
  for (const targets::DeviceRow& row : targets::kDevices) {
    bool used = row.targets == "cuda";
    for (const targets::Target& t : targets::device_targets()) used |= &targets::device_of(t.name) == &row;
    CHECK_MESSAGE(used, row.targets);
  }
  for (const targets::ProcessorRow& row : targets::kProcessors) {
    bool used = false;
    for (const targets::Target& t : targets::all_targets()) used |= &targets::processor_of(t.name) == &row;
    CHECK_MESSAGE(used, row.targets);
  }
}
