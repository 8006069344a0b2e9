// Which cores runs have by default, on machines that are recorded text: hybrids, big and little cores, sockets, containers, and text that lies.
#include <doctest/doctest.h>

#include <initializer_list>

#include "runtime/probe/probe.h"
#include "tests/support/fake_sources.h"

using namespace mlc;
using namespace mlc::probe;
using mlc::test::FakeSources;

namespace {

using Cpus = std::vector<int>;

Topology cores_of_machine(const FakeSources& s) {
  Record r;
  probe_topology(s, r);
  return r.topology;
}

Cpus near_cpus(const Topology& t) { return Cpus(t.worker_cpus.begin(), t.worker_cpus.begin() + t.near_cores()); }

Cpus from_to(int first, int last, int step = 1) {
  Cpus out;
  for (int cpu = first; cpu <= last; cpu += step) out.push_back(cpu);
  return out;
}

void set_cpus(FakeSources& s, int first, int last, const char* file, const std::string& text) {
  for (int cpu = first; cpu <= last; ++cpu) s.files["/sys/devices/system/cpu/cpu" + std::to_string(cpu) + file] = text + "\n";
}

// Two siblings of a core each, which are neighbours.
void pair_siblings(FakeSources& s, int first, int last) {
  for (int cpu = first; cpu <= last; cpu += 2)
    set_cpus(s, cpu, cpu + 1, "/topology/core_cpus_list", std::to_string(cpu) + "-" + std::to_string(cpu + 1));
}

// Eight P cores with siblings (0-15) and sixteen E cores (16-31); Linux 6.12, which knows no capacities of hybrids with siblings.
FakeSources hybrid_laptop() {
  FakeSources s = FakeSources::x86_v4();
  s.cpus = from_to(0, 31);
  pair_siblings(s, 0, 15);
  for (int cpu = 16; cpu < 32; ++cpu) set_cpus(s, cpu, cpu, "/topology/core_cpus_list", std::to_string(cpu));
  s.files["/sys/devices/system/cpu/smt/active"] = "1\n";
  s.files["/sys/devices/cpu_core/cpus"] = "0-15\n";
  s.files["/sys/devices/cpu_atom/cpus"] = "16-31\n";
  s.files["/sys/devices/system/node/online"] = "0\n";
  set_cpus(s, 0, 31, "/cpu_capacity", "1024");
  set_cpus(s, 0, 15, "/cpufreq/cpuinfo_max_freq", "5400000");
  set_cpus(s, 16, 31, "/cpufreq/cpuinfo_max_freq", "4200000");
  return s;
}

FakeSources arm_of(std::initializer_list<int> capacities) {
  FakeSources s;
  s.arch = Machine::AArch64;
  s.cpus = from_to(0, static_cast<int>(capacities.size()) - 1);
  int cpu = 0;
  for (const int capacity : capacities) set_cpus(s, cpu, cpu, "/cpu_capacity", std::to_string(capacity)), ++cpu;
  return s;
}

// Two sockets of 32 cores of two siblings: 0-31 and 64-95, 32-63 and 96-127.
FakeSources two_sockets() {
  FakeSources s = FakeSources::x86_v4();
  s.cpus = from_to(0, 127);
  for (int core = 0; core < 64; ++core) {
    const std::string siblings = std::to_string(core) + "," + std::to_string(core + 64);
    set_cpus(s, core, core, "/topology/core_cpus_list", siblings);
    set_cpus(s, core + 64, core + 64, "/topology/core_cpus_list", siblings);
  }
  s.files["/sys/devices/system/cpu/smt/active"] = "1\n";
  s.files["/sys/devices/system/node/online"] = "0-1\n";
  s.files["/sys/devices/system/node/node0/cpulist"] = "0-31,64-95\n";
  s.files["/sys/devices/system/node/node1/cpulist"] = "32-63,96-127\n";
  return s;
}

void limit_group(FakeSources& s, const char* cpuset, const char* quota) {
  s.files["/proc/self/mountinfo"] = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
  s.files["/proc/self/cgroup"] = "0::/\n";
  s.files["/sys/fs/cgroup/cpuset.cpus.effective"] = cpuset;
  s.files["/sys/fs/cgroup/cpu.max"] = quota;
}

}  // namespace

