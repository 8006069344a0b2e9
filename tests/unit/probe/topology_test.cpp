#include <doctest/doctest.h>

#include <numeric>

#include "runtime/probe/cgroup.h"
#include "runtime/probe/probe.h"
#include "runtime/probe/text.h"
#include "tests/support/fake_sources.h"

using namespace mlc;
using namespace mlc::probe;
using mlc::test::FakeSources;

namespace {

const char* const kV2Mount = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

FakeSources machine_with(int cpus) {
  FakeSources s = FakeSources::x86_v4();
  s.cpus.resize(static_cast<size_t>(cpus));
  std::iota(s.cpus.begin(), s.cpus.end(), 0);
  return s;
}

Topology topology_of(const FakeSources& s) {
  Record r;
  probe_topology(s, r);
  return r.topology;
}

Layout layout_of(const FakeSources& s) { return probe_layout(s, topology_of(s)); }

}  // namespace

TEST_CASE("cpu lists: no text makes a long list") {
  CHECK(parse_cpu_list("0-65535").size() == 65536);
  CHECK(parse_cpu_list("0-65536").empty());
  CHECK(parse_cpu_list("0-999999999\n").empty());
  CHECK(parse_cpu_list("0-18446744073709551615").empty());
  CHECK(parse_cpu_list("1000000000").empty());
  CHECK(parse_cpu_list("4-7,0-3").empty());  // never written by the kernel: it lists the bits of a set
  CHECK(parse_cpu_list("0-3,3").empty());
  std::string again;  // a megabyte that would be 8.6 * 10^9 numbers
  while (again.size() < (1 << 20)) again += "0-65535,";
  CHECK(parse_cpu_list(again).empty());
}

TEST_CASE("cpu lists: ranges, offline gaps, and what is refused") {
  CHECK(parse_cpu_list("0-3,8,10-11\n") == std::vector<int>{0, 1, 2, 3, 8, 10, 11});
  CHECK(parse_cpu_list("").empty());
  CHECK(parse_cpu_list("3-1").empty());
  CHECK(parse_cpu_list("a").empty());
  CHECK(parse_cpu_list("0-99999999999").empty());
  CHECK(parse_cpu_list("-4").empty());
}

TEST_CASE("one worker per physical core, not per sibling") {
  FakeSources s = machine_with(4);
  for (int c = 0; c < 4; ++c)
    s.files["/sys/devices/system/cpu/cpu" + std::to_string(c) + "/topology/core_cpus_list"] = c % 2 ? "1,3\n" : "0,2\n";
  const Topology t = topology_of(s);
  CHECK(t.cores == 2);
  CHECK(t.worker_cpus == std::vector<int>{0, 1});
  CHECK(t.core_of == std::vector<unsigned>{0, 1, 0, 1});
  CHECK(t.workers == 2);
}

TEST_CASE("where no core has siblings no CPU is asked for its own") {
  FakeSources s = machine_with(2);
  for (int c = 0; c < 2; ++c) s.files["/sys/devices/system/cpu/cpu" + std::to_string(c) + "/topology/core_cpus_list"] = "0-1\n";
  s.files["/sys/devices/system/cpu/smt/active"] = "1\n";
  CHECK(topology_of(s).cores == 1);
  s.files["/sys/devices/system/cpu/smt/active"] = "0\n";
  CHECK(topology_of(s).cores == 2);
}

TEST_CASE("128 CPUs without topology files are 128 cores; --threads lowers, never raises") {
  const Topology t = topology_of(machine_with(128));
  CHECK(t.workers == 128);
  CHECK(workers_for(t, 7) == 7);
  CHECK(workers_for(t, 1000) == 128);
}

TEST_CASE("unequal capacities are noticed") {
  FakeSources s = machine_with(2);
  s.files["/sys/devices/system/cpu/cpu0/cpu_capacity"] = "1024\n";
  s.files["/sys/devices/system/cpu/cpu1/cpu_capacity"] = "446\n";
  CHECK(layout_of(s).uneven_cores);
  s.files["/sys/devices/system/cpu/cpu1/cpu_capacity"] = "1024\n";
  CHECK(!layout_of(s).uneven_cores);
}

TEST_CASE("packages and NUMA nodes are counted; what no file tells is one") {
  FakeSources s = machine_with(3);
  CHECK(layout_of(s).packages == 1);
  CHECK(layout_of(s).numa_nodes == 1);
  for (int c = 0; c < 3; ++c)
    s.files["/sys/devices/system/cpu/cpu" + std::to_string(c) + "/topology/physical_package_id"] = c == 1 ? "7\n" : "0\n";
  s.files["/sys/devices/system/node/online"] = "0-2\n";
  CHECK(layout_of(s).packages == 2);
  CHECK(layout_of(s).numa_nodes == 3);
}

TEST_CASE("cgroup v2: the least quota of all ancestors, rounded down") {
  FakeSources s = machine_with(8);
  s.files["/proc/self/mountinfo"] = kV2Mount;
  s.files["/proc/self/cgroup"] = "0::/a/b/c\n";
  s.files["/sys/fs/cgroup/a/b/c/cpu.max"] = "max 100000\n";
  s.files["/sys/fs/cgroup/a/b/cpu.max"] = "350000 100000\n";
  s.files["/sys/fs/cgroup/a/cpu.max"] = "600000 100000\n";
  const Topology t = topology_of(s);
  CHECK(*t.quota_cpus == doctest::Approx(3.5));
  CHECK(t.workers == 3);
  CHECK(workers_reason(t).find("3.50") != std::string::npos);
}

