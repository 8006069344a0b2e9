// The probe: asks the sources, fills the record. Start reading here; record.h says what comes out, sources.h what goes
// in, cpu_x86.cpp / cpu_a64.cpp / cpu_rv.cpp / cpu_la.cpp hold one detection line per feature of schema/features.tbl.
#pragma once

#include "runtime/probe/record.h"
#include "runtime/probe/sources.h"

namespace mlc::probe {

// Never fails: what could not be found out is unknown, with the reason. Takes a few milliseconds.
Record run(const Sources& sources);
// The same with one part for the CPU: a program for the machine it was built for needs no other.
using CpuPart = void (*)(const Sources& sources, Record& record);
Record run(const Sources& sources, CpuPart cpu);

// The record of the running system, made on the first call. Thread-safe.
const Record& host();
// From now on `host` returns this record: for a process that tells what another machine would do and runs no code of a model. Before the
// first call of `host`; false, and nothing happens, behind it.
[[nodiscard]] bool stand_in_for_host(Record record);

// The four parts.
void probe_x86(const Sources& sources, Record& record);
void probe_a64(const Sources& sources, Record& record);
void probe_rv(const Sources& sources, Record& record);
void probe_la(const Sources& sources, Record& record);
// Allowed CPUs, cores, those that runs have by default, quota and memory limits, and from them the number of workers.
void probe_topology(const Sources& sources, Record& record);
// What the processor and the kernel said, as text: leaves, hwcaps, hwprobe pairs. For people, as is the layout below; no session waits for it.
std::vector<std::string> probe_raw(const Sources& sources, const Topology& topology);
std::vector<std::string> raw_x86(const Sources& sources);
std::vector<std::string> raw_a64(const Sources& sources);
std::vector<std::string> raw_rv(const Sources& sources, const std::vector<int>& cpus);
std::vector<std::string> raw_la(const Sources& sources);
// Of the CPUs of that topology.
Layout probe_layout(const Sources& sources, const Topology& topology);

// Asks the OS to let this process use AMX tile data; errno or 0. The matcher calls it for a variant that it admits.
int request_amx();

// Workers for this record when `wanted` are asked for: no more than physical cores and than the quota. 0 is no wish: those of the fast
// cores of one NUMA node.
unsigned workers_for(const Topology& topology, unsigned wanted);
// Why it has so many workers by default, for people: "the 8 fast cores of 24 (16 slow ones are left out), no quota". libmlrt has no part of it.
std::string workers_reason(const Topology& topology);

}  // namespace mlc::probe
