// A container in an executable (spec/container.md, section 13): a runner's bytes, zeros, the container, and a trailer that says where it is.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/checked.h"
#include "base/status.h"

namespace mlc::format {

inline constexpr std::string_view kTrailerMagic = "MLCEXEC1";
// A text that a program has which looks for a trailer in its own file: what tells a runner from other programs.
inline constexpr const char* kRunnerMark = "no trailer MLCEXEC1 says where its container is";
inline constexpr uint64_t kTrailerLen = 24;  // magic, offset and length of the container

// Bytes of the file.
struct ContainerPart {
  uint64_t offset = 0, length = 0;
};

// Where the container goes behind a runner of so many bytes: the next multiple of kPageAlign. None: beyond 2^64.
[[nodiscard]] std::optional<uint64_t> offset_behind(uint64_t runner_bytes);

[[nodiscard]] std::array<std::byte, kTrailerLen> trailer_of(const ContainerPart& part);

// `last`: the last kTrailerLen bytes of a file of `file_bytes`, which is not shorter. Changes `part` where they are a trailer. Malformed (E1102)
// where it does not agree with the file's size; `name` is for messages.
[[nodiscard]] Status find_part(std::span<const std::byte, kTrailerLen> last, uint64_t file_bytes, const std::string& name, ContainerPart& part);

// Where an ELF file of 64 bits ends by its header, little-endian: the table of sections is last in what linkers write. `front` is its
// beginning, 64 bytes or more. None: not such a file, or one without that table.
[[nodiscard]] std::optional<uint64_t> elf_end(Bytes front);

}  // namespace mlc::format
