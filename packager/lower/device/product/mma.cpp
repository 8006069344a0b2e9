// A tile of a product on tensor cores (loop::StmtKind::Mma): 4 or 8 warps, two of them along the rows, each with its part of the sums. Or four warps multiply 64 rows by
// all columns together, of factors where they lie in shared memory (GroupMma): "wgmma." instructions, of 16 bits and codes; groups stand one below the other.
//
//   for the points of the outer folded dims
//     each lane brings some chunks of rows and columns to shared memory, which has room for a few pieces
//     for pieces of the depth
//       barrier: the piece is there, and what lay where another one goes is used
//       copies of the last piece that there is room for begin, or loads of the next one
//       each warp multiplies its rows by its columns
//       what was loaded goes to memory
//   16 rows of each warp after the other: sums to shared memory, from where neighbouring lanes write neighbouring columns
//
// All is cells of 32 bits: an f32, two neighbours along the depth of f16 or bf16, or four of codes of 8 bits. A piece is 16 cells deep, four chunks of four. Chunk c
// of row r lies at 4r + (c xor r/2 mod 4): one chunk of eight rows, which warps load at once (loop::StmtKind::LoadMatrices), meets in no bank, and neither do
// lanes that write. What such a load gives is what an instruction takes: of 16 rows cells t and t + 4 of a step, of eight columns those of both steps of a piece.
//
// f32 is three products of tf32: a = high + low, high the bits that tf32 has, low exact in f32 and cut by the instruction. The smallest
// products are added first. Factors that the nest rounds to tf32 (ir::Op::Tf32, mlpack build --precision tf32) have no low part: they are
// rounded on their way to shared memory, once for a block, or behind it where they are copied beside the lanes, and multiplied once. Tensor cores cut sums instead of rounding them: those of
// a piece begin at zero and are added to all others by an addition of f32, so that the error does not grow with the depth.
//
// Chunks that memory takes as they lie in the array are copied beside the lane (loop::StmtKind::Copy), so many pieces ahead as there is room for beside the
// one that is multiplied. So are cells of f32, of pairs or of four codes one by one where chunks do not lie together, as in panels of weights: eight lanes side by side have eight rows, four
// such groups the cells of a chunk, which meet in no bank. Elements of 16 bits of which eight rows or columns lie side by side, one step of the depth
// after the other (panels of weights, matrices that are transposed), are copied as they lie: eight of them are a chunk, 32 steps its rows, turned by their number, and warps load their
// matrices transposed. All others go through registers, one piece ahead: what has to be put together, rounded or flipped, or what is not zero where nothing counts.
//
// Codes have sums of i32, which are exact. A lane loads as many at once as lie side by side along the depth: a chunk, a cell (panels of weights have
// those of 16 columns one after the other), or one.
#include "packager/lower/device/product/mma.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

constexpr int64_t kGroupChunks = loop::kGroupCells / kCellsOfChunk;  // factors of groups of warps begin at multiples of so many
constexpr int64_t kPadOfSums = 8;                    // behind each row of sums in memory: four rows meet in no bank
constexpr uint32_t kFirstBits = 0x80808080;    // of four codes
constexpr int64_t kEight = 8;                  // rows that lie in banks of their own
constexpr int64_t kLargeOfWarp = 64 * 32, kFewLanes = 128;  // sums of a warp, of which a lane has 64
constexpr uint32_t kResidentLarge = 3;

class ProductMma final : public MmaStage {
 public:
  ProductMma(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how)
      : MmaStage(job, nest, k, p, how, factors_of(p)), lanes_(how.block), is_group_(schedule::is_group_mma(how)), warp_rows_(is_group_ ? lanes_ / kWarpLanes : 2) {
    init(rows_, p_.rows, how_.tile.rows, how_.tile.rows / warp_rows_, 0);
    init(columns_, p_.columns, how_.tile.columns, how_.tile.columns / (lanes_ / kWarpLanes / warp_rows_), how_.tile.rows * kRowChunks);
    rows_.is_short = is_short(p.rows.factor), columns_.is_short = is_short(p.columns.factor);
    for (Part* part : {&columns_, &rows_}) {
      grid.push_back(ctx_.ceildiv(part->side->points, ctx_.integer(part->size)));
      if (of_codes()) part->codes = take_codes(ctx_, *part->side);
    }
    if (p_.cluster) grid.push_back(p_.cluster->extent);
    // Of three products 168 registers of a lane are enough; the assembler takes a few more as it comes, and then two blocks are at once. Points of several dims, as of pictures, have more places.
    const bool is_plain = p_.rows.dims.size() == 1 && p_.columns.dims.size() == 1 && !rows_.is_short && !columns_.is_short;
    if (factors_ == DType::F32 && is_plain && rows_.of_warp * columns_.of_warp == kLargeOfWarp && lanes_ == kFewLanes) k_.kernel.resident = kResidentLarge;
    stages_ = how_.tile.stages;
    piece_ = (rows_.size + columns_.size) * kRowChunks;
    const int64_t sums = warp_rows_ * kMmaRows * width_of_sums();
    memory_ = k_.shared("tile", DType::U32, std::max(stages_ * piece_ * kCellsOfChunk, sums));
  }

