// The self-test at the end of a build finds what is wrong with a file, and says where.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "packager/cli/build/apart.h"
#include "packager/cli/build/self_test.h"
#include "packager/compile/programs.h"
#include "tests/support/nests/nests.h"

using namespace mlc;

namespace {

const auto kSilent = [](const compile::Stage&) {};

// y = 2x of four floats, portable and for this machine, with golden vectors of these names. `answer`: what is expected of the
// second element, which is 2 * 0.5.
struct Doubling {
  std::filesystem::path folder = std::filesystem::temp_directory_path() / ("mlc-self-test-" + std::to_string(::getpid()));
  compile::FinishedFile file;

  explicit Doubling(const std::vector<std::string>& vectors, float answer = 1, const std::vector<std::string>& more_targets = {}) {
    std::filesystem::create_directories(folder);
    ir::Context ctx;
    test::NestMaker m(ctx);
    auto N = m.n(4);
    const uint32_t x = m.array("x", DType::F32, {N}), y = m.output("y", DType::F32, {N});
    auto n = m.dim("n", N);
    m.map({n}, y, {m.at(n)}, ctx.binary(ir::Op::Mul, m.load(x, {m.at(n)}), ctx.number(2, DType::F32)));
    m.f.name = "main";
    auto library = lang::Library::parse(lang::Library::builtin_files());
    REQUIRE(library.ok());
    std::vector<compile::Program> programs;
    programs.push_back({.function = std::move(m.f)});
    for (const std::string& name : vectors) {
      programs[0].golden.vectors.push_back({{nest::Tensor::of<float>(DType::F32, {4}, {0, 0.5f, 1, 2})}, {nest::Tensor::of<float>(DType::F32, {4}, {0, answer, 2, 4})}, {}, name});
      file.vectors.push_back({compile::golden_name("main", programs[0].golden.vectors.back()), "main", 1});
    }
    compile::WeightStore weights;
    auto parts = compile::optimise(ctx, programs, weights, {}, {}, true);
    REQUIRE(parts.ok());
    container::ContainerBuilder builder;
    builder.manifest.model.id = "local/doubling";
    builder.manifest.model.version = 1;
    builder.manifest.provenance.tool = "test";
    builder.manifest.provenance.tool_version = "1";
    compile::add_program(builder, programs[0], 1e-3);
    REQUIRE(weights.write(builder).ok());
    std::vector<const targets::Target*> targets = {targets::native_target(), targets::find_target("portable")};
    for (const std::string& name : more_targets) targets.push_back(targets::find_target(name));
    for (const targets::Target* target : targets) {
      auto variant = compile::compile_variant(ctx, *library, parts->of(*target), weights, *target);
      REQUIRE_MESSAGE(variant.ok(), (variant.ok() ? "" : variant.status().text()));
      compile::add_variant(builder, *variant, programs, 1e-3);
    }
    file.path = folder / "doubling.mlc";
    const Status written = builder.write(file.path, nullptr);
    REQUIRE_MESSAGE(written.ok(), written.text());
  }
  ~Doubling() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
};

size_t vectors_of(const cli::SelfTestReport& report, const std::string& variant) {
  for (const auto& v : report.variants)
    if (v.name == variant) return v.vectors;
  return 0;
}

}  // namespace

TEST_CASE("work apart answers with its status, whole") {
  CHECK(cli::run_apart([] { return ok(); }).ok());
  const Status s = cli::run_apart([] { return Status(Code::Malformed, 6001, "a sentence").fact("one").fact("").fact("two").hint("help"); });
  CHECK(s.code == Code::Malformed);
  CHECK(s.number == 6001);
  CHECK(s.message == "a sentence");
  CHECK(s.facts == std::vector<std::string>{"one", "", "two"});
  CHECK(s.help == "help");
  const std::string long_one(200000, 'x');
  CHECK(cli::run_apart([&] { return Status(Code::No, std::string(long_one)); }).message == long_one);
}

TEST_CASE("a crash apart is a status that names the signal, and an end without an answer is none") {
  const Status crash = cli::run_apart([]() -> Status {
    ::signal(SIGSEGV, SIG_DFL);  // sanitizers and the test runner have their own
    ::raise(SIGSEGV);
    return ok();
  });
  CHECK(crash.code == Code::SelfTest);
  CHECK(crash.message.find("signal 11") != std::string::npos);
  const Status left = cli::run_apart([]() -> Status { ::_exit(3); });
  CHECK(left.code == Code::SelfTest);
  CHECK(left.message.find("exit code 3") != std::string::npos);
  // How a process ends that has no memory to say anything: nothing is known of the variant.
  CHECK(cli::run_apart([]() -> Status { ::_exit(7); }).code == Code::Resource);
}

TEST_CASE("right answers pass in every variant of this machine") {
  Doubling d({"first", "second"});
  auto report = cli::self_test(d.file, kSilent);
  REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.status().text()));
  CHECK(report->vectors == 2);
  CHECK(vectors_of(*report, "portable") == 2);
  CHECK(vectors_of(*report, targets::native_target()->name) == 2);
  CHECK(report->text().find("2 vectors: ") == 0);
  CHECK(report->text().find("not here") == std::string::npos);
}

TEST_CASE("a wrong answer names variant, vector, element and both values") {
  Doubling d({"first"}, 3);
  auto report = cli::self_test(d.file, kSilent);
  REQUIRE(!report.ok());
  const Status s = report.status();
  CHECK(s.code == Code::SelfTest);
  INFO(s.text());
  for (const char* word : {"variant 'portable'", "vector 'main/first' of main", "y[1] is 1, expected 3", "rel 0.001"}) CHECK(s.text().find(word) != std::string::npos);
  CHECK(s.help.find("--no-selftest") != std::string::npos);
}

TEST_CASE("variants for other machines are named, not run") {
  const char* other = targets::native_target()->machine == Machine::X86_64 ? "armv8-a" : "x86-64-v2";
  Doubling d({"only"}, 1, {other});
  auto report = cli::self_test(d.file, kSilent);
  REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.status().text()));
  CHECK(report->text().find(std::string("not here: ") + other) != std::string::npos);
  CHECK(vectors_of(*report, other) == 0);
}

TEST_CASE("the portable form runs as much as its share of work allows, and at least one vector") {
  Doubling d({"a", "b", "c"});
  const std::string native = targets::native_target()->name;
  for (auto [each, portable] : {std::pair{cli::kPortableOperations / 2, size_t{2}}, {cli::kPortableOperations * 10, 1}, {cli::kPortableOperations / 3, 3}}) {
    for (auto& v : d.file.vectors) v.operations = each;
    auto report = cli::self_test(d.file, kSilent);
    REQUIRE(report.ok());
    CHECK(vectors_of(*report, "portable") == portable);
    CHECK(vectors_of(*report, native) == 3);
    const std::string share = "portable (" + std::to_string(portable) + " of them)";
    CHECK((report->text().find(share) != std::string::npos) == (portable < 3));
  }
}

TEST_CASE("a file without golden vectors says so") {
  cli::SelfTestReport report;
  CHECK(report.text().find("no golden vectors") != std::string::npos);
}
