#include "packager/nest/interpret/strings.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

#include "base/text/text.h"
#include "packager/ir/numeric.h"

namespace mlc::nest {
namespace {

struct Table {
  std::mutex mutex;
  std::unordered_map<std::string, uint64_t> numbers{{"", 0}};
  std::deque<std::string> texts{""};
};
Table& table() {
  static Table* const t = new Table;  // interpreters may outlive static objects
  return *t;
}

Status refuse_text(std::string message) { return Status(Code::InputMismatch, std::move(message)); }

// Texts of an array of numbers.
Result<std::vector<std::string>> texts_of(const Tensor& t) {
  std::vector<std::string> texts;
  for (uint64_t n : t.values<uint64_t>()) {
    MLC_ASSIGN(std::string text, text_of_number(n));
    texts.push_back(std::move(text));
  }
  return texts;
}
Tensor numbers_of(std::vector<int64_t> shape, const std::vector<std::string>& texts) {
  std::vector<uint64_t> numbers;
  for (const std::string& text : texts) numbers.push_back(number_of_text(text));
  return Tensor::of<uint64_t>(DType::U64, std::move(shape), numbers);
}

std::string in_case(const std::string& text, bool upper) {
  std::string out;
  char letter[4];
  for (size_t at = 0; at < text.size();) {
    const unsigned n = next_in_case(text, at, upper, letter);
    out.append(letter, n);
  }
  return out;
}

std::vector<std::string> pieces_of(const std::string& text, const std::string& separator, uint64_t cuts) {
  std::vector<std::string> pieces;
  size_t at = 0;
  if (!separator.empty()) {
    for (size_t end; pieces.size() < cuts && (end = text.find(separator, at)) != std::string::npos; at = end + separator.size())
      pieces.push_back(text.substr(at, end - at));
    pieces.push_back(text.substr(at));
    return pieces;
  }
  const char* const blanks = " \t\n\v\f\r";
  while ((at = text.find_first_not_of(blanks, at)) != std::string::npos) {
    const size_t end = pieces.size() < cuts ? text.find_first_of(blanks, at) : std::string::npos;
    pieces.push_back(text.substr(at, end == std::string::npos ? end : end - at));
    if (end == std::string::npos) break;
    at = end;
  }
  return pieces;
}

// By a separator, or by what a table accepts.
Result<std::vector<Tensor>> split(const Control& c, const Tensor& whole, const Tensor& by) {
  MLC_ASSIGN(const auto texts, texts_of(whole));
  std::vector<std::string> separator;
  const std::vector<int32_t> table = c.kind == StepOp::StringTokens ? by.values<int32_t>() : std::vector<int32_t>();
  if (c.kind == StepOp::StringSplit) {
    MLC_ASSIGN(separator, texts_of(by));
    if (separator.size() != 1) return refuse_text("a split takes one separator");
  }
  std::vector<std::vector<std::string>> rows;
  std::vector<int64_t> counts;
  size_t most = 0;
  for (const std::string& text : texts) {
    if (separator.empty()) {
      std::string_view rest = text, token;
      rows.emplace_back();
      while (next_token(rest, table.data(), table.size(), c.set.between, c.set.min_letters, token)) rows.back().emplace_back(token);
    } else {
      rows.push_back(pieces_of(text, separator[0], c.set.max_cuts));
    }
    counts.push_back(static_cast<int64_t>(rows.back().size()));
    most = std::max(most, rows.back().size());
  }
  std::vector<std::string> all;
  for (auto& row : rows) {
    row.resize(most);
    all.insert(all.end(), row.begin(), row.end());
  }
  std::vector<int64_t> shape = whole.shape;
  shape.push_back(static_cast<int64_t>(most));
  return std::vector<Tensor>{numbers_of(shape, all), Tensor::of<int64_t>(DType::I64, whole.shape, counts)};
}

Result<Tensor> normalize(const Control& c, const Tensor& given, const Tensor& left_out) {
  const bool exact = c.set.match_case;
  MLC_ASSIGN(const auto texts, texts_of(given));
  MLC_ASSIGN(auto stop, texts_of(left_out));
  if (!exact)
    for (std::string& s : stop) s = in_case(s, false);
  std::vector<std::string> kept;
  for (const std::string& text : texts) {
    if (std::find(stop.begin(), stop.end(), exact ? text : in_case(text, false)) != stop.end()) continue;
    kept.push_back(c.set.case_change == CaseChange::None ? text : in_case(text, c.set.case_change == CaseChange::Upper));
  }
  if (kept.empty()) kept.emplace_back();
  return numbers_of({static_cast<int64_t>(kept.size())}, kept);
}

Tensor ranks(const Tensor& like, const std::vector<std::string>& texts) {
  const std::set<std::string> different(texts.begin(), texts.end());
  std::map<std::string, int64_t> rank;
  for (const std::string& text : different) rank.emplace_hint(rank.end(), text, static_cast<int64_t>(rank.size()));
  std::vector<int64_t> all;
  for (const std::string& text : texts) all.push_back(rank.at(text));
  return Tensor::of<int64_t>(DType::I64, like.shape, all);
}

// Arrays and lists of strings as those of numbers, and back. Recursion: the depth of lists.
Tensor inside(const Tensor& outside) {
  if (!outside.list_depth) return numbers_of(outside.shape, outside.strings);
  Tensor list = Tensor::list(DType::U64, {}, outside.list_depth);
  for (const Tensor& item : outside.items) list.items.push_back(inside(item));
  return list;
}
Result<Tensor> outside(const Tensor& inside) {
  Tensor out = inside.list_depth ? Tensor::list(DType::Str, {}, inside.list_depth) : Tensor{DType::Str, inside.shape, {}};
  for (const Tensor& item : inside.items) {
    MLC_ASSIGN(Tensor one, outside(item));
    out.items.push_back(std::move(one));
  }
  if (!inside.list_depth) { MLC_ASSIGN(out.strings, texts_of(inside)); }
  return out;
}

std::string decimal(DType t, const Tensor& numbers, size_t k) {
  const ir::Scalar v = ir::load_element(t, numbers.bytes.data(), k);
  if (t == DType::Bool) return v.i ? "True" : "False";
  if (!is_float(t)) return is_unsigned_int(t) ? std::to_string(static_cast<uint64_t>(v.i)) : std::to_string(v.i);
  char text[kNumberChars];
  return std::string(text, write_real(v.f, t == DType::F32, text));
}

}  // namespace

uint64_t number_of_text(const std::string& text) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  const auto [found, is_new] = t.numbers.emplace(text, t.texts.size());
  if (is_new) t.texts.push_back(text);
  return found->second;
}

