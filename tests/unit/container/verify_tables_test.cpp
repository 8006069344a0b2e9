// schema/verify_tables.h against the functions of FlatBuffers that its rows were made from, on whole and damaged tables.
#include <doctest/doctest.h>

#include <random>

#include "schema/generated/manifest_fields_generated.h"
#include "schema/generated/manifest_generated.h"
#include "schema/generated/plan_fields_generated.h"
#include "schema/verify_tables.h"
#include "tests/support/containers/bad_container.h"
#include "tests/support/containers/plan_maker.h"

using namespace mlc;
using namespace mlc::format;
using namespace mlc::test;
namespace fbm = mlc::fb::manifest;

namespace {

// A manifest in which each table of the schema stands.
std::vector<std::byte> full_manifest() {
  Manifest m = take_apart(sample_bytes()).manifest;
  m.required = {1, 2};
  m.model.title = "a title";
  m.methods[0].state.resize(1);
  m.methods[0].core_inputs = m.methods[0].inputs;
  m.tensors.resize(m.tensors.size() + 1);
  m.tensors.back().copies.resize(2);
  m.tensors.back().quant.emplace();
  for (Variant& v : m.variants) {
    v.clauses.resize(2);
    v.tolerance.resize(1);
    v.cost.resize(1);
    v.memory.emplace();
    v.audit.emplace();
  }
  m.stages.resize(2);
  m.stages[0].attributes.resize(2);
  m.assets.resize(1);
  m.golden.resize(1);
  m.golden[0].inputs.resize(2);
  m.golden[0].outputs.resize(1);
  m.golden[0].tolerance.resize(1);
  m.operators.resize(1);
  m.tuning.resize(1);
  m.provenance.flags = {"one", "two"};
  m.provenance.targets.resize(2);
  m.provenance.parents.resize(1);
  m.portable.emplace();
  m.extensions.resize(2);
  return container::encode_manifest(m);
}

// A plan with steps, cuts, turns and derived constants.
std::vector<std::byte> full_plan() {
  const PlanMaker maker = PlanMaker::two_steps();
  flatbuffers::FlatBufferBuilder b;
  const std::vector numbers{1u, 2u};
  const auto cut = fbp::CreateCut(b, 1, 2, 3);
  const auto instr = fbp::CreateInstr(b, fbp::InstrOp_Launch, 0, b.CreateVector(numbers), b.CreateVector(numbers), 0, b.CreateVector(std::vector{cut}), 0, 0,
                                      b.CreateString("launch"), 0, 0, 0, 0, true, 0, fbp::CreateTurns(b, 1, 2, 3, 4));
  fbp::StepBuilder empty(b);
  const auto step = empty.Finish();
  const auto name = b.CreateString("main"), message = b.CreateString("of a check");
  const auto check = fbp::CreateCheck(b, 0, 0, message);
  const auto port = fbp::CreatePort(b, name, 1, 0, b.CreateVector(numbers));
  const auto checks = b.CreateVector(std::vector{check});
  const auto ports = b.CreateVector(std::vector{port, port});
  const auto body = b.CreateVector(std::vector{instr, instr});
  const auto steps = b.CreateVector(std::vector{step});
  const auto symbols = b.CreateVectorOfStructs(maker.symbols);
  fbp::FunctionBuilder f(b);
  f.add_name(name);
  f.add_checks(checks);
  f.add_inputs(ports);
  f.add_outputs(ports);
  f.add_steps(steps);
  f.add_body(body);
  f.add_shape(symbols);
  const auto function = f.Finish();
  const auto derived = b.CreateVector(std::vector<uint64_t>{8, 16});
  fbp::FinishPlanBuffer(b, fbp::CreatePlan(b, 1, 1, b.CreateVector(std::vector{function, function}), derived));
  const auto* p = reinterpret_cast<const std::byte*>(b.GetBufferPointer());
  return {p, p + b.GetSize()};
}

struct Tally {
  int good = 0, bad = 0;
};

// Both verifiers say the same of `bytes`, with many limits and with few.
template <class Verify>
void compare(Bytes bytes, const TableSet& set, Verify theirs, Tally& tally) {
  for (const TableLimits limits : {TableLimits{16, 1'000'000}, TableLimits{3, 1'000'000}, TableLimits{16, 9}}) {
    flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), limits.depth, limits.tables);
    const bool expected = theirs(verifier);
    REQUIRE(verify_tables(bytes, set, limits) == expected);
    ++(expected ? tally.good : tally.bad);
  }
}

template <class Verify>
void compare_damaged(const std::vector<std::byte>& whole, const TableSet& set, Verify theirs) {
  Tally tally;
  compare(whole, set, theirs, tally);
  REQUIRE(tally.good >= 1);
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::byte> part(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    compare(part, set, theirs, tally);
  }
  for (size_t at = 0; at < whole.size(); ++at)  // each offset and each field of a vtable, by little and by much
    for (const int change : {1, 2, 4, 8, 0x7f, 0x80, 0xfc, 0xff}) {
      std::vector<std::byte> damaged = whole;
      damaged[at] = static_cast<std::byte>(static_cast<int>(damaged[at]) + change);
      compare(damaged, set, theirs, tally);
    }
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> damaged = whole;
    for (uint32_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t from = random() % whole.size(), to = random() % whole.size(), size = std::min({size_t{4}, whole.size() - from, whole.size() - to});
      std::memcpy(damaged.data() + to, whole.data() + from, size);
    }
    compare(damaged, set, theirs, tally);
  }
  CHECK(tally.good > 1000);
  CHECK(tally.bad > 1000);
}

}  // namespace

TEST_CASE("rows of the manifest's tables find what FlatBuffers' own functions find") {
  compare_damaged(full_manifest(), fbm::kTables, [](flatbuffers::Verifier& v) { return fbm::VerifyManifestBuffer(v); });
}

TEST_CASE("rows of the plan's tables find what FlatBuffers' own functions find") {
  compare_damaged(full_plan(), fbp::kTables, [](flatbuffers::Verifier& v) { return fbp::VerifyPlanBuffer(v); });
}
