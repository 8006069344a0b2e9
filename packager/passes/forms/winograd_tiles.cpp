#include "packager/passes/forms/winograd_tiles.h"

#include <algorithm>

#include "packager/nest/text/names.h"
#include "packager/passes/forms/transforms.h"

namespace mlc::passes {

using ir::Dim;
using ir::Op;

int64_t taps_of_phase(const Convolution::Axis& axis) { return (axis.tap->extent->i + axis.stride - 1) / axis.stride; }

bool knows_rest(ir::Context& ctx, const Dim* d, int64_t tile) { return ctx.floormod(d->extent, ctx.integer(tile))->is_const(); }

namespace {

class Rewriter {
 public:
  Rewriter(ir::Context& ctx, nest::Function& f, const Convolution& conv, int64_t points)
      : ctx_(ctx), f_(f), c_(conv), source_(f.body[conv.statement].source), part_(f.body[conv.statement].part) {
    for (const Convolution::Axis& axis : c_.axes) {
      transforms_.emplace_back(ctx, points, taps_of_phase(axis));
      const int64_t tile = transforms_.back().tile();
      tiles_.push_back(knows_rest(ctx, axis.out, tile) ? ctx.ceildiv(axis.out->extent, ctx.integer(tile)) : ctx.floordiv(axis.out->extent, ctx.integer(tile)));
      places_ *= points;
    }
  }

  // The statements that take the place of the convolution's.
  std::vector<nest::Statement> run() {
    // Panels of weights: places, columns, phases, channels.
    std::vector<const Expr*> extents{ctx_.integer(places_), c_.m->extent};
    for (const Convolution::Axis& axis : c_.axes)
      if (axis.stride > 1) extents.push_back(ctx_.integer(axis.stride));
    extents.push_back(c_.c->extent);
    u_ = array("weights", extents, nest::Array::Kind::Derived);
    auto& pieces = f_.arrays[u_].layout.pieces;
    pieces = {{0, 1, 0}, {1, 16, 0}};
    for (uint8_t axis = 2; axis < extents.size(); ++axis) pieces.push_back({axis, 1, 0});
    pieces.push_back({1, 1, 16});
    v_ = array("inputs", shape(c_.c, true), nest::Array::Kind::Temp);
    m_ = array("products", shape(c_.m, false), nest::Array::Kind::Temp);
    weights();
    inputs();
    products();
    all_results();
    left_over();
    return std::move(made_);
  }

 private:
  // Tiles of the result along an axis, of which `points` points each exist.
  struct Part {
    const Expr *first = nullptr, *count = nullptr;
    int64_t points = 0;
  };

  int64_t tile(size_t k) const { return transforms_[k].tile(); }

  std::vector<Part> parts(size_t k) {
    const Expr* extent = c_.axes[k].out->extent;
    const Expr* whole = ctx_.floordiv(extent, ctx_.integer(tile(k)));
    const int64_t rest = knows_rest(ctx_, c_.axes[k].out, tile(k)) ? ctx_.floormod(extent, ctx_.integer(tile(k)))->i : 0;
    std::vector<Part> all;
    if (!whole->is_int(0)) all.push_back({ctx_.integer(0), whole, tile(k)});
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
    s.part = part_;
    s.nest = std::move(nest);
    made_.push_back(std::move(s));
  }

  const Expr* at(const Dim* d) { return ctx_.dim(d); }
  using Places = std::unordered_map<const Expr*, const Expr*>;
  using Index = std::vector<const Expr*>;

