// Kernels for devices: what verify refuses, and what the interpreter finds when lanes run.
#include <doctest/doctest.h>

#include <bit>
#include <cstring>

#include "packager/loop/print.h"
#include "packager/loop/verify.h"
#include "tests/text/loop_interpret.h"
#include "tests/text/loop_text.h"

using namespace mlc;

namespace {

// A kernel of two blocks of four lanes over x (read) and y (written); the body is what a lane %3 of block %2 does.
std::string kernel(const std::string& body, const std::string& locals = "", const std::string& lanes = "lanes %3 = 0 .. 4 step 1") {
  return "kernel \"k\" tiles 2 block 4 range %0 %1 {\n"
         "  param \"x\" i32 array 0\n  param \"y\" i32 out array 1\n" + locals +
         "  for %2 = %0 .. %1 step 1 {\n    " + lanes + " {\n" + body + "    }\n  }\n}\n";
}

loop::Kernel parsed(ir::Context& ctx, const std::string& text) {
  auto all = loop::parse(ctx, text);
  REQUIRE_MESSAGE(all.ok(), (all.ok() ? "" : all.status().text()));
  REQUIRE(all->size() == 1);
  return std::move((*all)[0]);
}

std::string refused(const std::string& text) {
  ir::Context ctx;
  return loop::verify(parsed(ctx, text)).message;
}

struct Ran {
  Result<int32_t> result;
  std::vector<int32_t> y;
  std::string error() const { return result.ok() ? "" : result.status().message; }
};

Ran ran(const std::string& text) {
  ir::Context ctx;
  const loop::Kernel k = parsed(ctx, text);
  std::vector<int32_t> x = {10, 20, 30, 40, 50, 60, 70, 80}, y(8, -1);
  loop::Run run;
  run.buffers = {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y))};
  run.value = [](const ir::Sym*) { return std::nullopt; };
  auto result = loop::interpret(k, run);
  return {std::move(result), y};
}

// The element of its own that each lane of each block has.
const std::string kMine = "      let %4 = (add (mul %2 4) %3)\n";

}  // namespace

TEST_CASE("lanes reverse a block through its memory") {
  const std::string text = kernel(kMine +
                                  "      store 2 [%3] (load.i32 0 %4)\n"
                                  "      barrier\n"
                                  "      store 1 [%4] (load.i32 2 (sub 3 %3))\n",
                                  "  shared \"s\" i32 4\n");
  CHECK(refused(text) == "");
  const Ran r = ran(text);
  CHECK(r.error() == "");
  CHECK(r.y == std::vector<int32_t>{40, 30, 20, 10, 80, 70, 60, 50});
  ir::Context ctx, other;
  const std::string printed = loop::to_string(parsed(ctx, text));
  CHECK(printed.find("barrier") != std::string::npos);
  CHECK(loop::to_string(parsed(other, printed)) == printed);
}

TEST_CASE("lanes that meet without a barrier are found") {
  const std::string exchange = "      store 2 [%3] (load.i32 0 %4)\n      store 1 [%4] (load.i32 2 (sub 3 %3))\n";
  CHECK(ran(kernel(kMine + exchange, "  shared \"s\" i32 4\n")).error().find("of s, no barrier lies between") != std::string::npos);
  // Two lanes write to one place, and a lane writes what another has read.
  CHECK(ran(kernel(kMine + "      store 1 [%2] (load.i32 0 %4)\n")).error().find("element 0 of y") != std::string::npos);
  CHECK(ran(kernel("      let %4 = (add (mul %2 4) %3)\n      let %5.i32 = (load.i32 1 (add (mul %2 4) (floormod (add %3 1) 4)))\n"
                   "      store 1 [%4] %5.i32\n")).error().find("meets another") != std::string::npos);
  // Blocks meet in no order, whatever barriers they have.
  CHECK(ran(kernel("      barrier\n      if (eq.bool %3 0) {\n        store 1 [0] i32:1\n      }\n      barrier\n")).error().find("meets another at element 0 of y") !=
        std::string::npos);
  // The same element over and over, by one lane.
  CHECK(ran(kernel(kMine + "      store 1 [%4] i32:1\n      store 1 [%4] (add.i32 (load.i32 1 %4) i32:1)\n")).y == std::vector<int32_t>(8, 2));
}

