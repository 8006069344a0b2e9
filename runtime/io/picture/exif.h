// The one EXIF field that changes pixels: the orientation tag 0x0112 of IFD0 (EXIF 2.3, section 4.6).
#pragma once

#include "base/checked.h"

namespace mlc::io {

// 1..8; 1 (upright) where the tag is absent or anything about the data is broken. `tiff` begins with "II" or "MM"; a
// leading "Exif\0\0" is skipped.
int exif_orientation(Bytes tiff);

}  // namespace mlc::io
