// What the texts say that choose devices: names, and which programs they are for. Of libmlrt-gpu.
#pragma once

#include <string_view>
#include <vector>

namespace mlc::api {

inline constexpr std::string_view kPrefix = "gpu";

// "gpu0,cpu" as its names.
std::vector<std::string_view> names_of(std::string_view wanted);
// Whether it names one device: "gpu0".
bool is_name(std::string_view text);

}  // namespace mlc::api