TEST_CASE("a loop around a barrier is walked by all lanes together") {
  // Sums by halves: after each step half of the lanes are left.
  const Ran r = ran(kernel(kMine +
                           "      store 2 [%3] (load.i32 0 %4)\n"
                           "      local %5 = 2\n"
                           "      while (lt.bool 0 %5) within 8 {\n"
                           "        barrier\n"
                           "        if (lt.bool %3 %5) {\n"
                           "          store 2 [%3] (add.i32 (load.i32 2 %3) (load.i32 2 (add %3 %5)))\n"
                           "        }\n"
                           "        %5 = (floordiv %5 2)\n"
                           "      }\n"
                           "      barrier\n"
                           "      store 1 [%4] (load.i32 2 0)\n",
                           "  shared \"s\" i32 4\n"));
  CHECK(r.error() == "");
  CHECK(r.y == std::vector<int32_t>{100, 100, 100, 100, 260, 260, 260, 260});
}

TEST_CASE("a fold over lanes pairs neighbours, is the same for all lanes, and waits for all of them") {
  const std::string text = kernel(kMine +
                                  "      fold %5.i32 = add of (load.i32 0 %4)\n"
                                  "      if (lt.bool %5 i32:200) {\n        barrier\n      }\n"
                                  "      store 1 [%4] (add.i32 %5 (cast.i32 %3))\n");
  CHECK(refused(text) == "");
  CHECK(ran(text).y == std::vector<int32_t>{100, 101, 102, 103, 260, 261, 262, 263});
  ir::Context ctx;
  const std::string printed = loop::to_string(parsed(ctx, text));
  CHECK(printed.find("fold %5.i32 = add of (load.i32 0 %4)\n") != std::string::npos);
  // (2^24 + 1) + (1 - 2^24) is 1 by pairs, rounded once each; from left to right it would be 1 as well, from halves 2.
  Ran tree = ran(kernel(kMine + "      let %5.f32 = (select.f32 (eq.bool %3 0) f32:16777216 (select.f32 (eq.bool %3 3) f32:-16777216 f32:1))\n"
                                "      fold %6.f32 = add of %5 width 4\n      store 1 [%4] (cast.i32 %6)\n"));
  CHECK(tree.y == std::vector<int32_t>(8, 1));
  CHECK(refused(kernel("      if (lt.bool %3 2) {\n        fold %4 = max of %3 width 4\n      }\n")).find("not all of them may reach") != std::string::npos);
  CHECK(ran(kernel("      if (lt.bool %3 2) {\n        fold %4 = max of %3 width 4\n      }\n")).error().find("not all lanes reach") != std::string::npos);
  // Two lanes at a time: what they have is not the same for all.
  const std::string pairs = "      fold %5.i32 = max of (load.i32 0 %4) width 2\n";
  CHECK(ran(kernel(kMine + pairs + "      store 1 [%4] %5\n")).y == std::vector<int32_t>{20, 20, 40, 40, 60, 60, 80, 80});
  CHECK(refused(kernel(kMine + pairs + "      if (lt.bool %5 i32:200) {\n        barrier\n      }\n")).find("not all lanes may reach") != std::string::npos);
  CHECK(refused(kernel("      fold %4 = max of %3 width 3\n")).find("a fold of 3 lanes") != std::string::npos);
  CHECK(refused(kernel("      fold %4 = max of %3 width 8\n")).find("a fold of 8 lanes") != std::string::npos);
  CHECK(refused(kernel("      fold %4 = sub of %3 width 4\n")).find("another operation") != std::string::npos);
  CHECK(refused(kernel("      fold %4 = and of %3 width 4\n")).find("another operation") != std::string::npos);
}

TEST_CASE("a barrier that not all lanes reach is an error when it runs, and refused before") {
  const std::string some = kernel("      if (lt.bool %3 2) {\n        barrier\n      }\n");
  CHECK(ran(some).error().find("not all lanes reach") != std::string::npos);
  CHECK(refused(some).find("not all lanes may reach") != std::string::npos);
  const std::string turns = kernel("      for %4 = 0 .. %3 step 1 {\n        barrier\n      }\n");
  CHECK(ran(turns).error().find("not all lanes reach") != std::string::npos);
  CHECK(refused(turns).find("not all lanes may reach") != std::string::npos);
}

