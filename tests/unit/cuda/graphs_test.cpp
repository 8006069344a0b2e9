// Recordings as graphs of CUDA: made at the second submission, of the same calls, and done without where the driver does not make them.
#include <doctest/doctest.h>

#include "tests/unit/cuda/run_on_fake.h"

namespace mlc {
namespace {

using namespace testing;

// One run more, with inputs from `first` on; whether it gave in + n.
bool is_right(Run& run, int64_t first, int64_t n) {
  auto* in = reinterpret_cast<int64_t*>(run.staging->data());
  std::iota(in, in + 96, first);
  const auto done = run.run();
  if (!done.ok()) FAIL(done.status().text());
  bool right = *done;
  for (size_t k = 0; k < 96; ++k) right = right && run.out(k) == first + static_cast<int64_t>(k) + n;
  return right;
}

TEST_CASE("a recording is a graph from its second submission on, and reads what stands in its memory then") {
  const auto context = open();
  const uint64_t before = fake().graphs();
  {
    Run run(*context);
    REQUIRE(run.record(3, 7).ok());
    CHECK(is_right(run, 1, 7));
    CHECK(fake().graph_launches() == 0);
    for (int64_t k = 1; k <= 3; ++k) {
      CHECK(is_right(run, 100 * k, 7));
      CHECK(fake().graph_launches() == k);
    }
    CHECK(fake().graphs() == before + 1);
    CHECK(context->remarks().empty());
    REQUIRE(run.record(3, 8).ok());  // another recording: the old graph goes
    CHECK(fake().graphs() == before);
    CHECK(is_right(run, 5, 8));
    CHECK(is_right(run, 6, 8));
    CHECK(fake().graphs() == before + 1);
  }
  CHECK(fake().graphs() == before);
}

TEST_CASE("a fault of a kernel is told of a graph too, and the next run has none") {
  const auto context = open();
  Run run(*context);
  REQUIRE(run.record(3, 1).ok());
  for (int k = 0; k < 4; ++k) {
    reinterpret_cast<int64_t*>(run.staging->data())[70] = k % 2 ? 1001 : 1;
    REQUIRE(run.run().ok());
    CHECK(run.recording->fault().code == (k % 2 ? MLRUN_FAULT_INDEX : 0));
  }
  CHECK(fake().graph_launches() == 3);
}

TEST_CASE("a graph that reaches beyond its memory ends the device as launches do") {
  const auto context = open();
  Run run(*context);
  REQUIRE(run.record(3, 1).ok());
  REQUIRE(run.run().ok());
  fake().reset("fail_launch=1");  // the next one, which is the graph's
  CHECK(!run.run().ok());
  CHECK(!context->alive().ok());
  CHECK(context->remarks().empty());
}

TEST_CASE("where a call of graphs is refused, everything is enqueued command by command, and one line says so") {
  for (const char* call : {"cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch"}) {
    CAPTURE(call);
    const auto context = open((std::string("fail_") + call + "=801").c_str());
    const uint64_t before = fake().graphs();
    {
      Run run(*context);
      REQUIRE(run.record(3, 2).ok());
      for (int64_t k = 0; k < 4; ++k) CHECK(is_right(run, 10 * k, 2));
      CHECK(fake().graph_launches() == 0);
      CHECK(fake().graphs() == before);
      REQUIRE(context->remarks().size() == 1);
      CHECK(context->remarks()[0].find("CUDA_ERROR_NOT_SUPPORTED") != std::string::npos);
      CHECK(context->alive().ok());
      REQUIRE(run.record(3, 3).ok());  // the line is the same
      for (int64_t k = 0; k < 3; ++k) CHECK(is_right(run, 10 * k, 3));
      CHECK(context->remarks().size() == 1);
    }
  }
}

TEST_CASE("graphs that the driver does not let go harm nobody") {
  for (const char* call : {"cuGraphDestroy", "cuGraphExecDestroy"}) {
    CAPTURE(call);
    const auto context = open((std::string("fail_") + call + "=1").c_str());
    Run run(*context);
    REQUIRE(run.record(3, 2).ok());
    for (int64_t k = 0; k < 3; ++k) CHECK(is_right(run, 10 * k, 2));
    REQUIRE(run.record(3, 2).ok());
    CHECK(is_right(run, 1, 2));
  }
}

TEST_CASE("a device that is lost while a graph is made is lost") {
  for (const char* call : {"cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphDestroy"}) {
    CAPTURE(call);
    const auto context = open((std::string("fail_") + call + "=719").c_str());
    {
      Run run(*context);
      REQUIRE(run.record(3, 2).ok());
      CHECK(is_right(run, 1, 2));
      CHECK(!run.run().ok());
      CHECK(!context->alive().ok());
      CHECK(!run.run().ok());
    }
    fake().reset("");
  }
}

TEST_CASE("a command that is refused while it is captured leaves the stream of use") {
  const auto context = open();
  Run run(*context);
  REQUIRE(run.record(3, 2).ok());
  CHECK(is_right(run, 1, 2));
  fake().reset("fail_cuMemsetD8Async=1");
  CHECK(!run.run().ok());  // neither captured nor played
  CHECK(context->alive().ok());
  fake().reset("");
  Run again(*context);
  REQUIRE(again.record(3, 2).ok());
  CHECK(is_right(again, 1, 2));
}

TEST_CASE("drivers without graphs, or with those of before 11.4") {
  const auto found = Library::open();
  REQUIRE(found.ok());
  Library older = **found;
  older.GraphInstantiateWithFlags = nullptr;
  CHECK(older.has_graphs());
  {
    const auto context = open("fail_cuGraphInstantiateWithFlags=1", &older);
    Run run(*context);
    REQUIRE(run.record(3, 4).ok());
    for (int64_t k = 0; k < 3; ++k) CHECK(is_right(run, k, 4));
    CHECK(fake().graph_launches() == 2);
  }
  const auto without = [&](auto Library::* function) {
    Library none = older;
    none.*function = nullptr;
    CHECK(!none.has_graphs());
    const auto context = open("", &none);
    Run run(*context);
    REQUIRE(run.record(3, 4).ok());
    for (int64_t k = 0; k < 3; ++k) CHECK(is_right(run, k, 4));
    CHECK(fake().graph_launches() == 0);
    CHECK(context->remarks().empty());  // the line of the driver says it
  };
  without(&Library::GraphInstantiate);
  without(&Library::StreamBeginCapture);
  without(&Library::StreamEndCapture);
  without(&Library::GraphLaunch);
  without(&Library::GraphExecDestroy);
  without(&Library::GraphDestroy);
}

}  // namespace
}  // namespace mlc
