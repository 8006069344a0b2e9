#include "tests/conformance/paths.h"

#include <algorithm>
#include <cstdlib>

namespace mlc::conformance {
namespace {

constexpr uint32_t kUsualSubgroup = 8;

// How the kernels of a device are to run, by the end of the name, which is cut off: ":device", ":code", ":code16".
Way cut_way(std::string& name, uint32_t& subgroup) {
  const size_t colon = std::min(name.find(':'), name.size());
  const std::string end = name.substr(colon);
  const bool runs = end == ":device", executes = end.starts_with(":code");
  if (!runs && !executes) return Way::Interpreted;
  if (executes && end != ":code") subgroup = static_cast<uint32_t>(std::atoi(end.c_str() + 5));
  name.resize(colon);
  return executes ? Way::Executed : Way::OnDevice;
}

Status unknown(const std::string& name) {
  std::string text = name + ": no such target; known:";
  for (const auto some : {targets::all_targets(), targets::device_targets()})
    for (const targets::Target& t : some) text += " " + t.name;
  return Status(Code::NotFound, text);
}

}  // namespace

Result<Path> path_named(std::string name) {
  if (name == "interpreter") return Path{name, nullptr, {}};
  uint32_t subgroup = kUsualSubgroup;
  const Way way = cut_way(name, subgroup);
  const targets::Target* target = name == "native" ? targets::native_target() : targets::find_target(name);
  if (!target) return unknown(name);
  if (way != Way::Interpreted && !target->is_device()) return Status(Code::NotFound, target->name + " is no target of a device");
  Path path{target->name, target, {}, way, subgroup};
  constexpr const char* kWays[] = {"-interpreted", "-executed", "-device"};  // by Way
  if (target->is_device()) path.name += kWays[static_cast<size_t>(way)];
  if (subgroup != kUsualSubgroup) path.name += "-" + std::to_string(subgroup);
  return path;
}

}  // namespace mlc::conformance