TEST_CASE("verify follows what differs between lanes") {
  const auto under = [](const std::string& before, const std::string& condition) {
    return refused(kernel(before + "      if " + condition + " {\n        barrier\n      }\n", "  shared \"s\" i32 4\n"));
  };
  const std::string parts = "not all lanes may reach";
  CHECK(under("", "(lt.bool %2 1)") == "");                                                   // of the block
  CHECK(under("", "(lt.bool (load.i32 0 %2) i32:5)") == "");                                  // nobody writes x
  CHECK(under("", "(lt.bool (load.i32 1 %2) i32:5)").find(parts) != std::string::npos);       // somebody writes y
  CHECK(under("", "(lt.bool (load.i32 2 0) i32:5)").find(parts) != std::string::npos);
  CHECK(under("      let %4 = (add %3 1)\n", "(lt.bool %4 1)").find(parts) != std::string::npos);
  CHECK(under("      local %4 = 0\n      if (lt.bool %3 1) {\n        %4 = 1\n      }\n", "(lt.bool %4 1)").find(parts) != std::string::npos);
  // What differs comes around with the next turn.
  const std::string around = "      local %4 = 0\n      local %5 = 0\n      for %6 = 0 .. 3 step 1 {\n        %4 = %5\n        %5 = %3\n      }\n";
  CHECK(under(around, "(lt.bool %4 1)").find(parts) != std::string::npos);
  CHECK(under("      local %4 = 0\n      for %6 = 0 .. 3 step 1 {\n        %4 = (add %4 %6)\n      }\n", "(lt.bool %4 1)") == "");
}

TEST_CASE("verify names what is wrong with a kernel for devices") {
  const std::string nothing = "      let %4 = 0\n";
  CHECK(refused(kernel(nothing)) == "");
  CHECK(refused(kernel(nothing, "", "lanes %3 = 0 .. 5 step 1")).find("over the lanes alone") != std::string::npos);
  CHECK(refused(kernel(nothing, "", "for %3 = 0 .. 4 step 1")).find("over the lanes alone") != std::string::npos);
  CHECK(refused(kernel("      lanes %4 = 0 .. 4 step 1 {\n      }\n")).find("lanes in lanes") != std::string::npos);
  CHECK(refused(kernel("      let %4 = (add %0 1)\n")).find("other tiles") != std::string::npos);
  CHECK(refused(kernel(nothing, "  local \"l\" i32 4\n")).find("scratch of a processor") != std::string::npos);
  CHECK(refused(kernel("      store 2 [%3] i32:1\n", "  private \"p\" i32 4\n")).find("no constant") != std::string::npos);
  CHECK(refused(kernel("      unroll %4 = 0 .. 4 step 1 {\n        store 2 [%4] i32:1\n      }\n", "  private \"p\" i32 4\n")) == "");
  CHECK(refused(kernel("      let %4.i64x8 = (ramp.i64x8 1 %3)\n")).find("a vector of 8 elements") != std::string::npos);
  std::string outer = kernel(nothing);
  outer.insert(outer.find("  for %2"), "  let %9 = 0\n");
  CHECK(refused(outer).find("no loop over the tiles") != std::string::npos);
  std::string processor = kernel(nothing);
  processor.erase(processor.find(" block 4"), 8);
  CHECK(refused(processor).find("in a kernel for processors") != std::string::npos);
  std::string many = kernel(nothing);
  many.replace(many.find("block 4"), 7, "block 4096");
  CHECK(refused(many).find("4096 lanes") != std::string::npos);
}

TEST_CASE("arrays of a lane are its own, and memory of a block holds nothing of the one before") {
  const Ran r = ran(kernel(kMine +
                           "      store 3 [0] (load.i32 0 %4)\n"
                           "      barrier\n"
                           "      store 1 [%4] (select.i32 (eq.bool %3 0) (load.i32 2 0) (load.i32 3 0))\n"
                           "      barrier\n"
                           "      if (eq.bool %3 1) {\n        store 2 [0] i32:5\n      }\n",
                           "  shared \"s\" i32 1\n  private \"p\" i32 1\n"));
  CHECK(r.error() == "");
  constexpr auto poison = static_cast<int32_t>(0xA5A5A5A5u);
  CHECK(r.y == std::vector<int32_t>{poison, 20, 30, 40, poison, 60, 70, 80});
}

