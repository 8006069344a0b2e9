#include "packager/nest/facts/group.h"

#include <algorithm>
#include <map>

#include "packager/nest/facts/uses.h"

namespace mlc::nest {

using ir::Dim;
using ir::Expr;
using ir::Op;

Lifetimes::Lifetimes(const Function& f) : spans_(f.arrays.size()) {
  for (size_t i = 0; i < f.arrays.size(); ++i) spans_[i].kept = f.arrays[i].kind != Array::Kind::Temp;
  for (uint32_t output : f.outputs) spans_[output].kept = true;
  for (size_t s = 0; s < f.body.size(); ++s) {
    const auto touch = [&](uint32_t array) {
      spans_[array].first = std::min(spans_[array].first, s);
      spans_[array].last = std::max(spans_[array].last, s);
    };
    for (uint32_t array : read(f.body[s])) touch(array);
    for (uint32_t array : written(f.body[s])) touch(array), ++spans_[array].writers;
  }
}

bool Lifetimes::is_private(uint32_t array, size_t first, size_t count) const {
  const Span& span = spans_[array];
  return !span.kept && span.first >= first && span.last < first + count;
}

size_t marked_group(const Function& f, size_t first) {
  if (f.body[first].joins) return 1;
  size_t end = first + 1;
  while (end < f.body.size() && f.body[end].joins) ++end;
  return end - first;
}

namespace {

// What one nest of the group writes and others read.
struct Shared {
  uint32_t array = 0;
  size_t writer = 0;
  std::vector<const Expr*> written;                       // index
  std::map<size_t, std::vector<const Expr*>> read;        // by nest: index, null where its loads differ
};

class Finder {
 public:
  Finder(const Function& f, const Lifetimes& lifetimes, size_t first, size_t count) : f_(f), lifetimes_(lifetimes), first_(first), count_(count) {}

  std::optional<Group> run() {
    for (size_t k = 0; k < count_; ++k) {
      const Statement& s = f_.body[first_ + k];
      if (!s.nest || s.nest->where || s.nest->scan_dim) return std::nullopt;
      for (const Write& w : s.nest->writes)
        if (w.push) return std::nullopt;
      group_.nests.push_back(s.nest.get());
    }
    if (!find_shared() || shared_.empty()) return std::nullopt;
    find_rows();
    if (group_.rows.empty()) return std::nullopt;
    for (const Shared& s : shared_) {
      if (!lifetimes_.is_private(s.array, first_, count_)) continue;
      Group::Local local{s.array, {}, s.writer, s.read.rbegin()->first};
      for (const Group::Row& row : group_.rows) local.axes.push_back(*axis_of(s, row));
      group_.locals.push_back(std::move(local));
    }
    return std::move(group_);
  }

 private:
  bool find_shared() {
    std::map<uint32_t, size_t> place;  // of an array in shared_
    std::vector<Shared> all;
    for (size_t k = 0; k < count_; ++k)
      for (const Write& w : group_.nests[k]->writes) {
        if (!place.emplace(w.array, all.size()).second) return false;
        all.push_back({w.array, k, w.index, {}});
      }
    bool in_order = true;
    for (size_t k = 0; k < count_; ++k)
      for_loads(f_.body[first_ + k], [&](const Expr* load) {
        const auto found = place.find(load->array);
        if (found == place.end()) return;
        Shared& s = all[found->second];
        in_order &= s.writer < k && lifetimes_.has_one_writer(s.array);
        auto [index, is_new] = s.read.try_emplace(k, load->args.begin(), load->args.end());
        if (is_new) return;
        for (size_t axis = 0; axis < load->args.size(); ++axis)
          if (index->second[axis] != load->args[axis]) index->second[axis] = nullptr;
      });
    for (Shared& s : all)
      if (!s.read.empty()) shared_.push_back(std::move(s));
    return in_order;
  }

  const Dim* map_dim(size_t nest, const Expr* index) const {
    if (!index || index->op != Op::Dim) return nullptr;
    const auto& dims = group_.nests[nest]->dims;
    return std::find(dims.begin(), dims.end(), index->dim) == dims.end() ? nullptr : index->dim;
  }

  // The axis of a shared array along which everybody is at the row.
  std::optional<size_t> axis_of(const Shared& s, const Group::Row& row) const {
    for (size_t axis = 0; axis < s.written.size(); ++axis) {
      bool all = map_dim(s.writer, s.written[axis]) == row.dims[s.writer] && row.dims[s.writer];
      for (const auto& [nest, index] : s.read) all = all && map_dim(nest, index[axis]) == row.dims[nest] && row.dims[nest];
      if (all) return axis;
    }
    return std::nullopt;
  }

  // From every axis of the first shared array, as far as it leads.
  void find_rows() {
    for (size_t axis = 0; axis < shared_[0].written.size(); ++axis) {
      const Dim* start = map_dim(shared_[0].writer, shared_[0].written[axis]);
      if (!start) continue;
      Group::Row row{std::vector<const Dim*>(count_)};
      row.dims[shared_[0].writer] = start;
      if (spread(row) && std::all_of(shared_.begin(), shared_.end(), [&](const Shared& s) { return axis_of(s, row).has_value(); }))
        group_.rows.push_back(std::move(row));
    }
    leave_lanes();
  }

  // Where the layout is another than that of the shape (channels behind the picture), the axis along which elements are contiguous
  // stands among the others: points of it are the lanes of each row, and no rows.
  void leave_lanes() {
    const Layout& layout = f_.arrays[shared_[0].array].layout;
    if (layout.pieces.empty() || layout.is_row_major() || group_.rows.size() < 2) return;
    const Dim* lanes = map_dim(shared_[0].writer, shared_[0].written[static_cast<size_t>(layout.pieces.back().axis)]);
    std::erase_if(group_.rows, [&](const Group::Row& row) { return row.dims[shared_[0].writer] == lanes; });
  }

  // Gives each nest its dim of the row; false where one has none, or two.
  bool spread(Group::Row& row) const {
    for (bool again = true; again;) {
      again = false;
      for (const Shared& s : shared_)
        for (const auto& [nest, index] : s.read)
          for (size_t axis = 0; axis < index.size(); ++axis) {
            const Dim *from = map_dim(s.writer, s.written[axis]), *to = map_dim(nest, index[axis]);
            if (!from || !to || from->extent != to->extent) continue;
            const Dim *&a = row.dims[s.writer], *&b = row.dims[nest];
            if (a == from && !b) b = to, again = true;
            else if (b == to && !a) a = from, again = true;
          }
    }
    return std::all_of(row.dims.begin(), row.dims.end(), [](const Dim* d) { return d != nullptr; });
  }

  const Function& f_;
  const Lifetimes& lifetimes_;
  const size_t first_, count_;
  std::vector<Shared> shared_;
  Group group_;
};

}  // namespace

std::optional<Group> group_of(const Function& f, const Lifetimes& lifetimes, size_t first, size_t count) {
  return Finder(f, lifetimes, first, count).run();
}

}  // namespace mlc::nest
