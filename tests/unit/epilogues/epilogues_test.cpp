// Whatever stands around the sum of a product, its kernel is that of the product.
#include <algorithm>
#include <regex>
#include <set>

#include "packager/nest/text/print.h"
#include "packager/passes/util.h"
#include "tests/unit/epilogues/support.h"

using namespace mlc;
using namespace mlc::epilogue_test;

namespace {

using Ints = std::vector<int64_t>;

const std::vector<Product>& products() {
  static const std::vector<Product> all = {
      {"conv 1-D", "Conv", {{"pads", Ints{2, 2}}}, {1, 6, 20}, {16, 6, 5}, {16}},
      {"conv 2-D", "Conv", {{"pads", Ints{1, 1, 1, 1}}}, {1, 8, 5, 9}, {20, 8, 3, 3}, {20}},
      {"conv 3-D", "Conv", {{"pads", Ints{0, 1, 1, 0, 1, 1}}}, {1, 4, 3, 4, 5}, {16, 4, 2, 3, 3}, {16}},
      {"transposed conv 1-D", "ConvTranspose", {{"strides", Ints{2}}, {"pads", Ints{1, 1}}}, {1, 6, 9}, {6, 16, 4}, {16}},
      {"transposed conv 2-D", "ConvTranspose", {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}, {1, 6, 4, 5}, {6, 16, 4, 4}, {}},
      {"transposed conv 2-D, odd window", "ConvTranspose",
       {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"output_padding", Ints{1, 1}}}, {1, 6, 3, 5}, {6, 16, 3, 3}, {16}},
      {"transposed conv 3-D", "ConvTranspose", {{"strides", Ints{2, 2, 2}}, {"pads", Ints{1, 1, 1, 1, 1, 1}}},
       {1, 4, 2, 3, 4}, {4, 16, 4, 4, 4}, {16}},
      {"conv with groups", "Conv", {{"pads", Ints{1, 1, 1, 1}}, {"group", int64_t{2}}}, {1, 8, 5, 6}, {32, 4, 3, 3}, {32}},
      {"depthwise conv", "Conv", {{"pads", Ints{1, 1, 1, 1}}, {"group", int64_t{32}}}, {1, 32, 16, 17}, {32, 1, 3, 3}, {32}, false, "window"},
      {"gemm", "Gemm", {{"transB", int64_t{1}}}, {9, 20}, {33, 20}, {33}},
      {"matmul", "MatMul", {}, {2, 7, 12}, {12, 24}, {}},
      {"matmul of two inputs", "MatMul", {}, {2, 9, 12}, {2, 12, 24}, {}, true},
  };
  return all;
}

bool has_fold(const nest::Statement& s) {
  bool found = !s.nest;
  if (s.nest)
    for (const nest::Write& w : s.nest->writes) found |= passes::has_fold(w.value);
  return found;
}

// Not a norm. (A hash of rounded numbers cannot be compared; Bernoulli needs the number of its element, so that rows of a batch
// do not merge.)
bool is_elementwise(const Step& s) {
  if (s.op == "MurmurHash3" || s.op == "Bernoulli") return false;
  Chain alone(1);
  alone.input({3});
  if (!alone.step(s, Second::Whole)) return false;
  return !alone.f.body.empty() && std::none_of(alone.f.body.begin(), alone.f.body.end(), has_fold);
}

// The elementwise operators of one and two operands, newest definition of each, as the library declares them.
std::vector<Step> steps() {
  std::map<std::pair<std::string, std::string>, std::pair<int64_t, Step>> newest;
  const std::regex declared(R"(^op \w+@\d+(<[^>]*>)?\((\w+: \w+\[~?d\.\.\.\])(, \w+: \w+\[~?d\.\.\.\])?( many)?(,[^\])]*\[\]\?[^)]*)?\) -> \w+: \w+\[d\.\.\.\])");
  for (const lang::OpInfo& info : library().operators()) {
    if (info.domain != "ai.onnx" && info.domain != "com.microsoft") continue;
    std::smatch m;
    if (!std::regex_search(info.text, m, declared)) continue;
    Step s{info.domain, info.name, m[3].matched || m[4].matched ? size_t{2} : size_t{1}};
    if (info.name == "Cast") s.attributes["to"] = DType::I32;
    if (info.name == "BitShift") s.attributes["direction"] = std::string("LEFT");
    auto& entry = newest[{info.domain, info.name}];
    if (entry.first <= info.since) entry = {info.since, s};
  }
  std::vector<Step> all;
  for (auto& [key, entry] : newest)
    if (is_elementwise(entry.second)) all.push_back(entry.second);
  return all;
}

