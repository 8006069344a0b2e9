#include "packager/nest/text/names.h"

namespace mlc::nest {

std::string unique_name(Function& function, const std::string& wish, const std::string& otherwise) {
  if (function.counted > function.arrays.size()) function.names.clear(), function.counted = 0;
  for (; function.counted < function.arrays.size(); ++function.counted) function.names.insert(function.arrays[function.counted].name);
  if (!wish.empty() && !function.names.count(wish)) return wish;
  std::string name = (wish.empty() ? otherwise : wish) + "." + std::to_string(function.arrays.size());
  while (function.names.count(name)) name += "'";
  return name;
}

void interface_names_first(Function& function) {
  std::unordered_set<std::string> names;
  std::vector<bool> is_interface(function.arrays.size());
  for (const auto* side : {&function.inputs, &function.outputs})
    for (uint32_t array : *side)
      if (names.insert(function.arrays[array].name).second) is_interface[array] = true;
  for (size_t k = 0; k < function.arrays.size(); ++k) {
    if (is_interface[k]) continue;
    std::string& name = function.arrays[k].name;
    const std::string stem = name;
    for (size_t n = 2; !names.insert(name).second; ++n) name = stem + "#" + std::to_string(n);
  }
  function.names.clear();
  function.counted = 0;
}

}  // namespace mlc::nest
