// The machine of one thread that runs a block program (block.h): its registers, the point at which it stands, what it sets
// aside. One machine is used for many blocks; programs and arrays are shared, and must outlive it.
//
//   block_run.cpp         blocks and instructions; the threads that share a nest
//   block_arithmetic.cpp  operations on registers
//   block_memory.cpp      loads and stores
//   block_fold.cpp        folds
//   block_products.cpp    sums of products, nearly all the work of a model (block_tile.h: the loop within)
//
// A register has room for `max_lanes` values (or for one, if it is uniform), of which the present block uses `lanes_`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "packager/ir/numeric.h"
#include "packager/nest/block/block.h"

namespace mlc::nest {

class BlockMachine {
 public:
  BlockMachine(const BlockProgram& program, std::vector<Tensor>& arrays, const Function& function);

  // Lanes a block may have, at least 1.
  int64_t max_lanes() const { return max_lanes_; }
  // Computes and stores lanes first .. first + lanes of the row whose other map dims are in `row`. The next of `rows_ahead` calls are
  // going to be the same for one row of the group after the other, this one being the first.
  void run_block(const std::vector<int64_t>& row, int64_t first, int64_t lanes, int64_t rows_ahead);

  bool failed() const { return fault_.failed; }
  const Fault& fault() const { return fault_; }

 private:
  // --- registers ---
  float* floats(int r) { return reinterpret_cast<float*>(&memory_[offset_[static_cast<size_t>(r)]]); }
  double* doubles(int r) { return reinterpret_cast<double*>(&memory_[offset_[static_cast<size_t>(r)]]); }
  int64_t* ints(int r) { return &memory_[offset_[static_cast<size_t>(r)]]; }
  bool uniform(int r) const { return program_.registers[static_cast<size_t>(r)].uniform; }
  int64_t count(int r) const { return uniform(r) ? 1 : lanes_; }
  Register::Class kind(int r) const { return program_.registers[static_cast<size_t>(r)].kind; }

  ir::Scalar get(int r, int64_t lane) {
    switch (kind(r)) {
      case Register::F32: return {0, floats(r)[lane]};
      case Register::F64: return {0, doubles(r)[lane]};
      case Register::Int: return {ints(r)[lane], 0};
    }
    return {};
  }
  void set(int r, int64_t lane, ir::Scalar v) {
    switch (kind(r)) {
      case Register::F32: floats(r)[lane] = static_cast<float>(v.f); return;
      case Register::F64: doubles(r)[lane] = v.f; return;
      case Register::Int: ints(r)[lane] = v.i; return;
    }
  }
  template <class T>
  void set_sum(int r, int64_t lane, T v) {
    if constexpr (std::is_same_v<T, float>) floats(r)[lane] = v;
    else if constexpr (std::is_same_v<T, double>) doubles(r)[lane] = v;
    else ints(r)[lane] = static_cast<int64_t>(v);
  }
  // Whether a mask lets a lane through, or all of them; without a mask (-1) all are.
  bool any(int mask);
  bool all(int mask);
  void copy(int dst, int from);
  void broadcast(int dst, int from);         // lane 0 to all
  void take(int dst, int from, int mask);    // copies where the mask is set

  // --- the point ---
  int64_t extent(int slot) const { return program_.extents[static_cast<size_t>(slot)]; }
  // At the first lane of the block.
  int64_t value_of(const Affine& a) const {
    int64_t v = a.c;
    for (size_t d = 0; d < a.k.size(); ++d) v += a.k[d] * point_[d];
    return v;
  }
  int64_t lane_step(const Affine& a) const {
    return program_.lane >= 0 && static_cast<size_t>(program_.lane) < a.k.size() ? a.k[static_cast<size_t>(program_.lane)] : 0;
  }
  void move(int slot, int64_t value) {
    point_[static_cast<size_t>(slot)] = value;
    if (int r = program_.dim_reg[static_cast<size_t>(slot)]; r >= 0) ints(r)[0] = value;
  }

  // --- instructions ---
  void run(const std::vector<Instr>& code);
  void unary(const Instr& i);
  bool real_unary(const Instr& i);
  void binary(ir::Op op, DType type, int dst, int a, int b);
  bool real_binary(ir::Op op, DType type, int dst, int a, int b);
  bool int_binary(ir::Op op, DType type, int dst, int a, int b);
  void select(int dst, int condition, int a, int b);
  void fma(const Instr& i);
  void and_masks(const Instr& i);
  void narrow(DType type, int r);  // rounds floats to a narrower type
  void wrap(DType type, int r);    // integers to those of the type

