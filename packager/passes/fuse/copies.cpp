// Devices: what is small and stands one behind the other is one launch. A concatenation is a statement for each of its parts, which costs a device
// a launch each:
//
//   beside     y[a, n, b] = p[a, n, b] for n < N;  y[a, N + m, b] = q[a, m, b] for m < M
//              become  y[a, n, b] = n < N ? p[a, n, b] : q[a, n - N, b] for n < N + M. Where lengths are constants, parts may be computed: rotary
//              positions turn the halves of a row, one of them negated. Where the run says how long a part is, as of a cache, it may be long,
//              and each part is one element.
//   inline     such a choice is computed where it is read, if one map reads each of its elements once: a rotation is one launch.
//   together   maps at the same points, to arrays apart from each other, are writes of one statement. They need not be neighbours: what a decoder
//              remembers of keys and of values is copied by one launch, whatever computes the new ones between.
//
// That is worth it where the choices take less than a launch: large copies read vectors, and are bound by memory. Processors copy part by part, since
// a launch costs them little. What only copies an array to an output stays alone: the plan has no launch for it (nest/facts/parts.h).
#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "packager/nest/facts/parts.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"
#include "targets/machines.h"

namespace mlc::passes {
namespace {

using ir::Op;

constexpr double kSelectOperations = 16;  // of a point, its conditions and addresses, beside the copy
constexpr size_t kMostOperations = 4;     // of a part that is computed
constexpr size_t kMostLoads = 4;          // likewise
constexpr size_t kMostParts = 8;          // that a statement chooses from
constexpr size_t kMostWrites = 8;         // of a statement
constexpr size_t kMostNodes = 300;        // of a statement that computes what it read
constexpr size_t kNear = 8;               // statements that the write of an array may move up, which takes memory for longer

class CopyJoining {
 public:
  CopyJoining(ir::Context& ctx, nest::Function& f) : ctx_(ctx), f_(f) {}

  void run() {
    note_memory();
    join_beside(/*of_constant_lengths=*/true);
    inline_choices();
    join_beside(/*of_constant_lengths=*/false);
    join_together();
  }

 private:
  // ---- what may be joined ----

  void note_memory() {
    for (uint32_t a = 0; a < f_.arrays.size(); ++a)
      if (f_.arrays[a].layout.is_part()) whole_of_.emplace(a, f_.arrays[a].whole);
    const nest::Parts parts = nest::parts_of_outputs(ctx_, f_, targets::kDeviceBufferAlignment);
    for (size_t s = 0; s < f_.body.size(); ++s) {
      if (!parts.is_done[s]) continue;
      const nest::Write& w = f_.body[s].nest->writes[0];
      whole_of_.emplace(w.value->array, w.array);
      has_no_launch_.insert(f_.body[s].nest.get());
    }
  }

  // Whether the array is a part of `other`, or of what is.
  bool is_inside(uint32_t array, uint32_t other) const {
    for (auto whole = whole_of_.find(array); whole != whole_of_.end(); whole = whole_of_.find(whole->second))
      if (whole->second == other) return true;
    return false;
  }
  uint32_t memory_of(uint32_t array) const {
    for (auto whole = whole_of_.find(array); whole != whole_of_.end(); whole = whole_of_.find(array)) array = whole->second;
    return array;
  }

  // A map without folds, of so few points that choices cost less than a launch.
  bool is_small_map(size_t s) const {
    const nest::Statement& statement = f_.body[s];
    const bool is_alone = !statement.joins && (s + 1 == f_.body.size() || !f_.body[s + 1].joins);
    if (!is_alone || !statement.nest || statement.nest->where || statement.nest->scan_dim || has_no_launch_.contains(statement.nest.get())) return false;
    if (nest::is_in_place(ctx_, f_, statement) || rounded_array(statement)) return false;  // the latter is written where it is computed (store-rounded)
    bool fits = true;
    for (const nest::Write& w : statement.nest->writes) fits &= !w.push;
    for_roots(statement, [&](const Expr* root) {
      ir::walk(root, [&](const Expr* e) { fits &= e->op != Op::Fold && (e->op != Op::Load || e->access != ir::Access::Checked); });
    });
    return fits && points_of(statement.nest->dims) * kSelectOperations < targets::kAnyDevice.launch_cycles * targets::kAnyDevice.multiprocessors * targets::kAnyDevice.fmas_per_cycle;
  }