 private:
  // A chunk that a lane brings in each piece.
  struct Brought {
    std::vector<const Expr*> at;     // of its row or column, along the dims of the side
    const Expr *chunk = nullptr, *place = nullptr;  // of the piece, or of a side by points its step of the depth; in memory, in chunks
    Reached reached;
  };
  // Rows or columns of the block.
  struct Part {
    Side* side = nullptr;
    int64_t size = 0, of_warp = 0, begin = 0;   // begin: in memory, in chunks
    bool is_short = false;                      // tf32 holds the factor
    int64_t copied = 0;                         // bytes at once, beside the lane; 0: all goes through registers
    bool by_points = false;                     // chunks are of points one after the other, each of a step of the depth
    const Expr* chunks = nullptr;               // where the depth begins, counted in chunks, if each is a load; null: it is not
    CodeSide codes;
    DepthRuns runs;                              // of codes that are loaded at once
    const Expr* first = nullptr;                // of the block
    const Expr* places[2] = {nullptr, nullptr};  // where what this lane names lies, of the first tile of its warp: of rows by step of a piece
    std::vector<Brought> brought;
  };

  void init(Part& part, Side& side, int64_t size, int64_t of_warp, int64_t begin) {
    part.side = &side, part.size = size, part.of_warp = of_warp, part.begin = begin;
  }

  void part(const std::vector<Range>&) override {}

  const Expr* product(const Expr* sums, const Expr* a, const Expr* b) override {
    return of_codes() ? k_.b.mma(rows_.codes.type, sums, a, b, columns_.codes.type) : MmaStage::product(sums, a, b);
  }

  void block(const std::vector<const Expr*>& at, const Expr* lane) override {
    bind_batch(at);
    columns_.first = k_.b.let(ctx_.mul(at[p_.batch.size()], number(columns_.size)));
    rows_.first = k_.b.let(ctx_.mul(at[p_.batch.size() + 1], number(rows_.size)));
    const Expr* warp = k_.b.let(ctx_.floordiv(lane, number(kWarpLanes)));
    warp_row_ = k_.b.let(ctx_.floormod(warp, number(warp_rows_))), warp_column_ = is_group_ ? number(0) : k_.b.let(ctx_.floordiv(warp, number(warp_rows_)));
    group_ = k_.b.let(ctx_.floordiv(ctx_.floormod(lane, number(kWarpLanes)), number(kRowChunks))), in_group_ = k_.b.let(ctx_.floormod(lane, number(kRowChunks)));
    for (Part* part : {&rows_, &columns_}) {
      share_bringing(*part, lane);
      if (is_group_) continue;
      part->places[0] = place_named(*part, lane, 0);
      if (part == &rows_) part->places[1] = place_named(*part, lane, 1);
    }
    for (int64_t k = 0; k < tiles(rows_, kMmaRows) * tiles(columns_, kMmaColumns); ++k) sums_.push_back(k_.b.local(zero(4)));
    s_.scoped([&] { over_outer([&] { add_products(); }); });
    for (int64_t m = 0; m < tiles(rows_, kMmaRows); ++m) finish_rows(m, lane);
    if (p_.cluster) meet_cluster();  // no block ends while others read what it has
  }

  static int64_t tiles(const Part& part, int64_t size) { return part.of_warp / size; }

