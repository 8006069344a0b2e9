// mlc.hpp: runs that go on by themselves, and threads that sessions share.
#include "runtime/api/mlc.hpp"

#include <doctest/doctest.h>

#include <future>

#include "tests/support/api_sample.h"

using mlc::test::api_sample;
using mlc::test::expected_answer;
using mlrt::Input;

namespace {

using Answer = std::pair<int, std::vector<float>>;  // a code, and y

Answer answer_in(const mlrt::Result<mlrt::Outputs>& out) {
  if (!out) return {out.error().code(), {}};
  const auto y = out->values<float>("y");
  return y ? Answer{MLC_OK, {y->begin(), y->end()}} : Answer{y.error().code(), {}};
}

mlrt::Session session_of(const mlrt::SessionOptions& options = {}) {
  auto model = mlrt::Model::open(api_sample().signed_file, {.trust_keys = {api_sample().public_key_file}});
  REQUIRE(model);
  auto session = model->session(options);
  REQUIRE(session);
  return std::move(*session);
}

const std::vector<float> kX = {1, 2, 3}, kOther = {7};
std::vector<Input> inputs_of(const std::vector<float>& x) { return {Input("x", x, {static_cast<int64_t>(x.size())})}; }

}  // namespace

TEST_CASE("a run that goes on by itself calls its function once with the outputs") {
  auto session = session_of();
  std::promise<Answer> told;
  const auto started = session.run_async(inputs_of(kX), [&](mlrt::Result<mlrt::Outputs> out) { told.set_value(answer_in(out)); });
  REQUIRE(started);
  CHECK(told.get_future().get() == Answer{MLC_OK, expected_answer(kX)});
}

TEST_CASE("the function that is called at the end may start the next run, and may be one that cannot be copied") {
  auto session = session_of();
  std::promise<Answer> first, second;
  auto then = [&session, &first, last = std::make_unique<std::promise<Answer>*>(&second)](mlrt::Result<mlrt::Outputs> out) mutable {
    first.set_value(answer_in(out));
    std::promise<Answer>* const promise = *last;
    const auto next = session.run_async(inputs_of(kOther), [promise](mlrt::Result<mlrt::Outputs> o) { promise->set_value(answer_in(o)); });
    if (!next) promise->set_value({next.error().code(), {}});
  };
  REQUIRE(session.run_async(inputs_of(kX), std::move(then)));
  CHECK(first.get_future().get() == Answer{MLC_OK, expected_answer(kX)});
  CHECK(second.get_future().get() == Answer{MLC_OK, expected_answer(kOther)});
}

TEST_CASE("a stop token ends a run that goes on by itself, and inputs that do not fit end it too") {
  auto session = session_of();
  std::stop_source stop;
  stop.request_stop();
  std::promise<Answer> stopped, wrong;
  REQUIRE(session.run_async(inputs_of(kX), [&](auto out) { stopped.set_value(answer_in(out)); }, {.stop = stop.get_token()}));
  CHECK(stopped.get_future().get().first == MLC_CANCELLED);
  const auto started = session.run_async({Input("nobody", kX, {3})}, [&](auto out) { wrong.set_value(answer_in(out)); });
  // Said at once or at the end, but not both.
  CHECK((started ? wrong.get_future().get().first : started.error().code()) == MLC_INPUT_MISMATCH);
  auto out = session.run(inputs_of(kX));
  CHECK(answer_in(out) == Answer{MLC_OK, expected_answer(kX)});
}

TEST_CASE("a session that is destroyed waits for its run") {
  std::promise<Answer> told;
  auto future = told.get_future();
  {
    auto session = session_of();
    REQUIRE(session.run_async(inputs_of(kX), [&](auto out) { told.set_value(answer_in(out)); }));
  }
  CHECK(future.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
  CHECK(future.get() == Answer{MLC_OK, expected_answer(kX)});
}

TEST_CASE("sessions share a pool, which lives as long as they do") {
  std::optional<mlrt::Session> first, second;
  {
    auto pool = mlrt::Pool::create({.threads = 2});
    REQUIRE(pool);
    first = session_of({.pool = &*pool});
    second = session_of({.threads = 1, .pool = &*pool});
  }
  CHECK(second->info().threads == 1);
  std::promise<Answer> a, b;
  REQUIRE(first->run_async(inputs_of(kX), [&](auto out) { a.set_value(answer_in(out)); }));
  REQUIRE(second->run_async(inputs_of(kOther), [&](auto out) { b.set_value(answer_in(out)); }));
  CHECK(a.get_future().get() == Answer{MLC_OK, expected_answer(kX)});
  CHECK(b.get_future().get() == Answer{MLC_OK, expected_answer(kOther)});
  CHECK(mlrt::Pool::create({.cpus = {-1}}).error().code() == MLC_USAGE);
}

TEST_CASE("a ticket gives the end of its run once, and waits no longer than it is told") {
  auto session = session_of();
  for (int round = 0; round < 5; ++round) {
    auto ticket = session.start(inputs_of(kX));
    REQUIRE(ticket);
    std::optional<mlrt::Result<mlrt::Outputs>> out;
    while (!out) out = ticket->wait_for(std::chrono::microseconds(50));
    CHECK(answer_in(*out) == Answer{MLC_OK, expected_answer(kX)});
    CHECK(ticket->done());
    CHECK(answer_in(ticket->wait()).first == MLC_USAGE);
  }
  mlrt::Vector<float> mine(kX.size());
  const mlrt::Output y("y", mine);
  auto ticket = session.start(inputs_of(kX), std::span(&y, 1));
  REQUIRE(ticket);
  CHECK(answer_in(ticket->wait()) == Answer{MLC_OK, expected_answer(kX)});
  CHECK(std::vector<float>(mine.begin(), mine.end()) == expected_answer(kX));
}

TEST_CASE("a ticket that goes ends its run, whichever of the two goes first, and one that is stopped is cancelled") {
  auto session = session_of({.variant = "portable"});
  { auto ticket = session.start(inputs_of(kX)); }
  CHECK(answer_in(session.run(inputs_of(kOther))) == Answer{MLC_OK, expected_answer(kOther)});
  std::stop_source stop;
  stop.request_stop();
  auto stopped = session.start(inputs_of(kX), {.stop = stop.get_token()});
  REQUIRE(stopped);
  CHECK(answer_in(stopped->wait()).first == MLC_CANCELLED);
  CHECK(session.start(inputs_of(kX), {.program = "nothing"})->wait().error().code() == MLC_USAGE);
  std::optional<mlrt::Ticket> last;
  {
    auto other = session_of();
    last.emplace(*other.start(inputs_of(kX)));
    CHECK(other.start(inputs_of(kX)).error().code() == MLC_USAGE);
  }
  CHECK(answer_in(last->wait()) == Answer{MLC_OK, expected_answer(kX)});
}
