#include <algorithm>
#include <bit>

#include "packager/loop/ops.h"
#include "packager/schedule/schedule.h"

namespace mlc::schedule {
namespace {

constexpr unsigned kMostVectorBytes = 64, kMostCopies = 64, kMostChains = 64, kMostLanes = 64;
constexpr int64_t kMostHeight = 256;   // of a transposed block
constexpr size_t kMostAxes = 3;       // of a launch, in a plan
constexpr int64_t kTileSide = 8;      // lanes of a tile, along rows and along columns
constexpr int64_t kMostOfValues = 128, kValueWidth = 32;  // sums of a lane; of these, neighbours that go through memory at once
constexpr int64_t kMmaValueWidth = 32;                        // elements of a value that warps take at once
constexpr int64_t kMostCellsOfWarp = 96;                      // of attention, that a lane keeps: queries, and sums
constexpr int64_t kMostCellsOfTwo = 192;                      // the same of a warp with two tiles of queries, scores among them
constexpr int64_t kLeastKeysOfWarp = 16, kMostKeysOfWarp = 64;  // of a turn
constexpr int64_t kMostLanesOfKey = 32, kElementsOfLoad = 4, kMostLoads = 40;  // of attention by single queries: of 16 bytes each, that a lane keeps
constexpr int64_t kGroupShared = 96 << 10;                    // of pieces, where a target is one architecture that has more
constexpr int64_t kMmaShared = 48 << 10;                      // bytes that a block has on every device with tensor cores, without asking for them
constexpr int64_t kMmaPieceBytes = 64, kMostStages = 4;       // of a row or a column; of pieces
constexpr int64_t kMostSlices = 16;   // of a fold, whose columns have one lane each
constexpr int64_t kMostHeights = 16;  // each has code of its own, where the run decides

class Verifier {
 public:
  Verifier(const Schedule& s, const Space& space) : s_(s), space_(space) {}

  Status run() {
    if (s_.family != space_.family) return refused("it is of another family");
    if (!std::has_single_bit(s_.vector_bytes) || s_.vector_bytes > kMostVectorBytes) return refused("vectors have 1 to 64 bytes, a power of two");
    const unsigned block = lanes_of_block();
    if (s_.block != block) return refused(block ? "blocks have " + std::to_string(block) + " lanes" : "a processor has no blocks");
    if (s_.family == Family::Group) return group();
    if (!s_.stages.empty()) return refused("only a group has stages");
    if (s_.family == Family::Proc) return s_.loops.empty() && s_.places.empty() ? ok() : refused("loops of a proc are its own");
    MLC_RETURN_IF_ERROR(order());
    for (const Space::Dim& d : space_.dims) MLC_RETURN_IF_ERROR(dim(d));
    for (const Loop& l : s_.loops)
      if (std::none_of(space_.dims.begin(), space_.dims.end(), [&](const Space::Dim& d) { return d.name == l.dim; })) return refused("there is no such dim", &l);
    MLC_RETURN_IF_ERROR(registers());
    return rest();
  }

 private:
  static Status refused(const std::string& why, const Loop* l = nullptr) {
    return Status(Code::Malformed, "schedule refused: " + why + (l ? " (" + l->dim + ":" + std::to_string(l->step) + ")" : ""));
  }

  unsigned lanes_of_block() const {
    if (is_mma(s_)) return s_.family == Family::Attention ? s_.block : mma_lanes();
    if (is_matrix(s_)) return kMatrixBlock;
    if (has_one_query(s_)) return kQueryLanes;
    return has_columns() ? static_cast<unsigned>(s_.tile.columns * s_.tile.depth) : space_.block;
  }

