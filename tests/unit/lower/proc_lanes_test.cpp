// Loops of procs in lanes: whatever runs side by side gives what running one after the other gives.
#include "packager/loop/build.h"
#include "packager/nest/facts/independent.h"
#include "packager/nest/proc.h"
#include "packager/passes/all.h"
#include "tests/support/nests/lowered.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Access;
using ir::Expr;
using ir::Op;
using loop::Stmt;
using test::NestMaker;

namespace {

// A proc under construction. Loads are checked: the lowering has to prove what it leaves out.
class ProcMaker {
 public:
  explicit ProcMaker(NestMaker& m) : m(m), ctx(m.ctx), proc(std::make_unique<nest::Proc>()), b(m.ctx, proc->body) {}

  const Expr* load(uint32_t a, std::vector<const Expr*> index) {
    const DType t = a >= nest::kFirstLocal ? proc->locals[a - nest::kFirstLocal].dtype : m.f.arrays[a].dtype;
    return ctx.load(a, {t, 1}, std::move(index), Access::Checked);
  }
  void store(uint32_t a, std::vector<const Expr*> index, const Expr* value) {
    Stmt& s = b.append(loop::StmtKind::Store);
    s.array = a;
    s.index = std::move(index);
    s.value = value;
  }
  void each(const Expr* n, const std::function<void(const Expr*)>& body) { b.with_for(m.n(0), n, 1, body); }
  uint32_t local(std::string name, DType t, std::vector<const Expr*> shape) {
    proc->locals.push_back({std::move(name), t, nullptr, std::move(shape)});
    return nest::kFirstLocal + static_cast<uint32_t>(proc->locals.size() - 1);
  }
  nest::Proc& finish(std::vector<uint32_t> reads, std::vector<uint32_t> writes) {
    proc->reads = std::move(reads);
    proc->writes = std::move(writes);
    nest::Statement s;
    s.source = "proc";
    s.proc = std::move(proc);
    m.f.body.push_back(std::move(s));
    return *m.f.body.back().proc;
  }

  NestMaker& m;
  ir::Context& ctx;
  std::unique_ptr<nest::Proc> proc;
  loop::Builder b;
};

const char* const kTargets[] = {"x86-64-v1", "x86-64-v3", "x86-64-v4", "armv8-a", "rv64gc", "portable"};

// Random loops over v: maps, folds inside, sums across iterations, conditions, indices that reach over. All of it in integers,
// where the order of additions does not matter, or in real numbers.
class RandomLoops {
 public:
  RandomLoops(NestMaker& m, uint32_t seed, const Expr* n, const Expr* k, DType t)
      : p_(m), m_(m), ctx_(m.ctx), rng_(seed), n_(n), k_(k), t_(t) {
    const Expr* more = ctx_.add(n, m.n(2));
    x_ = m.array("x", t, {more});
    w_ = m.array("w", t, {more, k});
    u_ = m.array("u", t, {k, more});
    c_ = m.array("c", t, {k});
    y_ = m.output("y", t, {more});
    z_ = m.output("z", t, {more});
    s_ = m.output("s", t, {m.n(4)});
    a_ = p_.local("a", t, {more});
    for (uint32_t to : {y_, z_, a_}) p_.each(more, [&](const Expr* v) { p_.store(to, {v}, p_.load(x_, {v})); });
    p_.each(m.n(4), [&](const Expr* v) { p_.store(s_, {v}, zero()); });
    const int loops = 2 + static_cast<int>(rng_() % 3);
    for (int l = 0; l < loops; ++l) loop(l);
    p_.each(more, [&](const Expr* v) { p_.store(z_, {v}, add(p_.load(z_, {v}), p_.load(a_, {v}))); });
    p_.finish({x_, w_, u_, c_, y_, z_, s_}, {y_, z_, s_});
  }

 private:
  bool chance(unsigned of) { return rng_() % of == 0; }
  const Expr* zero() { return is_float(t_) ? ctx_.number(0, t_) : ctx_.integer(0, t_); }
  const Expr* add(const Expr* a, const Expr* b) { return ctx_.binary(Op::Add, a, b); }
  const Expr* small(const Expr* a) {  // so that repeated products stay in range
    return is_float(t_) ? ctx_.binary(Op::Max, ctx_.binary(Op::Min, a, ctx_.number(2, t_)), ctx_.number(-2, t_))
                        : ctx_.binary(Op::FloorMod, a, ctx_.integer(7, t_));
  }
  const Expr* place(const Expr* v) {
    switch (rng_() % 8) {
      case 0: return ctx_.add(v, m_.n(1));
      case 1: return ctx_.sub(ctx_.add(n_, m_.n(1)), v);
      case 2: return m_.n(0);
      default: return v;
    }
  }
  uint32_t stored() { return std::array{y_, z_, a_}[rng_() % 3]; }

