// Devices beside the processor, asked in another process: drivers crash and hang while they are asked. The text that goes
// between the two is here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "runtime/device_info.h"

namespace mlc::probe {

inline constexpr uint64_t kMostDeviceText = 64 << 10;

std::string device_text(std::span<const device::Info> devices);
// Of a process that may have been led astray: Malformed if anything in it is not as device_text writes it.
Result<std::vector<device::Info>> parse_device_text(std::string_view text);

// A card, by every driver interface that shows it: what drivers call its UUID is the same under each of them.
struct Card {
  std::string_view identity;
  std::vector<const device::Info*> shown;  // not empty; those of `found`
};
// In the order in which they are found first. `found` outlives it.
std::vector<Card> cards_of(std::span<const device::Info> found);

// Whether the system shows a device that a driver of Vulkan may open: a node in /dev, or in /dev/dri; on Windows Vulkan's library. True where the user has named drivers
// (VK_DRIVER_FILES, VK_ICD_FILENAMES, VK_ADD_DRIVER_FILES). Takes a tenth of a millisecond; asking drivers takes 50 and more, most of
// them to load what computes in software.
bool may_have_graphics();

// The program that runs, as a name for ask_child; it is a file on Linux.
inline constexpr const char* kOwnProgram = "/proc/self/exe";

// Runs `program probe-child API`, which writes device_text to its standard output. NotFound if it cannot be started or fails,
// with what it said; Resource if it crashed or answered nothing within the deadline, after which it is killed.
Result<std::vector<device::Info>> ask_child(const std::string& program, const char* api, uint64_t deadline_ns);

}  // namespace mlc::probe
