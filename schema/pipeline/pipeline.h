// pipeline.json as a typed structure: the one parser that packager and runtime share (spec/pipeline.md).
//
// Strict, because a guess would change pixels: an unknown key is an error that names the nearest known one
// and its place; every key that changes bits must be written, and all that are missing are listed at once; every value
// must be used. The problems of a file are reported in one Status, 50 of them at most: the first as its message, the
// others as facts.
//
// A Pipeline is a list of steps in order of execution over numbered values (single assignment). It is cut into sections:
// those of host steps, and those of array steps, each of which is a program of the container.
#pragma once

#include <optional>
#include <string_view>

#include "base/status.h"
#include "base/text/json.h"
#include "schema/pipeline/steps.h"

namespace mlc::pipeline {

// spec/limits.md.
inline constexpr JsonLimits kTextLimits{.bytes = 1 << 20, .depth = 16, .values = 100'000};
inline constexpr size_t kMaxSteps = 1000, kMaxInputs = 1000;  // of one pipeline
inline constexpr size_t kMaxPrograms = 64;  // that a file names
inline constexpr int64_t kMaxGenerated = 1 << 16;  // tokens of one step
inline constexpr size_t kMaxStarts = 4096, kMaxCarried = 1024;
inline constexpr size_t kMaxConstant = 4096;  // numbers of one step
inline constexpr int64_t kMaxChunk = int64_t{1} << 26;  // samples of a stream that one run takes
inline constexpr int64_t kMaxBatch = 1 << 16;
inline constexpr int64_t kMaxTextBoxes = 10'000;  // that one step finds
inline constexpr double kMaxUnclipRatio = 4;
inline constexpr int64_t kMaxFileBytes = int64_t{1} << 26;  // of one step
inline constexpr size_t kMaxByteParts = 16;
inline constexpr size_t kMaxUnsure = 4096;  // classes that one step names
inline constexpr size_t kMaxForms = 16;  // in which steps decode one input; equal steps decode once

using Position = TextPosition;

enum class ValueKind {
  Media,    // bytes of a file, an input
  Strings,  // texts, an input
  Bytes,    // a file of any kind, an input
  Tensor,
  List,     // of tensors that may differ in their extents
  Classes,  // indices, labels and scores, an answer
  Text,     // decoded text, an answer
  Boxes,    // detections with labels, an answer, which may be drawn
  Image,    // a picture as a file, an answer
  Sound,    // a sound as a file, an answer
};

// What is known of a picture before a model is seen; -1 is a size that the file decides.
struct Picture {
  PixelLayout layout = PixelLayout::Hwc;
  DType dtype = DType::U8;
  int64_t height = -1, width = -1;
  int64_t channels = 3;
  Color color = Color::Rgb;
  bool alpha = false;  // the last channel
  int64_t most = 1;    // pictures of a batch, which the run decides
};

struct Value {
  std::string name;  // as written, or "steps[i]" for a result without a name: unique within the pipeline
  ValueKind kind = ValueKind::Tensor;
  std::optional<Picture> picture;   // tensors that are pictures, and lists of them
  bool is_tokens = false;           // a tensor that `tokenize` makes
  bool is_sound = false;            // a tensor that `decode_audio` makes: f32 [samples], with its channels as a second axis where all are kept
  std::vector<std::string> accept;  // Media, Strings and Bytes: types like "image/png", never empty
};

struct Step {
  std::string op;  // its name in the file
  Position where;
  std::vector<ValueId> in, out;  // Run: in the order of Run::inputs and outputs
  Op what;
};

// A pipeline that runs once for each chunk of a sound.
struct Stream {
  // A result that is another value in the next run; in the first one that is zeros.
  struct Carried {
    ValueId value = 0, from = 0;
    std::optional<std::vector<int64_t>> shape;  // null: as the program that takes it has it
    Position where;
  };
  ValueId input = 0, sound = 0;      // `sound` is what the only decoder of the input makes
  uint32_t rate = 1;                 // samples per second
  int64_t hop = 1, context = 0;      // samples of a chunk, and those of the ones before that stand in front of it
  bool pads = false;                 // the last chunk, where it is not whole, with zeros; else it is dropped
  std::vector<Carried> carry;
  Position where;

  int64_t window() const { return context + hop; }  // samples that a run takes
};

struct Pipeline {
  std::string name;  // "default" where the file has one pipeline only
  std::vector<Value> values;
  std::vector<ValueId> inputs, outputs;  // in the order of the file
  std::vector<Step> steps;
  std::string file;  // as messages name it
  bool is_body = false;  // of a for_each: its inputs are tensors
  std::optional<Stream> stream = {};

  const Value& value(ValueId id) const { return values[id]; }
};

// A model that `run` steps name.
struct ProgramFile {
  struct Bound {
    std::string name;  // of a free extent
    int64_t lo = 0, hi = 0;
  };
  std::string name, model;  // `model`: a path, relative to the folder of the pipeline
  std::vector<Bound> dims;
  Position where;
};

struct PipelineFile {
  std::vector<ProgramFile> programs;  // empty: the model is given beside the pipeline, and called "main"
  std::vector<Pipeline> pipelines;    // never empty
};

// `file_name` stands in messages only.
Result<PipelineFile> parse(std::string_view text, std::string_view file_name);

// Compiled; the others run on the host.
bool is_array_step(const Op& op);
// Makes arrays of files and texts.
bool is_decoder(const Op& op);
// Do both decode the same input, and to the same tensor?
bool decode_alike(const Step& a, const Step& b);

// Steps that follow each other and run in one place.
struct Section {
  bool is_array = false;
  bool is_batched = false;      // works on items that `batch` has put together
  std::string program;          // of array steps: the program of the container that they are
  std::vector<uint32_t> steps;  // numbers of steps, in order
  // Values that are made before and read here; those made here that are read behind or are outputs. Each in order of its first use.
  std::vector<ValueId> in, out;
  std::optional<ValueId> lengths;  // i64 [rows], of an array section that runs for groups of rows: tokens of each row; not in `in`
};
// In order of execution: each array step is in the first section of array steps in which all that it reads is there, each host
// step likewise. The first program has the name of the pipeline, those behind it ".2", ".3", ... after that.
std::vector<Section> sections(const Pipeline& p);
// Names of the programs that its steps run, without duplicates.
std::vector<std::string> programs_of(const Pipeline& p, const Section& section);
// The pipeline and the bodies of its steps, in order.
std::vector<const Pipeline*> with_bodies(const Pipeline& p);

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
