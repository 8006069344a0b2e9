#include "tests/text/loop_interpret.h"

#include <algorithm>
#include <bit>

#include "packager/ir/context.h"
#include "packager/ir/numeric.h"
#include "tests/text/loop_memory.h"
#include "tests/text/loop_tape.h"

namespace mlc::loop {

using ir::Expr;
using ir::Op;
using ir::Scalar;

namespace {

constexpr size_t kMaxPeerElements = 4;
constexpr int32_t kLoopFault = 3;  // a loop that goes on beyond its bound

// A statement with its expressions. Roots of `tape`: For begin, end; Store index, value, mask; Copy index, that of the load, condition; While bound; others their one.
struct Node {
  const Stmt* s = nullptr;
  Slot var = 0;
  Tape tape, again;          // `again`: the condition of a While
  bool has_barrier = false;  // it or one inside of it
  std::vector<Node> body, orelse;
};

class Interpreter {
 public:
  Interpreter(const Kernel& k, const Run& run, Memory memory) : k_(k), run_(run), memory_(std::move(memory)), values_(run) {}

  Result<int32_t> go() {
    MLC_ASSIGN(const Division division, divide(k_, run_));
    const std::vector<Node> body = nodes(k_.body);
    const Slot tile_begin = values_.var(k_.tile_begin), tile_end = values_.var(k_.tile_end);
    std::vector<Slot> chunks;
    for (const Cut& cut : k_.cuts) chunks.push_back(values_.var(cut.chunk));
    variables_ = values_.variables();
    values_.use(variables_);
    values_.bind(tile_begin, run_.tile_begin);
    values_.bind(tile_end, run_.tile_end < 0 ? division.tiles : run_.tile_end);
    for (size_t k = 0; k < chunks.size(); ++k) values_.bind(chunks[k], division.chunks[k]);
    block(body);
    if (!failure_.error.empty()) return Status(Code::Internal, "kernel " + k_.name + ": " + failure_.error);
    return failure_.fault;
  }

 private:
  std::vector<Node> nodes(const std::vector<StmtPtr>& stmts) {
    std::vector<Node> all;
    for (const StmtPtr& s : stmts) {
      Node n{s.get(), s->var ? values_.var(s->var) : 0, {}, {}, s->kind == StmtKind::Barrier || s->kind == StmtKind::ClusterBarrier || s->kind == StmtKind::FoldLanes || s->kind == StmtKind::Mma || s->kind == StmtKind::LoadMatrices || s->kind == StmtKind::GroupMma || s->kind == StmtKind::Matrix, {}, {}};
      switch (s->kind) {
        case StmtKind::For: n.tape = values_.tape({s->begin, s->end}); break;
        case StmtKind::While: n.tape = values_.tape({s->bound}), n.again = values_.tape({s->cond}); break;
        case StmtKind::If: case StmtKind::Fault: n.tape = values_.tape({s->cond}); break;
        case StmtKind::Store: n.tape = values_.tape({s->index[0], s->value, s->cond}); break;
        case StmtKind::Let: case StmtKind::Local: case StmtKind::Assign: case StmtKind::FoldLanes: n.tape = values_.tape({s->value}); break;
        case StmtKind::Mma: n.tape = values_.tape({s->value, s->index[0], s->index[1]}); break;
        case StmtKind::GroupMma: n.tape = tape_of_group(*s); break;
        case StmtKind::Matrix: n.tape = values_.tape(s->index); break;
        case StmtKind::Tiles: n.tape = tape_of_tiles(*s); break;
        case StmtKind::Copy: n.tape = values_.tape({s->index[0], s->value->args[0], s->cond}); break;
        case StmtKind::LoadMatrices: n.tape = values_.tape({s->value}); break;
        case StmtKind::Peer: n.tape = values_.tape({s->value->args[0]}); break;
        case StmtKind::Barrier: case StmtKind::ClusterBarrier: case StmtKind::CloseCopies: case StmtKind::WaitCopies: case StmtKind::Prefetch: break;
      }
      n.body = nodes(s->body), n.orelse = nodes(s->orelse);
      for (const auto* inside : {&n.body, &n.orelse})
        for (const Node& i : *inside) n.has_barrier = n.has_barrier || i.has_barrier;
      all.push_back(std::move(n));
    }
    return all;
  }

