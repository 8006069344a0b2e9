// The header WWW-Authenticate, as RFC 9110 (section 11.6.1) writes it: how a registry says which server to ask for a token.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace mlc::registry {

inline constexpr size_t kMaxChallengeText = 8192, kMaxChallenges = 16, kMaxParameters = 32;

struct Challenge {
  std::string scheme;                             // in lower case: "bearer", "basic"
  std::string token;                              // of the form `scheme token68`, else empty
  std::map<std::string, std::string> parameters;  // names in lower case, values without their quotes
};

// Malformed where the text is none: what is half understood is not answered with a password.
[[nodiscard]] Result<std::vector<Challenge>> parse_challenges(std::string_view header);
// As one header; parse_challenges of it is the same.
[[nodiscard]] std::string challenges_text(const std::vector<Challenge>& challenges);

}  // namespace mlc::registry
