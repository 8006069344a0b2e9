// libs: mlc_pipeline mlc_tokenizer_compile
// pipeline.json and lists. Property: a pipeline that parses uses every value after it was made, and an error has a
// sentence; one that takes texts makes arrays of two of them, or says why not.
#include <algorithm>
#include <cstdlib>

#include "packager/text/compile_tokenizer.h"
#include "runtime/pipeline/host_pipeline.h"
#include "schema/pipeline/lines.h"
#include "schema/pipeline/pipeline.h"
#include "tests/support/tokenizer_json.h"

namespace {

using namespace mlc;

// Every asset is one tokenizer; lists are none, so that only pipelines without lists go on.
const std::vector<std::byte>& tokenizer() {
  static const std::vector<std::byte> bytes = [] {
    auto made = text::compile_tokenizer(test::tokenizer_json(test::kWordPieceModel, test::kBertParts), "tokenizer.json");
    if (!made.ok()) std::abort();
    return std::move(*made);
  }();
  return bytes;
}

void run_on_texts(const pipeline::Pipeline& p) {
  const auto host = pipeline::HostPipeline::create(p, [](std::string_view) -> Result<Bytes> { return Bytes(tokenizer()); });
  if (!host.ok()) return;
  std::vector<pipeline::GivenInput> given;
  for (const pipeline::ValueId id : p.inputs) given.push_back({p.value(id).name, {}, HostTensor::of_strings({2}, {"unaffable, caf\u00e9", ""})});
  io::DecodeLimits limits;
  limits.memory = 16 << 20;
  const auto made = host->before(std::move(given), limits);
  if (!made.ok() && made.status().message.empty()) std::abort();
  for (size_t i = 0; made.ok() && i < made->size(); ++i)
    if ((*made)[i].tensor.shape.size() != 2 || (*made)[i].tensor.shape[0] != 2 || (*made)[i].tensor.shape[1] < 1) std::abort();
}

}  // namespace

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
      if (std::all_of(p.inputs.begin(), p.inputs.end(), [&](ValueId id) { return p.value(id).kind == ValueKind::Strings; })) run_on_texts(p);
    }
  }
  (void)split_lines({reinterpret_cast<const std::byte*>(data), size}, "list").ok();
  return 0;
}