  // The leading axis is the batch, which is one where copies are small.
  static double points_of(const std::vector<const ir::Dim*>& dims) {
    double points = 1;
    for (size_t k = 0; k < dims.size(); ++k)
      points *= k == 0 && !dims[k]->extent->is_const() ? static_cast<double>(ir::Guess::Batch) : estimate(dims[k]->extent);
    return points;
  }

  // What a value chooses from, as often as it stands there; no more than one beyond kMostParts: choices may share their parts, which then are many more than their nodes.
  static std::vector<const Expr*> parts_of(const Expr* value) {
    std::vector<const Expr*> parts, open{value};
    while (!open.empty() && parts.size() <= kMostParts) {
      const Expr* e = open.back();
      open.pop_back();
      if (e->op == Op::Select) open.insert(open.end(), {e->args[2], e->args[1]});
      else parts.push_back(e);
    }
    return parts;
  }
  static bool are_cheap(const std::vector<const Expr*>& parts, size_t most_loads) {
    return std::all_of(parts.begin(), parts.end(), [&](const Expr* part) { return is_cheap(part, most_loads); });
  }
  // What a point reads and computes of a part.
  static bool is_cheap(const Expr* part, size_t most_loads) {
    std::vector<const Expr*> open{part};
    std::unordered_set<const Expr*> seen;
    size_t loads = 0, operations = 0;  // addresses are counted by kSelectOperations
    while (!open.empty()) {
      const Expr* e = open.back();
      open.pop_back();
      if (!seen.insert(e).second || e->is_const()) continue;
      if (e->op == Op::Load) {
        ++loads;
        continue;
      }
      if (e->op != Op::Neg && e->op != Op::Cast && e->op != Op::Add && e->op != Op::Sub && e->op != Op::Mul) return false;
      ++operations;
      open.insert(open.end(), e->args.begin(), e->args.end());
    }
    return loads <= most_loads && operations <= kMostOperations;
  }

  // A launch takes its buffers to be apart, and no point of it reads what another one writes.
  bool are_apart(const nest::Nest& a, const nest::Nest& b) const {
    std::set<uint32_t> touched;
    for (const nest::Nest* n : {&a, &b})
      for (const nest::Write& w : n->writes) {
        touched.insert(w.array);
        add_arrays_read(w.value, touched);
      }
    for (const uint32_t x : touched)
      if (std::any_of(touched.begin(), touched.end(), [&](uint32_t y) { return is_inside(x, y); })) return false;
    return !reads_what(a, b) && !reads_what(b, a);
  }
  static void add_arrays_read(const Expr* value, std::set<uint32_t>& arrays) {
    ir::walk(value, [&](const Expr* e) {
      if (e->op == Op::Load) arrays.insert(e->array);
    });
  }
  static bool reads_what(const nest::Nest& reader, const nest::Nest& writer) {
    std::set<uint32_t> read;
    for (const nest::Write& w : reader.writes) add_arrays_read(w.value, read);
    return std::any_of(writer.writes.begin(), writer.writes.end(), [&](const nest::Write& w) { return read.contains(w.array); });
  }

  // ---- parts of an array that stand one behind the other ----

  void join_beside(bool of_constant_lengths) {
    std::vector<bool> is_gone(f_.body.size());
    size_t last = f_.body.size();  // what the next statement may be joined to; the end: nothing
    for (size_t s = 0; s < f_.body.size(); ++s) {
      const bool fits = is_small_map(s);
      std::unique_ptr<nest::Nest> both;
      if (fits && last < s && f_.body[last].part == f_.body[s].part) both = beside(*f_.body[last].nest, *f_.body[s].nest, of_constant_lengths);
      if (both) {
        f_.body[last].nest = std::move(both);
        choices_.insert(f_.body[last].nest.get());
        is_gone[s] = true;
      } else {
        last = fits ? s : f_.body.size();
      }
    }
    erase(is_gone);
  }

  void erase(const std::vector<bool>& is_gone) {
    std::vector<nest::Statement> body;
    for (size_t s = 0; s < f_.body.size(); ++s)
      if (!is_gone[s]) body.push_back(std::move(f_.body[s]));
    f_.body = std::move(body);
  }

