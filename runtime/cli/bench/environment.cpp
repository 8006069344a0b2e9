#include "runtime/cli/bench/environment.h"

#include <cstdio>
#include <fstream>

#include "runtime/api/mlc.h"
#include "runtime/cli/system.h"
#include "runtime/probe/probe.h"

namespace mlc::cli {

HostState host_state() {
  HostState state;
  const probe::Topology& topology = probe::host().topology;
  if (!topology.allowed_cpus.empty()) {
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(topology.allowed_cpus.front()) + "/cpufreq/scaling_governor");
    std::getline(file, state.governor);
  }
  state.load_1m = load_of_minute();
  return state;
}

Json environment(const HostState& state) {
  const probe::Record& host = probe::host();
  return {{"cpu", host.cpu_model},
          {"arch", name_of(host.machine)},
          {"os", host.os_release},
          {"cpus", host.topology.allowed_cpus.size()},
          {"cores", host.topology.workers},
          {"governor", state.governor},
          {"load", state.load_1m},
          {"mlrun", mlc_version_string()}};
}

std::string environment_text(const Json& env) {
  const auto text = [&](const char* name) { return printable(env[name].text()); };
  std::string out = text("cpu").empty() ? text("arch") : text("cpu");
  out += ", " + std::to_string(env["cpus"].as_u64()) + " CPUs";
  if (!text("governor").empty()) out += ", governor " + text("governor");
  char load[32];
  std::snprintf(load, sizeof load, ", load %.2f", env["load"].number());
  if (env["load"].number() >= 0) out += load;
  return out + ", " + text("os") + ", mlrun " + text("mlrun");
}

}  // namespace mlc::cli