  // Places of both factors, then the sums.
  Tape tape_of_group(const Stmt& s) {
    std::vector<const Expr*> roots = s.index;
    roots.insert(roots.end(), s.sums.begin(), s.sums.end());
    return values_.tape(roots);
  }

  // Addresses: of the first codes and their stride; of a tile in memory.
  Tape tape_of_tiles(const Stmt& s) {
    if (s.tile_op == TileOp::Begin) return values_.tape({});
    return s.tile_op == TileOp::Store ? values_.tape({s.index[0]}) : values_.tape({s.index[0]->args[0], s.index[1], s.index[2]->args[0]});
  }

  bool stopped() const { return failure_.stopped(); }
  void run(const Tape& tape) { values_.run(tape, memory_, failure_); }
  int64_t integer(const Tape& tape, size_t root = 0) { return values_.root(tape, root)[0].i; }

  // ---- lanes ----

  void lanes(const Node& n) {
    run(n.tape);
    if (stopped()) return;
    const int64_t begin = integer(n.tape, 0), end = integer(n.tape, 1);
    const int64_t of_block = std::max<int64_t>(0, end - begin);
    lane_variables_.assign(static_cast<size_t>(of_block * k_.cluster), variables_);
    memory_.begin_block(lane_variables_.size());
    sums_of_teams_.clear();
    each_lane([&] {
      values_.bind(n.var, begin + memory_.lane() % of_block);
      if (k_.cluster > 1) values_.bind(tile_var_, tile_ + memory_.lane() / of_block);
    });
    together(n.body);
    memory_.end_block(failure_);
    values_.use(variables_);
  }

  template <class Body>
  void each_lane(Body body) {
    for (size_t l = 0; l < lane_variables_.size() && !stopped(); ++l) {
      memory_.set_lane(l);
      values_.use(lane_variables_[l]);
      body();
    }
  }

  // Every lane runs up to the next barrier, then all go on.
  void together(const std::vector<Node>& all) {
    for (size_t k = 0; k < all.size() && !stopped();) {
      size_t end = k;
      while (end < all.size() && !all[end].has_barrier) ++end;
      if (end > k)
        each_lane([&] {
          for (size_t at = k; at < end && !stopped(); ++at) stmt(all[at]);
        });
      if (end < all.size() && !stopped()) together(all[end]);
      k = end + 1;
    }
  }

  // Neighbours first.
  void fold(const Node& n) {
    const Stmt& s = *n.s;
    std::vector<Scalar> all;
    each_lane([&] { run(n.tape), all.push_back(values_.root(n.tape, 0)[0]); });
    if (stopped()) return;
    const DType type = s.value->type.dtype;
    const size_t width = s.step == 1 ? all.size() / k_.cluster : static_cast<size_t>(s.step);
    for (size_t d = 1; d < width; d *= 2)
      for (size_t k = 0; k + d < all.size(); k += 2 * d) {
        const Scalar a = all[k], b = all[k + d];
        if (s.combine == Op::And) all[k].i = a.i & b.i;
        else if (s.combine == Op::Or) all[k].i = a.i | b.i;
        else all[k] = ir::apply_binary(s.combine, type, a, b);
      }
    each_lane([&] { values_.bind(n.var, std::array{all[static_cast<size_t>(memory_.lane()) / width * width]}); });
  }

