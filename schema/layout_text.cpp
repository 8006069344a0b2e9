#include "schema/layout_text.h"

#include <algorithm>

#include "base/checked.h"
#include "base/compose.h"

namespace mlc::format {
namespace {

constexpr uint64_t kMaxNumber = (uint64_t{1} << 31) - 1;
constexpr size_t kMaxText = 1024;

bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}
  bool done() const { return at_ == text_.size(); }
  bool accept(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  std::string_view name() {
    size_t start = at_;
    if (!done() && is_alpha(text_[at_]))
      while (!done() && (is_alpha(text_[at_]) || is_digit(text_[at_]))) ++at_;
    return text_.substr(start, at_ - start);
  }
  // 0: no number, a leading zero or one beyond kMaxNumber.
  uint64_t number() {
    uint64_t value = 0;
    if (done() || text_[at_] == '0') return 0;
    while (!done() && is_digit(text_[at_]) && value <= kMaxNumber) value = value * 10 + uint64_t(text_[at_++] - '0');
    return value <= kMaxNumber ? value : 0;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

Status bad_layout(std::string_view text, const char* why) {
  return Status(Code::Malformed, "layout \"{}\": {}", text, why);
}

}  // namespace

Result<ParsedLayout> parse_layout(std::string_view text) {
  if (text.size() > kMaxText) return Status(Code::Malformed, "layout text of more than 1024 bytes");
  ParsedLayout out;
  if (text == "dense") {
    out.dense = true;
    return out;
  }
  Scanner in(text);
  do {
    auto name = in.name();
    if (name.empty()) return bad_layout(text, "a dimension name is missing");
    if (std::find(out.names.begin(), out.names.end(), name) != out.names.end())
      return bad_layout(text, "a dimension is named twice");
    out.names.emplace_back(name);
  } while (in.accept(","));
  if (!in.accept("->")) return bad_layout(text, "\"->\" is missing");

  std::vector<bool> used(out.names.size());
  std::vector<uint64_t> divisors, constants;
  while (!in.done()) {
    if (!in.accept("[")) return bad_layout(text, "\"[\" expected");
    LayoutFactor factor;
    if (auto name = in.name(); !name.empty()) {
      auto found = std::find(out.names.begin(), out.names.end(), name);
      if (found == out.names.end()) return bad_layout(text, "a factor names an unknown dimension");
      factor.dim = int(found - out.names.begin());
      if (used[size_t(factor.dim)]) return bad_layout(text, "a dimension stands in two factors");
      used[size_t(factor.dim)] = true;
      if (in.accept("/")) {
        factor.number = in.number();
        divisors.push_back(factor.number);
      }
    } else {
      factor.number = in.number();
      constants.push_back(factor.number);
    }
    if (factor.number == 0) return bad_layout(text, "a number from 1 to 2^31-1 expected");
    if (!in.accept("]")) return bad_layout(text, "\"]\" expected");
    out.factors.push_back(factor);
  }
  if (std::find(used.begin(), used.end(), false) != used.end())
    return bad_layout(text, "a dimension stands in no factor");
  if (divisors != constants) return bad_layout(text, "the constant factors are not the divisors, in their order");
  return out;
}

Result<uint64_t> stored_bytes(const ParsedLayout& layout, DType dtype, std::span<const uint64_t> shape) {
  uint64_t elements = 1;
  if (layout.dense) {
    auto product = checked_product(shape);
    if (!product) return Status(Code::Malformed, "the number of elements exceeds 2^64");
    elements = *product;
  } else {
    if (layout.names.size() != shape.size())
      return Status(Code::Malformed, "the layout is for rank {}, the tensor has rank {}", layout.names.size(),
                    shape.size());
    for (const LayoutFactor& factor : layout.factors) {
      uint64_t extent = factor.number;
      if (factor.dim >= 0) {
        uint64_t n = shape[size_t(factor.dim)];
        extent = n / factor.number + (n % factor.number != 0);
      }
      auto product = checked_mul(elements, extent);
      if (!product) return Status(Code::Malformed, "the number of elements exceeds 2^64");
      elements = *product;
    }
  }
  unsigned bits = bits_of(dtype);
  if (bits == 0) return Status(Code::Malformed, "elements of type {} have no size", name_of(dtype));
  if (bits < 8) return elements / 8 * bits + (elements % 8 * bits + 7) / 8;
  auto bytes = checked_mul(elements, bits / 8);
  if (!bytes) return Status(Code::Malformed, "the number of bytes exceeds 2^64");
  return *bytes;
}

}  // namespace mlc::format
