#include "packager/lower/lower.h"

#include <algorithm>

#include "packager/lower/walk/templates.h"
#include "packager/nest/proc.h"

namespace mlc::lower {

std::string kernel_name(const std::string& source) {
  std::string name;
  for (char c : source)
    name +=
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ? c : '_';
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name.empty() ? "kernel" : name.substr(0, 100);
}

std::string DimNames::add(const ir::Dim* d) {
  std::string name;
  for (const char c : d->name) name += c == ' ' || c == ':' || c == '|' || c == ';' || static_cast<unsigned char>(c) < 33 ? '_' : c;
  if (name.empty() || name.size() > 40) name = "d";
  const std::string first = name;
  for (int number = 2; dim(name); ++number) name = first + "." + std::to_string(number);
  all_.emplace_back(name, d);
  return name;
}

const ir::Dim* DimNames::dim(const std::string& name) const {
  for (const auto& [known, d] : all_)
    if (known == name) return d;
  return nullptr;
}

Schedules schedules_of(const Job& job, const FlatNest& nest, bool tiles) {
  if (tiles && nest.kept.empty() && !job.target.is_device())
    for (auto* family : {products, decoded_products, windows, transposes})
      if (auto found = family(job, nest)) return std::move(*found);
  if (tiles && job.target.is_device())
    for (auto* family : {device_products, device_folds, device_lines, device_transposes})
      if (auto found = family(job, nest)) return std::move(*found);
  return maps(job, nest);
}

namespace {

// A lane has so many points of the last extent, one after the other.
void over_neighbours(Skeleton& k, Stage& stage, std::vector<const ir::Expr*> extents, unsigned block) {
  const ir::Expr* count = k.ctx.integer(stage.neighbours);
  if (stage.neighbours > 1) extents.back() = k.ctx.floordiv(extents.back(), count);
  k.over_lanes(extents, block, [&](std::vector<const ir::Expr*> at) {
    if (stage.neighbours == 1) return stage.emit(at, {});
    const ir::Expr* first = k.b.let(k.ctx.mul(at.back(), count));
    for (int64_t u = 0; u < stage.neighbours; ++u) {
      at.back() = k.ctx.add(first, k.ctx.integer(u));
      stage.emit(at, {});
    }
  });
}

}  // namespace

Result<loop::Kernel> kernel_by(const Job& job, const FlatNest& nest, const Schedules& all, const schedule::Schedule& how) {
  MLC_RETURN_IF_ERROR(schedule::verify(how, all.space));
  Skeleton k(job);
  k.kernel.params = nest.params;
  const StagePtr stage = all.build(k, how);
  k.kernel.schedule = stage->schedule;
  k.kernel.hoisting = how.hoist;
  std::vector<const ir::Expr*> extents;
  for (const ir::Dim* d : stage->batch) extents.push_back(d->extent);
  if (!stage->grid.empty()) k.over_blocks(stage->grid, how.block, [&](const auto& at, const ir::Expr* lane) { stage->emit_block(at, lane); });
  else if (how.block) over_neighbours(k, *stage, std::move(extents), how.block);
  else k.over_tiles(extents, stage->axes, [&](const std::vector<const ir::Expr*>& at, const std::vector<Range>& ranges) { stage->emit(at, ranges); });
  MLC_RETURN_IF_ERROR(stage->status());
  return k.finish(stage->work);
}

namespace {

// Factors are rounded to tf32 for tensor cores; other targets of the same functions multiply them as they are.
void take_f32(ir::Context& ctx, FlatNest& nest) {
  for (FlatWrite& w : nest.writes)
    w.value = ctx.rewrite(w.value, [](const ir::Expr* e) { return e->op == ir::Op::Tf32 ? e->args[0] : nullptr; });
}

// A nest as its kernels see it, and the kernel that prepares what it reads.
struct Prepared {
  FlatNest flat;
  Kernels before;
};
Result<Prepared> prepared(const Job& job, const nest::Function& function, const nest::Statement& statement, bool tiles) {
  if (!statement.nest || statement.nest->writes.empty()) return Status(Code::Internal, "a statement without writes");
  Prepared p;
  MLC_ASSIGN(p.flat, flatten(job.ctx, function, *statement.nest));
  if (job.target.is_device() && !job.target.has_mma) take_f32(job.ctx, p.flat);
  collapse(job.ctx, p.flat);
  if (job.target.is_device()) {
    MLC_ASSIGN(p.before, split_for_device(job, p.flat));
    return p;
  }
  short_indices(job.ctx, p.flat);
  split_repeats(job, p.flat);
  MLC_RETURN_IF_ERROR(split_single(job, p.flat, p.before));
  if (!tiles) return p;
  MLC_RETURN_IF_ERROR(pack_columns(job, p.flat, p.before));
  return p;
}

// Ways to keep values and vectors, each meant to need a smaller stack frame than the one before.
struct Way {
  unsigned vector_parts;  // vectors of the target's width divided by this; 0: none
  loop::Hoisting hoist;
  size_t most;            // schedules of this way
};
constexpr Way kWays[] = {{1, loop::Hoisting::All, 1},       {1, loop::Hoisting::Innermost, 3}, {2, loop::Hoisting::Innermost, 1},
                         {4, loop::Hoisting::Innermost, 1}, {0, loop::Hoisting::Innermost, 1}, {0, loop::Hoisting::None, 1}};
constexpr unsigned kLeastVector = 8;  // bytes

unsigned vector_bytes(const targets::Target& target, const Way& way) {
  return way.vector_parts == 0 ? 1 : std::min(target.vector_bytes, std::max(kLeastVector, target.vector_bytes / way.vector_parts));
}

}  // namespace

Result<loop::Kernel> kernel_of(const Job& job, const FlatNest& nest, bool tiles) {
  const Schedules all = schedules_of(job, nest, tiles);
  return kernel_by(job, nest, all, all.ranked.front());
}

Result<std::vector<schedule::Schedule>> candidates(ir::Context& ctx, const nest::Function& function, const nest::Statement& statement,
                                                   const targets::Target& target) {
  std::vector<schedule::Schedule> found;
  const MathExpander none;
  for (const Way& way : kWays) {
    const Job job{ctx, target, none, kernel_name(statement.source), vector_bytes(target, way)};
    std::vector<schedule::Schedule> ranked;
    if (statement.proc) {
      ranked.push_back({.family = schedule::Family::Proc, .block = target.block_lanes, .vector_bytes = job.vector_bytes()});
    } else {
      MLC_ASSIGN(const Prepared p, prepared(job, function, statement, way.vector_parts > 0));
      ranked = schedules_of(job, p.flat, way.vector_parts > 0).ranked;
    }
    for (size_t k = 0; k < std::min(ranked.size(), way.most); ++k) {
      ranked[k].hoist = way.hoist;
      if (std::find(found.begin(), found.end(), ranked[k]) == found.end()) found.push_back(std::move(ranked[k]));
    }
  }
  return found;
}

Result<std::vector<schedule::Schedule>> alternatives(ir::Context& ctx, const nest::Function& function, const nest::Statement& statement,
                                                     const targets::Target& target) {
  if (statement.proc) return std::vector{schedule::Schedule{.family = schedule::Family::Proc, .vector_bytes = target.vector_bytes}};
  const MathExpander none;
  const Job job{ctx, target, none, kernel_name(statement.source), target.vector_bytes};
  MLC_ASSIGN(const Prepared p, prepared(job, function, statement, true));
  const Schedules all = schedules_of(job, p.flat);
  std::vector<schedule::Schedule> found = all.ranked;
  for (const schedule::Blocks& blocks : all.other_blocks) {
    found.push_back(found.front());
    found.back().blocks = blocks;
  }
  std::erase_if(found, [&](const schedule::Schedule& s) { return !schedule::verify(s, all.space).ok(); });
  found.resize(std::min(found.size(), kMostAlternatives));
  return found;
}

Result<Kernels> lower(ir::Context& ctx, const nest::Function& function, const nest::Statement& statement, const targets::Target& target,
                      const MathExpander& expand, const schedule::Schedule* how) {
  const Job job{ctx, target, expand, kernel_name(statement.source), how ? how->vector_bytes : target.vector_bytes};
  const loop::Hoisting hoist = how ? how->hoist : loop::Hoisting::All;
  Kernels kernels;
  if (statement.proc) {
    if (how) MLC_RETURN_IF_ERROR(schedule::verify(*how, {.family = schedule::Family::Proc, .block = target.block_lanes}));
    MLC_ASSIGN(kernels, lower_proc(job, function, *statement.proc, hoist));
  } else {
    const bool tiles = !how || how->family != schedule::Family::Map;
    MLC_ASSIGN(Prepared p, prepared(job, function, statement, tiles));
    const Schedules all = schedules_of(job, p.flat, tiles);
    MLC_ASSIGN(loop::Kernel kernel, kernel_by(job, p.flat, all, how ? *how : all.ranked.front()));
    kernels = std::move(p.before);
    kernels.push_back(std::move(kernel));
  }
  for (loop::Kernel& kernel : kernels) kernel.hoisting = hoist;
  return kernels;
}

}  // namespace mlc::lower
