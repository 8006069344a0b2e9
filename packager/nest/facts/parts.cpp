#include "packager/nest/facts/parts.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "packager/nest/facts/group.h"
#include "packager/nest/facts/uses.h"

namespace mlc::nest {
namespace {

using ir::Expr;
using ir::Op;

// Elements begin .. begin + count of an array, in the order of their addresses.
struct Block {
  const Expr *begin = nullptr, *count = nullptr;
  std::vector<const Expr*> steps;  // per dim of the nest
};

class Finder {
 public:
  Finder(ir::Context& ctx, const Function& f, int64_t alignment) : ctx_(ctx), f_(f), alignment_(alignment), is_alone_(f.body.size()) { found_.is_done.resize(f.body.size()); }

  Parts run() {
    for (size_t k = 0; k < f_.body.size();) {  // what is launched together is touched together
      const size_t count = std::max<size_t>(1, marked_group(f_, k));
      for (size_t s = k; s < k + count; ++s) {
        is_alone_[s] = count == 1;
        for (const uint32_t array : written(f_.body[s])) add(writers_[array], s);
        for (const std::vector<uint32_t>& some : {read(f_.body[s]), written(f_.body[s])})
          for (const uint32_t array : some) add(touching_[array], k);
      }
      k += count;
    }
    for (const uint32_t output : ports())
      if (roots_.insert(output).second) look_at(output);
    return std::move(found_);
  }

 private:
  // Outputs that are no states.
  std::vector<uint32_t> ports() const {
    std::vector<uint32_t> arrays;
    for (size_t k = 0; k < f_.outputs.size(); ++k)
      if (std::none_of(f_.states.begin(), f_.states.end(), [&](const Function::State& s) { return s.output == k; })) arrays.push_back(f_.outputs[k]);
    return arrays;
  }

  // Statements in ascending order, each once.
  static void add(std::vector<size_t>& statements, size_t s) {
    if (statements.empty() || statements.back() != s) statements.push_back(s);
  }

  struct Writer {
    size_t statement = 0, write = 0;
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
    for (const size_t s : writers_[output]) {
      const Nest* nest = f_.body[s].nest.get();
      if (!nest || nest->where || nest->scan_dim) return std::nullopt;
      for (size_t w = 0; w < nest->writes.size(); ++w) {
        if (nest->writes[w].array != output) continue;
        auto block = nest->writes[w].push ? std::nullopt : block_of(output, nest->writes[w].index, nest->dims);
        if (!block) return std::nullopt;
        writers.push_back({s, w, std::move(*block)});
      }
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

  // An output, or a part of what is open before it.
  struct Whole {
    uint32_t array = 0;
    const Expr* begin = nullptr;  // bytes of the output before it
    std::vector<Writer> writers;
    size_t next = 0;              // of the writers
  };

  std::vector<Writer> writers_that_cover(uint32_t whole) {
    const Array& array = f_.arrays[whole];
    if (array.kind != Array::Kind::Temp || array.list_depth > 0) return {};
    auto writers = writers_of(whole);
    if (!writers || !cover_once(*writers, stored_elements(ctx_, array.layout, array.shape))) return {};
    return std::move(*writers);
  }

  // What is copied into a part is a part. Parts in parts may be as deep as the model is long.
  void look_at(uint32_t output) {
    std::vector<Whole> open{{output, ctx_.integer(0), writers_that_cover(output), 0}};
    while (!open.empty()) {
      Whole& whole = open.back();
      if (whole.next == whole.writers.size()) {
        open.pop_back();
        continue;
      }
      const Writer& writer = whole.writers[whole.next++];
      const DType dtype = f_.arrays[whole.array].dtype;
      const auto source = copied_by(writer, dtype);
      const Expr* offset = ctx_.add(whole.begin, ctx_.mul(writer.block.begin, ctx_.integer(bytes_of(dtype))));
      if (!source || (!is_zero(offset) && ir::divisor_of(offset) % alignment_ != 0)) continue;
      const auto meets = [&](const Whole& other) { return meet_elsewhere(*source, other.array, writer.statement); };
      if (std::any_of(open.begin(), open.end(), meets)) continue;
      found_.parts.push_back({*source, output, offset});
      found_.is_done[writer.statement] = true;
      is_part_.insert(*source);
      open.push_back({*source, offset, writers_that_cover(*source), 0});
    }
  }

  // The array that this statement copies, all of it in order, and nothing else.
  std::optional<uint32_t> copied_by(const Writer& writer, DType dtype) {
    const Nest& nest = *f_.body[writer.statement].nest;
    const Expr* value = nest.writes[writer.write].value;
    if (!is_alone_[writer.statement] || nest.writes.size() != 1 || value->op != Op::Load) return std::nullopt;
    const uint32_t source = value->array;
    const Array& array = f_.arrays[source];
    if (array.kind != Array::Kind::Temp || array.list_depth > 0 || array.dtype != dtype || value->type.dtype != dtype) return std::nullopt;
    if (outputs_.contains(source) || is_part_.contains(source)) return std::nullopt;
    const auto block = block_of(source, {value->args.begin(), value->args.end()}, nest.dims);
    if (!block || !is_zero(block->begin) || !equal(block->count, stored_elements(ctx_, array.layout, array.shape))) return std::nullopt;
    for (size_t k = 0; k < nest.dims.size(); ++k)
      if (!nest.dims[k]->extent->is_int(1) && !equal(block->steps[k], writer.block.steps[k])) return std::nullopt;
    return source;
  }

  // Whether something else has both among its operands: they would be two names of one memory. `statement` is no part of a group.
  bool meet_elsewhere(uint32_t a, uint32_t b, size_t statement) {
    const std::vector<size_t> &of_a = touching_[a], &of_b = touching_[b];
    for (size_t i = 0, j = 0; i < of_a.size() && j < of_b.size();) {
      if (of_a[i] == of_b[j] && of_a[i] != statement) return true;
      of_a[i] < of_b[j] ? ++i : ++j;
    }
    return false;
  }

  ir::Context& ctx_;
  const Function& f_;
  const int64_t alignment_;
  const std::unordered_set<uint32_t> outputs_{f_.outputs.begin(), f_.outputs.end()};
  std::unordered_set<uint32_t> roots_, is_part_;
  std::unordered_map<uint32_t, std::vector<size_t>> writers_, touching_;  // by array: statements; of a group its first
  std::vector<bool> is_alone_;                                           // the statement is no part of a group
  Parts found_;
};

}  // namespace

Parts parts_of_outputs(ir::Context& ctx, const Function& f, int64_t alignment) { return Finder(ctx, f, alignment).run(); }

}  // namespace mlc::nest