  // Dims of a new nest in place of the batches', after those it has.
  Index batches(nest::Nest& n, Places& places) {
    Index index;
    for (const Dim* d : c_.batch) {
      n.dims.push_back(ctx_.declare_dim(d->name, d->extent));
      index.push_back(at(n.dims.back()));
      places[at(d)] = index.back();
    }
    return index;
  }
  // One for each axis: the place of a tile.
  Index tiles_in(nest::Nest& n) {
    Index index;
    for (const Expr* count : tiles_) {
      n.dims.push_back(ctx_.declare_dim("tile", count));
      index.push_back(at(n.dims.back()));
    }
    return index;
  }
  // One for each axis of a stride above 1.
  Index phases_in(std::vector<const Dim*>& dims) {
    Index index;
    for (const Convolution::Axis& axis : c_.axes)
      if (axis.stride > 1) {
        dims.push_back(ctx_.declare_dim("phase", ctx_.integer(axis.stride)));
        index.push_back(at(dims.back()));
      }
    return index;
  }
  // Tap number `k` of a phase along each axis. Where the convolution has it; null: everywhere.
  const Expr* bind_taps(const Index& phases, const std::vector<int64_t>& k, Places& places) {
    const Expr* exists = nullptr;
    size_t phase = 0;
    for (size_t axis = 0; axis < c_.axes.size(); ++axis) {
      const auto& [out, tap, number, stride] = c_.axes[axis];
      const Expr* at_tap = ctx_.integer(k[axis] * stride);
      if (stride > 1) at_tap = ctx_.add(at_tap, phases[phase++]);
      places[at(tap)] = at_tap;
      if ((k[axis] + 1) * stride > tap->extent->i) exists = ctx_.logical_and(exists, ctx_.binary(Op::Lt, at_tap, tap->extent));
    }
    return exists;
  }
  // All points of a row-major array of so many elements along each axis.
  std::vector<std::vector<int64_t>> points_of(const std::vector<int64_t>& extents) const {
    std::vector<std::vector<int64_t>> all{{}};
    for (const int64_t extent : extents) {
      std::vector<std::vector<int64_t>> longer;
      for (const auto& point : all)
        for (int64_t i = 0; i < extent; ++i) {
          longer.push_back(point);
          longer.back().push_back(i);
        }
      all = std::move(longer);
    }
    return all;
  }
  std::vector<int64_t> sides() const { return std::vector<int64_t>(c_.axes.size(), transforms_[0].points()); }

  // The axes of V or M: places, and then one for all channels of all tiles, with so many elements more that a place is an odd
  // number of lines: a tile is written and read at all places at once, which shall not meet in a few sets of a cache. Where the
  // run decides how many tiles there are, every index keeps its axis, so that it is known to lie in range.
  bool one_axis() const {
    return std::all_of(tiles_.begin(), tiles_.end(), [](const Expr* count) { return count->is_const(); });
  }

  Index shape(const Dim* channels, bool has_phases) {
    Index all;
    for (const Dim* d : c_.batch) all.push_back(d->extent);
    all.insert(all.end(), tiles_.begin(), tiles_.end());
    if (has_phases)
      for (const Convolution::Axis& axis : c_.axes)
        if (axis.stride > 1) all.push_back(ctx_.integer(axis.stride));
    all.push_back(channels->extent);
    if (one_axis()) {
      const Expr* two_lines = ctx_.integer(32);
      all = {ctx_.add(ctx_.mul(two_lines, ctx_.ceildiv(ctx_.product(all), two_lines)), ctx_.integer(16))};
    }
    all.insert(all.begin(), ctx_.integer(places_));
    return all;
  }

  // A channel of a tile of V or M.
  Index element(const Expr* place, const Index& batches, const Index& tile, const Index& phases, const Expr* channel, const Dim* channels) {
    Index all = batches;
    for (const Index* more : {&tile, &phases}) all.insert(all.end(), more->begin(), more->end());
    if (one_axis()) {
      Index extents;
      for (const Dim* d : c_.batch) extents.push_back(d->extent);
      extents.insert(extents.end(), tiles_.begin(), tiles_.end());
      for (const Convolution::Axis& axis : c_.axes)
        if (axis.stride > 1 && !phases.empty()) extents.push_back(ctx_.integer(axis.stride));
      const Expr* e = ctx_.integer(0);
      for (size_t k = 0; k < all.size(); ++k) e = ctx_.add(ctx_.mul(e, extents[k]), all[k]);
      all = {ctx_.add(ctx_.mul(e, channels->extent), channel)};
    } else {
      all.push_back(channel);
    }
    all.insert(all.begin(), place);
    return all;
  }
  const Expr* number(size_t k) { return ctx_.integer(static_cast<int64_t>(k)); }

