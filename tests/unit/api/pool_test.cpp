// Pools that the application makes, and which CPUs they are made of.
#include "runtime/api/session/pool.h"

#include <sched.h>

#include "tests/support/api_sample.h"

using namespace mlc;
using namespace mlc::test;

namespace {

// Four CPUs, two to a core: 0 and 2, 1 and 3.
probe::Topology two_cores() {
  probe::Topology t;
  t.allowed_cpus = {0, 1, 2, 3};
  t.core_of = {0, 1, 0, 1};
  t.worker_cpus = {0, 1};
  t.cores = 2;
  return t;
}

using Cpus = std::vector<int>;

}  // namespace

TEST_CASE("a pool has a thread for each core, and seats where it has as many as there are cores") {
  const probe::Topology t = two_cores();
  const PoolOptions all = api::pool_options(t).value();
  CHECK(all.workers == 2);
  CHECK(all.cpus == Cpus{0, 1, 2, 3});
  CHECK(all.seats == Cpus{0, 1, 2, 3});  // a CPU of each core first
  CHECK(!all.pin);
  const PoolOptions one = api::pool_options(t, 1).value();
  CHECK(one.workers == 1);
  CHECK(one.seats.empty());  // another process would take the same
  const PoolOptions pinned = api::pool_options(t, 1, {}, true).value();
  CHECK(pinned.seats == Cpus{0, 1, 2, 3});
  CHECK(pinned.pin);
  probe::Topology quota = t;
  quota.quota_cpus = 1.5;
  CHECK(api::pool_options(quota).value().workers == 1);
  CHECK(api::pool_options(quota, 2).value().workers == 2);  // who asks for more gets it
}

TEST_CASE("the cores that runs have by default come first in a pool of all") {
  probe::Topology t = two_cores();  // 1 and 3 are the fast core
  t.core_of = {1, 0, 1, 0};
  t.worker_cpus = {1, 0};
  t.slow_cores = 1;
  const PoolOptions one = api::pool_options(t, probe::workers_for(t, 0)).value();
  CHECK(one.workers == 1);
  CHECK(one.near_cpus == Cpus{1, 3});
  CHECK(one.cpus == Cpus{0, 1, 2, 3});
  const PoolOptions all = api::pool_options(t).value();
  CHECK(all.workers == 2);  // a pool that the application makes has a thread for each core
  CHECK(all.near_workers == 0);
  CHECK(all.seats == Cpus{1, 0, 2, 3});
  const Cpus given = {0, 1};
  CHECK(api::pool_options(t, 0, given).value().seats == Cpus{0, 1});  // in the order given
}

TEST_CASE("a pool runs on those of its CPUs that the process may use, in the order given") {
  probe::Topology t = two_cores();
  const Cpus three_and_others = {3, 7, 1, 2, -1};
  const PoolOptions some = api::pool_options(t, 0, three_and_others).value();
  CHECK(some.cpus == Cpus{3, 1, 2});
  CHECK(some.workers == 2);
  CHECK(some.seats == Cpus{3, 2, 1});  // 1 is on the core of 3
  const Cpus siblings = {1, 3};
  CHECK(api::pool_options(t, 0, siblings).value().workers == 1);
  const Cpus none = {7, 4096};
  const auto refused = api::pool_options(t, 0, none);
  REQUIRE(!refused.ok());
  CHECK(refused.status().code == Code::Usage);
  CHECK(refused.status().message == "the process may use none of the 2 CPUs that the pool is given");
}

TEST_CASE("sessions of a pool have as many threads as it has, or fewer if they want fewer") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  auto o = sized<MlcPoolOptions>();
  o.threads = 3;
  MlcPool* pool = nullptr;
  REQUIRE(lib().pool_create(&o, &pool, nullptr) == MLC_OK);
  for (const uint32_t wanted : {0u, 1u, 2u, 3u, 4u}) {
    auto options = sized<MlcSessionOptions>();
    options.pool = pool;
    options.threads = wanted;
    options.pin_caller = 0;
    MlcSession* sessions[2] = {};
    for (MlcSession*& session : sessions) {
      REQUIRE(lib().session_create(m.model, &options, &session, nullptr) == MLC_OK);
      auto info = sized<MlcSessionInfo>();
      REQUIRE(lib().session_info(session, &info) == MLC_OK);
      CHECK(info.threads == (wanted == 0 || wanted > 3 ? 3 : wanted));
      CHECK(lib().selftest(session, nullptr, nullptr, nullptr) == MLC_USAGE);
      auto report = sized<MlcSelftest>();
      CHECK(lib().selftest(session, nullptr, &report, nullptr) == MLC_OK);
    }
    for (MlcSession* session : sessions) lib().session_release(session);
  }
  lib().pool_release(pool);
  lib().pool_release(nullptr);
}

TEST_CASE("a pool that cannot be is refused") {
  auto o = sized<MlcPoolOptions>();
  MlcPool* pool = nullptr;
  const auto create = [&] { return told_by([&](MlcError** e) { return lib().pool_create(&o, &pool, e); }); };
  o.threads = 5000;
  CHECK(create().code == MLC_USAGE);
  CHECK(create().message == "number of threads: found 5000, expected 1 to 4096");
  o.threads = 1;
  const int32_t cpus[] = {-1};
  o.cpus = cpus;
  o.num_cpus = 1;
  CHECK(create().code == MLC_USAGE);
  CHECK(pool == nullptr);
  CHECK(lib().pool_create(&o, nullptr, nullptr) == MLC_USAGE);
  o.num_cpus = 0;
  CHECK(create().code == MLC_OK);
  lib().pool_release(pool);
}

TEST_CASE("a session of one thread leaves its caller where it is: other processes do the same") {
  const ApiSample& s = api_sample();
  Opened m(s.signed_file, s.public_key_file);
  const probe::Topology& t = probe::host().topology;
  if (t.cores < 2) return;
  auto options = sized<MlcSessionOptions>();
  options.threads = 1;
  options.pin_caller = 1;
  MlcSession* session = nullptr;
  REQUIRE(lib().session_create(m.model, &options, &session, nullptr) == MLC_OK);
  auto report = sized<MlcSelftest>();
  CHECK(lib().selftest(session, nullptr, &report, nullptr) == MLC_OK);
  cpu_set_t mine;
  CPU_ZERO(&mine);
  REQUIRE(sched_getaffinity(0, sizeof mine, &mine) == 0);
  CHECK(CPU_COUNT(&mine) == static_cast<int>(t.allowed_cpus.size()));
  lib().session_release(session);
}
