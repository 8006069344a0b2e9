// Attention, as nests of a group have it (packager/passes/fuse/attention.cpp):
//
//   scores[rows, u]   what becomes of a product of queries and keys (scale, mask, softcap), or of which the next ones make that
//   weight[rows, u]   part, or a quotient or product of it and what does not depend on u, where
//                       part is exp(scores - top), or zero where top is -inf, and top max(scores[rows, v] for v)
//   y[rows, f]        what becomes of sum(weight[rows, u] * values[u, f] for u) and of all, which is sum(part for u)
//
// in any number of nests behind that of the product. Here it is one nest, whose dims are those of y and the keys: what each of these is of its scores, so that a
// template need not keep them all (an exponential of a score less another top differs by a factor).
#pragma once

#include <optional>

#include "packager/lower/device/product/product.h"

namespace mlc::lower {

struct Attention {
  FlatNest nest;                     // y; in its value `mixed` stands for the sum over keys
  DeviceProduct product;             // queries are its rows, keys its columns
  DeviceProduct::Side values;        // the dims of y that the values know alone; no terms
  const ir::Dim* key = nullptr;
  // Nodes that stand for what the template has, and expressions in which they do.
  const ir::Expr *score = nullptr;   // of the product (product.fold)
  const ir::Expr *top = nullptr;
  const ir::Expr *part = nullptr;    // of `score` and `top`
  const ir::Expr *all = nullptr;     // null: not needed
  const ir::Expr *weight = nullptr;  // of `parted`, and of `all` perhaps: linear in the first
  const ir::Expr *parted = nullptr, *mixed = nullptr;
  DType rounding = DType::None;      // what parts may be rounded to before they are multiplied with values: F16, BF16; F32: tf32. None: they are not
  std::vector<const ir::Expr*> in_range;  // of loads of the score, which stand for zero elsewhere: at each query and key, or there is a fault
};

// The nests of the group as attention; nothing, if they are none, or if other statements read what they pass on.
Result<std::optional<Attention>> attention_of(ir::Context& ctx, const nest::Function& f, const nest::Group& group);

// Of queries that only the run knows: so many are a case of their own, with a kernel that no other number is for (`nest.product`). 0: one kernel is for all.
int64_t few_queries(const Job& job, const Attention& attention);

// Of blocks that leave most of a device idle: so many blocks of a cluster share the keys of a query, or of a tile of queries, in runs of so many keys or more, and of so
// many queries, batches and heads or fewer. 0: none do.
struct KeyParts {
  int64_t blocks = 0, least_keys = 0, most_queries = 0;
};
// The attention whose keys so many blocks of a cluster share.
Attention attention_in_cluster(ir::Context& ctx, Attention attention, int64_t blocks);
KeyParts key_parts(const Job& job, const Attention& attention);

// Its schedules on a device; nothing, if there is too little to share. `attention` must outlive them.
std::optional<Schedules> device_attention(const Job& job, const Attention& attention);

}  // namespace mlc::lower
