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

// A detection: corners in pixels of a picture, which may lie outside of it and be no numbers.
struct FoundBox {
  float x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  int64_t index = 0;  // of the class
  double score = 0;
  std::string label;  // empty without labels
};
// Best first.
struct FoundBoxes {
  std::vector<FoundBox> boxes;
};

// A picture as the bytes of a file.
struct ImageFile {
  std::string media_type;
  int64_t height = 0, width = 0;
  std::vector<std::byte> bytes;
};

// A sound as the bytes of a file.
struct SoundFile {
  std::string media_type;
  int64_t rate = 0, channels = 0, samples = 0;  // samples of each channel
  std::vector<std::byte> bytes;
};

struct Answer {
  std::string name;
  std::variant<HostTensor, Classes, Text, FoundBoxes, ImageFile, SoundFile> value;
};

}  // namespace mlc::pipeline
