// libs: mlc_import mlc_text_model
// Any bytes as an ONNX file: refused with a message, or a model that verifies and whose text reads back as it is.
#include <cstdlib>
#include <map>
#include <string>

#include "packager/import/onnx.h"
#include "packager/model/print.h"
#include "packager/model/verify.h"
#include "tests/text/model_text.h"

namespace {

using namespace mlc;

// All tensors of a graph and of the bodies in it, by hash.
void collect(const model::Graph& graph, std::map<std::string, model::Weights>& out) {
  const auto add = [&](const model::Tensor& t) {
    out[model::content_hash(t.bytes)] = {t.bytes, t.owner ? t.owner : std::make_shared<int>()};
  };
  for (const auto& [name, tensor] : graph.initializers) add(tensor);
  for (const model::Node& node : graph.nodes)
    for (const auto& [name, value] : node.attributes) {
      if (const auto* tensor = std::get_if<model::Tensor>(&value)) add(*tensor);
      if (const auto* body = std::get_if<std::shared_ptr<const model::Graph>>(&value)) collect(**body, out);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto model = import::import_onnx(std::as_bytes(std::span(data, size)), "fuzz.onnx", "/nonexistent");
  if (!model) {
    if (model.status().message.empty()) std::abort();
    return 0;
  }
  if (!model::verify(*model).ok()) std::abort();
  std::map<std::string, model::Weights> weights;
  collect(model->graph, weights);
  const std::string text = model::print(*model);
  auto back = model::parse(text, [&](std::string_view hash) {
    const auto found = weights.find(std::string(hash));
    return found == weights.end() ? model::Weights() : found->second;
  });
  if (!back || model::print(*back) != text) std::abort();
  return 0;
}
