#include "packager/nest/names.h"

namespace mlc::nest {

std::string unique_name(Function& function, const std::string& wish, const std::string& otherwise) {
  if (function.counted > function.arrays.size()) function.names.clear(), function.counted = 0;
  for (; function.counted < function.arrays.size(); ++function.counted) function.names.insert(function.arrays[function.counted].name);
  if (!wish.empty() && !function.names.count(wish)) return wish;
  std::string name = (wish.empty() ? otherwise : wish) + "." + std::to_string(function.arrays.size());
  while (function.names.count(name)) name += "'";
  return name;
}

}  // namespace mlc::nest
