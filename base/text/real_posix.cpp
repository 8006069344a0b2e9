#include "base/text/real.h"

#include <locale.h>
#include <stdlib.h>

#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

namespace mlc {
namespace {

bool is_decimal(char c) { return c >= '0' && c <= '9'; }

const char* behind_digits(const char* at, const char* last, bool& any) {
  for (; at != last && is_decimal(*at); ++at) any = true;
  return at;
}

// The end of a word in small letters, in any case; null where it is another.
const char* behind_word(const char* at, const char* last, std::string_view word) {
  if (static_cast<size_t>(last - at) < word.size()) return nullptr;
  for (const char letter : word)
    if ((*at++ | 0x20) != letter) return nullptr;
  return at;
}

// "nan", and "nan(chars)" as C has it.
const char* behind_nan(const char* at, const char* last) {
  at = behind_word(at, last, "nan");
  if (!at || at == last || *at != '(') return at;
  const char* close = at + 1;
  const auto in_name = [](char c) { return is_decimal(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_'; };
  while (close != last && in_name(*close)) ++close;
  return close != last && *close == ')' ? close + 1 : at;
}

// Where the decimal number ends; null where none begins. `exponent`: where its exponent begins, or the end.
const char* behind_number(const char* at, const char* last, const char*& exponent) {
  bool any = false;
  at = behind_digits(at, last, any);
  if (at != last && *at == '.') {
    at = behind_digits(at + 1, last, any);
    if (!any) return nullptr;
  }
  exponent = at;
  if (!any) return nullptr;
  if (at == last || (*at | 0x20) != 'e') return at;
  const char* power = at + 1;
  if (power != last && (*power == '+' || *power == '-')) ++power;
  bool has_power = false;
  power = behind_digits(power, last, has_power);
  return has_power ? power : at;
}

// strtod wants a zero behind the text, and follows the locale of the program.
double converted(const char* first, const char* end) {
  static const locale_t c = newlocale(LC_ALL_MASK, "C", static_cast<locale_t>(nullptr));
  const size_t length = static_cast<size_t>(end - first);
  char few[64];
  if (length < sizeof few) {
    std::memcpy(few, first, length);
    few[length] = 0;
    return strtod_l(few, nullptr, c);
  }
  return strtod_l(std::string(first, length).c_str(), nullptr, c);
}

}  // namespace

std::from_chars_result real_by_strtod(const char* first, const char* last, double& value) {
  const char* const digits = first != last && *first == '-' ? first + 1 : first;
  const double sign = digits != first ? -1.0 : 1.0;
  const char* end = behind_word(digits, last, "infinity");
  if (!end) end = behind_word(digits, last, "inf");
  if (end) {
    value = sign * HUGE_VAL;
    return {end, std::errc()};
  }
  end = behind_nan(digits, last);
  if (end) {
    value = std::copysign(std::nan(""), sign);
    return {end, std::errc()};
  }
  const char* exponent = last;
  end = behind_number(digits, last, exponent);
  if (!end) return {first, std::errc::invalid_argument};
  const double number = converted(first, end);
  const std::string_view mantissa(digits, static_cast<size_t>(exponent - digits));
  const bool vanished = number == 0 && mantissa.find_first_of("123456789") != mantissa.npos;
  if (vanished || std::isinf(number)) return {end, std::errc::result_out_of_range};
  value = number;
  return {end, std::errc()};
}

}  // namespace mlc
