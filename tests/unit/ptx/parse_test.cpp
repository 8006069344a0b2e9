// The audit's parser: what it takes, and what the driver's assembler would take but it must not.
#include <doctest/doctest.h>

#include <set>

#include "targets/families.h"
#include "targets/ptx/audit.h"
#include "targets/ptx/parse.h"
#include "tests/support/ptx/executor.h"

namespace mlc {
namespace {

using namespace targets::ptx;

constexpr std::string_view kHeader = ".version 6.5\n.target sm_75\n.address_size 64\n";

std::string entry(std::string_view body, std::string_view declarations = "") {
  return std::string(kHeader) + ".visible .entry k(\n.param .u64 k_param_0,\n.param .u32 k_param_1\n)\n.maxntid 32, 1, 1\n{\n.reg .pred %p<3>;\n.reg .b16 %rs<4>;\n" +
         ".reg .b32 %r<4>;\n.reg .f32 %f<4>;\n.reg .b64 %rd<4>;\n.reg .f64 %fd<3>;\n" + std::string(declarations) + std::string(body) + "ret;\n}\n";
}
std::string refusal(const std::string& text) {
  const auto image = parse(text);
  return image.ok() ? "" : image.status().text();
}
bool taken(std::string_view body) {
  const std::string why = refusal(entry(body));
  if (!why.empty()) MESSAGE(why);
  return why.empty();
}

TEST_CASE("an entry is read with its parameters, lanes, registers and code") {
  const auto image = parse(entry("ld.param.u64 %rd1, [k_param_0];\nmov.u32 %r1, %tid.x;\n$L_1:\nsetp.lt.s32 %p1, %r1, -5;\n@!%p1 bra $L_1;\n"
                                 "st.global.f32 [%rd1+-4], %f3;\n"));
  REQUIRE_MESSAGE(image.ok(), image.status().text());
  CHECK(image->version == 65);
  CHECK(image->sm == 75);
  REQUIRE(image->entries.size() == 1);
  const Entry& e = image->entries[0];
  CHECK(e.name == "k");
  REQUIRE(e.params.size() == 2);
  CHECK(e.params[0].bytes == 8);
  CHECK(e.params[1].bytes == 4);
  CHECK(e.max_lanes == std::array<uint32_t, 3>{32, 1, 1});
  CHECK(e.num_registers == 22);
  REQUIRE(e.code.size() == 6);
  CHECK(e.code[2].operands[2].value == -5);
  CHECK(e.code[3].has_guard);
  CHECK(e.code[3].guard_negated);
  CHECK(e.code[3].operands[0].number == 2);
  CHECK(e.code[4].operands[0].is_memory);
  CHECK(e.code[4].operands[0].value == -4);
}

TEST_CASE("an image has shared arrays without a size, and an entry uses one of them at most") {
  const auto with = [](std::string_view arrays, std::string_view body, std::string_view declarations = "") {
    std::string text = entry(body, declarations);
    return text.insert(kHeader.size(), arrays);
  };
  constexpr std::string_view kBoth = ".extern .shared .align 1024 .b8 a[];\n.extern .shared .align 16 .b8 b[];\n";
  CHECK(refusal(with(kBoth, "ld.shared.f32 %f1, [a+4];\nld.shared.f32 %f2, [a];\n")) == "");
  CHECK(refusal(with(kBoth, "ld.shared.f32 %f1, [b];\n")) == "");
  const auto image = parse(with(kBoth, "ld.shared.f32 %f1, [b];\n"));
  REQUIRE(image.ok());
  CHECK(image->entries[0].uses_dynamic_shared);
  CHECK(refusal(with(kBoth, "ld.shared.f32 %f1, [a];\nld.shared.f32 %f2, [b];\n")).find("two shared arrays in one entry") != std::string::npos);
  CHECK(refusal(with(kBoth, "ld.shared.f32 %f1, [c];\n")).find("an address expected") != std::string::npos);
  CHECK(refusal(with(".extern .shared .align 16 .b8 a[];\n.extern .shared .align 16 .b8 a[];\n", "")).find("of its own") != std::string::npos);
  CHECK(refusal(with(kBoth, "ld.shared.f32 %f1, [a];\n", ".shared .align 16 .b8 own[64];\n")).find("two shared arrays in one entry") != std::string::npos);
}

TEST_CASE("forms that the code generator uses are taken") {
  CHECK(taken("mov.b32 %r1, %f1;\nmov.b64 %fd1, %rd1;\nmov.f32 %f1, 0f3F800000;\nmov.f64 %fd1, 0d3FF0000000000000;\n"));
  CHECK(taken("mov.b32 {%rs1, %rs2}, %r1;\nmov.b32 %r1, {%rs1, %rs2};\nmov.b64 {%r1, %r2}, %rd1;\n"));
  CHECK(taken("{ .reg .b16 tmp; mov.b32 {tmp, %rs1}, %r1; }\n{ .reg .b32 tmp; mov.b64 {tmp, %r1}, %rd1; }\n"));
  CHECK(taken("ld.global.nc.v4.f32 {%f0, %f1, %f2, %f3}, [%rd1+16];\nst.global.v2.u32 [%rd1], {%r0, %r1};\n"));
  CHECK(taken("ld.global.u8 %rs1, [%rd1];\nst.global.u8 [%rd1], %r1;\ncvt.s64.s8 %rd1, %rd2;\ncvt.u32.u8 %r1, %rs1;\n"));
  CHECK(taken("cvt.f32.f16 %f1, %rs1;\ncvt.rn.f16.f32 %rs1, %f1;\ncvt.rn.bf16.f32 %rs1, %f1;\ncvt.rn.f16x2.f32 %r1, %f1, %f2;\ncvt.rn.bf16x2.f32 %r1, %f1, %f2;\nex2.approx.ftz.f32 %f1, %f2;\nshfl.sync.bfly.b32 %r1, %r2, 16, 31, -1;\n"));
  // A constant of f16 or bf16 is its bits.
  const auto half = parse(entry("mov.b16 %rs1, 0xBF80;\nselp.b16 %rs1, %rs2, 0x0000, %p1;\n"));
  REQUIRE_MESSAGE(half.ok(), half.status().text());
  CHECK(half->entries[0].code[0].operands[1].value == 0xBF80);
  for (const char* number : {"0x", "0xBF8", "0xBF800", "0xbf80", "0xBF8G", "-0xBF80"}) CHECK(!refusal(entry(std::string("mov.b16 %rs1, ") + number + ";\n")).empty());
  CHECK(!refusal(entry("add.s16 %rs1, %rs1, 0xBF80;\n")).empty());
  CHECK(taken("$L_a:\n.pragma \"nounroll\";\n@%p1 bra $L_a;\nbar.sync 0;\n"));
  CHECK(refusal(entry("mov.u64 %rd1, k_shared;\nld.shared.f32 %f1, [k_shared+8];\n", ".shared .align 16 .b8 k_shared[64];\n")).empty());
}

TEST_CASE("what our code must never hold stops the build by name") {
  for (const std::string_view line : {"call.uni foo, ();", "trap;", "exit;", "brkpt;", "nanosleep.u32 5;", "mov.u64 %rd1, %clock64;", "mov.u32 %r1, %laneid;",
                                      "atom.global.sys.cas.b64 %rd1, [%rd2], 0, %rd3;", "atom.global.add.f32 %f1, [%rd1], %f2;", "red.global.add.f32 [%rd1], %f2;",
                                      "brx.idx %r1, $L_a;", "ld.local.f32 %f1, [%rd1];", "ld.f32 %f1, [%rd1];", "st.f32 [%rd1], %f1;", "cvta.to.global.u64 %rd1, %rd2;",
                                      "add.f32 %f1, %f2, %f3;", "mul.f32 %f1, %f2, %f3;", "fma.rn.ftz.f32 %f1, %f2, %f3, %f1;", "div.approx.f32 %f1, %f2, %f3;",
                                      "div.full.f32 %f1, %f2, %f3;", "sqrt.approx.f32 %f1, %f2;", "ex2.approx.f32 %f1, %f2;", "sin.approx.f32 %f1, %f2;",
                                      "membar.sys;", "shfl.sync.idx.b32 %r1, %r2, 0, 31, -1;", "cvt.rn.ftz.f16.f32 %rs1, %f1;", "vote.sync.any.pred %p1, %p2, -1;", "bar.sync 1;", "bar.arrive 0, 32;"}) {
    const std::string text = refusal(entry(std::string(line) + "\n"));
    CHECK_MESSAGE(!text.empty(), line);
  }
  CHECK(refusal(entry("trap;\n")).find("'trap'") != std::string::npos);
  CHECK(refusal(entry("@%p1 bar.sync 0;\n")).find("barrier under a predicate") != std::string::npos);
  CHECK(refusal(entry("@%p1 shfl.sync.bfly.b32 %r1, %r2, 16, 31, -1;\n")).find("shuffle under a predicate") != std::string::npos);
  CHECK(!refusal(entry("", ".local .align 4 .b8 depot[8];\n")).empty());
  CHECK(!refusal(std::string(kHeader) + ".visible .func f()\n{\nret;\n}\n").empty());
  CHECK(!refusal(std::string(kHeader) + ".global .align 4 .b8 g[8];\n" + entry("").substr(kHeader.size())).empty());
  CHECK(!refusal(entry("// a comment\n")).empty());
}

TEST_CASE("operands of other types, names that nobody declared, and code without an end are refused") {
  for (const std::string_view line : {"add.rn.f32 %f1, %f2, %r1;", "add.s32 %r1, %r2, %rd1;", "add.s32 %r1, %r2;", "add.s32 %r1, %r2, %r3, %r1;", "add.s32 5, %r2, %r3;", "cvt.f32.f16 %f1, %r1;", "shfl.sync.bfly.b32 %r1, %r2, %r1, 31, -1;",
                                      "setp.lt.s32 %r1, %r2, %r3;", "mul.wide.u32 %r1, %r2, 4;", "ld.global.f32 %r1, [%rd1];", "ld.global.u32 %rs1, [%rd1];",
                                      "ld.global.f32 %f1, [%r1];", "ld.param.u64 %rd1, [%rd2];", "ld.param.u64 %rd1, [nobody];", "ld.global.f32 %f1, [k_param_0];",
                                      "mov.u32 %r1, %r9;", "mov.u32 %r1, %rx1;", "mov.u32 %r01, %r1;", "bra $L_none;", "@%r1 bra $L_none;", "mov.u32 %r1, 4294967296;", "mov.u16 %rs1, 65536;",
                                      "mov.u16 %rs1, -32769;", "mov.f32 %f1, 1;", "mov.f32 %f1, 0f3F80000;", "mov.f32 %f1, 0d3FF0000000000000;", "mov.b32 %r1, %rd1;",
                                      "ld.global.v2.f32 %f1, [%rd1];", "ld.global.v2.f32 {%f1}, [%rd1];", "ld.global.v2.f32 {%f1, %f2, %f3}, [%rd1];",
                                      "ld.shared.f32 %f1, [%rd1+99999999999];", "st.global.f32 [%rd1], 0f3F800000;", "mov.u64 %rd1, nobody;", "{ add.s32 %r1, %r1, 1; }"})
    CHECK_MESSAGE(!refusal(entry(std::string(line) + "\n")).empty(), line);
  std::string open = entry("");
  open.replace(open.find("ret;"), 4, "mov.u32 %r1, 1;");
  CHECK(refusal(open).find("without ret") != std::string::npos);
  open = entry("");
  open.replace(open.find("ret;"), 4, "@%p1 ret;");
  CHECK(refusal(open).find("without ret") != std::string::npos);
  CHECK(!refusal(entry("$L_a:\n$L_a:\n")).empty());
  CHECK(!refusal(entry("", ".reg .b32 %r<4>;\n")).empty());
  CHECK(!refusal(entry("", ".reg .b32 %many<99999999>;\n")).empty());
  CHECK(!refusal(std::string(kHeader)).empty());
  CHECK(!refusal("").empty());
}

TEST_CASE("each beginning of a text is refused, and no byte of it can be changed into a crash") {
  const std::string text = entry("ld.param.u64 %rd1, [k_param_0];\n$L_1:\n.pragma \"nounroll\";\nld.global.v2.f32 {%f1, %f2}, [%rd1+8];\n@%p1 bra $L_1;\n");
  REQUIRE(refusal(text).empty());
  for (size_t n = 0; n + 2 < text.size(); ++n) CHECK(!refusal(text.substr(0, n)).empty());
  for (size_t n = 0; n < text.size(); ++n)
    for (const char c : {'\0', ' ', '{', '[', ';', '9', '%', '$', '.', '\xff'}) {
      std::string changed = text;
      changed[n] = c;
      (void)parse(changed);
    }
}

TEST_CASE("the executor knows every opcode of the table") {
  // Through the names of the kinds of opcodes and of their types.
  std::set<std::string> seen;
  for (const char* base : {"add", "sub", "mul.lo", "mul.hi", "mul.wide", "mad.lo", "mad.wide", "div", "rem", "abs", "neg", "min", "max", "clz", "bfe", "bfi", "prmt",
                           "shf.l.wrap", "shf.r.wrap", "and", "or", "xor", "not", "shl", "shr", "setp.lt", "selp", "mov", "add.rn", "sub.rn", "mul.rn", "div.rn",
                           "fma.rn", "rcp.rn", "sqrt.rn", "ex2.approx.ftz", "cvt.rn.f16x2", "cvt.rn.bf16x2", "min.NaN", "max.NaN"})
    for (const char* type : {"s16", "u16", "b16", "s32", "u32", "b32", "s64", "u64", "b64", "f32", "f64", "pred"}) {
      const Opcode* op = find_opcode(std::string(base) + "." + type);
      if (!op) continue;
      Entry e;
      Instruction i;
      i.op = op;
      e.code.push_back(i);
      const testing::ptx::Executor program(e, {});
      CHECK_MESSAGE(program.error().empty(), program.error());
      seen.insert(op->name);
    }
  CHECK(seen.size() > 100);
}

TEST_CASE("copies to shared memory have 4 or 16 bytes, of which a register or a number is read") {
  CHECK(taken("cp.async.cg.shared.global [%rd1], [%rd2], 16;\ncp.async.cg.shared.global [%rd1], [%rd2], 16, %r1;\n@%p1 cp.async.cg.shared.global [%rd1+64], [%rd2+16], 16, 0;\ncp.async.ca.shared.global [%rd1], [%rd2+4], 4;\ncp.async.ca.shared.global [%rd1], [%rd2], 4, %r1;\n"
              "cp.async.commit_group;\ncp.async.wait_group 1;\n"));
  for (const char* line : {"cp.async.cg.shared.global [%rd1], [%rd2], 4;", "cp.async.ca.shared.global [%rd1], [%rd2], 16;", "cp.async.cg.shared.global [%rd1], [%rd2];", "cp.async.cg.shared.global [%rd1], %rd2, 16;",
                           "cp.async.cg.shared.global [%rd1], [%rd2], 16, %rd1;", "cp.async.wait_group %r1;", "cp.async.commit_group 1;"})
    CHECK_MESSAGE(refusal(entry(std::string(line) + "\n")).find("other operands") != std::string::npos, line);
  for (const char* line : {"cp.async.ca.shared.global.L2::128B [%rd1], [%rd2], 4;", "cp.async.wait_all;", "cp.async.bulk.commit_group;"})
    CHECK_MESSAGE(refusal(entry(std::string(line) + "\n")).find("no opcode") != std::string::npos, line);
}

TEST_CASE("clusters have 2 to 8 blocks along x, and what they do stands in entries that have them, under no predicate") {
  const auto in_cluster = [](std::string_view directive, std::string_view body) {
    std::string text = entry(body);
    text.insert(text.find("{"), directive);
    return text;
  };
  constexpr std::string_view kMeet = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";
  const auto image = parse(in_cluster(".reqnctapercluster 8, 1, 1\n", std::string(kMeet) + "mapa.shared::cluster.u64 %rd1, %rd2, 7;\nld.shared::cluster.v2.f32 {%f0, %f1}, [%rd1+8];\n"));
  REQUIRE_MESSAGE(image.ok(), image.status().text());
  CHECK(image->entries[0].cluster == 8);
  CHECK(image->entries[0].has_barriers);
  for (const char* wrong : {".reqnctapercluster 0, 1, 1\n", ".reqnctapercluster 1, 1, 1\n", ".reqnctapercluster 9, 1, 1\n", ".reqnctapercluster 99999999999999999999, 1, 1\n",
                            ".reqnctapercluster 4, 2, 1\n", ".reqnctapercluster 4\n", ".reqnctapercluster -4, 1, 1\n", ".reqnctapercluster 4, 1, 1\n.reqnctapercluster 4, 1, 1\n"}) {
    CAPTURE(wrong);
    CHECK_FALSE(refusal(in_cluster(wrong, "")).empty());
  }
  CHECK(refusal(entry(kMeet)).find("without clusters") != std::string::npos);
  CHECK_FALSE(refusal(in_cluster(".reqnctapercluster 4, 1, 1\n", "@%p1 barrier.cluster.wait.aligned;\n")).empty());
  CHECK_FALSE(refusal(in_cluster(".reqnctapercluster 4, 1, 1\n", "ld.shared::cluster.f64 %fd1, [%rd1];\n")).empty());
  CHECK_FALSE(refusal(in_cluster(".reqnctapercluster 4, 1, 1\n", "mapa.shared::cluster.u64 %rd1, %rd2::;\n")).empty());
}

TEST_CASE("an entry may say how many blocks a multiprocessor holds, before its cluster") {
  const auto with = [](std::string_view directives) {
    std::string text = entry("");
    text.insert(text.find("{"), directives);
    return text;
  };
  for (const char* right : {".minnctapersm 1\n", ".minnctapersm 32\n", ".minnctapersm 3\n.reqnctapercluster 8, 1, 1\n"}) {
    const auto image = parse(with(right));
    CHECK_MESSAGE(image.ok(), (image.ok() ? "" : image.status().text()));
  }
  for (const char* wrong : {".minnctapersm 0\n", ".minnctapersm 33\n", ".minnctapersm -1\n", ".minnctapersm\n", ".minnctapersm 3\n.minnctapersm 3\n", ".reqnctapercluster 8, 1, 1\n.minnctapersm 3\n"}) {
    CAPTURE(wrong);
    CHECK_FALSE(refusal(with(wrong)).empty());
  }
}

TEST_CASE("products of a warp take as many registers as their fragments, and all lanes of it") {
  const std::string mma = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 ";
  const std::string sums = "{%f0, %f1, %f2, %f3}", a = "{%r0, %r1, %r2, %r3}", b = "{%r0, %r1}";
  CHECK(taken(mma + sums + ", " + a + ", " + b + ", " + sums + ";\n"));
  CHECK(taken("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 " + sums + ", " + a + ", " + b + ", " + sums + ";\n"));
  const std::string whole = "{%r0, %r1, %r2, %r3}";
  for (const char* types : {"s8.s8", "s8.u8", "u8.s8", "u8.u8"})
    CHECK(taken("mma.sync.aligned.m16n8k32.row.col.s32." + std::string(types) + ".s32 " + whole + ", " + a + ", " + b + ", " + whole + ";\n"));
  CHECK(refusal(entry("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 " + sums + ", " + a + ", " + b + ", " + sums + ";\n")).find("other operands") != std::string::npos);
  CHECK(refusal(entry(mma + sums + ", " + b + ", " + b + ", " + sums + ";\n")).find("other operands") != std::string::npos);
  CHECK(refusal(entry(mma + sums + ", " + sums + ", " + b + ", " + sums + ";\n")).find("other operands") != std::string::npos);
  CHECK(refusal(entry("@%p1 " + mma + sums + ", " + a + ", " + b + ", " + sums + ";\n")).find("under a predicate") != std::string::npos);
  CHECK(refusal(entry("mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 " + sums + ", " + a + ", " + b + ", " + sums + ";\n")).find("no opcode") != std::string::npos);
  // Of four warps: half as many registers as columns, two descriptors, a predicate, two signs that are not turned, two layouts.
  const auto all = [](char c, size_t count) {
    std::string text;
    for (size_t k = 0; k < count; ++k) text += (k ? ", %" : "{%") + std::string(1, c) + std::to_string(k % 4);
    return text + "}";
  };
  const std::string group = "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 ";
  CHECK(taken(group + all('f', 32) + ", %rd1, %rd2, %p1, 1, 1, 0, 1;\n"));
  CHECK(taken("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 " + all('f', 128) + ", %rd1, %rd2, %p1, 1, 1, 1, 0;\n"));
  CHECK(taken("wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.u8 " + all('r', 64) + ", %rd1, %rd2, %p1;\n"));
  CHECK(taken("wgmma.fence.sync.aligned;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nfence.proxy.async.shared::cta;\n"));
  CHECK(refusal(entry(group + all('f', 31) + ", %rd1, %rd2, %p1, 1, 1, 0, 1;\n")).find("other operands") != std::string::npos);
  CHECK(refusal(entry(group + all('r', 32) + ", %rd1, %rd2, %p1, 1, 1, 0, 1;\n")).find("other operands") != std::string::npos);
  CHECK(refusal(entry(group + all('f', 32) + ", %r1, %rd2, %p1, 1, 1, 0, 1;\n")).find("other operands") != std::string::npos);
  CHECK(refusal(entry(group + all('f', 32) + ", %rd1, %rd2, %p1, -1, 1, 0, 1;\n")).find("other operands") != std::string::npos);
  CHECK(refusal(entry(group + all('f', 32) + ", %rd1, %rd2, %p1, 1, 1, 0, 2;\n")).find("other operands") != std::string::npos);
  CHECK(refusal(entry(group + all('f', 500) + ", %rd1, %rd2, %p1, 1, 1, 0, 1;\n")).find("too many operands") != std::string::npos);
  CHECK(refusal(entry("@%p1 " + group + all('f', 32) + ", %rd1, %rd2, %p1, 1, 1, 0, 1;\n")).find("under a predicate") != std::string::npos);
  const std::string matrices = "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 ";
  CHECK(taken("ldmatrix.sync.aligned.m8n8.x4.shared.b16 " + a + ", [%rd1];\n"));
  CHECK(taken(matrices + a + ", [%rd1+16];\n"));
  CHECK(refusal(entry(matrices + b + ", [%rd1];\n")).find("other operands") != std::string::npos);
  CHECK(refusal(entry(matrices + sums + ", [%rd1];\n")).find("other operands") != std::string::npos);
  CHECK(refusal(entry("@%p1 " + matrices + a + ", [%rd1];\n")).find("under a predicate") != std::string::npos);
  // Half of a warp goes another way round: it is waited for. Where it never comes, the executor says so.
  const std::string apart = "mov.u32 %r1, %tid.x;\nsetp.lt.s32 %p1, %r1, 16;\nmov.f32 %f0, 0f3F800000;\nmov.u32 %r0, 0;\n@%p1 bra $L_far;\n";
  const std::string product = "$L_mma:\n" + mma + sums + ", {%r0, %r0, %r0, %r0}, {%r0, %r0}, {%f0, %f0, %f0, %f0};\nret;\n";
  for (const bool comes : {true, false}) {
    const auto image = parse(entry(apart + product + "$L_far:\n" + (comes ? "bra $L_mma;\n" : "")));
    REQUIRE_MESSAGE(image.ok(), image.status().text());
    testing::lanes::Memory memory;
    testing::ptx::Executor program(image->entries[0], {0, 0});
    REQUIRE(program.error().empty());
    const std::string wrong = testing::lanes::run(program, memory, {.lanes = 32});
    CHECK((comes ? wrong.empty() : wrong.find("never come") != std::string::npos));
  }
}

TEST_CASE("an instruction that came later than the target is named") {
  const std::string text = entry("min.NaN.f32 %f1, %f2, %f3;\n");
  const auto image = parse(text);
  REQUIRE(image.ok());
  const auto target = [](std::string_view name) { return targets::find_target(name); };
  REQUIRE(target("cuda-sm75") != nullptr);
  const auto classes = audit_image(*target("cuda-sm75"), *image);
  REQUIRE(!classes.ok());
  CHECK(classes.status().text().find("min.NaN.f32") != std::string::npos);
  CHECK(!audit_image(*target("cuda-sm80"), *image).ok());  // of another header
  std::string newer = text;
  newer.replace(newer.find("6.5"), 3, "7.0");
  newer.replace(newer.find("sm_75"), 5, "sm_80");
  const auto image80 = parse(newer);
  REQUIRE(image80.ok());
  CHECK(audit_image(*target("cuda-sm80"), *image80).ok());
}

}  // namespace
}  // namespace mlc
