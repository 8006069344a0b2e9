// A tile of a product by matrices of subgroups (loop::StmtKind::Matrix), whose elements lie in lanes as the device likes: what Vulkan has of tensor cores. The teams of a block stand
// in a square or a flat rectangle, each with its part of the sums:
//
//   for the points of the outer folded dims
//     each lane brings some chunks of the first piece to shared memory, which has room for two
//     for pieces of the depth
//       barrier: the piece is there, and what lay where the next one goes is used
//       loads of the next piece begin
//       each team adds the products of its rows and columns, some steps of the depth at once
//       what was loaded goes to memory
//   one row of matrices of each team after the other: sums to shared memory, from where neighbouring lanes write neighbouring columns
//
// Cells and chunks are those of mma.cpp: two f16 along the depth, four cells. Rows have four chunks and room for one more, so that a matrix meets in no bank. A device takes matrices
// from memory with one distance between rows only: no swizzle, and no transposed loads of what lies by points, which goes through registers element by element.
#include "packager/lower/device/product/mma.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

constexpr int64_t kRowCells = (kRowChunks + 1) * kCellsOfChunk;  // from a row of a piece to the next one
constexpr int64_t kPieces = 2, kPadOfMatrices = 4;
constexpr int64_t kManyTeams = 16;                               // which stand in a square

class ProductMatrix final : public MmaStage {
 public:
  ProductMatrix(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how)
      : MmaStage(job, nest, k, p, how, factors_of(p)), lanes_(how.block), side_(job.target.matrix_side), team_lanes_(job.target.matrix_lanes), teams_(lanes_ / team_lanes_),
        team_rows_(teams_ >= kManyTeams ? 4 : 2) {
    init(rows_, p_.rows, how_.tile.rows, team_rows_, 0);
    init(columns_, p_.columns, how_.tile.columns, teams_ / team_rows_, how_.tile.rows * kRowCells);
    for (const Part* part : {&columns_, &rows_}) grid.push_back(ctx_.ceildiv(part->side->points, ctx_.integer(part->size)));
    k_.kernel.team = {static_cast<uint32_t>(team_lanes_), static_cast<uint32_t>(side_), static_cast<uint32_t>(rows_.of_team / side_), static_cast<uint32_t>(columns_.of_team / side_)};
    piece_ = (rows_.size + columns_.size) * kRowCells;
    memory_ = k_.shared("tile", DType::U32, std::max(kPieces * piece_, team_rows_ * side_ * width_of_sums()));
  }

 private:
  // A chunk that a lane brings in each piece.
  struct Brought {
    std::vector<const Expr*> at;                    // of its row or column, along the dims of the side
    const Expr *chunk = nullptr, *place = nullptr;  // of the piece; in memory, in cells
    Reached reached;
  };
  // Rows or columns of the block.
  struct Part {
    Side* side = nullptr;
    int64_t size = 0, of_team = 0, begin = 0;  // begin: in memory, in cells
    const Expr* chunks = nullptr;              // where the depth begins, counted in chunks, if each is a load; null: it is not
    const Expr *first = nullptr, *place = nullptr;  // of the block; of the team in memory
    std::vector<Brought> brought;
  };

  static void init(Part& part, Side& side, int64_t size, int64_t teams, int64_t begin) {
    part.side = &side, part.size = size, part.of_team = size / teams, part.begin = begin;
  }

  void part(const std::vector<Range>&) override {}

  void block(const std::vector<const Expr*>& at, const Expr* lane) override {
    bind_batch(at);
    columns_.first = k_.b.let(ctx_.mul(at[p_.batch.size()], number(columns_.size)));
    rows_.first = k_.b.let(ctx_.mul(at[p_.batch.size() + 1], number(rows_.size)));
    const Expr* team = k_.b.let(ctx_.floordiv(lane, number(team_lanes_)));
    team_row_ = k_.b.let(ctx_.floormod(team, number(team_rows_))), team_column_ = k_.b.let(ctx_.floordiv(team, number(team_rows_)));
    for (Part* part : {&rows_, &columns_}) {
      share_bringing(*part, lane);
      const Expr* of_team = ctx_.mul(part == &rows_ ? team_row_ : team_column_, number(part->of_team * kRowCells));
      part->place = k_.b.let(ctx_.add(of_team, number(part->begin)));
    }
    k_.b.begin_matrices();
    s_.scoped([&] { over_outer([&] { add_products(); }); });
    for (int64_t m = 0; m < rows_.of_team / side_; ++m) finish_rows(m, lane);
  }

  // Neighbouring lanes bring what lies side by side in memory: chunks of a row, or rows of a chunk.
  void share_bringing(Part& part, const Expr* lane) {
    const bool along_depth = is_along_depth(*part.side);
    part.chunks = chunks_of(*part.side);
    std::vector<const Expr*> extents;
    for (const ir::Dim* d : part.side->dims) extents.push_back(d->extent);
    for (int64_t k = 0; k < part.size * kRowChunks / lanes_; ++k) {
      const Expr* turn = ctx_.add(lane, number(k * lanes_));
      const Expr* row = k_.b.let(along_depth ? ctx_.floordiv(turn, number(kRowChunks)) : ctx_.floormod(turn, number(part.size)));
      Brought one;
      one.chunk = k_.b.let(along_depth ? ctx_.floormod(turn, number(kRowChunks)) : ctx_.floordiv(turn, number(part.size)));
      one.place = k_.b.let(ctx_.add(ctx_.add(ctx_.mul(row, number(kRowCells)), ctx_.mul(one.chunk, number(kCellsOfChunk))), number(part.begin)));
      one.at = k_.decoded(existing(*part.side, ctx_.add(part.first, row), part.size), extents);
      part.brought.push_back(std::move(one));
    }
  }

