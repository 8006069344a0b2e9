// Reads the text form of models (packager/model/print.h).
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "packager/model/model.h"

namespace mlc::model {

// Finds weights again: a tensor with these bytes in `bytes`, kept alive by `owner`; null `owner`: not known.
struct Weights {
  Bytes bytes;
  std::shared_ptr<const void> owner;
};
using WeightsByHash = std::function<Weights(std::string_view sha256)>;

// Any text: a Model as written (verify.h tells whether it makes sense), or Malformed with the line. Graphs nest at most
// kMaxGraphDepth deep. Weights that `weights` does not know, or of another length than their type has, are refused.
Result<Model> parse(std::string_view text, const WeightsByHash& weights);

}  // namespace mlc::model
