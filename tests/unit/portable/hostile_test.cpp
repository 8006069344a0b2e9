// Portable code from an enemy: it may be refused, fault or compute nonsense, and nothing else.
#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "loaders/portable/portable_loader.h"
#include "loaders/portable/program.h"
#include "runtime/match/matcher.h"
#include "runtime/probe/probe.h"
#include "targets/target.h"
#include "tests/support/portable_assembler.h"
#include "tests/support/verified_for_test.h"
#include "tests/unit/targets/random_kernel.h"

namespace mlc {
namespace {

using namespace testing;
using portable::Instruction;
using portable::Kind;
using Bits = std::vector<std::byte>;
using P = portable::Op;
using test::Assembler;

constexpr uint16_t kNo = portable::kNoRegister;

std::string refusal(const Assembler& a) {
  auto r = portable::decode_module(a.bytes());
  return r.ok() ? "" : r.status().text();
}

constexpr int32_t kRefused = -100;

// Runs a module of one kernel with two buffers of `bytes` bytes between guards and so many units of work.
int32_t run(const Bits& module, size_t bytes = 64, uint64_t units = 1'000'000) {
  auto programs = portable::decode_module(module);
  if (!programs.ok()) {
    CHECK(!programs.status().message.empty());
    return kRefused;
  }
  int32_t result = kRefused;
  for (const portable::Program& p : *programs) {
    const size_t n = p.param_flags.size();
    if (n > 64 || p.scratch_bytes > (1 << 24)) continue;
    // Each buffer has exactly the promised 64-byte slack; the sanitizer sees anything beyond.
    std::vector<AlignedBytes> buffers;
    std::vector<void*> pointers;
    std::vector<uint64_t> lengths;
    for (size_t k = 0; k < n; ++k) {
      buffers.emplace_back(bytes);
      pointers.push_back(buffers.back().data.get());
      lengths.push_back(bytes);
    }
    std::vector<int64_t> scalars(p.num_scalars, 3);
    AlignedBytes scratch(p.scratch_bytes);
    const MlrunLaunch launch = {pointers.data(), lengths.data(), scalars.data(), scratch.data.get(), 0, 1};
    WorkMeter meter;
    meter.start({.units = units});
    result = portable::run_program(p, launch, 0, 2, meter);
    CHECK((result == kRunStopped) == (meter.why() != WorkMeter::Stop::None));
    CHECK(meter.units_used() <= units);
    CHECK(result >= kRunStopped);
    CHECK(result <= MLRUN_FAULT_BOUND);
    for (size_t k = 0; k < n; ++k) {
      bool clean = true;
      for (size_t at = bytes; at < ((bytes + 127) & ~size_t{63}); ++at) clean &= buffers[k].data.get()[at] == std::byte{0};
      CHECK(clean);  // nothing is stored behind the end
      clean = true;
      if (!(p.param_flags[k] & portable::kParamWritten))
        for (size_t at = 0; at < bytes; ++at) clean &= buffers[k].data.get()[at] == std::byte{0};
      CHECK(clean);  // nor where it is only read
    }
  }
  return result;
}

TEST_CASE("each rule of the format refuses what breaks it") {
  using A = Assembler;
  CHECK(refusal(A().add(P::Const, A::kI)) == "");
  CHECK(refusal(A().add(P::None, kNo)) != "");
  CHECK(refusal(A().add(static_cast<P>(255), kNo)) != "");
  CHECK(refusal(A().add(P::Const, 99)) != "");                                   // no such register
  CHECK(refusal(A().add(P::Const, A::kI, A::kJ)) != "");                         // an operand too many
  CHECK(refusal(A().add(P::Add, A::kI, A::kJ)) != "");                           // one too few
  CHECK(refusal(A().add(P::Add, A::kI, A::kJ, A::kF)) != "");                    // kinds differ
  CHECK(refusal(A().add(P::Add, A::kV, A::kF, A::kF)) != "");                    // lanes differ
  CHECK(refusal(A().add(P::Div, A::kI, A::kI, A::kI)) != "");                    // floats only
  CHECK(refusal(A().add(P::Shl, A::kF, A::kF, A::kF)) != "");                    // integers only
  CHECK(refusal(A().add(P::Lt, A::kF, A::kF, A::kF)) != "");                     // result is no mask
  CHECK(refusal(A().add(P::Scalar, A::kI, kNo, kNo, kNo, 1)) != "");             // one scalar only
  CHECK(refusal(A().add(P::Scalar, A::kI, kNo, kNo, kNo, -1)) != "");
  CHECK(refusal(A().add(P::Tile, A::kI, kNo, kNo, kNo, 2)) != "");
  CHECK(refusal(A().add(P::Const, A::kM, kNo, kNo, kNo, 2)) != "");              // no truth value
  CHECK(refusal(A().add(P::Const, A::kF, kNo, kNo, kNo, int64_t{1} << 32)) != "");
  CHECK(refusal(A().add(P::Load, A::kV, A::kI, kNo, kNo, 0, DType::F32, 0)) == "");
  CHECK(refusal(A().add(P::Load, A::kV, A::kI, kNo, kNo, 0, DType::I32, 0)) != "");   // wrong kind for the register
  CHECK(refusal(A().add(P::Load, A::kV, A::kI, kNo, kNo, 0, DType::F16, 0)) != "");   // not a type in memory
  CHECK(refusal(A().add(P::Load, A::kV, A::kI, kNo, kNo, 0, static_cast<DType>(77), 0)) != "");
  CHECK(refusal(A().add(P::Load, A::kV, A::kI, kNo, kNo, 0, DType::F32, 2)) != "");   // no such buffer
  CHECK(refusal(A().add(P::Load, A::kV, A::kF, kNo, kNo, 0, DType::F32, 0)) != "");   // index is no integer
  CHECK(refusal(A().add(P::Load, A::kV, A::kI, A::kM, kNo, 0, DType::F32, 0)) != ""); // mask of one lane
  CHECK(refusal(A().add(P::Store, kNo, A::kI, kNo, A::kV, 0, DType::F32, 0)) == "");
  CHECK(refusal(A().add(P::Store, kNo, A::kI, kNo, A::kV, 0, DType::F32, 1)) != "");  // not declared as written
  CHECK(refusal(A().add(P::Extract, A::kF, A::kV, kNo, kNo, 16)) != "");
  CHECK(refusal(A().add(P::Extract, A::kF, A::kV, kNo, kNo, -1)) != "");
  CHECK(refusal(A().add(P::Insert, A::kV, A::kF, kNo, kNo, 16)) != "");
  CHECK(refusal(A().add(P::Insert, A::kV, A::kF, kNo, kNo, INT64_MIN)) != "");
  CHECK(refusal(A().add(P::Insert, A::kV, A::kV, kNo, kNo, 1)) != "");
  CHECK(refusal(A().add(P::Repeat, A::kV, A::kF)) == "");
  CHECK(refusal(A().add(P::Repeat, A::kF, A::kV)) != "");                        // more lanes than dst
  CHECK(refusal(A().add(P::Repeat, A::kIv, A::kF)) != "");
  CHECK(refusal(A().add(P::Dot, A::kF, A::kV, A::kV, A::kF)) == "");
  CHECK(refusal(A().add(P::Dot, A::kF, A::kV, A::kF, A::kF)) != "");             // unlike operands
  CHECK(refusal(A().add(P::Dot, A::kV, A::kF, A::kF, A::kV)) != "");             // fewer lanes than dst
  CHECK(refusal(A().add(P::Dot, A::kF, A::kV, A::kV, A::kV)) != "");
  CHECK(refusal(A().add(P::Dot, A::kI, A::kI, A::kI, A::kI)) != "");             // neither I32 nor F32
  CHECK(refusal(A().add(P::Wrap, A::kIv, A::kIv, kNo, kNo, 0, DType::I32)) != "");
  CHECK(refusal(A().add(P::Pack, A::kIv, A::kV, kNo, kNo, 0, DType::F32)) != "");
  CHECK(refusal(A().add(P::FaultIf, kNo, A::kM, kNo, kNo, 4)) != "");
  CHECK(refusal(A().add(P::FaultIf, kNo, A::kM, kNo, kNo, -1)) != "");
  CHECK(refusal(A().add(P::LoopBegin, A::kI, A::kJ, A::kJ, kNo, 0)) != "");      // step 0
  CHECK(refusal(A().add(P::LoopBegin, A::kI, A::kJ, A::kJ, kNo, 1)) != "");      // no end
  CHECK(refusal(A().add(P::LoopEnd, kNo)) != "");
  CHECK(refusal(A().add(P::Else, kNo)) != "");
  CHECK(refusal(A().add(P::If, kNo, A::kM).add(P::LoopEnd, kNo)) != "");
  CHECK(refusal(A().add(P::If, kNo, A::kM).add(P::Else, kNo).add(P::Else, kNo).add(P::EndIf, kNo)) != "");
  CHECK(refusal(A().add(P::WhileBegin, A::kI, A::kJ).add(P::WhileEnd, kNo)) != "");  // no test
  CHECK(refusal(A().add(P::WhileBegin, A::kI, A::kJ).add(P::If, kNo, A::kM).add(P::WhileTest, kNo, A::kM)
                    .add(P::EndIf, kNo).add(P::WhileEnd, kNo)) != "");               // test inside of a condition
  Assembler deep;
  for (int k = 0; k < 65; ++k) deep.add(P::If, kNo, A::kM);
  for (int k = 0; k < 65; ++k) deep.add(P::EndIf, kNo);
  CHECK(refusal(deep) != "");
  Assembler huge;
  huge.locals = {portable::kMaxLocalBytes, 64};
  CHECK(refusal(huge) != "");
  huge.locals = {UINT64_MAX};
  CHECK(refusal(huge) != "");
  Assembler wide;
  wide.registers.assign(10000, {Kind::F64, 64});
  CHECK(refusal(wide) != "");
  Assembler odd;
  odd.registers[0] = {Kind::I64, 0};
  CHECK(refusal(odd) != "");
  odd.registers[0] = {Kind::I64, 65};
  CHECK(refusal(odd) != "");
  odd.registers[0] = {static_cast<Kind>(6), 1};
  CHECK(refusal(odd) != "");
  Assembler flags;
  flags.params[0] = 3;
  CHECK(refusal(flags) != "");
  CHECK(!portable::decode_module({}).ok());
}

TEST_CASE("every address is checked: loads up to the promised slack, stores up to the length") {
  using A = Assembler;
  auto at = [](bool store, int64_t index, int64_t displacement, size_t bytes) {
    Assembler a;
    a.add(P::Const, A::kI, kNo, kNo, kNo, index);
    if (store) a.add(P::Store, kNo, A::kI, kNo, A::kV, displacement, DType::F32, 0);
    else a.add(P::Load, A::kV, A::kI, kNo, kNo, displacement, DType::F32, 1);
    return run(a.bytes(), bytes);
  };
  CHECK(at(false, 0, 0, 64) == 0);
  CHECK(at(false, 0, 0, 4) == 0);                      // readable to the next multiple of 64
  CHECK(at(false, 1, 0, 64) == MLRUN_FAULT_INDEX);
  CHECK(at(false, 1, -1, 64) == 0);
  CHECK(at(false, -1, 0, 64) == MLRUN_FAULT_INDEX);
  CHECK(at(false, INT64_MAX, INT64_MAX, 64) == MLRUN_FAULT_INDEX);
  CHECK(at(false, INT64_MIN, INT64_MIN, 64) == 0);     // wraps to 0: in range is in range
  CHECK(at(false, int64_t{1} << 62, 0, 64) == MLRUN_FAULT_INDEX);
  CHECK(at(false, 0, 0, 0) == MLRUN_FAULT_INDEX);
  CHECK(at(true, 0, 0, 64) == 0);
  CHECK(at(true, 0, 0, 60) == MLRUN_FAULT_INDEX);
  CHECK(at(true, 16, 0, 128) == 0);
  CHECK(at(true, 17, 0, 128) == MLRUN_FAULT_INDEX);
  // A gather checks each lane that its mask lets through.
  for (int64_t step : {1, 2, -1}) {
    for (bool masked : {false, true}) {
      Assembler a;
      a.add(P::Const, A::kI).add(P::Ramp, A::kGather, A::kI, kNo, kNo, step).add(P::Const, A::kMv, kNo, kNo, kNo, 0);
      a.add(P::Load, A::kV, A::kGather, masked ? uint16_t{A::kMv} : kNo, kNo, 0, DType::F32, 1);
      CHECK(run(a.bytes(), 64) == (masked || step == 1 ? 0 : MLRUN_FAULT_INDEX));
    }
  }
}

TEST_CASE("loops that never end run out of work") {
  using A = Assembler;
  Assembler a;
  a.add(P::Const, A::kI).add(P::Const, A::kJ, kNo, kNo, kNo, 10).add(P::LoopBegin, A::kI, A::kI, A::kJ, kNo, 1);
  a.add(P::Const, A::kI).add(P::LoopEnd, kNo);  // resets its own counter
  CHECK(run(a.bytes()) == kRunStopped);
  Assembler b;
  b.add(P::Const, A::kJ, kNo, kNo, kNo, INT64_MAX).add(P::Const, A::kM, kNo, kNo, kNo, 1);
  b.add(P::WhileBegin, A::kI, A::kJ).add(P::WhileTest, kNo, A::kM).add(P::WhileEnd, kNo);
  CHECK(run(b.bytes()) == kRunStopped);
  Assembler c;  // the last step would overflow the counter
  c.add(P::Const, A::kI, kNo, kNo, kNo, INT64_MAX - 1).add(P::Const, A::kJ, kNo, kNo, kNo, INT64_MAX);
  c.add(P::LoopBegin, A::kI, A::kI, A::kJ, kNo, INT64_MAX).add(P::LoopEnd, kNo);
  CHECK(run(c.bytes()) == 0);
}

TEST_CASE("every byte of a real module flipped, every length cut") {
  Pool pool;
  RandomKernel random(pool, 5);
  std::vector<loop::Kernel> kernels;
  kernels.push_back(random.take());
  auto module = targets::emit_module(*targets::find_target("portable"), kernels);
  REQUIRE(module.ok());
  const Bits good = module->bytes;
  CHECK(run(good, 4096) == 0);
  for (size_t at = 0; at < good.size(); ++at) {
    for (unsigned mask : {0x01u, 0x80u, 0xffu}) {
      Bits bad = good;
      bad[at] ^= static_cast<std::byte>(mask);
      run(bad, 300, 200);
    }
    CHECK(!portable::decode_module(std::span(good).first(at)).ok());
  }
  Bits longer = good;
  longer.resize(good.size() + 8);
  CHECK(!portable::decode_module(longer).ok());
}

TEST_CASE("random damage to random modules") {
  std::mt19937_64 random(7);
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Pool pool;
    RandomKernel kernel(pool, seed);
    std::vector<loop::Kernel> kernels;
    kernels.push_back(kernel.take());
    auto module = targets::emit_module(*targets::find_target("portable"), kernels);
    REQUIRE(module.ok());
    for (int round = 0; round < 60; ++round) {
      Bits bad = module->bytes;
      for (uint64_t n = 1 + random() % 4; n; --n) {
        // Mostly in the instructions, with values that are plausible there.
        const size_t at = random() % bad.size();
        bad[at] = static_cast<std::byte>(random() % 3 ? random() % 16 : random());
      }
      run(bad, 256, 200);
    }
  }
}

TEST_CASE("the loader refuses launches that the code does not fit") {
  std::vector<format::Variant> variants(1);
  variants[0].name = "portable";
  variants[0].module_format = format::ModuleFormat::Portable;
  auto admit = [&] { return Matcher(probe::host(), variants).admit(0).value(); };
  const Bits module = Assembler().add(P::Const, 0).bytes();
  auto loader = portable::make_portable_loader();
  CHECK(loader->format() == "portable");
  auto loaded = loader->load(admit(), VerifiedBytesMaker::make(module, "code/portable"));
  REQUIRE(loaded.ok());
  KernelModule& m = **loaded;
  CHECK(m.num_kernels() == 1);
  CHECK(m.scratch_bytes(0) > 0);
  auto accepts = [&](std::vector<uint8_t> writable, uint32_t scalars) {
    return m.accepts(0, {writable, scalars}).ok();
  };
  CHECK(accepts({1, 0}, 1));
  CHECK(accepts({1, 1}, 1));
  CHECK(!accepts({0, 1}, 1));
  CHECK(!accepts({1}, 1));
  CHECK(!accepts({1, 0, 0}, 1));
  CHECK(!accepts({1, 0}, 0));
  auto refused = loader->load(admit(), VerifiedBytesMaker::make(std::span(module).first(30), "code/portable"));
  REQUIRE(!refused.ok());
  CHECK(refused.status().text().find("code/portable") != std::string::npos);
}

}  // namespace
}  // namespace mlc
