#include "base/status.h"

namespace mlc {

std::string Status::text() const {
  if (ok()) return "ok";
  std::string out = "error";
  if (number != 0) out += "[E" + std::to_string(number) + "]";
  out += ": " + message;
  for (const std::string& line : facts) out += "\n  " + line;
  if (!help.empty()) out += "\n  help: " + help;
  return out;
}

}  // namespace mlc
