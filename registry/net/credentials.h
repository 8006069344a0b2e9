// Passwords for registries, as `docker login` leaves them: $DOCKER_CONFIG/config.json or ~/.docker/config.json, and the programs
// docker-credential-NAME that it names.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace mlc::registry {

inline constexpr size_t kMaxDockerConfig = 1u << 20, kMaxHelperAnswer = 64u << 10;

struct Credentials {
  std::string user, password;
  std::string refresh_token;  // in place of both: exchanged for a token by the registry's own service

  bool empty() const { return user.empty() && password.empty() && refresh_token.empty(); }
};

// The file that is read; nothing if there is no home.
[[nodiscard]] std::string docker_config_path();

// Those for a host, empty if there are none. `config`: the text of the file, and its name for messages. Usage where the file cannot be
// understood, or a helper fails; the message holds nothing that is secret.
[[nodiscard]] Result<Credentials> credentials_for(std::string_view config, const std::string& name, const std::string& host);
// The same of the user's file; none without one.
[[nodiscard]] Result<Credentials> credentials_for(const std::string& host);

}  // namespace mlc::registry