  // --- memory ---
  void load(const AccessCode& c, int dst);
  void load_row(const AccessCode& c, int dst, int64_t begin, int64_t end);
  void load_each(const AccessCode& c, int dst);
  std::pair<int64_t, int64_t> lanes_inside(const AccessCode& c, int64_t lanes) const;
  void store(size_t write);
  bool row_inside(const AccessCode& c, int64_t lanes) const;
  bool is_read(const AccessCode& c, int dst, int64_t lane);
  int64_t element(const AccessCode& c, int64_t lane, bool active);
  void fault(const AccessCode& c, size_t axis, int64_t index);

  // --- folds ---
  void fold(const FoldCode& f);
  bool next_point(const FoldCode& f);
  void combine(const FoldCode& f);
  bool combine_masked(ir::Op op, DType type, int total, int item, const int64_t* mask);
  void sum_of_products(const FoldCode& f);
  template <class T>
  const T* sums_of_row(const FoldCode& f);
  template <class T>
  void sum_rows(const FoldCode& f, T* total, int64_t rows);
  template <class T>
  void add_products(const FoldCode& f, T* total);
  template <class T>
  void gather_products(const FoldCode& f, T* total, int64_t rows);
  template <class T>
  void multiply_panels(const FoldCode& f, T* total, int64_t rows);
  template <class T>
  bool is_finite(const FactorCode& f);
  // Elements at which the loads of a factor stand.
  struct At {
    int64_t of = 0, less = 0;
  };
  At at(const FactorCode& f) const;
  // A matrix in memory.
  template <class T>
  struct RowsOf {
    const T* first;
    int64_t row, step;
  };
  template <class T>
  RowsOf<T> other_rows(const FoldCode& f, int64_t rows);
  template <class T>
  const T* lanes_of(const FactorCode& f, const At& from, size_t inner, int64_t k, int64_t first, int64_t n, std::vector<T>& memory, int64_t& step);
  template <class T>
  const T* factors(const FactorCode& f, int64_t of, int64_t less, int slot, int64_t n, std::vector<T>& memory, int64_t& step);
  // Lanes [first, second) where all conditions of the fold hold, at step `k` of its innermost dim.
  std::pair<int64_t, int64_t> lanes_that_count(const FoldCode& f, int64_t k, int64_t lanes) const;
  bool edges_hold(const FoldCode& f, int64_t k, int64_t first, int64_t last);

  // An axis along which a read might leave its array.
  struct Edge {
    const AccessCode* access;
    size_t axis;
    const Affine* index;
    int64_t base;  // where the innermost dim is 0
  };
  // What sums may be computed in.
  using Numbers = std::tuple<std::vector<float>, std::vector<double>, std::vector<uint32_t>, std::vector<uint64_t>>;
  // Rows of a group that were computed together.
  struct Kept {
    std::vector<int64_t> key;  // map dims but the group's, lanes; empty: nothing yet
    int64_t first = 0, rows = 0;
    Numbers sums;              // each row as many whole units of lanes (block_tile.h)
  };
  // What some steps of a grouped sum multiply.
  template <class T>
  struct Panels {
    std::vector<T> x;  // along the lanes: of each unit of lanes its steps; 0 where a lane does not count
    std::vector<T> y;  // along the group, if it has to be brought together: of each row its steps
    std::vector<std::pair<int64_t, int64_t>> lanes;  // that count, of each step
    bool is_partial = false;                         // somewhere not all of them
    int64_t first_step = 0;                          // of all steps of the sum
    At y_at;                                         // of the other factor, at the sum's first step
  };

  const BlockProgram& program_;
  std::vector<Tensor>& arrays_;
  const Function& function_;
  std::vector<int64_t> point_;   // value of every dim slot; of the lane dim: its first lane
  std::vector<size_t> offset_;   // of each register in memory_
  std::vector<int64_t> memory_;
  int64_t max_lanes_ = 1, lanes_ = 1;
  Fault fault_;
  std::vector<Kept> kept_;       // by fold
  std::vector<int64_t> starts_;        // of the axes of the load at hand: kept for its memory alone
  std::vector<int64_t> key_, bounds_;  // of the sum at hand: kept here for their memory alone
  std::vector<Edge> edges_;
  Numbers x_factors_, y_factors_;
  std::tuple<Panels<float>, Panels<double>, Panels<uint32_t>, Panels<uint64_t>> panels_;  // of the sum at hand
  std::vector<std::optional<bool>> finite_;  // by fold: what is multiplied with the lanes, as far as it was asked for
  int64_t rows_ahead_ = 1;                   // of the group, from the present one on
};

}  // namespace mlc::nest
