// What golden vectors of a pipeline that takes texts are made of: texts, through the host steps that mlrun has.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/io/tensor.h"
#include "schema/pipeline/pipeline.h"

namespace mlc::pipeline {

struct TextVector {
  std::string name;                 // "text", "two texts", "empty text", "long text"
  std::vector<NamedTensor> arrays;  // those that the first program takes
};

// None where the pipeline takes anything but texts, or hands anything but tokens to its array steps. The long text is one that the
// step cuts; two texts, of which one is filled up, are left out where the model says how many it takes. Each input has the same texts,
// but for the second of a pair. `fixed`: as many as the model takes at a time; 0: any number.
Result<std::vector<TextVector>> golden_texts(const Pipeline& pipeline, const std::map<std::string, std::vector<std::byte>>& assets, int64_t fixed);

}  // namespace mlc::pipeline
