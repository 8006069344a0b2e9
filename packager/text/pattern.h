// Regular expressions, as Replace and Split of a tokenizer have them, and the tables that the runtime follows instead.
//
// The syntax is that of the reference's engine (Oniguruma, in its syntax of Ruby). What a match is depends on the order of
// alternatives, and what is longer only counts where a quantifier says so. A table says it without going back: a state
// is the list of places in the pattern at which a match may be, best one first, and it is left by a class of code
// points. Looking ahead or behind reaches one code point far, which a state can know; patterns that look further, go back to
// what they have matched, or match the empty text are refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "packager/text/code_points.h"

namespace mlc::text {

// A place in a pattern, and what leads on from it.
struct PatternPlace {
  enum class Kind { Set, Fork, Ahead, Behind, End } kind;
  CodePoints set;     // Set: of what comes next, which is passed; Ahead, Behind: of what comes next or came before
  bool edge = false;  // Ahead, Behind: whether the end or begin of the text will do, too
  uint32_t next = 0;
  uint32_t other = 0;  // Fork: where to go if `next` does not lead to the end
};
struct Pattern {
  std::vector<PatternPlace> places;
  uint32_t begin = 0;
};

// Malformed: no regular expression. Unsupported: one that cannot become a table. `path` begins messages.
[[nodiscard]] Result<Pattern> parse_pattern(std::string_view text, const std::string& path);

// All patterns of a tokenizer: they share the classes.
struct PatternTables {
  std::vector<uint16_t> classes;  // of each code point
  uint32_t num_classes = 0;
  struct Table {
    std::vector<uint16_t> starts;  // by the class of what came before; behind those of classes: of the begin
    std::vector<uint16_t> next;    // of each state and class, behind those of classes: of the end
  };
  std::vector<Table> tables;
};
struct NamedPattern {
  Pattern pattern;
  std::string text, path;
};
[[nodiscard]] Result<PatternTables> make_pattern_tables(const std::vector<NamedPattern>& patterns);

}  // namespace mlc::text
