#include <vector>

#include "base/system/find_bytes.h"

namespace mlc {

// Knuth, Morris, Pratt: the C library of Windows has no memmem.
size_t find_bytes(std::string_view text, std::string_view what) {
  if (what.size() < 2 || what.size() > text.size()) return text.find(what);
  // border[k]: how much of the begin of `what` its first k bytes end with, all of them aside.
  std::vector<size_t> border(what.size() + 1, 0);
  for (size_t k = 1, b = 0; k < what.size(); ++k) {
    while (b > 0 && what[k] != what[b]) b = border[b];
    if (what[k] == what[b]) ++b;
    border[k + 1] = b;
  }
  for (size_t at = 0, equal = 0; at < text.size(); ++at) {
    while (equal > 0 && text[at] != what[equal]) equal = border[equal];
    if (text[at] == what[equal]) ++equal;
    if (equal == what.size()) return at + 1 - equal;
  }
  return text.npos;
}

}  // namespace mlc
