// Cuts segments where little passes on, so that a run may compute its parts on several devices (spec/plan.md, section 6).
//
// Of a segment "main" that programs of the container are, and that has more than one part to it, there is another form behind it:
// the program "main.*" that calls "main.0", "main.1", ... one after the other. These are the same statements in the same groups, so
// most of the kernels are the same, too.
//
// Parts are numbered before processors and devices fuse in their own ways, and neither fuses across: what passes from part to part is the
// same for both. A cut lies between two statements that are not in one launch, where at most twice as many bytes pass on as at the best place
// near it, or beside a proc, which devices and processors do at very different speeds. Arrays that are stored with padding do not
// pass, as those of an interface have none. Arrays that may lie in the result of a concatenation (simplify/in_place.cpp) do so within a part only: what computes
// them and reads both, if that is no more than kNearCopies statements, is not cut. A segment with states is not cut: they stay in the memory of one device.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "packager/passes/segments/partition.h"

namespace mlc::passes {

constexpr size_t kMostCutSegments = 64;

// The arrays that the pass in-place would place, if `f` were one part, and those whose parts they would be.
std::vector<std::pair<uint32_t, uint32_t>> copies_in_place(ir::Context& ctx, const nest::Function& f);

// Numbers the parts of the segments called `names` (nest::Statement::part). Those only: bodies of loops, and what programs call, stay whole.
void number_parts(ir::Context& ctx, const std::vector<std::string>& names, Parts& parts);

// Adds the segments whose parts are numbered, cut. After all passes and collect_derived.
Status cut_segments(ir::Context& ctx, Parts& parts);

// Names of the segments and programs that `program`, one of the container, consists of: itself, what it calls, and the same in its cut form.
std::set<std::string> functions_of(const Parts& parts, const std::string& program);

}  // namespace mlc::passes