  // Legal if each nest is at the rows of a block, however many these are.
  Status group() const {
    Blocks rows = s_.blocks;
    rows.rows = 0;
    if (!s_.loops.empty() || !s_.places.empty() || rows != Blocks{} || s_.tile != Tile{} || !s_.instruction.empty()) return refused("loops of a group are those of its stages");
    if (s_.blocks.rows < 0 || s_.blocks.rows > space_.most_rows) return refused("a block has 1 to " + std::to_string(space_.most_rows) + " rows");
    if (s_.stages.size() != space_.stages.size()) return refused("it has " + std::to_string(space_.stages.size()) + " stages");
    for (size_t k = 0; k < s_.stages.size(); ++k) {
      const Schedule& stage = s_.stages[k];
      if (stage.vector_bytes != s_.vector_bytes || stage.hoist != s_.hoist) return refused("stages of a group share the width of vectors, and what is carried out of loops");
      MLC_RETURN_IF_ERROR(verify(stage, space_.stages[k]));
    }
    return ok();
  }

  // What is cut or spread over a grid, then other map dims, then the fold.
  Status order() {
    int stage = 0;
    for (const Loop& l : s_.loops) {
      const int here = l.reduces ? 2 : l.bind == Bind::Cut || l.bind == Bind::Grid || l.bind == Bind::Cluster ? 0 : 1;
      if (here < stage) return refused(here == 0 ? "cuts stand outside of all other loops" : "a fold stands inside of all other loops", &l);
      stage = here;
    }
    size_t axes = 0;
    for (const Loop& l : s_.loops)
      axes += l.bind == Bind::Cut && std::any_of(s_.loops.begin(), s_.loops.end(), [&](const Loop& other) { return &other != &l && other.dim == l.dim; });
    if (axes > kMostAxes) return refused("a launch is cut along at most 3 dims");
    std::vector<size_t> places;
    const size_t maps = static_cast<size_t>(std::count_if(space_.dims.begin(), space_.dims.end(), [](const Space::Dim& d) { return !d.reduces; }));
    for (const Loop& l : s_.loops)
      for (size_t k = maps - std::min(maps, space_.ordered); k < maps; ++k)
        if (space_.dims[k].name == l.dim) places.push_back(k);
    if (!std::is_sorted(places.begin(), places.end()) || std::adjacent_find(places.begin(), places.end()) != places.end())
      return refused("the order of its dims has a meaning");
    return ok();
  }

  Status dim(const Space::Dim& d) {
    std::vector<const Loop*> loops;
    for (const Loop& l : s_.loops)
      if (l.dim == d.name) loops.push_back(&l);
    if (loops.empty()) return refused("no loop walks " + d.name);
    for (size_t k = 0; k < loops.size(); ++k) {
      const Loop& l = *loops[k];
      const bool last = k + 1 == loops.size();
      if (l.step < 1) return refused("a step is at least 1", &l);
      if (l.reduces != d.reduces) return refused(d.reduces ? "a fold stands behind ||" : "it is not of the fold", &l);
      MLC_RETURN_IF_ERROR(bind(d, l, last));
      MLC_RETURN_IF_ERROR(words(d, l));
      if (k > 0 && l.bind == Bind::Cut) return refused("a dim is cut once", &l);
      if (!last && loops[k + 1]->step > l.step) return refused("an inner loop takes shorter steps", loops[k + 1]);
    }
    for (size_t k = 0; k + 1 < loops.size(); ++k) MLC_RETURN_IF_ERROR(fits(*loops[k], *loops.back()));
    return ok();
  }

