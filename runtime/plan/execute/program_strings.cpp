// Steps about strings. Inside a program a string is the u64 number of its text in the table of the run; whether a number
// is one is checked wherever a text is asked for.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/compose.h"
#include "base/system/find_bytes.h"
#include "base/text/text.h"
#include "runtime/plan/execute/program.h"

namespace mlc::exec {
namespace {

uint64_t* numbers(const Value& v) { return reinterpret_cast<uint64_t*>(v->data); }
uint64_t count_of(const Value& v) { return v->size / 8; }

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Where `what` begins in a text, npos if it does not. In linear time, and charged for what it looks at.
size_t find_in(std::string_view text, std::string_view what, WorkAccount& work) {
  constexpr size_t kFirst = 4 << 10, kMost = 1 << 20;
  for (size_t from = 0, window = kFirst; from < text.size(); from += window, window = std::min(2 * window, kMost)) {
    window = std::max(window, what.size());
    const std::string_view part = text.substr(from, window + what.size() - 1);
    const size_t found = find_bytes(part, what);
    const size_t at = std::min(found, part.size());
    if (!work.spend(1 + (at + what.size()) / 8)) return text.npos;
    if (found != part.npos) return from + at;
  }
  return text.npos;
}

// The next piece of a text: moves `rest` behind it. Without a separator pieces stand between runs of blanks. Work is charged.
bool next_piece(std::string_view& rest, std::string_view separator, uint64_t cuts_left, WorkAccount& work, bool& more,
                std::string_view& piece) {
  if (!more) return false;
  if (separator.empty()) {
    while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
    if (rest.empty()) return false;
    size_t end = 0;
    while (end < rest.size() && !is_blank(rest[end])) ++end;
    if (cuts_left == 0) end = rest.size();
    piece = rest.substr(0, end);
    rest.remove_prefix(end);
    return work.spend(1 + end / 8);
  }
  const size_t end = cuts_left > 0 ? find_in(rest, separator, work) : rest.npos;
  piece = rest.substr(0, end);
  more = end != rest.npos;
  if (more) rest.remove_prefix(end + separator.size());
  return true;
}

}  // namespace

Status ProgramRunner::take_strings(const InputArg& in, Value& out) {
  uint64_t count = 1;
  for (int64_t extent : in.shape) count *= static_cast<uint64_t>(extent);  // checked with the arguments
  MLC_RETURN_IF_ERROR(make_array(pool_, DType::Str, in.shape, 8 * count, out));
  for (uint64_t i = 0; i < count; ++i) {
    Text t;
    std::memcpy(&t, static_cast<const std::byte*>(in.data) + i * sizeof t, sizeof t);
    if (t.bytes > 0 && !t.data) return Status(Code::InputMismatch, 4001, "a string without its text");
    MLC_RETURN_IF_ERROR(strings_.place_of({t.data, static_cast<size_t>(t.bytes)}, numbers(out)[i]));
  }
  return ok();
}

Status ProgramRunner::give_strings(Value& value) {
  Value made;
  if (value.is_list()) {
    MLC_RETURN_IF_ERROR(make_list(pool_, DType::Str, value->list_depth, value->size, made));
    for (uint64_t i = 0; i < value->size; ++i) {
      Value item = value.item(i);
      MLC_RETURN_IF_ERROR(give_strings(item));
      MLC_RETURN_IF_ERROR(append(made, item));
    }
    value = std::move(made);
    return ok();
  }
  const uint64_t count = count_of(value);
  MLC_RETURN_IF_ERROR(make_array(pool_, DType::Str, value.shape(), count * sizeof(Text), made, Content::Objects));
  for (uint64_t i = 0; i < count; ++i) {
    std::string_view text;
    MLC_RETURN_IF_ERROR(strings_.text_at(numbers(value)[i], text));
    reinterpret_cast<Text*>(made->data)[i] = {text.data(), text.size()};
  }
  value = std::move(made);
  return ok();
}

// An array or list of strings, in which they are numbers already, as one of numbers; or back. Recursion: the depth of lists.
Status ProgramRunner::retype(const Value& from, DType dtype, Value& out) {
  if (!from.is_list()) {
    MLC_RETURN_IF_ERROR(make_array(pool_, dtype, from.shape(), from->size, out));
    return copy(out->data, from->data, from->size) ? ok() : executor_.why_stopped();
  }
  MLC_RETURN_IF_ERROR(make_list(pool_, dtype, from->list_depth, from->size, out));
  for (uint64_t i = 0; i < from->size; ++i) {
    MLC_RETURN_IF_ERROR(spend(8));
    Value item;
    MLC_RETURN_IF_ERROR(retype(from.item(i), dtype, item));
    MLC_RETURN_IF_ERROR(append(out, item));
  }
  return ok();
}

Status ProgramRunner::rank_strings(const Value& texts, Value& out) {
  const uint64_t count = count_of(texts);
  Value sorted;
  MLC_RETURN_IF_ERROR(make_array(pool_, DType::I64, texts.shape(), 8 * count, out));
  MLC_RETURN_IF_ERROR(make_array(pool_, DType::U64, texts.shape(), 8 * count, sorted));
  const uint64_t* number = numbers(texts);
  uint64_t* const order = numbers(sorted);
  for (uint64_t i = 0; i < count; ++i) {
    if (!work_.spend(1)) return executor_.why_stopped();
    std::string_view text;
    MLC_RETURN_IF_ERROR(strings_.text_at(number[i], text));
    order[i] = i;
  }
  const auto before = [&](uint64_t x, uint64_t y) {
    std::string_view a, b;
    (void)strings_.text_at(number[x], a);  // all of them are there, and nothing moves
    (void)strings_.text_at(number[y], b);
    (void)work_.spend(units_of(std::min(a.size(), b.size())));  // looked at below
    return a < b;
  };
  // A heap, because sorting with it can stop between any two elements.
  for (uint64_t size = 1; size <= count; ++size) {
    if (!work_.spend(1)) return executor_.why_stopped();
    std::push_heap(order, order + size, before);
  }
  for (uint64_t size = count; size > 1; --size) {
    if (!work_.spend(1)) return executor_.why_stopped();
    std::pop_heap(order, order + size, before);
  }
  uint64_t rank = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (i > 0 && number[order[i]] != number[order[i - 1]]) ++rank;
    numbers(out)[order[i]] = rank;
  }
  return ok();
}

