// The passes by their functions; passes.h has what they do.
#pragma once

#include "base/status.h"
#include "packager/nest/nest.h"
#include "packager/passes/passes.h"

namespace mlc::passes {

Status narrow(ir::Context& ctx, nest::Function& f);
Status algebra(ir::Context& ctx, nest::Function& f);
Status codes(ir::Context& ctx, nest::Function& f);
Status pad_codes(ir::Context& ctx, nest::Function& f);
// To bf16 or f16 as they are stored; `values`: of two values of the run, too.
Status round_products(ir::Context& ctx, nest::Function& f, DType type, bool values);
Status round_values(ir::Context& ctx, nest::Function& f, DType type);
Status round_attention(ir::Context& ctx, nest::Function& f, DType type);  // F32: to tf32
Status products_in_tf32(ir::Context& ctx, nest::Function& f);
Status fold_constants(ir::Context& ctx, nest::Function& f, double& left);
Status cleanup(ir::Context& ctx, nest::Function& f);
Status scale_weights(ir::Context& ctx, nest::Function& f);
Status fuse(ir::Context& ctx, nest::Function& f);
Status permute_weights(ir::Context& ctx, nest::Function& f);
Status simplify_procs(ir::Context& ctx, nest::Function& f);
Status split_dims(ir::Context& ctx, nest::Function& f);
Status in_place(ir::Context& ctx, nest::Function& f);
Status join_copies(ir::Context& ctx, nest::Function& f);
Status store_rounded(ir::Context& ctx, nest::Function& f);
Status assign_layouts(ir::Context& ctx, nest::Function& f);
Status share_weights(ir::Context& ctx, nest::Function& f);
Status inline_weights(ir::Context& ctx, nest::Function& f);
Status derive_weights(ir::Context& ctx, nest::Function& f, uint64_t most);
Status widen(ir::Context& ctx, nest::Function& f, uint64_t most);
Status split_windows(ir::Context& ctx, nest::Function& f);
Status split_phases(ir::Context& ctx, nest::Function& f);
Status split_folds(ir::Context& ctx, nest::Function& f);
// `rounds_values`: what products of two values alone read will be stored rounded.
Status join_products(ir::Context& ctx, nest::Function& f, const ReadsElsewhere& reads_elsewhere, bool rounds_values);
Status group(ir::Context& ctx, nest::Function& f);
// Of folds over pieces too, or of numbers alone.
Status prologues(ir::Context& ctx, nest::Function& f, bool with_folds);
Status join_rows(ir::Context& ctx, nest::Function& f);
Status mark_attention(ir::Context& ctx, nest::Function& f);

// Parts of cleanup that other passes end with.
void remove_dead(nest::Function& f);

}  // namespace mlc::passes
