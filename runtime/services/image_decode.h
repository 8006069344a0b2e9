#pragma once

#include "runtime/api/mlc.h"

namespace mlc::services {

// "image.decode", spec/services.md.
int decode_image(void*, MlcServiceCall* call);

}  // namespace mlc::services