Status ProgramRunner::string_step(const Step& s, std::span<Value> args, std::span<Value> results) {
  const Value& first = args[0];
  Value& out = results[0];
  if (s.op <= StepOp::StringsOut) return retype(first, s.op == StepOp::StringsOut ? DType::Str : DType::U64, out);
  if (s.op == StepOp::StringRank) return rank_strings(first, out);
  if (s.op == StepOp::StringSplit || s.op == StepOp::StringTokens) return split_strings(s, first, args[1], results);
  if (s.op == StepOp::StringNormalize) return normalize(s, first, args[1], out);
  // What is left goes element by element: from the first operand, but for StringsMake.
  const bool make = s.op == StepOp::StringsMake, from_text = s.op != StepOp::StringFromNumber && !make;
  const Value& from = make ? args[1] : first;
  const uint64_t count = from->size / bytes_of(s.op == StepOp::StringFromNumber ? from->dtype : DType::U64);
  const bool match = s.op == StepOp::StringMatch;
  DType dtype = DType::U64;
  if (match) dtype = DType::Bool;
  else if (s.op == StepOp::NumberFromString) dtype = s.integers ? DType::I64 : DType::F64;
  const auto n = static_cast<int64_t>(count);
  MLC_RETURN_IF_ERROR(make_array(pool_, dtype, make ? std::span(&n, 1) : from.shape(), match ? count : 8 * count, out));
  const char* wrong = s.op == StepOp::StringConcat && args[1]->size != from->size ? "the arrays differ in size" : nullptr;
  uint64_t begin = 0;
  for (uint64_t i = 0; i < count && !wrong; ++i) {
    if (!work_.spend(4)) return executor_.why_stopped();
    std::string_view text;
    if (from_text) MLC_RETURN_IF_ERROR(strings_.text_at(numbers(from)[i], text));
    uint64_t& to = numbers(out)[match ? 0 : i];  // not touched for a match
    if (match) {
      out->data[i] = std::byte{accepts(reinterpret_cast<const int32_t*>(args[1]->data), args[1]->size / 4, text, &work_)};
      continue;
    }
    if (s.op == StepOp::NumberFromString) {
      MLC_RETURN_IF_ERROR(spend(1 + text.size() / 4));
      if (s.integers ? read_integer(text, reinterpret_cast<int64_t&>(to)) : read_real(text, reinterpret_cast<double&>(to))) continue;
      return Status(Code::InputMismatch, compose("'{}' is no number", text.substr(0, 100)));
    }
    if (s.op == StepOp::StringFromNumber) {
      MLC_RETURN_IF_ERROR(from_number(*from.node(), i, to));
      continue;
    }
    if (make) {
      const uint64_t end = numbers(from)[i];
      if (end < begin || end > first->size) {
        wrong = "a string lies outside of its text";
        break;
      }
      text = {reinterpret_cast<const char*>(first->data) + begin, static_cast<size_t>(end - begin)};
      begin = end;
    } else {
      MLC_RETURN_IF_ERROR(strings_.append(text));
      MLC_RETURN_IF_ERROR(strings_.text_at(numbers(args[1])[i], text));
    }
    MLC_RETURN_IF_ERROR(strings_.place_of(text, to));
  }
  return wrong ? Status(Code::InputMismatch, wrong) : ok();
}

