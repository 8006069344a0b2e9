#include "runtime/pipeline/row_groups.h"

#include <algorithm>
#include <numeric>

namespace mlc::pipeline {
namespace {

// Rows of one length, in `order`.
struct EqualRows {
  size_t begin, end;
  int64_t length;
};

int64_t rows_of_run(int64_t length, const RowRuns& runs) {
  return std::max<int64_t>(1, std::min(runs.most_rows, runs.most_tokens / std::max<int64_t>(1, length)));
}

// Where in `spans` each group of the cheapest division ends.
std::vector<size_t> cheapest_ends(const std::vector<EqualRows>& spans, const RowRuns& runs) {
  std::vector<int64_t> least(spans.size() + 1, 0);
  std::vector<size_t> begin(spans.size() + 1, 0);
  for (size_t last = 0; last < spans.size(); ++last) {
    const int64_t length = spans[last].length, most = rows_of_run(length, runs);
    least[last + 1] = INT64_MAX;
    for (size_t first = 0; first <= last; ++first) {
      const auto rows = static_cast<int64_t>(spans[last].end - spans[first].begin);
      const int64_t cost = least[first] + rows * length + ((rows - 1) / most + 1) * runs.run_tokens;
      if (cost < least[last + 1]) least[last + 1] = cost, begin[last + 1] = first;
    }
  }
  std::vector<size_t> ends;
  for (size_t end = spans.size(); end > 0; end = begin[end]) ends.push_back(end);
  std::reverse(ends.begin(), ends.end());
  return ends;
}

}  // namespace

std::vector<RowGroup> row_groups(std::span<const int64_t> lengths, const RowRuns& runs) {
  std::vector<uint32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return lengths[a] < lengths[b]; });
  std::vector<EqualRows> spans;
  for (size_t k = 0; k < order.size(); ++k) {
    const int64_t length = std::max<int64_t>(1, lengths[order[k]]);
    if (spans.empty() || spans.back().length != length) spans.push_back({k, k, length});
    spans.back().end = k + 1;
  }
  std::vector<RowGroup> groups;
  size_t first = 0;
  for (const size_t end : cheapest_ends(spans, runs)) {
    const int64_t length = spans[end - 1].length;
    const size_t begin = spans[first].begin, count = spans[end - 1].end - begin;
    const auto most = static_cast<size_t>(std::min<int64_t>(rows_of_run(length, runs), static_cast<int64_t>(count)));
    const size_t parts = (count - 1) / most + 1, each = (count - 1) / parts + 1;
    for (size_t at = 0; at < count; at += each) {
      RowGroup& group = groups.emplace_back();
      const auto from = order.begin() + static_cast<ptrdiff_t>(begin + at);
      group.rows.assign(from, from + static_cast<ptrdiff_t>(std::min(each, count - at)));
      group.length = std::max<int64_t>(1, lengths[group.rows.back()]);
    }
    first = end;
  }
  if (groups.size() == 1) std::sort(groups[0].rows.begin(), groups[0].rows.end());
  return groups;
}

Result<HostTensor> rows_of(const HostTensor& tokens, const RowGroup& group, bool padded_left) {
  const int64_t columns = tokens.shape[1];
  MLC_ASSIGN(HostTensor part, HostTensor::zeros(DType::I64, {static_cast<int64_t>(group.rows.size()), group.length}));
  const std::span<const int64_t> from = tokens.as<int64_t>();
  int64_t* to = part.as<int64_t>().data();
  for (const uint32_t row : group.rows) to = std::copy_n(from.data() + row * columns + (padded_left ? columns - group.length : 0), group.length, to);
  return part;
}

}  // namespace mlc::pipeline