TEST_CASE("x86 hybrid, 8P + 16E: the P cores, one thread for two siblings") {
  const FakeSources s = hybrid_laptop();
  const Topology t = cores_of_machine(s);
  CHECK(t.cores == 24);
  CHECK(t.slow_cores == 16);
  CHECK(t.far_cores == 0);
  CHECK(t.workers == 8);
  CHECK(near_cpus(t) == from_to(0, 14, 2));
  CHECK(workers_for(t, 24) == 24);  // asked for
  CHECK(workers_for(t, 1000) == 24);
  CHECK(workers_for(t, 3) == 3);
  CHECK(workers_reason(t) == "the 8 fast cores of 24 (16 slow left out), one thread for all siblings of a core (32 CPUs), no quota");
}

TEST_CASE("x86 hybrid: its cores are uneven, also where the kernel says that their capacities are the same") {
  FakeSources s = hybrid_laptop();
  CHECK(probe_layout(s, cores_of_machine(s)).uneven_cores);
  s.cpus = from_to(0, 15);
  CHECK(!probe_layout(s, cores_of_machine(s)).uneven_cores);
}

TEST_CASE("x86 hybrid: cores that are in no list of P cores are slow, also those of a third kind") {
  FakeSources s = hybrid_laptop();
  s.files["/sys/devices/cpu_atom/cpus"] = "16-29\n";
  s.files["/sys/devices/cpu_lowpower/cpus"] = "30-31\n";
  CHECK(cores_of_machine(s).workers == 8);
}

TEST_CASE("x86 hybrid: two P cores are slower than all ten, and capacities count where the kernel knows them") {
  FakeSources s = hybrid_laptop();
  s.cpus = {0, 1, 2, 3, 16, 17, 18, 19, 20, 21, 22, 23};
  CHECK(cores_of_machine(s).workers == 10);
  CHECK(cores_of_machine(s).slow_cores == 0);
  FakeSources capable = hybrid_laptop();
  set_cpus(capable, 16, 31, "/cpu_capacity", "700");
  CHECK(cores_of_machine(capable).workers == 24);
  set_cpus(capable, 16, 31, "/cpu_capacity", "300");
  CHECK(cores_of_machine(capable).workers == 8);
}

TEST_CASE("x86 without P cores of its own: nothing is read for each core, so nothing is believed") {
  FakeSources s = hybrid_laptop();
  s.files.erase("/sys/devices/cpu_core/cpus");
  set_cpus(s, 0, 3, "/cpu_capacity", "10");
  CHECK(cores_of_machine(s).workers == 24);
}

TEST_CASE("a process that may use E cores only has all of them") {
  FakeSources s = hybrid_laptop();
  s.cpus = from_to(20, 27);
  const Topology t = cores_of_machine(s);
  CHECK(t.workers == 8);
  CHECK(workers_reason(t) == "8 cores allowed, no quota");
}

TEST_CASE("big.LITTLE, 4 + 4: the big cores, wherever they are numbered") {
  const Topology t = cores_of_machine(arm_of({446, 446, 446, 446, 1024, 1024, 1024, 1024}));
  CHECK(t.workers == 4);
  CHECK(near_cpus(t) == Cpus{4, 5, 6, 7});
  CHECK(t.worker_cpus == Cpus{4, 5, 6, 7, 0, 1, 2, 3});
  CHECK(t.core_of == std::vector<unsigned>{4, 5, 6, 7, 0, 1, 2, 3});
  CHECK(workers_reason(t) == "the 4 fast cores of 8 (4 slow left out), no quota");
}

TEST_CASE("one fastest core and four fast ones: equal shares go to five") {
  CHECK(near_cpus(cores_of_machine(arm_of({320, 320, 320, 820, 820, 820, 820, 1024}))) == Cpus{3, 4, 5, 6, 7});
  CHECK(cores_of_machine(arm_of({1024, 200, 200, 200})).workers == 1);
  CHECK(cores_of_machine(arm_of({1024, 512})).workers == 1);  // two would take as long
  CHECK(cores_of_machine(arm_of({1024, 513})).workers == 2);
  CHECK(cores_of_machine(arm_of({1024, 1024, 1024, 1024})).workers == 4);
}

