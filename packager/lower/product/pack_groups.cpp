// Codes of 8 bits, and bf16, into panels, groups of four bytes along k side by side: what a product of two values does before it begins.
//
// Columns that are contiguous come as vectors, one for each element of a group, and leave as words: element i of a group is the i-th from
// the lowest byte of a word, on every target. Rows that lie along k come as groups already. Columns beyond the last one stay what they
// were, their sums are written nowhere; behind the last element of a column are zeros, as many as the panels have room for.
#include "packager/lower/product/tiled_product.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

constexpr int64_t kSigns = 0x80;

class PackGroups {
 public:
  PackGroups(const Job& job, const TiledProduct& c, const Panels& panels, bool flip)
      : ctx_(job.ctx), c_(c), panels_(panels), flip_(flip), group_(static_cast<unsigned>(c.group)), type_(c.codes() ? c.b()->type.dtype : DType::U16), panel_ns_(job.processor().panel_ns), k_(job), s_(job.ctx, job.target, job.vector_bytes(), job.expand, k_.b) {
    const Expr* leaves[] = {ctx_.dim(c.n), ctx_.dim(c.k)};
    const auto strides = ir::linear_in(ctx_, c.b()->args[0], leaves);
    columns_side_by_side_ = strides && strides->coefficients[0]->is_int(1);
    groups_side_by_side_ = strides && !columns_side_by_side_ && strides->coefficients[1]->is_int(1);
  }

  Result<loop::Kernel> run(const loop::Param& source) {
    loop::Param words = panels_.workspace;
    words.written = true;
    if (!c_.codes()) words.dtype = type_;
    if (columns_side_by_side_) {
      words.dtype = DType::U32;
      words.elements = ctx_.floordiv(words.elements, ctx_.integer(group_));
    }
    k_.kernel.params = {source, words};
    k_.kernel.params[0].dtype = type_;
    k_.kernel.schedule = std::string("pack groups") + (columns_side_by_side_ ? " by columns" : groups_side_by_side_ ? " by groups" : "");
    std::vector<const Expr*> outer;
    for (const ir::Dim* d : panels_.outer) outer.push_back(d->extent);
    k_.over_tiles(outer, {{panels_.count}}, [&](const std::vector<const Expr*>& at, const std::vector<Range>& ranges) {
      s_.scoped([&] {
        for (size_t k = 0; k < at.size(); ++k) s_.bind(panels_.outer[k], at[k]);
        k_.b.with_for(ranges[0].begin, ranges[0].end, 1, [&](const Expr* panel) {
          s_.scoped([&] { taps(panel, 0); });
        });
      });
    });
    MLC_RETURN_IF_ERROR(s_.status());
    std::vector<const Expr*> extents = outer;
    for (const ir::Dim* d : c_.taps) extents.push_back(d->extent);
    extents.push_back(panels_.count);
    extents.push_back(panels_.groups);
    return k_.finish(k_.takes(panel_ns_, extents));
  }

 private:
  void taps(const Expr* panel, size_t level) {
    if (level == c_.taps.size()) return one_panel(panel);
    s_.with_for(c_.taps[level], ctx_.integer(0), c_.taps[level]->extent, 1, [&] { taps(panel, level + 1); });
  }

  void one_panel(const Expr* panel) {
    const Expr *size = ctx_.integer(nest::kPanel), *first = k_.b.let(ctx_.mul(panel, size));
    const Expr *all = s_.scalar(c_.n->extent), *end = k_.b.let(ctx_.min(all, ctx_.add(first, size)));
    const Expr* is_full = ctx_.binary(Op::Le, ctx_.add(first, size), all);
    const auto full = [&] { groups([&](const Expr* group, bool last) { whole_group(panel, first, group, last); }); };
    const auto partial = [&] { groups([&](const Expr* group, bool last) { some_columns(panel, first, end, group, last); }); };
    if (ir::divisor_of(c_.n->extent) % nest::kPanel == 0) full();
    else k_.b.with_if(is_full, full, partial);
    // Whole groups behind the last element, of all columns of the panel.
    const Expr* used = ctx_.ceildiv(s_.scalar(c_.k->extent), ctx_.integer(group_));
    const unsigned lanes = static_cast<unsigned>(nest::kPanel) * (columns_side_by_side_ ? 1 : group_);
    const Expr* zeros = loop::splat(ctx_, ctx_.number(0, k_.kernel.params[1].dtype), lanes);
    k_.b.with_for(used, s_.scalar(panels_.groups), 1, [&](const Expr* group) { s_.scoped([&] { k_.b.store(1, place_of(panel, ctx_.integer(0), group), zeros); }); });
  }

  // All groups of a column that have elements; the last one may have less than all.
  void groups(const std::function<void(const Expr* group, bool last)>& body) {
    const Expr *extent = s_.scalar(c_.k->extent), *size = ctx_.integer(group_);
    const Expr* whole = k_.b.let(ctx_.floordiv(extent, size));
    k_.b.with_for(ctx_.integer(0), whole, 1, [&](const Expr* group) { s_.scoped([&] { body(group, false); }); });
    if (ir::divisor_of(extent) % group_ == 0) return;
    k_.b.with_if(ctx_.binary(Op::Lt, ctx_.mul(whole, size), extent), [&] { s_.scoped([&] { body(whole, true); }); });
  }

