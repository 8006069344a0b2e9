#include "packager/plan/parts.h"

#include <algorithm>
#include <optional>

#include "packager/nest/group.h"
#include "packager/nest/uses.h"

namespace mlc::plan {
namespace {

using ir::Expr;
using ir::Op;

constexpr int64_t kAlignment = 64;

// Elements begin .. begin + count of an array, in the order of their addresses.
struct Block {
  const Expr *begin = nullptr, *count = nullptr;
  std::vector<const Expr*> steps;  // per dim of the nest
};

class Finder {
 public:
  Finder(ir::Context& ctx, const nest::Function& f) : ctx_(ctx), f_(f), touched_(f.body.size()) { found_.is_done.resize(f.body.size()); }

  Parts run() {
    for (size_t k = 0; k < f_.body.size();) {  // what is launched together is touched together
      const size_t count = std::max<size_t>(1, nest::marked_group(f_, k));
      std::vector<uint32_t> all;
      for (size_t s = k; s < k + count; ++s)
        for (const std::vector<uint32_t>& some : {nest::read(f_.body[s]), nest::written(f_.body[s])}) all.insert(all.end(), some.begin(), some.end());
      for (size_t s = k; s < k + count; ++s) touched_[s] = {all, count == 1};
      k += count;
    }
    for (size_t k = 0; k < f_.outputs.size(); ++k)
      if (std::find(f_.outputs.begin(), f_.outputs.begin() + static_cast<ptrdiff_t>(k), f_.outputs[k]) == f_.outputs.begin() + static_cast<ptrdiff_t>(k))
        look_at(f_.outputs[k], {f_.outputs[k]}, ctx_.integer(0));
    return std::move(found_);
  }

 private:
  struct Touched {
    std::vector<uint32_t> arrays;
    bool is_alone = true;  // the statement is no part of a group
  };
  struct Writer {
    size_t statement = 0;
    Block block;
  };

  bool is_zero(const Expr* e) { return e->is_int(0); }
  bool equal(const Expr* a, const Expr* b) { return a == b || is_zero(ctx_.sub(a, b)); }

  // The elements that `index` of an array are, over all points of the dims; none: they are no neighbours, or some are there twice.
  std::optional<Block> block_of(uint32_t array, const std::vector<const Expr*>& index, const std::vector<const ir::Dim*>& dims) {
    const Expr* address = nest::address(ctx_, f_.arrays[array].layout, f_.arrays[array].shape, index);
    std::vector<const Expr*> leaves;
    for (const ir::Dim* d : dims) leaves.push_back(ctx_.dim(d));
    const auto linear = ir::linear_in(ctx_, address, leaves);
    if (!linear || !ir::is_extent(linear->rest)) return std::nullopt;
    Block block{linear->rest, ctx_.integer(1), linear->coefficients};
    std::vector<bool> used(dims.size());
    for (size_t round = 0; round < dims.size(); ++round) {
      size_t next = 0;
      while (next < dims.size() && (used[next] || !(dims[next]->extent->is_int(1) || equal(block.steps[next], block.count)))) ++next;
      if (next == dims.size()) return std::nullopt;
      used[next] = true;
      block.count = ctx_.mul(block.count, dims[next]->extent);
    }
    return block;
  }

  std::optional<std::vector<Writer>> writers_of(uint32_t output) {
    std::vector<Writer> writers;
    for (size_t s = 0; s < f_.body.size(); ++s) {
      const std::vector<uint32_t> written = nest::written(f_.body[s]);
      if (std::find(written.begin(), written.end(), output) == written.end()) continue;
      const nest::Nest* nest = f_.body[s].nest.get();
      if (!nest || nest->writes.size() != 1 || nest->writes[0].push || nest->where || nest->scan_dim) return std::nullopt;
      auto block = block_of(output, nest->writes[0].index, nest->dims);
      if (!block) return std::nullopt;
      writers.push_back({s, std::move(*block)});
    }
    return writers;
  }

