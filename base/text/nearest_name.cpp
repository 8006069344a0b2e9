#include "base/text/nearest_name.h"

#include <algorithm>
#include <vector>

#include "base/compose.h"

namespace mlc {
namespace {

// Damerau-Levenshtein: letters added, dropped, changed, or two neighbours swapped.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

// The longest candidate that is one of the parts of the word, which '_' and '-' divide: "crop" of "center_crop".
std::string_view part_of(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  while (!word.empty()) {
    const size_t end = std::min(word.find_first_of("_-"), word.size());
    const std::string_view part = word.substr(0, end);
    if (part.size() > best.size() && std::find(candidates.begin(), candidates.end(), part) != candidates.end()) best = part;
    word.remove_prefix(std::min(end + 1, word.size()));
  }
  return best;
}

}  // namespace

std::string_view nearest_name(std::string_view word, std::span<const std::string_view> candidates) {
  if (word.size() > 64) return {};
  std::string_view best;
  size_t least = std::max<size_t>(2, word.size() / 3) + 1;
  for (auto c : candidates) {
    if (c.size() > word.size() + least) continue;  // the table of a candidate is as large as its product with the word
    if (size_t d = distance(word, c); d < least && d < std::max(word.size(), c.size())) least = d, best = c;
  }
  return best.empty() ? part_of(word, candidates) : best;
}

std::string unknown_word(std::string_view what, std::string_view word, const std::vector<std::string>& known) {
  std::string shown;
  for (unsigned char c : word.substr(0, 60)) shown += c < 0x20 || c == 0x7F ? '?' : static_cast<char>(c);
  std::string text = compose("unknown {} '{}{}", what, shown, word.size() > 60 ? "...'" : "'");
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  if (const std::string_view near = nearest_name(word, candidates); !near.empty())
    text += compose(", did you mean '{}'?", near);
  return text;
}

}  // namespace mlc