  // A fold over j, before the statement that uses it.
  const Expr* fold(const Expr* v) {
    const bool sum = !chance(3);
    const Expr* acc = p_.b.local(zero());
    const bool by_rows = chance(2), condition = chance(4);
    p_.each(k_, [&](const Expr* j) {
      const Expr* w = by_rows ? p_.load(w_, {v, j}) : p_.load(u_, {j, v});
      const Expr* term = ctx_.binary(Op::Mul, w, p_.load(c_, {j}));
      const auto join = [&] { p_.b.assign(acc, ctx_.binary(sum ? Op::Add : Op::Max, acc, term)); };
      if (condition) p_.b.with_if(ctx_.binary(Op::Lt, zero(), w), join);
      else join();
    });
    return acc;
  }

  const Expr* value(const Expr* v) {
    switch (rng_() % 5) {
      case 0: return fold(v);
      case 1: return p_.load(stored(), {place(v)});
      case 2: return p_.b.let(ctx_.binary(Op::Mul, p_.load(x_, {place(v)}), p_.load(x_, {v})));
      case 3: return ctx_.cast(t_, v);
      default: return p_.load(x_, {place(v)});
    }
  }

  void loop(int number) {
    const bool sums = chance(3), most = chance(3);
    const Expr* total = p_.b.local(zero());
    const Expr* top = p_.b.local(zero());
    const int statements = 1 + static_cast<int>(rng_() % 3);
    p_.each(n_, [&](const Expr* v) {
      for (int k = 0; k < statements; ++k) {
        const Expr* e = small(add(value(v), value(v)));
        const uint32_t to = stored();
        const auto store = [&] { p_.store(to, {chance(6) ? place(v) : v}, e); };
        if (chance(3)) p_.b.with_if(ctx_.binary(Op::Lt, zero(), p_.load(x_, {v})), store);
        else store();
      }
      if (sums) p_.b.assign(total, add(total, p_.load(x_, {v})));
      if (most) p_.b.assign(top, ctx_.binary(Op::Max, top, p_.load(y_, {v})));
    });
    p_.store(s_, {m_.n(number % 4)}, add(total, top));
  }

  ProcMaker p_;
  NestMaker& m_;
  ir::Context& ctx_;
  std::mt19937 rng_;
  const Expr *n_, *k_;
  DType t_;
  uint32_t x_, w_, u_, c_, y_, z_, s_, a_;
};

// The one loop of a proc that `body` fills.
std::optional<nest::Independent> judged(const std::function<void(ProcMaker&, uint32_t x, uint32_t y, const Expr* v)>& body) {
  ir::Context ctx;
  NestMaker m(ctx);
  const uint32_t x = m.array("x", DType::F32, {m.n(40), m.n(40)}), y = m.output("y", DType::F32, {m.n(40), m.n(40)});
  ProcMaker p(m);
  p.each(m.n(30), [&](const Expr* v) { body(p, x, y, v); });
  return nest::independent(ctx, *p.proc->body.back());
}

// y[h] = sum of R[h + offset, j] * x[j], several of them, as a recurrent net has them.
uint32_t gates(NestMaker& m, int64_t h, int64_t k, int count, bool constant) {
  ir::Context& ctx = m.ctx;
  const uint32_t r = m.array("r", DType::F32, {m.n(h * count), m.n(k)}, constant ? nest::Array::Kind::Const : nest::Array::Kind::Input);
  if (constant) {
    std::mt19937 rng(5);
    auto values = std::make_shared<nest::Tensor>(test::random_tensor(rng, DType::F32, {h * count, k}));
    m.f.arrays[r].data = std::make_shared<nest::ConstData>(nest::ConstData{values->bytes, values});
  }
  const uint32_t x = m.array("x", DType::F32, {m.n(k)}), y = m.output("y", DType::F32, {m.n(h)});
  ProcMaker p(m);
  p.each(m.n(h), [&](const Expr* i) {
    const Expr* product = ctx.number(1, DType::F32);
    for (int g = 0; g < count; ++g) {
      const Expr* sum = p.b.local(ctx.number(0, DType::F32));
      p.each(m.n(k), [&](const Expr* j) {
        p.b.assign(sum, ctx.binary(Op::Add, sum, ctx.binary(Op::Mul, p.load(r, {ctx.add(i, m.n(g * h)), j}), p.load(x, {j}))));
      });
      product = p.b.let(ctx.binary(Op::Mul, product, ctx.binary(Op::Min, sum, ctx.number(1, DType::F32))));
    }
    p.store(y, {i}, product);
  });
  p.finish({r, x}, {y});
  return r;
}

int count_for(const std::vector<loop::StmtPtr>& block) {
  int n = 0;
  for (const loop::StmtPtr& s : block) n += (s->kind == loop::StmtKind::For) + count_for(s->body) + count_for(s->orelse);
  return n;
}

}  // namespace