  const Expr* depth_of(const Expr* group, unsigned i) { return ctx_.add(ctx_.mul(group, ctx_.integer(group_)), ctx_.integer(i)); }

  // The address of element `i` of a group; behind the last one that of the last one.
  const Expr* from(const Expr* column, const Expr* group, unsigned i, bool last) {
    const Expr* k = depth_of(group, i);
    if (last && i > 0) k = ctx_.min(k, ctx_.sub(s_.scalar(c_.k->extent), ctx_.integer(1)));
    const Expr* at = nullptr;
    s_.scoped([&] {
      s_.bind(c_.n, column);
      s_.bind(c_.k, k);
      at = s_.scalar(c_.b()->args[0]);
    });
    return at;
  }
  // Where the group of a column goes.
  const Expr* place_of(const Expr* panel, const Expr* lane, const Expr* group) {
    const Expr* at = s_.scalar(panels_.at(panel, lane, depth_of(group, 0)));
    return columns_side_by_side_ ? ctx_.floordiv(at, ctx_.integer(group_)) : at;
  }
  // Element `i` of a group in so many columns, or `count` of them in one; zeros behind the last one of the column.
  const Expr* elements(const Expr* column, const Expr* group, unsigned i, bool last, unsigned count) {
    const Expr* read = loop::vec_load(ctx_, 0, {type_, static_cast<uint16_t>(count)}, from(column, group, i, last));
    if (!last || i == 0) return read;
    const Expr* exists = ctx_.binary(Op::Lt, depth_of(group, i), s_.scalar(c_.k->extent));
    return loop::vec_select(ctx_, exists, read, loop::splat(ctx_, ctx_.number(0, type_), count));
  }

  void whole_group(const Expr* panel, const Expr* first, const Expr* group, bool last) {
    const Expr* place = place_of(panel, ctx_.integer(0), group);
    if (columns_side_by_side_) return k_.b.store(1, place, words(first, nest::kPanel, group, last));
    std::vector<const Expr*> parts;
    for (int64_t lane = 0; lane < nest::kPanel; ++lane) parts.push_back(group_of(ctx_.add(first, ctx_.integer(lane)), group, last));
    k_.b.store(1, place, as_stored(loop::widen(ctx_, std::move(parts))));
  }

  void some_columns(const Expr* panel, const Expr* first, const Expr* end, const Expr* group, bool last) {
    k_.b.with_for(first, end, 1, [&](const Expr* column) {
      const Expr* place = place_of(panel, ctx_.sub(column, first), group);
      k_.b.store(1, place, columns_side_by_side_ ? words(column, 1, group, last) : as_stored(group_of(column, group, last)));
    });
  }

  // The groups of so many columns, each as a word.
  const Expr* words(const Expr* column, unsigned count, const Expr* group, bool last) {
    const Expr* word = nullptr;
    for (unsigned i = 0; i < group_; ++i) {
      const Expr* element = elements(column, group, i, last, count);
      if (type_ == DType::I8) element = loop::vec_convert(ctx_, Op::Bitcast, DType::U8, element);
      const Expr* part = loop::vec_convert(ctx_, Op::Cast, DType::U32, element);
      if (i > 0) part = loop::vec_binary(ctx_, Op::Shl, part, ctx_.integer(32 / group_ * i, DType::U32));
      word = word ? loop::vec_binary(ctx_, Op::BitOr, word, part) : part;
    }
    return flip_ ? loop::vec_binary(ctx_, Op::BitXor, word, ctx_.integer(kSigns * 0x01010101, DType::U32)) : word;
  }

  const Expr* group_of(const Expr* column, const Expr* group, bool last) {
    if (groups_side_by_side_ && !last) return elements(column, group, 0, false, group_);
    std::vector<const Expr*> parts;
    for (unsigned i = 0; i < group_; ++i) parts.push_back(elements(column, group, i, last, 1));
    return loop::widen(ctx_, std::move(parts));
  }
  const Expr* as_stored(const Expr* elements) {
    if (type_ != DType::U8) return elements;
    if (flip_) elements = loop::vec_binary(ctx_, Op::BitXor, elements, ctx_.integer(kSigns, DType::U8));
    return loop::vec_convert(ctx_, Op::Bitcast, DType::I8, elements);
  }

  ir::Context& ctx_;
  const TiledProduct& c_;
  const Panels& panels_;
  const bool flip_;
  const unsigned group_;   // elements that are a word
  const DType type_;       // of an element, of bf16 its bits
  const double panel_ns_;  // of one group of sixteen columns
  Skeleton k_;
  Body s_;
  bool columns_side_by_side_ = false, groups_side_by_side_ = false;
};

}  // namespace

Result<loop::Kernel> pack_groups(const Job& job, const TiledProduct& c, const Panels& panels, const loop::Param& source, bool flip_sign) {
  return PackGroups(job, c, panels, flip_sign).run(source);
}

}  // namespace mlc::lower
