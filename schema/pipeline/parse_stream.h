// "stream" of a pipeline as it is written: numbers, and names that are looked up once all steps are read.
#pragma once

#include "schema/pipeline/pipeline.h"
#include "schema/pipeline/reader.h"

namespace mlc::pipeline {

struct StreamText {
  struct Name {
    std::string text;
    Position where;
  };
  struct Carried {
    Name value, from;
    std::optional<std::vector<int64_t>> shape;
  };
  Name input;
  Stream numbers;  // hop, context, pads, where
  std::vector<Carried> carry;
  Position where;
};
StreamText read_stream(const Json& stream, Problems& problems);

}  // namespace mlc::pipeline
