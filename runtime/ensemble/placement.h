// Which part runs which function, as a user says it: "main.3=gpu0,main.4=cpu".
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "runtime/ensemble/part.h"

namespace mlc::ensemble {

inline constexpr uint32_t kAnyPart = UINT32_MAX;

// The part of each function of the plan; kAnyPart where the text says nothing. Usage if it names what is not there, with the
// names that are.
Result<std::vector<uint32_t>> read_placement(std::string_view text, const exec::Plan& plan, const std::vector<Part>& parts);

}  // namespace mlc::ensemble
