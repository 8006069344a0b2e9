// Assets that are lists: labels and character sets, one entry per line.
#pragma once

#include <string>
#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "schema/pipeline/steps.h"

namespace mlc::pipeline {

// A line costs memory even where it is empty, so bytes alone do not bound a list.
inline constexpr size_t kMaxListBytes = 64u << 20, kMaxLines = 1 << 20;

// Valid UTF-8 or an error with the offset. A byte order mark is removed, lines end in LF or CR LF, the last one may end
// without; nothing else is changed, so a line may be a blank character. Control characters are refused.
Result<std::vector<std::string>> split_lines(Bytes text, std::string_view name);

// Whether a list of so many lines fits scores with so many columns (E5003 otherwise): asked when building, where the
// number of columns is known, and before every answer.
Status check_labels(std::string_view step, const std::string& labels, int64_t offset, size_t lines, int64_t columns);
Status check_charset(const CtcGreedy& step, size_t lines, int64_t columns);

}  // namespace mlc::pipeline