TEST_CASE("cgroup v2: max everywhere is no quota") {
  FakeSources s = machine_with(8);
  s.files["/proc/self/mountinfo"] = kV2Mount;
  s.files["/proc/self/cgroup"] = "0::/\n";
  s.files["/sys/fs/cgroup/cpu.max"] = "max 100000\n";
  CHECK(!topology_of(s).quota_cpus);
  CHECK(topology_of(s).workers == 8);
}

TEST_CASE("a quota below one CPU leaves one worker and says that it is throttled") {
  FakeSources s = machine_with(2);
  s.files["/proc/self/mountinfo"] = kV2Mount;
  s.files["/proc/self/cgroup"] = "0::/x\n";
  s.files["/sys/fs/cgroup/x/cpu.max"] = "50000 100000\n";
  const Topology t = topology_of(s);
  CHECK(t.workers == 1);
  CHECK(workers_reason(t).find("throttled") != std::string::npos);
}

TEST_CASE("cgroup v1: quota with its own mount, -1 is none, nested") {
  FakeSources s = machine_with(8);
  s.files["/proc/self/mountinfo"] =
      "31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
      "32 30 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
  s.files["/proc/self/cgroup"] = "5:cpuset:/set\n4:cpu,cpuacct:/job/step\n0::/\n";
  s.files["/sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_quota_us"] = "-1\n";
  s.files["/sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_period_us"] = "100000\n";
  s.files["/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us"] = "150000\n";
  s.files["/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us"] = "100000\n";
  s.files["/sys/fs/cgroup/cpuset/set/cpuset.cpus"] = "1-4\n";
  const Topology t = topology_of(s);
  CHECK(*t.quota_cpus == doctest::Approx(1.5));
  CHECK(t.allowed_cpus == std::vector<int>{1, 2, 3, 4});
  CHECK(t.workers == 1);
}

TEST_CASE("hybrid: limits of both hierarchies count") {
  FakeSources s = machine_with(8);
  s.files["/proc/self/mountinfo"] =
      "31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
      "33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  s.files["/proc/self/cgroup"] = "4:cpu:/j\n0::/u\n";
  s.files["/sys/fs/cgroup/cpu/j/cpu.cfs_quota_us"] = "400000\n";
  s.files["/sys/fs/cgroup/cpu/j/cpu.cfs_period_us"] = "100000\n";
  s.files["/sys/fs/cgroup/unified/u/cpuset.cpus.effective"] = "0-5\n";
  const Topology t = topology_of(s);
  CHECK(t.allowed_cpus.size() == 6);
  CHECK(t.workers == 4);
}

TEST_CASE("a bind-mounted group (mount root is not /) and an escaped mount point are found") {
  FakeSources s = machine_with(4);
  s.files["/proc/self/mountinfo"] = "30 24 0:26 /docker/abc /sys/fs/my\\040cgroup rw - cgroup2 cgroup2 rw\n";
  s.files["/proc/self/cgroup"] = "0::/docker/abc/inner\n";
  s.files["/sys/fs/my cgroup/inner/cpu.max"] = "200000 100000\n";
  CHECK(*topology_of(s).quota_cpus == doctest::Approx(2));
}

TEST_CASE("hostile cgroup text is ignored, not believed and not followed") {
  FakeSources s = machine_with(4);
  s.files["/proc/self/mountinfo"] = std::string("garbage\n - cgroup2\n") + kV2Mount;
  s.files["/proc/self/cgroup"] = "0::/../../etc\nnonsense\n:::\n";
  s.files["/sys/fs/cgroup/cpu.max"] = "-5 0\n";
  s.files["/sys/fs/cgroup/cpuset.cpus.effective"] = "7-\n";
  s.files["/sys/fs/cgroup/../../etc/cpu.max"] = "100000 100000\n";
  const Topology t = topology_of(s);
  CHECK(!t.quota_cpus);
  CHECK(t.workers == 4);
}

TEST_CASE("free memory is the least of what is available and what each group leaves") {
  FakeSources s = machine_with(1);
  s.files["/proc/meminfo"] = "MemTotal:       16000000 kB\nMemFree: 1 kB\nMemAvailable:    8000000 kB\n";
  s.files["/proc/self/mountinfo"] = kV2Mount;
  s.files["/proc/self/cgroup"] = "0::/a/b\n";
  s.files["/sys/fs/cgroup/a/b/memory.max"] = "max\n";
  s.files["/sys/fs/cgroup/a/memory.max"] = "1000000\n";
  s.files["/sys/fs/cgroup/a/memory.current"] = "400000\n";
  Record r;
  probe_topology(s, r);
  CHECK(r.memory.total_bytes == 16000000ull * 1024);
  CHECK(*r.memory.limit_bytes == 1000000);
  CHECK(r.memory.effective_free_bytes == 600000);
}

TEST_CASE("cache sharing counts allowed CPUs only") {
  FakeSources s = machine_with(2);
  const std::string dir = "/sys/devices/system/cpu/cpu0/cache/index0/";
  s.files[dir + "level"] = "3\n";
  s.files[dir + "size"] = "32768K\n";
  s.files[dir + "type"] = "Unified\n";
  s.files[dir + "shared_cpu_list"] = "0-15\n";
  const Layout layout = layout_of(s);
  REQUIRE(layout.caches.size() == 1);
  CHECK(layout.caches[0].size_bytes == 32u << 20);
  CHECK(layout.caches[0].shared_by == 2);
}