  // Neighbouring lanes bring what lies side by side in memory: chunks of a row, or rows of a chunk.
  void share_bringing(Part& part, const Expr* lane) {
    const bool along_depth = is_along_depth(*part.side);
    part.by_points = values_ == 2 && job_.target.copies_aside && lies_along_points(ctx_, s_.facts, *part.side, points_of_chunk());
    if (part.by_points) return share_steps(part, lane);
    if (of_codes()) part.runs = depth_runs(ctx_, s_.facts, p_, *part.side, kCellsOfChunk * values_, values_);
    else part.chunks = chunks_of(*part.side);
    if (job_.target.copies_aside && !of_codes()) part.runs = runs_copied(ctx_, s_.facts, p_, *part.side, kCellsOfChunk * values_);
    if (job_.target.copies_aside) part.copied = of_codes() ? bytes_copied(*part.side, part.codes, part.runs) : part.runs.length > 1 ? part.runs.length * kCellBytes / values_ : bytes_copied(ctx_, s_.facts, p_, *part.side, part.chunks != nullptr);
    if (part.copied == kCellBytes) return share_cells(part, lane);
    for (int64_t k = 0; k < part.size * kRowChunks / lanes_; ++k) {
      const Expr* turn = ctx_.add(lane, number(k * lanes_));
      const Expr* row = k_.b.let(along_depth ? ctx_.floordiv(turn, number(kRowChunks)) : ctx_.floormod(turn, number(part.size)));
      Brought one;
      one.chunk = k_.b.let(along_depth ? ctx_.floormod(turn, number(kRowChunks)) : ctx_.floordiv(turn, number(part.size)));
      one.place = k_.b.let(ctx_.add(at_chunk(row, one.chunk), number(part.begin)));
      part.brought.push_back(std::move(one));
      bind_points(part, row, 1);
    }
  }

  int64_t points_of_chunk() const { return kCellsOfChunk * values_; }

  // A lane has one chunk of some steps of the depth, neighbouring lanes those of one step.
  void share_steps(Part& part, const Expr* lane) {
    part.copied = kChunkBytes;
    const int64_t chunks = part.size / points_of_chunk(), turn = lanes_ / chunks;
    const Expr *chunk = k_.b.let(ctx_.floormod(lane, number(chunks))), *first_step = k_.b.let(ctx_.floordiv(lane, number(chunks)));
    for (int64_t first = 0; first < how_.tile.depth; first += turn) {
      Brought one;
      one.chunk = k_.b.let(ctx_.add(first_step, number(first)));
      one.place = k_.b.let(ctx_.add(step_place(part, one.chunk, chunk), number(part.begin)));
      part.brought.push_back(std::move(one));
    }
    bind_points(part, ctx_.mul(chunk, number(points_of_chunk())), static_cast<int64_t>(part.brought.size()), points_of_chunk());
  }

  // Where a chunk of a step lies, in chunks: eights of them one behind the other, each of all steps. With fewer than eight two steps share what all banks have at once.
  const Expr* step_place(const Part& part, const Expr* step, const Expr* chunk) {
    const int64_t chunks = part.size / points_of_chunk();
    if (chunks < kEight) return ctx_.add(ctx_.mul(step, number(chunks)), ctx_.binary(Op::BitXor, chunk, ctx_.floormod(ctx_.floordiv(step, number(2)), number(kRowChunks))));
    const Expr* in_eight = ctx_.binary(Op::BitXor, ctx_.floormod(chunk, number(kEight)), ctx_.floormod(step, number(kEight)));
    return ctx_.add(ctx_.mul(ctx_.floordiv(chunk, number(kEight)), number(kEight * how_.tile.depth)), ctx_.add(ctx_.mul(step, number(kEight)), in_eight));
  }

  // The row that this lane names to LoadMatrices, in chunks: row i of matrix j. Of rows of a product these are rows 0 to 7 and 8 to 15 of the first chunk of a step, then of the second one; of columns all chunks of a piece.
  const Expr* place_named(const Part& part, const Expr* lane, int64_t step) {
    const bool of_rows = &part == &rows_;
    const Expr *i = ctx_.floormod(lane, number(kEight)), *j = ctx_.floordiv(ctx_.floormod(lane, number(kWarpLanes)), number(kEight));
    const Expr* lower = of_rows ? ctx_.floormod(j, number(2)) : number(0);
    const Expr* chunk = of_rows ? ctx_.add(ctx_.floordiv(j, number(2)), number(2 * step)) : j;
    const Expr *of_warp = ctx_.mul(of_rows ? warp_row_ : warp_column_, number(part.of_warp)), *place = nullptr;
    if (part.by_points) place = step_place(part, ctx_.add(ctx_.mul(chunk, number(kEight)), i), ctx_.add(ctx_.floordiv(of_warp, number(kEight)), lower));
    else place = ctx_.add(ctx_.mul(of_warp, number(kRowChunks)), at_chunk(ctx_.add(ctx_.mul(lower, number(kEight)), i), chunk));
    return k_.b.let(ctx_.add(place, number(part.begin)));
  }