// Optimises and lowers; the last kernel of each statement with a sum: none if it is not needed (z xor z).
std::vector<loop::Kernel> product_kernels(Chain& chain, const targets::Target& target) {
  chain.finish();
  const Status optimised = passes::run(chain.ctx, chain.f);
  REQUIRE_MESSAGE(optimised.ok(), optimised.text());
  std::vector<loop::Kernel> found;
  for (const nest::Statement& s : chain.f.body) {
    if (!has_fold(s)) continue;
    auto kernels = lower::lower(chain.ctx, chain.f, s, target, expand_math);
    REQUIRE_MESSAGE(kernels.ok(), (kernels.ok() ? "" : kernels.status().text()));
    found.push_back(std::move(kernels->back()));
  }
  return found;
}

// Statements that add to a sum: as many in a kernel that takes its sums from registers as without an epilogue.
size_t additions(const std::vector<loop::StmtPtr>& block) {
  size_t n = 0;
  for (const loop::StmtPtr& s : block) {
    n += s->kind == loop::StmtKind::Assign && s->value->type.dtype == DType::F32 && ir::depends_on(s->value, s->var);
    n += additions(s->body) + additions(s->orelse);
  }
  return n;
}

size_t additions_alone(const Product& p, const targets::Target& target) {
  static std::map<std::pair<std::string, std::string>, size_t> known;
  auto [at, is_new] = known.try_emplace({p.name, target.name}, 0);
  if (is_new) {
    Chain chain(1);
    chain.product(p);
    at->second = additions(product_kernels(chain, target).back().body);
  }
  return at->second;
}

// The statement with the sum must be lowered by the template, and what is computed must be what the nest means. `rounded`: a step
// (Floor, Less) may follow what is rounded otherwise, so that one element in 200 may fall on the other side of it.
void check(Chain& chain, const Product& p, const std::string& title, const targets::Target& target, bool numbers, bool rounded = false) {
  CAPTURE(p.name);
  CAPTURE(title);
  CAPTURE(target.name);
  Result<std::vector<nest::Tensor>> want = Status(Code::Internal, "not run");
  chain.finish();
  if (numbers) want = nest::interpret(chain.f, chain.inputs, {.threads = 1});
  const auto kernels = product_kernels(chain, target);
  for (const loop::Kernel& kernel : kernels) {
    CHECK_MESSAGE(kernel.schedule.find(p.schedule) == 0, p.name, ", ", title, " by ", kernel.schedule, "\n", nest::print(chain.f));
    CHECK_MESSAGE(additions(kernel.body) == additions_alone(p, target), p.name, ", ", title, " computes its sum again");
  }
  if (!numbers) return;
  REQUIRE_MESSAGE(want.ok(), (want.ok() ? "" : want.status().text()));
  test::Lowered got = test::run_lowered(chain.ctx, chain.f, chain.inputs, target, {}, expand_math);
  CHECK(got.fault == 0);
  const test::Difference d = test::difference((*want)[0], got.outputs[0]);
  const bool exact = !is_float((*want)[0].dtype), steps_aside = d.apart * 200 <= (*want)[0].elements() * rounded;
  CHECK_MESSAGE((steps_aside || d.error <= (exact ? 0 : 2e-5 * std::max(d.largest, 1.0))), p.name, ", ", title, ": element ", d.worst, " differs by ", d.error);
}

const targets::Target& target(size_t number) {
  static const char* const names[] = {"x86-64-v4", "x86-64-v3", "armv8-a", "x86-64-v2", "rv64gc", "portable"};
  return *targets::find_target(names[number % std::size(names)]);
}

}  // namespace

TEST_CASE("each elementwise operator after each product") {
  const auto all = steps();
  CHECK(all.size() > 60);
  size_t turn = 0;
  for (const Step& s : all)
    for (const Product& p : products()) {
      Chain chain(static_cast<uint32_t>(turn));
      chain.product(p);
      const auto second = static_cast<Second>(turn % 4);
      REQUIRE(chain.step(s, second));
      check(chain, p, s.op + " " + std::to_string(turn % 4), target(turn / 4), turn % 5 == 0);
      ++turn;
    }
}

