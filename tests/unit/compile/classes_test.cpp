// Programs as processors and as devices run them: other statements, the same segments, interfaces, weights and meaning, whole and in
// parts, so that a run may have some segments from the one and some from the other.
#include "packager/compile/programs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "packager/nest/copy.h"
#include "tests/support/nests/attention_nests.h"

using namespace mlc;
using ir::Expr;
using ir::Join;
using ir::Op;
using test::NestMaker;

namespace {

// Blocks of a product with weights in f16 and a softmax of its rows; the next one reads what the last one wrote.
nest::Function blocks(ir::Context& ctx, int count, const Expr* R) {
  NestMaker m(ctx);
  m.f.name = "main";
  auto C = m.n(64);
  uint32_t x = m.array("x", DType::F16, {R, C});
  const auto f32 = [&](const Expr* e) { return e->type.dtype == DType::F32 ? e : ctx.cast(DType::F32, e); };
  for (int k = 0; k < count; ++k) {
    const std::string n = std::to_string(k);
    const auto temp = [&](const std::string& name, std::vector<const Expr*> shape) { return m.array(name + n, DType::F32, std::move(shape), nest::Array::Kind::Temp); };
    const uint32_t w = m.array("w" + n, DType::F16, {C, C}, nest::Array::Kind::Const);
    auto bytes = std::make_shared<std::vector<std::byte>>(64 * 64 * 2);
    for (size_t b = 0; b < bytes->size(); b += 2) (*bytes)[b] = static_cast<std::byte>(b * 37 + static_cast<size_t>(k)), (*bytes)[b + 1] = std::byte{0x2c};
    m.f.arrays[w].data = std::make_shared<nest::ConstData>(nest::ConstData{Bytes(*bytes), bytes});
    const uint32_t s = temp("s", {R, C}), top = temp("top", {R}), part = temp("part", {R, C}), all = temp("all", {R});
    const uint32_t y = k + 1 == count ? m.output("y", DType::F32, {R, C}) : temp("y", {R, C});
    auto r = m.dim("r", R), c = m.dim("c", C), i = m.dim("i", C);
    m.map({r, c}, s, {m.at(r), m.at(c)}, m.fold(Join::Sum, {i}, ctx.binary(Op::Mul, f32(m.load(x, {m.at(r), m.at(i)})), f32(m.load(w, {m.at(i), m.at(c)})))), "product");
    r = m.dim("r", R), c = m.dim("c", C);
    m.map({r}, top, {m.at(r)}, m.fold(Join::Max, {c}, m.load(s, {m.at(r), m.at(c)})), "softmax");
    r = m.dim("r", R), c = m.dim("c", C);
    m.map({r, c}, part, {m.at(r), m.at(c)}, ctx.unary(Op::Exp, ctx.binary(Op::Sub, m.load(s, {m.at(r), m.at(c)}), m.load(top, {m.at(r)}))));
    r = m.dim("r", R), c = m.dim("c", C);
    m.map({r}, all, {m.at(r)}, m.fold(Join::Sum, {c}, m.load(part, {m.at(r), m.at(c)})));
    r = m.dim("r", R), c = m.dim("c", C);
    m.map({r, c}, y, {m.at(r), m.at(c)}, ctx.binary(Op::Div, m.load(part, {m.at(r), m.at(c)}), m.load(all, {m.at(r)})));
    x = y;
  }
  return std::move(m.f);
}

struct Made {
  ir::Context ctx;
  nest::Function before;
  compile::WeightStore weights;
  compile::Optimised optimised;
  explicit Made(int count, int64_t free_from = 0) : before(blocks(ctx, count, free_from > 0 ? ctx.sym(ctx.declare_sym("rows", 0, INT64_MAX)) : ctx.integer(70))) {
    if (free_from > 0) before.checks.push_back({ctx.binary(Op::Le, ctx.integer(free_from), before.arrays[before.inputs[0]].shape[0]), "rows"});
    std::vector<compile::Program> programs;
    programs.push_back({.function = nest::copy_of(before)});
    auto made = compile::optimise(ctx, programs, weights, {.check = true}, {}, true);
    REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.status().text()));
    optimised = std::move(*made);
  }
  const nest::Function& segment(const passes::Parts& parts, const std::string& name) const {
    const auto at = std::find_if(parts.segments.begin(), parts.segments.end(), [&](const auto& s) { return s->name == name; });
    REQUIRE(at != parts.segments.end());
    return **at;
  }
};

