// The interface of a program as lines for people: short ones, whatever the model is like.
//
//   where       a = floordiv((num_samples + 1), 64)              extents that are computed have a letter, explained once
//   in          past.0..11.key  f32[batch,4,a,8]   x12           names that count up are one line
//   out         present.0..11.key  f32[batch,4,?,8]   x12
//   ?           what only the run tells
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mlc::compile {

inline constexpr size_t kColumns = 100;

// "  title       text\n", broken at blanks where it is too long for kColumns.
std::string line(std::string_view title, const std::string& text);

struct ShownPort {
  std::string title;                 // "in"
  std::string name, type;            // "x", "f32"
  bool has_shape = true;             // a list has none
  std::vector<std::string> extents;  // "3", "batch", "(batch + 1)"; "y.0" in an output "y": what only the run tells
  std::string notes;                 // "image  optional"
  bool is_output = false;
};
std::string interface_lines(const std::vector<ShownPort>& ports);

}  // namespace mlc::compile
