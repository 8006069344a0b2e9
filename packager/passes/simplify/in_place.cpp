// Arrays that a concatenation copies, though others read them as well, are the part of its result that they are copied to: statements write
// them there and read them there, and nothing is copied. (A concatenation that is their only reader was fused with their writer before.)
//
// A part is an array still, for all that reads it: another layout, whose addresses are those of the whole (nest/layout.h). The copy stays in
// the function, whose meaning does not change, and lowering leaves it out (nest::is_in_place).
//
// That is legal where both are stored alike but for their extents, all of the part is copied to one place of the whole, and nothing else is
// ever written there: no push (a scatter begins with a copy), no block of a proc, no fill below it. The memory of both lives as long as either.
#include <algorithm>

#include "packager/nest/copy.h"
#include "packager/passes/all.h"
#include "packager/passes/segments/cut.h"
#include "packager/passes/util.h"

namespace mlc::passes {
namespace {

using ir::Op;
using nest::Array;

constexpr int64_t kWideBytes = 64;  // of a vector

// What one statement copies of an array, per axis of it.
struct Copy {
  size_t statement = 0;
  uint32_t part = 0, whole = 0;
  std::vector<const Expr*> at;              // of the whole, where the array begins
  std::vector<std::pair<int64_t, int64_t>> range;  // from, to; {0, -1}: all there is
};

class InPlace {
 public:
  InPlace(ir::Context& ctx, nest::Function& f) : ctx_(ctx), f_(f), uses_(uses_of(f)) {}

  // Places what can be, and says what was: parts and the arrays that they are copied to.
  std::vector<std::pair<uint32_t, uint32_t>> run() {
    std::vector<std::pair<uint32_t, uint32_t>> placed;
    std::vector<Copy> copies;
    for (size_t s = 0; s < f_.body.size(); ++s)
      if (auto copy = copy_at(s)) copies.push_back(std::move(*copy));
    for (const Copy& first : copies) {
      if (f_.arrays[first.part].layout.is_part() || !fits(first)) continue;
      std::vector<const Copy*> all;
      for (const Copy& other : copies)
        if (other.part == first.part && other.whole == first.whole && other.at == first.at) all.push_back(&other);
      if (!is_all_copied(all) || !is_only_writer(all)) continue;
      place(first);
      placed.emplace_back(first.part, first.whole);
    }
    return placed;
  }

 private:
  bool is_alone(size_t s) const { return !f_.body[s].joins && (s + 1 == f_.body.size() || !f_.body[s + 1].joins); }

  // An element of one array at each point, from and to places that are a dim and a constant per axis.
  std::optional<Copy> copy_at(size_t s) const {
    const nest::Nest* nest = f_.body[s].nest.get();
    if (!nest || nest->where || nest->scan_dim || nest->writes.size() != 1 || nest->writes[0].push || !is_alone(s)) return std::nullopt;
    const nest::Write& write = nest->writes[0];
    const Expr* load = write.value;
    if (load->op != Op::Load || load->access == ir::Access::Checked || load->args.size() != write.index.size() || load->array == write.array) return std::nullopt;
    Copy copy{s, load->array, write.array, {}, {}};
    std::set<const ir::Dim*> used;
    for (size_t k = 0; k < load->args.size(); ++k) {
      const auto range = range_of(load->args[k], f_.arrays[load->array].shape[k], used);
      if (!range) return std::nullopt;
      copy.range.push_back(*range);
      const Expr* at = ctx_.sub(write.index[k], load->args[k]);
      bool moves = false;
      ir::walk(at, [&](const Expr* e) { moves |= e->op == Op::Dim; });
      if (moves) return std::nullopt;
      copy.at.push_back(at);
    }
    return copy;
  }

  // What an index goes through; a dim is on one axis.
  std::optional<std::pair<int64_t, int64_t>> range_of(const Expr* index, const Expr* extent, std::set<const ir::Dim*>& used) const {
    constexpr std::pair<int64_t, int64_t> kAll{0, -1};
    if (index->is_const()) return extent->is_int(1) ? std::optional(kAll) : std::nullopt;
    if (index->op == Op::Dim && index->dim->extent == extent) return used.insert(index->dim).second ? std::optional(kAll) : std::nullopt;
    const ir::Dim* dim = nullptr;
    ir::walk(index, [&](const Expr* e) {
      if (e->op == Op::Dim) dim = e->dim;
    });
    if (!dim || !dim->extent->is_const() || !used.insert(dim).second) return std::nullopt;
    const Expr* first = ctx_.sub(index, ctx_.dim(dim));
    return first->is_const() ? std::optional(std::pair(first->i, first->i + dim->extent->i)) : std::nullopt;
  }

  // Whether the array may lie where it is copied to.
  bool fits(const Copy& c) const {
    const Array &part = f_.arrays[c.part], &whole = f_.arrays[c.whole];
    if (part.kind != Array::Kind::Temp || whole.kind != Array::Kind::Temp || part.list_depth || whole.list_depth || part.dtype != whole.dtype) return false;
    if (uses_.output[c.part] || uses_.output[c.whole] || bits_of(part.dtype) % 8 != 0) return false;
    const auto order = [](const Array& a) { return a.layout.pieces.empty() ? nest::row_major(static_cast<unsigned>(a.shape.size())).pieces : a.layout.pieces; };
    if (order(part) != order(whole) || std::any_of(whole.layout.pieces.begin(), whole.layout.pieces.end(), [](const nest::Piece& p) { return p.extent != 0; })) return false;
    return is_as_aligned(c, order(part).back().axis) && has_plain_users(c);
  }

