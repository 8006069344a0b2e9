// Sets of code points, as patterns name them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace mlc::text {

// Ranges in order that neither overlap nor touch.
class CodePoints {
 public:
  struct Range {
    uint32_t first, last;
  };

  CodePoints() = default;
  CodePoints(uint32_t first, uint32_t last) : ranges_{{first, last}} {}

  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }
  void add(uint32_t first, uint32_t last);
  void add(const CodePoints& other);
  CodePoints others() const;  // all that are not in it
  CodePoints both(const CodePoints& other) const { return [&] { CodePoints out = others(); out.add(other.others()); return out.others(); }(); }
  bool has(uint32_t code_point) const;

 private:
  std::vector<Range> ranges_;
};

// Those of a name as patterns have it between braces of \p: a general category, a script, White_Space, Any. False: none of them.
bool named_code_points(std::string_view name, CodePoints& out);
// Those of \s, \d, \w and \h; false for another letter.
bool shorthand_code_points(char letter, CodePoints& out);
// With all that differ from them in case only. False: one of them is several letters in another case.
bool any_case(CodePoints& points);
// Whether there is a letter that is several in another case, of which the first two are of these sets.
bool joins_in_case(const CodePoints& first, const CodePoints& second);

}  // namespace mlc::text