std::vector<std::string> interface_of(const nest::Function& f) {
  std::vector<std::string> all;
  for (const auto* ports : {&f.inputs, &f.outputs}) {
    for (const uint32_t a : *ports) all.push_back(f.arrays[a].name + " " + std::string(name_of(f.arrays[a].dtype)) + " " + nest::to_string(f.arrays[a].layout, static_cast<unsigned>(f.arrays[a].shape.size())));
    all.push_back("->");
  }
  return all;
}

}  // namespace

TEST_CASE("segments of processors and of devices have the same names and interfaces, whole and cut") {
  Made made(6);
  const passes::Parts& processors = made.optimised.processors;
  const passes::Parts* classes[] = {&made.optimised.devices, &made.optimised.tensor_devices};
  const passes::Parts* chosen = classes[0];
  SUBCASE("without tensor cores") {}
  SUBCASE("with tensor cores") { chosen = classes[1]; }
  const passes::Parts& devices = *chosen;
  size_t cut = 0;
  for (const auto& segment : processors.segments) {
    if (segment->name == processors.derive) continue;
    CHECK(interface_of(*segment) == interface_of(made.segment(devices, segment->name)));
    cut += segment->name.starts_with("main.");
  }
  CHECK(cut > 1);
  std::set<std::string> names[2];
  for (const auto& p : processors.programs) names[0].insert(p->interface.name);
  for (const auto& p : devices.programs) names[1].insert(p->interface.name);
  CHECK(names[0] == names[1]);
  for (const auto& p : processors.programs)
    for (const auto& q : devices.programs)
      if (p->interface.name == q->interface.name) {
        REQUIRE(p->steps.size() == q->steps.size());
        for (size_t k = 0; k < p->steps.size(); ++k) {
          CHECK(p->steps[k].functions == q->steps[k].functions);
          CHECK(p->steps[k].inputs == q->steps[k].inputs);
          CHECK(p->steps[k].outputs == q->steps[k].outputs);
        }
      }
}

TEST_CASE("devices multiply f16 as it is stored, in fewer statements; weights are stored once") {
  Made made(6);
  const nest::Function &of_processors = made.segment(made.optimised.processors, "main"), &of_devices = made.segment(made.optimised.devices, "main");
  CHECK(!made.optimised.processors.derived.empty());
  CHECK(made.optimised.devices.derived.empty());
  // The quotient of each softmax but the last is a factor of the product that reads it: product, exponentials, sums of these; last a whole softmax.
  CHECK(of_devices.body.size() == 3 * 5 + 2);
  CHECK(std::none_of(of_devices.body.begin(), of_devices.body.end(), [](const nest::Statement& s) { return s.joins; }));
  CHECK(of_processors.body.size() >= 4 * 6);
  std::set<std::pair<uint32_t, uint32_t>> places[2];
  for (const passes::Parts* parts : {&made.optimised.processors, &made.optimised.devices})
    for (const auto& segment : parts->segments)
      for (const uint32_t array : passes::used_constants(*segment)) places[parts == &made.optimised.devices].insert(made.weights.place_of(*segment, array));
  CHECK(places[0] == places[1]);
  CHECK(places[0].size() == 6);
}

TEST_CASE("what must hold of extents is asked of each part that has them") {
  Made made(6, 64);
  size_t parts = 0;
  for (const passes::Parts* of : {&made.optimised.processors, &made.optimised.devices, &made.optimised.tensor_devices})
    for (const auto& segment : of->segments)
      if (segment->name.starts_with("main.")) {
        ++parts;
        CHECK(segment->checks.size() == 1);
      }
  CHECK(parts > 2);
}