  // Panel by panel, so that what is written is contiguous.
  void weights() {
    auto n = std::make_unique<nest::Nest>();
    const Expr* sixteen = ctx_.integer(16);
    const Dim *panel = ctx_.declare_dim("panel", ctx_.ceildiv(c_.m->extent, sixteen)), *c = ctx_.declare_dim("c", c_.c->extent),
              *lane = ctx_.declare_dim("lane", sixteen);
    n->dims = {panel};
    const Index phases = phases_in(n->dims);
    n->dims.insert(n->dims.end(), {c, lane});
    const Expr* m = ctx_.add(ctx_.mul(sixteen, at(panel)), at(lane));
    if (c_.m->extent->i % 16 != 0) n->where = ctx_.binary(Op::Lt, m, c_.m->extent);
    std::vector<int64_t> taps;
    for (const Transform& t : transforms_) taps.push_back(t.taps());
    Values values;
    for (const auto& k : points_of(taps)) {
      Places places{{at(c_.m), m}, {at(c_.c), at(c)}};
      const Expr* exists = bind_taps(phases, k, places);
      const Expr* w = ctx_.substitute(c_.w, places);
      values.push_back(exists ? ctx_.select(exists, w, ctx_.number(0, DType::F32)) : w);
    }
    const Values all = along_axes(transforms_, std::move(values), &Transform::of_weights);
    for (size_t k = 0; k < all.size(); ++k) {
      Index index{number(k), m};
      index.insert(index.end(), phases.begin(), phases.end());
      index.push_back(at(c));
      n->writes.push_back({u_, std::move(index), all[k]});
    }
    add(", weights of tiles", std::move(n));
  }

  // Where x is read at a place of a tile: what the sum reads, and nothing that is not there.
  const Expr* condition(const Expr* load, const Places& places) {
    Values terms;
    for (const Expr* term : c_.conditions) terms.push_back(ctx_.substitute(term, places));
    const nest::Array& x = f_.arrays[c_.x->array];
    for (const Convolution::Axis& axis : c_.axes)
      for (const Expr* inside : {ctx_.binary(Op::Le, ctx_.integer(0), load->args[axis.number]), ctx_.binary(Op::Lt, load->args[axis.number], x.shape[axis.number])})
        if (!ir::proves(ctx_, inside, terms)) terms.push_back(inside);
    const Expr* all = nullptr;
    for (const Expr* term : terms)
      if (!ir::proves(ctx_, term)) all = ctx_.logical_and(all, term);
    return all;
  }

  void inputs() {
    auto n = std::make_unique<nest::Nest>();
    Places places;
    const Index batch = batches(*n, places), tile_at = tiles_in(*n), phases = phases_in(n->dims);
    const Dim* c = ctx_.declare_dim("c", c_.c->extent);
    n->dims.push_back(c);
    places[at(c_.c)] = at(c);
    for (size_t k = 0; k < c_.axes.size(); ++k) places[at(c_.axes[k].out)] = ctx_.mul(ctx_.integer(tile(k)), tile_at[k]);
    Values values;
    for (const auto& k : points_of(sides())) {
      bind_taps(phases, k, places);
      const Expr* load = ctx_.substitute(c_.x, places);
      const Expr* inside = condition(load, places);
      values.push_back(inside ? ctx_.select(inside, load, ctx_.number(0, DType::F32)) : load);
    }
    const Values all = along_axes(transforms_, std::move(values), &Transform::of_input);
    for (size_t k = 0; k < all.size(); ++k) n->writes.push_back({v_, element(number(k), batch, tile_at, phases, at(c), c_.c), all[k]});
    add(", inputs of tiles", std::move(n));
  }

