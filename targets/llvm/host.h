// What the build machine is, for the target name "native".
#pragma once

#include <string>
#include <vector>

#include "targets/target.h"

namespace mlc::targets {

Machine host_machine();  // None if there is no emitter for it
// Whether the code of a target runs here: of this machine, and the operating system lets it use all of its features.
bool runs_here(const Target& target);

}  // namespace mlc::targets
