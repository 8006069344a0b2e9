#include "packager/passes/forms/winograd.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "packager/nest/names.h"
#include "packager/passes/forms/convolution.h"

namespace mlc::passes {
namespace {

using ir::Dim;
using ir::Op;

constexpr int64_t kTaps = 3;

// ---- the transforms of one row or column ----

using Values = std::vector<const Expr*>;

class Transforms {
 public:
  Transforms(ir::Context& ctx, int64_t tile) : ctx_(ctx), tile_(tile) {}

  // Applied to the columns of a matrix, then to the rows of what comes out; row-major.
  Values both(const Values& matrix, size_t rows, size_t columns, Values (Transforms::*one)(const Values&) const) const {
    std::vector<Values> half(columns);
    for (size_t j = 0; j < columns; ++j) {
      Values column;
      for (size_t i = 0; i < rows; ++i) column.push_back(matrix[i * columns + j]);
      half[j] = (this->*one)(column);
    }
    Values out;
    for (size_t i = 0; i < half[0].size(); ++i) {
      Values row;
      for (size_t j = 0; j < columns; ++j) row.push_back(half[j][i]);
      for (const Expr* e : (this->*one)(row)) out.push_back(e);
    }
    return out;
  }

  Values of_input(const Values& d) const {
    if (tile_ == 2) return {sub(d[0], d[2]), add(d[1], d[2]), sub(d[2], d[1]), sub(d[1], d[3])};
    const Expr *even = sub(d[4], times(4, d[2])), *odd = sub(d[3], times(4, d[1]));
    const Expr *near = sub(d[4], d[2]), *far = times(2, sub(d[3], d[1]));
    return {add(sub(times(4, d[0]), times(5, d[2])), d[4]), add(even, odd), sub(even, odd), add(near, far), sub(near, far),
            add(sub(times(4, d[1]), times(5, d[3])), d[5])};
  }

  Values of_weights(const Values& g) const {
    const Expr* ends = add(g[0], g[2]);
    if (tile_ == 2) return {g[0], times(0.5, add(ends, g[1])), times(0.5, sub(ends, g[1])), g[2]};
    const Expr *outer = add(times(1.0 / 24, g[0]), times(1.0 / 6, g[2])), *inner = times(1.0 / 12, g[1]);
    return {times(0.25, g[0]), times(-1.0 / 6, add(ends, g[1])), times(-1.0 / 6, sub(ends, g[1])), add(outer, inner), sub(outer, inner), g[2]};
  }

  Values of_result(const Values& m) const {
    if (tile_ == 2) return {add(m[0], add(m[1], m[2])), sub(sub(m[1], m[2]), m[3])};
    const Expr *sum = add(m[1], m[2]), *sum2 = add(m[3], m[4]), *difference = sub(m[1], m[2]), *difference2 = sub(m[3], m[4]);
    return {add(m[0], add(sum, sum2)), add(difference, times(2, difference2)), add(sum, times(4, sum2)),
            add(add(difference, times(8, difference2)), m[5])};
  }

 private:
  const Expr* add(const Expr* a, const Expr* b) const { return ctx_.binary(Op::Add, a, b); }
  const Expr* sub(const Expr* a, const Expr* b) const { return ctx_.binary(Op::Sub, a, b); }
  const Expr* times(double factor, const Expr* a) const { return ctx_.binary(Op::Mul, ctx_.number(factor, a->type.dtype), a); }

  ir::Context& ctx_;
  int64_t tile_;
};

// ---- the choice ----

// What a layer takes, on a core that is like most: nanoseconds. Only differences between ways to do it matter, and these are
// large or do not count.
constexpr double kFlopsPerNs = 150;                          // of products in registers
constexpr double kNearBytes = 1 << 19, kFarBytes = 12 << 20; // half of a core's own cache, most of what it shares
constexpr double kNear = 80, kFar = 60, kMemory = 16;        // bytes per nanosecond, written or read, with the sums of transforms
constexpr double kWeightBytes = 12;                          // read once, from memory, while products go on
constexpr double kLaunchNs = 2000;
constexpr double kWorthwhile = 0.85;                         // of the time that it takes as it is
constexpr int64_t kLeastChannels = 16;                       // fewer fill no panel

struct Choice {
  int64_t tile = 0;
  double saved = 0;       // nanoseconds
  uint64_t bytes = 0;     // of the weights

