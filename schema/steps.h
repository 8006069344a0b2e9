// Operations of steps: what programs do beside launching kernels. One table for nests (packager/nest), plans (runtime/plan) and
// the texts of both; numbered as in schema/plan.fbs (a test compares them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace mlc {

enum class StepOp : uint8_t {
  None = 0,
  // Plans only: functions {f}: inputs -> outputs.
  Call,
  // inputs: condition (bool, one element), arguments... -> results of bodies[0] if it is true, else of bodies[1],
  // which both take the arguments.
  Branch,
  // inputs: trip count (i64, one element, or absent), condition (bool, one element, or absent), `carried` initial
  // values, arguments... The body takes iteration number (i64 []), condition (bool []), carried values, arguments and
  // gives condition (bool, one element), carried values, scanned values. It runs while the condition holds, at most
  // `trip count` times. Results: the carried values after the last run, then every scanned value of all runs along a
  // new first axis; without a run that array has as many axes as its shape says, and no elements.
  Loop,
  ListMake,    // arrays or lists of one depth... -> list of them in this order; without inputs: the empty list
  ListInsert,  // list, item, position (i64, one element; absent: at the end; negative counts from the end) -> list
  ListErase,   // list, position (absent: the last) -> list
  ListAt,      // list, position -> item
  ListLength,  // list -> i64 []
  ListConcat,  // list -> array: the items along `axis`, which is a new one if `new_axis`
  // array, lengths (i64 [n], or i64 [] for equal pieces of which the last may be shorter; absent: pieces of 1) ->
  // list of pieces along `axis`, which is dropped from pieces of one element if `drop_axis`
  ListSplit,
  // Strings. Below the interface a string is a u64: its place in a table of the run in which every text is once, so
  // that equal texts have equal numbers; 0 is the empty text. Arrays and lists of DType::Str are inputs and outputs only
  // (and stand for arrays of such numbers while a model is expanded).
  StringsIn,     // str array or list -> u64 array or list
  StringsOut,    // u64 array or list -> str array or list
  StringsMake,   // text (u8 [bytes]), ends (i64 [n], not falling) -> u64 [n]: the pieces of the text
  StringConcat,  // two u64 arrays of one shape -> u64 array: one text behind the other
  // u64 array, separator (u64, one element; empty: runs of blanks) -> u64 array with one more axis, i64 array of the
  // numbers of pieces. At most `max_cuts` cuts per text.
  StringSplit,
  // u64 [n], texts to leave out (u64 [k]) -> u64 [m], with `case_change`; `match_case`: case counts in the comparison.
  StringNormalize,
  StringMatch,       // u64 array, table (i32 [n], base/text/text.h: accepts) -> bool array
  StringFromNumber,  // array of any numbers but small floats -> u64 array
  NumberFromString,  // u64 array -> f64 array, or an i64 array if `integers`
  // u64 array, table (as for StringMatch) -> as StringSplit: the longest pieces, from the left, that the table accepts; what
  // stands between them if `between`. Pieces of less than `min_letters` letters, and empty ones, are left out.
  StringTokens,
  StringRank,  // u64 array -> i64 array: how many of the different texts in it come before this one, byte by byte
  Host,        // arrays but strings... -> arrays: what `service` of the application makes of them, told `options` as well
  // Nests only: symbols[k] = element k (row-major) of the integer or bool array inputs[0]; fails outside the symbol's bounds.
  Read,
};
inline constexpr uint8_t kLastStepOp = static_cast<uint8_t>(StepOp::Host);  // of those in plans

// The word of each operation in texts, by its number; 0 has none.
inline constexpr std::string_view kStepWords[] = {
    "",           "call",         "branch",       "loop",          "list_make",     "list_insert",      "list_erase",   "list_at",
    "list_length", "list_concat", "list_split",   "strings_in",    "strings_out",   "strings_make",     "string_concat", "string_split",
    "string_normalize", "string_match", "string_from_number", "number_from_string", "string_tokens", "string_rank", "host", "read"};
static_assert(std::size(kStepWords) == static_cast<size_t>(StepOp::Read) + 1);

constexpr bool is_about_strings(StepOp op) { return op >= StepOp::StringsIn && op <= StepOp::StringRank; }

enum class CaseChange : uint8_t { None = 0, Lower, Upper };
inline constexpr uint8_t kLastCaseChange = static_cast<uint8_t>(CaseChange::Upper);

// What an operation is told beside its operands; each reads the fields that name it.
struct StepSettings {
  uint32_t axis = 0;         // ListConcat, ListSplit
  bool new_axis = false;     // ListConcat: `axis` is a new one of the result
  bool drop_axis = false;    // ListSplit: pieces of length 1 lose the axis
  uint32_t max_cuts = 0;     // StringSplit, of each text
  uint32_t min_letters = 0;  // StringTokens: pieces with fewer are left out
  bool between = false;      // StringTokens: the pieces are what stands between those that the table accepts
  CaseChange case_change = CaseChange::None;  // StringNormalize
  bool match_case = false;   // StringNormalize: case counts when words are compared
  bool integers = false;     // NumberFromString
};

// " axis 1 drop": the fields that are set, each behind a blank, in this order: axis, new, drop, cuts, letters, between, lower or
// upper, match_case, integers.
std::string text_of(const StepSettings& settings);

}  // namespace mlc