TEST_CASE("random loops of a proc give the same side by side and one after the other") {
  int in_lanes = 0;
  for (uint32_t seed = 0; seed < 60; ++seed)
    for (DType t : {DType::I32, DType::F32}) {
      const int64_t n = std::array<int64_t, 12>{0, 1, 2, 3, 7, 13, 16, 17, 31, 33, 64, 67}[seed % 12];
      const int64_t k = std::array<int64_t, 5>{5, 0, 1, 17, 3}[seed % 5];
      const targets::Target& target = *targets::find_target(kTargets[seed % std::size(kTargets)]);
      CAPTURE(n);
      CAPTURE(k);
      for (bool simplified : {false, true}) {
        ir::Context ctx;
        NestMaker fixed(ctx);
        RandomLoops(fixed, seed, fixed.n(n), fixed.n(k), t);
        NestMaker free(ctx);
        const ir::Sym *N = ctx.declare_sym("N", 0, 1000), *K = ctx.declare_sym("K", 0, 1000);
        RandomLoops(free, seed, ctx.sym(N), ctx.sym(K), t);
        if (simplified) {
          REQUIRE(passes::simplify_procs(ctx, fixed.f).ok());
          REQUIRE(passes::simplify_procs(ctx, free.f).ok());
        }
        in_lanes += test::check_lowering(ctx, fixed.f, target, {}, seed).back() != "proc";
        test::check_lowering(ctx, free.f, target, {{N, n}, {K, k}}, seed);
      }
    }
  CHECK(in_lanes > 100);
}

TEST_CASE("iterations that see each other are not independent") {
  using P = ProcMaker;
  const auto f = [](P& p, double n) { return p.ctx.number(n, DType::F32); };
  // What is free: other arrays anywhere, the same place of the same array, conditions, sums.
  CHECK(judged([&](P& p, uint32_t x, uint32_t y, const Expr* v) { p.store(y, {p.m.n(0), v}, p.load(x, {v, p.ctx.add(v, p.m.n(1))})); }));
  CHECK(judged([&](P& p, uint32_t, uint32_t y, const Expr* v) { p.store(y, {v, p.m.n(3)}, p.ctx.binary(Op::Add, p.load(y, {v, p.m.n(4)}), f(p, 1))); }));
  CHECK(judged([&](P& p, uint32_t, uint32_t y, const Expr* v) {
    p.each(p.m.n(5), [&](const Expr* j) { p.store(y, {v, j}, p.load(y, {v, p.m.n(0)})); });
  }));
  // Neighbours, one place for all, places that inner loops or loaded numbers move, calls for order.
  CHECK_FALSE(judged([&](P& p, uint32_t, uint32_t y, const Expr* v) { p.store(y, {p.m.n(0), v}, p.load(y, {p.m.n(0), p.ctx.add(v, p.m.n(1))})); }));
  CHECK_FALSE(judged([&](P& p, uint32_t x, uint32_t y, const Expr* v) { p.store(y, {p.m.n(0), p.m.n(0)}, p.load(x, {p.m.n(0), v})); }));
  CHECK_FALSE(judged([&](P& p, uint32_t, uint32_t y, const Expr* v) {
    p.each(p.m.n(5), [&](const Expr* j) { p.store(y, {p.m.n(0), p.ctx.add(v, j)}, f(p, 1)); });
  }));
  CHECK_FALSE(judged([&](P& p, uint32_t, uint32_t y, const Expr* v) {
    p.each(p.m.n(5), [&](const Expr* j) {
      const Expr* twice = p.b.let(p.ctx.mul(j, p.m.n(2)));
      p.store(y, {p.m.n(0), p.ctx.add(v, twice)}, f(p, 1));
    });
  }));
  CHECK_FALSE(judged([&](P& p, uint32_t x, uint32_t y, const Expr* v) {
    const Expr* at = p.b.let(p.ctx.convert(Op::Cast, {DType::I64, 1}, p.load(x, {p.m.n(0), v})));
    p.store(y, {p.m.n(0), at}, f(p, 1));
  }));
  CHECK_FALSE(judged([&](P& p, uint32_t, uint32_t, const Expr* v) { p.b.fault(p.ctx.binary(Op::Eq, v, p.m.n(50)), 1); }));
  CHECK_FALSE(judged([&](P& p, uint32_t, uint32_t y, const Expr* v) { p.each(v, [&](const Expr* j) { p.store(y, {v, j}, f(p, 1)); }); }));
}