TEST_CASE("lanes of a warp multiply a tile whose cells they hold together") {
  const auto warp = [](const std::string& body, int lanes = 32, const char* type = "f32") {
    return "kernel \"k\" tiles 1 block " + std::to_string(lanes) + " range %0 %1 {\n  param \"a\" u32 array 0\n  param \"b\" u32 array 1\n  param \"y\" f32 out array 2\n" +
           "  for %2 = %0 .. %1 step 1 {\n    lanes %3 = 0 .. " + std::to_string(lanes) + " step 1 {\n" + body + "      mma %5.f32x4 = " + type +
           " (splat.f32x4 f32:0x1p0) (load.u32x4 0 (mul %3 4)) (load.u32x2 1 (mul %3 2))\n      store 2 [(mul %3 4)] %5\n    }\n  }\n}\n";
  };
  CHECK(refused(warp("")) == "");
  CHECK(refused(warp("", 16)).find("by a block of 16 lanes") != std::string::npos);
  CHECK(refused(warp("", 32, "f64")).find("another type") != std::string::npos);
  ir::Context ctx, other;
  const loop::Kernel k = parsed(ctx, warp(""));
  const std::string printed = loop::to_string(k);
  CHECK(loop::to_string(parsed(other, printed)) == printed);
  // a[r][c] = r + c/4 and b[c][n] = 1 for c = n: sums of row r are 1 + r, a quarter more in each column.
  std::vector<float> a(128), b(64), y(128);
  for (size_t lane = 0; lane < 32; ++lane) {
    const size_t g = lane / 4, t = lane % 4;
    a[4 * lane] = float(g) + float(t) / 4, a[4 * lane + 1] = float(g + 8) + float(t) / 4;
    a[4 * lane + 2] = float(g) + float(t + 4) / 4, a[4 * lane + 3] = float(g + 8) + float(t + 4) / 4;
    b[2 * lane] = t == g, b[2 * lane + 1] = t + 4 == g;
  }
  loop::Run run;
  run.buffers = {std::as_writable_bytes(std::span(a)), std::as_writable_bytes(std::span(b)), std::as_writable_bytes(std::span(y))};
  run.value = [](const ir::Sym*) { return std::nullopt; };
  const auto result = loop::interpret(k, run);
  CHECK((result.ok() ? "" : result.status().message) == "");
  bool equal = true;
  for (size_t lane = 0; lane < 32; ++lane)
    for (size_t i = 0; i < 4; ++i) equal = equal && y[4 * lane + i] == 1 + float(lane / 4 + i / 2 * 8) + float(2 * (lane % 4) + i % 2) / 4;
  CHECK(equal);
}

