// What the stages of attention have in common (attention/tile.cpp: lanes multiply; attention/mma.cpp: tensor cores do;
// attention/row.cpp: a block has one query).
#pragma once

#include <string>
#include <utility>

#include "packager/lower/device/attention/attention.h"

namespace mlc::lower {

constexpr int64_t kNeighboursOfLoad = 4;  // elements that a lane loads at once
constexpr int64_t kElementsOfWarp = 32;  // of a value, which a turn of products on tensor cores takes at once: values are filled up to a multiple

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
// What such a block has.
struct MmaBlock {
  double registers = 0;   // of a lane, about
  double bytes = 0;       // of memory
  double products = 0;    // of a query and a key, in time: 1 of 16 bits and heads of 64 elements
  double brings = 1;      // what bringing keys and values takes, in time: 1 of copies, more where lanes round them
  bool is_ahead = false;  // keys and values come a turn before they are multiplied
};
MmaBlock attention_mma_block(const Attention& a, const schedule::Schedule& how);
// Where the elements of a factor along `dims` begin, counted in runs of `length`, if memory has such runs at multiples of their size; null: it does not.
const ir::Expr* runs_of(ir::Context& ctx, Facts& facts, const DeviceProduct::Side& side, const std::vector<const ir::Dim*>& dims, const ir::Expr* points, int64_t length);
StagePtr attention_row_stage(const Job& job, const Attention& a, Skeleton& k, const schedule::Schedule& how);
StagePtr attention_mma_stage(const Job& job, const Attention& a, Skeleton& k, const schedule::Schedule& how);

}  // namespace mlc::lower