  double rank() const { return saved / static_cast<double>(bytes); }
};
struct Candidate {
  Convolution conv;
  std::vector<Choice> choices;  // best first
};

// Extents that the run decides: batches are of one image, sides of images are what is usual.
constexpr int64_t kUsualSide = 256;

double points(const Expr* extent, int64_t usual) {
  const auto n = ir::evaluate_extent(extent, [&](const ir::Sym* s) -> std::optional<int64_t> {
    return std::clamp<int64_t>(usual, s->lo, s->hi) / s->multiple * s->multiple;
  });
  return static_cast<double>(std::max<int64_t>(n.value_or(1), 1));
}

bool knows_rest(ir::Context& ctx, const Dim* d, int64_t tile) { return ctx.floormod(d->extent, ctx.integer(tile))->is_const(); }

double time_of(ir::Context& ctx, const Convolution& c, int64_t tile) {
  double batch = 1;
  for (const Dim* d : c.batch) batch *= points(d->extent, 1);
  const double p = points(c.out[0]->extent, kUsualSide), q = points(c.out[1]->extent, kUsualSide);
  const auto channels = static_cast<double>(c.c->extent->i), results = static_cast<double>(c.m->extent->i);
  const auto with_weights = [&](double products, double places) {
    return std::max(products, 4 * places * channels * results / kWeightBytes);
  };
  if (tile == 0) {  // taps outside of the image are left out
    const double inside = std::max(1.0, kTaps * p - 2) * std::max(1.0, kTaps * q - 2);
    return with_weights(2 * batch * inside * channels * results / kFlopsPerNs, 9) + kLaunchNs;
  }
  const double side = static_cast<double>(tile + kTaps - 1), places = side * side;
  const double rows = std::ceil(p / static_cast<double>(tile)), columns = std::ceil(q / static_cast<double>(tile)), tiles = batch * rows * columns;
  const double held = 4 * places * tiles * (channels + results);
  const double moved = 2 * held / (held <= kNearBytes ? kNear : held <= kFarBytes ? kFar : kMemory);
  double time = with_weights(2 * places * tiles * channels * results / kFlopsPerNs, places) + moved + 3 * kLaunchNs;
  if (rows * static_cast<double>(tile) != p || columns * static_cast<double>(tile) != q) time += 3 * kLaunchNs;
  for (size_t k = 0; k < 2; ++k)  // what is left over, if that is not known, is half a tile in the old way
    if (!knows_rest(ctx, c.out[k], tile)) time += batch * static_cast<double>(tile) * (k ? p : q) * 9 * channels * results / kFlopsPerNs;
  return time;
}

// The tile sizes that are worth it.
std::vector<Choice> choices_for(ir::Context& ctx, const Convolution& conv) {
  std::vector<Choice> choices;
  if (conv.c->extent->i < kLeastChannels || conv.m->extent->i < kLeastChannels) return choices;
  const double direct = time_of(ctx, conv, 0);
  for (const int64_t tile : {4, 2}) {
    const double saved = direct - time_of(ctx, conv, tile);
    if (saved < (1 - kWorthwhile) * direct) continue;
    const auto panels = static_cast<uint64_t>((conv.m->extent->i + 15) / 16 * 16), side = static_cast<uint64_t>(tile + kTaps - 1);
    choices.push_back({tile, saved, 4 * side * side * panels * static_cast<uint64_t>(conv.c->extent->i)});
  }
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) { return a.saved > b.saved; });
  return choices;
}

// ---- the rewrite ----