TEST_CASE("lanes of a warp multiply tiles of codes of any signs, and sums wrap") {
  const auto warp = [](const std::string& types, const char* sums = "i32") {
    return std::string("kernel \"k\" tiles 1 block 32 range %0 %1 {\n  param \"a\" u32 array 0\n  param \"b\" u32 array 1\n  param \"y\" ") + sums + " out array 2\n" +
           "  for %2 = %0 .. %1 step 1 {\n    lanes %3 = 0 .. 32 step 1 {\n      mma %5." + sums + "x4 = " + types + " (load." + sums + "x4 2 (mul %3 4)) (load.u32x4 0 (mul %3 4)) (load.u32x2 1 (mul %3 2))\n" +
           "      store 2 [(mul %3 4)] %5\n    }\n  }\n}\n";
  };
  CHECK(refused(warp("u8 i8")) == "");
  CHECK(refused(warp("u8 f32")).find("do not fit together") != std::string::npos);
  CHECK(refused(warp("u8 i8", "f32")).find("four sums") != std::string::npos);
  CHECK(refused(warp("f16")).find("four sums") != std::string::npos);
  for (const bool a_signed : {false, true})
    for (const bool b_signed : {false, true}) {
      ir::Context ctx, other;
      const loop::Kernel k = parsed(ctx, warp(std::string(a_signed ? "i8 " : "u8 ") + (b_signed ? "i8" : "u8")));
      const std::string printed = loop::to_string(k);
      CHECK(loop::to_string(parsed(other, printed)) == printed);
      // Bytes by element: a is 16 rows of 32, b eight columns of 32.
      const auto a_at = [](size_t r, size_t c) { return static_cast<uint8_t>(37 * r + 11 * c + 5); };
      const auto b_at = [](size_t n, size_t c) { return static_cast<uint8_t>(53 * n + 29 * c + 91); };
      const auto number = [](uint8_t byte, bool is_signed) { return is_signed ? int64_t{static_cast<int8_t>(byte)} : int64_t{byte}; };
      const auto cell = [](const auto& at, size_t row, size_t c) { return at(row, 4 * c) | uint32_t{at(row, 4 * c + 1)} << 8 | uint32_t{at(row, 4 * c + 2)} << 16 | uint32_t{at(row, 4 * c + 3)} << 24; };
      std::vector<uint32_t> a(128), b(64);
      std::vector<int32_t> y(128, std::numeric_limits<int32_t>::max() - 1000);
      for (size_t lane = 0; lane < 32; ++lane) {
        const size_t g = lane / 4, t = lane % 4;
        for (size_t i = 0; i < 4; ++i) a[4 * lane + i] = cell(a_at, g + i % 2 * 8, t + i / 2 * 4);
        for (size_t i = 0; i < 2; ++i) b[2 * lane + i] = cell(b_at, g, t + i * 4);
      }
      loop::Run run;
      run.buffers = {std::as_writable_bytes(std::span(a)), std::as_writable_bytes(std::span(b)), std::as_writable_bytes(std::span(y))};
      run.value = [](const ir::Sym*) { return std::nullopt; };
      const auto result = loop::interpret(k, run);
      CHECK((result.ok() ? "" : result.status().message) == "");
      size_t equal = 0;
      for (size_t lane = 0; lane < 32; ++lane)
        for (size_t i = 0; i < 4; ++i) {
          int64_t sum = std::numeric_limits<int32_t>::max() - 1000;
          for (size_t c = 0; c < 32; ++c) sum += number(a_at(lane / 4 + i / 2 * 8, c), a_signed) * number(b_at(2 * (lane % 4) + i % 2, c), b_signed);
          equal += y[4 * lane + i] == static_cast<int32_t>(static_cast<uint32_t>(sum));
        }
      CHECK(equal == 128);
    }
}

namespace {

// 128 lanes store the cells of x as they come and multiply 64 rows by `columns` of what lies there then.
std::string group(const std::string& product, int64_t columns = 8, int lanes = 128, const std::string& barrier = "      barrier\n", const std::string& around = "", const char* sum = "f32") {
  std::string text = "kernel \"k\" tiles 1 block " + std::to_string(lanes) + " range %0 %1 {\n  param \"x\" u32 array 0\n  param \"y\" " + sum + " out array 1\n  shared \"s\" u32 2048\n" +
                     "  for %2 = %0 .. %1 step 1 {\n    lanes %3 = 0 .. " + std::to_string(lanes) + " step 1 {\n      for %4 = 0 .. 16 step 1 {\n" +
                     "        store 2 [(mul (add (mul %4 128) %3) 1)] (load.u32 0 (add (mul %4 128) %3))\n      }\n" + barrier, sums;
  for (int64_t j = 0; j < columns / 8; ++j) {
    text += "      local %" + std::to_string(10 + j) + "." + sum + "x4 = (splat." + sum + "x4 " + sum + (sum[0] == 'f' ? std::string(":0x1p0") : std::string(":1")) + ")\n";
    sums += (j ? " %" : "[%") + std::to_string(10 + j);
  }
  text += around + "      group mma 2 " + product + " to " + sums + "]\n" + (around.empty() ? "" : "      }\n");
  for (int64_t j = 0; j < columns / 8; ++j) text += "      store 1 [(mul (add (mul %3 " + std::to_string(columns / 8) + ") " + std::to_string(j) + ") 4)] %" + std::to_string(10 + j) + "\n";
  return text + "    }\n  }\n}\n";
}

// Elements of 16 bits of x, each a small number whose place is the one that loop.h gives; y is what comes of it. Empty: right.
std::string wrong_group(bool a_by_points, bool b_by_points, const std::string& text) {
  constexpr size_t kRows = 64, kColumns = 64, kDepth = 32;
  std::vector<uint16_t> x(4096);
  const auto place = [](size_t first, bool by_points, size_t point, size_t step) {
    if (by_points) return first + 8 * ((point / 8 / 8 * 64) * 4 + 8 * step + ((point / 8 % 8) ^ (step % 8))) + point % 8;
    return first + 8 * (4 * point + ((step / 8) ^ (point / 2 % 4))) + step % 8;
  };
  const auto number = [](size_t point, size_t step, size_t seed) { return static_cast<float>((point * 7 + step * 3 + seed) % 8); };
  const auto bits = [](float v) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(v) >> 16); };  // bf16
  for (size_t k = 0; k < kDepth; ++k)
    for (size_t p = 0; p < kRows; ++p) x[place(0, a_by_points, p, k)] = bits(number(p, k, 1)), x[place(2048, b_by_points, p, k)] = bits(number(p, k, 5));
  std::vector<float> y(kRows * kColumns);
  ir::Context ctx, other;
  const loop::Kernel k = parsed(ctx, text);
  if (const std::string said = loop::verify(k).message; !said.empty()) return said;
  if (const std::string printed = loop::to_string(k); loop::to_string(parsed(other, printed)) != printed) return "another text";
  loop::Run run;
  run.buffers = {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y))};
  run.value = [](const ir::Sym*) { return std::nullopt; };
  if (const auto result = loop::interpret(k, run); !result.ok()) return result.status().message;
  for (size_t lane = 0; lane < 128; ++lane)
    for (size_t i = 0; i < 32; ++i) {
      float sum = 1;
      for (size_t d = 0; d < kDepth; ++d) sum += number(lane / 32 * 16 + lane % 32 / 4 + i / 2 % 2 * 8, d, 1) * number(i / 4 * 8 + lane % 4 * 2 + i % 2, d, 5);
      if (y[32 * lane + i] != sum) return "lane " + std::to_string(lane) + " has another sum " + std::to_string(i);
    }
  return "";
}

}  // namespace

