// Machines that are made up, in virtual time: each has a speed, a link to the host and memory, and may get slower. What a run takes is
// told by a simulation of it, step by step, which knows nothing of the mapper's way to reckon.
#pragma once

#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "runtime/ensemble/choose.h"
#include "runtime/ensemble/measure/measure.h"
#include "runtime/ensemble/turns.h"

namespace mlc::test {

struct SimMachine {
  bool is_processor = false;
  double ns_per_operation = 1, ns_per_stored_byte = 0;
  double start_ns = 0, copy_ns = 0, ns_per_copied_byte = 0;
  uint64_t capacity = UINT64_MAX;
  std::set<uint32_t> cannot;  // segments
  uint64_t runs = 0, slower_from = UINT64_MAX;  // run of a segment from which on everything takes twice as long
};

struct Sim {
  std::vector<SimMachine> machines;
  ensemble::ProgramWork work;
  double now = 0;  // virtual nanoseconds

  double kernels(uint32_t machine, uint32_t segment) {
    SimMachine& m = machines[machine];
    const ensemble::SegmentWork& w = work.segments[segment];
    const double ns = std::max(w.operations * m.ns_per_operation, w.bytes * m.ns_per_stored_byte);
    return m.runs++ >= m.slower_from ? 2 * ns : ns;
  }
  double copy(const SimMachine& m, uint64_t bytes) const { return m.is_processor ? 0 : m.copy_ns + static_cast<double>(bytes) * m.ns_per_copied_byte; }

  // A segment alone: every value that it reads or writes passes the link.
  Result<double> segment(uint32_t machine, uint32_t segment) {
    const SimMachine& m = machines[machine];
    if (m.cannot.contains(segment)) return Status(Code::Unsupported, "sim: not this one");
    double ns = (m.is_processor ? 0 : m.start_ns) + kernels(machine, segment);
    for (const ensemble::PassedValue& v : work.values)
      if (v.producer == segment || std::count(v.readers.begin(), v.readers.end(), segment) > 0) ns += copy(m, v.bytes);
    now += ns;
    return ns;
  }

  // A run, value by value: where it lies decides what is copied when.
  double run(const std::vector<ensemble::Stage>& stages) {
    const double begin = now;
    for (const ensemble::Stage& stage : stages) {
      const SimMachine& m = machines[stage.part];
      now += m.is_processor ? 0 : m.start_ns;
      std::set<size_t> here;  // values in the memory of the machine, while the stage goes on
      for (uint32_t s = stage.first; s < stage.end; ++s) {
        for (size_t v = 0; v < work.values.size(); ++v) {
          const auto& readers = work.values[v].readers;
          if (std::count(readers.begin(), readers.end(), s) > 0 && here.insert(v).second) now += copy(m, work.values[v].bytes);
        }
        now += kernels(stage.part, s);
        for (size_t v = 0; v < work.values.size(); ++v)
          if (work.values[v].producer == s) here.insert(v);
      }
      for (const ensemble::PassedValue& v : work.values) {
        const bool is_made = v.producer >= stage.first && v.producer < stage.end;
        const bool is_wanted = std::any_of(v.readers.begin(), v.readers.end(), [&](uint32_t r) { return r < stage.first || r >= stage.end; });
        if (is_made && is_wanted) now += copy(m, v.bytes);
      }
    }
    return now - begin;
  }

  // The same for so many times the rows.
  Sim scaled(double times) const {
    Sim out = *this;
    for (ensemble::SegmentWork& w : out.work.segments) w.operations *= times, w.bytes *= times;
    for (ensemble::PassedValue& v : out.work.values) v.bytes = static_cast<uint64_t>(static_cast<double>(v.bytes) * times);
    return out;
  }

  // Nanoseconds for a request where so many sessions send one after the other, as fast as they are answered.
  double ns_per_request(const ensemble::Choice& choice, size_t sessions, size_t requests) {
    const auto all = static_cast<uint32_t>(work.segments.size());
    const bool whole = choice.mode == ensemble::Mode::Replicate;
    std::vector<ensemble::Stage> steps = whole ? std::vector<ensemble::Stage>{{0, all, 0}} : choice.assignment.stages;
    ensemble::Turns turns(machines.size());
    struct Session {
      size_t step = 0;
      ensemble::Turns::Place place;
      Bell bell;
    };
    std::vector<Session> all_sessions(sessions);
    using Event = std::pair<double, size_t>;  // a session has its step done
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
    const auto begin = [&](size_t s, double at) {
      const ensemble::Stage& stage = steps[all_sessions[s].step];
      events.push({at + run({{stage.first, stage.end, all_sessions[s].place.part}}), s});
    };
    const auto come = [&](size_t s, double at) {
      std::vector<double> ns = choice.alone;
      if (!whole) {
        ns.assign(machines.size(), ensemble::kImpossible);
        ns[steps[all_sessions[s].step].part] = steps[all_sessions[s].step].ns;
      }
      all_sessions[s].place = turns.enter(ns, at, &all_sessions[s].bell);
      if (turns.is_first(all_sessions[s].place)) begin(s, at);
    };
    for (size_t s = 0; s < sessions; ++s) come(s, 0);
    for (size_t done = 0;;) {
      const auto [at, s] = events.top();
      events.pop();
      if (const Bell* next = turns.leave(all_sessions[s].place, at))
        for (size_t other = 0; other < sessions; ++other)
          if (&all_sessions[other].bell == next) begin(other, at);
      if (++all_sessions[s].step == steps.size()) {
        all_sessions[s].step = 0;
        if (++done == requests) return at / static_cast<double>(requests);
      }
      come(s, at);
    }
  }

  // What the mapper is told: links as they are, segments as they were measured.
  ensemble::Problem measured(double budget_ns = ensemble::kMeasureNs) {
    ensemble::Problem p;
    for (const SimMachine& m : machines) p.parts.push_back({m.is_processor, m.is_processor ? 0 : m.start_ns, m.copy_ns, m.ns_per_copied_byte, m.capacity});
    for (const ensemble::SegmentWork& w : work.segments) p.segments.push_back({std::vector<double>(machines.size(), 0), w.weights, w.arena});
    p.values = work.values;
    ensemble::measure(work, [this](uint32_t m, uint32_t s) { return segment(m, s); }, budget_ns, p);
    return p;
  }
};

}  // namespace mlc::test
