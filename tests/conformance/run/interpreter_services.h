// The services that mlrun offers, for the interpreter: the same functions.
#pragma once

#include "packager/nest/interpret/interpret.h"

namespace mlc::conformance {

nest::HostService interpreter_services();

}  // namespace mlc::conformance