TEST_CASE("four warps multiply factors that lie in the memory of their block, by rows or by points") {
  for (const bool a : {false, true})
    for (const bool b : {false, true}) CHECK(wrong_group(a, b, group(std::string("bf16 ") + (a ? "transposed " : "") + "0 " + (b ? "transposed " : "") + "4", 64)) == "");
  CHECK(wrong_group(false, false, group("bf16 0 4", 64, 128, "")).find("meets another") != std::string::npos);
  CHECK(refused(group("u8 i8 0 4", 8, 128, "      barrier\n", "", "i32")) == "");
  CHECK(refused(group("f16 0 4", 8, 64)).find("by a block of 64 lanes") != std::string::npos);
  CHECK(refused(group("f32 0 4")).find("another type") != std::string::npos);
  CHECK(refused(group("u8 i8 transposed 0 4", 8, 128, "      barrier\n", "", "i32")).find("do not fit together") != std::string::npos);
  CHECK(refused(group("u8 i8 0 4")).find("another type") != std::string::npos);
  CHECK(refused(group("f16 0 transposed 4")).find("with 1 sums") != std::string::npos);
  CHECK(refused(group("f16 0 4", 264)).find("with 33 sums") != std::string::npos);
  CHECK(refused(group("f16 0 4", 8, 128, "      barrier\n", "      if (lt.bool %3 8) {\n")).find("not all lanes") != std::string::npos);
  std::string twice = group("f16 0 4", 16);
  twice.replace(twice.find("[%10 %11]"), 9, "[%10 %10]");
  CHECK(refused(twice).find("local of its own") != std::string::npos);
  std::string of_lane = group("f16 (floordiv %3 64) 4");
  ir::Context ctx;
  std::vector<uint32_t> x(2048);
  std::vector<float> y(512);
  loop::Run run;
  run.buffers = {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y))};
  run.value = [](const ir::Sym*) { return std::nullopt; };
  const auto result = loop::interpret(parsed(ctx, of_lane), run);
  CHECK(result.status().message.find("different places") != std::string::npos);
}

