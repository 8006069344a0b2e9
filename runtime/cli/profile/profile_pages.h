// A profile as files for people: a page with plots, and a trace for viewers of such.
#pragma once

#include <cstdio>
#include <string>

#include "runtime/cli/profile/ceilings.h"
#include "runtime/cli/profile/profile_runs.h"

namespace mlc::cli {

// As printf writes it, at most 255 bytes.
template <class... Args>
std::string formatted(const char* form, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, form, args...);
  return text;
}

// One page: summary lines, a roofline plot, the last run on a time line, and a table. It loads nothing from elsewhere.
std::string profile_page(const Profile& profile, const Ceilings& ceilings, const std::string& title, const std::string& summary);

// The last run in the format of Chrome's tracing, which Perfetto reads: https://ui.perfetto.dev
std::string profile_trace(const Profile& profile);

}  // namespace mlc::cli
