// Products of codes of 8 bits on tensor cores, and four by four in lanes: all signs, zero points, depths and layouts, the bits that the interpreter
// has, without races and bank conflicts.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/nests/any_schedule.h"
#include "tests/support/nests/device_run.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Expr;
using ir::Join;
using ir::Op;
using test::NestMaker;

namespace {

const targets::Target& device(const char* name) {
  const targets::Target* t = targets::find_target(name);
  REQUIRE(t);
  return *t;
}

// Codes of all values.
std::vector<nest::Tensor> codes_for(const nest::Function& f, const test::Symbols& symbols) {
  std::mt19937 rng(11);
  std::vector<nest::Tensor> inputs;
  for (const uint32_t a : f.inputs) {
    inputs.push_back(test::random_tensor(rng, f.arrays[a].dtype, test::shape_of(f.arrays[a], symbols), 1 << 20));
    if (bits_of(f.arrays[a].dtype) == 8)
      for (std::byte& b : inputs.back().bytes) b = static_cast<std::byte>(rng());
  }
  return inputs;
}

constexpr const char* kTensorCores[] = {"cuda-sm80"};
constexpr const char* kDots[] = {"cuda-sm75", "vulkan-subgroup"};  // devices whose lanes multiply four codes by four

// By the best schedule or another: bit for bit what the nest says, of the Loop interpreter and of the executor alike.
void check_codes(ir::Context& ctx, const nest::Function& f, const test::Symbols& symbols = {}, const schedule::Schedule* how = nullptr, const char* name = "cuda-sm80") {
  const targets::Target& target = device(name);
  const std::vector<nest::Tensor> inputs = codes_for(f, symbols);
  nest::InterpretOptions options;
  options.symbols = symbols;
  const auto want = nest::interpret(f, inputs, options);
  REQUIRE_MESSAGE(want.ok(), (want.ok() ? "" : want.status().text()));
  testing::lanes::Counts counts;
  const test::Lowered interpreted = test::run_lowered(ctx, f, inputs, target, symbols, test::test_math, 1, how);
  const test::Lowered executed = test::run_lowered(ctx, f, inputs, target, symbols, test::test_math, 1, how, test::on_executor(target, counts));
  std::string schedules;
  for (const std::string& one : interpreted.schedules) schedules += one;
  CHECK_MESSAGE(schedules.find(target.has_mma ? "instr mma.i8" : "instr dot.i8") != std::string::npos, schedules);
  for (const test::Lowered* got : {&interpreted, &executed})
    for (size_t k = 0; k < want->size(); ++k) CHECK_MESSAGE(got->outputs[k].bytes == (*want)[k].bytes, schedules);
  if (target.access_bytes) CHECK(counts.conflicts == 0);  // a lane reads its vectors at once there
}

void check_everywhere(std::span<const char* const> names, const std::function<void(NestMaker&)>& make, const test::Symbols& symbols = {}) {
  for (const char* name : names) {
    CAPTURE(name);
    ir::Context ctx;
    NestMaker maker(ctx);
    make(maker);
    check_codes(ctx, maker.f, symbols, nullptr, name);
  }
}

schedule::Schedule best(ir::Context& ctx, const nest::Function& f, const char* name = "cuda-sm80") {
  const auto all = lower::candidates(ctx, f, f.body[0], device(name));
  REQUIRE(all.ok());
  return all->front();
}

const nest::Layout& in_groups(nest::Layout& layout) {
  layout.pieces = {{1, 16, 0}, {0, 4, 0}, {1, 1, 16}, {0, 1, 4}};
  return layout;
}

struct Product {
  int64_t m = 40, k = 64, n = 40;
  DType a = DType::U8, b = DType::I8;
  bool panels = true, turned = false;  // weights in panels; stored column by column
  int64_t zero = 0;                    // of b
};

// y[m, n] = sum a[m, k] * (b[k, n] - zero) + c[n]
void product(NestMaker& maker, const Product& p, const Expr* M = nullptr, const Expr* K = nullptr, const Expr* N = nullptr) {
  ir::Context& ctx = maker.ctx;
  if (!M) M = maker.n(p.m);
  if (!K) K = maker.n(p.k);
  if (!N) N = maker.n(p.n);
  const uint32_t a = maker.array("a", p.a, {M, K}), b = maker.array("b", p.b, {K, N}), c = maker.array("c", DType::I32, {N}), y = maker.output("y", DType::I32, {M, N});
  if (p.panels) in_groups(maker.f.arrays[b].layout);
  else if (p.turned) maker.f.arrays[b].layout = nest::permuted({1, 0});
  const auto m = maker.dim("m", M), k = maker.dim("k", K), n = maker.dim("n", N);
  const Expr* of_b = ctx.cast(DType::I32, maker.load(b, {maker.at(k), maker.at(n)}));
  if (p.zero) of_b = ctx.binary(Op::Sub, of_b, ctx.integer(p.zero, DType::I32));
  const Expr* sum = maker.fold(Join::Sum, {k}, ctx.binary(Op::Mul, ctx.cast(DType::I32, maker.load(a, {maker.at(m), maker.at(k)})), of_b));
  maker.map({m, n}, y, {maker.at(m), maker.at(n)}, ctx.binary(Op::Add, sum, maker.load(c, {maker.at(n)})));
}

struct Image {
  int64_t n = 1, h = 7, w = 6, c = 32, m = 40, k = 3, pad = 1, stride = 1;
  DType a = DType::U8;
  bool outside = true;         // what lies beyond the border is a code, not zero
  bool channels_last = true;
};

// A convolution as `codes` leaves it: what lies beyond the border reads the zero point of the image.
void image(NestMaker& maker, const Image& p) {
  ir::Context& ctx = maker.ctx;
  const auto number = [&](int64_t v) { return ctx.integer(v); };
  const int64_t P = (p.h + 2 * p.pad - p.k) / p.stride + 1, Q = (p.w + 2 * p.pad - p.k) / p.stride + 1;
  const uint32_t x = maker.array("x", p.a, {number(p.n), number(p.c), number(p.h), number(p.w)}), w = maker.array("w", DType::I8, {number(p.m), number(p.c), number(p.k), number(p.k)});
  const uint32_t y = maker.output("y", DType::I32, {number(p.n), number(p.m), number(P), number(Q)});
  if (p.channels_last) maker.f.arrays[x].layout = maker.f.arrays[y].layout = nest::permuted({0, 2, 3, 1});
  maker.f.arrays[w].layout.pieces = {{2, 1, 0}, {3, 1, 0}, {0, 16, 0}, {1, 4, 0}, {0, 1, 16}, {1, 1, 4}};
  const auto n = maker.dim("n", number(p.n)), m = maker.dim("m", number(p.m)), i = maker.dim("p", number(P)), j = maker.dim("q", number(Q)), c = maker.dim("c", number(p.c)), u = maker.dim("u", number(p.k)), v = maker.dim("v", number(p.k));
  const auto place = [&](const ir::Dim* o, const ir::Dim* t) { return ctx.add(ctx.add(ctx.mul(maker.at(o), number(p.stride)), maker.at(t)), number(-p.pad)); };
  const Expr *row = place(i, u), *column = place(j, v);
  const Expr* inside = ctx.binary(Op::And, maker.within(row, number(p.h)), maker.within(column, number(p.w)));
  const Expr *code = ctx.cast(DType::I32, maker.load(x, {maker.at(n), maker.at(c), row, column})), *where = p.pad ? inside : nullptr;
  if (p.pad && p.outside) code = ctx.select(inside, code, ctx.integer(p.a == DType::U8 ? 137 : -9, DType::I32)), where = nullptr;
  const Expr* weight = ctx.cast(DType::I32, maker.load(w, {maker.at(m), maker.at(c), maker.at(u), maker.at(v)}));
  maker.map({n, m, i, j}, y, {maker.at(n), maker.at(m), maker.at(i), maker.at(j)}, maker.fold(Join::Sum, {c, u, v}, ctx.binary(Op::Mul, code, weight), where));
}

}  // namespace