  void each_brought(const std::function<void(Part&, Brought&)>& body) {
    for (Part* part : {&rows_, &columns_})
      for (Brought& one : part->brought)
        s_.scoped([&] {
          for (size_t d = 0; d < part->side->dims.size(); ++d) s_.bind(part->side->dims[d], one.at[d]);
          body(*part, one);
        });
  }

  const Expr* bring(const Part& part, const Brought& one, const Expr* first) { return chunk_of(*part.side, part.chunks != nullptr, one.reached, one.chunk, first); }

  void add_products() {
    each_brought([&](Part& part, Brought& one) { one.reached = reach_chunks(*part.side, part.chunks); });
    k_.b.with_if(ctx_.binary(Op::Lt, number(0), p_.depth_points), [&] {
      if (!p_.outer.empty()) k_.b.append(loop::StmtKind::Barrier);  // the last piece of the point before is used
      std::vector<const Expr*> cells;
      each_brought([&](Part& part, Brought& one) { cells.push_back(k_.b.local(bring(part, one, number(0)))); });
      store(cells, number(0));
      k_.b.with_rolled_for(number(0), p_.depth_points, how_.tile.depth, [&](const Expr* first) { turn(first, cells); });
    });
  }

  void turn(const Expr* first, const std::vector<const Expr*>& cells) {
    const int64_t step = how_.tile.depth;
    const Expr* which = k_.b.let(ctx_.floormod(ctx_.floordiv(first, number(step)), number(kPieces)));
    k_.b.append(loop::StmtKind::Barrier);
    const Expr* next = k_.b.let(ctx_.add(first, number(step)));
    k_.b.with_if(ctx_.binary(Op::Lt, next, p_.depth_points), [&] {
      size_t k = 0;
      each_brought([&](Part& part, Brought& one) { k_.b.assign(cells[k++], bring(part, one, next)); });
    });
    const Expr* buffer = k_.b.let(ctx_.mul(which, number(piece_)));
    for (int64_t cell = 0; cell < step / values_; cell += side_ / values_) {
      const auto factor = [&](const Part& part) { return loop::Builder::Strided{k_.b.let(ctx_.add(ctx_.add(part.place, buffer), number(cell))), number(kRowCells)}; };
      const loop::Builder::Strided a = factor(rows_), b = factor(columns_);
      k_.b.add_matrices(factors_, memory_, a, b);
    }
    store(cells, ctx_.sub(number(1), which));  // behind the last piece: something, which is not read
  }

  void store(const std::vector<const Expr*>& cells, const Expr* which) {
    const Expr* buffer = k_.b.let(ctx_.mul(which, number(piece_)));
    size_t k = 0;
    for (const Part* part : {&rows_, &columns_})
      for (const Brought& one : part->brought) k_.b.store(memory_, ctx_.add(one.place, buffer), cells[k++]);
  }

  int64_t width_of_sums() const { return columns_.size + kPadOfMatrices; }

  // Row m of the matrices of each team: sums go to memory, and neighbouring lanes finish neighbouring columns.
  void finish_rows(int64_t m, const Expr* lane) {
    k_.b.append(loop::StmtKind::Barrier);  // all is used that lies there
    const Expr* row = ctx_.mul(team_row_, number(side_ * width_of_sums()));
    k_.b.store_matrices(m, memory_, {k_.b.let(ctx_.add(row, ctx_.mul(team_column_, number(columns_.of_team)))), number(width_of_sums())});
    k_.b.append(loop::StmtKind::Barrier);
    const Expr* column = k_.b.let(ctx_.floormod(lane, number(columns_.size)));
    const Expr* lane_row = k_.b.let(ctx_.floordiv(lane, number(columns_.size)));
    at_point(columns_, column, [&] {
      load_for_column();
      k_.b.with_for(number(0), number(team_rows_ * side_), lanes_ / columns_.size, [&](const Expr* first) {
        const Expr* stored = k_.b.let(ctx_.add(first, lane_row));
        const Expr* of_team = ctx_.mul(ctx_.floordiv(stored, number(side_)), number(rows_.of_team));
        at_point(rows_, ctx_.add(ctx_.add(of_team, number(m * side_)), ctx_.floormod(stored, number(side_))),
                 [&] { finish(sum_of_blocks(memory_, DType::U32, ctx_.add(ctx_.mul(stored, number(width_of_sums())), column))); });
      });
    });
  }

  void at_point(const Part& part, const Expr* in_block, const std::function<void()>& body) {
    where_it_exists(*part.side, k_.b.let(ctx_.add(part.first, in_block)), part.size, body);
  }

  const int64_t lanes_, side_, team_lanes_, teams_;  // of the block; of a matrix
  const int64_t team_rows_;                          // teams along the rows of the block
  Part rows_, columns_;
  int64_t piece_ = 0;  // cells
  uint32_t memory_ = 0;
  const Expr *team_row_ = nullptr, *team_column_ = nullptr;
};

}  // namespace

StagePtr matrix_stage(const Job& job, const FlatNest& nest, Skeleton& k, const DeviceProduct& p, const schedule::Schedule& how) {
  return std::make_unique<ProductMatrix>(job, nest, k, p, how);
}

}  // namespace mlc::lower