TEST_CASE("without capacities the highest clock tells, if all cores have one") {
  FakeSources s;
  s.arch = Machine::RiscV64;
  s.cpus = from_to(0, 5);
  set_cpus(s, 0, 3, "/cpufreq/cpuinfo_max_freq", "2600000");
  set_cpus(s, 4, 5, "/cpufreq/cpuinfo_max_freq", "1000000");
  CHECK(near_cpus(cores_of_machine(s)) == Cpus{0, 1, 2, 3});
  s.files.erase("/sys/devices/system/cpu/cpu5/cpufreq/cpuinfo_max_freq");
  CHECK(cores_of_machine(s).workers == 6);
}

TEST_CASE("two sockets with siblings: the cores of one node, of the one that the process is on") {
  FakeSources s = two_sockets();
  const Topology first = cores_of_machine(s);
  CHECK(first.cores == 64);
  CHECK(first.far_cores == 32);
  CHECK(first.workers == 32);
  CHECK(near_cpus(first) == from_to(0, 31));
  CHECK(workers_for(first, 64) == 64);
  CHECK(workers_reason(first) == "the 32 cores of one NUMA node of 64 (32 of other nodes left out), one thread for all siblings of a core (128 CPUs), no quota");
  s.here = 100;
  CHECK(near_cpus(cores_of_machine(s)) == from_to(32, 63));
  s.here = -1;
  CHECK(near_cpus(cores_of_machine(s)) == from_to(0, 31));
}

TEST_CASE("nodes: the one with the most to give, whichever the process is on; memory alone is none") {
  FakeSources s = two_sockets();
  s.cpus = {5, 32, 33, 34, 97};
  s.here = 5;
  const Topology t = cores_of_machine(s);
  CHECK(t.cores == 4);  // 33 and 97 are one core
  CHECK(near_cpus(t) == Cpus{32, 33, 34});
  s.files["/sys/devices/system/node/online"] = "0-2\n";
  s.files["/sys/devices/system/node/node2/cpulist"] = "\n";
  CHECK(cores_of_machine(s).workers == 3);
  // All memory interleaved by the firmware: each node lists all CPUs.
  s.files["/sys/devices/system/node/node0/cpulist"] = s.files["/sys/devices/system/node/node1/cpulist"] = "0-127\n";
  CHECK(cores_of_machine(s).workers == 4);
}

