#include "runtime/match/brief.h"
#include "runtime/match/matcher.h"

#include <doctest/doctest.h>

#include "runtime/probe/probe.h"
#include "schema/targets.h"
#include "tests/support/fake_sources.h"

using namespace mlc;
using mlc::probe::Answer;

namespace {

format::Variant variant_for(std::string_view target) {
  format::Variant v;
  v.name = v.target = target;
  if (target == "portable") {
    v.family = "portable";
    v.module_format = format::ModuleFormat::Portable;
    return v;
  }
  v.family = "cpu";
  v.module_format = format::ModuleFormat::Elf;
  const TargetRow* row = target_named(target);
  REQUIRE(row);
  for_each_feature(*row, [&](Feature f) { v.features.push_back(static_cast<uint32_t>(f)); });
  v.features.push_back(static_cast<uint32_t>(Feature::OsCodePages));
  const auto clause = [&](Feature f, format::ClauseOp op, int64_t value) {
    v.clauses.push_back({static_cast<uint32_t>(f), op, {value}});
  };
  clause(Feature::HostArch, format::ClauseOp::Equal, static_cast<int64_t>(row->machine));
  clause(Feature::OsPageSize, format::ClauseOp::Divides, 65536);
  clause(Feature::ModuleAbi, format::ClauseOp::AtLeast, 1);
  return v;
}

std::vector<format::Variant> fleet() {
  std::vector<format::Variant> out;
  for (const char* t : {"armv8-a", "portable", "rv64gc", "x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4+amx"})
    out.push_back(variant_for(t));
  return out;
}

std::string names(const std::vector<format::Variant>& all, const std::vector<uint32_t>& picked) {
  std::string out;
  for (uint32_t i : picked) out += (out.empty() ? "" : " ") + all[i].name;
  return out;
}

int allow_amx() { return 0; }
int refuse_amx() { return 95; }

}  // namespace

TEST_CASE("the richest native variant comes first, portable last, foreign ones not at all") {
  const auto record = probe::run(test::FakeSources::x86_v4());
  const auto all = fleet();
  const Matcher m(record, all);
  CHECK(names(all, m.candidates("", "").value()) == "x86-64-v4 x86-64-v3 x86-64-v2 portable");
  CHECK(m.assessments()[0].reason().find("host.arch == aarch64 no (found x86-64") != std::string::npos);
}

TEST_CASE("when XCR0 lacks the AVX-512 state v4 is out and the reason names every clause") {
  auto s = test::FakeSources::x86_v4();
  s.xcr0 = 7;
  const auto record = probe::run(s);
  const auto all = fleet();
  const Matcher m(record, all);
  CHECK(names(all, m.candidates("", "").value()) == "x86-64-v3 x86-64-v2 portable");
  const Assessment& v4 = m.assessments()[5];
  CHECK(v4.failing.size() == 5);
  CHECK(v4.reason().find("x86.avx512f no (xcr0") != std::string::npos);
}

TEST_CASE("on RISC-V vectors come first where there are some of version 1.0, of a length that the code knows") {
  auto s = test::FakeSources();
  s.arch = Machine::RiscV64;
  s.auxiliary = {{16, 0x20112d}};
  s.vlenb = 32;
  auto all = fleet();
  all.push_back(variant_for("rv64gcv"));
  all.back().clauses.push_back({static_cast<uint32_t>(Feature::RvVlenb), format::ClauseOp::AtMost, {128}});
  const auto picked = [&] {
    const auto record = probe::run(s);
    return names(all, Matcher(record, all).candidates("", "").value());
  };
  CHECK(picked() == "rv64gcv rv64gc portable");
  s.vlenb = 256;
  CHECK(picked() == "rv64gc portable");
  const auto record = probe::run(s);
  const Matcher m(record, all);
  CHECK(m.assessments().back().reason().find("rv.vlenb <= 128 no") != std::string::npos);
  s.vlenb = 32, s.is_draft_vector = true;
  CHECK(picked() == "rv64gc portable");
}

