#include <windows.h>

#include "base/files/unfinished.h"
#include "base/system/windows_text.h"

namespace mlc {

// Windows runs no handler in the middle of another function of this process: what ends it early runs in a thread of its own, so
// names may be made here.
void detail::remove_place(const char* path) noexcept {
  const std::wstring place = windows::wide_path(path);
  if (DeleteFileW(place.c_str())) return;
  WIN32_FIND_DATAW found;
  const HANDLE all = FindFirstFileW((place + L"\\*").c_str(), &found);
  if (all == INVALID_HANDLE_VALUE) return;
  do
    if ((found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) == 0) DeleteFileW((place + L"\\" + found.cFileName).c_str());
  while (FindNextFileW(all, &found));
  FindClose(all);
  RemoveDirectoryW(place.c_str());
}

}  // namespace mlc
