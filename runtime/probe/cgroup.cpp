#include "runtime/probe/cgroup.h"

#include <algorithm>
#include <string_view>

#include "base/compose.h"
#include "runtime/probe/text.h"

namespace mlc::probe {
namespace {

struct Mount {
  bool v2 = false;
  std::string_view root, point, options;  // of the text, escaped
};

// mountinfo writes blanks, tabs and backslashes as three octal digits.
std::string unescaped(std::string_view s) {
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    const auto octal = [&](size_t k) { return k < s.size() && s[k] >= '0' && s[k] <= '7'; };
    if (s[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out.push_back(static_cast<char>((s[i + 1] - '0') * 64 + (s[i + 2] - '0') * 8 + (s[i + 3] - '0')));
      i += 3;
    } else {
      out.push_back(s[i]);
    }
  }
  return out;
}

// The next mount of control groups, whose line and all before it are cut off `text`; without a point if there is none.
// "36 35 98:0 /root /point rw,noatime shared:1 - cgroup2 none rw,..."
Mount next_mount(std::string_view& text) {
  while (!text.empty()) {
    std::string_view line = next_field(text, '\n');
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    std::string_view tail = line.substr(dash + 3);
    const std::string_view type = next_field(tail, ' ');
    next_field(tail, ' ');
    if (type != "cgroup" && type != "cgroup2") continue;
    std::string_view head = line.substr(0, dash);
    for (int skip = 0; skip < 3; ++skip) next_field(head, ' ');
    const std::string_view root = next_field(head, ' '), point = next_field(head, ' ');
    if (!point.empty()) return {type == "cgroup2", root, point, trimmed(tail)};
  }
  return {};
}

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty())
    if (next_field(list, ',') == word) return true;
  return false;
}

void lower(std::optional<double>& least, double v) { least = least ? std::min(*least, v) : v; }
void lower(std::optional<uint64_t>& least, uint64_t v) { least = least ? std::min(*least, v) : v; }

void read_quota(const Sources& s, const Mount& m, const std::string& dir, CgroupLimits& out) {
  std::optional<int64_t> quota, period;
  if (m.v2) {
    const auto text = read_in(s, dir, "/cpu.max");
    std::string_view rest = text ? std::string_view(*text) : std::string_view();
    quota = parse_int(next_field(rest, ' ')), period = parse_int(rest);  // "max" is no number: no limit
  } else {
    quota = int_in(s, dir, "/cpu.cfs_quota_us"), period = int_in(s, dir, "/cpu.cfs_period_us");  // -1: no limit
  }
  if (quota && period && *quota > 0 && *period > 0) lower(out.quota_cpus, double(*quota) / double(*period));
}

void read_memory(const Sources& s, const Mount& m, const std::string& dir, CgroupLimits& out) {
  const auto limit = int_in(s, dir, m.v2 ? "/memory.max" : "/memory.limit_in_bytes");
  // v1 spells "no limit" as the largest page-aligned number.
  if (!limit || *limit < 0 || *limit >= (int64_t{1} << 60)) return;
  lower(out.memory_limit_bytes, static_cast<uint64_t>(*limit));
  const int64_t used = int_in(s, dir, m.v2 ? "/memory.current" : "/memory.usage_in_bytes").value_or(0);
  lower(out.memory_free_bytes, static_cast<uint64_t>(used >= 0 ? std::max<int64_t>(0, *limit - used) : *limit));
}

// Whether there is one.
bool read_cpuset(const Sources& s, const Mount& m, const std::string& dir, CgroupLimits& out) {
  std::vector<int> cpus = cpus_in(s, dir, m.v2 ? "/cpuset.cpus.effective" : "/cpuset.effective_cpus");
  if (cpus.empty() && !m.v2) cpus = cpus_in(s, dir, "/cpuset.cpus");
  if (cpus.empty()) return false;
  out.cpus = out.cpus.empty() ? std::move(cpus) : in_both(out.cpus, cpus);
  return true;
}

// What a group on this mount limits, and all its ancestors up to the mount point. False: the mount has none of what we ask.
bool read_group(const Sources& s, const Mount& m, std::string_view controllers, std::string_view path, CgroupLimits& out) {
  const auto takes = [&](std::string_view c) { return m.v2 || (has_word(controllers, c) && has_word(m.options, c)); };
  const bool cpu = takes("cpu"), memory = takes("memory");
  bool cpuset = takes("cpuset");
  if (!cpu && !cpuset && !memory) return false;
  // A path outside the mount's root or the namespace ("/..") cannot be followed: only the mount point is readable.
  const std::string root = unescaped(m.root);
  if (root != "/" && path.substr(0, root.size()) == root) path.remove_prefix(root.size());
  if (path.find("..") != std::string_view::npos) path = {};
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  for (const std::string point = unescaped(m.point);;) {
    const std::string dir = compose("{}{}", point, path);
    if (cpu) read_quota(s, m, dir, out);
    if (memory) read_memory(s, m, dir, out);
    // The kernel already intersects an effective set with the ancestors' sets, so the nearest readable one decides.
    if (cpuset && read_cpuset(s, m, dir, out)) cpuset = false;
    if (path.empty()) return true;
    path = path.substr(0, path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/'));
  }
}

}  // namespace

CgroupLimits read_cgroup_limits(const Sources& s) {
  CgroupLimits out;
  const auto groups = s.read_file("/proc/self/cgroup"), mountinfo = s.read_file("/proc/self/mountinfo");
  if (!groups || !mountinfo) return out;
  std::string_view text = *groups;
  while (!text.empty()) {
    // "0::/path" (v2) or "4:cpu,cpuacct:/path" (v1)
    std::string_view line = next_field(text, '\n');
    const std::string_view number = next_field(line, ':'), controllers = next_field(line, ':'), path = line;
    if (path.empty()) continue;
    const bool v2 = number == "0" && controllers.empty();
    std::string_view mounts = *mountinfo;
    for (Mount m = next_mount(mounts); !m.point.empty(); m = next_mount(mounts)) {
      if (m.v2 != v2 || !read_group(s, m, controllers, path, out)) continue;
      break;  // further mounts of the same hierarchy show the same files
    }
  }
  return out;
}

}  // namespace mlc::probe