  // Of copies of single cells a lane has one cell of each chunk of its rows.
  void share_cells(Part& part, const Expr* lane) {
    const Expr *warp = k_.b.let(ctx_.floordiv(lane, number(kWarpLanes))), *in_eight = k_.b.let(ctx_.floormod(lane, number(kEight)));
    cell_ = k_.b.let(ctx_.floormod(ctx_.floordiv(lane, number(kEight)), number(kCellsOfChunk)));
    // Chunks of eight rows lie as those of the eight before: what comes next is a constant away.
    std::vector<const Expr*> places;
    for (int64_t chunk = 0; chunk < kRowChunks; ++chunk)
      places.push_back(k_.b.let(ctx_.add(ctx_.mul(warp, number(kEight * kRowChunks)), at_chunk(in_eight, number(chunk)))));
    const int64_t rows = lanes_ / kWarpLanes * kEight;  // of all warps
    for (int64_t first = 0; first < part.size; first += rows) {
      for (int64_t chunk = 0; chunk < kRowChunks; ++chunk) {
        Brought one;
        one.chunk = number(chunk);
        one.place = ctx_.add(places[static_cast<size_t>(chunk)], number(first * kRowChunks + part.begin));
        part.brought.push_back(std::move(one));
      }
      bind_points(part, k_.b.let(ctx_.add(ctx_.add(ctx_.mul(warp, number(kEight)), in_eight), number(first))), kRowChunks);
    }
  }

  // The dims of the side for the last `count` that are brought, which are of one row.
  void bind_points(Part& part, const Expr* row, int64_t count, int64_t together = 1) {
    std::vector<const Expr*> extents;
    for (const ir::Dim* d : part.side->dims) extents.push_back(d->extent);
    const std::vector<const Expr*> at = k_.decoded(existing(*part.side, ctx_.add(part.first, row), part.size, together), extents);
    for (int64_t k = 0; k < count; ++k) part.brought[part.brought.size() - 1 - static_cast<size_t>(k)].at = at;
  }

  void with_brought(const Part& part, const Brought& one, const std::function<void()>& body) {
    s_.scoped([&] {
      for (size_t d = 0; d < part.side->dims.size(); ++d) s_.bind(part.side->dims[d], one.at[d]);
      body();
    });
  }

  void add_products() {
    for (Part* part : {&rows_, &columns_})
      for (Brought& one : part->brought) with_brought(*part, one, [&] {
          one.reached = reach_chunks(*part->side, part->chunks);
          if (part->runs.length > 1 && p_.depth.size() == 1) one.reached.base = k_.b.let(s_.value(part->runs.base)), one.reached.stride = k_.b.let(s_.value(part->runs.step));
        });
    k_.b.with_if(ctx_.binary(Op::Lt, number(0), p_.depth_points), [&] {
      if (!p_.outer.empty()) k_.b.append(loop::StmtKind::Barrier);  // the last piece of the point before is used
      const int64_t ahead = stages_ - 1;
      for (int64_t k = 0; k < ahead; ++k) begin_copies(number(k * how_.tile.depth), number(k));
      std::vector<const Expr*> cells;
      each_loaded([&](const Part& part, const Brought& one) { cells.push_back(k_.b.local(bring(part, one, number(0)))); });
      store(cells, number(0));
      k_.b.with_rolled_for(number(0), p_.depth_points, how_.tile.depth, [&](const Expr* first) { turn(first, cells); });
      if (is_any_copied()) k_.b.wait_copies(0);
    });
  }