  // Cells that 32 lanes side by side have of a tile become rows of numbers (loop.h has the places), and sums go back the same way.
  void multiply(const Node& n) {
    struct Tile {
      std::array<std::array<double, 32>, 16> a{};
      std::array<std::array<double, 32>, 8> b{};  // column by column
      std::array<std::array<double, 8>, 16> sums{};
    };
    const DType type = n.s->factors;
    const bool of_codes = n.s->b_factors != DType::None;
    std::vector<Tile> tiles(lane_variables_.size() / kMmaLanes);
    if (tiles.empty() || lane_variables_.size() % kMmaLanes != 0) return failure_.fail("a product of tiles by other lanes than 32");
    const auto put = [&](std::array<double, 32>& row, size_t cell, Scalar value, DType t) {
      const auto bits = static_cast<uint32_t>(value.i);
      if (t == DType::F32) row[cell] = std::bit_cast<float>(bits & 0xffffe000u);
      else if (of_codes)
        for (size_t h = 0; h < 4; ++h) row[4 * cell + h] = t == DType::U8 ? static_cast<double>(bits >> 8 * h & 255) : static_cast<double>(static_cast<int8_t>(bits >> 8 * h));
      else
        for (size_t h = 0; h < 2; ++h) row[2 * cell + h] = t == DType::F16 ? ir::f16_value(static_cast<uint16_t>(bits >> 16 * h)) : ir::bf16_value(static_cast<uint16_t>(bits >> 16 * h));
    };
    each_lane([&] {
      run(n.tape);
      if (stopped()) return;
      const auto lane = static_cast<size_t>(memory_.lane());
      Tile& tile = tiles[lane / kMmaLanes];
      const size_t g = lane % kMmaLanes / 4, t = lane % 4;
      const auto c = values_.root(n.tape, 0), a = values_.root(n.tape, 1), b = values_.root(n.tape, 2);
      for (size_t k = 0; k < 4; ++k) tile.sums[g + k / 2 * 8][2 * t + k % 2] = of_codes ? static_cast<double>(c[k].i) : c[k].f;
      for (size_t k = 0; k < 4; ++k) put(tile.a[g + k % 2 * 8], t + k / 2 * 4, a[k], type);
      for (size_t k = 0; k < 2; ++k) put(tile.b[g], t + k * 4, b[k], of_codes ? n.s->b_factors : type);
    });
    if (stopped()) return;
    for (Tile& tile : tiles)
      for (size_t r = 0; r < 16; ++r)
        for (size_t c = 0; c < 8; ++c) {
          // Sums of 32 products of codes and one i32 are exact in f64.
          for (size_t k = 0; k < (type == DType::F32 ? 8u : of_codes ? 32u : 16u); ++k) tile.sums[r][c] += tile.a[r][k] * tile.b[c][k];
          if (!of_codes) tile.sums[r][c] = static_cast<float>(tile.sums[r][c]);
        }
    each_lane([&] {
      const auto lane = static_cast<size_t>(memory_.lane());
      const Tile& tile = tiles[lane / kMmaLanes];
      std::array<Scalar, 4> sums{};
      for (size_t k = 0; k < 4; ++k) {
        const double sum = tile.sums[lane % kMmaLanes / 4 + k / 2 * 8][2 * (lane % 4) + k % 2];
        if (of_codes) sums[k].i = static_cast<int32_t>(static_cast<int64_t>(sum));  // it wraps
        else sums[k].f = sum;
      }
      values_.bind(n.var, sums);
    });
  }

  // Cell `cell` of a row of a factor in memory (loop.h has the places), as the numbers that it holds.
  std::vector<double> numbers_of_cell(const Stmt& s, bool of_b, int64_t first, int64_t row, int64_t cell) {
    const DType t = of_b && s.b_factors != DType::None ? s.b_factors : s.factors;
    const bool of_codes = s.b_factors != DType::None;
    const auto bits_at = [&](int64_t at) {
      Scalar bits{};
      (void)memory_.load(s.array, kGroupCells * first + at, bits, failure_);  // a failure stops the run
      return static_cast<uint32_t>(bits.i);
    };
    const auto half = [&](uint32_t bits, int64_t which) {
      const auto h = static_cast<uint16_t>(bits >> (which % 2 * 16));
      return t == DType::F16 ? ir::f16_value(h) : ir::bf16_value(h);
    };
    if (of_b ? s.b_transposed : s.transposed) {
      const auto at = [&](int64_t step) {
        const int64_t chunk = row / 8, place = chunk / 8 * kGroupCells + 8 * step + (chunk % 8 ^ step % 8);
        return half(bits_at(4 * place + row % 8 / 2), row);
      };
      return {at(2 * cell), at(2 * cell + 1)};
    }
    const uint32_t bits = bits_at(4 * (4 * row + (cell / 4 ^ row / 2 % 4)) + cell % 4);
    if (!of_codes) return {half(bits, 0), half(bits, 1)};
    std::vector<double> codes;
    for (int k = 0; k < 4; ++k) codes.push_back(t == DType::U8 ? static_cast<double>(bits >> 8 * k & 255) : static_cast<double>(static_cast<int8_t>(bits >> 8 * k)));
    return codes;
  }