  // Where elements of an axis lie that a statement writes.
  struct Range {
    const ir::Dim* dim = nullptr;  // null: one element
    const Expr *begin = nullptr, *count = nullptr;
  };
  std::optional<Range> range_of(const Expr* index) const {
    const ir::Dim* dim = nullptr;
    size_t dims = 0;
    const auto look = [&](const Expr* root) {
      dims = 0;
      ir::walk(root, [&](const Expr* e) {
        if (e->op == Op::Dim) dim = e->dim, ++dims;
      });
    };
    look(index);
    if (dims == 0) return Range{nullptr, index, ctx_.integer(1)};
    if (dims > 1) return std::nullopt;
    const Range range{dim, ctx_.sub(index, ctx_.dim(dim)), dim->extent};
    look(range.begin);
    return dims == 0 ? std::optional(range) : std::nullopt;
  }

  // Two parts of an array, the second one of which begins where the first one ends, along one axis.
  std::unique_ptr<nest::Nest> beside(const nest::Nest& a, const nest::Nest& b, bool of_constant_lengths) {
    if (a.writes.size() != 1 || b.writes.size() != 1 || a.writes[0].array != b.writes[0].array || !are_apart(a, b)) return nullptr;
    const nest::Write &first = a.writes[0], &second = b.writes[0];
    const size_t most_loads = of_constant_lengths ? kMostLoads : 1;
    const std::vector<const Expr*> of_a = parts_of(first.value), of_b = parts_of(second.value);
    if (of_a.size() + of_b.size() > kMostParts || !are_cheap(of_a, most_loads) || !are_cheap(of_b, most_loads)) return nullptr;
    auto joined = std::make_unique<nest::Nest>(a);
    std::unordered_map<const Expr*, const Expr*> of_first, of_second;
    std::set<const ir::Dim*> of_axes;
    const Expr* is_first = nullptr;
    for (size_t k = 0; k < first.index.size(); ++k) {
      const auto range = range_of(first.index[k]), other = range_of(second.index[k]);
      if (!range || !other || (range->dim && of_axes.contains(range->dim))) return nullptr;
      const bool is_split = range->begin != other->begin || range->count != other->count;
      const Expr* place = range->dim ? ctx_.dim(range->dim) : ctx_.integer(0);
      if (is_split) {
        if (is_first || ctx_.sub(other->begin, range->begin) != range->count) return nullptr;
        if (of_constant_lengths && !(range->count->is_const() && other->count->is_const())) return nullptr;
        const ir::Dim* all = ctx_.declare_dim(range->dim ? range->dim->name : other->dim ? other->dim->name : "part", ctx_.add(range->count, other->count));
        const auto at = range->dim ? joined->dims.erase(std::find(joined->dims.begin(), joined->dims.end(), range->dim)) : joined->dims.begin() + static_cast<ptrdiff_t>(of_axes.size());
        joined->dims.insert(at, all);
        if (range->dim) of_first.emplace(ctx_.dim(range->dim), ctx_.dim(all));
        is_first = ctx_.binary(Op::Lt, ctx_.dim(all), range->count);
        place = ctx_.sub(ctx_.dim(all), range->count);
        joined->writes[0].index[k] = ctx_.add(range->begin, ctx_.dim(all));
      }
      if (other->dim && !of_second.emplace(ctx_.dim(other->dim), place).second) return nullptr;
      if (range->dim) of_axes.insert(range->dim);
    }
    if (!is_first || of_axes.size() != a.dims.size() || of_second.size() != b.dims.size()) return nullptr;
    joined->writes[0].value = ctx_.select(is_first, ctx_.substitute(first.value, of_first), ctx_.substitute(second.value, of_second));
    return joined;
  }

  // ---- choices that are computed where they are read ----

