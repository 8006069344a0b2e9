// What kernels that are no products ask of memory at once, as NVIDIA's tools see it: how wide loads are and how many are under way,
// where these tools are installed; and shuffles, whose text every machine sees.
#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "packager/lower/lower.h"
#include "schema/gpu_module.h"
#include "targets/families.h"
#include "tests/support/nests/lowered.h"
#include "tests/support/nests/nests.h"

namespace mlc {
namespace {

using ir::Expr;
using ir::Join;
using ir::Op;
using test::NestMaker;

std::string output_of(const std::string& command, int& status) {
  std::string out;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return out;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  status = pclose(pipe);
  return out;
}
bool is_there(const std::string& tool) {
  int status = -1;
  output_of(tool + " --version", status);
  return status == 0;
}
size_t occurrences(std::string_view text, std::string_view what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += what.size()) ++n;
  return n;
}

// y[n, c] = (x - mean) * x / spread of the row
void norm(NestMaker& m, DType t) {
  ir::Context& ctx = m.ctx;
  const Expr *N = m.n(4096), *C = m.n(1024);
  uint32_t x = m.array("x", t, {N, C}), y = m.output("y", t, {N, C});
  auto n = m.dim("n", N), c = m.dim("c", C), k = m.dim("k", C), j = m.dim("j", C);
  const Expr* total = m.fold(Join::Sum, {j}, m.load(x, {m.at(n), m.at(j)}));
  const auto apart = [&](const ir::Dim* d) { return ctx.binary(Op::Sub, m.load(x, {m.at(n), m.at(d)}), total); };
  m.map({n, c}, y, {m.at(n), m.at(c)}, ctx.binary(Op::Div, apart(c), m.fold(Join::Sum, {k}, ctx.binary(Op::Mul, apart(k), apart(k)))));
}
void transpose(NestMaker& m, DType t) {
  uint32_t x = m.array("x", t, {m.n(1024), m.n(1024)}), y = m.output("y", t, {m.n(1024), m.n(1024)});
  auto a = m.dim("a", m.n(1024)), b = m.dim("b", m.n(1024));
  m.map({b, a}, y, {m.at(b), m.at(a)}, m.load(x, {m.at(a), m.at(b)}));
}
void map(NestMaker& m, DType t) {
  uint32_t x = m.array("x", t, {m.n(1 << 20)}), z = m.array("z", t, {m.n(1 << 20)}), y = m.output("y", t, {m.n(1 << 20)});
  auto a = m.dim("a", m.n(1 << 20));
  m.map({a}, y, {m.at(a)}, m.ctx.binary(Op::Add, m.load(x, {m.at(a)}), m.load(z, {m.at(a)})));
}
void fold(NestMaker& m, DType t) {
  uint32_t x = m.array("x", t, {m.n(256), m.n(8192)}), y = m.output("y", t, {m.n(256)});
  auto a = m.dim("a", m.n(256)), b = m.dim("b", m.n(8192));
  m.map({a}, y, {m.at(a)}, m.fold(Join::Max, {b}, m.load(x, {m.at(a), m.at(b)})));
}

// The text of the last kernel of a nest for CUDA.
std::string ptx_of(void (*make)(NestMaker&, DType), DType t, const targets::Target& target) {
  ir::Context ctx;
  NestMaker m(ctx);
  make(m, t);
  const auto kernels = lower::lower(ctx, m.f, m.f.body[0], target, test::test_math);
  REQUIRE(kernels.ok());
  const auto module = targets::emit_module(target, std::span(&kernels->back(), 1));
  if (!module.ok()) FAIL(module.status().text());
  CHECK(targets::audit_module(target, module->bytes).ok());
  const auto decoded = gpu::decode(module->bytes);
  REQUIRE(decoded.ok());
  const std::vector<std::byte>& bytes = decoded->images[0].bytes;
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size() - 1};
}

struct Wanted {
  const char* what;
  void (*make)(NestMaker&, DType);
  DType type;
  size_t wide_loads, wide_stores, shuffles, barriers;  // in the text
  size_t loads_in_flight;                              // of 16 bytes, in SASS: at least so many stand before the first use of one
};
constexpr Wanted kWanted[] = {
    {"norm", norm, DType::F32, 2, 2, 10, 4, 2}, {"norm of f16", norm, DType::F16, 1, 1, 0, 0, 1}, {"transpose", transpose, DType::F32, 2, 2, 0, 1, 2},
    {"map", map, DType::F32, 2, 1, 0, 0, 2},    {"map of f16", map, DType::F16, 2, 1, 0, 0, 2},   {"fold", fold, DType::F32, 1, 0, 5, 2, 4},
};

// Registers that stand in a line of SASS.
std::vector<unsigned> registers_in(const std::string& line) {
  std::vector<unsigned> found;
  for (size_t at = 0; (at = line.find('R', at)) != line.npos; ++at)
    if (at > 0 && !std::isalnum(static_cast<unsigned char>(line[at - 1])) && std::isdigit(static_cast<unsigned char>(line[at + 1])))
      found.push_back(static_cast<unsigned>(std::strtoul(line.c_str() + at + 1, nullptr, 10)));
  return found;
}

// The longest row of wide loads of which none waits for another: nothing between them reads what one of them brings.
size_t in_flight(const std::string& sass) {
  size_t most = 0, now = 0;
  std::vector<unsigned> pending;
  std::istringstream lines(sass);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<unsigned> used = registers_in(line);
    if (std::any_of(used.begin(), used.end(), [&](unsigned r) { return std::find(pending.begin(), pending.end(), r) != pending.end(); })) pending.clear(), now = 0;
    if (line.find("LDG.E.128") == line.npos || used.empty()) continue;
    for (unsigned k = 0; k < 4; ++k) pending.push_back(used[0] + k);
    most = std::max(most, ++now);
  }
  return most;
}

TEST_CASE("kernels that are no products read and write 16 bytes at once, several under way, without a stack") {
  const bool assembles = is_there("ptxas"), disassembles = assembles && is_there("nvdisasm");
  if (!disassembles) MESSAGE("skipped: what " << (assembles ? "nvdisasm" : "ptxas") << " says, which is not here");
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("mlc-wide-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const targets::Target& target = *targets::find_target("cuda-sm80");
  for (const Wanted& w : kWanted) {
    CAPTURE(std::string(w.what));
    const std::string text = ptx_of(w.make, w.type, target);
    CHECK(occurrences(text, "ld.global.nc.v4") == w.wide_loads);
    CHECK(occurrences(text, "st.global.v4") == w.wide_stores);
    if (w.shuffles) CHECK(occurrences(text, "shfl.sync") == w.shuffles);
    if (w.barriers) CHECK(occurrences(text, "bar.sync") == w.barriers);
    CHECK(occurrences(text, "nounroll") == 0);
    if (w.type == DType::F16) CHECK(occurrences(text, "cvt.f32.f16") > 0);
    if (!assembles) continue;
    std::ofstream(folder / "k.ptx", std::ios::binary) << text;
    int status = -1;
    const std::string said = output_of("ptxas -v -arch=sm_80 -o " + (folder / "k.cubin").string() + " " + (folder / "k.ptx").string(), status);
    CHECK_MESSAGE(status == 0, said);
    CHECK_MESSAGE(occurrences(said, " 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") == 1, said);
    if (!disassembles) continue;
    const std::string sass = output_of("nvdisasm -c " + (folder / "k.cubin").string(), status);
    CHECK(in_flight(sass) >= w.loads_in_flight);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mlc
