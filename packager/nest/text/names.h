// Names for new arrays of a function, while it grows.
#pragma once

#include <string>

#include "packager/nest/nest.h"

namespace mlc::nest {

// `wish` if no array of the function has this name; else it, or `otherwise` if it is empty, with the number of arrays, which
// is unique unless the user's names collide on purpose. Arrays that got their names once keep them meanwhile.
std::string unique_name(Function& function, const std::string& wish, const std::string& otherwise);

// Inputs and outputs keep their names, which are the user's; of other arrays those that have one of these get another.
void interface_names_first(Function& function);

}  // namespace mlc::nest