  // Rows of the whole, and those of the part in them, begin where vectors do, as far as those of the part alone did.
  bool is_as_aligned(const Copy& c, size_t innermost) const {
    const Array &part = f_.arrays[c.part], &whole = f_.arrays[c.whole];
    const int64_t wide = kWideBytes / static_cast<int64_t>(bytes_of(part.dtype)), own = ir::divisor_of(part.shape[innermost]);
    int64_t unit = 1;
    while (unit < wide && own % (2 * unit) == 0) unit *= 2;
    return ir::divisor_of(whole.shape[innermost]) % unit == 0 && (c.at[innermost]->is_int(0) || ir::divisor_of(c.at[innermost]) % unit == 0);
  }

  // Nests alone, of one part of the function, and none that has the array in a launch with what reads it: arrays of groups are laid out by rows.
  bool has_plain_users(const Copy& c) const {
    const uint32_t number = f_.body[c.statement].part;
    const auto in_part = [&](size_t s) { return f_.body[s].part == number; };
    for (const uint32_t array : {c.part, c.whole}) {
      const auto& writers = uses_.writers[array];
      const auto& readers = uses_.readers[array];
      if (writers.empty() || !std::all_of(writers.begin(), writers.end(), in_part) || !std::all_of(readers.begin(), readers.end(), in_part)) return false;
    }
    for (const size_t s : uses_.readers[c.part]) {
      const nest::Statement& reader = f_.body[s];
      if (!reader.nest) return false;
      bool checked = false;
      nest::for_loads(reader, [&](const Expr* e) { checked |= e->array == c.part && e->access == ir::Access::Checked; });
      if (checked) return false;
    }
    for (const size_t s : uses_.writers[c.part]) {
      const nest::Statement& writer = f_.body[s];
      if (!writer.nest || writer.nest->scan_dim || writer.joins || !is_alone(s)) return false;
      if (std::any_of(writer.nest->writes.begin(), writer.nest->writes.end(), [&](const nest::Write& w) { return w.array == c.part && w.push; })) return false;
    }
    return true;
  }

  // Together all of the array; they differ along one axis at most.
  bool is_all_copied(const std::vector<const Copy*>& copies) const {
    const Array& part = f_.arrays[copies[0]->part];
    std::vector<std::pair<int64_t, int64_t>> ranges;
    std::optional<size_t> axis;
    for (const Copy* c : copies) {
      bool whole = true;
      for (size_t k = 0; k < c->range.size(); ++k) {
        if (c->range[k].second < 0) continue;
        if (axis.value_or(k) != k) return false;
        axis = k, whole = false;
        ranges.push_back(c->range[k]);
      }
      if (whole) return true;
    }
    std::sort(ranges.begin(), ranges.end());
    int64_t end = 0;
    for (const auto& [from, to] : ranges) {
      if (from > end) return false;
      end = std::max(end, to);
    }
    return part.shape[*axis]->is_int(end);
  }

  // Whether whatever else is written to the whole lies beside the part, along some axis.
  bool is_only_writer(const std::vector<const Copy*>& copies) const {
    const Copy& c = *copies[0];
    const Array& part = f_.arrays[c.part];
    const auto is_beside = [&](const nest::Write& w) {
      for (size_t k = 0; k < c.at.size(); ++k) {
        const Expr* from_begin = ctx_.sub(w.index[k], c.at[k]);
        if (ir::interval_of(from_begin).hi < 0 || ir::interval_of(ctx_.sub(from_begin, part.shape[k])).lo >= 0) return true;
      }
      return false;
    };
    for (const size_t s : uses_.writers[c.whole]) {
      if (std::any_of(copies.begin(), copies.end(), [&](const Copy* own) { return own->statement == s; })) continue;
      const nest::Nest* nest = f_.body[s].nest.get();
      if (!nest || nest->scan_dim) return false;
      for (const nest::Write& w : nest->writes)
        if (w.array == c.whole && (w.push || !is_beside(w))) return false;
    }
    return true;
  }

  void place(const Copy& c) {
    const Array& whole = f_.arrays[c.whole];
    const bool is_part = whole.layout.is_part();
    const uint32_t root = is_part ? whole.whole : c.whole;
    const std::vector<const Expr*> shape = is_part ? whole.layout.within : whole.shape;
    std::vector<const Expr*> at = c.at;
    for (size_t k = 0; is_part && k < at.size(); ++k) at[k] = ctx_.add(at[k], whole.layout.at[k]);
    for (Array& other : f_.arrays) {  // its own parts
      if (!other.layout.is_part() || other.whole != c.part) continue;
      other.whole = root, other.layout.within = shape;
      for (size_t k = 0; k < at.size(); ++k) other.layout.at[k] = ctx_.add(other.layout.at[k], at[k]);
    }
    Array& part = f_.arrays[c.part];
    if (part.layout.pieces.empty()) part.layout = nest::row_major(static_cast<unsigned>(part.shape.size()));
    part.whole = root, part.layout.within = shape, part.layout.at = std::move(at);
  }

  ir::Context& ctx_;
  nest::Function& f_;
  const Uses uses_;
};

}  // namespace

Status in_place(ir::Context& ctx, nest::Function& f) {
  (void)InPlace(ctx, f).run();
  return ok();
}

std::vector<std::pair<uint32_t, uint32_t>> copies_in_place(ir::Context& ctx, const nest::Function& f) {
  nest::Function tried = nest::copy_of(f);
  return InPlace(ctx, tried).run();
}

}  // namespace mlc::passes
