// The Loop level: scheduled loops and stores, a tree. What a kernel does, down to vector width and order; emitters
// (targets/, portable) translate it one to one. Expressions are ir::Expr; see expr.h for which operations are allowed.
//
// Expressions may be evaluated strictly or lazily, as suits the emitter: a Load that must not happen in the arm of a
// Select that is not taken carries a mask. Equal subexpressions of one statement are one node (a DAG, not a tree):
// evaluate a node once per statement. Integer divisors are never zero, and never -1 where that would overflow.
// Load::access has no meaning here: addresses are in range or masked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "packager/ir/expr.h"

namespace mlc::loop {

enum class StmtKind : uint8_t {
  For,     // for var in begin .. end step step: body   (step a positive constant; var is an i64 Var, constant in body)
  While,   // while cond within bound: body; exceeding `bound` iterations faults
  If,      // if cond: body else orelse
  Let,     // let var = value; immutable, visible to the end of the enclosing block
  Local,   // local var = value; a register (scalar or vector) that Assign may change
  Assign,  // var = value
  Store,   // array[index] = value, only where cond (a mask) holds if there is one
  Fault,   // if cond (any lane of it): the kernel returns `fault` at once, or 0 if `fault` is 0
  Barrier,  // device kernels: no lane of the block goes on before all have come here; what they stored is there for all of them
  ClusterBarrier, // device kernels whose blocks are in clusters: the same of all lanes of the cluster
  Peer,      // device kernels whose blocks are in clusters: var = `value`, a load of what lanes share, as block `step` of the cluster has it: see below
  FoldLanes, // device kernels: var = `value` of `step` lanes side by side (1: of all), combined by `combine`, neighbours first: 2k and 2k + 1, then
             // pairs of these, and so on. So all of them have the same bits, whatever the device. All lanes come here or none; it is no Barrier
  Mma,       // device kernels: var = `value` + a*b of a tile by 32 lanes side by side, each of which has some of it: see below
  LoadMatrices, // device kernels: var = cells of four matrices that lanes share, which 32 lanes side by side load together: see below
  GroupMma,  // device kernels: sums + a*b of a tile by 128 lanes side by side, whose factors lie in an array that lanes share: see below
  Matrix,    // device kernels: products by a unit whose matrices subgroups have in a layout of their own: see below
  Tiles,     // kernels for processors: products of codes or bf16 by a unit that multiplies matrices: see below
  Copy,        // device kernels: `step` bytes from the load `value` on go to array[index], or zeros where cond does not hold; the lane goes on at once: see below
  CloseCopies, // device kernels: the copies of this lane since the last of these are a group, which may have none
  WaitCopies,  // device kernels: until at most `step` groups of this lane are under way, the youngest ones
  Prefetch, // the line of array[index] is wanted soon, in the cache that a core has beyond its first; nothing happens where there is none
};

enum class ForKind : uint8_t {
  Serial,
  Unroll,  // constant bounds; the emitter replicates the body
  Lanes,   // device kernels: all values at once, each in a lane of its own
};

// Mma. Lanes 32w .. 32w+31 of a block multiply 16 rows of a by 8 columns of b along 8 cells and add 16 x 8 sums. A cell is 32 bits: one
// f32, of which the upper 19 bits count, two neighbours of f16 or bf16, or four of codes of 8 bits, the first of them in the lowest bits. Lane l
// of these, with g = l/4 and t = l%4, has
//   a, u32 x 4: cells t and t + 4 of rows g and g + 8, in the order (g, t), (g+8, t), (g, t+4), (g+8, t+4)
//   b, u32 x 2: cells t and t + 4 of column g
//   value and var, f32 x 4, of codes i32 x 4: columns 2t and 2t + 1 of rows g and g + 8, row by row
// Products are exact; in which order they are added, and whether sums are rounded or cut in between, is the device's. Those of codes are exact
// modulo 2^32. All lanes of the block come here or none; it is no Barrier.

// LoadMatrices. Lanes 32w .. 32w+31 of a block load four matrices of eight rows of four cells. Lane 8m + i says where row i of matrix m is: `value`, a load of
// u32 x 4 without a mask from an array that lanes share, at a multiple of four. Lane l of these, with g = l/4 and t = l%4, has in cell m of var
//   cell t of row g of matrix m
//   of `transposed` matrices, whose cells are two elements of 16 bits: the elements g of the rows 2t (lower half) and 2t + 1
// So rows along the depth of a product or across it become the cells that Mma takes. All lanes of the block come here or none; it is no Barrier.

// GroupMma. Lanes 128w .. 128w+127 of a block multiply 64 rows of a by 8n columns of b along 16 cells and add the products to `sums`, n locals of each lane. What cells
// are, and how exact sums are, is as for Mma; cells of f32 are not multiplied so. Of warp v of the four, sums[j] are what Mma has of rows 16v .. 16v+15 and
// columns 8j .. 8j+7. Factors lie in `array`, of u32, a from 256*index[0] on and b from 256*index[1] on, in chunks of four cells:
//   chunk c of row or column r at 4r + (c xor r/2 mod 4)
//   of a or b `transposed`, of 16 bits, chunk c has elements 8c .. 8c+7 of a step of the depth, of which there are 32: step s at 256*(c/8) + 8s + (c mod 8 xor s mod 8);
//   there are whole eights of such chunks
// What is read was stored before a Barrier, and all is read when the statement ends. All lanes of the block come here or none; it is no Barrier.

// Matrix. Lanes of a block are teams of `Kernel::team.lanes` side by side, which a device runs as one subgroup. Each team has rows x columns matrices of side x side sums, f32, all
// zero from Begin on. They keep what they have from one of these statements to the next, and no other one sees them: how their elements lie in the lanes is the device's. Factors
// and sums lie in an array of u32 that lanes share, at places and strides that are multiples of four; all lanes of a team name the same ones. Products are exact; in which order they
// are added, and whether sums are rounded or cut in between, is the device's. What is read was stored before a Barrier. All lanes of the block come here or none; it is no Barrier.
enum class MatrixOp : uint8_t {
  Begin,  // all sums are zero
  Add,    // sums + a*b of `side` steps of the depth, two in a cell. index: {a, stride, b, stride}: row r of a begins at a + r*stride, and so does each column of b; the team has
          // all rows and columns of its matrices
  Store,  // array[index[0] + r*index[1] + c] = the bits of the sums of row r and column c of the matrices in row `step` of them
};
constexpr int64_t kTeamCells = 4;  // places are multiples of so many
constexpr uint32_t kMostTeamSums = 16, kLeastTeamLanes = 4, kMostTeamLanes = 64;

// Copy. From an array that the kernel only reads to one that lanes share, both at a multiple of so many bytes. The load stands for its first element, and its
// place is in range where cond holds. The bytes are there for the lane itself behind a WaitCopies that waits for their group, for other lanes behind a Barrier
// after that. Until then what lies there is undefined, and no lane may read it or write there. A lane waits for all of its copies before it ends.

// Peer. Blocks of a cluster run at once, and each reads what the others have in an array that lanes share, of elements of 32 bits. What lies there was stored before a
// ClusterBarrier, and the block that has it neither writes there nor ends before the next one.

// Tiles. A kernel has four tiles of 16 x 16 sums, which keep them from one of these statements to the next; no other one sees them. Factors are codes
// of 8 bits, whose sums are i32, or both bf16, whose sums are f32.
enum class TileOp : uint8_t {
  Begin,  // all sums are zero; rows and columns of factors have `step` bytes from here to the next Begin: 16, 32 or 64
  Dot,    // tile += a*b: codes exact modulo 2^32, bf16 in any order, subnormal numbers as they are or as zeros. index: {a, stride, b}; a and b are loads
          // of their first elements. Element k of row r of a lies r*stride + k elements behind that, element k of column c of b lies
          // 16*g*(k/g) + g*c + k%g behind that, where g elements are four bytes: a panel, as such products store them
  Store,  // array[index + 16*r + c] = the sum of row r and column c
};
constexpr unsigned kTiles = 4, kTileSide = 16;

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;

struct Stmt {
  StmtKind kind = StmtKind::For;
  ForKind for_kind = ForKind::Serial;
  const ir::Expr* var = nullptr;       // For, Let, Local, Assign, FoldLanes, Mma, Peer, LoadMatrices: an Op::Var
  const ir::Expr* begin = nullptr;
  const ir::Expr* end = nullptr;
  bool transposed = false;             // LoadMatrices; GroupMma: a
  bool b_transposed = false;           // GroupMma
  bool rolled = false;                 // For: it is unrolled as far as is good; an assembler that unrolls loops leaves it as it is
  int64_t step = 1;                    // For; FoldLanes: lanes that fold together, a power of two that divides those of the block; 1: all. Tiles, Copy: bytes. WaitCopies: groups. Peer: number of a block. Matrix: number of a row
  const ir::Expr* cond = nullptr;      // While, If: Bool; Store: mask of value's lanes, or null; Copy: Bool, or null; Fault: Bool lanes
  const ir::Expr* bound = nullptr;     // While
  const ir::Expr* value = nullptr;     // Let, Local, Assign, Store, FoldLanes, Mma; Copy: a load of one element without a mask; Peer, LoadMatrices: one without a mask
  ir::Op combine = ir::Op::Add;        // FoldLanes: Add, Mul, Min, Max; And, Or of Bool
  DType factors = DType::None;         // Mma, GroupMma: F32 (Mma alone), F16 or BF16 of both; I8 or U8 of a. Matrix, to add: F16
  DType b_factors = DType::None;       // Mma, GroupMma of codes: I8 or U8 of b; else None
  TileOp tile_op = TileOp::Begin;      // Tiles
  MatrixOp matrix_op = MatrixOp::Begin;  // Matrix
  uint8_t tile = 0;                    // Tiles: number
  uint32_t array = 0;                  // Store, Copy, Prefetch, Tiles, GroupMma, Matrix: buffer number
  std::vector<const ir::Expr*> index;  // Prefetch: {linear element index}, in range or not. Copy: {linear element index}. Store: kernels: {linear element index} (many lanes: scatter); procs: per axis. Mma: {a, b}. Tiles, GroupMma, Matrix: see there
  std::vector<const ir::Expr*> sums;   // GroupMma: Local variables
  int32_t fault = 0;                   // Fault: a code of schema/module_abi.h
  std::vector<StmtPtr> body, orelse;
};

constexpr int64_t kLocalUnit = 64;  // elements: at least a line of the cache

enum class Space : uint8_t {
  Scratch,  // of one worker
  Shared,   // device kernels: of one block, seen by all its lanes
  Private,  // device kernels: of one lane; every index is a constant once loops are unrolled
};

// Memory for the duration of a tile range. Elements are not initialised.
struct LocalArray {
  std::string name;
  DType dtype = DType::None;
  // Kernels: a constant, or an extent over the scalars that is a multiple of `kLocalUnit`; lies in the launch's scratch, constant
  // ones first.
  const ir::Expr* count = nullptr;
  std::vector<const ir::Expr*> shape;        // procs only
  Space space = Space::Scratch;  // Scratch in kernels for processors, one of the others in those for devices
};

// What the plan binds to a parameter.
enum class Role : uint8_t {
  Array,      // an array of the nest function
  Workspace,  // memory of `elements` elements that lives through the kernels of one statement; `array` numbers them
              // within the statement: the same number is the same buffer. Contents are not initialised.
};
struct Param {
  std::string name;
  DType dtype = DType::None;
  bool written = false;
  uint32_t array = 0;  // of the nest function it was lowered from: how the plan binds it
  Role role = Role::Array;
  const ir::Expr* elements = nullptr;  // Workspace: an extent over the kernel's scalars
};

// How far emitters may carry values that do not change in a loop: out of it they live through all of it, and where
// there are too many of them they end on the stack, whose size is limited.
enum class Hoisting : uint8_t {
  All,        // to the outermost place
  Innermost,  // out of innermost loops only
  None,       // nowhere; nothing is kept in a register between statements either
};

// An axis along which the tiles of a kernel are cut: into chunks of neighbouring quanta, the last of them as long as what
// is left. The launcher chooses the chunk, from 1 to max(1, units), and passes it behind the scalars: no result
// depends on it.
struct Cut {
  const ir::Expr* chunk = nullptr;  // an i64 Var that the body may use anywhere
  const ir::Expr* units = nullptr;  // quanta: an extent over the scalars (evaluated by the plan)
  const ir::Expr* bytes = nullptr;  // for the plan: read for each quantum, whatever the other axes are; an extent
  // Of the first of two cuts only, which is the outermost then, outside of tiles: its chunks are one turn each, made one after the other by
  // workers that meet behind each of them, or all quanta of both cuts are in one chunk.
  bool in_turns = false;
};

constexpr uint32_t kMaxBlockLanes = 1024;
constexpr uint32_t kMostResidentLanes = 1024;  // that every device's multiprocessor holds
constexpr uint32_t kMaxClusterBlocks = 8;  // what every device with clusters runs at once
constexpr bool may_copy(int64_t bytes) { return bytes == 4 || bytes == 16; }  // by a Copy
constexpr uint32_t kMmaLanes = 32, kGroupLanes = 128;  // that do one Mma or GroupMma together
constexpr int64_t kGroupCells = 256, kGroupRows = 64;  // GroupMma: factors lie at multiples of so many cells; rows of a
constexpr size_t kMostGroupSums = 32;

// Lanes that have matrices together (StmtKind::Matrix), their sides, and how many matrices of sums each team has. All zero: none do.
struct Team {
  uint32_t lanes = 0, side = 0, rows = 0, columns = 0;
};

// One entry of a module. Buffers are numbered: params first, then locals. Body runs for the tiles of one call:
// tile_begin and tile_end are i64 Vars that it may use anywhere; it normally starts with a For over them. There are
// `tiles` times, for each cut, ceildiv(units, chunk) of them; cuts are inside (but one in turns), the last one innermost.
struct Kernel {
  std::string name;
  std::vector<Param> params;
  std::vector<LocalArray> locals;
  std::vector<const ir::Sym*> scalars;  // launch arguments, the only Syms in the body
  const ir::Expr* tile_begin = nullptr;
  const ir::Expr* tile_end = nullptr;
  // Devices: how many lanes a block has; 0 in kernels for processors. A block is a tile: the body is the loop over the tiles, and
  // in it nothing but a loop of kind Lanes from 0 to this. Lanes run in any order; what one stores another may read behind a
  // Barrier only. Barriers, FoldLanes, Mma, GroupMma and Matrix stand where all lanes come or none does. There are no cuts, and vectors have at most four elements.
  uint32_t lanes = 0;
  // Devices: so many blocks side by side, from a multiple of it on, are a cluster; `tiles` is a multiple of it, and all of a cluster run or none does.
  uint32_t cluster = 1;
  // Devices: blocks that a multiprocessor should hold at once, so that a lane has no more registers than that leaves it; 0: the assembler decides.
  uint32_t resident = 0;
  Team team;
  Hoisting hoisting = Hoisting::All;
  std::string schedule;                 // what it was built from, as text (packager/schedule); of a group, one per nest
  const ir::Expr* tiles = nullptr;      // number of tiles apart from cuts: an extent over `scalars` (evaluated by the plan)
  std::vector<Cut> cuts;
  const ir::Expr* work = nullptr;       // for the plan: nanoseconds that all tiles take one worker, roughly; an extent
  std::vector<StmtPtr> body;
};

}  // namespace mlc::loop
