// The probe: asks the sources, fills the record. Start reading here; record.h says what comes out, sources.h what goes
// in, cpu_x86.cpp / cpu_a64.cpp / cpu_rv.cpp hold one detection line per feature of schema/features.tbl.
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

// The three parts.
void probe_x86(const Sources& sources, Record& record);
void probe_a64(const Sources& sources, Record& record);
void probe_rv(const Sources& sources, Record& record);
// Allowed CPUs, cores, quota and memory limits, and from them the number of workers.
void probe_topology(const Sources& sources, Record& record);
// Of the CPUs of that topology.
Layout probe_layout(const Sources& sources, const Topology& topology);

// Asks the OS to let this process use AMX tile data; errno or 0. The matcher calls it for a variant that it admits.
int request_amx();

// Workers for this record when at most `wanted` are asked for (0: no wish), with the reason.
unsigned workers_for(const Topology& topology, unsigned wanted);

}  // namespace mlc::probe
