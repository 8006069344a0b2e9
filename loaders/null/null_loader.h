// A loader that compiles, does nothing, and shows how one is written: for each kernel that the "module" announces, its
// launches succeed without touching a byte. Copy this folder to begin a new kind of device.
#pragma once

#include <memory>

#include "runtime/loader.h"

namespace mlc::null {

// The module's bytes are "NULL" and one little-endian u32: the number of kernels, at most 65536.
std::unique_ptr<Loader> make_null_loader();

}  // namespace mlc::null