Status ProgramRunner::from_number(const ValueNode& n, uint64_t at, uint64_t& out) {
  char text[kNumberChars];
  const std::byte* from = n.data + at * bytes_of(n.dtype);
  unsigned length = 0;
  if (is_float(n.dtype)) {
    double value = 0;
    float narrow = 0;
    if (n.dtype == DType::F64) std::memcpy(&value, from, 8);
    else std::memcpy(&narrow, from, 4), value = narrow;
    length = write_real(value, n.dtype == DType::F32, text);
  } else if (n.dtype == DType::Bool) {
    return strings_.place_of(*from != std::byte{0} ? "True" : "False", out);
  } else {
    uint64_t bits = 0;
    const unsigned bytes = bytes_of(n.dtype), shift = 64 - 8 * bytes;
    std::memcpy(&bits, from, bytes);  // little-endian hosts only
    const std::string digits = is_signed_int(n.dtype) ? compose("{}", static_cast<int64_t>(bits << shift) >> shift) : compose("{}", bits);
    return strings_.place_of(digits, out);
  }
  return strings_.place_of({text, length}, out);
}

// By a separator, or by what a table accepts.
Status ProgramRunner::split_strings(const Step& s, const Value& texts, const Value& by, std::span<Value> results) {
  std::string_view text, separator, piece;
  const bool tokens = s.op == StepOp::StringTokens;
  if (!tokens && by->size != 8) return Status(Code::InputMismatch, "a split takes one separator");
  if (texts->rank >= format::kMaxRank) return Status(Code::InputMismatch, "too many axes");
  const uint64_t count = count_of(texts);
  MLC_RETURN_IF_ERROR(make_array(pool_, DType::I64, texts.shape(), 8 * count, results[1]));
  // Once to count, once to take: the table moves when it grows, so texts are asked for again after each piece.
  uint64_t most = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t pieces = 0, taken = 0;
      for (bool more = true;; ++pieces) {
        if (!tokens) MLC_RETURN_IF_ERROR(strings_.text_at(numbers(by)[0], separator));
        MLC_RETURN_IF_ERROR(strings_.text_at(numbers(texts)[i], text));
        const uint64_t bytes = text.size();
        text.remove_prefix(static_cast<size_t>(taken));
        if (tokens ? !next_token(text, reinterpret_cast<const int32_t*>(by->data), by->size / 4, s.between, s.min_letters,
                                 piece, &work_)
                   : !next_piece(text, separator, s.max_cuts - std::min<uint64_t>(s.max_cuts, pieces), work_, more, piece))
          break;
        if (!work_.spend(4)) return executor_.why_stopped();
        taken = bytes - text.size();
        if (pass == 1) MLC_RETURN_IF_ERROR(strings_.place_of(piece, numbers(results[0])[i * most + pieces]));
      }
      if (!work_.spend(4)) return executor_.why_stopped();  // also where a search ended because the run did
      numbers(results[1])[i] = pieces;
      most = pass == 0 ? std::max(most, pieces) : most;
    }
    if (pass == 1) break;
    int64_t shape[format::kMaxRank];
    std::copy_n(texts->shape, texts->rank, shape);
    shape[texts->rank] = static_cast<int64_t>(most);
    const auto bytes = checked_mul(8 * count, most);
    if (!bytes || *bytes > uint64_t{1} << 48) return Status(Code::Resource, "too many pieces");
    MLC_RETURN_IF_ERROR(make_array(pool_, DType::U64, std::span(shape, texts->rank + size_t{1}), *bytes, results[0]));
    MLC_RETURN_IF_ERROR(spend(units_of(*bytes)));
    if (*bytes > 0) std::memset(results[0]->data, 0, *bytes);
  }
  return ok();
}

Status ProgramRunner::normalize(const Step& s, const Value& texts, const Value& left_out, Value& out) {
  const auto changed = [&](uint64_t& place, bool upper) -> Status {
    std::string_view text;
    char letter[4];
    for (size_t at = 0;;) {
      MLC_RETURN_IF_ERROR(strings_.text_at(place, text));  // the table moves
      if (at >= text.size()) return strings_.finish(place);
      const unsigned n = next_in_case(text, at, upper, letter);
      MLC_RETURN_IF_ERROR(strings_.append({letter, n}));
    }
  };
  // Behind the result lies what is left out, in lower case where case does not count.
  const uint64_t count = count_of(texts), stops = count_of(left_out);
  const int64_t none = 0;
  MLC_RETURN_IF_ERROR(make_array(pool_, DType::U64, std::span(&none, 1), 8 * (count + 1 + stops), out));
  uint64_t *const to = numbers(out), *const stop = to + count + 1;
  for (uint64_t k = 0; k < stops; ++k) {
    stop[k] = numbers(left_out)[k];
    if (!s.match_case) MLC_RETURN_IF_ERROR(changed(stop[k], false));
  }
  uint64_t kept = 0;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t key = numbers(texts)[i];
    if (!s.match_case && stops > 0) MLC_RETURN_IF_ERROR(changed(key, false));
    MLC_RETURN_IF_ERROR(spend(1 + stops / 4));
    if (std::find(stop, stop + stops, key) != stop + stops) continue;
    to[kept] = numbers(texts)[i];
    if (s.case_change != CaseChange::None) MLC_RETURN_IF_ERROR(changed(to[kept], s.case_change == CaseChange::Upper));
    ++kept;
  }
  if (kept == 0) to[kept++] = 0;  // one empty text stands for nothing
  out->shape[0] = static_cast<int64_t>(kept);
  set_size(*out.node(), 8 * kept);
  return ok();
}

}  // namespace mlc::exec