  Status bind(const Space::Dim& d, const Loop& l, bool last) const {
    switch (l.bind) {
      case Bind::Serial:
        if (last ? !d.serial : !d.block) return refused("it cannot be a loop", &l);
        if (!last && d.reduces) return refused("a fold is not cut into blocks", &l);
        return last && l.step != d.step ? refused("some points are not walked", &l) : ok();
      case Bind::Cut:
        if (!d.cut || d.reduces || space_.block) return refused("it cannot be cut", &l);
        return last && l.step != 1 ? refused("some points are not walked", &l) : ok();
      case Bind::Grid:
        if (!d.cut || d.reduces || !space_.block) return refused("it cannot be spread over a grid", &l);
        return l.step != 1 || !last ? refused("a lane has one point", &l) : ok();
      case Bind::Cluster:
        if (!d.cluster || d.extent < 2 || d.extent > loop::kMaxClusterBlocks) return refused("its points are no blocks of a cluster", &l);
        return l.step != 1 || !last ? refused("a block has one point", &l) : ok();
      case Bind::Rows: return !d.rows || !last ? refused("it cannot be rows", &l) : ok();
      case Bind::Lanes:
        if (l.count < 1 || l.count > kMostCopies) return refused("there are not so many vectors", &l);
        if (!last || !std::has_single_bit(static_cast<uint64_t>(l.step)) || l.step > d.lanes || l.step > kMostLanes) return refused("it has no such lanes", &l);
        return d.reduces && (!d.part || d.extent < 0 || (d.extent % l.step != 0 && !d.masked)) ? refused("lanes of a fold divide it", &l) : ok();
      case Bind::Unroll:
        if (!last || l.step != d.step) return refused("some points are not walked", &l);
        if (d.exact && (l.count == 0 || d.extent % l.count != 0)) return refused("copies divide it", &l);
        return (l.count == 0 ? !d.unroll : !d.part || l.count > kMostCopies) ? refused("it cannot be unrolled so", &l) : ok();
    }
    return refused("there is no such loop", &l);
  }

  Status words(const Space::Dim& d, const Loop& l) const {
    const bool rows = l.bind == Bind::Rows, lanes = l.bind == Bind::Lanes;
    if (l.chains < 1 || l.chains > kMostChains || (l.chains > 1 && !(d.reduces && d.part))) return refused("it has no chains", &l);
    if (l.even && !rows) return refused("only rows are even", &l);
    if (l.peel && !((rows && (l.even ? d.peel : d.peel_ends)) || (l.bind == Bind::Unroll && l.count == 0 && d.peel))) return refused("it cannot be peeled", &l);
    if (rows && l.even && d.needs_peel && !l.peel) return refused("rows at the edge read what does not exist", &l);
    if (rows && !l.even && d.even_only) return refused("its rows are even", &l);
    if (rows && l.even && d.extent < 0 && l.step > kMostHeights) return refused("there are too many heights", &l);
    if (l.count != 1 && !lanes && l.bind != Bind::Unroll) return refused("only lanes and copies are counted", &l);
    if (l.tail != Tail::Mask && !(rows && !l.even && l.tail == Tail::One) && !(lanes && (l.count == 1 || space_.family == Family::Map) && !d.reduces && !d.masked)) return refused("it has no such tail", &l);
    return rows && !l.even && l.tail != Tail::One ? refused("rows of a fixed height end one by one", &l) : ok();
  }

  // What the outer loop of a dim leaves to its last one.
  // Where it begins a vector must not depend on how a launch is cut: its lanes may add up in another order than one point does.
  Status fits(const Loop& outer, const Loop& inner) const {
    const bool decoded = s_.family == Family::Decoded;
    if (inner.bind == Bind::Rows && (outer.step != inner.step || !(inner.even || decoded))) return refused("rows are cut between tiles", &outer);
    if (inner.bind == Bind::Lanes && decoded && outer.step != space_.panel) return refused("columns are cut between panels", &outer);
    // Vectors of a map do not meet each other, hence one more or less side by side is no difference.
    const int64_t group = s_.family == Family::Map ? inner.step : inner.step * inner.count;
    if (inner.bind == Bind::Lanes && outer.step % group != 0) return refused("columns are cut between groups", &outer);
    return ok();
  }

  Status registers() const {
    int64_t rows = 1, vectors = 1, num_rows = 0, num_lanes = 0;
    for (const Loop& l : s_.loops) {
      if (l.bind == Bind::Rows) rows = l.step, ++num_rows;
      if (l.bind != Bind::Lanes || l.reduces) continue;
      vectors = l.count, ++num_lanes;
      const int64_t width = l.step * vectors, panel = space_.panel;
      if (vectors < 1 || vectors > space_.most_vectors) return refused("there are not so many vectors", &l);
      if (s_.family == Family::Decoded && width != panel) return refused("groups of columns are panels", &l);
      if (panel && width % panel != 0 && panel % width != 0) return refused("groups of columns are panels or parts of one", &l);
    }
    if (s_.family == Family::Transpose && !space_.block) MLC_RETURN_IF_ERROR(block());
    if (num_rows > 1 || num_lanes > 1) return refused("rows and lanes are of one dim each");
    if (space_.needs_lanes && num_lanes == 0) return refused("its columns are lanes");
    if (space_.needs_rows && num_rows == 0) return refused("it has rows");
    return rows > space_.most_accumulators || rows * vectors > space_.most_accumulators ? refused("there are too many accumulators") : ok();
  }