  // A piece of the depth. Its copies have a wait and the barrier between them and the loads of it, and so have its loads of the turn before and their stores.
  void turn(const Expr* first, const std::vector<const Expr*>& cells) {
    const int64_t step = how_.tile.depth, last = stages_ - 1;
    const Expr* stage = k_.b.let(ctx_.floormod(ctx_.floordiv(first, number(step)), number(stages_)));
    if (is_any_copied()) k_.b.wait_copies(last - 1);
    k_.b.append(loop::StmtKind::Barrier);
    begin_copies(k_.b.let(ctx_.add(first, number(last * step))), k_.b.let(ctx_.select(ctx_.binary(Op::Lt, number(0), stage), ctx_.sub(stage, number(1)), number(last))));
    const Expr* next = k_.b.let(ctx_.add(first, number(step)));
    if (!cells.empty())
      k_.b.with_if(ctx_.binary(Op::Lt, next, p_.depth_points), [&] {
        size_t k = 0;
        each_loaded([&](const Part& part, const Brought& one) { k_.b.assign(cells[k++], bring(part, one, next)); });
      });
    if (is_group_) multiply_in_groups(stage);
    else multiply(k_.b.let(ctx_.mul(stage, number(piece_))));
    if (!cells.empty()) store(cells, k_.b.let(ctx_.select(ctx_.binary(Op::Lt, stage, number(last)), ctx_.add(stage, number(1)), number(0))));  // behind the last piece: something, which is not read
  }

  bool is_any_copied() const { return rows_.copied || columns_.copied; }

  // Those of the piece that begins at `first`, if there is one; they are a group in either case.
  void begin_copies(const Expr* first, const Expr* stage) {
    if (!is_any_copied()) return;
    k_.b.with_if(ctx_.binary(Op::Lt, first, p_.depth_points), [&] {
      const Expr* buffer = k_.b.let(ctx_.mul(stage, number(piece_)));
      for (const Part* part : {&rows_, &columns_})
        for (const Brought& one : part->brought)
          if (part->copied) with_brought(*part, one, [&] {
              const ir::Expr *load = part->side->factor.load, *to = ctx_.mul(ctx_.add(one.place, buffer), number(kCellsOfChunk));
              const bool is_cell = part->copied == kCellBytes;
              const Place from = part->by_points ? place_of_step(*part, one, first) : part->runs.length > 1 ? place_of_run(*part, one, first, is_cell ? cell_ : number(0)) : is_cell ? place_of_cell(*part, one, first) : place_of_chunk(one.reached, one.chunk, first);
              k_.b.copy(memory_, is_cell ? ctx_.add(to, cell_) : to, loop::vec_load(ctx_, load->array, load->type, from.index), part->copied, from.counts);
            });
    });
    k_.b.close_copies();
  }

  Place place_of_cell(const Part& part, const Brought& one, const Expr* first) { return place_at(part, one, ctx_.add(ctx_.add(first, cell_), ctx_.mul(one.chunk, number(kCellsOfChunk)))); }
  Place place_of_step(const Part& part, const Brought& one, const Expr* first) { return place_at(part, one, ctx_.add(first, one.chunk)); }
  // At a step of the depth. The dims of the side are bound.
  Place place_at(const Part& part, const Brought& one, const Expr* at) {
    at = k_.b.let(at);
    const Reached& reached = one.reached;
    const bool whole = ir::divisor_of(p_.depth_points) % how_.tile.depth == 0;
    const Expr* exists = whole ? nullptr : ctx_.binary(Op::Lt, at, p_.depth_points);
    if (!reached.base || reached.ask) {
      std::vector<const Expr*> extents;
      for (const ir::Dim* d : p_.depth) extents.push_back(d->extent);
      const std::vector<const Expr*> index = k_.decoded(whole ? at : k_.b.let(ctx_.min(at, ctx_.sub(p_.depth_points, number(1)))), extents);
      for (size_t d = 0; d < index.size(); ++d) s_.bind(p_.depth[d], index[d]);
    }
    const Expr* index = reached.base ? ctx_.add(reached.base, ctx_.mul(at, reached.stride)) : k_.b.let(s_.value(part.side->factor.load->args[0]));
    return {index, s_.both(reached.ask ? asked(*part.side) : reached.guard, exists)};
  }

  void each_loaded(const std::function<void(const Part&, const Brought&)>& body) {
    for (const Part* part : {&rows_, &columns_})
      for (const Brought& one : part->brought)
        if (!part->copied) body(*part, one);
  }

  void store(const std::vector<const Expr*>& cells, const Expr* stage) {
    size_t k = 0;
    const Expr* buffer = k_.b.let(ctx_.mul(stage, number(piece_)));
    each_loaded([&](const Part&, const Brought& one) { k_.b.store(memory_, ctx_.mul(ctx_.add(one.place, buffer), number(kCellsOfChunk)), cells[k++]); });
  }