TEST_CASE("code for vectors of SVE fits where this thread's are as long, or longer") {
  auto s = test::FakeSources();
  s.arch = Machine::AArch64;
  s.auxiliary = {{16, 0x415ffb}, {26, 0}};
  auto all = fleet();
  for (const auto& [name, bytes] : {std::pair{"armv8-a+sve256", 32}, {"armv8-a+sve512", 64}}) {
    all.push_back(variant_for(name));
    all.back().clauses.push_back({static_cast<uint32_t>(Feature::A64SveVlBytes), format::ClauseOp::AtLeast, {bytes}});
  }
  const auto fitting = [&](int64_t bytes) {
    s.prctls[51] = {bytes, 0};
    const auto record = probe::run(s);
    std::string out;
    const std::vector<uint32_t> picked = Matcher(record, all).candidates("", "").value();
    for (const uint32_t k : picked) out += all[k].name.substr(all[k].name.find('+') + 1) + " ";
    return out;
  };
  CHECK(fitting(16) == "armv8-a portable ");
  CHECK(fitting(32) == "sve256 armv8-a portable ");
  CHECK(fitting(64) == "sve512 sve256 armv8-a portable ");
  CHECK(fitting(256) == "sve512 sve256 armv8-a portable ");
  s.prctls[51] = {0, 22};
  const auto record = probe::run(s);
  CHECK(Matcher(record, all).candidates("", "").value().size() == 2);
  CHECK(Matcher(record, all).assessments().back().reason().find("a64.sve_vl_bytes >= 64 unknown") != std::string::npos);
}

TEST_CASE("a complete estimate decides before the number of features, a partial one does not") {
  const auto record = probe::run(test::FakeSources::x86_v4());
  auto all = fleet();
  format::Cost cheap, dear;
  cheap.ns = 100, dear.ns = 200;
  all[4].cost = {cheap};
  all[5].cost = {dear};
  CHECK(names(all, Matcher(record, all).candidates("", "").value()).starts_with("x86-64-v4"));
  all[3].cost = {dear};
  CHECK(names(all, Matcher(record, all).candidates("", "").value()) == "x86-64-v3 x86-64-v4 x86-64-v2 portable");
}

TEST_CASE("of variants that ask for equally much the one that asks for the newest comes first") {
  const auto record = probe::run(test::FakeSources::x86_v4());  // os.page_size is 4096
  auto all = std::vector(3, variant_for("x86-64-v3"));
  const int64_t least[] = {512, 4096, 1024};
  for (size_t k = 0; k < all.size(); ++k) {
    all[k].name = "v" + std::to_string(k);
    all[k].clauses.push_back({static_cast<uint32_t>(Feature::OsPageSize), format::ClauseOp::AtLeast, {least[k]}});
  }
  CHECK(names(all, Matcher(record, all).candidates("", "").value()) == "v1 v2 v0");
}

TEST_CASE("a variant is for the programs that it has code for") {
  const auto record = probe::run(test::FakeSources::x86_v4());
  auto all = fleet();
  std::vector<format::Method> methods(3);
  methods[0].name = "detect", methods[1].name = "find", methods[2].name = "read";
  all[5].methods = {0, 1};  // x86-64-v4
  const auto best = [&](std::vector<uint32_t> programs) {
    MatchPolicy policy;
    policy.programs = std::move(programs);
    policy.methods = methods;
    const Matcher m(record, all, policy);
    return std::pair{all[m.candidates("", "").value().front()].name, m.assessments()[5].reason()};
  };
  CHECK(best({}).first == "x86-64-v4");
  CHECK(best({1}).first == "x86-64-v4");
  CHECK(best({0, 1}).first == "x86-64-v4");
  CHECK(best({0, 2}) == std::pair<std::string, std::string>{"x86-64-v3", "has no code for program 'read'"});
  CHECK(has_code_for(all[5], 1));
  CHECK_FALSE(has_code_for(all[5], 2));
  CHECK(has_code_for(all[4], 2));  // none is listed
}

