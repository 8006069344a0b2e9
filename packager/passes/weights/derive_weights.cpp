// What products with weights read that is computed from constants, the same in every run, is a constant of the opened model:
// numbers for codes of 8 bits of which a file has only these, say. Those that a product computes in registers have become part of
// it (inline_weights.cpp). Layouts are assigned: it lies as it would in every run.
#include <algorithm>

#include "packager/nest/layout.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {

Status derive_weights(ir::Context& ctx, nest::Function& f, uint64_t most) {
  const Uses uses = uses_of(f);
  most -= std::min(most, derived_bytes(ctx, f));
  for (size_t s = 0; s < f.body.size(); ++s) {
    PlainMap p;
    if (!plain_map(f.body[s], p) || f.body[s].joins || !is_constant(f, *p.nest)) continue;
    nest::Array& a = f.arrays[p.write->array];
    if (a.kind != nest::Array::Kind::Temp || uses.output[p.write->array] || uses.writers[p.write->array].size() != 1 || a.list_depth > 0) continue;
    const auto elements = nest::stored_elements(ctx, a.layout, a.shape);
    if (!is_stored_whole(a) || !elements->is_const() || bits_of(a.dtype) < 8 || bytes_of(a.dtype) == 0) continue;
    const uint64_t bytes = static_cast<uint64_t>(elements->i) * bytes_of(a.dtype);
    if (bytes == 0 || bytes > most) continue;
    const auto reads_in_nest = [&](size_t reader) { return f.body[reader].nest != nullptr; };
    const auto& readers = uses.readers[p.write->array];
    if (readers.empty() || !std::all_of(readers.begin(), readers.end(), reads_in_nest)) continue;
    a.kind = nest::Array::Kind::Derived;
    most -= bytes;
  }
  return ok();
}

}  // namespace mlc::passes
