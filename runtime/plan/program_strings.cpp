// Steps about strings. Inside a program a string is the u64 number of its text in the table of the run; whether a number
// is one is checked wherever a text is asked for.
#include <algorithm>
#include <charconv>
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
  const uint64_t count = count_of(first);
  std::string_view text;
  switch (s.op) {
    case StepOp::StringsIn: case StepOp::StringsOut:
      MLC_RETURN_IF_ERROR(make_array(pool_, s.op == StepOp::StringsIn ? DType::U64 : DType::Str, first.shape(), first->size, out));
      if (first->size > 0) std::memcpy(out->data, first->data, first->size);
      return ok();
    case StepOp::StringsMake: {
      const auto n = static_cast<int64_t>(count_of(args[1]));
      MLC_RETURN_IF_ERROR(make_array(pool_, DType::U64, std::span(&n, 1), args[1]->size, out));
      uint64_t begin = 0;
      for (int64_t i = 0; i < n; ++i) {
        const uint64_t end = numbers(args[1])[i];
        if (end < begin || end > first->size) return Status(Code::InputMismatch, "a string lies outside of its text");
        text = {reinterpret_cast<const char*>(first->data) + begin, static_cast<size_t>(end - begin)};
        MLC_RETURN_IF_ERROR(strings_.place_of(text, numbers(out)[i]));
        begin = end;
      }
      return ok();
    }
    case StepOp::StringConcat: {
      if (first->size != args[1]->size) return Status(Code::InputMismatch, "the arrays differ in size");
      Builder both(pool_);
      MLC_RETURN_IF_ERROR(make_array(pool_, DType::U64, first.shape(), first->size, out));
      for (uint64_t i = 0; i < count; ++i) {
        both.clear();
        for (const Value& part : args) {
          MLC_RETURN_IF_ERROR(strings_.text_at(numbers(part)[i], text));
          MLC_RETURN_IF_ERROR(both.append(text));
        }
        MLC_RETURN_IF_ERROR(strings_.place_of(both.text(), numbers(out)[i]));
      }
      return ok();
    }
    case StepOp::StringSplit: return split_strings(s, first, args[1], results);
    case StepOp::StringNormalize: return normalize(s, first, args[1], out);
    case StepOp::StringMatch:
      MLC_RETURN_IF_ERROR(make_array(pool_, DType::Bool, first.shape(), count, out));
      for (uint64_t i = 0; i < count; ++i) {
        MLC_RETURN_IF_ERROR(strings_.text_at(numbers(first)[i], text));
        out->data[i] = std::byte{accepts(reinterpret_cast<const int32_t*>(args[1]->data), args[1]->size / 4, text)};
      }
      return ok();
    case StepOp::StringFromNumber: {
      const uint64_t n = first->size / bytes_of(first->dtype);
      MLC_RETURN_IF_ERROR(make_array(pool_, DType::U64, first.shape(), 8 * n, out));
      for (uint64_t i = 0; i < n; ++i) MLC_RETURN_IF_ERROR(from_number(*first.node(), i, numbers(out)[i]));
      return ok();
    }
    case StepOp::NumberFromString:
      MLC_RETURN_IF_ERROR(make_array(pool_, s.new_axis ? DType::I64 : DType::F64, first.shape(), 8 * count, out));
      for (uint64_t i = 0; i < count; ++i) {
        MLC_RETURN_IF_ERROR(strings_.text_at(numbers(first)[i], text));
        std::byte* to = out->data + 8 * i;
        const bool good = s.new_axis ? read_integer(text, *reinterpret_cast<int64_t*>(to)) : read_real(text, *reinterpret_cast<double*>(to));
        if (!good) return Status(Code::InputMismatch, compose("'{}' is no number", text.substr(0, 100)));
      }
      return ok();
    default: return Status(Code::Internal, "no such step");
  }
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
    char* end = is_signed_int(n.dtype) ? std::to_chars(text, text + sizeof text, static_cast<int64_t>(bits << shift) >> shift).ptr
                                       : std::to_chars(text, text + sizeof text, bits).ptr;
    length = static_cast<unsigned>(end - text);
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