  // Of the points along an axis: the first and how many, and the phases that have weights there.
  struct Points {
    int64_t first = 0, count = 1, phases = 1;
  };
  // At infinity weights are their last tap, which some phases lack.
  std::vector<Points> points_along(size_t k) const {
    const Convolution::Axis& axis = c_.axes[k];
    const int64_t points = transforms_[k].points(), complete = axis.tap->extent->i - axis.stride * (transforms_[k].taps() - 1);
    if (complete == axis.stride) return {{0, points, axis.stride}};
    return {{0, points - 1, axis.stride}, {points - 1, 1, complete}};
  }

  void products() {
    std::vector<std::vector<Points>> all;
    std::vector<int64_t> counts;
    for (size_t k = 0; k < c_.axes.size(); ++k) {
      all.push_back(points_along(k));
      counts.push_back(static_cast<int64_t>(all.back().size()));
    }
    for (const auto& point : points_of(counts)) {
      std::vector<Points> some;
      for (size_t k = 0; k < all.size(); ++k) some.push_back(all[k][static_cast<size_t>(point[k])]);
      products(some);
    }
  }

  void products(const std::vector<Points>& points) {
    auto n = std::make_unique<nest::Nest>();
    // A dim of so many values; a single one is a number.
    const auto one_of = [&](const char* name, int64_t count, std::vector<const Dim*>& dims) {
      if (count == 1) return ctx_.integer(0);
      dims.push_back(ctx_.declare_dim(name, ctx_.integer(count)));
      return at(dims.back());
    };
    const bool everywhere = std::all_of(points.begin(), points.end(), [&](const Points& p) { return p.count == transforms_[0].points(); });
    const Expr* place = everywhere ? one_of("place", places_, n->dims) : ctx_.integer(0);
    for (size_t k = 0; k < points.size() && !everywhere; ++k)
      place = ctx_.add(ctx_.mul(place, ctx_.integer(transforms_[k].points())), ctx_.add(ctx_.integer(points[k].first), one_of("place", points[k].count, n->dims)));
    Places places;
    const Index batch = batches(*n, places), tile_at = tiles_in(*n);
    const Dim *m = ctx_.declare_dim("m", c_.m->extent), *c = ctx_.declare_dim("c", c_.c->extent);
    n->dims.push_back(m);
    std::vector<const Dim*> folded;
    Index phases;
    for (size_t k = 0; k < points.size(); ++k)
      if (c_.axes[k].stride > 1) phases.push_back(one_of("phase", points[k].phases, folded));
    folded.push_back(c);
    Index at_u{place, at(m)};
    at_u.insert(at_u.end(), phases.begin(), phases.end());
    at_u.push_back(at(c));
    const ir::Type f32{DType::F32, 1};
    const Expr* product = ctx_.binary(Op::Mul, ctx_.load(v_, f32, element(place, batch, tile_at, phases, at(c), c_.c)), ctx_.load(u_, f32, at_u));
    n->writes.push_back({m_, element(place, batch, tile_at, {}, at(m), c_.m), ctx_.fold({ctx_.builtin(ir::Join::Sum), folded, nullptr}, {product})});
    add(", products of tiles", std::move(n));
  }

  // Whole tiles, and those of which fewer points exist, along each axis.
  void all_results() {
    std::vector<std::vector<Part>> all;
    std::vector<int64_t> counts;
    for (size_t k = 0; k < c_.axes.size(); ++k) {
      all.push_back(parts(k));
      counts.push_back(static_cast<int64_t>(all.back().size()));
    }
    for (const auto& point : points_of(counts)) {
      std::vector<Part> some;
      for (size_t k = 0; k < all.size(); ++k) some.push_back(all[k][static_cast<size_t>(point[k])]);
      results(some);
    }
  }

