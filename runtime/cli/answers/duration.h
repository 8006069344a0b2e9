// Durations for people.
#pragma once

#include <cstdint>
#include <string>

namespace mlc::cli {

std::string ms_text(uint64_t ns);  // "4.6 ms"

}  // namespace mlc::cli