  // What is stored in memory between reading and writing: whole vectors both ways.
  Status block() const {
    int64_t height = 0, lanes = 0;
    for (const Loop& l : s_.loops) {
      if (l.bind == Bind::Serial && l.step > 1) height = height ? -1 : l.step;
      if (l.bind == Bind::Lanes) lanes = l.step;
    }
    return lanes < 2 || height < lanes || height % lanes != 0 || height > kMostHeight ? refused("a block is some vectors wide and high") : ok();
  }

  Status rest() const {
    const bool product = s_.family == Family::Product || s_.family == Family::Thin;
    const auto has = [](const std::vector<std::string>& names, const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); };
    if (s_.instruction.empty() ? !space_.instructions.empty() : !has(space_.instructions, s_.instruction)) return refused("there is no instruction " + s_.instruction);
    std::vector<std::string> seen;
    for (const Place& p : s_.places) {
      if (!has(space_.places, p.what) || has(seen, p.what)) return refused("there is no place for " + p.what);
      if (p.lanes < 1 || p.lanes > kMostLanes || !std::has_single_bit(p.lanes) || (p.lanes > 1 && s_.family != Family::Thin)) return refused(p.what + " have no such lanes");
      seen.push_back(p.what);
    }
    for (const std::string& place : space_.needed_places)
      if (!has(seen, place)) return refused("there is no place for " + place);
    MLC_RETURN_IF_ERROR(tile());
    if (is_tiled(s_)) MLC_RETURN_IF_ERROR(tiles());
    if (s_.blocks != Blocks{} && !product) return refused("only products have blocks");
    const int64_t parts[] = {s_.blocks.steps, s_.blocks.bytes, s_.blocks.rows, s_.blocks.passes};
    const bool all = std::all_of(std::begin(parts), std::end(parts), [](int64_t n) { return n >= 1 && n <= int64_t{1} << 40; });
    if (s_.blocks != Blocks{} && !all) return refused("a block has steps, bytes, rows and passes");
    const int64_t depth = s_.blocks.depth;
    if (depth < 0 || s_.blocks.shared < 0 || (depth > 0 && !has_depth(depth))) return refused("blocks have no such depth");
    return s_.blocks.fetch && !space_.fetch ? refused("there is nothing to fetch") : ok();
  }