TEST_CASE("a local that iterations only join to may be joined in any order, one that they read may not") {
  ir::Context ctx;
  NestMaker m(ctx);
  const uint32_t x = m.array("x", DType::F32, {m.n(40)}), y = m.output("y", DType::F32, {m.n(40)});
  const auto facts = [&](bool read) {
    ProcMaker p(m);
    const Expr* sum = p.b.local(ctx.number(0, DType::F32));
    p.each(m.n(40), [&](const Expr* v) {
      p.b.assign(sum, ctx.binary(Op::Add, sum, p.load(x, {v})));
      if (read) p.store(y, {v}, sum);
    });
    return nest::independent(ctx, *p.proc->body.back());
  };
  REQUIRE(facts(false));
  CHECK(facts(false)->joined.size() == 1);
  CHECK_FALSE(facts(true));
}

TEST_CASE("folds over one range become one loop, and their weights lie in panels where gates begin at one") {
  for (auto [h, k, count, panels] : {std::tuple{32, 9, 4, true}, {48, 20, 3, true}, {20, 7, 4, false}, {17, 5, 1, false}, {16, 1, 2, true}}) {
    ir::Context ctx;
    NestMaker m(ctx);
    const uint32_t r = gates(m, h, k, count, true);
    REQUIRE(passes::simplify_procs(ctx, m.f).ok());
    CHECK(count_for(m.f.body[0].proc->body) == 2);
    REQUIRE(passes::assign_layouts(ctx, m.f).ok());
    CHECK(nest::to_string(m.f.arrays[r].layout, 2) == (panels ? "[0/16][1][0%16]" : "[1][0]"));
    for (const char* name : kTargets) {
      const targets::Target& t = *targets::find_target(name);
      CHECK(test::check_lowering(ctx, m.f, t).back().starts_with("proc x"));
    }
  }
}

TEST_CASE("a proc says what it takes") {
  const auto work_of = [](int64_t k) {
    ir::Context ctx;
    NestMaker m(ctx);
    gates(m, 32, k, 1, false);
    auto kernels = lower::lower(ctx, m.f, m.f.body[0], *targets::find_target("x86-64-v3"), {});
    REQUIRE(kernels.ok());
    REQUIRE(kernels->back().work);
    return test::extent_value(kernels->back().work, {});
  };
  CHECK(work_of(4) > 0);
  CHECK(work_of(4000) > 500 * work_of(4));
}

TEST_CASE("rows that are no constant are folded in lanes") {
  ir::Context ctx;
  NestMaker m(ctx);
  gates(m, 6, 100, 2, false);
  for (const char* name : kTargets) CHECK(test::check_lowering(ctx, m.f, *targets::find_target(name)).back().starts_with("proc x"));
}

TEST_CASE("loops keep their order where one needs what stands between") {
  ir::Context ctx;
  NestMaker m(ctx);
  const uint32_t x = m.array("x", DType::F32, {m.n(9)}), y = m.output("y", DType::F32, {m.n(9)});
  ProcMaker p(m);
  const auto sum = [&](uint32_t of) {
    const Expr* acc = p.b.local(ctx.number(0, DType::F32));
    p.each(m.n(9), [&](const Expr* j) { p.b.assign(acc, ctx.binary(Op::Add, acc, p.load(of, {j}))); });
    return acc;
  };
  p.each(m.n(9), [&](const Expr* j) { p.store(y, {j}, p.load(x, {j})); });
  const Expr* first = sum(y);
  p.store(y, {m.n(3)}, ctx.number(1, DType::F32));
  const Expr* second = sum(y);  // must see the 1
  p.store(y, {m.n(0)}, first);
  p.store(y, {m.n(1)}, second);
  p.finish({x, y}, {y});
  REQUIRE(passes::simplify_procs(ctx, m.f).ok());
  CHECK(count_for(m.f.body[0].proc->body) == 3);
  test::check_lowering(ctx, m.f, *targets::find_target("x86-64-v3"));
}

TEST_CASE("a lane out of range is a fault, a lane that a condition leaves out is none") {
  const targets::Target& t = *targets::find_target("x86-64-v4");
  for (bool guarded : {false, true}) {
    ir::Context ctx;
    NestMaker m(ctx);
    const uint32_t x = m.array("x", DType::F32, {m.n(20)}), y = m.output("y", DType::F32, {m.n(19)});
    ProcMaker p(m);
    p.each(m.n(19), [&](const Expr* v) { p.store(y, {v}, ctx.number(0, DType::F32)); });
    p.each(m.n(21), [&](const Expr* v) {
      const auto copy = [&] { p.store(y, {v}, p.load(x, {v})); };
      if (guarded) p.b.with_if(ctx.binary(Op::Lt, v, m.n(19)), copy);
      else copy();
    });
    p.finish({x}, {y});
    std::mt19937 rng(1);
    const auto r = test::run_lowered(ctx, m.f, {test::random_tensor(rng, DType::F32, {20})}, t, {}, {});
    CHECK(r.schedules.back().starts_with("proc x16 "));
    CHECK(r.fault == (guarded ? 0 : 1));
  }
}