TEST_CASE("--variant picks within C; outside it prints the failing clauses; an unknown name is a usage error") {
  const auto record = probe::run(test::FakeSources::x86_v4());
  const auto all = fleet();
  const Matcher m(record, all);
  CHECK(names(all, m.candidates("x86-64-v2", "").value()) == "x86-64-v2");
  const auto arm = m.candidates("armv8-a", "");
  REQUIRE(!arm);
  CHECK(arm.status().code == Code::NoVariant);
  CHECK(arm.status().text().find("built for aarch64") != std::string::npos);
  CHECK(m.candidates("x86-64-v9", "").status().code == Code::Usage);
}

TEST_CASE("--require native refuses the portable form with the reasons of all others") {
  auto s = test::FakeSources::x86_v4();
  s.code_refusals = {{CodePages::Anonymous, "EACCES"}, {CodePages::SealedFd, "EACCES"}};
  const auto record = probe::run(s);
  const auto all = fleet();
  const Matcher m(record, all);
  CHECK(names(all, m.candidates("", "").value()) == "portable");
  const auto native = m.candidates("", "native");
  REQUIRE(!native);
  CHECK(native.status().code == Code::NoVariant);
  CHECK(native.status().text().find("lacks os.code_pages") != std::string::npos);
  CHECK(m.candidates("", "portable").ok());
  CHECK(!m.candidates("", "cuda").ok());
}

TEST_CASE("without trust no native variant is a candidate, whatever the hardware") {
  const auto record = probe::run(test::FakeSources::x86_v4());
  const auto all = fleet();
  Matcher m(record, all, {.native_allowed = false, .why_not = "not signed"});
  CHECK(names(all, m.candidates("", "").value()) == "portable");
  CHECK(m.assessments()[5].reason() == "not signed");
  CHECK(!m.admit(5));
  CHECK(m.admit(1));
}

TEST_CASE("where trust is all that is missing, the error says so and how to give it") {
  const auto record = probe::run(test::FakeSources::x86_v4());
  const auto all = fleet();
  const Matcher m(record, all, {.native_allowed = false, .why_not = "not signed", .how_to_allow = "mlpack sign it"});
  const auto native = m.candidates("", "native");
  REQUIRE(!native);
  CHECK(native.status().message.find("needs trust, and the file is not signed") != std::string::npos);
  CHECK(native.status().help == "mlpack sign it");
  // Where nothing would fit anyway, trust is no help.
  auto foreign = std::vector{all[0]};
  const Matcher other(record, foreign, {.native_allowed = false, .why_not = "not signed", .how_to_allow = "mlpack sign it"});
  CHECK(other.candidates("", "native").status().help != "mlpack sign it");
}

TEST_CASE("a reason in brief names the machine, or some features and how many more") {
  using Failing = std::vector<FailingClause>;
  const auto no = probe::Answer::No, unknown = probe::Answer::Unknown;
  CHECK(match::brief_reason(Failing{}).empty());
  CHECK(match::brief_reason(Failing{{"a64.dotprod", no, "x"}, {"host.arch == aarch64", no, "found x86-64"}}) == "built for aarch64");
  CHECK(match::brief_reason(Failing{{"x86.a", no, "cpuid"}, {"x86.b", no, "y"}}) == "lacks x86.a, x86.b (cpuid)");
  Failing many;
  for (char c = 'a'; c < 'n'; ++c) many.push_back({std::string("x86.") + c, no, "xcr0"});
  CHECK(match::brief_reason(many) == "lacks x86.a, x86.b, x86.c and 10 more (xcr0)");
  CHECK(match::brief_reason(Failing{{"x86.a", unknown, "no cpuid"}, {"os.page_size divides 65536", no, "3"}}) ==
        "not known here: x86.a (no cpuid); os.page_size divides 65536: no (3)");
}

TEST_CASE("an id that this version does not know makes the variant incompatible, not fatal") {
  const auto record = probe::run(test::FakeSources::x86_v4());
  auto all = fleet();
  all[3].features.push_back(999999);
  all[4].clauses.push_back({777777, format::ClauseOp::AtLeast, {0}});
  const Matcher m(record, all);
  CHECK(names(all, m.candidates("", "").value()) == "x86-64-v4 portable");
  CHECK(m.assessments()[3].unknown);
  CHECK(m.assessments()[3].reason() == "feature 999999 unknown (not known to this version)");
}

