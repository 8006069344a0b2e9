#include "base/status.h"

namespace mlc {

Status::Status() = default;
Status::Status(Code c, std::string m) : code(c), message(std::move(m)) {}
Status::Status(Code c, const char* m) : code(c), message(m) {}
Status::Status(Code c, uint16_t e, std::string m) : code(c), number(e), message(std::move(m)) {}
Status::Status(Code c, uint16_t e, const char* m) : code(c), number(e), message(m) {}
Status::Status(Code c, uint16_t e, const char* pattern, Pieces pieces)
    : code(c), number(e), message(compose_pieces(pattern, pieces)) {}
Status::Status(const Status&) = default;
Status::Status(Status&&) noexcept = default;
Status& Status::operator=(const Status&) = default;
// Also onto itself, as in status = std::move(status).note("where").
Status& Status::operator=(Status&& other) noexcept {
  if (this == &other) return *this;
  code = other.code;
  number = other.number;
  message = std::move(other.message);
  facts = std::move(other.facts);
  help = std::move(other.help);
  return *this;
}
Status::~Status() = default;

Status&& Status::note(std::string_view where) && {
  message = compose("{}: {}", where, message);
  return std::move(*this);
}

Status&& Status::fact(std::string line) && {
  facts.push_back(std::move(line));
  return std::move(*this);
}

Status&& Status::hint(std::string line) && {
  help = std::move(line);
  return std::move(*this);
}

Status&& Status::note_of(const char* pattern, Pieces pieces) {
  return std::move(*this).note(std::string_view(compose_pieces(pattern, pieces)));
}

Status&& Status::fact_of(const char* pattern, Pieces pieces) {
  return std::move(*this).fact(compose_pieces(pattern, pieces));
}

Status&& Status::hint_of(const char* pattern, Pieces pieces) {
  return std::move(*this).hint(compose_pieces(pattern, pieces));
}

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