Result<std::string> text_of_number(uint64_t number) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  if (number >= t.texts.size()) return refuse_text(std::to_string(number) + " is no string");
  return t.texts[number];
}

Result<std::vector<Tensor>> run_strings(const Control& c, const std::vector<const Tensor*>& inputs) {
  const bool two = (c.kind >= StepOp::StringsMake && c.kind <= StepOp::StringMatch) || c.kind == StepOp::StringTokens;
  if (inputs.size() != (two ? 2u : 1u)) return Status(Code::Internal, "a string operation has another number of operands");
  const bool is_interface = c.kind == StepOp::StringsIn || c.kind == StepOp::StringsOut;
  for (const Tensor* t : inputs)
    if (!t || (t->list_depth && !is_interface)) return Status(Code::Internal, "a string operation takes arrays");
  const Tensor& first = *inputs[0];
  if (c.kind == StepOp::StringsIn) return std::vector<Tensor>{inside(first)};
  if (c.kind == StepOp::StringsOut) {
    MLC_ASSIGN(Tensor out, outside(first));
    return std::vector<Tensor>{std::move(out)};
  }
  if (c.kind == StepOp::StringFromNumber) {
    std::vector<std::string> texts;
    for (int64_t k = 0; k < first.elements(); ++k) texts.push_back(decimal(first.dtype, first, static_cast<size_t>(k)));
    return std::vector<Tensor>{numbers_of(first.shape, texts)};
  }
  if (c.kind == StepOp::StringsMake) {
    const std::vector<int64_t> ends = inputs[1]->values<int64_t>();
    std::vector<std::string> texts;
    uint64_t begin = 0;
    for (int64_t end : ends) {
      if (end < 0 || static_cast<uint64_t>(end) < begin || static_cast<uint64_t>(end) > first.bytes.size()) return refuse_text("a string lies outside of its text");
      texts.emplace_back(reinterpret_cast<const char*>(first.bytes.data()) + begin, static_cast<uint64_t>(end) - begin);
      begin = static_cast<uint64_t>(end);
    }
    return std::vector<Tensor>{numbers_of({static_cast<int64_t>(ends.size())}, texts)};
  }
  if (c.kind == StepOp::StringSplit || c.kind == StepOp::StringTokens) return split(c, first, *inputs[1]);
  if (c.kind == StepOp::StringNormalize) {
    MLC_ASSIGN(Tensor kept, normalize(c, first, *inputs[1]));
    return std::vector<Tensor>{std::move(kept)};
  }
  MLC_ASSIGN(auto texts, texts_of(first));
  switch (c.kind) {
    case StepOp::StringRank: return std::vector<Tensor>{ranks(first, texts)};
    case StepOp::StringConcat: {
      MLC_ASSIGN(const auto behind, texts_of(*inputs[1]));
      if (behind.size() != texts.size()) return refuse_text("the arrays differ in size");
      for (size_t k = 0; k < texts.size(); ++k) texts[k] += behind[k];
      return std::vector<Tensor>{numbers_of(first.shape, texts)};
    }
    case StepOp::StringMatch: {
      const std::vector<int32_t> table = inputs[1]->values<int32_t>();
      std::vector<uint8_t> truths;
      for (const std::string& text : texts) truths.push_back(accepts(table.data(), table.size(), text));
      return std::vector<Tensor>{Tensor::of<uint8_t>(DType::Bool, first.shape, truths)};
    }
    case StepOp::NumberFromString: {
      Tensor out = Tensor::zeros(c.set.integers ? DType::I64 : DType::F64, first.shape);
      for (size_t k = 0; k < texts.size(); ++k) {
        std::byte* const to = out.bytes.data() + 8 * k;
        if (c.set.integers ? !read_integer(texts[k], *reinterpret_cast<int64_t*>(to)) : !read_real(texts[k], *reinterpret_cast<double*>(to)))
          return refuse_text("'" + texts[k].substr(0, 100) + "' is no number");
      }
      return std::vector<Tensor>{std::move(out)};
    }
    default: break;
  }
  return Status(Code::Internal, "no string operation");
}

}  // namespace mlc::nest