namespace {

// Of weights in panels, as rows and as columns.
void check_signs(std::span<const char* const> names) {
  for (const DType a : {DType::U8, DType::I8})
    for (const DType b : {DType::U8, DType::I8})
      for (int form = 0; form < 3; ++form) {
        CAPTURE(form);
        check_everywhere(names, [&](NestMaker& maker) { product(maker, {.a = a, .b = b, .panels = form == 0, .turned = form == 2}); });
      }
}

void check_sizes(std::span<const char* const> names) {
  for (const auto& [m, k, n] : {std::array<int64_t, 3>{32, 32, 32}, {33, 37, 40}, {70, 68, 65}, {64, 100, 130}, {41, 208, 50}, {35, 129, 33}})
    for (int form = 0; form < 3; ++form) {
      CAPTURE(k);
      CAPTURE(form);
      check_everywhere(names, [&, m = m, k = k, n = n](NestMaker& maker) { product(maker, {.m = m, .k = k, .n = n, .panels = form == 0, .turned = form == 2}); });
    }
}

void check_zero_points(std::span<const char* const> names) {
  for (const int64_t k : {64, 75})
    for (const bool turned : {false, true})
      check_everywhere(names, [&](NestMaker& maker) { product(maker, {.k = k, .b = DType::U8, .panels = false, .turned = turned, .zero = 128}); });
}

}  // namespace