TEST_CASE("lanes of a warp load matrices by rows or by columns, whose rows each of them names") {
  const auto warp = [](const std::string& load = "load.u32x4 2", const std::string& before = "", int lanes = 32, const char* how = "") {
    return "kernel \"k\" tiles 1 block " + std::to_string(lanes) + " range %0 %1 {\n  param \"x\" u32 array 0\n  param \"y\" u32 out array 1\n  shared \"s\" u32 128\n" +
           "  for %2 = %0 .. %1 step 1 {\n    lanes %3 = 0 .. " + std::to_string(lanes) + " step 1 {\n      store 2 [(mul %3 4)] (load.u32x4 0 (mul %3 4))\n      barrier\n" + before +
           "      matrices " + how + "%5.u32x4 = (" + load + " (mul (floormod (add %3 1) 32) 4))\n" + (before.empty() ? "" : "      }\n") + "      store 1 [(mul %3 4)] " + (before.empty() ? "%5" : "(load.u32x4 2 0)") + "\n    }\n  }\n}\n";
  };
  CHECK(refused(warp()) == "");
  CHECK(refused(warp("load.u32x4 2", "", 16)).find("by a block of 16 lanes") != std::string::npos);
  CHECK(refused(warp("load.u32x4 0")).find("share no cells") != std::string::npos);
  CHECK(refused(warp("load.u32x2 2")).find("four cells") != std::string::npos);
  CHECK(refused(warp("load.u32x4 2", "      if (lt.bool %3 8) {\n")).find("not all lanes") != std::string::npos);
  // Element c of a row that lane l stores is 100*l + c; lane l names the row of the next one.
  std::vector<uint32_t> x(128), y(128);
  for (uint32_t n = 0; n < 128; ++n) x[n] = (n / 4 * 100 + n % 4 * 2) | (n / 4 * 100 + n % 4 * 2 + 1) << 16;
  for (const bool transposed : {false, true}) {
    ir::Context ctx, other;
    const loop::Kernel k = parsed(ctx, warp("load.u32x4 2", "", 32, transposed ? "transposed " : ""));
    const std::string printed = loop::to_string(k);
    CHECK(loop::to_string(parsed(other, printed)) == printed);
    loop::Run run;
    run.buffers = {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y))};
    run.value = [](const ir::Sym*) { return std::nullopt; };
    const auto result = loop::interpret(k, run);
    CHECK((result.ok() ? "" : result.status().message) == "");
    size_t equal = 0;
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t m = 0; m < 4; ++m) {
        const auto element = [&](uint32_t row, uint32_t column) { return (8 * m + row + 1) % 32 * 100 + column; };
        const uint32_t two = 2 * (lane % 4), one = lane / 4;
        equal += y[4 * lane + m] == (transposed ? element(two, one) | element(two + 1, one) << 16 : element(one, two) | element(one, two + 1) << 16);
      }
    CHECK(equal == 128);
  }
}

namespace {

// Lanes 0 and 1 copy four elements each, 2 and 3 zeros, whose source is out of range; then each lane reads what the next one copied.
const std::string kCopies = "      copy 16 to 2 [(mul %3 4)] (load.i32 0 (mul %3 4)) where (lt.bool %3 2)\n", kClose = "      close copies\n", kWait = "      wait copies 0\n",
                  kMeet = "      barrier\n", kNext = "      store 1 [%4] (load.i32 2 (add (mul (floormod (add %3 1) 4) 4) 1))\n", kShared = "  shared \"s\" i32 16\n";
constexpr auto kNothing = static_cast<int32_t>(0xA5A5A5A5u);

}  // namespace

TEST_CASE("copies beside lanes are there behind a wait and a barrier") {
  const std::string text = kernel(kMine + kCopies + kClose + kWait + kMeet + kNext, kShared);
  CHECK(refused(text) == "");
  ir::Context ctx, again;
  const std::string printed = loop::to_string(parsed(ctx, text));
  CHECK(printed.find("copy 16 to 2 [#0=(mul %3 4)] (load.i32 0 #0) where (lt.bool %3 2)") != std::string::npos);
  CHECK(loop::to_string(parsed(again, printed)) == printed);
  const Ran r = ran(text);
  CHECK(r.error() == "");
  CHECK(r.y == std::vector<int32_t>{60, 0, 0, 20, 60, 0, 0, 20});
}

