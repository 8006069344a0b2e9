// What this library does with devices beside the processor. There are two of it: libmlrt-gpu has devices.cpp, libmlrt has
// no_devices.cpp, and nothing else differs. Session::load_for_device is in these files, too.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "runtime/match/matcher.h"
#include "schema/format.h"
#include "schema/manifest.h"
#include "schema/plan/plan.h"

namespace mlc::api {

// Which devices sessions may use.
struct DeviceChoice {
  // auto: what is not software; cpu: none; gpu: all; or names, "gpu0,cpu". By program: "detect=gpu0;read=cpu;auto", of which an entry
  // without a name is for all programs that have none.
  std::string wanted = "auto";
  std::string probe_program;    // asks drivers in a process of its own; empty: no device is known
  std::string state_folder;     // where it is remembered what was measured of them; empty: nowhere
};
// Usage if `wanted` is none of these.
Status check_choice(const DeviceChoice& choice);

// Programs that use the same devices.
struct ProgramGroup {
  std::string wanted;             // "gpu0,cpu"
  std::vector<uint32_t> methods;  // of the manifest; empty: all of them
};
// As `choice` says; the first group has the method `main`. Usage if the file has no program of a name, or programs that keep state
// between runs would be apart. libmlrt, which has no devices, answers one group.
Result<std::vector<ProgramGroup>> group_programs(const DeviceChoice& choice, const format::Manifest& manifest, uint32_t main);
// True: the caller named devices, so that it is to be told where none is used.
bool names_devices(std::string_view wanted);

struct FoundDevices {
  std::vector<NamedDevice> usable;  // best first
  std::vector<NamedDevice> all;
  std::string why_no_cuda, why_no_vulkan;  // more of them
  bool with_processor = false;      // which may work together with them
  std::string state_folder;         // of the choice
};
// The policy for these devices, which outlive it; null: as it is.
inline MatchPolicy with_devices(MatchPolicy policy, const FoundDevices* found) {
  if (found) policy.devices = found->usable, policy.why_no_cuda = found->why_no_cuda, policy.why_no_vulkan = found->why_no_vulkan;
  return policy;
}
struct FoundByGroup {
  std::vector<std::shared_ptr<const FoundDevices>> groups;  // of each that was given
  std::shared_ptr<const FoundDevices> together;             // `usable`: those that some group may use
};
// Asks drivers once, for devices of the modules that the variants have. Usage if a group names one that is not there. Null: this library
// has no loader for any.
Result<FoundByGroup> find_devices(const DeviceChoice& choice, std::span<const ProgramGroup> groups, std::span<const format::Variant> variants);

// Cuts groups where variants that fit the devices of one have code for some of its programs only. Programs that keep state stay together; the
// first group keeps the program that it had first. `policy` is that of matchers, but for devices.
void cut_by_code(const format::Manifest& manifest, const MatchPolicy& policy, std::vector<ProgramGroup>& groups, FoundByGroup& found);
// Of the plan of a session for a group, what the group's programs consist of.
void keep_group(const format::Manifest& manifest, std::span<const uint32_t> methods, exec::Plan& plan);

class Model;
// NoVariant for a variant, by name, that has no code for some program of one of several groups.
Status has_code(const Model& model, uint32_t group, std::string_view variant);
// Whether some variant runs the programs of a group on a device.
bool has_device(const Model& model, uint32_t group);

// What sessions of a model share on devices. Its content is that of devices.cpp.
struct SharedOnDevices {
  std::mutex mu;
  std::shared_ptr<void> what;  // guarded by mu
};

}  // namespace mlc::api
