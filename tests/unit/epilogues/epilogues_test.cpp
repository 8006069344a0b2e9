// Whatever stands around the sum of a product, its kernel is that of the product.
#include <algorithm>
#include <regex>
#include <set>

#include "packager/nest/print.h"
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

// Optimises and lowers; the kernels of the statement with the sum, none if it is not needed (z xor z).
std::vector<loop::Kernel> product_kernels(Chain& chain, const targets::Target& target) {
  chain.finish();
  const Status optimised = passes::run(chain.ctx, chain.f);
  REQUIRE_MESSAGE(optimised.ok(), optimised.text());
  const auto product = std::find_if(chain.f.body.begin(), chain.f.body.end(), has_fold);
  if (product == chain.f.body.end()) return {};
  CHECK(std::none_of(product + 1, chain.f.body.end(), has_fold));
  auto kernels = lower::lower(chain.ctx, chain.f, *product, target, expand_math);
  REQUIRE_MESSAGE(kernels.ok(), (kernels.ok() ? "" : kernels.status().text()));
  return std::move(*kernels);
}

// Statements that add products to sums: as many in a kernel that takes its sums from registers as without an epilogue.
size_t multiplications(const std::vector<loop::StmtPtr>& block) {
  size_t n = 0;
  for (const loop::StmtPtr& s : block) {
    n += s->kind == loop::StmtKind::Assign && s->value->type.dtype == DType::F32 && (s->value->op == ir::Op::Fma || s->value->op == ir::Op::Add);
    n += multiplications(s->body) + multiplications(s->orelse);
  }
  return n;
}

size_t multiplications_alone(const Product& p, const targets::Target& target) {
  static std::map<std::pair<std::string, std::string>, size_t> known;
  auto [at, is_new] = known.try_emplace({p.name, target.name}, 0);
  if (is_new) {
    Chain chain(1);
    chain.product(p);
    at->second = multiplications(product_kernels(chain, target).back().body);
  }
  return at->second;
}

// The statement with the sum must be lowered by the template, and what is computed must be what the nest means.
void check(Chain& chain, const Product& p, const std::string& title, const targets::Target& target, bool numbers) {
  CAPTURE(p.name);
  CAPTURE(title);
  CAPTURE(target.name);
  Result<std::vector<nest::Tensor>> want = Status(Code::Internal, "not run");
  chain.finish();
  if (numbers) want = nest::interpret(chain.f, chain.inputs, {.threads = 1});
  const auto kernels = product_kernels(chain, target);
  if (!kernels.empty()) {
    CHECK_MESSAGE(kernels.back().schedule.find(p.schedule) == 0, p.name, ", ", title, " by ", kernels.back().schedule, "\n", nest::print(chain.f));
    CHECK_MESSAGE(multiplications(kernels.back().body) == multiplications_alone(p, target), p.name, ", ", title, " computes its sum again");
  }
  if (!numbers) return;
  REQUIRE_MESSAGE(want.ok(), (want.ok() ? "" : want.status().text()));
  test::Lowered got = test::run_lowered(chain.ctx, chain.f, chain.inputs, target, {}, expand_math);
  CHECK(got.fault == 0);
  const test::Difference d = test::difference((*want)[0], got.outputs[0]);
  const bool exact = !is_float((*want)[0].dtype);
  CHECK_MESSAGE(d.error <= (exact ? 0 : 2e-5 * std::max(d.largest, 1.0)), p.name, ", ", title, ": element ", d.worst, " differs by ", d.error);
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
      check(chain, p, title, target(turn), turn % 2 == 0);
    }
  }
}