TEST_CASE("codes of any signs on tensor cores") { check_signs(kTensorCores); }
TEST_CASE("codes of any signs four by four") { check_signs(kDots); }
TEST_CASE("codes of odd depths and sides on tensor cores") { check_sizes(kTensorCores); }
TEST_CASE("codes of odd depths and sides four by four") { check_sizes(kDots); }
TEST_CASE("codes less 128 are those of the other sign on tensor cores") { check_zero_points(kTensorCores); }
TEST_CASE("codes less 128 are those of the other sign four by four") { check_zero_points(kDots); }

TEST_CASE("products of few rows are four by four where a tensor core has no tile for them") {
  for (const int64_t m : {9, 15}) {
    ir::Context ctx;
    NestMaker maker(ctx);
    product(maker, {.m = m, .k = 70, .n = 40, .panels = false});
    for (const char* name : {"cuda-sm80", "cuda-sm90"}) {
      const schedule::Schedule how = best(ctx, maker.f, name);
      CHECK(schedule::is_dot(how));
      test::check_emitted(ctx, maker.f, device(name), {}, &how);
    }
  }
}

TEST_CASE("every tile of lanes of codes, of whole pieces and of one that is cut") {
  for (const char* name : kDots)
    for (const int64_t rows : {16, 32, 64})
      for (const int64_t columns : {16, 32, 64})
        for (const int64_t k : {64, 52}) {
          ir::Context ctx;
          NestMaker maker(ctx);
          product(maker, {.m = rows + 3, .k = k, .n = columns + 5});
          schedule::Schedule how = best(ctx, maker.f, name);
          how.tile.rows = rows, how.tile.columns = columns;
          check_codes(ctx, maker.f, {}, &how, name);
        }
}

TEST_CASE("every tile of warps of codes") {
  for (const int64_t rows : {32, 64, 128})
    for (const int64_t columns : {32, 64, 128}) {
      ir::Context ctx;
      NestMaker maker(ctx);
      product(maker, {.m = rows + 3, .k = 80, .n = columns + 5});
      schedule::Schedule how = best(ctx, maker.f);
      how.tile.rows = rows, how.tile.columns = columns, how.block = rows == 128 && columns == 128 ? 256 : 128;
      check_codes(ctx, maker.f, {}, &how);
    }
}

TEST_CASE("codes of extents that only the run knows, none and one among them") {
  ir::Context ctx;
  NestMaker maker(ctx);
  const ir::Sym *m = ctx.declare_sym("m", 0, 10000), *k = ctx.declare_sym("k", 0, 10000), *n = ctx.declare_sym("n", 0, 10000);
  product(maker, {.panels = false}, ctx.sym(m), ctx.sym(k), ctx.sym(n));
  for (const char* name : {"cuda-sm80", "cuda-sm75", "vulkan-subgroup"})
    for (const auto& [a, b, c] : {std::array<int64_t, 3>{0, 5, 7}, {1, 1, 1}, {5, 0, 3}, {5, 16, 3}, {65, 70, 20}}) check_codes(ctx, maker.f, {{m, a}, {k, b}, {n, c}}, nullptr, name);
}

namespace {

void check_images(std::span<const char* const> names) {
  for (const bool channels_last : {true, false})
    for (int form = 0; form < 8; ++form) {
      CAPTURE(form);
      CAPTURE(channels_last);
      Image p{.channels_last = channels_last};
      if (form == 1) p.outside = false;
      if (form == 2) p.c = 64, p.a = DType::I8;
      if (form == 3) p.c = 20;
      if (form == 4) p.c = 5, p.k = 5, p.pad = 2;
      if (form == 5) p.c = 16, p.stride = 2, p.h = 13, p.w = 14;
      if (form == 6) p.c = 96, p.k = 1, p.pad = 0;
      if (form == 7) p.n = 2, p.c = 48, p.m = 33, p.outside = false, p.a = DType::I8;
      check_everywhere(names, [&](NestMaker& maker) { image(maker, p); });
    }
}

}  // namespace

