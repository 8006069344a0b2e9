// Steps about strings. Inside a program a string is the u64 number of its text in the table of the run; whether a number
// is one is checked wherever a text is asked for.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/compose.h"
#include "base/text.h"
#include "runtime/plan/program.h"

namespace mlc::exec {
namespace {

uint64_t* numbers(const Value& v) { return reinterpret_cast<uint64_t*>(v->data); }
uint64_t count_of(const Value& v) { return v->size / 8; }

// Bytes put together piece by piece, in memory of the pool.
class Builder {
 public:
  explicit Builder(BlockPool& pool) : pool_(pool) {}
  void clear() { used_ = 0; }
  Status append(const char* data, uint64_t bytes) {
    const auto end = checked_add(used_, bytes);
    if (!end || *end > uint64_t{1} << 48) return Status(Code::Resource, "a text is too long");
    if (!array_) MLC_RETURN_IF_ERROR(make_array(pool_, DType::U8, {}, std::max<uint64_t>(*end, 256), array_));
    else if (BlockPool::capacity(array_->block) < *end)
      MLC_RETURN_IF_ERROR(make_room(*array_.node(), used_, std::max(*end, 2 * used_)));
    if (bytes > 0) std::memcpy(array_->data + used_, data, bytes);
    used_ = *end;
    return ok();
  }
  Status append(std::string_view text) { return append(text.data(), text.size()); }
  const std::byte* data() const { return array_ ? array_->data : nullptr; }
  uint64_t size() const { return used_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data()), static_cast<size_t>(used_)}; }

 private:
  BlockPool& pool_;
  Value array_;
  uint64_t used_ = 0;
};

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// The next piece of a text: moves `rest` behind it. Without a separator pieces stand between runs of blanks.
bool next_piece(std::string_view& rest, std::string_view separator, uint64_t cuts_left, bool& more, std::string_view& piece) {
  if (!more) return false;
  if (separator.empty()) {
    while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
    if (rest.empty()) return false;
    size_t end = 0;
    while (end < rest.size() && !is_blank(rest[end])) ++end;
    if (cuts_left == 0) end = rest.size();
    piece = rest.substr(0, end);
    rest.remove_prefix(end);
    return true;
  }
  const size_t end = cuts_left > 0 ? rest.find(separator) : rest.npos;
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
  const uint64_t count = count_of(value);
  Value made;
  MLC_RETURN_IF_ERROR(make_array(pool_, DType::Str, value.shape(), count * sizeof(Text), made));
  for (uint64_t i = 0; i < count; ++i) {
    std::string_view text;
    MLC_RETURN_IF_ERROR(strings_.text_at(numbers(value)[i], text));
    reinterpret_cast<Text*>(made->data)[i] = {text.data(), text.size()};
  }
  value = std::move(made);
  return ok();
}

