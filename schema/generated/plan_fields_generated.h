// Written by schema/verify_tables.py from plan_generated.h; do not edit.
#pragma once

#include "schema/verify_tables.h"

namespace mlc::fb::plan {

using mlc::format::FieldKind;
inline constexpr mlc::format::TableField kFields[] = {
  {FieldKind::Inline, false, 4, 4},  // Check.condition
  {FieldKind::Inline, false, 4, 4},  // Check.after
  {FieldKind::String, true, 1, 4},  // Check.message
  {FieldKind::Inline, false, 1, 1},  // Buffer.kind
  {FieldKind::Inline, false, 1, 1},  // Buffer.dtype
  {FieldKind::Inline, false, 4, 4},  // Buffer.index
  {FieldKind::Inline, false, 4, 4},  // Buffer.copy
  {FieldKind::Inline, false, 4, 4},  // Buffer.bytes
  {FieldKind::Inline, false, 4, 4},  // Buffer.offset
  {FieldKind::Inline, false, 4, 4},  // Cut.units
  {FieldKind::Inline, false, 4, 4},  // Cut.scalar
  {FieldKind::Inline, false, 4, 4},  // Cut.bytes
  {FieldKind::Inline, false, 4, 4},  // Turns.turns
  {FieldKind::Inline, false, 4, 4},  // Turns.scalar
  {FieldKind::Inline, false, 4, 4},  // Turns.parts
  {FieldKind::Inline, false, 4, 4},  // Turns.part_scalar
  {FieldKind::Inline, false, 1, 1},  // Instr.op
  {FieldKind::Inline, false, 4, 4},  // Instr.index
  {FieldKind::Vector, false, 4, 4},  // Instr.buffers
  {FieldKind::Vector, false, 4, 4},  // Instr.scalars
  {FieldKind::Inline, false, 4, 4},  // Instr.tiles
  {FieldKind::Tables, false, 2, 4},  // Instr.cut
  {FieldKind::Inline, false, 4, 4},  // Instr.work
  {FieldKind::Inline, false, 4, 4},  // Instr.after
  {},  // deprecated
  {FieldKind::String, false, 1, 4},  // Instr.name
  {FieldKind::Inline, false, 4, 4},  // Instr.scratch
  {FieldKind::Inline, false, 4, 4},  // Instr.operations
  {FieldKind::Inline, false, 4, 4},  // Instr.read
  {FieldKind::Inline, false, 4, 4},  // Instr.written
  {FieldKind::Inline, false, 1, 1},  // Instr.of_bytes
  {FieldKind::Inline, false, 4, 4},  // Instr.steps
  {FieldKind::Table, false, 3, 4},  // Instr.turns
  {FieldKind::Inline, false, 1, 1},  // Step.op
  {FieldKind::Vector, false, 4, 4},  // Step.functions
  {FieldKind::Vector, false, 4, 4},  // Step.inputs
  {FieldKind::Vector, false, 4, 4},  // Step.outputs
  {FieldKind::Inline, false, 4, 4},  // Step.carried
  {FieldKind::Inline, false, 4, 4},  // Step.axis
  {FieldKind::Inline, false, 1, 1},  // Step.new_axis
  {FieldKind::String, false, 1, 4},  // Step.name
  {FieldKind::Inline, false, 1, 1},  // Step.dtype
  {FieldKind::Inline, false, 1, 1},  // Step.list_depth
  {FieldKind::String, false, 1, 4},  // Step.service
  {FieldKind::String, false, 1, 4},  // Step.options
  {FieldKind::Vector, false, 8, 4},  // Step.results
  {FieldKind::Inline, false, 1, 1},  // Step.drop_axis
  {FieldKind::Inline, false, 4, 4},  // Step.max_cuts
  {FieldKind::Inline, false, 4, 4},  // Step.min_letters
  {FieldKind::Inline, false, 1, 1},  // Step.between
  {FieldKind::Inline, false, 1, 1},  // Step.case_change
  {FieldKind::Inline, false, 1, 1},  // Step.match_case
  {FieldKind::Inline, false, 1, 1},  // Step.integers
  {FieldKind::String, true, 1, 4},  // Port.name
  {FieldKind::Inline, false, 1, 1},  // Port.dtype
  {FieldKind::Inline, false, 4, 4},  // Port.buffer
  {FieldKind::Vector, false, 4, 4},  // Port.shape
  {FieldKind::Inline, false, 1, 1},  // Port.list_depth
  {FieldKind::Inline, false, 4, 4},  // Port.value
  {FieldKind::Inline, false, 4, 4},  // Port.rank
  {FieldKind::String, true, 1, 4},  // Function.name
  {FieldKind::Inline, false, 4, 4},  // Function.num_symbols
  {FieldKind::Vector, false, 32, 4},  // Function.shape
  {FieldKind::Tables, false, 0, 4},  // Function.checks
  {FieldKind::Tables, false, 6, 4},  // Function.inputs
  {FieldKind::Tables, false, 6, 4},  // Function.outputs
  {FieldKind::Tables, false, 1, 4},  // Function.buffers
  {FieldKind::Inline, false, 4, 4},  // Function.arena_bytes
  {FieldKind::Tables, false, 4, 4},  // Function.body
  {FieldKind::Inline, false, 4, 4},  // Function.num_values
  {FieldKind::Tables, false, 5, 4},  // Function.steps
  {FieldKind::Inline, false, 4, 4},  // Plan.format
  {FieldKind::Inline, false, 4, 4},  // Plan.module_abi
  {FieldKind::Tables, true, 7, 4},  // Plan.functions
  {FieldKind::Vector, false, 8, 4},  // Plan.derived
  {FieldKind::Inline, false, 4, 4},  // Plan.derive
};
inline constexpr uint8_t kFirstFields[] = {0, 3, 9, 12, 16, 33, 53, 60, 71, 76};
inline constexpr mlc::format::TableSet kTables{"MLCP", kFields, kFirstFields, 8};

}  // namespace mlc::fb::plan
