// Families of schedules, and what they share. Each takes a flat nest and says which schedules there are for it, or declines.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "packager/lower/flat/body.h"
#include "packager/lower/flat/flat.h"
#include "packager/lower/lower.h"
#include "packager/schedule/schedule.h"
#include "targets/machines.h"

namespace mlc::lower {

struct Job {
  ir::Context& ctx;
  const targets::Target& target;
  const MathExpander& expand;
  std::string name;                // of the kernel
  std::optional<unsigned> widest;  // vectors of more bytes are not wanted; those of the target, if nothing is said
  // The rows of the table of machines that the target stands for.
  const targets::ProcessorRow& processor() const { return targets::processor_of(target.name); }
  const targets::DeviceRow& device() const { return targets::device_of(target.name); }
  double operation_ns() const { return target.is_device() ? device().operation_ns : processor().operation_ns; }
  unsigned vector_bytes() const { return widest.value_or(target.vector_bytes); }
  unsigned f32_lanes() const { return lanes_of(DType::F32); }
  unsigned lanes_of(DType type) const { return std::max(1u, vector_bytes() / static_cast<unsigned>(bytes_of(type))); }
};

// "<source>" with unsuitable characters replaced.
std::string kernel_name(const std::string& source);

using Kernels = std::vector<loop::Kernel>;

// An axis along which a kernel may be cut anywhere between quanta, and what a tile reads for each of these.
struct Axis {
  const ir::Expr* units = nullptr;
  const ir::Expr* bytes = nullptr;  // null: nothing that others do not read as well
};
// The quanta of an axis that a tile has.
struct Range {
  const ir::Expr *begin = nullptr, *end = nullptr;
};

// A kernel under construction: `tiles`, cuts and the loop over them are its skeleton.
struct Skeleton {
  explicit Skeleton(const Job& job);
  // for t in tile_begin .. tile_end, decoded into one index per extent and one range per axis (outermost first). An extent
  // may be any product.
  void over_tiles(const std::vector<const ir::Expr*>& extents, const std::vector<Axis>& axes,
                  const std::function<void(const std::vector<const ir::Expr*>&, const std::vector<Range>&)>& body);
  // The same in turns, which workers make together: of a tile they have some of `parts` each (loop::Cut::in_turns).
  void over_turns(const std::vector<const ir::Expr*>& extents, const ir::Expr* turns, const ir::Expr* parts,
                  const std::function<void(const std::vector<const ir::Expr*>&, const Range& turns, const Range& parts)>& body);
  // Devices: the points of `extents`, each in a lane of its own, neighbours along the last in neighbouring lanes.
  void over_lanes(const std::vector<const ir::Expr*>& extents, unsigned block, const std::function<void(const std::vector<const ir::Expr*>&)>& body);
  // Devices: a block of lanes for each point of `extents`.
  void over_blocks(const std::vector<const ir::Expr*>& extents, unsigned lanes,
                   const std::function<void(const std::vector<const ir::Expr*>& at, const ir::Expr* lane)>& body);
  // One index per count from the number of a point, the last running fastest.
  std::vector<const ir::Expr*> decoded(const ir::Expr* point, const std::vector<const ir::Expr*>& counts);
  // What so many nanoseconds for each point of `extents` make together, as a double over symbols.
  const ir::Expr* takes(double nanoseconds, const std::vector<const ir::Expr*>& extents, const ir::Expr* operations = nullptr);
  // `e` if the plan can work it out whatever the symbols are, else what it is guessed to be.
  const ir::Expr* for_plan(const ir::Expr* e);
  // Operations on scalars that one evaluation of `e` takes, as a double over symbols.
  const ir::Expr* operations(const ir::Expr* e);
  // Devices: memory that the lanes of a block share.
  uint32_t shared(std::string name, DType dtype, int64_t count);
  // Memory of a worker, for as long as a tile takes; its number as a buffer. All parameters are known by then.
  uint32_t scratch(std::string name, DType dtype, const ir::Expr* count);
  // All tiles together take `work` (`takes`; null: not known). Collects scalars, verifies.
  Result<loop::Kernel> finish(const ir::Expr* work = nullptr);

