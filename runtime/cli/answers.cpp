#include "runtime/cli/answers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <span>

#include "runtime/io/npy.h"
#include "runtime/io/npz.h"

namespace mlc::cli {
namespace {

using pipeline::Answer;
using pipeline::Classes;
using pipeline::Text;

constexpr int64_t kMostValuesInJson = 4096;

// Each element as a double, for showing; nothing of types that are not shown as numbers. `see` is called in order.
template <class T, class F>
void see_all(const HostTensor& t, F& see) {
  for (T v : t.as<T>()) see(static_cast<double>(v));
}
template <class F>
void for_each_number(const HostTensor& t, F see) {
  switch (t.dtype) {
    case DType::F64: return see_all<double>(t, see);
    case DType::F32: return see_all<float>(t, see);
    case DType::I64: return see_all<int64_t>(t, see);
    case DType::I32: return see_all<int32_t>(t, see);
    case DType::I16: return see_all<int16_t>(t, see);
    case DType::I8: case DType::I4: case DType::I2: return see_all<int8_t>(t, see);
    case DType::U64: return see_all<uint64_t>(t, see);
    case DType::U32: return see_all<uint32_t>(t, see);
    case DType::U16: return see_all<uint16_t>(t, see);
    case DType::U8: case DType::U4: case DType::U2: case DType::Bool: return see_all<uint8_t>(t, see);
    case DType::BF16:
      for (uint16_t v : t.as<uint16_t>()) see(std::bit_cast<float>(uint32_t{v} << 16));
      return;
    default: return;
  }
}

// Only for tensors that are known to have few elements: a double takes eight times the memory of a byte.
std::vector<double> numbers(const HostTensor& t) {
  std::vector<double> out;
  for_each_number(t, [&](double v) { out.push_back(v); });
  return out;
}

std::string number_text(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", v);
  return text;
}

std::string tensor_text(const HostTensor& t) {
  std::string out = type_text(t.dtype, t.shape);
  if (t.dtype == DType::Str) {
    for (size_t i = 0; i < t.strings.size() && i < 12; ++i) out += (i ? " '" : "  '") + printable(t.strings[i]) + "'";
    return t.strings.size() > 12 ? out + " ..." : out;
  }
  if (t.elements() <= 12) {
    const std::vector<double> values = numbers(t);
    if (!values.empty()) out += " ";
    for (double v : values) out += " " + number_text(v);
    return out;
  }
  // The first of the smallest and of the largest; NaN is neither, unless it comes first.
  size_t count = 0, largest_at = 0, smallest_at = 0;
  double largest = 0, smallest = 0;
  for_each_number(t, [&](double v) {
    if (count == 0 || v > largest) largest = v, largest_at = count;
    if (count == 0 || v < smallest) smallest = v, smallest_at = count;
    ++count;
  });
  if (count == 0) return out;
  return out + "  min " + number_text(smallest) + " at " + std::to_string(smallest_at) + ", max " + number_text(largest) +
         " at " + std::to_string(largest_at);
}

ordered_json tensor_json(const HostTensor& t) {
  ordered_json out = {{"dtype", name_of(t.dtype)}, {"shape", t.shape}};
  if (t.dtype == DType::Str) {
    out["data"] = t.strings;
    return out;
  }
  const std::vector<double> values = t.elements() <= kMostValuesInJson ? numbers(t) : std::vector<double>();
  if (values.empty()) return out;
  ordered_json data = ordered_json::array();
  for (double v : values) {
    if (!std::isfinite(v)) data.push_back(nullptr);  // JSON has no such numbers
    else if (is_float(t.dtype)) data.push_back(v);
    else if (std::fabs(v) > 9007199254740992.0) data.push_back(std::to_string(static_cast<int64_t>(v)));
    else data.push_back(static_cast<int64_t>(v));
  }
  out["data"] = std::move(data);
  return out;
}

bool is_shown(DType t) {
  return t == DType::Str || t == DType::F32 || t == DType::F64 || t == DType::BF16 || t == DType::Bool || is_int(t);
}

// Two answers that are a map of the model: NAME.keys, one axis, and NAME.values, which may have a row for each of several maps.
bool are_map(const std::vector<Answer>& answers, size_t i) {
  constexpr std::string_view kKeys = ".keys", kValues = ".values";
  if (i + 1 >= answers.size()) return false;
  const std::string_view keys = answers[i].name, values = answers[i + 1].name;
  const auto* k = std::get_if<HostTensor>(&answers[i].value);
  const auto* v = std::get_if<HostTensor>(&answers[i + 1].value);
  if (!k || !v || !keys.ends_with(kKeys) || !values.ends_with(kValues)) return false;
  return is_shown(v->dtype) && keys.substr(0, keys.size() - kKeys.size()) == values.substr(0, values.size() - kValues.size()) && k->shape.size() == 1 &&
         (v->shape.size() == 1 || v->shape.size() == 2) && v->shape.back() == k->shape[0] && v->elements() > 0 &&
         v->elements() <= kMostValuesInJson;
}
std::string map_name(const Answer& keys) { return keys.name.substr(0, keys.name.rfind('.')); }

// Each element as a text.
std::vector<std::string> element_texts(const HostTensor& t) {
  std::vector<std::string> out;
  for (const std::string& s : t.strings) out.push_back(s);
  if (t.dtype == DType::I64)
    for (int64_t v : t.as<int64_t>()) out.push_back(std::to_string(v));
  else
    for (double v : numbers(t)) out.push_back(number_text(v));
  return out;
}

size_t letters(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string map_text(const HostTensor& keys, const HostTensor& values) {
  const std::vector<std::string> k = element_texts(keys), v = element_texts(values);
  size_t width = 0;
  for (const std::string& key : k) width = std::max(width, letters(printable(key)));
  std::string out;
  for (size_t i = 0; i < v.size() && !k.empty(); ++i) {
    const std::string key = printable(k[i % k.size()]);
    if (i > 0 && i % k.size() == 0) out += "\n";
    out += "  " + key + std::string(width - letters(key) + 3, ' ') + printable(v[i]) + "\n";
  }
  return out;
}

// One object, or a list of them.
ordered_json map_json(const HostTensor& keys, const HostTensor& values) {
  const std::vector<std::string> k = element_texts(keys);
  const ordered_json data = tensor_json(values).value("data", ordered_json::array());
  ordered_json rows = ordered_json::array();
  for (size_t i = 0; i < data.size() && !k.empty(); ++i) {
    if (i % k.size() == 0) rows.push_back(ordered_json::object());
    rows.back()[k[i % k.size()]] = data[i];
  }
  return values.shape.size() == 1 && rows.size() == 1 ? std::move(rows[0]) : rows;
}

std::string classes_text(const Classes& c) {
  size_t width = 0;
  const auto label = [](const pipeline::Scored& s) { return s.label.empty() ? std::to_string(s.index) : printable(s.label); };
  for (const auto& row : c.rows)
    for (const auto& s : row) width = std::max(width, label(s).size());
  std::string out;
  for (size_t r = 0; r < c.rows.size(); ++r) {
    if (r > 0) out += "\n";
    for (const auto& s : c.rows[r]) {
      char score[32];
      std::snprintf(score, sizeof score, "%.3f", s.score);
      out += label(s) + std::string(width - label(s).size() + 3, ' ') + score + "\n";
    }
  }
  return out;
}

ordered_json classes_json(const Classes& c) {
  ordered_json rows = ordered_json::array();
  for (const auto& row : c.rows) {
    ordered_json list = ordered_json::array();
    for (const auto& s : row) {
      ordered_json entry = {{"index", s.index}};
      if (!s.label.empty()) entry["label"] = s.label;
      entry["score"] = s.score;
      list.push_back(std::move(entry));
    }
    rows.push_back(std::move(list));
  }
  return rows.size() == 1 ? std::move(rows[0]) : rows;
}

ordered_json lines_json(const Text& t) {
  ordered_json lines = ordered_json::array();
  for (const auto& l : t.lines) lines.push_back({{"text", l.text}, {"score", l.score}});
  return lines.size() == 1 ? std::move(lines[0]) : lines;
}

}  // namespace

std::vector<Answer> as_answers(std::vector<NamedTensor> tensors) {
  std::vector<Answer> out;
  for (NamedTensor& t : tensors) out.push_back({std::move(t.name), std::move(t.tensor)});
  return out;
}

std::string text_of(const std::vector<Answer>& answers) {
  std::string out;
  for (size_t i = 0; i < answers.size(); ++i) {
    const Answer& a = answers[i];
    if (are_map(answers, i)) {
      out += printable(map_name(a)) + "\n" + map_text(std::get<HostTensor>(a.value), std::get<HostTensor>(answers[++i].value));
      continue;
    }
    if (const auto* t = std::get_if<HostTensor>(&a.value)) {
      out += printable(a.name) + "   " + tensor_text(*t) + "\n";
      continue;
    }
    if (answers.size() > 1) out += printable(a.name) + ":\n";
    if (const auto* c = std::get_if<Classes>(&a.value)) out += classes_text(*c);
    if (const auto* t = std::get_if<Text>(&a.value))
      for (const auto& line : t->lines) out += printable(line.text) + "\n";
  }
  return out;
}

ordered_json json_of(const std::vector<Answer>& answers) {
  ordered_json out = ordered_json::object();
  for (size_t i = 0; i < answers.size(); ++i) {
    const Answer& a = answers[i];
    if (are_map(answers, i)) {
      out[map_name(a)] = map_json(std::get<HostTensor>(a.value), std::get<HostTensor>(answers[++i].value));
      continue;
    }
    if (const auto* t = std::get_if<HostTensor>(&a.value)) out[a.name] = tensor_json(*t);
    if (const auto* c = std::get_if<Classes>(&a.value)) out[a.name] = classes_json(*c);
    if (const auto* t = std::get_if<Text>(&a.value)) out[a.name] = lines_json(*t);
  }
  return out;
}

namespace {

bool ends(const std::string& path, std::string_view e) { return path.size() > e.size() && path.ends_with(e); }

}  // namespace

Status check_output_name(const std::string& path) {
  if (ends(path, ".json") || ends(path, ".npz") || ends(path, ".npy")) return ok();
  return Status(Code::Usage, "-o " + path + ": the name must end in .npz, .npy or .json");
}

Status write_answers(const std::vector<Answer>& answers, const std::string& path, io::FileWriter& writer) {
  MLC_RETURN_IF_ERROR(check_output_name(path));
  std::vector<io::NpzItem> items;
  for (const Answer& a : answers)
    if (const auto* t = std::get_if<HostTensor>(&a.value)) items.push_back({a.name, t});
  if (ends(path, ".npz") && items.size() != answers.size())
    return Status(Code::Usage, "-o " + path + ": classes and text are no arrays").hint("-o answer.json, or --raw");
  if (ends(path, ".npy") && (items.size() != 1 || answers.size() != 1))
    return Status(Code::Usage, "-o " + path + ": .npy holds one array, there are " + std::to_string(answers.size()) +
                                   " answers").hint("-o answer.npz");
  if (ends(path, ".json")) {
    const std::string text = json_of(answers).dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
    MLC_RETURN_IF_ERROR(writer.write(std::as_bytes(std::span(text))));
  } else if (ends(path, ".npz")) {
    MLC_RETURN_IF_ERROR(io::write_npz(items, [&](Bytes b) { return writer.write(b); }));
  } else {
    MLC_ASSIGN(const std::vector<std::byte> header, io::npy_header(*items[0].tensor));
    MLC_RETURN_IF_ERROR(writer.write(header));
    MLC_RETURN_IF_ERROR(writer.write(items[0].tensor->data.bytes()));
  }
  return writer.sync();
}

}  // namespace mlc::cli
