#include "tests/random/plant.h"

#include <functional>

#include "packager/loop/print.h"
#include "tests/text/loop_text.h"

namespace mlc::random_graphs {

using ir::Expr;
using ir::Op;
using loop::Stmt;
using loop::StmtKind;
using Block = std::vector<loop::StmtPtr>;

// Counts the places where a fault fits; at one of them it is planted.
class Sites {
 public:
  explicit Sites(size_t chosen) : chosen_(chosen) {}
  bool here() { return seen_++ == chosen_; }
  size_t seen() const { return seen_; }

 private:
  size_t chosen_, seen_ = 0;
};

namespace {

constexpr size_t kNowhere = SIZE_MAX;

// All blocks of statements, outer ones first. `visit` may change the block it is given.
void for_blocks(loop::Kernel& kernel, const std::function<void(Block&)>& visit) {
  std::vector<Block*> open{&kernel.body};
  for (size_t next = 0; next < open.size(); ++next) {
    Block& block = *open[next];
    visit(block);
    for (const loop::StmtPtr& s : block)
      for (Block* inner : {&s->body, &s->orelse})
        if (!inner->empty()) open.push_back(inner);
  }
}

void for_statements(loop::Kernel& kernel, const std::function<void(Stmt&)>& visit) {
  for_blocks(kernel, [&](Block& block) {
    for (const loop::StmtPtr& s : block) visit(*s);
  });
}

// Takes out a statement, where `fits` says that it can be missing: one of them, by its number.
void remove_one(loop::Kernel& kernel, Sites& sites, const std::function<bool(const Block&, size_t)>& fits) {
  for_blocks(kernel, [&](Block& block) {
    for (size_t k = 0; k < block.size(); ++k)
      if (fits(block, k) && sites.here()) {
        block.erase(block.begin() + static_cast<ptrdiff_t>(k));
        return;
      }
  });
}

// Replaces a node where `other` has something else for it: one of them, by its number. Nodes of a statement that are equal are one.
void replace_one(ir::Context& ctx, const Expr*& root, Sites& sites, const std::function<const Expr*(const Expr*)>& other) {
  if (!root) return;
  const Expr *node = nullptr, *substitute = nullptr;
  ir::walk(root, [&](const Expr* e) {
    const Expr* replaced = other(e);
    if (replaced && replaced != e && sites.here()) node = e, substitute = replaced;
  });
  if (node) root = ctx.substitute(root, {{node, substitute}});
}

// In what is computed, stored and asked; not in bounds and addresses.
void replace_value(ir::Context& ctx, loop::Kernel& kernel, Sites& sites, const std::function<const Expr*(const Expr*)>& other) {
  for_statements(kernel, [&](Stmt& s) { replace_one(ctx, s.value, sites, other); });
}

// In the addresses of loads: `other` sees the nodes of each index.
void replace_address(ir::Context& ctx, loop::Kernel& kernel, Sites& sites, const std::function<const Expr*(const Expr*)>& other) {
  replace_value(ctx, kernel, sites, [&](const Expr* e) -> const Expr* {
    if (e->op != Op::Load) return nullptr;
    const Expr* index = e->args[0];
    Sites first(0);
    replace_one(ctx, index, first, other);
    if (index == e->args[0]) return nullptr;
    std::vector<const Expr*> args(e->args.begin(), e->args.end());
    args[0] = index;
    return ctx.rebuild(e, args);
  });
}

bool is_real(const Expr* e) { return is_float(e->type.dtype); }
bool is_index(const Expr* e) { return e->type.dtype == DType::I64; }

// --- loops
void peel(ir::Context&, loop::Kernel& kernel, Sites& sites) {
  remove_one(kernel, sites, [](const Block& block, size_t k) {
    const auto is_loop = [](const Stmt& s) { return s.kind == StmtKind::For; };
    return k > 0 && is_loop(*block[k]) && is_loop(*block[k - 1]) && block[k]->begin == block[k - 1]->end;
  });
}
bool accumulates(const Block& body) {
  for (const loop::StmtPtr& s : body)
    if (s->kind == StmtKind::Assign && ir::depends_on(s->value, s->var)) return true;
  return false;
}
void tap(ir::Context& ctx, loop::Kernel& kernel, Sites& sites) {
  for_statements(kernel, [&](Stmt& s) {
    if (s.kind != StmtKind::For || !s.begin->is_const() || !s.end->is_const() || !accumulates(s.body)) return;
    if (s.end->i - s.begin->i > s.step && sites.here()) s.end = ctx.integer(s.end->i - s.step);
  });
}
void edge(ir::Context& ctx, loop::Kernel& kernel, Sites& sites) {
  for_statements(kernel, [&](Stmt& s) {
    if (s.kind == StmtKind::For && s.for_kind == loop::ForKind::Serial && s.end != kernel.tile_end && sites.here())
      s.end = ctx.sub(s.end, ctx.integer(1));
  });
}
void clip(ir::Context& ctx, loop::Kernel& kernel, Sites& sites) {
  const auto first = [](const Expr* e) { return e->op == Op::Min && is_index(e) ? e->args[0] : nullptr; };
  for_statements(kernel, [&](Stmt& s) {
    replace_one(ctx, s.end, sites, first);
    if (s.value && is_index(s.value)) replace_one(ctx, s.value, sites, first);
  });
}

// --- what is kept between them
void unit(ir::Context& ctx, loop::Kernel& kernel, Sites& sites) {
  for_statements(kernel, [&](Stmt& s) {
    if (s.kind != StmtKind::Local || !is_real(s.value)) return;
    const Expr* start = s.value->op == Op::Splat ? s.value->args[0] : s.value;
    if (!start->is_const() || !sites.here()) return;
    const Expr* wrong = ctx.number(start->f == 0 ? 1 : 0, start->type.dtype);
    s.value = s.value->op == Op::Splat ? ctx.rebuild(s.value, {wrong}) : wrong;
  });
}
void store(ir::Context&, loop::Kernel& kernel, Sites& sites) {
  remove_one(kernel, sites, [](const Block& block, size_t k) { return block[k]->kind == StmtKind::Store && block.size() > 1; });
}
void carry(ir::Context&, loop::Kernel& kernel, Sites& sites) {
  remove_one(kernel, sites, [](const Block& block, size_t k) { return block[k]->kind == StmtKind::Assign && block.size() > 1; });
}

// --- what is computed
void operands(ir::Context& ctx, loop::Kernel& kernel, Sites& sites) {
  replace_value(ctx, kernel, sites, [&](const Expr* e) -> const Expr* {
    const bool ordered = e->op == Op::Sub || e->op == Op::Div || e->op == Op::Lt || e->op == Op::Le;
    return ordered && is_real(e->args[0]) ? ctx.rebuild(e, {e->args[1], e->args[0]}) : nullptr;
  });
}
void accumulator(ir::Context& ctx, loop::Kernel& kernel, Sites& sites) {
  replace_value(ctx, kernel, sites, [&](const Expr* e) -> const Expr* {
    return e->op == Op::Fma && is_real(e) ? ctx.binary(Op::Mul, e->args[0], e->args[1]) : nullptr;
  });
}
void maximum(ir::Context& ctx, loop::Kernel& kernel, Sites& sites) {
  replace_value(ctx, kernel, sites, [&](const Expr* e) -> const Expr* {
    if ((e->op != Op::Max && e->op != Op::Min) || !is_real(e)) return nullptr;
    return ctx.binary(e->op == Op::Max ? Op::Min : Op::Max, e->args[0], e->args[1]);
  });
}
void padding(ir::Context& ctx, loop::Kernel& kernel, Sites& sites) {
  replace_value(ctx, kernel, sites, [](const Expr* e) { return e->op == Op::Select && is_real(e) ? e->args[1] : nullptr; });
}
void rounding(ir::Context& ctx, loop::Kernel& kernel, Sites& sites) {
  replace_value(ctx, kernel, sites, [&](const Expr* e) { return e->op == Op::Rint ? ctx.unary(Op::Floor, e->args[0]) : nullptr; });
}
void lanes(ir::Context& ctx, loop::Kernel& kernel, Sites& sites) {
  replace_value(ctx, kernel, sites, [&](const Expr* e) -> const Expr* {
    if (e->op != Op::SumLanes && e->op != Op::ProdLanes && e->op != Op::MinLanes && e->op != Op::MaxLanes) return nullptr;
    Expr first;
    first.op = Op::Extract, first.type = e->type, first.i = 0;
    return ctx.raw(first, {e->args[0]});
  });
}

// --- addresses
void stride(ir::Context& ctx, loop::Kernel& kernel, Sites& sites) {
  replace_address(ctx, kernel, sites, [&](const Expr* e) -> const Expr* {
    if (e->op != Op::Mul || !is_index(e) || e->type.lanes != 1 || !e->args[1]->is_const() || e->args[1]->i < 2) return nullptr;
    return ctx.mul(e->args[0], ctx.integer(e->args[1]->i - 1));
  });
}
void offset(ir::Context& ctx, loop::Kernel& kernel, Sites& sites) {
  replace_address(ctx, kernel, sites, [&](const Expr* e) -> const Expr* {
    if (e->op != Op::Add || !is_index(e) || e->type.lanes != 1 || !e->args[1]->is_const()) return nullptr;
    return e->args[0];
  });
}
void mask(ir::Context& ctx, loop::Kernel& kernel, Sites& sites) {
  replace_value(ctx, kernel, sites, [&](const Expr* e) -> const Expr* {
    if (e->op != Op::Load || e->args.size() != 2) return nullptr;
    Expr all = *e;
    return ctx.raw(all, {e->args[0]});
  });
}

constexpr Fault kFaults[] = {
    {"peel", "the loop over what is left behind whole tiles is missing", peel},
    {"tap", "a fold leaves out its last term", tap},
    {"edge", "a loop ends one too early", edge},
    {"clip", "the end of the last tile is not clipped", clip},
    {"unit", "a sum or maximum begins with a wrong number", unit},
    {"store", "a result is not stored", store},
    {"carry", "an intermediate result is not kept", carry},
    {"operands", "operands of a difference, quotient or comparison are swapped", operands},
    {"accumulator", "what was summed so far is lost", accumulator},
    {"maximum", "minimum and maximum are mistaken for each other", maximum},
    {"padding", "a condition is taken for true", padding},
    {"rounding", "rounding to the nearest integer rounds down", rounding},
    {"lanes", "all lanes of a vector but the first are lost", lanes},
    {"stride", "the rows of an array are taken for narrower", stride},
    {"offset", "a constant part of an address is lost", offset},
    {"mask", "elements that are no part of a load are loaded", mask},
};

// All kernels, with the fault in the one that has the place chosen.
Result<std::vector<std::string>> plant_in(const Fault& fault, std::span<const std::string> kernels, Sites& sites) {
  std::vector<std::string> texts;
  for (const std::string& text : kernels) {
    ir::Context ctx;
    MLC_ASSIGN(std::vector<loop::Kernel> parsed, loop::parse(ctx, text));
    const size_t before = sites.seen();
    fault.plant(ctx, parsed.at(0), sites);
    texts.push_back(sites.seen() == before ? text : loop::to_string(parsed[0]));
  }
  return texts;
}

}  // namespace

std::span<const Fault> all_faults() { return kFaults; }

Result<size_t> places_of(const Fault& fault, std::span<const std::string> kernels) {
  Sites sites(kNowhere);
  const auto texts = plant_in(fault, kernels, sites);
  if (!texts.ok()) return texts.status();
  return sites.seen();
}

Result<std::vector<std::string>> planted(const Fault& fault, std::span<const std::string> kernels, size_t place) {
  Sites sites(place);
  auto texts = plant_in(fault, kernels, sites);
  if (texts.ok() && place >= sites.seen())
    return Status(Code::NotFound, "fault {}: {} places, no place {}", std::string(fault.name), sites.seen(), place);
  return texts;
}

}  // namespace mlc::random_graphs
