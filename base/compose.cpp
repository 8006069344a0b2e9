#include "base/compose.h"

#include <cassert>

namespace mlc {

std::string compose_pieces(const char* pattern, Pieces pieces) {
  std::string out;
  std::string_view rest = pattern;
  for (const Piece& piece : pieces) {
    const size_t hole = rest.find("{}");
    assert(hole != std::string_view::npos && "fewer {} than pieces");
    out += rest.substr(0, hole);
    rest = hole < rest.size() ? rest.substr(hole + 2) : std::string_view();
    switch (piece.size) {
      case Piece::kUnsigned: out += std::to_string(piece.number); break;
      case Piece::kSigned: out += std::to_string(static_cast<int64_t>(piece.number)); break;
      case Piece::kTerminated: out += piece.text; break;
      default: out.append(piece.text, piece.size);
    }
  }
  return out += rest;
}

}  // namespace mlc