TEST_CASE("convolutions of codes on tensor cores, beyond whose border the zero point is read") { check_images(kTensorCores); }
TEST_CASE("convolutions of codes four by four") { check_images(kDots); }

TEST_CASE("legal schedules of products of codes are right to the last bit") {
  const auto counts = test::check_many(31, true, {"vulkan-base", "vulkan-subgroup", "cuda-sm75", "cuda-sm80", "cuda-sm90"}, [](NestMaker& m, std::mt19937& rng, const test::Extents& extent) {
    const bool panels = rng() % 2;
    const Product p{.a = rng() % 2 ? DType::U8 : DType::I8, .panels = panels, .turned = !panels && rng() % 2};
    product(m, p, extent(test::one_of<int64_t>(rng, {33, 70})), panels ? m.n(test::one_of<int64_t>(rng, {36, 75, 128})) : extent(test::one_of<int64_t>(rng, {36, 75, 128})),
            panels ? m.n(test::one_of<int64_t>(rng, {40, 66})) : extent(test::one_of<int64_t>(rng, {40, 66})));
  }, 18);
  CHECK(counts.altered > 24);
  CHECK(counts.refused > 24);
}

TEST_CASE("devices without such an instruction multiply codes by lanes") {
  ir::Context ctx;
  NestMaker maker(ctx);
  product(maker, {});
  CHECK(best(ctx, maker.f, "vulkan-base").instruction == "mul.i32");
  for (const char* name : {"cuda-sm75", "vulkan-subgroup"}) CHECK(schedule::is_dot(best(ctx, maker.f, name)));
  for (const char* name : {"cuda-sm80", "cuda-sm90"}) CHECK(schedule::is_mma(best(ctx, maker.f, name)));
}

namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += what.size()) ++n;
  return n;
}

// The innermost loop of assembled code that holds `what`, as text: from the last label in front of it that a branch behind it goes to.
std::string loop_with(const std::string& sass, const std::string& what) {
  const size_t first = sass.find(what);
  if (first == sass.npos) return {};
  for (size_t label = sass.rfind("\n.L_", first); label != sass.npos && label > 0; label = sass.rfind("\n.L_", label - 1)) {
    const std::string name = sass.substr(label + 1, sass.find(':', label) - label - 1);
    const size_t back = sass.find("BRA `(" + name + ")", first);
    if (back != sass.npos) return sass.substr(label, back - label);
  }
  return {};
}

struct Assembled {
  std::string said, loop;  // by ptxas; the loop of the products
  double per_product = 0;  // instructions of a lane in the loop, over products of codes there
};

// `products`: of a lane in one turn of the loop.
Assembled assembled(ir::Context& ctx, const nest::Function& f, const char* name, const schedule::Schedule& how, const std::string& what, double products, const std::filesystem::path& folder) {
  auto kernels = lower::lower(ctx, f, f.body[0], device(name), test::test_math, &how);
  REQUIRE_MESSAGE(kernels.ok(), (kernels.ok() ? "" : kernels.status().text()));
  const auto module = targets::emit_module(device(name), *kernels);
  REQUIRE_MESSAGE(module.ok(), (module.ok() ? "" : module.status().text()));
  const auto decoded = gpu::decode(module->bytes);
  REQUIRE(decoded.ok());
  const std::vector<std::byte>& text = decoded->images[0].bytes;
  std::ofstream(folder / "tile.ptx", std::ios::binary).write(reinterpret_cast<const char*>(text.data()), std::streamsize(text.size() - 1));
  const std::string architecture = std::string(name).substr(std::string(name).size() - 2), at = (folder / "").string();
  CHECK(std::system(("ptxas -v -arch=sm_" + architecture + " -o " + at + "tile.cubin " + at + "tile.ptx >" + at + "log 2>&1").c_str()) == 0);
  CHECK(std::system(("nvdisasm " + at + "tile.cubin >" + at + "sass 2>&1").c_str()) == 0);
  Assembled out{text_of(folder / "log"), loop_with(text_of(folder / "sass"), what)};
  out.per_product = static_cast<double>(count(out.loop, " ;\n")) / products;
  return out;
}

}  // namespace

