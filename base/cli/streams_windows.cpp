#include <windows.h>

#include <fcntl.h>
#include <io.h>
#include <shellapi.h>

#include "base/cli/streams.h"
#include "base/system/windows_text.h"

namespace mlc::cli {

void open_closed_streams() {
  constexpr int kModes[] = {_O_RDONLY, _O_RDONLY, _O_WRONLY};  // what is written to an output that is open for reading fails
  for (int stream = 0; stream < 3; ++stream) {
    if (_get_osfhandle(stream) < 0) {
      const int nothing = _open("NUL", kModes[stream]);
      if (nothing >= 0 && nothing != stream) _dup2(nothing, stream), _close(nothing);
    }
    _setmode(stream, _O_BINARY);
  }
  SetConsoleOutputCP(CP_UTF8);  // what is printed is UTF-8; nothing happens where there is no console
}

std::vector<std::string> words_given(int, char**) {
  std::vector<std::string> words;
  int count = 0;
  wchar_t** const given = CommandLineToArgvW(GetCommandLineW(), &count);  // main's are of the code page, in which not all names can be written
  for (int k = 1; given && k < count; ++k) words.push_back(windows::narrow(given[k]));
  LocalFree(given);
  return words;
}

}  // namespace mlc::cli
