// What the stages of attention have in common (attention/tile.cpp: lanes multiply; attention/mma.cpp: tensor cores do;
// attention/row.cpp: a block has one query).
#pragma once

#include <string>
#include <utility>

#include "packager/lower/device/attention/attention.h"

namespace mlc::lower {

constexpr int64_t kNeighboursOfLoad = 4;  // elements that a lane loads at once
constexpr int64_t kElementsOfWarp = 32;  // of a value, which a turn of products on tensor cores takes at once: values are filled up to a multiple
constexpr int64_t kBytesOfChunk = 16;  // of cells
constexpr int64_t filled_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Which keys the `rows` queries from `first` on may look at; a single query is bound. Where a condition on the key fails, its score is -inf, its weight zero.
std::pair<const ir::Expr*, const ir::Expr*> keys_of_block(Skeleton& k, Body& s, const Attention& a, const ir::Expr* first, int64_t rows);
// Whether all turns have as many keys.
bool has_whole_turns(const Attention& a, int64_t keys);

// Nanoseconds of all queries and keys (Stage::work), whose product is walked so.
const ir::Expr* attention_work(const Job& job, const Attention& a, const DeviceProduct& walked, Skeleton& k);
// What a score becomes, whose query has this largest one.
const ir::Expr* exponential(Skeleton& k, Body& s, const Attention& a, const ir::Expr* score, const ir::Expr* top);

// What multiplies on tensor cores: "mma.f16", "mma.bf16", or "mma.f32" for three products of tf32; empty: lanes do, by multiply-adds.
std::string attention_mma_instruction(const Job& job, const Attention& a);
// How deep such a block takes queries and keys: all of them, in whole pieces.
int64_t attention_mma_depth(const Attention& a);
// The factors of both products: their type, or F32, where they have two.
DType attention_factors(const Attention& a);
// What such a block has in memory: elements of a value, filled up, chunks from one row of values to the next and of all keys and values of a turn; one turn, or two, of which one comes while the
// other is multiplied; numbers of rows: of one share their sums, else the tops of all shares as well, and of a block of a cluster its top; from one row of sums on their way out to the next, in cells,
// and groups of elements whose sums there is room for at once.
struct MmaMemory {
  int64_t elements = 0, row_chunks = 0, turn_chunks = 0, turns = 1, rows = 0, width_of_results = 0, groups_at_once = 1;
};
MmaMemory attention_mma_memory(const Attention& a, const schedule::Schedule& how);
// Of a lane, about.
double attention_mma_registers(const Attention& a, const schedule::Schedule& how);
struct AttentionSize {
  double batch = 1, queries = 1, keys = 1;
};
// Cycles of the model (product/fill.h) by such blocks.
double cycles_of_attention(const Job& job, const Attention& a, const AttentionSize& size, const schedule::Schedule& how);
// Where the elements of a factor along `dims` begin, counted in runs of `length`, if memory has such runs at multiples of their size; null: it does not.
const ir::Expr* runs_of(ir::Context& ctx, Facts& facts, const DeviceProduct::Side& side, const std::vector<const ir::Dim*>& dims, const ir::Expr* points, int64_t length);
StagePtr attention_row_stage(const Job& job, const Attention& a, Skeleton& k, const schedule::Schedule& how);
StagePtr attention_mma_stage(const Job& job, const Attention& a, Skeleton& k, const schedule::Schedule& how);

}  // namespace mlc::lower