  // Rows of a factor of this lane's group. A second lane reads them as well: a lane that writes there without a barrier meets another one than itself.
  std::vector<std::vector<double>> rows_of_group(const Node& n, bool of_b, int64_t rows) {
    std::vector<std::vector<double>> all(static_cast<size_t>(rows));
    const int64_t first = integer(n.tape, of_b ? 1 : 0);
    for (int64_t r = 0; r < rows && !stopped(); ++r)
      for (int64_t c = 0; c < 16; ++c)
        for (const double v : numbers_of_cell(*n.s, of_b, first, r, c)) all[static_cast<size_t>(r)].push_back(v);
    return all;
  }

  // Steps of 8 cells one after the other, each a sum that is rounded once.
  void multiply_group(const Node& n) {
    const Stmt& s = *n.s;
    const bool of_codes = s.b_factors != DType::None;
    if (lane_variables_.size() % kGroupLanes != 0) return failure_.fail("a product of a group of other lanes than 128");
    std::vector<std::vector<double>> a, b;
    std::array<int64_t, 2> places{};
    each_lane([&] {
      run(n.tape);
      if (stopped()) return;
      const int64_t lane = memory_.lane() % kGroupLanes;
      const std::array<int64_t, 2> mine{integer(n.tape, 0), integer(n.tape, 1)};
      if (lane == 0) places = mine;
      if (mine != places) return failure_.fail("lanes of a group whose factors lie at different places");
      if (lane < 2) a = rows_of_group(n, false, kGroupRows), b = rows_of_group(n, true, std::ssize(s.sums) * 8);
      if (stopped()) return;
      std::vector<std::array<Scalar, 4>> results;
      for (size_t j = 0; j < s.sums.size(); ++j) {
        const auto old = values_.root(n.tape, 2 + j);
        for (size_t k = 0; k < 4; ++k) {
          const auto row = static_cast<size_t>(lane / 32 * 16 + lane % 32 / 4) + k / 2 * 8, column = 8 * j + 2 * static_cast<size_t>(lane % 4) + k % 2;
          const size_t depth = a[row].size();
          double sum = of_codes ? static_cast<double>(old[k].i) : old[k].f;
          for (size_t d = 0; d < depth; ++d) {
            sum += a[row][d] * b[column][d];
            if (!of_codes && (d + 1) % (depth / 2) == 0) sum = static_cast<float>(sum);
          }
          auto& result = (k == 0 ? results.emplace_back() : results.back())[k];
          if (of_codes) result.i = static_cast<int32_t>(static_cast<int64_t>(sum));  // it wraps
          else result.f = sum;
        }
      }
      for (size_t j = 0; j < s.sums.size(); ++j) values_.bind(values_.var(s.sums[j]), results[j]);
    });
  }

  // What a lane's team has of its matrices of sums, row by row.
  int64_t columns_of_team() const { return int64_t{k_.team.columns} * k_.team.side; }
  std::vector<float>& sums_of_team() { return sums_of_teams_[static_cast<size_t>(memory_.lane() / k_.team.lanes)]; }

  // Elements of the depth, two in a cell, of a row or column of a factor.
  std::vector<double> depth_of(const Stmt& s, int64_t first) {
    std::vector<double> all;
    for (int64_t c = 0; c < k_.team.side / 2 && !stopped(); ++c) {
      Scalar bits{};
      (void)memory_.load(s.array, first + c, bits, failure_);  // a failure stops the run
      for (const int half : {0, 16}) all.push_back(ir::f16_value(static_cast<uint16_t>(bits.i >> half)));
    }
    return all;
  }