  void results(const std::vector<Part>& part) {
    auto n = std::make_unique<nest::Nest>();
    Places places;
    const Index batch = batches(*n, places);
    Index tile_at;
    std::vector<int64_t> existing;
    for (size_t k = 0; k < part.size(); ++k) {
      n->dims.push_back(ctx_.declare_dim("tile", part[k].count));
      tile_at.push_back(ctx_.add(part[k].first, at(n->dims.back())));
      existing.push_back(part[k].points);
    }
    const Dim* m = ctx_.declare_dim("m", c_.m->extent);
    n->dims.push_back(m);
    places[at(c_.m)] = at(m);
    Values products;
    for (int64_t k = 0; k < places_; ++k)
      products.push_back(ctx_.load(m_, {DType::F32, 1}, element(ctx_.integer(k), batch, tile_at, {}, at(m), c_.m)));
    const Values y = along_axes(transforms_, std::move(products), &Transform::of_result);
    for (const auto& point : points_of(existing)) {
      size_t in_tile = 0;
      for (size_t k = 0; k < point.size(); ++k) {
        places[at(c_.axes[k].out)] = ctx_.add(ctx_.mul(ctx_.integer(tile(k)), tile_at[k]), ctx_.integer(point[k]));
        in_tile = in_tile * static_cast<size_t>(tile(k)) + static_cast<size_t>(point[k]);
      }
      places[c_.fold] = y[in_tile];
      Index at_y;
      for (const Expr* e : c_.write->index) at_y.push_back(ctx_.substitute(e, places));
      n->writes.push_back({c_.write->array, std::move(at_y), ctx_.substitute(c_.write->value, places)});
    }
    add("", std::move(n));
  }

  // Behind whole tiles, where only the run knows how many points are left along an axis: as they were.
  void left_over() {
    std::vector<const Expr*> first(c_.axes.size(), ctx_.integer(0)), count;
    for (const Convolution::Axis& axis : c_.axes) count.push_back(axis.out->extent);
    for (size_t k = 0; k < c_.axes.size(); ++k) {
      if (knows_rest(ctx_, c_.axes[k].out, tile(k))) continue;
      const Expr* end = ctx_.mul(tiles_[k], ctx_.integer(tile(k)));
      first[k] = end;
      count[k] = ctx_.sub(c_.axes[k].out->extent, end);
      as_it_was(first, count);
      first[k] = ctx_.integer(0);
      count[k] = end;
    }
  }

  void as_it_was(const std::vector<const Expr*>& first, const std::vector<const Expr*>& count) {
    auto n = std::make_unique<nest::Nest>();
    Places places;
    for (const Dim* d : c_.nest->dims) {
      const auto k = static_cast<size_t>(std::find_if(c_.axes.begin(), c_.axes.end(), [&](const Convolution::Axis& axis) { return axis.out == d; }) - c_.axes.begin());
      const bool is_axis = k < c_.axes.size();
      n->dims.push_back(ctx_.declare_dim(d->name, is_axis ? count[k] : d->extent));
      places[at(d)] = is_axis ? ctx_.add(first[k], at(n->dims.back())) : at(n->dims.back());
    }
    Index at_y;
    for (const Expr* e : c_.write->index) at_y.push_back(ctx_.substitute(e, places));
    n->writes.push_back({c_.write->array, std::move(at_y), ctx_.substitute(c_.write->value, places)});
    add("", std::move(n));
  }

  ir::Context& ctx_;
  nest::Function& f_;
  const Convolution& c_;
  std::vector<Transform> transforms_;  // along each axis
  int64_t places_ = 1;                 // of a tile
  const std::string source_;
  const uint32_t part_;
  std::vector<const Expr*> tiles_;     // of them, along each axis
  uint32_t u_ = 0, v_ = 0, m_ = 0;
  std::vector<nest::Statement> made_;
};

}  // namespace

std::vector<nest::Statement> in_tiles(ir::Context& ctx, nest::Function& f, const Convolution& conv, int64_t points) {
  return Rewriter(ctx, f, conv, points).run();
}

}  // namespace mlc::passes
