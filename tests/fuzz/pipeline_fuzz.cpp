// libs: mlc_pipeline_schema
// pipeline.json and lists. Property: a pipeline that parses uses every value after it was made, and an error has a
// sentence.
#include <cstdlib>

#include "schema/pipeline/lines.h"
#include "schema/pipeline/pipeline.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlc::pipeline;
  auto file = parse({reinterpret_cast<const char*>(data), size}, "p.json");
  if (!file.ok()) {
    if (file.status().message.empty()) std::abort();
  } else {
    for (const Pipeline& p : file->pipelines) {
      std::vector<bool> made(p.values.size(), false);
      for (ValueId id : p.inputs) made[id] = true;
      for (const Step& s : p.steps) {
        for (ValueId id : s.in)
          if (!made[id]) std::abort();
        for (ValueId id : s.out) made[id] = true;
      }
      for (ValueId id : p.outputs)
        if (!made[id]) std::abort();
    }
  }
  (void)split_lines({reinterpret_cast<const std::byte*>(data), size}, "list").ok();
  return 0;
}
