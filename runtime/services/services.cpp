#include "runtime/services/services.h"

#include "runtime/services/image_decode.h"

namespace mlc::services {

std::span<const MlcService> all() {
  static constexpr MlcService kServices[] = {{"image.decode", &decode_image, nullptr}};
  return kServices;
}

}  // namespace mlc::services
