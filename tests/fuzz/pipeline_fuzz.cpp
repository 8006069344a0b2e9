// libs: mlc_pipeline mlc_tokenizer_compile
// pipeline.json and lists. Property: a pipeline that parses uses every value after it was made, and an error has a
// sentence; one that takes texts makes arrays of two of them, or says why not. Any numbers are boxes that can be drawn.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "packager/text/compile_tokenizer.h"
#include "runtime/io/picture/image.h"
#include "runtime/pipeline/host_pipeline.h"
#include "runtime/pipeline/host_steps.h"
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
  // Of two texts two rows, or more windows of them; the number of each row's text has no other axis.
  for (size_t i = 0; made.ok() && i < made->size(); ++i) {
    const std::vector<int64_t>& shape = (*made)[i].tensor.shape;
    if (shape.empty() || shape.size() > 3 || shape[0] < 2 || (shape.size() > 1 && shape[1] < 1)) std::abort();
  }
}

// The bytes as detections on a small picture; the file that shows it holds the same pixels.
void draw_boxes(const uint8_t* data, size_t size) {
  std::vector<float> rows(std::min<size_t>(size / 24, 32) * 6);
  if (!rows.empty()) std::memcpy(rows.data(), data, rows.size() * sizeof(float));
  for (size_t i = 5; i < rows.size(); i += 6) rows[i] = static_cast<float>(data[i] % 20);
  auto found = HostTensor::from<float>(DType::F32, {static_cast<int64_t>(rows.size() / 6), 6}, rows);
  auto picture = HostTensor::zeros(DType::U8, {static_cast<int64_t>(size % 40), static_cast<int64_t>(size % 53), 3});
  if (!found.ok() || !picture.ok()) std::abort();
  const std::vector<std::string> labels(20, std::string(reinterpret_cast<const char*>(data), std::min<size_t>(size, 90)));
  pipeline::AnswerBudget budget(1 << 20, 1 << 22);
  auto boxes = pipeline::name_boxes({"labels", 0}, *found, labels, budget);
  if (!boxes.ok()) std::abort();
  auto drawn = pipeline::draw(*picture, *boxes, budget);
  if (!drawn.ok()) std::abort();
  auto file = pipeline::image_out(*drawn, budget);
  if (file.ok() != (drawn->elements() > 0)) std::abort();
  if (!file.ok()) return;
  auto back = io::decode_image(file->bytes, {});
  if (!back.ok() || !std::equal(back->data.bytes().begin(), back->data.bytes().end(), drawn->data.bytes().begin())) std::abort();
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
      if (p.stream)
        for (const Stream::Carried& c : p.stream->carry) made[c.value] = true;  // of the run before
      for (const Step& s : p.steps) {
        for (ValueId id : s.in)
          if (!made[id]) std::abort();
        for (ValueId id : s.out) made[id] = true;
      }
      if (p.stream)
        for (const Stream::Carried& c : p.stream->carry)
          if (!made[c.from]) std::abort();
      for (ValueId id : p.outputs)
        if (!made[id]) std::abort();
      if (std::all_of(p.inputs.begin(), p.inputs.end(), [&](ValueId id) { return p.value(id).kind == ValueKind::Strings; })) run_on_texts(p);
    }
  }
  draw_boxes(data, size);
  (void)split_lines({reinterpret_cast<const std::byte*>(data), size}, "list").ok();
  return 0;
}
