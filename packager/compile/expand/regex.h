// Patterns to tables of states (base/text/text.h: accepts) that take bytes of UTF-8. The syntax is that of RE2 as far as it
// says something about whole texts: literals, escapes (\d \w \s \D \W \S \t \n \r \f \v \a \xHH \x{H...} \Q...\E), `.`,
// classes with ranges, escapes and [:names:], groups (capturing, (?:...), (?P<name>...), flags i and s), | * + ? {m,n}
// and their lazy forms, ^ $ \A \z \b \B. Anything else (Unicode classes, say) is Unsupported.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace mlc::compile {

// Malformed: no pattern. Unsupported: see above. Resource: too many states.
// With `anywhere`, of pieces of a text: what stands around a piece has no say, so ^ $ \A \z \b \B are Unsupported.
Result<std::vector<int32_t>> table_of_pattern(const std::string& pattern, bool anywhere = false);

}  // namespace mlc::compile
