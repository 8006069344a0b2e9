// Running folds on devices.
#pragma once

#include <optional>

#include "packager/lower/walk/templates.h"

namespace mlc::lower {

// Running folds on devices: a form of the family Lines, whose lanes do them together. Nothing: a lane for each line is as good, or the nest is no such scan.
std::optional<Schedules> device_scans(const Job& job, const FlatNest& nest);

}  // namespace mlc::lower
