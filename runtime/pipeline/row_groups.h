// Private to runtime/pipeline: rows of tokens in groups of like length, for each of which a program runs once.
#pragma once

#include <span>
#include <vector>

#include "runtime/pipeline/host_pipeline.h"

namespace mlc::pipeline {

struct RowGroup {
  std::vector<uint32_t> rows;
  int64_t length = 1;  // that they are filled up to: of the longest, at least 1
};

// Groups of rows of these lengths that cost least: each its rows times its length and what a run costs beside. Shorter ones first; all
// rows in their order where there is one group. The search takes the square of the number of different lengths, which the memory of the
// rows bounds to some thousand.
std::vector<RowGroup> row_groups(std::span<const int64_t> lengths, const RowRuns& runs);

// These rows of tokens i64 [rows, tokens] at the length of the group, from the side on that is not filled up.
Result<HostTensor> rows_of(const HostTensor& tokens, const RowGroup& group, bool padded_left);

}  // namespace mlc::pipeline
