// What families of devices share that fold over lanes.
#pragma once

#include <optional>

#include "packager/lower/walk/templates.h"

namespace mlc::lower {

// The operation of loop::StmtKind::FoldLanes that joins so. Nothing: there is none.
inline std::optional<ir::Op> lanes_op(ir::Join join) {
  switch (join) {
    case ir::Join::Sum: return ir::Op::Add;
    case ir::Join::Prod: return ir::Op::Mul;
    case ir::Join::Min: return ir::Op::Min;
    case ir::Join::Max: return ir::Op::Max;
    case ir::Join::Any: return ir::Op::Or;
    case ir::Join::All: return ir::Op::And;
    case ir::Join::Last: case ir::Join::Custom: break;
  }
  return std::nullopt;
}

// Running folds on devices: a form of the family Lines, whose lanes do them together. Nothing: a lane for each line is as good, or the nest is no such scan.
std::optional<Schedules> device_scans(const Job& job, const FlatNest& nest);

}  // namespace mlc::lower