  // Sums are rounded once for each statement. A second lane of a team reads factors as well: a lane that writes there without a barrier meets another one than itself. Sums are
  // stored by all lanes in turn, whose the device decides.
  void matrices(const Node& n) {
    const Stmt& s = *n.s;
    const int64_t rows = int64_t{k_.team.rows} * k_.team.side, columns = columns_of_team(), lanes = k_.team.lanes;
    if (s.matrix_op == MatrixOp::Begin) sums_of_teams_.assign(lane_variables_.size() / k_.team.lanes, std::vector<float>(static_cast<size_t>(rows * columns)));
    if (s.matrix_op == MatrixOp::Begin) return;
    std::vector<int64_t> places, mine(s.index.size());
    each_lane([&] {
      run(n.tape);
      if (stopped()) return;
      const int64_t lane = memory_.lane() % lanes;
      for (size_t k = 0; k < mine.size(); ++k) mine[k] = integer(n.tape, k);
      if (lane == 0) places = mine;
      if (mine != places) return failure_.fail("lanes of a team whose matrices lie at different places");
      if (std::any_of(mine.begin(), mine.end(), [](int64_t place) { return place % kTeamCells != 0; })) return failure_.fail("matrices at places that are no multiples of four");
      std::vector<float>& sums = sums_of_team();
      if (s.matrix_op == MatrixOp::Store) {
        for (int64_t e = lane; e < k_.team.side * columns && !stopped(); e += lanes) {
          const auto bits = std::bit_cast<uint32_t>(sums[static_cast<size_t>(s.step * k_.team.side * columns + e)]);
          (void)memory_.store(s.array, mine[0] + e / columns * mine[1] + e % columns, {.i = bits, .f = 0}, failure_);
        }
        return;
      }
      if (lane > 1) return;
      std::vector<std::vector<double>> a, b;
      for (int64_t r = 0; r < rows; ++r) a.push_back(depth_of(s, mine[0] + r * mine[1]));
      for (int64_t c = 0; c < columns; ++c) b.push_back(depth_of(s, mine[2] + c * mine[3]));
      if (lane == 1 || stopped()) return;
      for (size_t e = 0; e < sums.size(); ++e) {
        double sum = sums[e];
        for (size_t k = 0; k < k_.team.side; ++k) sum += a[e / b.size()][k] * b[e % b.size()][k];
        sums[e] = static_cast<float>(sum);
      }
    });
  }

  // Rows that 32 lanes side by side name, and what each of them has of these (loop.h has the places).
  void load_matrices(const Node& n) {
    struct Matrices {
      std::array<std::array<std::array<uint32_t, 8>, 8>, 4> elements{};  // matrix, row, column
    };
    std::vector<Matrices> all(lane_variables_.size() / kMmaLanes);
    if (all.empty() || lane_variables_.size() % kMmaLanes != 0) return failure_.fail("a load of matrices by other lanes than 32");
    each_lane([&] {
      run(n.tape);
      if (stopped()) return;
      const auto lane = static_cast<size_t>(memory_.lane());
      const auto cells = values_.root(n.tape, 0);
      for (size_t k = 0; k < 8; ++k) all[lane / kMmaLanes].elements[lane % kMmaLanes / 8][lane % 8][k] = static_cast<uint32_t>(cells[k / 2].i) >> (k % 2 * 16) & 0xffff;
    });
    if (stopped()) return;
    each_lane([&] {
      const auto lane = static_cast<size_t>(memory_.lane());
      const size_t g = lane % kMmaLanes / 4, t = lane % 4;
      std::array<Scalar, 4> cells{};
      for (size_t m = 0; m < 4; ++m) {
        const auto& rows = all[lane / kMmaLanes].elements[m];
        cells[m].i = n.s->transposed ? rows[2 * t][g] | static_cast<int64_t>(rows[2 * t + 1][g]) << 16 : rows[g][2 * t] | static_cast<int64_t>(rows[g][2 * t + 1]) << 16;
      }
      values_.bind(n.var, cells);
    });
  }

  // What all lanes say of a statement that holds a barrier.
  int64_t agreed(const Tape& tape, size_t root = 0) {
    std::optional<int64_t> all;
    each_lane([&] {
      run(tape);
      const int64_t mine = integer(tape, root);
      if (all && *all != mine) failure_.fail("a barrier that not all lanes reach");
      all = mine;
    });
    return all.value_or(0);
  }