  // Every lane of a tile has as many rows and columns as the others, and brings as much of each factor.
  Status tile() const {
    const Tile& t = s_.tile;
    if (t.warp != 0 && !(is_mma(s_) && s_.family == Family::Attention)) return refused("only attention says what a warp has");
    if (is_mma(s_) && s_.family != Family::Attention) return mma();
    if (is_matrix(s_)) return matrix();
    if (t.stages != 0) return refused("only products of warps have stages");
    if (is_group_mma(s_)) return refused("attention is not for groups of warps");
    if (is_mma(s_)) return mma_attention();
    if (has_one_query(s_)) return query();
    if (s_.family == Family::Slices) return slices();
    if (s_.family == Family::Lines) return lines();
    if (s_.family == Family::Fold && space_.tile_columns > 0) return columns();
    if (s_.family != Family::Tile && s_.family != Family::Attention) return t == Tile{} ? ok() : refused("only products of devices have tiles");
    const auto is_side = [&](int64_t n) { return n == 2 * kTileSide || n == 4 * kTileSide || n == 8 * kTileSide; };
    const int64_t lanes = space_.block;
    if (!is_side(t.rows) || !is_side(t.columns)) return refused("a tile has 16, 32 or 64 rows and columns");
    if (t.depth < 1 || t.depth > kMostCopies || t.depth % cell_values(s_) != 0) return refused("a tile is whole steps deep, 64 values at most");
    const int64_t steps = t.depth / cell_values(s_);
    if (steps % (lanes / std::min(t.rows, t.columns)) != 0) return refused("the lanes do not divide the depth of a tile");
    if (t.copies < 1 || steps % t.copies != 0) return refused("copies divide the depth of a tile");
    if (s_.family == Family::Attention) return attention();
    const int64_t sums = s_.places.empty() ? 0 : t.rows * t.columns;
    return (std::max((t.rows + t.columns) * steps, sums)) * 4 > space_.shared_bytes ? refused("the tile is larger than the memory of a block") : ok();
  }
  // Four tiles of sums, whose factors are whole lines or parts of one that divide the fold.
  Status tiles() const {
    for (const Loop& l : s_.loops) {
      if (l.bind == Bind::Rows && l.step > 2 * int64_t{loop::kTileSide}) return refused("two blocks of rows have tiles", &l);
      if (l.bind == Bind::Lanes && (l.step != loop::kTileSide || l.count > 2)) return refused("two panels have tiles", &l);
    }
    const Loop& k = s_.loops.back();
    const Space::Dim& fold = space_.dims.back();
    const bool fits = fold.filled ? k.count == 16 : (k.count == 4 || k.count == 8 || k.count == 16) && fold.extent % (k.step * k.count) == 0;
    if (k.bind != Bind::Unroll || k.chains != 1 || !fits) return refused("a tile is 4, 8 or 16 groups deep, which divide the fold or it is filled up to 16", &k);
    if (s_.blocks.depth != 0) return refused("sums of tiles are of the whole fold");
    return s_.places != std::vector<Place>{{"sums", 1}} ? refused("sums of tiles go through memory") : ok();
  }
  // Four warps, or eight, two of them along the rows.
  unsigned mma_lanes() const { return is_group_mma(s_) ? static_cast<unsigned>(2 * s_.tile.rows) : s_.tile.rows == 128 && s_.tile.columns == 128 ? 256 : 128; }
  Status mma() const {
    const Tile& t = s_.tile;
    const auto is_side = [](int64_t n) { return n == 32 || n == 64 || n == 128; };
    const bool is_group = is_group_mma(s_);
    if (is_group ? s_.instruction == "wgmma.f32" || (t.rows != 64 && t.rows != 128) || (t.columns != 64 && t.columns != 128 && !(t.columns == 256 && t.rows == 128)) : !is_side(t.rows) || !is_side(t.columns))
      return refused(is_group ? "a tile of groups of warps has 64 rows and 64 or 128 columns, or 128 rows and 64, 128 or 256 columns" : "a tile of warps has 32, 64 or 128 rows and columns");
    if (t.depth != (s_.instruction == "mma.f32" ? 16 : s_.instruction.ends_with(".i8") ? 64 : 32) || t.copies != 1) return refused("a piece of such a tile is 16 cells deep, and there is one copy");
    if (t.stages < 2 || t.stages > kMostStages || t.stages * (t.rows + t.columns) * kMmaPieceBytes > (is_group ? kGroupShared : kMmaShared)) return refused("a block has memory for two to four pieces, 48 KB, 96 KB of groups of warps");
    return s_.places.empty() ? ok() : refused("sums of such a tile go through memory anyhow");
  }
  Status matrix() const {
    const Tile& t = s_.tile;
    const auto is_side = [](int64_t n) { return n == 32 || n == 64 || n == 128; };
    if (s_.family != Family::Tile || !is_side(t.rows) || !is_side(t.columns) || t.rows + t.columns > kMostMatrixSides) return refused("a tile of subgroups has 32, 64 or 128 rows and columns, 192 of both at most");
    if (t.depth != 32 || t.copies != 1 || t.stages != 2) return refused("a piece of such a tile is 32 steps deep, there is one copy, and memory for two pieces");
    return s_.places.empty() ? ok() : refused("sums of such a tile go through memory anyhow");
  }
  // Keys and values of a turn are stored in memory at once, then sums of all shares on their way out.
  Status mma_attention() const {
    const Tile& t = s_.tile;
    const int64_t values = s_.instruction == "mma.f32" ? 1 : 2, elements = (space_.tile_columns + kMmaValueWidth - 1) / kMmaValueWidth * kMmaValueWidth;
    const auto is_one_of = [](int64_t n, int64_t a, int64_t b, int64_t c) { return n == a || n == b || n == c; };
    if (t.warp != 16 && t.warp != 32) return refused("a warp has 16 or 32 queries");
    if (t.rows < 1 || t.rows % t.warp != 0 || !is_one_of(t.rows / t.warp, 1, 2, 4)) return refused("the queries of one, two or four warps are a block's");
    const int64_t shares = key_shares(s_);
    if (s_.block != loop::kMmaLanes * static_cast<uint64_t>(t.rows / t.warp * shares) || !is_one_of(shares, 1, 2, 4)) return refused("one, two or four warps share the keys of a turn");
    if (shares > 1 && t.warp != 16) return refused("warps that share keys have 16 queries");
    if (!is_one_of(s_.block, 64, 128, 256) || s_.block > 4 * t.columns) return refused("blocks have two, four or eight warps, and each lane brings a part of a turn");
    if (!is_one_of(t.columns, 32, 64, 128)) return refused("warps take 32, 64 or 128 keys in a turn");
    if (t.columns / shares < kLeastKeysOfWarp || t.columns / shares > kMostKeysOfWarp) return refused("a warp takes 16 to 64 keys of a turn");
    if (t.depth != space_.mma_depth || !t.flat || t.copies != 1) return refused("warps take queries and keys wholly, and there is one copy");
    const int64_t cells = (t.depth / values + elements) / 2, scores = t.columns / shares / 2;
    if (t.warp == 16 ? cells > kMostCellsOfWarp : 2 * (cells + scores) > kMostCellsOfTwo) return refused("a lane has too many sums");
    const int64_t turn = t.columns * (t.depth + elements + (values == 1 ? 4 : 8)) / values, results = shares * t.rows * (kMmaValueWidth + (values == 1 ? 4 : 8));
    const bool in_cluster = std::any_of(space_.dims.begin(), space_.dims.end(), [](const Space::Dim& d) { return d.cluster; });
    if ((std::max(turn, results) + ((shares == 1 ? 1 : 2 * shares) + in_cluster) * t.rows) * 4 > kMmaShared) return refused("the tile is larger than the memory of a block");
    return s_.places.empty() ? ok() : refused("sums of such a tile go through memory anyhow");
  }
  // All lanes of a key belong to one warp, and a turn's keys and values are in registers at once.
  Status query() const {
    const Tile& t = s_.tile;
    if (space_.query_depth == 0) return refused("lanes do not share keys");
    if (t.depth < 2 || t.depth > kMostLanesOfKey || !std::has_single_bit(static_cast<uint64_t>(t.depth))) return refused("2 to 32 lanes share a key, a power of two");
    const int64_t groups = kQueryLanes / t.depth, piece = t.depth * kElementsOfLoad;
    if (!t.flat || t.copies < 1 || t.copies > kMostCopies || t.columns != groups * t.copies) return refused("keys of a turn are so many for each group of lanes");
    const int64_t factors = (space_.query_depth + piece - 1) / piece, values = (space_.tile_columns + piece - 1) / piece;
    if (t.copies * (factors + values) + factors + values > kMostLoads) return refused("a lane has too many elements");
    if (groups * values * piece * 4 > space_.shared_bytes) return refused("results are larger than the memory of a block");
    return s_.places.empty() ? ok() : refused("results of groups go through memory anyhow");
  }
  Status slices() const {
    const Tile& t = s_.tile;
    if (t.rows != space_.tile_rows || t.columns < 1 || t.depth < 1 || t.columns > s_.block || t.columns * t.depth != s_.block) return refused("lanes are columns times slices");
    return t.copies < 1 || t.copies > kMostCopies ? refused("there are not so many copies") : ok();
  }

