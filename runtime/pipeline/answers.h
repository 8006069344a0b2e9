// What host steps at the end of a pipeline answer.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "runtime/io/tensor.h"

namespace mlc::pipeline {

struct Scored {
  int64_t index = 0;
  double score = 0;
  std::string label;  // empty without labels
};
// One list per row of the scores: best first.
struct Classes {
  std::vector<std::vector<Scored>> rows;
};

struct Line {
  std::string text;  // UTF-8
  std::optional<double> score = {};  // mean of the kept maxima, 0 for no text; none of a text that was not recognised
};
// One line per item of the batch.
struct Text {
  std::vector<Line> lines;
};

struct Answer {
  std::string name;
  std::variant<HostTensor, Classes, Text> value;
};

}  // namespace mlc::pipeline