TEST_CASE("the interpreter makes a copy at its wait: one that is missing, or leaves a group too many, finds nothing there") {
  // The wait behind the load keeps the block from ending before its copies.
  const Ran missing = ran(kernel(kMine + kCopies + kClose + kMeet + kNext + kMeet + kWait, kShared));
  CHECK(missing.error() == "");
  CHECK(missing.y == std::vector<int32_t>(8, kNothing));
  const std::string two = kMine + kCopies + kClose + kClose;  // of which the second one has none
  CHECK(ran(kernel(two + "      wait copies 1\n" + kMeet + kNext, kShared)).y == std::vector<int32_t>{60, 0, 0, 20, 60, 0, 0, 20});
  CHECK(ran(kernel(two + "      wait copies 2\n" + kMeet + kNext + kMeet + kWait, kShared)).y == std::vector<int32_t>(8, kNothing));
  CHECK(ran(kernel(two + "      wait copies 2\n" + kMeet + kNext, kShared)).error().find("ends before its copies") != std::string::npos);
  CHECK(ran(kernel(kMine + kCopies, kShared)).error().find("ends before its copies") != std::string::npos);
  CHECK(ran(kernel(kMine + kCopies + kClose + kWait + kNext, kShared)).error().find("of s, no barrier lies between") != std::string::npos);
  CHECK(ran(kernel(kMine + kCopies + kNext + kClose + kWait, kShared)).error().find("of s, no barrier lies between") != std::string::npos);
  const std::string all = "      copy 16 to 2 [(mul %3 4)] (load.i32 0 (mul %3 4))\n", odd = "      copy 16 to 2 [(mul %3 4)] (load.i32 0 (mul %3 2))\n";
  CHECK(ran(kernel(kMine + all + kClose + kWait, kShared)).error().find("out of range") != std::string::npos);
  CHECK(ran(kernel(kMine + odd + kClose + kWait, kShared)).error().find("at no multiple of its bytes") != std::string::npos);
}

TEST_CASE("copies that are no such are refused, and loads that come before them as far as statements tell it") {
  const auto copies = [](const std::string& copy) { return refused(kernel(kMine + "      copy " + copy + "\n" + kClose + kWait, kShared)); };
  CHECK(copies("16 to 2 [0] (load.i32 0 0)") == "");
  CHECK(copies("8 to 2 [0] (load.i32 0 0)").find("a copy of 8 bytes") != std::string::npos);
  CHECK(copies("16 to 1 [0] (load.i32 0 0)").find("lanes do not share") != std::string::npos);
  CHECK(copies("16 to 2 [0] (load.i32 1 0)").find("may write") != std::string::npos);
  CHECK(copies("16 to 2 [0] (load.i32x4 0 0)").find("one element") != std::string::npos);
  CHECK(copies("16 to 2 [0] (load.i32 0 0) where %3").find("wrong type") != std::string::npos);
  CHECK(refused(kernel(kMine + "      wait copies -1\n")).find("fewer groups") != std::string::npos);
  const std::string early = "a load of s while copies to it may be under way";
  for (const std::string& order : {kCopies + kNext + kClose + kWait, kCopies + kClose + kWait + kNext, kCopies + kClose + kMeet + kNext + kWait, kCopies + kClose + kMeet + kWait + kNext})
    CHECK_MESSAGE(refused(kernel(kMine + order, kShared)).find(early) != std::string::npos, order);
  CHECK(refused(kernel(kMine + kCopies + kWait + kClose, kShared)).find("in no group") != std::string::npos);
  CHECK(refused(kernel(kMine + kCopies + kClose, kShared)).find("no lane waits for") != std::string::npos);
  // A ring: the turn waits and meets before it begins new copies and reads older ones. Without either the first turn would be right, and the second is not.
  const auto ring = [](const std::string& turn) { return refused(kernel(kMine + kCopies + kClose + kWait + kMeet + "      for %5 = 0 .. 4 step 1 {\n" + turn + "      }\n" + kWait, kShared)); };
  CHECK(ring(kWait + kMeet + kCopies + kClose + kNext) == "");
  for (const std::string& turn : {kWait + kCopies + kClose + kNext, kMeet + kCopies + kClose + kNext, kCopies + kClose + kNext})
    CHECK_MESSAGE(ring(turn).find(early) != std::string::npos, turn);
  std::string processor = kernel("      close copies\n");
  processor.erase(processor.find(" block 4"), 8);
  CHECK(refused(processor).find("in a kernel for processors") != std::string::npos);
}