  void together(const Node& n) {
    switch (n.s->kind) {
      case StmtKind::Barrier: return memory_.barrier();
      case StmtKind::ClusterBarrier: return memory_.cluster_barrier();
      case StmtKind::FoldLanes: return fold(n);
      case StmtKind::Mma: return multiply(n);
      case StmtKind::LoadMatrices: return load_matrices(n);
      case StmtKind::GroupMma: return multiply_group(n);
      case StmtKind::Matrix: return matrices(n);
      case StmtKind::If: return together(agreed(n.tape) ? n.body : n.orelse);
      case StmtKind::For: {
        const int64_t begin = agreed(n.tape, 0), end = agreed(n.tape, 1);
        for (int64_t i = begin; i < end && !stopped(); i += n.s->step) {
          each_lane([&] { values_.bind(n.var, i); });
          together(n.body);
        }
        return;
      }
      case StmtKind::While: {
        const int64_t bound = agreed(n.tape);
        for (int64_t k = 0; !stopped() && agreed(n.again) && !stopped(); ++k) {
          if (k >= bound) failure_.fault = kLoopFault;
          else together(n.body);
        }
        return;
      }
      default: return failure_.fail("a barrier in a statement that has none");
    }
  }

  // ---- one after the other ----

  void block(const std::vector<Node>& all) {
    for (const Node& n : all) {
      if (stopped()) return;
      stmt(n);
    }
  }

  void loop(const Node& n) {
    const int64_t begin = integer(n.tape, 0), end = integer(n.tape, 1);
    const bool over_clusters = k_.cluster > 1 && n.s->begin == k_.tile_begin;  // the lanes inside of it are those of all blocks
    if (over_clusters) tile_var_ = n.var;
    for (int64_t i = begin; i < end && !stopped(); i += over_clusters ? k_.cluster : n.s->step) {
      if (over_clusters) tile_ = i;
      values_.bind(n.var, i);
      block(n.body);
    }
  }

  void peer(const Node& n) {
    const int64_t first = integer(n.tape);
    std::array<Scalar, kMaxPeerElements> values{};
    const size_t count = n.s->value->type.lanes;
    if (count > values.size()) return failure_.fail("a vector of another block's that is too long");
    for (size_t k = 0; k < count; ++k)
      if (!memory_.load_of_peer(n.s->value->array, n.s->step, first + static_cast<int64_t>(k), values[k], failure_)) return;
    values_.bind(n.var, std::span(values).first(count));
  }

  void loop_while(const Node& n) {
    const int64_t bound = integer(n.tape);
    for (int64_t k = 0; !stopped(); ++k) {
      run(n.again);
      if (stopped() || !integer(n.again)) return;
      if (k >= bound) {
        failure_.fault = kLoopFault;
        return;
      }
      block(n.body);
    }
  }

  void store(const Node& n) {
    const auto at = values_.root(n.tape, 0), value = values_.root(n.tape, 1);
    for (size_t l = 0; l < value.size() && !stopped(); ++l) {
      if (n.s->cond && !values_.root(n.tape, 2)[l].i) continue;
      memory_.store(n.s->array, at.size() == 1 ? at[0].i + static_cast<int64_t>(l) : at[l].i, value[l], failure_);
    }
  }