  // Scores of a turn, pieces of both products, one number for each query and one for each lane are stored in memory at once.
  Status attention() const {
    const Tile& t = s_.tile;
    if (t.columns % t.depth != 0) return refused("keys of a turn are whole pieces");
    if (t.depth * space_.tile_columns % space_.block != 0) return refused("the lanes do not divide a piece of values");
    if (t.rows / kTileSide * (space_.tile_columns / kTileSide) > kMostOfValues) return refused("a lane has too many sums");
    const int64_t width = std::min(space_.tile_columns, kValueWidth);
    const int64_t scores = t.rows * std::max(t.columns, width), piece = std::max((t.rows + t.columns) * t.depth, t.depth * space_.tile_columns);
    return (scores + piece + t.rows + space_.block) * 4 > space_.shared_bytes ? refused("the tile is larger than the memory of a block") : ok();
  }

  // Half of the lanes of a row join what the other half has, then half of these.
  Status lines() const {
    const Tile& t = s_.tile;
    if (t.columns < 1 || !std::has_single_bit(static_cast<uint64_t>(t.columns)) || t.rows < 1 || t.rows > s_.block || t.rows * t.columns != s_.block)
      return refused("lanes are rows times lanes of a row, a power of two");
    return t.depth != 1 || t.copies != 1 || t.flat ? refused("rows have neither depth nor copies") : ok();
  }

