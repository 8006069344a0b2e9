// One step: its attributes, and what its result is.
#pragma once

#include <optional>

#include "schema/pipeline/reader.h"

namespace mlc::pipeline {

// How a step takes its input.
enum class InputForm {
  Media,    // a file
  Texts,    // texts, or {"first": texts, "second": texts}; "out" is an object
  Tensor,   // any tensor
  Picture,  // a picture [h, w, c], not yet in another layout
  Named,    // "run": objects of names
  Fed,      // "generate": an object of names in, one value out
  Items,    // "for_each": an object of names of lists
  Preset,   // a tensor; the step stands for several
};

// A tensor that a step takes beside its input, under a key of its own.
struct SecondInput {
  std::string_view key;  // empty: none
  bool is_required = false;
};

struct StepKind {
  std::string_view op;
  InputForm form;
  // Reads the attributes. `in` is what goes in, `out` starts as a tensor without a picture and gets what is known.
  // Problems are collected; the returned operation then is not used. Null for a preset.
  Op (*parse)(ObjectReader& r, const Value& in, Value& out);
  SecondInput second = {};
};

// Null for an unknown name.
const StepKind* step_kind(std::string_view op);
// Names of all steps, and whether a name belongs to a step of a later version.
std::vector<std::string_view> step_names();
bool is_planned_step(std::string_view op);

}  // namespace mlc::pipeline
