// Codes of 8 bits into panels, groups of four along k side by side: what a product of two values does before it begins.
//
// Columns that are contiguous come as vectors, one for each code of a group, and leave as words: code i of a group is byte i
// of a word, on every target. Rows that lie along k come as groups already. Columns beyond the last one stay what they were,
// their sums are written nowhere; codes beyond the last one of a column are of the last one: they meet zeros of the other factor.
#include "packager/lower/product/tiled_product.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

constexpr int64_t kSigns = 0x80;

class PackCodes {
 public:
  PackCodes(const Job& job, const TiledProduct& c, const Panels& panels, bool flip)
      : ctx_(job.ctx), c_(c), panels_(panels), flip_(flip), panel_ns_(job.processor().panel_ns), k_(job), s_(job.ctx, job.target, job.vector_bytes(), job.expand, k_.b) {
    const Expr* leaves[] = {ctx_.dim(c.n), ctx_.dim(c.k)};
    const auto strides = ir::linear_in(ctx_, c.b()->args[0], leaves);
    columns_side_by_side_ = strides && strides->coefficients[0]->is_int(1);
    groups_side_by_side_ = strides && !columns_side_by_side_ && strides->coefficients[1]->is_int(1);
  }

  Result<loop::Kernel> run(const loop::Param& source) {
    loop::Param words = panels_.workspace;
    words.written = true;
    if (columns_side_by_side_) {
      words.dtype = DType::U32;
      words.elements = ctx_.floordiv(words.elements, ctx_.integer(nest::kGroup));
    }
    k_.kernel.params = {source, words};
    k_.kernel.schedule = std::string("pack codes") + (columns_side_by_side_ ? " by columns" : groups_side_by_side_ ? " by groups" : "");
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
    if (ir::divisor_of(c_.n->extent) % nest::kPanel == 0) return full();
    k_.b.with_if(is_full, full, partial);
  }

  // All groups of a column; the last one may have less than four codes.
  void groups(const std::function<void(const Expr* group, bool last)>& body) {
    const Expr *extent = s_.scalar(c_.k->extent), *size = ctx_.integer(nest::kGroup);
    const Expr* whole = k_.b.let(ctx_.floordiv(extent, size));
    k_.b.with_for(ctx_.integer(0), whole, 1, [&](const Expr* group) { s_.scoped([&] { body(group, false); }); });
    if (ir::divisor_of(extent) % nest::kGroup == 0) return;
    k_.b.with_if(ctx_.binary(Op::Lt, ctx_.mul(whole, size), extent), [&] { s_.scoped([&] { body(whole, true); }); });
  }

  // The address of code `i` of a group.
  const Expr* from(const Expr* column, const Expr* group, unsigned i, bool last) {
    const Expr* k = ctx_.add(ctx_.mul(group, ctx_.integer(nest::kGroup)), ctx_.integer(i));
    if (last && i > 0) k = ctx_.min(k, ctx_.sub(s_.scalar(c_.k->extent), ctx_.integer(1)));
    const Expr* at = nullptr;
    s_.scoped([&] {
      s_.bind(c_.n, column);
      s_.bind(c_.k, k);
      at = s_.scalar(c_.b()->args[0]);
    });
    return at;
  }
  // Where the group of a column goes, in bytes.
  const Expr* to(const Expr* panel, const Expr* lane, const Expr* group) {
    return s_.scalar(panels_.at(panel, lane, ctx_.mul(group, ctx_.integer(nest::kGroup))));
  }
  const Expr* codes(const Expr* at, unsigned count) { return loop::vec_load(ctx_, 0, {c_.b()->type.dtype, static_cast<uint16_t>(count)}, at); }

  void whole_group(const Expr* panel, const Expr* first, const Expr* group, bool last) {
    const Expr* place = to(panel, ctx_.integer(0), group);
    if (columns_side_by_side_) return k_.b.store(1, ctx_.floordiv(place, ctx_.integer(nest::kGroup)), words(first, nest::kPanel, group, last));
    std::vector<const Expr*> parts;
    for (int64_t lane = 0; lane < nest::kPanel; ++lane) parts.push_back(group_of(ctx_.add(first, ctx_.integer(lane)), group, last));
    k_.b.store(1, place, signed_codes(loop::widen(ctx_, std::move(parts))));
  }

  void some_columns(const Expr* panel, const Expr* first, const Expr* end, const Expr* group, bool last) {
    k_.b.with_for(first, end, 1, [&](const Expr* column) {
      const Expr* place = to(panel, ctx_.sub(column, first), group);
      if (columns_side_by_side_) return k_.b.store(1, ctx_.floordiv(place, ctx_.integer(nest::kGroup)), words(column, 1, group, last));
      k_.b.store(1, place, signed_codes(group_of(column, group, last)));
    });
  }

  // The groups of so many columns, each as a word.
  const Expr* words(const Expr* column, unsigned count, const Expr* group, bool last) {
    const Expr* word = nullptr;
    for (unsigned i = 0; i < nest::kGroup; ++i) {
      const Expr* code = codes(from(column, group, i, last), count);
      if (code->type.dtype == DType::I8) code = loop::vec_convert(ctx_, Op::Bitcast, DType::U8, code);
      const Expr* byte = loop::vec_convert(ctx_, Op::Cast, DType::U32, code);
      if (i > 0) byte = loop::vec_binary(ctx_, Op::Shl, byte, ctx_.integer(8 * i, DType::U32));
      word = word ? loop::vec_binary(ctx_, Op::BitOr, word, byte) : byte;
    }
    return flip_ ? loop::vec_binary(ctx_, Op::BitXor, word, ctx_.integer(kSigns * 0x01010101, DType::U32)) : word;
  }

  const Expr* group_of(const Expr* column, const Expr* group, bool last) {
    if (groups_side_by_side_ && !last) return codes(from(column, group, 0, false), nest::kGroup);
    std::vector<const Expr*> parts;
    for (unsigned i = 0; i < nest::kGroup; ++i) parts.push_back(codes(from(column, group, i, last), 1));
    return loop::widen(ctx_, std::move(parts));
  }
  const Expr* signed_codes(const Expr* codes) {
    if (codes->type.dtype == DType::I8) return codes;
    if (flip_) codes = loop::vec_binary(ctx_, Op::BitXor, codes, ctx_.integer(kSigns, DType::U8));
    return loop::vec_convert(ctx_, Op::Bitcast, DType::I8, codes);
  }

  ir::Context& ctx_;
  const TiledProduct& c_;
  const Panels& panels_;
  const bool flip_;
  const double panel_ns_;  // of one group of sixteen columns
  Skeleton k_;
  Body s_;
  bool columns_side_by_side_ = false, groups_side_by_side_ = false;
};

}  // namespace

Result<loop::Kernel> pack_codes(const Job& job, const TiledProduct& c, const Panels& panels, const loop::Param& source, bool flip_sign) {
  return PackCodes(job, c, panels, flip_sign).run(source);
}

}  // namespace mlc::lower