  const Expr* bring(const Part& part, const Brought& one, const Expr* first) {
    if (part.runs.length > 1) return bring_runs(part, one, first);
    const Expr* cells = nullptr;
    with_brought(part, one, [&] { cells = chunk_of(*part.side, part.chunks != nullptr, one.reached, one.chunk, first); });
    return flipped(part, cells, kCellsOfChunk);
  }

  // The same of codes that are loaded several at once.
  const Expr* bring_runs(const Part& part, const Brought& one, const Expr* first) {
    const auto all = [&] {
      std::vector<const Expr*> cells;
      for (int64_t r = 0; r < kCellsOfChunk * values_ / part.runs.length; ++r)
        for (const Expr* cell : run(part, one, first, r)) cells.push_back(cell);
      return loop::widen(ctx_, std::move(cells));
    };
    if (!one.reached.guard) return all();
    const Expr* chunk = k_.b.local(loop::splat(ctx_, outside_cell(part, one), kCellsOfChunk));
    k_.b.with_if(one.reached.guard, [&] { k_.b.assign(chunk, all()); });
    return chunk;
  }

  // Where run `r` of the chunk is; of a load behind the end of the depth the last one, which does not count. The dims of the side are bound, and all of the depth but
  // the last one is.
  Place place_of_run(const Part& part, const Brought& one, const Expr* first, const Expr* r) {
    const DepthRuns& runs = part.runs;
    const int64_t length = runs.length;
    // Chunks that are whole exist or not, all runs of them alike.
    const int64_t values = kCellsOfChunk * values_, runs_of_chunk = values / length, known = ir::divisor_of(p_.depth_points);
    const bool whole = known % values == 0;
    const auto in_chunk = [&](const Expr* chunk) { return ctx_.add(ctx_.mul(chunk, number(runs_of_chunk)), r); };
    const Expr *at = k_.b.let(ctx_.add(ctx_.floordiv(first, number(values)), one.chunk)), *exists = nullptr;
    if (!whole) at = k_.b.let(in_chunk(at));
    if (known % how_.tile.depth != 0) {
      const Expr* end = ctx_.floordiv(p_.depth_points, number(whole ? values : length));
      exists = k_.b.let(ctx_.binary(Op::Lt, at, end));
      if (!part.copied) at = k_.b.let(ctx_.min(at, ctx_.sub(end, number(1))));
    }
    if (whole) at = k_.b.let(in_chunk(at));
    const Expr* index = index_of_run(one.reached, runs, at);
    if (one.reached.ask) exists = s_.both(asked(*part.side), exists);
    return {index, part.copied ? s_.both(one.reached.guard, exists) : exists};
  }

  // The cells of run `r` of the chunk.
  std::vector<const Expr*> run(const Part& part, const Brought& one, const Expr* first, int64_t r) {
    std::vector<const Expr*> cells;
    with_brought(part, one, [&] {
      const auto [index, exists] = place_of_run(part, one, first, number(r));
      const int64_t length = part.runs.length;
      const Expr* none = outside_cell(part, one);
      if (one.reached.ask) {
        const Expr* read = k_.b.local(loop::splat(ctx_, none, static_cast<unsigned>(length / values_)));
        const Expr* at = index;
        k_.b.with_if(exists, [&] { k_.b.assign(read, joined(loaded(part, at))); });
        for (unsigned c = 0; c < length / values_; ++c) cells.push_back(length == values_ ? read : of(read, c));
        return;
      }
      for (const Expr* cell : loaded(part, index)) cells.push_back(exists ? ctx_.select(exists, cell, none) : cell);
    });
    return cells;
  }

  const Expr* joined(std::vector<const Expr*> cells) { return cells.size() == 1 ? cells[0] : loop::widen(ctx_, std::move(cells)); }

  // A run of codes in memory, as cells.
  std::vector<const Expr*> loaded(const Part& part, const Expr* index) {
    const nest::Operand& o = part.side->factor;
    std::vector<const Expr*> fours, cells;
    for (int64_t k = 0; k < part.runs.length; k += values_)
      fours.push_back(k_.b.let(loop::vec_load(ctx_, o.load->array, {o.load->type.dtype, static_cast<uint16_t>(values_)}, ctx_.add(index, number(k)))));
    for (const Expr* four : fours) cells.push_back(flipped(part, cell([&](int64_t k) { return of(four, static_cast<unsigned>(k % values_)); }, 0)));
    return cells;
  }