  loop::Kernel kernel;
  loop::Builder b;
  ir::Context& ctx;
};

constexpr size_t kMostCuts = 3;  // of one launch, in a plan

// How a template computes one nest: what a launch of it may be cut along, and the code of a part of it. A kernel of its own
// has a part for each tile; in a group, a part is all of a block of rows.
class Stage {
 public:
  Stage(const Job& job, const FlatNest& nest, Skeleton& k)
      : job_(job), n_(nest), ctx_(job.ctx), k_(k), s_(job.ctx, job.target, job.vector_bytes(), job.expand, k.b) {}
  virtual ~Stage() = default;

  // Writes the code of one point of `batch` and of these quanta of each axis where the skeleton's builder stands.
  void emit(const std::vector<const ir::Expr*>& at, const std::vector<Range>& ranges) {
    s_.scoped([&] {
      for (size_t k = 0; k < batch.size(); ++k) s_.bind(batch[k], at[k]);
      part(ranges);
    });
  }
  // Devices: the code of a lane of the block `at`, where `grid` says how many blocks there are.
  void emit_block(const std::vector<const ir::Expr*>& at, const ir::Expr* lane) {
    s_.scoped([&] { block(at, lane); });
  }
  // Ok if all of it could be lowered.
  Status status() const { return s_.status(); }

  std::string schedule;                // its text
  std::vector<const ir::Dim*> batch;   // outermost, one point at a time
  std::vector<Axis> axes;
  int64_t neighbours = 1;              // devices: points along the last of `batch` that a lane has
  std::vector<const ir::Expr*> grid;   // of blocks whose lanes work together, instead of batch and axes; empty: none do
  const ir::Expr* work = nullptr;      // nanoseconds for all points (Skeleton::takes)

 protected:
  virtual void part(const std::vector<Range>& ranges) = 0;
  virtual void block(const std::vector<const ir::Expr*>& at, const ir::Expr* lane) { (void)at, (void)lane; }

  const Job& job_;
  const FlatNest& n_;
  ir::Context& ctx_;
  Skeleton& k_;
  Body s_;
};
using StagePtr = std::unique_ptr<Stage>;

// Dims under names that no two of them share.
class DimNames {
 public:
  std::string add(const ir::Dim* d);
  const ir::Dim* dim(const std::string& name) const;  // null: there is none

