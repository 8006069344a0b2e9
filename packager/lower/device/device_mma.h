// Products on tensor cores: which of them, by which schedules, and the stage that does one.
#pragma once

#include <string>
#include <vector>

#include "packager/lower/device/device_product.h"

namespace mlc::lower {

// What multiplies there: "mma.f16", "mma.bf16", or "mma.f32" for three products of tf32 (one, of factors that it holds); empty: lanes do, by multiply-adds.
std::string mma_instruction(const Job& job, const DeviceProduct& p, const ProductSize& size);
// Best first. `base` has the loops of the product.
std::vector<schedule::Schedule> mma_schedules(const Job& job, const DeviceProduct& p, const ProductSize& size, schedule::Schedule base, const std::string& instruction);
StagePtr mma_stage(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how);

}  // namespace mlc::lower