class Rewriter {
 public:
  Rewriter(ir::Context& ctx, nest::Function& f, const Convolution& conv, int64_t tile)
      : ctx_(ctx), f_(f), c_(conv), tile_(tile), side_(tile + kTaps - 1), transforms_(ctx, tile), source_(f.body[conv.statement].source) {
    for (const Dim* d : c_.out)
      tiles_.push_back(knows_rest(ctx, d, tile) ? ctx.ceildiv(d->extent, ctx.integer(tile)) : ctx.floordiv(d->extent, ctx.integer(tile)));
  }

  // The statements that take the place of the convolution's.
  std::vector<nest::Statement> run() {
    u_ = array("weights", {ctx_.integer(side_ * side_), c_.m->extent, c_.c->extent}, nest::Array::Kind::Derived);
    f_.arrays[u_].layout.pieces = {{0, 1, 0}, {1, 16, 0}, {2, 1, 0}, {1, 1, 16}};  // panels
    v_ = array("inputs", shape(c_.c), nest::Array::Kind::Temp);
    m_ = array("products", shape(c_.m), nest::Array::Kind::Temp);
    weights();
    inputs();
    products();
    for (const Part& rows : parts(0))
      for (const Part& columns : parts(1)) results(rows, columns);
    left_over();
    return std::move(made_);
  }

 private:
  // Tiles of the result along an axis, of which `points` points each exist.
  struct Part {
    const Expr *first = nullptr, *count = nullptr;
    int64_t points = 0;
  };

  std::vector<Part> parts(size_t k) {
    const Expr* extent = c_.out[k]->extent;
    const Expr* whole = ctx_.floordiv(extent, ctx_.integer(tile_));
    const int64_t rest = knows_rest(ctx_, c_.out[k], tile_) ? ctx_.floormod(extent, ctx_.integer(tile_))->i : 0;
    std::vector<Part> all;
    if (!whole->is_int(0)) all.push_back({ctx_.integer(0), whole, tile_});
    if (rest > 0) all.push_back({whole, ctx_.integer(1), rest});
    return all;
  }

  uint32_t array(const std::string& what, std::vector<const Expr*> shape, nest::Array::Kind kind) {
    nest::Array a;
    a.name = nest::unique_name(f_, f_.arrays[c_.write->array].name + ", " + what + " of tiles", "");
    a.kind = kind;
    a.dtype = DType::F32;
    a.shape = std::move(shape);
    f_.arrays.push_back(std::move(a));
    return static_cast<uint32_t>(f_.arrays.size() - 1);
  }

  void add(const char* what, std::unique_ptr<nest::Nest> nest) {
    nest::Statement s;
    s.source = source_ + what;
    s.nest = std::move(nest);
    made_.push_back(std::move(s));
  }

  const Expr* at(const Dim* d) { return ctx_.dim(d); }
  using Places = std::unordered_map<const Expr*, const Expr*>;

  // Dims of a new nest in place of the batches', after those it has.
  std::vector<const Expr*> batches(nest::Nest& n, Places& places) {
    std::vector<const Expr*> index;
    for (const Dim* d : c_.batch) {
      n.dims.push_back(ctx_.declare_dim(d->name, d->extent));
      index.push_back(at(n.dims.back()));
      places[at(d)] = index.back();
    }
    return index;
  }

  using Index = std::vector<const Expr*>;

  // The axes of V or M: places, and then one for all channels of all tiles, with so many elements more that a place is an odd
  // number of lines: a tile is written and read at all places at once, which shall not meet in a few sets of a cache. Where the
  // run decides how many tiles there are, every index keeps its axis, so that it is known to lie in range.
  bool one_axis() const { return tiles_[0]->is_const() && tiles_[1]->is_const(); }