TEST_CASE("slow cores and far ones are told apart") {
  FakeSources s = arm_of({1024, 1024, 1024, 300, 1024, 1024, 300, 300});
  s.files["/sys/devices/system/node/online"] = "0,1\n";
  s.files["/sys/devices/system/node/node0/cpulist"] = "0-3\n";
  s.files["/sys/devices/system/node/node1/cpulist"] = "4-7\n";
  const Topology t = cores_of_machine(s);
  CHECK(t.worker_cpus == Cpus{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(t.workers == 3);
  CHECK(t.slow_cores == 1);
  CHECK(t.far_cores == 4);
  CHECK(workers_reason(t) == "the 3 fast cores of one NUMA node of 8 (1 slow and 4 of other nodes left out), no quota");
}

TEST_CASE("a container: three CPUs of two sockets, and a quota of one and a half") {
  FakeSources s = two_sockets();
  limit_group(s, "3-4,40\n", "150000 100000\n");
  const Topology t = cores_of_machine(s);
  CHECK(t.allowed_cpus == Cpus{3, 4, 40});
  CHECK(t.cores == 3);
  CHECK(near_cpus(t) == Cpus{3, 4});
  CHECK(t.workers == 1);
  CHECK(workers_for(t, 3) == 1);  // more would be throttled
  CHECK(workers_reason(t) == "the 2 cores of one NUMA node of 3 (1 of other nodes left out), quota of 1.50 CPUs");
}

TEST_CASE("CPUs that are offline: they are in no list and have no folder") {
  FakeSources s = hybrid_laptop();
  s.cpus = {0, 2, 3, 4, 6, 7, 16, 19};  // 1 and 5 are offline: their siblings are alone
  set_cpus(s, 0, 0, "/topology/core_cpus_list", "0");
  set_cpus(s, 4, 4, "/topology/core_cpus_list", "4");
  s.files["/sys/devices/cpu_core/cpus"] = "0,2-4,6-15\n";
  const Topology t = cores_of_machine(s);
  CHECK(near_cpus(t) == Cpus{0, 2, 4, 6});
  CHECK(t.slow_cores == 2);
}

TEST_CASE("a sysfs that cannot be read: each allowed CPU is a core, all alike, on one node") {
  FakeSources s = hybrid_laptop();
  s.files.clear();
  const Topology t = cores_of_machine(s);
  CHECK(t.workers == 32);
  CHECK(t.worker_cpus == from_to(0, 31));
  CHECK(workers_reason(t) == "32 cores allowed, no quota");
}

TEST_CASE("text that lies costs threads at most") {
  const auto workers = [](std::initializer_list<std::pair<const char*, const char*>> files) {
    FakeSources s = two_sockets();
    for (const auto& [path, text] : files) s.files[path] = text;
    const Topology t = cores_of_machine(s);
    CHECK(t.worker_cpus.size() == t.cores);
    CHECK(t.core_of.size() == t.allowed_cpus.size());
    CHECK(t.near_cores() >= 1);
    CHECK(t.workers <= t.cores);
    for (const unsigned core : t.core_of) CHECK(core < t.cores);
    return t.workers;
  };
  CHECK(workers({{"/sys/devices/system/node/online", "0-999999999"}}) == 64);
  CHECK(workers({{"/sys/devices/system/node/online", "1-0"}}) == 64);
  CHECK(workers({{"/sys/devices/system/node/online", "0-65535"}}) == 32);
  CHECK(workers({{"/sys/devices/system/node/online", "5000-6000"}}) == 64);
  CHECK(workers({{"/sys/devices/system/node/node0/cpulist", "0-1000000000"}}) == 32);
  CHECK(workers({{"/sys/devices/system/node/node0/cpulist", "31-0"}, {"/sys/devices/system/node/node1/cpulist", "x"}}) == 64);
  CHECK(workers({{"/sys/devices/system/node/node0/cpulist", "500-600"}, {"/sys/devices/system/node/node1/cpulist", "601"}}) == 64);
  CHECK(workers({{"/sys/devices/cpu_core/cpus", "0-1000000000"}}) == 32);
  CHECK(workers({{"/sys/devices/cpu_core/cpus", "9000"}}) == 32);
  CHECK(workers({{"/sys/devices/system/cpu/cpu9/topology/core_cpus_list", "-3"}}) == 32);
  CHECK(workers({{"/sys/devices/system/cpu/cpu9/topology/core_cpus_list", "99999999999999999999"}}) == 32);
  CHECK(workers({{"/sys/devices/system/cpu/cpu9/topology/core_cpus_list", "0-1000000000"}}) == 32);  // 73, its sibling, remains
  FakeSources s = arm_of({1024, 1024, 1024, 1024});
  for (const char* capacity : {"0", "-1", "99999999999999999999", "4294967296", "", "fast"}) {
    set_cpus(s, 2, 2, "/cpu_capacity", capacity);
    CHECK(cores_of_machine(s).workers == 4);
  }
  set_cpus(s, 2, 2, "/cpu_capacity", "2147483647");
  CHECK(cores_of_machine(s).workers == 1);
}

TEST_CASE("10,000 CPUs take no long time") {
  FakeSources s = arm_of({});
  s.cpus = from_to(0, 9999);
  for (int cpu = 0; cpu < 10000; ++cpu) set_cpus(s, cpu, cpu, "/cpu_capacity", cpu % 2 ? "1024" : "400");
  const Topology t = cores_of_machine(s);
  CHECK(t.workers == 5000);
  CHECK(t.slow_cores == 5000);
}