  const Expr* flipped(const Part& part, const Expr* cells, unsigned lanes = 1) {
    if (!part.codes.flipped) return cells;
    return k_.b.let(loop::vec_binary(ctx_, Op::BitXor, cells, loop::splat(ctx_, ctx_.integer(kFirstBits, DType::U32), lanes)));
  }
  // Four codes that do not count.
  const Expr* outside_cell(const Part& part, const Brought& one) {
    const Expr* code = one.reached.outside;
    return code ? flipped(part, cell([&](int64_t) { return code; }, 0)) : ctx_.integer(0, DType::U32);
  }

  // Four cells of the tile that begins so many rows or columns behind the first one of the warp.
  const Expr* cells_of(const Part& part, const Expr* place, const Expr* buffer, int64_t row) {
    // The chunks of a step that a warp reads differ in bits of which its first one has none.
    if (part.by_points) place = ctx_.add(k_.b.let(ctx_.binary(Op::BitXor, place, number(row / points_of_chunk()))), buffer);
    else place = ctx_.add(ctx_.add(place, buffer), number(row * kRowChunks));
    const Expr* cells = k_.b.load_matrices(loop::vec_load(ctx_, memory_, {DType::U32, kCellsOfChunk}, ctx_.mul(place, number(kCellsOfChunk))), part.by_points);
    if (part.copied == 0 || !is_rounded_load(part.side->factor)) return cells;
    std::vector<const Expr*> all;
    for (unsigned c = 0; c < kCellsOfChunk; ++c) {
      const Expr* rounded = ctx_.unary(Op::Tf32, ctx_.convert(Op::Bitcast, {DType::F32, 1}, of(cells, c)));
      all.push_back(ctx_.convert(Op::Bitcast, {DType::U32, 1}, rounded));
    }
    return k_.b.let(loop::widen(ctx_, std::move(all)));
  }

  // All sums of this lane, of the piece in `buffer`.
  void multiply(const Expr* buffer) {
    const int64_t num_columns = tiles(columns_, kMmaColumns);
    std::vector<Halves> b;
    for (int64_t n = 0; n < num_columns; ++n) b.push_back(halves(cells_of(columns_, columns_.places[0], buffer, n * kMmaColumns), columns_.is_short));
    for (int64_t m = 0; m < tiles(rows_, kMmaRows); ++m) {
      std::vector<const Expr*> sums;  // of this piece
      for (int64_t n = 0; n < num_columns; ++n) sums.push_back(factors_ == DType::F32 ? zero(4) : sums_[static_cast<size_t>(m * num_columns + n)]);
      for (unsigned step = 0; step < 2; ++step) add_step(halves(cells_of(rows_, rows_.places[step], buffer, m * kMmaRows), rows_.is_short), step, b, sums);
      for (int64_t n = 0; n < num_columns; ++n) {
        const Expr* sum = sums_[static_cast<size_t>(m * num_columns + n)];
        const Expr* piece = sums[static_cast<size_t>(n)];
        k_.b.assign(sum, factors_ == DType::F32 ? loop::vec_binary(ctx_, Op::Add, sum, piece) : piece);
      }
    }
  }

  // The same by four warps together, which read both factors where they lie.
  void multiply_in_groups(const Expr* stage) {
    const Expr* buffer = ctx_.mul(stage, number(piece_ / kGroupChunks));
    const Expr* group = ctx_.floordiv(warp_row_, number(loop::kGroupRows / kMmaRows));
    const auto factor = [&](const Part& part, const Expr* place) {
      return loop::Builder::GroupFactor{k_.b.let(ctx_.add(ctx_.add(buffer, number(part.begin / kGroupChunks)), place)), part.by_points, of_codes() ? part.codes.type : factors_};
    };
    k_.b.group_mma(sums_, memory_, factor(rows_, ctx_.mul(group, number(loop::kGroupRows * kRowChunks / kGroupChunks))), factor(columns_, number(0)));
  }