TEST_CASE("chains of three operators after a product, each operator in several") {
  const auto all = steps();
  std::mt19937 rng(20);
  std::vector<size_t> order;
  for (size_t k = 0; k < all.size(); ++k) order.push_back(k);
  size_t turn = 0;
  for (int round = 0; round < 12; ++round) {
    std::shuffle(order.begin(), order.end(), rng);
    for (size_t k = 0; k < order.size(); k += 3, ++turn) {
      const Product& p = products()[turn % products().size()];
      Chain chain(static_cast<uint32_t>(turn));
      chain.product(p);
      std::string title;
      for (size_t j = 0; j < 3; ++j) {
        const Step& s = all[order[(k + j) % order.size()]];
        const auto second = static_cast<Second>(rng() % 4);
        REQUIRE(chain.step(s, second));
        title += s.op + " " + std::to_string(static_cast<int>(second)) + " ";
      }
      check(chain, p, title, target(turn), turn % 2 == 0, true);
    }
  }
}

TEST_CASE("epilogues of several operands: requantisation, masks, residuals, gates, padding, concatenation") {
  const std::vector<std::pair<std::string, std::function<void(Chain&, const Product&)>>> epilogues = {
      {"requantised",
       [](Chain& c, const Product&) {
         c.node("QuantizeLinear", {c.value(), c.constant(DType::F32, {}, 0.25), c.constant(DType::U8, {}, 100)});
         c.node("DequantizeLinear", {c.value(), c.constant(DType::F32, {}, 0.25), c.constant(DType::U8, {}, 100)});
       }},
      {"quantised", [](Chain& c, const Product&) { c.node("QuantizeLinear", {c.value(), c.constant(DType::F32, {}, 0.25), c.constant(DType::I8, {}, -3)}); }},
      {"masked", [](Chain& c, const Product&) { c.node("Where", {c.like(DType::Bool), c.value(), c.constant(DType::F32, {}, -8)}); }},
      {"masked out", [](Chain& c, const Product&) { c.node("Where", {c.like(DType::Bool), c.like(DType::F32), c.value()}); }},
      {"clipped", [](Chain& c, const Product&) { c.node("Clip", {c.value(), c.constant(DType::F32, {}, -1), c.constant(DType::F32, {}, 2)}); }},
      {"residual, leaky",
       [](Chain& c, const Product&) {
         c.node("Add", {c.like(DType::F32), c.value()});
         c.node("LeakyRelu", {c.value()}, {{"alpha", 0.125}});
       }},
      {"leaky, residual",
       [](Chain& c, const Product&) {
         c.node("LeakyRelu", {c.value()}, {{"alpha", 0.125}});
         c.node("Add", {c.value(), c.like(DType::F32)});
       }},
      {"gated by its own sigmoid",
       [](Chain& c, const Product&) {
         const uint32_t z = c.value();
         c.node("Sigmoid", {z});
         c.node("Mul", {z, c.value()});
       }},
      {"gated by another product",
       [](Chain& c, const Product& p) {
         const uint32_t z = c.value();
         c.product(p);
         c.node("Sigmoid", {c.value()});
         c.node("Mul", {z, c.value()});
       }},
      {"leaky and padded",
       [](Chain& c, const Product&) {
         c.node("LeakyRelu", {c.value()}, {{"alpha", 0.125}});
         c.node("Pad", {c.value(), c.constant(DType::I64, {static_cast<int64_t>(2 * c.shape().size())}, 1)});
       }},
      {"leaky and concatenated",
       [](Chain& c, const Product&) {
         c.node("LeakyRelu", {c.value()}, {{"alpha", 0.125}});
         c.node("Concat", {c.like(DType::F32), c.value()}, {{"axis", static_cast<int64_t>(c.channel())}});
       }},
      {"written and used",
       [](Chain& c, const Product&) {
         c.node("Elu", {c.value()});
         c.keep();
         c.node("PRelu", {c.value(), c.constant(DType::F32, {}, 0.5)});
       }},
  };
  size_t turn = 0;
  for (const auto& [name, append] : epilogues)
    for (const Product& p : products()) {
      Chain chain(static_cast<uint32_t>(turn));
      chain.product(p);
      append(chain, p);
      check(chain, p, name, target(turn++), true);
    }
}
