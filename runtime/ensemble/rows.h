// How the rows of one request are divided among parts that do the same with each row.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/ensemble/mapper.h"

namespace mlc::ensemble {

struct RowCost {
  double fixed_ns = kImpossible;  // of a share, however many rows it has; kImpossible: the part gets none
  double ns_per_row = 0;
};

// How many rows each part gets so that all are done as early as can be; of equally good ways the one of fewer parts, then of
// earlier ones. All 0: there is none. Of more than kMostPipelined parts the first ones count. Equal arguments give equal shares.
std::vector<uint64_t> divide_rows(const std::vector<RowCost>& costs, const Rows& rows);
// When the last of them is done.
double divided_ns(const std::vector<RowCost>& costs, const std::vector<uint64_t>& shares);

// Those of the whole problem on each part alone.
std::vector<RowCost> row_costs(const Problem& problem);

}  // namespace mlc::ensemble
