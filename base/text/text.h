// Texts (UTF-8) as string tensors hold them: numbers in them, case, and patterns. No locale has a say in any of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mlc {

class WorkAccount;

// The number that the text is, all of it but blanks around: decimal, with exponent, "nan", "inf",
// "infinity" in any case. False if it is none.
bool read_real(std::string_view text, double& out);
bool read_integer(std::string_view text, int64_t& out);  // decimal; false if it does not fit as well

// The shortest decimals that are read back as the same number (of 32 bits if `single`), as NumPy writes them: "1.0",
// "0.00015", "1e-05", "nan", "-inf". Writes at most kNumberChars, answers how many.
constexpr unsigned kNumberChars = 40;
unsigned write_real(double value, bool single, char* out);

// The letter in the other case: ASCII, Latin-1, Latin Extended-A, Greek and Cyrillic; any other code point is answered
// as it is.
uint32_t in_case(uint32_t code_point, bool upper);
// The next letter of a text in that case, as UTF-8: moves `at`, writes at most 4 bytes, answers how many. Bytes that are
// no UTF-8 stay as they are.
unsigned next_in_case(std::string_view text, size_t& at, bool upper, char* out);

// Decodes the code point at `at` of strict UTF-8: no overlong forms, surrogates or values above 10FFFF. Answers how many
// bytes it has, 0 if there is none.
unsigned decode_utf8(std::string_view text, size_t at, uint32_t& out);
// Code points that change how a line of text looks, or what a terminal does, without being seen: controls (C0, C1), line separators,
// bidirectional marks, the byte order mark.
bool is_unseen(uint32_t code_point);
// Puts it behind the text. A code point up to 10FFFF.
void append_utf8(std::string& out, uint32_t code_point);

// Sorts the texts. Whether one is there twice, which is then told.
bool find_twice(std::vector<std::string_view>& texts, std::string_view& which);

// Whether the word, one without blanks, stands in a list that has a blank between its words.
bool is_word_of(std::string_view list, std::string_view word);

// Whether a table of states accepts all of the text. The table: numbers of states and of classes of bytes, then for each
// byte its class, for each state whether a text may end there, for each state and class the next state. State 0 is
// where no text is accepted any more, 1 the first. Numbers of a table that is not like that accept nothing.
// `work`, here and below, is charged for the bytes that are looked at, how often it may be; what is answered after it
// ended the run means nothing. Null: not counted.
bool accepts(const int32_t* table, uint64_t length, std::string_view text, WorkAccount* work = nullptr);
// The next piece of a text that the table accepts, the longest one at the first place where there is one; or, if `between`,
// what stands before it. Moves `rest` behind it; passes over pieces of less than `letters` letters and empty ones. False:
// there is none any more.
bool next_token(std::string_view& rest, const int32_t* table, uint64_t length, bool between, uint64_t letters,
                std::string_view& token, WorkAccount* work = nullptr);

}  // namespace mlc
