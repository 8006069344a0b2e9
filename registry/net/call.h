// The inside of Client, for client.cpp and parts.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "registry/net/client.h"

namespace mlc::registry {

// A request on its way to an answer that counts.
struct Client::Call {
  Request request;  // as it is sent next
  std::string repository;
  Access access;
  uint64_t proof_round = 0;  // what Client had when the request got its proof
  int attempt = 1, hops = 0;
  bool asked_who = false;
  uint64_t wait_ms = 0;  // before it is sent again
  bool is_busy = false;  // it waits because the registry has too much to do
};

// None: no decimal number.
[[nodiscard]] std::optional<uint64_t> number_in(std::string_view text);
// What a registry says, for people.
[[nodiscard]] std::string first_line(std::string_view body);

}  // namespace mlc::registry
