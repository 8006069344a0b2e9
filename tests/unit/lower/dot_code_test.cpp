// Products of small numbers, from the pass to machine code of other machines: their inner loops have the instruction that the
// target has for them, and the answers are the interpreter's.
#include <map>
#include <random>

#include "packager/nest/interpret/interpret.h"
#include "packager/passes/passes.h"
#include "targets/families.h"
#include "targets/llvm/disassemble.h"
#include "targets/module_elf.h"
#include "tests/support/nests/lowered.h"
#include "tests/support/nests/nests.h"
#include "tests/unit/targets/cross_run.h"

using namespace mlc;
using ir::Expr;
using ir::Op;

namespace {

// y[m, n] = sum (x[m, k] - 3) * w[k, n] with constant weights, or of two values; in floats the factors become bf16.
struct Product : test::NestMaker {
  static constexpr int64_t kRows = 20, kDepth = 64, kColumns = 48;
  std::vector<nest::Tensor> inputs, want;

  Product(ir::Context& ctx, DType type, bool constant) : NestMaker(ctx) {
    std::mt19937 rng(7);
    const DType of_weights = type == DType::U8 ? DType::I8 : type, of_sum = type == DType::F32 ? DType::F32 : DType::I32;
    const uint32_t x = array("x", type, {n(kRows), n(kDepth)});
    const uint32_t w = array("w", of_weights, {n(kDepth), n(kColumns)}, constant ? nest::Array::Kind::Const : nest::Array::Kind::Input);
    inputs.push_back(test::random_tensor(rng, type, {kRows, kDepth}, 256));
    nest::Tensor weights = test::random_tensor(rng, of_weights, {kDepth, kColumns}, 256);
    if (constant) {
      auto bytes = std::make_shared<std::vector<std::byte>>(std::move(weights.bytes));
      f.arrays[w].data = std::make_shared<nest::ConstData>(nest::ConstData{Bytes(*bytes), bytes});
    } else {
      inputs.push_back(std::move(weights));
    }
    const uint32_t y = output("y", of_sum, {n(kRows), n(kColumns)});
    auto m = dim("m", n(kRows)), c = dim("n", n(kColumns)), k = dim("k", n(kDepth));
    const Expr* code = ctx.cast(of_sum, load(x, {at(m), at(k)}));
    if (type != DType::F32) code = ctx.binary(Op::Sub, code, ctx.integer(3, DType::I32));
    map({m, c}, y, {at(m), at(c)}, fold(ir::Join::Sum, {k}, ctx.binary(Op::Mul, code, ctx.cast(of_sum, load(w, {at(k), at(c)})))), "product");
    passes::Options options;
    if (type == DType::F32) options.pipeline = passes::with_precision(options.pipeline, passes::Precision::BF16, passes::RoundedValues::All);
    const Status passed = passes::run(ctx, f, options);
    REQUIRE_MESSAGE(passed.ok(), passed.text());
    auto answers = nest::interpret(f, inputs);
    REQUIRE(answers.ok());
    want = std::move(*answers);
  }
};

// Whether an instruction whose name begins so stands in a loop of the module that has no loop inside.
bool in_inner_loop(const targets::Target& target, std::span<const std::byte> module, std::string_view name) {
  auto elf = targets::read_module_elf(module, target.machine);
  REQUIRE(elf.ok());
  bool found = false;
  for (const targets::CodeRange& code : elf->code) {
    uint64_t last_edge = 0;  // the end of a loop that was seen last
    std::vector<uint64_t> places;
    (void)targets::disassemble(target, {}, code, [&](const targets::Instruction& i) -> Status {
      if (i.name.substr(0, name.size()) == name) places.push_back(i.address);
      if (!i.is_branch || !i.target || *i.target >= i.address) return ok();
      const bool innermost = last_edge < *i.target;
      last_edge = i.address;
      for (uint64_t place : places) found |= innermost && place >= *i.target;
      return ok();
    });
  }
  return found;
}

// Runs all kernels in order under the emulator; the bytes of the last output.
void run_emulated(ir::Context& ctx, Product& p, const targets::Target& target, testing::CrossMachine* machine, std::string_view instruction) {
  std::map<uint32_t, testing::AlignedBytes> memory;
  const auto bytes_of_array = [&](const nest::Array& a) {
    return static_cast<size_t>(test::Placement(a, test::shape_of(a, {})).elements) * bytes_of(a.dtype);
  };
  const auto memory_of = [&](uint32_t a) -> testing::AlignedBytes& {
    const auto [found, is_new] = memory.try_emplace(a, bytes_of_array(p.f.arrays[a]));
    if (!is_new) return found->second;
    const nest::Array& array = p.f.arrays[a];
    std::span<const std::byte> from;
    if (array.data) from = array.data->bytes;
    for (size_t k = 0; k < p.f.inputs.size(); ++k)
      if (p.f.inputs[k] == a) from = p.inputs[k].bytes;
    const size_t size = bytes_of(array.dtype);
    if (!from.empty())
      test::Placement(array, test::shape_of(array, {})).each([&](int64_t source, int64_t place) {
        std::memcpy(found->second.data.get() + static_cast<size_t>(place) * size, from.data() + static_cast<size_t>(source) * size, size);
      });
    return found->second;
  };
  bool has_instruction = false;
  const nest::Lifetimes lifetimes(p.f);
  for (size_t s = 0, count = 1; s < p.f.body.size(); s += count) {
    const std::vector<loop::Kernel> kernels = test::lowered_at(ctx, p.f, lifetimes, s, target, test::test_math, count);
    auto module = targets::emit_module(target, kernels);
    REQUIRE_MESSAGE(module.ok(), (module.ok() ? "" : module.status().text()));
    has_instruction |= in_inner_loop(target, module->bytes, instruction);
    std::map<uint32_t, testing::AlignedBytes> workspaces;
    for (size_t k = 0; machine && k < kernels.size(); ++k) {
      const loop::Kernel& kernel = kernels[k];
      loop::Run run;
      run.value = [](const ir::Sym*) { return std::nullopt; };
      const auto division = loop::divide(kernel, run);
      REQUIRE(division.ok());
      std::vector<testing::CrossLaunch> launches(1);
      launches[0] = {static_cast<uint32_t>(k), 0, static_cast<uint32_t>(division->tiles), {}, division->chunks, module->scratch_bytes[k], -1};
      for (const loop::Param& param : kernel.params)
        launches[0].buffers.push_back(param.role == loop::Role::Array
                                          ? &memory_of(param.array)
                                          : &workspaces.try_emplace(param.array, static_cast<size_t>(test::extent_value(param.elements, {})) * bytes_of(param.dtype)).first->second);
      REQUIRE(machine->run(module->bytes, launches));
      REQUIRE(launches[0].code == 0);
    }
  }
  CHECK(has_instruction);
  if (!machine) return;
  nest::Tensor got = nest::Tensor::zeros(p.want[0].dtype, p.want[0].shape);
  std::memcpy(got.bytes.data(), memory_of(p.f.outputs[0]).data.get(), got.bytes.size());
  if (got.dtype == DType::I32) CHECK(got.bytes == p.want[0].bytes);
  else CHECK(test::difference(p.want[0], got).error <= 1e-4);
}

}  // namespace

TEST_CASE("inner loops of products have the instruction that an AArch64 target has for them, and give the right answers") {
  struct Row {
    const char* target;
    DType type;
    bool constant;
    const char* instruction;
  };
  testing::CrossMachine machine(*targets::find_target("armv8-a"));
  if (!machine.ready()) MESSAGE("looked at, but not run: no cross compiler or emulator");
  for (const Row& row : {Row{"armv8-a+dotprod+fp16", DType::U8, true, "SDOT"}, {"armv8-a+dotprod+fp16", DType::I8, false, "SDOT"},
                         {"armv8-a+i8mm+bf16", DType::U8, true, "USDOT"}, {"armv8-a+i8mm+bf16", DType::U8, false, "USDOT"},
                         {"armv8-a+i8mm+bf16", DType::F32, true, "BFDOT"}}) {
    CAPTURE(row.target);
    CAPTURE(row.instruction);
    CAPTURE(row.constant);
    ir::Context ctx;
    Product p(ctx, row.type, row.constant);
    run_emulated(ctx, p, *targets::find_target(row.target), machine.ready() ? &machine : nullptr, row.instruction);
  }
}