  Index shape(const Dim* channels) {
    Index all;
    for (const Dim* d : c_.batch) all.push_back(d->extent);
    all.insert(all.end(), {tiles_[0], tiles_[1], channels->extent});
    if (one_axis()) {
      const Expr* two_lines = ctx_.integer(32);
      all = {ctx_.add(ctx_.mul(two_lines, ctx_.ceildiv(ctx_.product(all), two_lines)), ctx_.integer(16))};
    }
    all.insert(all.begin(), ctx_.integer(side_ * side_));
    return all;
  }

  // A channel of a tile of V or M.
  Index element(const Expr* place, const Index& batches, const Expr* ty, const Expr* tx, const Expr* channel, const Dim* channels) {
    Index all = batches;
    all.insert(all.end(), {ty, tx, channel});
    if (one_axis()) {
      const Expr* e = ctx_.integer(0);
      for (size_t k = 0; k < batches.size(); ++k) e = ctx_.add(ctx_.mul(e, c_.batch[k]->extent), batches[k]);
      e = ctx_.add(ctx_.mul(e, tiles_[0]), ty);
      e = ctx_.add(ctx_.mul(e, tiles_[1]), tx);
      all = {ctx_.add(ctx_.mul(e, channels->extent), channel)};
    }
    all.insert(all.begin(), place);
    return all;
  }
  const Expr* number(size_t k) { return ctx_.integer(static_cast<int64_t>(k)); }

  // Panel by panel, so that what is written lies side by side.
  void weights() {
    auto n = std::make_unique<nest::Nest>();
    const Expr* sixteen = ctx_.integer(16);
    const Dim *panel = ctx_.declare_dim("panel", ctx_.ceildiv(c_.m->extent, sixteen)), *c = ctx_.declare_dim("c", c_.c->extent),
              *lane = ctx_.declare_dim("lane", sixteen);
    n->dims = {panel, c, lane};
    const Expr* m = ctx_.add(ctx_.mul(sixteen, at(panel)), at(lane));
    if (c_.m->extent->i % 16 != 0) n->where = ctx_.binary(Op::Lt, m, c_.m->extent);
    Values taps;
    for (int64_t u = 0; u < kTaps; ++u)
      for (int64_t v = 0; v < kTaps; ++v)
        taps.push_back(ctx_.substitute(c_.w, {{at(c_.m), m}, {at(c_.c), at(c)}, {at(c_.tap[0]), ctx_.integer(u)}, {at(c_.tap[1]), ctx_.integer(v)}}));
    const Values all = transforms_.both(taps, kTaps, kTaps, &Transforms::of_weights);
    for (size_t k = 0; k < all.size(); ++k) n->writes.push_back({u_, {number(k), m, at(c)}, all[k]});
    add(", weights of tiles", std::move(n));
  }

  // Where x is read at place i, j of a tile: what the sum reads, and nothing that is not there.
  const Expr* condition(const Expr* load, const Places& places) {
    Values terms;
    for (const Expr* term : c_.conditions) terms.push_back(ctx_.substitute(term, places));
    const nest::Array& x = f_.arrays[c_.x->array];
    for (const size_t axis : c_.axis)
      for (const Expr* inside : {ctx_.binary(Op::Le, ctx_.integer(0), load->args[axis]), ctx_.binary(Op::Lt, load->args[axis], x.shape[axis])})
        if (!ir::proves(ctx_, inside, terms)) terms.push_back(inside);
    const Expr* all = nullptr;
    for (const Expr* term : terms)
      if (!ir::proves(ctx_, term)) all = ctx_.logical_and(all, term);
    return all;
  }

