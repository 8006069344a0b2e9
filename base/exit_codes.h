// The exit codes of the tools, in words: the table behind `mlpack help exit-codes`, `mlrun help exit-codes` and the
// manual pages. A contract: numbers are never reused; 128 + n stays for signals. Of several errors the first decides.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace mlc {

struct ExitCode {
  int number;
  std::string_view meaning;
};

inline constexpr ExitCode kExitCodes[] = {
    {static_cast<int>(Code::Ok), "done, or the answer is yes"},
    {static_cast<int>(Code::No), "the answer is no, or things differ"},
    {static_cast<int>(Code::Usage), "usage: a flag, key, value or pipeline"},
    {static_cast<int>(Code::NotFound), "a file is missing or not readable"},
    {static_cast<int>(Code::Malformed), "not a valid container or model: kind, truncated, corrupt, newer major version"},
    {static_cast<int>(Code::NoVariant), "--require or the policy was not met: no such variant fits"},
    {static_cast<int>(Code::InputMismatch), "an input does not fit the model"},
    {static_cast<int>(Code::Resource), "out of memory, or a device was lost"},
    {static_cast<int>(Code::Cancelled), "cancelled, or a deadline passed"},
    {static_cast<int>(Code::Unsigned), "not signed, and the policy wants a signature"},
    {static_cast<int>(Code::Untrusted), "the signer is not trusted"},
    {static_cast<int>(Code::BadSignature), "a signature or digest does not match"},
    {static_cast<int>(Code::Expired), "expired, revoked, or older than a version already seen"},
    {static_cast<int>(Code::Unsupported), "operators or shapes that no requested target supports"},
    {static_cast<int>(Code::SelfTest), "an accuracy gate or the self-test failed"},
    {static_cast<int>(Code::Performance), "a performance gate failed"},
    {static_cast<int>(Code::Registry), "registry or network"},
    {static_cast<int>(Code::Internal), "a bug in this program"},
};

// One line per code: "  4  not a valid container ...\n".
inline std::string exit_codes_text() {
  std::string text;
  for (const ExitCode& code : kExitCodes) {
    const std::string number = std::to_string(code.number);
    text += std::string(3 - number.size(), ' ') + number + "  " + std::string(code.meaning) + "\n";
  }
  return text;
}

}  // namespace mlc