  void tiles(const Node& n) {
    const Stmt& s = *n.s;
    if (s.tile_op == TileOp::Begin) return tiles_.fill({});
    std::array<uint32_t, kTileSide * kTileSide>& sums = tiles_[s.tile];
    const int64_t first = integer(n.tape, 0);
    Scalar a, b;
    for (unsigned r = 0; r < kTileSide; ++r)
      for (unsigned c = 0; c < kTileSide; ++c) {
        uint32_t& sum = sums[r * kTileSide + c];
        // Which of both is read, the type of the buffer says.
        const ir::Scalar kept{.i = static_cast<int32_t>(sum), .f = std::bit_cast<float>(sum)};
        if (s.tile_op == TileOp::Store && !memory_.store(s.array, first + r * kTileSide + c, kept, failure_)) return;
        if (s.tile_op == TileOp::Store) continue;
        const int64_t size = bytes_of(s.index[0]->type.dtype), group = 4 / size;
        for (int64_t k = 0; k < s.step / size; ++k) {
          if (!memory_.load(s.index[0]->array, first + r * integer(n.tape, 1) + k, a, failure_)) return;
          if (!memory_.load(s.index[2]->array, integer(n.tape, 2) + k / group * (kTileSide * group) + c * group + k % group, b, failure_)) return;
          if (size == 1) sum += static_cast<uint32_t>(a.i) * static_cast<uint32_t>(b.i);
          else sum = std::bit_cast<uint32_t>(static_cast<float>(double{std::bit_cast<float>(sum)} + a.f * b.f));
        }
      }
  }

  void stmt(const Node& n) {
    if (n.s->kind == StmtKind::For && n.s->for_kind == ForKind::Lanes) return lanes(n);
    run(n.tape);
    if (stopped()) return;
    switch (n.s->kind) {
      case StmtKind::For: return loop(n);
      case StmtKind::While: return loop_while(n);
      case StmtKind::If: return block(integer(n.tape) ? n.body : n.orelse);
      case StmtKind::Let: case StmtKind::Local: case StmtKind::Assign: return values_.bind(n.var, values_.root(n.tape, 0));
      case StmtKind::Store: return store(n);
      case StmtKind::Tiles: return tiles(n);
      case StmtKind::Barrier: case StmtKind::ClusterBarrier: case StmtKind::FoldLanes: case StmtKind::Mma: case StmtKind::LoadMatrices: case StmtKind::GroupMma: case StmtKind::Matrix: return failure_.fail("a barrier outside of lanes");
      case StmtKind::Peer: return peer(n);
      case StmtKind::Copy: return memory_.begin_copy(*n.s, integer(n.tape, 0), integer(n.tape, 1), !n.s->cond || integer(n.tape, 2), failure_);
      case StmtKind::CloseCopies: return memory_.close_copies();
      case StmtKind::WaitCopies: return memory_.wait_copies(n.s->step, failure_);
      case StmtKind::Prefetch: return;
      case StmtKind::Fault:
        for (const Scalar& lane : values_.root(n.tape, 0))
          if (lane.i) failure_.fault = n.s->fault;
        return;
    }
  }

  const Kernel& k_;
  const Run& run_;
  Memory memory_;
  std::array<std::array<uint32_t, kTileSide * kTileSide>, kTiles> tiles_{};  // sums
  Evaluator values_;
  Variables variables_;
  std::vector<Variables> lane_variables_;  // of the blocks at work
  Slot tile_var_ = 0;                      // and of the first of them: its tile
  int64_t tile_ = 0;
  std::vector<std::vector<float>> sums_of_teams_;  // of the blocks at work
  Failure failure_;
};

}  // namespace

Result<Division> divide(const Kernel& kernel, const Run& run) {
  const auto tiles = ir::evaluate_extent(kernel.tiles, run.value);
  if (!tiles) return Status(Code::Internal, "tile count cannot be evaluated");
  Division d{{}, *tiles};
  for (const Cut& cut : kernel.cuts) {
    const auto units = ir::evaluate_extent(cut.units, run.value);
    if (!units) return Status(Code::Internal, "units of a cut cannot be evaluated");
    const int64_t whole = std::max<int64_t>(1, *units), k = static_cast<int64_t>(d.chunks.size());
    d.chunks.push_back(k < std::ssize(run.chunks) ? run.chunks[static_cast<size_t>(k)] : whole);
    if (d.chunks.back() < 1 || d.chunks.back() > whole) return Status(Code::Internal, "a chunk that is larger than its axis");
    d.tiles *= (*units + d.chunks.back() - 1) / d.chunks.back();
  }
  return d;
}

Result<int32_t> interpret(const Kernel& kernel, const Run& run) {
  MLC_ASSIGN(Memory memory, Memory::make(kernel, run));
  return Interpreter(kernel, run, std::move(memory)).go();
}

}  // namespace mlc::loop