  void inputs() {
    auto n = std::make_unique<nest::Nest>();
    Places places;
    const std::vector<const Expr*> batch = batches(*n, places);
    const Dim *ty = ctx_.declare_dim("ty", tiles_[0]), *tx = ctx_.declare_dim("tx", tiles_[1]), *c = ctx_.declare_dim("c", c_.c->extent);
    n->dims.insert(n->dims.end(), {ty, tx, c});
    places[at(c_.c)] = at(c);
    places[at(c_.out[0])] = ctx_.mul(ctx_.integer(tile_), at(ty));
    places[at(c_.out[1])] = ctx_.mul(ctx_.integer(tile_), at(tx));
    Values tile;
    for (int64_t i = 0; i < side_; ++i)
      for (int64_t j = 0; j < side_; ++j) {
        places[at(c_.tap[0])] = ctx_.integer(i);
        places[at(c_.tap[1])] = ctx_.integer(j);
        const Expr* load = ctx_.substitute(c_.x, places);
        const Expr* inside = condition(load, places);
        tile.push_back(inside ? ctx_.select(inside, load, ctx_.number(0, DType::F32)) : load);
      }
    const auto side = static_cast<size_t>(side_);
    const Values all = transforms_.both(tile, side, side, &Transforms::of_input);
    for (size_t k = 0; k < all.size(); ++k) n->writes.push_back({v_, element(number(k), batch, at(ty), at(tx), at(c), c_.c), all[k]});
    add(", inputs of tiles", std::move(n));
  }

  void products() {
    auto n = std::make_unique<nest::Nest>();
    const Dim* place = ctx_.declare_dim("place", ctx_.integer(side_ * side_));
    n->dims.push_back(place);
    Places places;
    const std::vector<const Expr*> batch = batches(*n, places);
    const Dim *ty = ctx_.declare_dim("ty", tiles_[0]), *tx = ctx_.declare_dim("tx", tiles_[1]), *m = ctx_.declare_dim("m", c_.m->extent),
              *c = ctx_.declare_dim("c", c_.c->extent);
    n->dims.insert(n->dims.end(), {ty, tx, m});
    const ir::Type f32{DType::F32, 1};
    const Expr* product = ctx_.binary(Op::Mul, ctx_.load(v_, f32, element(at(place), batch, at(ty), at(tx), at(c), c_.c)), ctx_.load(u_, f32, {at(place), at(m), at(c)}));
    n->writes.push_back({m_, element(at(place), batch, at(ty), at(tx), at(m), c_.m), ctx_.fold({ctx_.builtin(ir::Join::Sum), {c}, nullptr}, {product})});
    add(", products of tiles", std::move(n));
  }

  void results(const Part& rows, const Part& columns) {
    auto n = std::make_unique<nest::Nest>();
    Places places;
    const std::vector<const Expr*> batch = batches(*n, places);
    const Part* part[] = {&rows, &columns};
    std::array<const Expr*, 2> tile{};
    for (size_t k = 0; k < 2; ++k) {
      n->dims.push_back(ctx_.declare_dim(k ? "tx" : "ty", part[k]->count));
      tile[k] = ctx_.add(part[k]->first, at(n->dims.back()));
    }
    const Dim* m = ctx_.declare_dim("m", c_.m->extent);
    n->dims.push_back(m);
    places[at(c_.m)] = at(m);
    const auto side = static_cast<size_t>(side_);
    Values products;
    for (size_t k = 0; k < side * side; ++k)
      products.push_back(ctx_.load(m_, {DType::F32, 1}, element(number(k), batch, tile[0], tile[1], at(m), c_.m)));
    const Values y = transforms_.both(products, side, side, &Transforms::of_result);
    for (int64_t a = 0; a < rows.points; ++a)
      for (int64_t b = 0; b < columns.points; ++b) {
        places[at(c_.out[0])] = ctx_.add(ctx_.mul(ctx_.integer(tile_), tile[0]), ctx_.integer(a));
        places[at(c_.out[1])] = ctx_.add(ctx_.mul(ctx_.integer(tile_), tile[1]), ctx_.integer(b));
        places[c_.fold] = y[static_cast<size_t>(a * tile_ + b)];
        std::vector<const Expr*> at_y;
        for (const Expr* e : c_.write->index) at_y.push_back(ctx_.substitute(e, places));
        n->writes.push_back({c_.write->array, std::move(at_y), ctx_.substitute(c_.write->value, places)});
      }
    add("", std::move(n));
  }