 private:
  std::vector<std::pair<std::string, const ir::Dim*>> all_;
};

// A map that reads an array across its grain, both dims of `least` points or more.
struct Crossed {
  const ir::Dim *across = nullptr, *along = nullptr;  // contiguous in the write; in the loads
  std::vector<const ir::Expr*> loads;
};
std::optional<Crossed> crossed(ir::Context& ctx, const FlatNest& nest, double least);

// The schedules of one family for a nest. The nest must outlive it and its stages.
constexpr size_t kMostAlternatives = 16;  // of a statement, that tuning tries

struct Schedules {
  schedule::Space space;                     // what is legal
  std::vector<schedule::Schedule> ranked;    // what is good, best first; never empty
  std::vector<schedule::Blocks> other_blocks;  // that the best might gain by on some machine
  // The stage that does what one that `space` allows says.
  std::function<StagePtr(Skeleton& k, const schedule::Schedule& how)> build;
};

// The families. Nothing: this is none of their nests. `maps` takes all.
std::optional<Schedules> products(const Job& job, const FlatNest& nest);
std::optional<Schedules> decoded_products(const Job& job, const FlatNest& nest);
std::optional<Schedules> windows(const Job& job, const FlatNest& nest);
std::optional<Schedules> transposes(const Job& job, const FlatNest& nest);
std::optional<Schedules> device_products(const Job& job, const FlatNest& nest);
std::optional<Schedules> device_lines(const Job& job, const FlatNest& nest);
std::optional<Schedules> device_transposes(const Job& job, const FlatNest& nest);
// Devices that fold lanes: long folds, a block of lanes for each point.
std::optional<Schedules> device_folds(const Job& job, const FlatNest& nest);
Schedules maps(const Job& job, const FlatNest& nest);
// Those of the first family that takes it.
Schedules schedules_of(const Job& job, const FlatNest& nest, bool tiles = true);
// The kernel that does nothing else, by a schedule of these; fails where they do not allow it.
Result<loop::Kernel> kernel_by(const Job& job, const FlatNest& nest, const Schedules& all, const schedule::Schedule& how);
// The same by the best schedule, point by point unless `tiles`.
Result<loop::Kernel> kernel_of(const Job& job, const FlatNest& nest, bool tiles = true);

// A product of free extents: what it is where the run finds one column or row comes back as kernels; `nest` is what is left, which has no
// points there.
Status split_single(const Job& job, FlatNest& nest, Kernels& kernels);

// A product whose columns are contiguous along the sum (the K of Q * K^T), is changed to read panels from a workspace;
// the kernel that writes these comes back. Nothing: `nest` is no such product.
Status pack_columns(const Job& job, FlatNest& nest, Kernels& kernels);

// Neighbours of a group at one block of rows. What a nest writes for each row, and the next one folds at once, that fold writes: it goes
// by once. Buffers from `num_params` on are local.
void join_folds(ir::Context& ctx, std::vector<FlatNest>& stages, size_t num_params);

// Devices: what a lane would compute again and again, folds that many points share, and what takes more buffers than a launch has,
// becomes kernels of their own, which come back; `nest` is what is left, to be launched behind them.
Result<Kernels> split_for_device(const Job& job, FlatNest& nest);

// Devices: all of a group, and the schedules of the attention in it. Nothing: each statement is better alone.
Result<std::optional<Kernels>> lower_device_group(const Job& job, const nest::Function& f, const nest::Group& group, const schedule::Schedule* how);
Result<std::vector<schedule::Schedule>> device_group_schedules(const Job& job, const nest::Function& f, const nest::Group& group);

Result<Kernels> lower_proc(const Job& job, const nest::Function& f, const nest::Proc& proc, loop::Hoisting hoist);

// The points lo .. hi of a dim of `extent` points that lie in `range`, whose quanta are `quantum` points.
Range points_of(Skeleton& k, const Range& range, int64_t quantum, const ir::Expr* extent);

// The dim along which the write is contiguous, or null.
const ir::Dim* contiguous_dim(ir::Context& ctx, const FlatNest& nest);
constexpr int64_t kMostTurns = 4;  // of vectors whose lanes are written in turns: channels of a picture, and one beside them
// A dim whose quotient by a whole number is all that is read of it becomes two: what is read along it, and how often (repeats.cpp).
void split_repeats(const Job& job, FlatNest& nest);
// Lanes for vectors of what `nest` computes on, by the widest type among its values; as many as `d` has points at most.
unsigned natural_lanes(const Job& job, const FlatNest& nest, const ir::Dim* d = nullptr);
// Devices: how many neighbours along `d`, a power of two, a lane takes so that what is contiguous is read and written at once: 1, or as many
// as all addresses that know `d` begin at multiples of. Of all writes; of a fold, along the last of its dims; of some loads.
int64_t neighbours_in_writes(const Job& job, const FlatNest& nest, const ir::Dim* d);
int64_t neighbours_in_fold(const Job& job, const ir::Expr* fold);
int64_t neighbours_in_loads(const Job& job, const std::vector<const ir::Expr*>& loads, const ir::Dim* d);
// Whole lines of the cache, so that no two workers write to one.
int64_t line_quantum(const Job& job, const FlatNest& nest, int64_t lanes);
// What lanes that are left over become.
schedule::Tail tail_of_lanes(const targets::Target& target);

// The operation of loop::StmtKind::FoldLanes that joins so. Nothing: there is none.
inline std::optional<ir::Op> lanes_op(ir::Join join) {
  switch (join) {
    case ir::Join::Sum: return ir::Op::Add;
    case ir::Join::Prod: return ir::Op::Mul;
    case ir::Join::Min: return ir::Op::Min;
    case ir::Join::Max: return ir::Op::Max;
    case ir::Join::Any: return ir::Op::Or;
    case ir::Join::All: return ir::Op::And;
    case ir::Join::Last: case ir::Join::Custom: break;
  }
  return std::nullopt;
}

// Stores what is written, one array or all of the nest, at the dims as bound in `s`; `mask` restricts lanes or is null.
void emit_write(Body& s, loop::Builder& b, const FlatWrite& write, const ir::Expr* mask);
void emit_writes(Body& s, loop::Builder& b, const FlatNest& nest, const ir::Expr* mask);

}  // namespace mlc::lower