  // Rows 16m .. 16m + 15 of each warp: sums go to memory, and neighbouring lanes finish neighbouring columns. Blocks of a cluster finish some rows each.
  void finish_rows(int64_t m, const Expr* lane) {
    const int64_t width = width_of_sums(), num_columns = tiles(columns_, kMmaColumns);
    if (m == 0) k_.b.append(loop::StmtKind::Barrier);
    else meet_cluster();  // all have read the rows before
    const Expr* row = ctx_.add(ctx_.mul(warp_row_, number(kMmaRows)), group_);
    const Expr* pair = k_.b.let(ctx_.add(ctx_.mul(row, number(width / 2)), ctx_.add(ctx_.mul(warp_column_, number(columns_.of_warp / 2)), in_group_)));
    for (int64_t n = 0; n < num_columns; ++n)
      for (unsigned half = 0; half < 2; ++half) {
        const Expr* sums = sums_[static_cast<size_t>(m * num_columns + n)];
        const Expr* two = loop::widen(ctx_, {of(sums, 2 * half), of(sums, 2 * half + 1)});
        const Expr* place = ctx_.add(pair, number(n * kMmaColumns / 2 + half * width * kMmaRows / 4));
        k_.b.store(memory_, ctx_.mul(place, number(2)), loop::vec_convert(ctx_, Op::Bitcast, DType::U32, two));
      }
    meet_cluster();
    const Expr* column = k_.b.let(ctx_.floormod(lane, number(columns_.size)));
    const Expr* lane_row = k_.b.let(ctx_.floordiv(lane, number(columns_.size)));
    at_point(columns_, column, [&] {
      load_for_column();
      p_.cluster ? finish_in_turns(m, lane_row, column) : finish_all(m, lane_row, column);
    });
  }

  int64_t width_of_sums() const { return columns_.size + kPadOfSums; }
  int64_t rows_at_once() const { return lanes_ / columns_.size; }

  void finish_all(int64_t m, const Expr* lane_row, const Expr* column) {
    k_.b.with_for(number(0), number(warp_rows_ * kMmaRows), rows_at_once(), [&](const Expr* first) {
      const Expr* stored = k_.b.let(ctx_.add(first, lane_row));
      at_stored(m, stored, [&] { finish(sum_of_blocks(memory_, DType::U32, ctx_.add(ctx_.mul(stored, number(width_of_sums())), column))); });
    });
  }

  // Every so-manieth of the rows is this block's. All that others have of them is loaded first: it comes from far.
  void finish_in_turns(int64_t m, const Expr* lane_row, const Expr* column) {
    const int64_t rows = warp_rows_ * kMmaRows, turn = rows_at_once() * blocks_;
    const Expr* mine = k_.b.let(ctx_.add(ctx_.mul(block_, number(rows_at_once())), lane_row));
    std::vector<std::pair<const Expr*, const Expr*>> sums;  // of a row in memory
    for (int64_t first = 0; first < rows; first += turn) {
      const Expr* row = ctx_.add(mine, number(first));
      if (first + turn > rows) row = ctx_.min(row, number(rows - 1));
      sums.emplace_back(ctx_.add(mine, number(first)), sum_of_blocks(memory_, DType::U32, ctx_.add(ctx_.mul(row, number(width_of_sums())), column)));
    }
    for (const auto& [stored, sum] : sums) {
      const auto there = [&, row = stored, sum = sum] { at_stored(m, row, [&] { finish(sum); }); };
      if (rows % turn == 0) there();
      else k_.b.with_if(ctx_.binary(Op::Lt, stored, number(rows)), there);
    }
  }

  // At the row of the tile that is this one of those in memory, where it exists.
  void at_stored(int64_t m, const Expr* stored, const std::function<void()>& body) {
    const Expr* warp = ctx_.mul(ctx_.floordiv(stored, number(kMmaRows)), number(rows_.of_warp));
    at_point(rows_, ctx_.add(ctx_.add(warp, number(m * kMmaRows)), ctx_.floormod(stored, number(kMmaRows))), body);
  }

  void at_point(const Part& part, const Expr* in_block, const std::function<void()>& body) {
    where_it_exists(*part.side, k_.b.let(ctx_.add(part.first, in_block)), part.size, body);
  }

  const int64_t lanes_;           // of the block
  const bool is_group_;           // four warps multiply together
  const int64_t warp_rows_;       // warps along the rows of the block
  Part rows_, columns_;
  int64_t piece_ = 0, stages_ = 0;  // chunks of a piece; pieces that memory has room for
  uint32_t memory_ = 0;
  const Expr* cell_ = nullptr;    // of a chunk, that this lane copies
  const Expr *warp_row_ = nullptr, *warp_column_ = nullptr, *group_ = nullptr, *in_group_ = nullptr;
  std::vector<const Expr*> sums_;  // of a lane, four at once: 16 rows by 8 columns after the other
};

}  // namespace

StagePtr mma_stage(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how) {
  return std::make_unique<ProductMma>(job, nest, k, p, how);
}

}  // namespace mlc::lower
