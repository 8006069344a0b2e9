#include "packager/passes/dead_code.h"

#include <algorithm>

#include "packager/passes/uses.h"

namespace mlc::passes {

Status dead_code(ir::Context& ctx, nest::Function& function) {
  std::vector<bool> needed(function.arrays.size(), false);
  for (uint32_t output : function.outputs) needed[output] = true;
  std::vector<nest::Statement> kept;
  for (size_t k = function.body.size(); k-- > 0;) {
    nest::Statement& statement = function.body[k];
    const auto written = arrays_written(statement);
    const bool yields = statement.proc && !statement.proc->yields.empty();
    if (!yields && std::none_of(written.begin(), written.end(), [&](uint32_t a) { return needed[a]; })) continue;
    if (statement.nest) {  // single writes of it may be dead
      auto& writes = statement.nest->writes;
      writes.erase(std::remove_if(writes.begin(), writes.end(), [&](const nest::Write& w) { return !needed[w.array]; }), writes.end());
    }
    for (uint32_t array : arrays_read(statement)) needed[array] = true;
    kept.push_back(std::move(statement));
  }
  std::reverse(kept.begin(), kept.end());
  function.body = std::move(kept);

  for (const nest::Statement& statement : function.body)
    for (uint32_t array : arrays_written(statement)) needed[array] = true;
  for (uint32_t input : function.inputs) needed[input] = true;
  std::vector<uint32_t> number(function.arrays.size(), UINT32_MAX);
  std::vector<nest::Array> arrays;
  for (uint32_t k = 0; k < function.arrays.size(); ++k) {
    if (!needed[k]) continue;
    number[k] = static_cast<uint32_t>(arrays.size());
    arrays.push_back(std::move(function.arrays[k]));
  }
  function.arrays = std::move(arrays);
  const auto renamed = [&](uint32_t array) { return number[array]; };
  for (nest::Statement& statement : function.body) renumber(ctx, statement, renamed);
  for (uint32_t& input : function.inputs) input = number[input];
  for (uint32_t& output : function.outputs) output = number[output];
  return ok();
}

}  // namespace mlc::passes