  void inline_choices() {
    Uses uses = uses_of(f_);
    std::vector<bool> is_gone(f_.body.size());
    for (size_t s = 0; s < f_.body.size(); ++s) {
      PlainMap p;
      if (!f_.body[s].nest || !choices_.contains(f_.body[s].nest.get()) || !plain_map(f_.body[s], p)) continue;
      const uint32_t y = p.write->array;
      const bool is_shared = whole_of_.contains(y) || std::any_of(whole_of_.begin(), whole_of_.end(), [&](const auto& part) { return part.second == y; });
      if (is_shared || uses.output[y] || uses.writers[y].size() != 1 || uses.readers[y].size() != 1) continue;
      const size_t r = *uses.readers[y].begin();
      if (r <= s || f_.body[r].part != f_.body[s].part || !is_small_map(r) || !reads_once(r, y, points_of(p.nest->dims))) continue;
      size_t nodes = node_count(p.write->value, kMostNodes);
      for_roots(f_.body[r], [&](const Expr* e) { nodes += node_count(e, kMostNodes); });
      if (nodes > kMostNodes) continue;
      map_roots(f_.body[r], [&](const Expr* root) { return replace_loads(ctx_, root, y, [&](const Expr* load) { return composed(ctx_, p, load); }); });
      update_reads(uses, f_, r);
      is_gone[s] = true;
    }
    erase(is_gone);
  }
  bool reads_once(size_t reader, uint32_t array, double elements) const {
    size_t loads = 0;
    nest::for_loads(f_.body[reader], [&](const Expr* load) { loads += load->array == array; });
    return loads == 1 && points_of(f_.body[reader].nest->dims) <= elements;
  }

  // ---- maps at the same points ----

  void join_together() {
    std::vector<nest::Statement> body;
    std::map<std::vector<const Expr*>, size_t> places;     // of the last map with these extents, of this part of the function
    std::unordered_map<uint32_t, size_t> touched, changed;  // by memory: the last statement that does so
    const auto last = [](const std::unordered_map<uint32_t, size_t>& of, uint32_t memory) { return of.contains(memory) ? of.at(memory) : 0; };
    for (size_t s = 0; s < f_.body.size(); ++s) {
      const bool fits = is_small_map(s);
      nest::Statement& next = f_.body[s];
      if (!body.empty() && next.part != body.back().part) places.clear();
      const std::vector<uint32_t> reads = read(next), writes = written(next);
      size_t at = body.size();
      if (std::vector<const Expr*> extents; fits) {
        for (const ir::Dim* d : next.nest->dims) extents.push_back(d->extent);
        const auto place = places.find(extents);
        bool may_join = place != places.end() && body.size() - place->second <= kNear;
        for (const uint32_t a : reads) may_join = may_join && last(changed, memory_of(a)) <= place->second;
        for (const uint32_t a : writes) may_join = may_join && last(touched, memory_of(a)) <= place->second;
        auto both = may_join ? together(*body[place->second].nest, *next.nest) : nullptr;
        if (both) at = place->second, body[at].nest = std::move(both);
        else places.insert_or_assign(extents, at);
      }
      if (at == body.size()) body.push_back(std::move(next));
      for (const uint32_t a : reads) touched[memory_of(a)] = std::max(last(touched, memory_of(a)), at);
      for (const uint32_t a : writes) touched[memory_of(a)] = std::max(last(touched, memory_of(a)), at), changed[memory_of(a)] = std::max(last(changed, memory_of(a)), at);
    }
    f_.body = std::move(body);
  }

  std::unique_ptr<nest::Nest> together(const nest::Nest& a, const nest::Nest& b) {
    if (a.writes.size() + b.writes.size() > kMostWrites || !are_apart(a, b)) return nullptr;
    std::unordered_map<const Expr*, const Expr*> at;
    for (size_t k = 0; k < a.dims.size(); ++k) at.emplace(ctx_.dim(b.dims[k]), ctx_.dim(a.dims[k]));
    for (const nest::Write& w : a.writes)
      for (const nest::Write& other : b.writes)
        if (w.array == other.array) return nullptr;
    auto joined = std::make_unique<nest::Nest>(a);
    for (const nest::Write& w : b.writes) {
      nest::Write& also = joined->writes.emplace_back(w);
      for (const Expr*& index : also.index) index = ctx_.substitute(index, at);
      also.value = ctx_.substitute(also.value, at);
    }
    return joined;
  }

  ir::Context& ctx_;
  nest::Function& f_;
  std::unordered_map<uint32_t, uint32_t> whole_of_;    // of arrays that are parts of others
  std::unordered_set<const nest::Nest*> has_no_launch_;  // an array is copied to what it is a part of
  std::unordered_set<const nest::Nest*> choices_;        // what join_beside made
};

}  // namespace

Status join_copies(ir::Context& ctx, nest::Function& f) {
  CopyJoining(ctx, f).run();
  return ok();
}

}  // namespace mlc::passes