  // Each begins where another one ends, the first at the start, the last at the end.
  bool cover_once(std::vector<Writer> writers, const Expr* all) {
    const Expr* at = ctx_.integer(0);
    while (!writers.empty()) {
      const auto next = std::find_if(writers.begin(), writers.end(), [&](const Writer& w) { return equal(w.block.begin, at); });
      if (next == writers.end()) return false;
      at = ctx_.add(at, next->block.count);
      writers.erase(next);
    }
    return equal(at, all);
  }

  // An array whose memory is that of `around`, the output first, from a byte of that on. What is copied into a part is a part.
  void look_at(uint32_t whole, std::vector<uint32_t> around, const Expr* begin) {
    const nest::Array& array = f_.arrays[whole];
    if (array.kind != nest::Array::Kind::Temp || array.list_depth > 0) return;
    const auto writers = writers_of(whole);
    if (!writers || !cover_once(*writers, nest::stored_elements(ctx_, array.layout, array.shape))) return;
    for (const Writer& writer : *writers) {
      const auto source = copied_by(writer, array.dtype);
      const Expr* offset = ctx_.add(begin, ctx_.mul(writer.block.begin, ctx_.integer(bytes_of(array.dtype))));
      if (!source || (!is_zero(offset) && ir::divisor_of(offset) % kAlignment != 0)) continue;
      if (std::any_of(around.begin(), around.end(), [&](uint32_t other) { return meet_elsewhere(*source, other, writer.statement); })) continue;
      found_.parts.push_back({*source, around.front(), offset});
      found_.is_done[writer.statement] = true;
      std::vector<uint32_t> inside = around;
      inside.push_back(*source);
      look_at(*source, std::move(inside), offset);
    }
  }

  // The array that this statement copies, all of it in order.
  std::optional<uint32_t> copied_by(const Writer& writer, DType dtype) {
    const nest::Nest& nest = *f_.body[writer.statement].nest;
    const Expr* value = nest.writes[0].value;
    if (!touched_[writer.statement].is_alone || value->op != Op::Load) return std::nullopt;
    const uint32_t source = value->array;
    const nest::Array& array = f_.arrays[source];
    if (array.kind != nest::Array::Kind::Temp || array.list_depth > 0 || array.dtype != dtype || value->type.dtype != dtype) return std::nullopt;
    if (std::find(f_.outputs.begin(), f_.outputs.end(), source) != f_.outputs.end()) return std::nullopt;
    for (const Parts::Part& part : found_.parts)
      if (part.array == source) return std::nullopt;
    const auto block = block_of(source, {value->args.begin(), value->args.end()}, nest.dims);
    if (!block || !is_zero(block->begin) || !equal(block->count, nest::stored_elements(ctx_, array.layout, array.shape))) return std::nullopt;
    for (size_t k = 0; k < nest.dims.size(); ++k)
      if (!nest.dims[k]->extent->is_int(1) && !equal(block->steps[k], writer.block.steps[k])) return std::nullopt;
    return source;
  }

  // Whether something else has both among its operands: they would be two names of one memory.
  bool meet_elsewhere(uint32_t a, uint32_t b, size_t statement) const {
    for (size_t s = 0; s < f_.body.size(); ++s) {
      const std::vector<uint32_t>& arrays = touched_[s].arrays;
      const auto has = [&](uint32_t x) { return std::find(arrays.begin(), arrays.end(), x) != arrays.end(); };
      if (s != statement && has(a) && has(b)) return true;
    }
    return false;
  }

  ir::Context& ctx_;
  const nest::Function& f_;
  std::vector<Touched> touched_;
  Parts found_;
};

}  // namespace

Parts parts_of_outputs(ir::Context& ctx, const nest::Function& f) { return Finder(ctx, f).run(); }

}  // namespace mlc::plan
