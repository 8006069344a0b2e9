// Which arrays a statement reads and writes, and renumbering them.
#pragma once

#include <functional>
#include <set>

#include "packager/nest/nest.h"

namespace mlc::nest {

std::set<uint32_t> arrays_read(const Statement& statement);
std::set<uint32_t> arrays_written(const Statement& statement);
// Replaces every array number of the statement.
void renumber(ir::Context& ctx, Statement& statement, const std::function<uint32_t(uint32_t)>& number);

}  // namespace mlc::nest