Status ProgramRunner::string_step(const Step& s, std::span<Value> args, std::span<Value> results) {
  const Value& first = args[0];
  Value& out = results[0];
  if (s.op == StepOp::StringSplit) return split_strings(s, first, args[1], results);
  if (s.op == StepOp::StringNormalize) return normalize(s, first, args[1], out);
  // What is left goes element by element: from the first operand, but for StringsMake.
  const bool make = s.op == StepOp::StringsMake, from_text = s.op != StepOp::StringFromNumber && !make;
  const Value& from = make ? args[1] : first;
  const uint64_t count = from->size / bytes_of(s.op == StepOp::StringFromNumber ? from->dtype : DType::U64);
  const bool match = s.op == StepOp::StringMatch;
  DType dtype = DType::U64;
  if (s.op == StepOp::StringsOut) dtype = DType::Str;
  else if (match) dtype = DType::Bool;
  else if (s.op == StepOp::NumberFromString) dtype = s.new_axis ? DType::I64 : DType::F64;
  const auto n = static_cast<int64_t>(count);
  MLC_RETURN_IF_ERROR(make_array(pool_, dtype, make ? std::span(&n, 1) : from.shape(), match ? count : 8 * count, out));
  if (s.op <= StepOp::StringsOut) {
    if (count > 0) std::memcpy(out->data, from->data, from->size);
    return ok();
  }
  const char* wrong = s.op == StepOp::StringConcat && args[1]->size != from->size ? "the arrays differ in size" : nullptr;
  uint64_t begin = 0;
  Builder both(pool_);
  for (uint64_t i = 0; i < count && !wrong; ++i) {
    std::string_view text;
    if (from_text) MLC_RETURN_IF_ERROR(strings_.text_at(numbers(from)[i], text));
    uint64_t& to = numbers(out)[match ? 0 : i];  // not touched for a match
    if (match) {
      out->data[i] = std::byte{accepts(reinterpret_cast<const int32_t*>(args[1]->data), args[1]->size / 4, text)};
      continue;
    }
    if (s.op == StepOp::NumberFromString) {
      if (s.new_axis ? read_integer(text, reinterpret_cast<int64_t&>(to)) : read_real(text, reinterpret_cast<double&>(to))) continue;
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
      both.clear();
      MLC_RETURN_IF_ERROR(both.append(text));
      MLC_RETURN_IF_ERROR(strings_.text_at(numbers(args[1])[i], text));
      MLC_RETURN_IF_ERROR(both.append(text));
      text = both.text();
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

Status ProgramRunner::split_strings(const Step& s, const Value& texts, const Value& separators, std::span<Value> results) {
  std::string_view text, separator, piece;
  if (separators->size != 8) return Status(Code::InputMismatch, "a split takes one separator");
  if (texts->rank >= format::kMaxRank) return Status(Code::InputMismatch, "too many axes");
  const uint64_t count = count_of(texts);
  MLC_RETURN_IF_ERROR(make_array(pool_, DType::I64, texts.shape(), 8 * count, results[1]));
  // Once to count, once to take: the table moves when it grows, so texts are asked for again after each piece.
  uint64_t most = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t pieces = 0, taken = 0;
      for (bool more = true;; ++pieces) {
        MLC_RETURN_IF_ERROR(strings_.text_at(numbers(separators)[0], separator));
        MLC_RETURN_IF_ERROR(strings_.text_at(numbers(texts)[i], text));
        const uint64_t bytes = text.size();
        text.remove_prefix(static_cast<size_t>(taken));
        if (!next_piece(text, separator, s.axis - std::min<uint64_t>(s.axis, pieces), more, piece)) break;
        taken = bytes - text.size();
        if (pass == 1) MLC_RETURN_IF_ERROR(strings_.place_of(piece, numbers(results[0])[i * most + pieces]));
      }
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
    if (*bytes > 0) std::memset(results[0]->data, 0, *bytes);
  }
  return ok();
}

Status ProgramRunner::normalize(const Step& s, const Value& texts, const Value& left_out, Value& out) {
  const unsigned change = s.axis & 3;
  const bool exact = (s.axis & 4) != 0;
  std::string_view text;
  Builder built(pool_), one(pool_);
  const auto changed = [&](uint64_t place, bool upper) -> Status {
    MLC_RETURN_IF_ERROR(strings_.text_at(place, text));
    one.clear();
    char letter[4];
    for (size_t at = 0; at < text.size();) {
      const unsigned n = next_in_case(text, at, upper, letter);
      MLC_RETURN_IF_ERROR(one.append(letter, n));
    }
    return ok();
  };
  Value stop;  // what is left out, in lower case where case does not count
  const uint64_t stops = count_of(left_out);
  MLC_RETURN_IF_ERROR(make_array(pool_, DType::U64, {}, left_out->size, stop));
  for (uint64_t k = 0; k < stops; ++k) {
    numbers(stop)[k] = numbers(left_out)[k];
    if (exact) continue;
    MLC_RETURN_IF_ERROR(changed(numbers(stop)[k], false));
    MLC_RETURN_IF_ERROR(strings_.place_of(one.text(), numbers(stop)[k]));
  }
  for (uint64_t i = 0; i < count_of(texts); ++i) {
    uint64_t place = numbers(texts)[i], key = place;
    if (!exact && stops > 0) {
      MLC_RETURN_IF_ERROR(changed(place, false));
      MLC_RETURN_IF_ERROR(strings_.place_of(one.text(), key));
    }
    if (std::find(numbers(stop), numbers(stop) + stops, key) != numbers(stop) + stops) continue;
    if (change != 0) {
      MLC_RETURN_IF_ERROR(changed(place, change == 2));
      MLC_RETURN_IF_ERROR(strings_.place_of(one.text(), place));
    }
    MLC_RETURN_IF_ERROR(built.append(reinterpret_cast<const char*>(&place), 8));
  }
  if (built.size() == 0) {  // one empty text stands for nothing
    const uint64_t empty = 0;
    MLC_RETURN_IF_ERROR(built.append(reinterpret_cast<const char*>(&empty), 8));
  }
  const auto n = static_cast<int64_t>(built.size() / 8);
  MLC_RETURN_IF_ERROR(make_array(pool_, DType::U64, std::span(&n, 1), built.size(), out));
  std::memcpy(out->data, built.data(), built.size());
  return ok();
}

}  // namespace mlc::exec