TEST_CASE("clauses on numbers: every operation, wrong arity, flags as numbers and numbers as flags") {
  const auto record = probe::run(test::FakeSources::x86_v4());  // os.page_size is 4096
  const auto fits = [&](format::ClauseOp op, std::vector<int64_t> values, Feature f = Feature::OsPageSize) {
    auto v = std::vector{variant_for("portable")};
    v[0].clauses.push_back({static_cast<uint32_t>(f), op, std::move(values)});
    return Matcher(record, v).assessments()[0].fits;
  };
  using enum format::ClauseOp;
  CHECK(fits(Equal, {4096}));
  CHECK(!fits(Equal, {4095}));
  CHECK(fits(AtLeast, {4096}));
  CHECK(!fits(AtLeast, {4097}));
  CHECK(fits(AtMost, {4096}));
  CHECK(!fits(AtMost, {4095}));
  CHECK(fits(Divides, {65536}));
  CHECK(!fits(Divides, {6000}));
  CHECK(fits(OneOf, {1, 4096}));
  CHECK(!fits(OneOf, {1, 2}));
  CHECK(!fits(Equal, {}));
  CHECK(!fits(Equal, {4096, 4096}));
  CHECK(!fits(None, {4096}));
  CHECK(!fits(AtLeast, {0}, Feature::X86Avx2));
  CHECK(!fits(AtLeast, {0}, Feature::A64SveVlBytes));
  auto v = std::vector{variant_for("portable")};
  v[0].features.push_back(static_cast<uint32_t>(Feature::OsPageSize));
  CHECK(!Matcher(record, v).assessments()[0].fits);
}

TEST_CASE("turning any yes into unknown only removes candidates") {
  const auto full = probe::run(test::FakeSources::x86_v4());
  const auto all = fleet();
  const Matcher before(full, all);
  size_t fitting = 0;
  for (size_t i = 0; i < kNumFeatures; ++i) {
    auto less = full;
    less.features[i].answer = Answer::Unknown;
    const Matcher after(less, all);
    for (size_t v = 0; v < all.size(); ++v) {
      if (!after.assessments()[v].fits) continue;
      ++fitting;
      CHECK(before.assessments()[v].fits);
    }
  }
  CHECK(fitting > 0);
}

TEST_CASE("AMX: the permission is asked for at admission only, and a refusal takes the variant out") {
  auto s = test::FakeSources::x86_v4();
  s.leaves[{7, 0}].edx |= 1u << 22 | 1u << 24 | 1u << 25;
  s.xcr0 |= 0x60000;
  s.xcomp = {1 << 18, 0};
  const auto record = probe::run(s);
  const auto all = fleet();
  Matcher granted(record, all, {}, &allow_amx);
  CHECK(granted.admit(6));
  Matcher refused(record, all, {}, &refuse_amx);
  CHECK(names(all, refused.candidates("", "").value()).starts_with("x86-64-v4+amx"));
  CHECK(!refused.admit(6));
  CHECK(names(all, refused.candidates("", "").value()).starts_with("x86-64-v4 "));
  CHECK(refused.admit(5));
}

TEST_CASE("a rejected variant stays out") {
  const auto record = probe::run(test::FakeSources::x86_v4());
  const auto all = fleet();
  Matcher m(record, all);
  m.reject(5, "its module is damaged");
  CHECK(names(all, m.candidates("", "").value()) == "x86-64-v3 x86-64-v2 portable");
  CHECK(!m.admit(5));
  CHECK(m.assessments()[5].reason() == "its module is damaged");
}

TEST_CASE("the token carries what the loader needs and cannot be copied") {
  const auto record = probe::run(test::FakeSources::x86_v4());
  const auto all = fleet();
  Matcher m(record, all);
  const Compatible token = m.admit(5).value();
  CHECK(token.name() == "x86-64-v4");
  CHECK(token.variant() == 5);
  CHECK(token.host().machine == Machine::X86_64);
  CHECK(token.host().page_size == 4096);
  static_assert(!std::is_copy_constructible_v<Compatible> && !std::is_default_constructible_v<Compatible>);
  static_assert(!std::is_constructible_v<Compatible, uint32_t, std::string, HostFacts>);
}
