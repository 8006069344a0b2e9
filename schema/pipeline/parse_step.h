// One step: its attributes, and what its result is.
#pragma once

#include <array>
#include <optional>

#include "schema/pipeline/reader.h"

namespace mlc::pipeline {

// How a step takes its input.
enum class InputForm {
  Media,    // a file
  Bytes,    // a file of any kind
  Texts,    // texts, or {"first": texts, "second": texts}; "out" is an object
  Tensor,   // any tensor
  Picture,  // a picture [h, w, c], not yet in another layout
  Named,    // "run": objects of names
  Boxes,    // one tensor, or {"boxes": tensor, "scores": tensor}
  Found,    // boxes with labels
  Fed,      // "generate": an object of names in, one value out
  Items,    // "for_each": an object of names of lists
  Preset,   // a tensor; the step stands for several
  None,     // nothing: it makes an array of what the file says
};

// A value that a step takes beside its input, under a key of its own.
struct OtherInput {
  std::string_view key;  // empty: none
  bool is_required = false;
  InputForm form = InputForm::Tensor;
};

inline constexpr int64_t kMaxSide = 1 << 16;  // that a step may ask for

struct StepKind {
  std::string_view op;
  InputForm form;
  // Reads the attributes. `in` is what goes in, `out` starts as a tensor without a picture and gets what is known.
  // Problems are collected; the returned operation then is not used. Null for a preset.
  Op (*parse)(ObjectReader& r, const Value& in, Value& out);
  std::array<OtherInput, 2> others = {};  // in this order behind the input
  // What a step gives where "out" is an object, in this order; a name alone is that of the first.
  std::array<std::string_view, 2> results = {};
};

// Of steps on boxes (parse_boxes.cpp).
Op parse_boxes(ObjectReader& r, const Value& in, Value& out);
Op parse_nms(ObjectReader& r, const Value& in, Value& out);
Op parse_unletterbox(ObjectReader& r, const Value& in, Value& out);
Op parse_keypoints(ObjectReader& r, const Value& in, Value& out);
Op parse_masks(ObjectReader& r, const Value& in, Value& out);
Op parse_paint(ObjectReader& r, const Value& in, Value& out);
Op parse_detections(ObjectReader& r, const Value& in, Value& out);
Op parse_draw(ObjectReader& r, const Value& in, Value& out);
Op parse_image_out(ObjectReader& r, const Value& in, Value& out);

// One that takes nothing (parse_stream.cpp).
Op parse_constant(ObjectReader& r, const Value& in, Value& out);

// The three bytes of "#rrggbb".
std::optional<std::array<uint8_t, 3>> parse_color(std::string_view text);

// "labels" and "label_offset" of steps that name classes.
void read_labels(ObjectReader& r, std::string& labels, int64_t& offset);

// Null for an unknown name.
const StepKind* step_kind(std::string_view op);
// Names of all steps, and whether a name belongs to a step of a later version.
std::vector<std::string_view> step_names();
bool is_planned_step(std::string_view op);

}  // namespace mlc::pipeline