  // Whether a block has some points of a fold, and the slices of it that memory of every such device has room for.
  bool has_columns() const {
    const Tile& t = s_.tile;
    return s_.family == Family::Fold && space_.tile_columns > 0 && t.columns == space_.tile_columns && t.depth >= 2 && t.depth <= kMostSlices &&
           std::has_single_bit(static_cast<uint64_t>(t.depth)) && t.columns * t.depth <= space_.block;
  }
  Status columns() const {
    const Tile& t = s_.tile;
    if (!has_columns()) return refused("lanes are columns times 2 to 16 slices of the fold, a power of two");
    if (t.rows != 0 || t.flat) return refused("columns of a fold have no rows");
    return t.copies < 1 || t.copies > kMostCopies ? refused("there are not so many copies") : ok();
  }

  // Of a group of columns all rows go by, for one part of the fold after the other.
  bool has_depth(int64_t depth) const {
    const Loop *columns = nullptr, *last = nullptr;
    for (const Loop& l : s_.loops) {
      if (l.reduces) continue;
      last = &l;
      if (l.bind == Bind::Lanes) columns = &l;
    }
    return space_.depth > 0 && space_.depth % depth == 0 && depth % space_.dims.back().step == 0 && columns && last->bind == Bind::Rows && last->even &&
           columns + 1 == last;
  }

  const Schedule& s_;
  const Space& space_;
};

}  // namespace

bool is_tiled(const Schedule& s) { return s.instruction.starts_with("tiles."); }
bool is_dot(const Schedule& s) { return s.family == Family::Tile && s.instruction == kDotInstruction; }
int64_t cell_values(const Schedule& s) { return is_dot(s) ? int64_t{loop::kCodesOfCell} : 1; }
bool is_mma(const Schedule& s) { return s.instruction.starts_with("mma.") || is_group_mma(s); }
bool is_matrix(const Schedule& s) { return s.instruction.starts_with("matrix."); }
bool is_group_mma(const Schedule& s) { return s.instruction.starts_with("wgmma."); }
bool has_one_query(const Schedule& s) { return s.family == Family::Attention && s.tile.rows == 1; }

int64_t key_shares(const Schedule& s) {
  const int64_t along_rows = s.tile.warp ? s.tile.rows / s.tile.warp : 0;
  return along_rows ? s.block / (loop::kMmaLanes * along_rows) : 0;
}

Status verify(const Schedule& schedule, const Space& space) { return Verifier(schedule, space).run(); }

}  // namespace mlc::schedule
