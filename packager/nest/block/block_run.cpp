#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

#include "base/run_on_threads.h"
#include "packager/nest/block/block_machine.h"
#include "packager/nest/block/block_tile.h"

namespace mlc::nest {

// Registers of one lane each should stay in the nearest cache together; kept rows of a group want less.
BlockMachine::BlockMachine(const BlockProgram& program, std::vector<Tensor>& arrays, const Function& function)
    : program_(program), arrays_(arrays), function_(function), point_(program.dims.size(), 0) {
  constexpr int64_t kWords = 65536, kLeast = 32, kMost = 1024, kMostOfGroup = 256;
  size_t wide = 1;
  for (const Register& r : program.registers) wide += !r.uniform;
  const int64_t lanes = program.lane < 0 ? 1 : extent(program.lane);
  max_lanes_ = std::clamp<int64_t>(kWords / static_cast<int64_t>(wide), kLeast, kMost);
  if (program.group >= 0) max_lanes_ = std::min(max_lanes_, kMostOfGroup);
  max_lanes_ = std::max<int64_t>(1, std::min(max_lanes_, lanes));
  offset_.reserve(program.registers.size());
  size_t words = 0;
  for (const Register& r : program.registers) {
    offset_.push_back(words);
    words += r.uniform ? 1 : static_cast<size_t>(max_lanes_);
  }
  memory_.resize(words);
  kept_.resize(program.folds.size());
  finite_.resize(program.folds.size());
  lanes_ = max_lanes_;
  for (const auto& [reg, value] : program.constants)
    for (int64_t i = 0, n = count(reg); i < n; ++i) set(reg, i, value);
}

void BlockMachine::run_block(const std::vector<int64_t>& row, int64_t first, int64_t lanes, int64_t rows_ahead) {
  lanes_ = lanes;
  rows_ahead_ = rows_ahead;
  for (size_t d = 0; d < program_.map_dims; ++d) {
    const int slot = static_cast<int>(d);
    if (slot != program_.lane) {
      move(slot, row[d]);
      continue;
    }
    point_[d] = first;
    if (int r = program_.dim_reg[d]; r >= 0)
      for (int64_t i = 0; i < lanes; ++i) ints(r)[i] = first + i;
  }
  run(program_.code);
  for (size_t w = 0; w < program_.stores.size() && !fault_.failed; ++w) store(w);
}

void BlockMachine::run(const std::vector<Instr>& code) {
  for (const Instr& i : code) {
    if (fault_.failed) return;
    switch (i.kind) {
      case Instr::Unary: unary(i); break;
      case Instr::Binary: binary(i.op, i.from, i.dst, i.a, i.b); break;
      case Instr::Select: select(i.dst, i.a, i.b, i.c); break;
      case Instr::Fma: fma(i); break;
      case Instr::Load: load(program_.loads[static_cast<size_t>(i.code)], i.dst); break;
      case Instr::Fold: fold(program_.folds[static_cast<size_t>(i.code)]); break;
      case Instr::Broadcast: broadcast(i.dst, i.a); break;
      case Instr::MaskAnd: case Instr::MaskAndNot: and_masks(i); break;
      case Instr::Copy:
        copy(i.dst, i.a);
        narrow(i.to, i.dst);
        break;
    }
  }
}

namespace {

// The points of a nest as rows of lanes, and how they are handed to threads: by chunks of consecutive rows.
struct RowsOfLanes {
  std::vector<size_t> outer;  // map dims but the lane's, outermost first; a group's last: its rows share their work
  int64_t count = 1;
  int64_t chunk = 1;
  int64_t group = 1;          // rows that are computed under each block of lanes before the next block
  int64_t lanes = 1;
  unsigned threads = 1;
};

// Nothing worth a second thread.
constexpr double kLeastWork = 1 << 16;

// No rows (count 0), if a map dim has no points.
RowsOfLanes rows_of(const BlockProgram& p, unsigned threads) {
  RowsOfLanes rows;
  double work = 1;
  for (size_t d = 0; d < p.map_dims; ++d) {
    if (p.extents[d] <= 0) return {.count = 0};
    work *= static_cast<double>(p.extents[d]);
    if (static_cast<int>(d) == p.lane) continue;
    if (static_cast<int>(d) != p.group) rows.outer.push_back(d);
    rows.count *= p.extents[d];
  }
  if (p.group >= 0) rows.outer.push_back(static_cast<size_t>(p.group));
  for (const FoldCode& c : p.folds)
    for (int d : c.dims) work *= static_cast<double>(std::max<int64_t>(1, p.extents[static_cast<size_t>(d)]));
  rows.lanes = p.lane < 0 ? 1 : p.extents[static_cast<size_t>(p.lane)];
  const bool ordered = std::find(p.pushes.begin(), p.pushes.end(), true) != p.pushes.end();
  if (!ordered && work >= kLeastWork) rows.threads = static_cast<unsigned>(std::min<int64_t>(std::max(1u, threads), rows.count));
  rows.chunk = std::max<int64_t>(1, rows.count / (static_cast<int64_t>(rows.threads) * (p.group >= 0 ? 4 : 8)));
  if (p.group >= 0) {
    const int64_t whole = p.extents[static_cast<size_t>(p.group)];
    const int64_t unit = rows.count > whole ? whole : 2 * kTileRows;  // chunks do not cut through the group's dim
    rows.chunk = (rows.chunk + unit - 1) / unit * unit;
    rows.group = std::min(rows.chunk, whole);
  }
  return rows;
}

// The rows begin .. end, as far as nothing fails.
void run_rows(const BlockProgram& p, const RowsOfLanes& rows, int64_t begin, int64_t end, BlockMachine& machine) {
  std::vector<int64_t> row(p.map_dims, 0);
  for (int64_t first = begin; first < end; first += rows.group)
    for (int64_t lane = 0; lane < rows.lanes; lane += machine.max_lanes())
      for (int64_t r = first, stop = std::min(end, first + rows.group); r < stop && !machine.failed(); ++r) {
        int64_t rest = r;
        for (size_t k = rows.outer.size(); k-- > 0;) {
          row[rows.outer[k]] = rest % p.extents[rows.outer[k]];
          rest /= p.extents[rows.outer[k]];
        }
        machine.run_block(row, lane, std::min(machine.max_lanes(), rows.lanes - lane), stop - r);
      }
}

}  // namespace

double work_of(const BlockProgram& p) {
  // A grouped sum is mostly products of tiles, and what a step takes to be brought into a panel is shared by all rows.
  constexpr double kOfInstruction = 1.5, kOfProduct = 0.5, kOfTile = 0.05, kOfPanel = 20;
  const auto extent = [&](int d) { return d < 0 ? 1.0 : static_cast<double>(std::max<int64_t>(1, p.extents[static_cast<size_t>(d)])); };
  const double of_group = kOfTile + kOfPanel / (std::min(extent(p.lane), 256.0) * std::min(extent(p.group), 128.0));
  double points = 1, per_point = static_cast<double>(p.code.size() + p.stores.size()) * kOfInstruction;
  for (size_t d = 0; d < p.map_dims; ++d) points *= static_cast<double>(std::max<int64_t>(0, p.extents[d]));
  for (const FoldCode& f : p.folds) {
    double steps = f.grouped ? of_group : f.multiply_add ? kOfProduct : static_cast<double>(f.where.size() + f.body.size() + f.join.size() + 1) * kOfInstruction;
    for (int d : f.dims) steps *= static_cast<double>(std::max<int64_t>(0, p.extents[static_cast<size_t>(d)]));
    per_point += steps;
  }
  return std::ceil(points * per_point);  // whole numbers add up to the same in any order
}

void run_block(const BlockProgram& p, std::vector<Tensor>& arrays, const Function& f, unsigned threads, Fault& fault) {
  const RowsOfLanes rows = rows_of(p, threads);
  if (rows.count == 0) return;
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  run_on_threads(rows.threads, [&] {
    BlockMachine machine(p, arrays, f);
    for (;;) {
      const int64_t begin = next.fetch_add(rows.chunk);
      if (begin >= rows.count) return;
      run_rows(p, rows, begin, std::min(rows.count, begin + rows.chunk), machine);
      if (!machine.failed()) continue;
      std::lock_guard lock(mutex);
      fault.set(machine.fault().bug, machine.fault().message);
      next = rows.count;
      return;
    }
  });
}

}  // namespace mlc::nest
