// libs: mlc_text_model mlc_plan_text
// Any text as a Model and as a Plan: refused with a message, or printed and read again as the same text; a Model if it
// verifies (a value that is defined twice parses, and is printed with its type twice).
#include <cstdlib>
#include <string>

#include "packager/model/print.h"
#include "packager/model/verify.h"
#include "packager/plan/print.h"
#include "packager/plan/text.h"
#include "tests/text/model_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlc;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const model::WeightsByHash none = [](std::string_view) { return model::Weights(); };
  if (auto model = model::parse(text, none)) {
    const std::string once = model::print(*model);
    if (model::verify(*model).ok()) {
      auto back = model::parse(once, none);
      if (!back || model::print(*back) != once) std::abort();
    }
  } else if (model.status().message.empty()) {
    std::abort();
  }
  if (auto plan = plan::parse(text)) {
    const std::string once = plan::print(*plan);
    auto back = plan::parse(once);
    if (!back || plan::print(*back) != once) std::abort();
    (void)exec::decode_plan(plan::encode(*plan), {UINT32_MAX, [](uint32_t, uint32_t) { return std::optional<uint64_t>(64); }});
  }
  return 0;
}