TEST_CASE("the assembler keeps products of codes in registers, and their loop is loads of whole chunks and IMMA") {
  const auto has = [](const char* tool) { return std::system((std::string(tool) + " --version >/dev/null 2>&1").c_str()) == 0; };
  if (!has("ptxas") || !has("nvdisasm")) {
    MESSAGE("skipped: 1 test, no ptxas or nvdisasm here");
    return;
  }
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("mlc-codes-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  for (const char* name : {"cuda-sm80", "cuda-sm90"})
    for (const bool is_image : {false, true}) {
      CAPTURE(is_image);
      ir::Context ctx;
      NestMaker maker(ctx);
      if (is_image) image(maker, {.h = 56, .w = 56, .c = 64, .m = 64});
      else product(maker, {.m = 12800, .k = 768, .n = 768});  // of fewer rows the fold is cut into parts
      const schedule::Schedule first = best(ctx, maker.f, name);
      schedule::Schedule lanes = first;
      lanes.tile = {64, 64, 16, 16, false}, lanes.block = 64, lanes.instruction = "mul.i32";
      const auto products_of = [](const schedule::Schedule& s, int64_t depth) { return static_cast<double>(s.tile.rows * s.tile.columns * depth) / s.block; };
      const Assembled before = assembled(ctx, maker.f, name, lanes, "BAR.SYNC", products_of(lanes, lanes.tile.depth), folder);
      for (const int64_t side : {32, 64, 128}) {
        schedule::Schedule how = first;
        how.tile.rows = how.tile.columns = side, how.block = side == 128 ? 256 : 128;
        const Assembled after = assembled(ctx, maker.f, name, how, "IMMA", products_of(how, 64), folder);
        CHECK_MESSAGE(after.said.find(" 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") != std::string::npos, after.said);
        CHECK(count(after.loop, "IMMA.16832") == static_cast<size_t>(side * side / 128 * 2 / (how.block / 32)));
        const auto chunks = static_cast<size_t>(side * 4 / how.block);  // that a lane brings, of rows and of columns
        // Rows in chunks, weights in cells; an image whose borders are another code than zero is loaded, and its stores wait for that.
        CHECK(count(after.loop, "LDGSTS.E.BYPASS.128") == (is_image ? 0 : chunks));
        CHECK(count(after.loop, "LDG.E.128") == (is_image ? chunks : 0));
        CHECK(count(after.loop, "LDGSTS.E ") == 4 * chunks);
        CHECK(count(after.loop, " BAR.") == 1);
        MESSAGE(std::string(name) << std::string(is_image ? " convolution " : " product ") << side << ": " << count(after.loop, " ;\n") << " instructions, " << count(after.loop, "IMMA") << " IMMA, " << after.per_product
                                  << " of a lane for each product; by lanes that multiply: " << before.per_product << "; "
                                  << after.said.substr(after.said.find("Used "), 17));
      }
    }
  std::filesystem::remove_all(folder);
}

TEST_CASE("the loop of products four by four is IDP, without a conversion or a product of its own") {
  const auto has = [](const char* tool) { return std::system((std::string(tool) + " --version >/dev/null 2>&1").c_str()) == 0; };
  if (!has("ptxas") || !has("nvdisasm")) {
    MESSAGE("skipped: 1 test, no ptxas or nvdisasm here");
    return;
  }
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("mlc-dots-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  for (const bool is_image : {false, true}) {
    CAPTURE(is_image);
    ir::Context ctx;
    NestMaker maker(ctx);
    if (is_image) image(maker, {.h = 56, .w = 56, .c = 64, .m = 64});
    else product(maker, {.m = 12800, .k = 768, .n = 768});
    const schedule::Schedule how = best(ctx, maker.f, "cuda-sm75");
    REQUIRE(schedule::is_dot(how));
    schedule::Schedule apart = how;
    apart.tile.depth = 16, apart.tile.copies = 16, apart.instruction = "mul.i32";
    const auto products_of = [](const schedule::Schedule& s) { return static_cast<double>(s.tile.rows * s.tile.columns * s.tile.depth) / s.block; };
    const Assembled before = assembled(ctx, maker.f, "cuda-sm75", apart, "BAR.SYNC", products_of(apart), folder);
    Assembled after = assembled(ctx, maker.f, "cuda-sm75", how, "IDP", products_of(how), folder);
    const size_t dots = count(after.loop, "IDP.4A");  // of one piece, or of some where the assembler unrolls these
    after.per_product = static_cast<double>(count(after.loop, " ;\n")) / (4 * static_cast<double>(dots));
    CHECK_MESSAGE(after.said.find(" 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") != std::string::npos, after.said);
    CHECK(dots > 0);
    CHECK(dots % static_cast<size_t>(products_of(how) / 4) == 0);
    CHECK(count(after.loop, "I2F") == 0);
    CHECK(count(after.loop, "IMAD") < dots / 4);
    CHECK(2 * after.per_product < before.per_product);
    MESSAGE(std::string(is_image ? "convolution " : "product ") << schedule::print(how) << ": " << count(after.loop, " ;\n") << " instructions, " << dots << " IDP.4A, " << after.per_product
                                                                << " of a lane for each product; one by one: " << before.per_product << "; " << after.said.substr(after.said.find("Used "), 17));
  }
  std::filesystem::remove_all(folder);
}

namespace {

// Instructions of the image of a kernel, by their numbers: of SPIR-V.
size_t count_words(const std::vector<std::byte>& bytes, uint32_t op) {
  std::vector<uint32_t> words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  size_t n = 0;
  for (size_t at = 5; at < words.size(); at += std::max(1u, words[at] >> 16)) n += (words[at] & 0xffff) == op;
  return n;
}

gpu::Module module_of(ir::Context& ctx, const nest::Function& f, const char* name, const schedule::Schedule& how) {
  auto kernels = lower::lower(ctx, f, f.body[0], device(name), test::test_math, &how);
  REQUIRE_MESSAGE(kernels.ok(), (kernels.ok() ? "" : kernels.status().text()));
  const auto module = targets::emit_module(device(name), *kernels);
  REQUIRE(module.ok());
  auto decoded = gpu::decode(module->bytes);
  REQUIRE(decoded.ok());
  return std::move(*decoded);
}

}  // namespace

TEST_CASE("four codes are one load and one product, of the instruction of their signs") {
  constexpr uint32_t kSDot = 4450, kUDot = 4451, kSUDot = 4452;
  for (const DType a : {DType::U8, DType::I8})
    for (const DType b : {DType::U8, DType::I8}) {
      ir::Context ctx;
      NestMaker maker(ctx);
      product(maker, {.k = 64, .a = a, .b = b, .panels = false, .turned = true});
      schedule::Schedule how = best(ctx, maker.f, "cuda-sm75");
      how.tile.copies = static_cast<unsigned>(how.tile.depth / 4);
      const auto dots = static_cast<size_t>(how.tile.rows * how.tile.columns * how.tile.depth / 4 / 64), loads = static_cast<size_t>((how.tile.rows + how.tile.columns) * how.tile.depth / 4 / 64);
      const gpu::Module ptx = module_of(ctx, maker.f, "cuda-sm75", how);
      const std::string text(reinterpret_cast<const char*>(ptx.images[0].bytes.data()), ptx.images[0].bytes.size());
      CHECK(count(text, "dp4a.") == dots);
      CHECK(count(text, "ld.global.nc.u8") == 0);
      CHECK(count(text, "ld.global.nc.u32") + count(text, "ld.global.nc.b32") >= loads);
      how.vector_bytes = best(ctx, maker.f, "vulkan-subgroup").vector_bytes;
      const gpu::Module spirv = module_of(ctx, maker.f, "vulkan-subgroup", how);
      const uint32_t wanted = a != b ? kSUDot : a == DType::I8 ? kSDot : kUDot;
      for (const uint32_t op : {kSDot, kUDot, kSUDot}) CHECK(count_words(spirv.images[0].bytes, op) == (op == wanted ? dots : 0));
    }
}

TEST_CASE("codes are copied sixteen or four at once") {
  ir::Context ctx;
  NestMaker maker(ctx);
  product(maker, {.m = 40, .k = 128, .n = 48});
  const schedule::Schedule how = best(ctx, maker.f);
  auto kernels = lower::lower(ctx, maker.f, maker.f.body[0], device("cuda-sm80"), test::test_math, &how);
  REQUIRE_MESSAGE(kernels.ok(), (kernels.ok() ? "" : kernels.status().text()));
  const auto module = targets::emit_module(device("cuda-sm80"), *kernels);
  REQUIRE(module.ok());
  const auto decoded = gpu::decode(module->bytes);
  REQUIRE(decoded.ok());
  const std::vector<std::byte>& bytes = decoded->images[0].bytes;
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // Of two pieces in front of the loop, and of one in it.
  CHECK(count(text, "cp.async.cg.shared.global") == static_cast<size_t>(3 * how.tile.rows * 4 / how.block));
  CHECK(count(text, "cp.async.ca.shared.global") == static_cast<size_t>(3 * how.tile.columns * 16 / how.block));
  CHECK(count(text, "ld.global.nc.u8") == 0);
}
