// Factors of products on tensor cores as memory has them: in chunks of 16 bytes, in cells of four, along the depth or by points (mma.cpp).
#pragma once

#include "packager/lower/device/product/codes.h"

namespace mlc::lower {

constexpr int64_t kCellsOfChunk = 4, kRowChunks = 4;  // cells of a chunk; chunks of a row in a piece
constexpr int64_t kCellBytes = 4, kChunkBytes = 16;

// The type of factors that are taken as they are; I8: codes of both signs; F32: they are computed in f32 first. Of one operand: its elements.
DType factors_of(const DeviceProduct& p);
DType element_type(const nest::Operand& o);
// Whether tf32 holds all its values.
bool is_short(const nest::Operand& o);
int64_t cell_values(DType factors);  // of the depth, in a cell of 32 bits

// A load that is rounded to tf32.
bool is_rounded_load(const nest::Operand& o);

// Whether neighbours along the last dim of the depth are neighbours in memory.
bool lies_along_depth(ir::Context& ctx, const DeviceProduct& p, const DeviceProduct::Side& side);
// Where the depth begins, counted in chunks of so many values, if chunks lie in memory as they are wanted, at multiples of their size; null: they do not.
const ir::Expr* chunks_of_depth(ir::Context& ctx, Facts& facts, const DeviceProduct& p, const DeviceProduct::Side& side, int64_t values);
// Values of a factor, a chunk or a cell of two, that lie together along the depth and that a lane may copy beside itself; length 1: there are none. Chunks of a plain
// depth and cells of one value are none of these: their places are those of chunks_of_depth, and move evenly.
DepthRuns runs_copied(ir::Context& ctx, Facts& facts, const DeviceProduct& p, const DeviceProduct::Side& side, int64_t values);
// How many bytes of a factor a lane copies at once, beside itself; 0: none. Of codes, or of values in runs; of others, in chunks or not.
int64_t bytes_copied(const DeviceProduct::Side& side, const CodeSide& codes, const DepthRuns& runs);
int64_t bytes_copied(ir::Context& ctx, Facts& facts, const DeviceProduct& p, const DeviceProduct::Side& side, bool is_chunk);
// Whether memory has `length` points of a side one after the other, at a multiple of so many, whichever step of the depth: conditions are of all of them.
bool lies_along_points(ir::Context& ctx, Facts& facts, const DeviceProduct::Side& side, int64_t length);
// How many bytes of each factor a lane of the product's stage copies at once, beside itself; 0: none. `flat`: all folded dims are the depth.
struct SidesCopied {
  int64_t rows = 0, columns = 0;
};
SidesCopied sides_copied(const Job& job, DeviceProduct p, bool flat);

}  // namespace mlc::lower
