// pipeline.json as a typed structure: the one parser that packager and runtime share (spec/pipeline.md).
//
// Strict, because a guess would change somebody's pixels: an unknown key is an error that names the nearest known one
// and its place; every key that changes bits must be written, and all that are missing are listed at once; every value
// must be used. The problems of a file are reported in one Status, 50 of them at most: the first as its message, the
// others as facts.
//
// A Pipeline is a list of steps in order of execution over numbered values (single assignment). Three stages follow
// each other: host steps that turn files into tensors, array steps with the program's run, host steps that turn tensors
// into answers.
#pragma once

#include <optional>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "schema/pipeline/steps.h"

namespace mlc::pipeline {

// spec/limits.md.
inline constexpr JsonLimits kTextLimits{.bytes = 1 << 20, .depth = 16, .values = 100'000};
inline constexpr size_t kMaxSteps = 1000, kMaxInputs = 1000;  // of one pipeline
inline constexpr size_t kMaxForms = 16;  // in which steps decode one input; equal steps decode once

using Position = TextPosition;

enum class ValueKind {
  Media,    // bytes of a file, an input
  Strings,  // texts, an input
  Tensor,
  Classes,  // indices, labels and scores, an answer
  Text,     // decoded text, an answer
};

// What is known of a picture before a model is seen; -1 is a size that the file decides.
struct Picture {
  PixelLayout layout = PixelLayout::Hwc;
  DType dtype = DType::U8;
  int64_t height = -1, width = -1;
  int64_t channels = 3;
  Color color = Color::Rgb;
  bool alpha = false;  // the last channel
};

struct Value {
  std::string name;  // as written, or "steps[i]" for a result without a name: unique within the pipeline
  ValueKind kind = ValueKind::Tensor;
  std::optional<Picture> picture;   // tensors that are pictures
  bool is_tokens = false;           // a tensor that `tokenize` makes
  std::vector<std::string> accept;  // Media and Strings: types like "image/png", never empty
};

struct Step {
  std::string op;  // its name in the file
  Position where;
  std::vector<ValueId> in, out;  // Run: in the order of Run::inputs and outputs
  Op what;
};

struct Pipeline {
  std::string name;  // "default" where the file has one pipeline only
  std::vector<Value> values;
  std::vector<ValueId> inputs, outputs;  // in the order of the file
  std::vector<Step> steps;
  std::string file;  // as messages name it

  const Value& value(ValueId id) const { return values[id]; }
};

struct PipelineFile {
  std::vector<Pipeline> pipelines;  // never empty
};

// `file_name` stands in messages only.
Result<PipelineFile> parse(std::string_view text, std::string_view file_name);

enum class Stage { Before, Array, After };
Stage stage_of(const Op& op);
// Do both decode the same input, and to the same tensor?
bool decode_alike(const Step& a, const Step& b);

// The edge between host and compiled code: tensors that array steps take from host steps or from the caller, and
// tensors that host steps or the caller take from array steps. Each in order of its first use.
std::vector<ValueId> array_inputs(const Pipeline& p);
std::vector<ValueId> array_outputs(const Pipeline& p);

// Names of the assets (labels, character sets, tokenizers) that the steps need, as written, without duplicates. Relative to the
// folder of the pipeline file when building; the names of assets inside a container.
std::vector<std::string> assets(const Pipeline& p);
// The one that a step needs; empty if none.
std::string asset_of(const Step& step);
// Is it a tokenizer, and no list? One asset is not both.
bool wants_tokenizer(const Step& step);

// "file:line:column: ", of what is written there
std::string place_of(const Pipeline& p, Position where);

}  // namespace mlc::pipeline