  // Behind whole tiles, where only the run knows how many rows or columns are left: as they were.
  void left_over() {
    const Expr* none = ctx_.integer(0);
    std::array<const Expr*, 2> end{};  // of what tiles make
    for (size_t k = 0; k < 2; ++k)
      end[k] = knows_rest(ctx_, c_.out[k], tile_) ? c_.out[k]->extent : ctx_.mul(tiles_[k], ctx_.integer(tile_));
    if (end[0] != c_.out[0]->extent) as_it_was({end[0], none}, {ctx_.sub(c_.out[0]->extent, end[0]), c_.out[1]->extent});
    if (end[1] != c_.out[1]->extent) as_it_was({none, end[1]}, {end[0], ctx_.sub(c_.out[1]->extent, end[1])});
  }

  void as_it_was(const std::array<const Expr*, 2>& first, const std::array<const Expr*, 2>& count) {
    auto n = std::make_unique<nest::Nest>();
    Places places;
    for (const Dim* d : c_.nest->dims) {
      const auto k = static_cast<size_t>(std::find(c_.out.begin(), c_.out.end(), d) - c_.out.begin());
      n->dims.push_back(ctx_.declare_dim(d->name, k < 2 ? count[k] : d->extent));
      places[at(d)] = k < 2 ? ctx_.add(first[k], at(n->dims.back())) : at(n->dims.back());
    }
    std::vector<const Expr*> at_y;
    for (const Expr* e : c_.write->index) at_y.push_back(ctx_.substitute(e, places));
    n->writes.push_back({c_.write->array, std::move(at_y), ctx_.substitute(c_.write->value, places)});
    add("", std::move(n));
  }

  ir::Context& ctx_;
  nest::Function& f_;
  const Convolution& c_;
  const int64_t tile_, side_;
  const Transforms transforms_;
  const std::string source_;
  std::vector<const Expr*> tiles_;  // rows and columns of them
  uint32_t u_ = 0, v_ = 0, m_ = 0;
  std::vector<nest::Statement> made_;
};

// The statements of `f`, some of them replaced by others.
void replace(nest::Function& f, std::vector<std::vector<nest::Statement>> instead) {
  std::vector<nest::Statement> body;
  for (size_t i = 0; i < instead.size(); ++i) {
    if (instead[i].empty()) body.push_back(std::move(f.body[i]));
    for (nest::Statement& s : instead[i]) body.push_back(std::move(s));
  }
  f.body = std::move(body);
}

}  // namespace

bool winograd_in_tiles(ir::Context& ctx, nest::Function& f, size_t statement, int64_t tile) {
  Convolution conv;
  if (!find_convolution(ctx, f, statement, kTaps, conv)) return false;
  std::vector<std::vector<nest::Statement>> instead(f.body.size());
  instead[statement] = Rewriter(ctx, f, conv, tile).run();
  replace(f, std::move(instead));
  return true;
}

Status winograd(ir::Context& ctx, nest::Function& f, uint64_t most_derived) {
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < f.body.size(); ++i) {
    Candidate candidate;
    if (!find_convolution(ctx, f, i, kTaps, candidate.conv)) continue;
    candidate.choices = choices_for(ctx, candidate.conv);
    if (!candidate.choices.empty()) candidates.push_back(std::move(candidate));
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) { return a.choices[0].rank() > b.choices[0].rank(); });
  std::vector<std::vector<nest::Statement>> instead(f.body.size());
  for (const Candidate& candidate : candidates) {
    const auto fits = std::find_if(candidate.choices.begin(), candidate.choices.end(), [&](const Choice& c) { return c.bytes <= most_derived; });
    if (fits == candidate.choices.end()) continue;
    most_derived -= fits->bytes;
    instead[candidate.conv.statement] = Rewriter(ctx, f, candidate.conv, fits->tile).run();
  }
  replace(f, std::move(instead));
  return ok();
}

}  // namespace mlc::passes
