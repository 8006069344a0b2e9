// One nest compiled for the interpreter: a small register program whose instructions work on a block of points along one
// map dim (the lanes). A register holds one value per lane, or one for all of them where nothing depends on the lane.
// Folds are inner programs run once per point of their dims; the sum of a product of two loads, which is nearly all the
// work of a model, runs in plain strided loops instead.
//
// No control flow: both arms of a Select are computed, under masks that only say whose reads may fault. A read outside
// of an array yields zero where the mask is off.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "packager/nest/evaluate/evaluate.h"
#include "packager/nest/evaluate/factor.h"
#include "packager/nest/evaluate/tensor.h"
#include "packager/nest/nest.h"

namespace mlc::nest {

// c + sum k[d] * value of dim slot d.
struct Affine {
  int64_t c = 0;
  std::vector<int64_t> k;
};

// An index along one axis: affine in the dims, or computed into a register.
struct AxisIndex {
  bool affine = false;
  Affine at;
  int reg = -1;
  bool inside = false;  // affine and in range at every point of the nest
};

struct AccessCode {
  uint32_t array = 0;
  DType dtype = DType::None;
  bool fault_is_bug = true;
  std::vector<int64_t> extents, strides;
  std::vector<AxisIndex> axes;
  bool all_affine = false;
  Affine linear;     // element, if all_affine
  int mask = -1;     // register, or -1: every lane
};

// A factor of a sum of products (factor.h), all of its indices affine.
struct FactorCode {
  AccessCode of;
  std::optional<AccessCode> less;   // inside at every point
  std::optional<ir::Scalar> constant;  // instead
};

struct Instr {
  enum Kind : uint8_t { Unary, Binary, Select, Fma, Load, Fold, Broadcast, MaskAnd, MaskAndNot, Copy } kind = Unary;
  ir::Op op = ir::Op::Const;
  DType from = DType::None, to = DType::None;
  int dst = -1, a = -1, b = -1, c = -1;
  int code = -1;  // Load, Fold: which
};

struct FoldCode {
  const ir::Combiner* combiner = nullptr;
  DType wide = DType::None;             // of the accumulator, if there is one field
  std::vector<int> dims;                // slots, outer to inner
  int mask = -1;
  std::vector<Instr> where, body, join; // `where` runs first; no lane left: the rest is skipped
  int check_reg = -1, where_reg = -1;   // the condition as `where` computes it, and in the shape of the items
  std::vector<int> items, totals, units, joined;
  // Sum of factor * factor, under affine conditions (each >= 0).
  std::optional<SumIn> multiply_add;
  FactorCode x, y;
  std::vector<Affine> conditions;
  // Only one operand varies along the lanes, only the other along the map dim `group` of the program: many rows of
  // that dim are computed together and kept until their turn comes.
  bool grouped = false, x_is_vector = false;
};

struct Register {
  enum Class : uint8_t { F32, F64, Int } kind = Int;
  bool uniform = false;
};

struct BlockProgram {
  std::string source;
  std::vector<const ir::Dim*> dims;     // slots: map dims first, in order, then fold dims
  std::vector<int64_t> extents;
  size_t map_dims = 0;
  int group = -1;                       // map dim of which many rows are taken at a time, or -1
  int lane = -1;                        // slot of the lane dim; -1: a single point
  std::vector<int> dim_reg;             // registers that hold the dims' values, or -1
  std::vector<Register> registers;
  std::vector<std::pair<int, ir::Scalar>> constants;
  std::vector<AccessCode> loads, stores;
  std::vector<FoldCode> folds;
  std::vector<Instr> code;
  int where_reg = -1;
  std::vector<int> values;              // register stored by each write
  std::vector<bool> pushes;
  std::vector<ir::Join> joins;
};

// Compiles `nest` for these array shapes and symbol values (extents in `at` must evaluate): one program, or several that together do all of it.
Result<std::vector<BlockProgram>> compile_block(const Statement& s, Evaluator& at);
// What that takes, in nanoseconds of one core, roughly.
double work_of(const BlockProgram& p);
// Runs it over all points; nests that push run on one thread, in order.
void run_block(const BlockProgram& p, std::vector<Tensor>& arrays, const Function& f, unsigned threads, Fault& fault);

}  // namespace mlc::nest
