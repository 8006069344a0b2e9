// What a target is: a named set of features, and the facts that schedules need. Described once per machine in
// targets/<machine>/; no LLVM type appears here, so lowering and the plan may include it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "schema/features.h"

namespace mlc::loop {
struct Kernel;
}

namespace mlc::targets {

class Emitter;  // emitter.h

struct Target {
  std::string name;                   // "x86-64-v3"
  std::string base;                   // the target that has all but some instructions for ir::Op::Dot of this one; may be empty
  const Emitter* emitter = nullptr;   // that makes its modules
  Machine machine = Machine::None;    // whose instructions these are; None: an interpreter runs them
  std::vector<std::string> features;  // registry names (schema/features.tbl), sorted: the requirement list of the variant
  std::string llvm_triple;            // empty: not by LLVM
  std::vector<std::string> llvm_features;  // "+avx2", ... on the machine's baseline CPU
  std::string llvm_cpu;                    // devices: what LLVM calls the architecture, "sm_80"

  // Facts for schedules. Where vectors are split into scalars (rv64gc), a "register" is a group of scalar ones.
  bool has_vectors = true;       // false: vectors are split, each lane takes a register of its own, however few bytes it has
  unsigned vector_bytes = 16;    // widest register that code should use
  unsigned vector_registers = 16;
  bool has_fma = false;          // a fused multiply-add instruction: Op::Fma may be fused
  bool has_masks = false;        // masked loads and stores are cheap
  bool has_lane_operands = false;  // what all lanes take is cheaper from a lane of a register than from an element of memory
  bool has_tiles = false;        // loop::StmtKind::Tiles: a unit that multiplies matrices of codes and of bf16
  bool has_sized_locals = true;  // local arrays may be as large as extents of the run say

  // Devices. Kernels have blocks of this many lanes; 0: a processor, its kernels have none.
  unsigned block_lanes = 0;
  bool folds_lanes = false;  // loop::StmtKind::FoldLanes is a matter of few instructions
  unsigned access_bytes = 0;  // most that a lane reads or writes at once, where it is aligned; 0: one element
  bool has_mma = false;      // loop::StmtKind::Mma and LoadMatrices are instructions, of f32 (as tf32), f16, bf16 and codes of 8 bits alike
  bool has_dot = false;      // Op::Dot of codes of 8 bits, four by four, is an instruction
  bool has_group_mma = false;  // loop::StmtKind::GroupMma is an instruction
  unsigned matrix_side = 0, matrix_lanes = 0;  // of loop::StmtKind::Matrix, whose factors are f16; 0: there is none
  bool has_exp2 = false;     // Op::Exp2 is an instruction
  bool copies_aside = false;  // loop::StmtKind::Copy is an instruction
  bool is_alone = false;      // its name alone asks for it, groups and families of targets do not have it: its code runs on one architecture and none after it, or on some devices only
  uint32_t most_cluster_blocks = 0;  // blocks that may be a cluster (loop::StmtKind::Peer); 0: there are no clusters
  // Of one launch: its buffers, one for scalars where there are more than `pushed_scalars`, one for faults where there may be some.
  // 0: as many as there are.
  unsigned most_bindings = 0, pushed_scalars = 0;
  unsigned buffer_alignment = 64;  // bytes: where buffers of a launch may begin in memory that they share
  unsigned f32_lanes() const { return vector_bytes / 4; }
  unsigned most_buffers() const { return most_bindings > 2 ? most_bindings - 2 : 0; }  // whatever else a kernel has; 0: any number
  bool is_device() const { return block_lanes > 0; }
};

// All targets that run on a processor, in a fixed order, `portable` last: what `--target all` means.
std::span<const Target> all_targets();
// Those of devices, each beside one of the others: a file for a device runs on a processor as well.
std::span<const Target> device_targets();
// Of either.
const Target* find_target(std::string_view name);
bool has_feature(const Target& target, std::string_view name);
// Of the targets whose features the build machine has, the one that asks for most: what a file for all targets would run
// here ("native"). Never null, at worst `portable`.
const Target* native_target();

// Kernels may use at most this much stack: there are no stack probes, and a larger frame can jump a guard page.
inline constexpr int64_t kMaxFrame = 4096;

// A kernel whose code would need a larger one.
struct LargeFrame {
  size_t kernel = 0;
  uint64_t bytes = 0;
};

// What emitting for this target needs of the machine beside memory: a folder for temporary files.
Status can_emit(const Target& target);

// What ends the process where LLVM cannot go on: it has no memory, or fails in another way (Internal; Resource where the disk
// or a limit is why). Both may be called on any thread and must not return. Without them LLVM prints and ends the process
// itself.
void on_failure(void (*out_of_memory)(), void (*failed)(const Status& why));

// A module: the bytes that go into a module segment.
struct Module {
  std::vector<std::byte> bytes;
  std::vector<uint64_t> scratch_bytes;  // per kernel
};
// Code that was compiled before, by a key that identifies its kernel, target and compiler. Asked on any thread, several
// at a time perhaps.
class CodeStore {
 public:
  virtual ~CodeStore() = default;
  virtual std::optional<std::vector<std::byte>> find(const std::string& key) = 0;
  virtual void keep(const std::string& key, std::span<const std::byte> code) = 0;
};

struct EmitOptions {
  unsigned threads = 0;  // 0: as many as this process may use. The bytes do not depend on it.
  Progress progress;     // counts kernels; may be empty
  // Of the kernels, each another, fit for names of symbols. Needed for a store only, which then is asked before a kernel is
  // compiled, and told what it became.
  std::span<const std::string> keys = {};
  CodeStore* store = nullptr;
};

// Compiles kernels to one linked module (ELF for CPU families, portable code for `portable`); entry k is kernels[k].
// Equal input gives equal bytes. Kernels must have passed loop::verify.
// Kernels that need a frame above kMaxFrame are an error; with `large` they are listed there instead, by number, and the
// module has no bytes.
Result<Module> emit_module(const Target& target, std::span<const loop::Kernel> kernels, std::vector<LargeFrame>* large = nullptr,
                           const EmitOptions& options = {});
// Proves from the bytes that the module uses no instruction outside the target's features (hardware.md section 5).
Status audit_module(const Target& target, std::span<const std::byte> module);

}  // namespace mlc::targets
