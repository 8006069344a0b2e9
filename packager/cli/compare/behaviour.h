// diff --behaviour: what two containers answer to the same inputs, those of the first one's golden vectors.
//
// Both are opened as mlrun opens them. Where either is not signed by a key that this user trusts, both run their portable form in a process without privileges.
#pragma once

#include <string>

namespace mlc::cli {

struct BehaviourOptions {
  std::string a, b;
  bool as_json = false;
};
// Prints, and returns the exit code: Code::No where answers differ, or something could not be compared.
[[nodiscard]] int compare_behaviour(const BehaviourOptions& options);

}  // namespace mlc::cli
