// Access control lists of Windows. Believed are this user, SYSTEM, the group of administrators and TrustedInstaller, who may change
// everything anyway; all else are others.
#pragma once

#include <cstdint>
#include <string>

namespace mlc::windows {

// Rights in a file or folder. The numbers are the system's.
inline constexpr uint32_t kReadData = 0x1;
// Of a file's bytes, its rights, its name.
inline constexpr uint32_t kChangeFile = 0x2 | 0x4 | 0x10000 | 0x40000 | 0x80000;
// To put something into a folder, or what follows.
inline constexpr uint32_t kChangeFolder = 0x2 | 0x4 | 0x40 | 0x10000 | 0x40000 | 0x80000;
// To replace what lies in it: not to add to it, which all users may in the root of a drive.
inline constexpr uint32_t kReplaceInFolder = 0x40 | 0x10000 | 0x40000 | 0x80000;

// `name`: an account, or the number of one, that is another one and has one of the `rights` in what `handle` is open for
// (READ_CONTROL), or owns it. Empty: there is none. What cannot be read is told as "unknown accounts".
[[nodiscard]] std::string others_with(void* handle, uint32_t rights);

// A list, in the text form of Windows, that gives this user, SYSTEM and administrators all rights and others none.
[[nodiscard]] std::wstring private_list();

}  // namespace mlc::windows
