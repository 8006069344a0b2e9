// The audit of images: it takes what the emitter writes, and nothing that an entry does not state or that breaks a rule.
#include "targets/spirv/verify.h"

#include "tests/unit/spirv/statement_cases.h"

namespace mlc {
namespace {

using namespace testing;
using targets::spirv::EmittedKernel;
using Word = targets::spirv::Op;

EmittedKernel emitted(const loop::Kernel& k) {
  auto e = targets::spirv::emit_kernel(k, {});
  REQUIRE_MESSAGE(e.ok(), e.status().text());
  return std::move(*e);
}

std::string verdict(const EmittedKernel& e) {
  const auto found = targets::spirv::verify(e.words, e.entry);
  if (!found.ok()) return found.status().message;
  CHECK(found->capabilities == e.capabilities);
  return {};
}

TEST_CASE("the audit takes what is emitted") {
  Pool pool;
  for (const uint16_t lanes : {1, 4})
    for (OpCase& c : all_op_cases(pool, lanes)) {
      spread(pool, c.kernel);
      const std::string why = verdict(emitted(c.kernel));
      CHECK_MESSAGE(why.empty(), c.kernel.name << ": " << why);
    }
  for (const StatementCase& c : statement_cases(pool)) {
    const std::string why = verdict(emitted(c.kernel));
    CHECK_MESSAGE(why.empty(), c.kernel.name << ": " << why);
  }
}

TEST_CASE("an image is held against its entry") {
  Pool pool;
  std::deque<ir::Sym> syms;
  const EmittedKernel good = emitted(shared_case(pool, DType::I32).kernel), faulty = emitted(fault_case(pool).kernel);
  const EmittedKernel pushed = emitted(scalars_case(pool, 3, syms).kernel), bound = emitted(scalars_case(pool, 15, syms).kernel);
  const auto refused = [&](const EmittedKernel& e, auto change, std::string_view why) {
    EmittedKernel other = e;
    change(other.entry);
    const std::string got = verdict(other);
    CHECK_MESSAGE(got.find(why) != std::string::npos, got);
  };
  using Entry = gpu::Entry;
  refused(good, [](Entry& e) { e.lanes[0] = 4; }, "lanes");
  refused(good, [](Entry& e) { e.name = "mair"; }, "another name");
  refused(good, [](Entry& e) { e.shared_bytes += 4; }, "shared memory");
  refused(good, [](Entry& e) { e.has_barriers = false; }, "barrier");
  refused(good, [](Entry& e) { e.num_buffers = 4; }, "binding 4");
  refused(good, [](Entry& e) { e.written = 8; }, "may be written");
  refused(good, [](Entry& e) { e.num_scalars = 1; }, "push constants");
  refused(faulty, [](Entry& e) { e.may_fault = false; }, "binding 5");
  refused(pushed, [](Entry& e) { e.num_scalars = 2; }, "push constants");
  refused(bound, [](Entry& e) { e.num_scalars = 14; }, "push constants");
}

TEST_CASE("barriers stand where all lanes come, or the image is refused") {
  Pool pool;
  const auto barrier = [] { return statement(loop::StmtKind::Barrier); };
  const auto kernel_of = [&](auto make) { return emitted(lanes_kernel(pool, "barriers", make)); };
  const Expr* two = pool.integer(2);
  // Conditions and loops of the tile are the same for all lanes of a block.
  CHECK(verdict(kernel_of([&](loop::Kernel&, const Expr* tile, const Expr*, const Expr*) {
          const Expr *i = pool.var(), *x = pool.var();
          return seq(define(loop::StmtKind::Local, x, tile), for_(i, pool.integer(0), tile, 1, seq(define(loop::StmtKind::Assign, x, pool.add(x, i)), barrier())),
                     if_(less(pool, x, two), seq(barrier())));
        })) == "");
  CHECK(verdict(kernel_of([&](loop::Kernel&, const Expr*, const Expr* lane, const Expr*) { return seq(if_(less(pool, lane, two), seq(barrier()))); })) != "");
  CHECK(verdict(kernel_of([&](loop::Kernel&, const Expr*, const Expr* lane, const Expr*) {
          return seq(for_(pool.var(), pool.integer(0), lane, 1, seq(barrier())));
        })) != "");
  // A local that lanes change where they parted.
  CHECK(verdict(kernel_of([&](loop::Kernel&, const Expr*, const Expr* lane, const Expr*) {
          const Expr* x = pool.var();
          return seq(define(loop::StmtKind::Local, x, pool.integer(0)), if_(less(pool, lane, two), seq(define(loop::StmtKind::Assign, x, two))),
                     if_(less(pool, x, two), seq(barrier())));
        })) != "");
  // Lanes that return, before a barrier or after it.
  CHECK(verdict(kernel_of([&](loop::Kernel&, const Expr*, const Expr* lane, const Expr*) { return seq(fault(less(pool, lane, two), 0), barrier()); })) != "");
  CHECK(verdict(kernel_of([&](loop::Kernel&, const Expr* tile, const Expr*, const Expr*) { return seq(fault(less(pool, tile, two), 0), barrier()); })) == "");
  // What is loaded at a place of the block is one thing, at a place of the lane another.
  const auto loaded = [&](const Expr* at) { return less(pool, pool.make(Op::Cast, {DType::I64, 1}, {pool.load(1, {DType::I32, 1}, at)}), two); };
  CHECK(verdict(kernel_of([&](loop::Kernel&, const Expr* tile, const Expr*, const Expr*) { return seq(if_(loaded(tile), seq(barrier()))); })) == "");
  CHECK(verdict(kernel_of([&](loop::Kernel&, const Expr*, const Expr* lane, const Expr*) { return seq(if_(loaded(lane), seq(barrier()))); })) != "");
}

// Instructions of a module, as first word and length.
std::vector<std::pair<size_t, size_t>> instructions(const std::vector<uint32_t>& words) {
  std::vector<std::pair<size_t, size_t>> out;
  for (size_t at = 5; at < words.size(); at += words[at] >> 16) out.push_back({at, words[at] >> 16});
  return out;
}

TEST_CASE("an image with an instruction less is refused, unless nothing asks for it") {
  Pool pool;
  size_t taken = 0, all = 0;
  for (const StatementCase& c : statement_cases(pool)) {
    const EmittedKernel good = emitted(c.kernel);
    for (const auto& [at, length] : instructions(good.words)) {
      const Word op = static_cast<Word>(good.words[at] & 0xffff);
      EmittedKernel cut = good;
      cut.words.erase(cut.words.begin() + static_cast<ptrdiff_t>(at), cut.words.begin() + static_cast<ptrdiff_t>(at + length));
      ++all;
      const auto found = targets::spirv::verify(cut.words, cut.entry);
      if (!found.ok()) continue;
      ++taken;
      // Effects may be left out, decorations that only ask for more, and what the module does not use.
      const bool optional = op == Word::Store || op == Word::ControlBarrier || op == Word::Decorate || op == Word::Capability || (op >= Word::TypeVoid && op <= Word::Constant) ||
                            op == Word::Variable || op == Word::Load || op == Word::AccessChain || op == Word::Extension;
      CHECK_MESSAGE(optional, c.kernel.name << ": taken without instruction " << int(op));
    }
  }
  CHECK(taken * 4 < all);
}

TEST_CASE("mutated images are refused or taken, and what is taken runs without an unknown instruction") {
  Pool pool;
  std::mt19937_64 random(7);
  const std::vector<StatementCase> cases = statement_cases(pool);
  size_t taken = 0;
  for (int n = 0; n < 20000; ++n) {
    const StatementCase& c = cases[random() % cases.size()];
    EmittedKernel e = emitted(c.kernel);
    for (uint64_t k = 1 + random() % 2; k; --k) {
      uint32_t& word = e.words[random() % e.words.size()];
      const uint64_t how = random() % 4;
      word = how == 0 ? static_cast<uint32_t>(random()) : how == 1 ? word ^ (1u << random() % 32) : how == 2 ? word + 1 : e.words[random() % e.words.size()];
    }
    if (!targets::spirv::verify(e.words, e.entry).ok()) continue;
    ++taken;
    CHECK(testing::spirv::Executor(e.words).error().empty());
  }
  CHECK(taken > 0);
  MESSAGE("of 20000 mutants " << taken << " are modules");
}

}  // namespace
}  // namespace mlc
