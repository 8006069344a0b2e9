#include "runtime/cli/answers/answers.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <type_traits>

#include "base/cli/columns.h"
#include "base/counted.h"
#include "base/small_float.h"
#include "runtime/io/npy.h"
#include "runtime/io/npz.h"

namespace mlc::cli {
namespace {

using pipeline::Answer;
using pipeline::AnswerBudget;
using pipeline::Classes;
using pipeline::FoundBoxes;
using pipeline::ImageFile;
using pipeline::SoundFile;
using pipeline::Text;

constexpr int64_t kMostExact = int64_t{1} << 53;  // whole numbers that a double has all of
// Of one answer on stdout with --json, and of a map. Files hold everything.
constexpr int64_t kMostValuesInJson = int64_t{1} << 20;
constexpr size_t kWidest = 80;  // columns of keys and labels; what is longer moves what stands behind it
// About what a value in JSON takes, printed or not, and what a letter of a text does where each is escaped.
constexpr uint64_t kValueInJson = 96, kLetterInJson = 7, kLetterInText = 4;

// `see` is called with each element in order: a double, an int64_t or a uint64_t.
template <class T, class As, class F>
void see_all(const HostTensor& t, F& see) {
  for (T v : t.as<T>()) see(static_cast<As>(v));
}
template <class F>
void for_each_value(const HostTensor& t, F see) {
  switch (t.dtype) {
    case DType::F64: return see_all<double, double>(t, see);
    case DType::F32: return see_all<float, double>(t, see);
    case DType::I64: return see_all<int64_t, int64_t>(t, see);
    case DType::I32: return see_all<int32_t, int64_t>(t, see);
    case DType::I16: return see_all<int16_t, int64_t>(t, see);
    case DType::I8: case DType::I4: case DType::I2: return see_all<int8_t, int64_t>(t, see);
    case DType::U64: return see_all<uint64_t, uint64_t>(t, see);
    case DType::U32: return see_all<uint32_t, int64_t>(t, see);
    case DType::U16: return see_all<uint16_t, int64_t>(t, see);
    case DType::U8: case DType::U4: case DType::U2: case DType::Bool: return see_all<uint8_t, int64_t>(t, see);
    case DType::F16: case DType::BF16:
      for (uint16_t v : t.as<uint16_t>()) see(static_cast<double>(decode_small(t.dtype, v)));
      return;
    case DType::F8E4M3: case DType::F8E5M2: case DType::F8E4M3FNUZ: case DType::F8E5M2FNUZ: case DType::F4E2M1:
    case DType::F8E8M0: case DType::F6E2M3: case DType::F6E3M2:
      for (uint8_t v : t.as<uint8_t>()) see(static_cast<double>(decode_small(t.dtype, v)));
      return;
    case DType::None: case DType::Str: return;
  }
}

// Only for tensors that are known to have few elements: a double takes eight times the memory of a byte.
std::vector<double> numbers(const HostTensor& t) {
  std::vector<double> out;
  for_each_value(t, [&](auto v) { out.push_back(static_cast<double>(v)); });
  return out;
}

std::string number_text(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", v);
  return text;
}

Result<std::string> tensor_text(const HostTensor& t, const std::string& name, AnswerBudget& budget) {
  std::string out = type_text(t.dtype, t.shape);
  if (t.dtype == DType::Str) {
    for (size_t i = 0; i < t.strings.size() && i < 12; ++i) {
      MLC_RETURN_IF_ERROR(budget.take(t.strings[i].size(), kLetterInText, name));
      out += (i ? " '" : "  '") + printable(t.strings[i]) + "'";
    }
    return t.strings.size() > 12 ? out + " ..." : out;
  }
  MLC_RETURN_IF_ERROR(budget.look_at(static_cast<uint64_t>(t.elements()), name));
  if (t.elements() <= 12) {
    const std::vector<double> values = numbers(t);
    if (!values.empty()) out += " ";
    for (double v : values) out += " " + number_text(v);
    return out;
  }
  // The first of the smallest and of the largest; NaN is neither, unless it comes first.
  size_t count = 0, largest_at = 0, smallest_at = 0;
  double largest = 0, smallest = 0;
  for_each_value(t, [&](auto value) {
    const auto v = static_cast<double>(value);
    if (count == 0 || v > largest) largest = v, largest_at = count;
    if (count == 0 || v < smallest) smallest = v, smallest_at = count;
    ++count;
  });
  if (count == 0) return out;
  return out + "  min " + number_text(smallest) + " at " + std::to_string(smallest_at) + ", max " + number_text(largest) +
         " at " + std::to_string(largest_at);
}

// JSON has no infinities and no NaN, and readers hold whole numbers as doubles.
Json value_json(double v) { return std::isfinite(v) ? Json(v) : Json(); }
Json value_json(int64_t v) {
  return v > kMostExact || v < -kMostExact ? Json(std::to_string(v)) : Json(v);
}
Json value_json(uint64_t v) { return v > uint64_t{kMostExact} ? Json(std::to_string(v)) : Json(v); }

Json type_json(const HostTensor& t) { return {{"dtype", name_of(t.dtype)}, {"shape", t.shape}}; }

// Values that may still be shown: of all answers together, as each of them takes some hundred bytes.
class ValuesLeft {
 public:
  bool fit(int64_t count) const { return count <= left_; }
  bool take(int64_t count) {
    if (!fit(count)) return false;
    left_ -= count;
    return true;
  }

 private:
  int64_t left_ = kMostValuesInJson;
};

// Numbers are bounded by `left`, texts by the budget.
Result<Json> tensor_json(const HostTensor& t, const std::string& name, ValuesLeft& left, AnswerBudget& budget) {
  Json out = type_json(t);
  if (!left.take(t.elements())) {
    out["elided"] = true;
    return out;
  }
  Json& data = out["data"] = Json::array();
  for (const std::string& s : t.strings) {
    MLC_RETURN_IF_ERROR(budget.take(kValueInJson + s.size() * kLetterInJson, name));
    data.push_back(s);
  }
  for_each_value(t, [&](auto v) { data.push_back(value_json(v)); });
  return out;
}

// Two answers that are a map of the model: NAME.keys, one axis, and NAME.values, which may have a row for each of several maps.
bool are_map(const std::vector<Answer>& answers, size_t i) {
  constexpr std::string_view kKeys = ".keys", kValues = ".values";
  if (i + 1 >= answers.size()) return false;
  const std::string_view keys = answers[i].name, values = answers[i + 1].name;
  const auto* k = std::get_if<HostTensor>(&answers[i].value);
  const auto* v = std::get_if<HostTensor>(&answers[i + 1].value);
  if (!k || !v || !keys.ends_with(kKeys) || !values.ends_with(kValues)) return false;
  return keys.substr(0, keys.size() - kKeys.size()) == values.substr(0, values.size() - kValues.size()) && k->shape.size() == 1 &&
         (v->shape.size() == 1 || v->shape.size() == 2) && v->shape.back() == k->shape[0] && v->elements() > 0 &&
         v->elements() <= kMostValuesInJson;
}
std::string map_name(const Answer& keys) { return keys.name.substr(0, keys.name.rfind('.')); }

// Each element as a text.
std::vector<std::string> element_texts(const HostTensor& t) {
  std::vector<std::string> out;
  for (const std::string& s : t.strings) out.push_back(s);
  for_each_value(t, [&](auto v) {
    if constexpr (std::is_same_v<decltype(v), double>) out.push_back(number_text(v));
    else out.push_back(std::to_string(v));
  });
  return out;
}

Result<std::string> map_text(const std::string& name, const HostTensor& keys, const HostTensor& values, AnswerBudget& budget) {
  const auto count = static_cast<uint64_t>(keys.elements() + values.elements());
  MLC_RETURN_IF_ERROR(budget.take(count, sizeof(std::string) + kWidest, name));
  for (const HostTensor* each : {&keys, &values})
    for (const std::string& s : each->strings) MLC_RETURN_IF_ERROR(budget.take(s.size(), kLetterInText, name));
  const std::vector<std::string> k = element_texts(keys), v = element_texts(values);
  size_t width = 0;
  for (const std::string& key : k) width = std::max(width, columns_of(printable(key)));
  width = std::min(width, kWidest);
  std::string out;
  for (size_t i = 0; i < v.size() && !k.empty(); ++i) {
    const std::string& given = k[i % k.size()];
    if (i >= k.size()) MLC_RETURN_IF_ERROR(budget.take(given.size(), kLetterInText, name));  // the key again
    const std::string key = printable(given);
    if (i > 0 && i % k.size() == 0) out += "\n";
    out += "  " + padded(key, std::max(width, columns_of(key)) + 3) + printable(v[i]) + "\n";
  }
  return out;
}

// One object, or a list of them.
Result<Json> map_json(const std::string& name, const HostTensor& keys, const HostTensor& values, ValuesLeft& left, AnswerBudget& budget) {
  for (const std::string& s : keys.strings) MLC_RETURN_IF_ERROR(budget.take(sizeof(std::string) + s.size(), name));
  const std::vector<std::string> k = element_texts(keys);
  MLC_ASSIGN(const Json tensor, tensor_json(values, name, left, budget));
  if (!tensor.find("data")) return Json({{"elided", true}});
  const std::span<const Json> data = tensor["data"].items();
  MLC_RETURN_IF_ERROR(budget.take(data.size(), kValueInJson, name));
  Json rows = Json::array();
  for (size_t i = 0; i < data.size() && !k.empty(); ++i) {
    if (i % k.size() == 0) rows.push_back(Json::object());
    MLC_RETURN_IF_ERROR(budget.take(k[i % k.size()].size(), kLetterInJson, name));
    rows.back()[k[i % k.size()]] = data[i];
  }
  return values.shape.size() == 1 && rows.size() == 1 ? std::move(rows.items().front()) : rows;
}

Result<std::string> classes_text(const Classes& c, const std::string& name, AnswerBudget& budget) {
  for (const auto& row : c.rows)
    for (const auto& s : row) MLC_RETURN_IF_ERROR(budget.take(s.label.size() * kLetterInText + 32, name));
  size_t width = 0;
  const auto label = [](const pipeline::Scored& s) { return s.label.empty() ? std::to_string(s.index) : printable(s.label); };
  for (const auto& row : c.rows)
    for (const auto& s : row) width = std::max(width, label(s).size());
  width = std::min(width, kWidest);
  std::string out;
  for (size_t r = 0; r < c.rows.size(); ++r) {
    if (r > 0) out += "\n";
    for (const auto& s : c.rows[r]) {
      char score[32];
      std::snprintf(score, sizeof score, "%.3f", s.score);
      const std::string text = label(s);
      MLC_RETURN_IF_ERROR(budget.take(std::max(width, text.size()) - text.size(), name));
      out += text + std::string(std::max(width, text.size()) - text.size() + 3, ' ') + score + "\n";
    }
  }
  return out;
}

Result<Json> classes_json(const Classes& c, const std::string& name, AnswerBudget& budget) {
  Json rows = Json::array();
  for (const auto& row : c.rows) {
    Json list = Json::array();
    MLC_RETURN_IF_ERROR(budget.take(kValueInJson, name));
    for (const auto& s : row) {
      MLC_RETURN_IF_ERROR(budget.take(4 * kValueInJson + s.label.size() * kLetterInJson, name));
      Json entry = {{"index", s.index}};
      if (!s.label.empty()) entry["label"] = s.label;
      entry["score"] = s.score;
      list.push_back(std::move(entry));
    }
    rows.push_back(std::move(list));
  }
  return rows.size() == 1 ? std::move(rows.items().front()) : rows;
}

Result<Json> lines_json(const Text& t, const std::string& name, AnswerBudget& budget) {
  Json lines = Json::array();
  for (const auto& l : t.lines) {
    MLC_RETURN_IF_ERROR(budget.take(3 * kValueInJson + l.text.size() * kLetterInJson, name));
    Json line = {{"text", l.text}};
    if (l.score) line["score"] = *l.score;
    lines.push_back(std::move(line));
  }
  return lines.size() == 1 ? std::move(lines.items().front()) : lines;
}

std::string name_of_box(const pipeline::FoundBox& b) { return b.label.empty() ? std::to_string(b.index) : printable(b.label); }

// A line for each: label, score, left, top, right, bottom.
Result<std::string> boxes_text(const FoundBoxes& found, const std::string& name, AnswerBudget& budget) {
  constexpr size_t kNumbers = 5 * 16;
  size_t width = 0;
  for (const auto& b : found.boxes) {
    MLC_RETURN_IF_ERROR(budget.take(b.label.size() * kLetterInText + kNumbers, name));
    width = std::max(width, columns_of(name_of_box(b)));
  }
  width = std::min(width, kWidest);
  std::string out;
  for (const auto& b : found.boxes) {
    const std::string label = name_of_box(b);
    MLC_RETURN_IF_ERROR(budget.take(std::max(width, label.size()) - label.size(), name));
    char numbers[128];
    std::snprintf(numbers, sizeof numbers, "%.3f   %.6g %.6g %.6g %.6g\n", b.score, double{b.x1}, double{b.y1}, double{b.x2}, double{b.y2});
    out += padded(label, std::max(width, columns_of(label)) + 3) + numbers;
  }
  return out;
}

Result<Json> boxes_json(const FoundBoxes& found, const std::string& name, AnswerBudget& budget) {
  Json list = Json::array();
  for (const auto& b : found.boxes) {
    MLC_RETURN_IF_ERROR(budget.take(8 * kValueInJson + b.label.size() * kLetterInJson, name));
    Json entry = {{"index", b.index}};
    if (!b.label.empty()) entry["label"] = b.label;
    entry["score"] = value_json(b.score);
    Json& corners = entry["box"] = Json::array();
    for (const float v : {b.x1, b.y1, b.x2, b.y2}) corners.push_back(value_json(double{v}));
    list.push_back(std::move(entry));
  }
  return list;
}

std::string image_text(const ImageFile& image) {
  return image.media_type + ", " + std::to_string(image.width) + " x " + std::to_string(image.height) + " pixels, " + std::to_string(image.bytes.size()) +
         " bytes; -o FILE.png writes it";
}

std::string sound_text(const SoundFile& sound) {
  return sound.media_type + ", " + std::to_string(sound.samples) + " samples, " + counted(static_cast<uint64_t>(sound.channels), "channel") + ", " +
         std::to_string(sound.rate) + " Hz, " + std::to_string(sound.bytes.size()) + " bytes; -o FILE.wav writes it";
}

Json sound_json(const SoundFile& sound) {
  return {{"media_type", sound.media_type}, {"rate", sound.rate}, {"channels", sound.channels}, {"samples", sound.samples}, {"bytes", sound.bytes.size()}};
}

Json image_json(const ImageFile& image) {
  return {{"media_type", image.media_type}, {"width", image.width}, {"height", image.height}, {"bytes", image.bytes.size()}};
}

}  // namespace

std::vector<Answer> as_answers(std::vector<NamedTensor> tensors) {
  std::vector<Answer> out;
  for (NamedTensor& t : tensors) out.push_back({std::move(t.name), std::move(t.tensor)});
  return out;
}

Result<std::string> text_of(const std::vector<Answer>& answers, AnswerBudget& budget) {
  std::string out;
  for (size_t i = 0; i < answers.size(); ++i) {
    const Answer& a = answers[i];
    if (are_map(answers, i)) {
      MLC_ASSIGN(const std::string map, map_text(map_name(a), std::get<HostTensor>(a.value), std::get<HostTensor>(answers[i + 1].value), budget));
      out += printable(map_name(a)) + "\n" + map;
      ++i;
      continue;
    }
    if (const auto* t = std::get_if<HostTensor>(&a.value)) {
      MLC_ASSIGN(const std::string tensor, tensor_text(*t, a.name, budget));
      out += printable(a.name) + "   " + tensor + "\n";
      continue;
    }
    if (const auto* image = std::get_if<ImageFile>(&a.value)) {
      out += printable(a.name) + "   " + image_text(*image) + "\n";
      continue;
    }
    if (const auto* sound = std::get_if<SoundFile>(&a.value)) {
      out += printable(a.name) + "   " + sound_text(*sound) + "\n";
      continue;
    }
    if (answers.size() > 1) out += printable(a.name) + ":\n";
    if (const auto* found = std::get_if<FoundBoxes>(&a.value)) {
      MLC_ASSIGN(const std::string boxes, boxes_text(*found, a.name, budget));
      out += boxes;
    }
    if (const auto* c = std::get_if<Classes>(&a.value)) {
      MLC_ASSIGN(const std::string classes, classes_text(*c, a.name, budget));
      out += classes;
    }
    if (const auto* t = std::get_if<Text>(&a.value))
      for (const auto& line : t->lines) {
        MLC_RETURN_IF_ERROR(budget.take(line.text.size() * kLetterInText + 1, a.name));
        out += printable(line.text) + "\n";
      }
  }
  return out;
}

namespace {

void say_left_out(const std::string& name, const HostTensor& t) {
  note("warning: '" + name + "' has " + std::to_string(t.elements()) + " elements, which are left out: -o FILE.npz has them");
}

Result<Json> answer_json(const Answer& a, ValuesLeft& left, AnswerBudget& budget) {
  if (const auto* t = std::get_if<HostTensor>(&a.value)) return tensor_json(*t, a.name, left, budget);
  if (const auto* c = std::get_if<Classes>(&a.value)) return classes_json(*c, a.name, budget);
  if (const auto* found = std::get_if<FoundBoxes>(&a.value)) return boxes_json(*found, a.name, budget);
  if (const auto* image = std::get_if<ImageFile>(&a.value)) return image_json(*image);
  if (const auto* sound = std::get_if<SoundFile>(&a.value)) return sound_json(*sound);
  return lines_json(std::get<Text>(a.value), a.name, budget);
}

}  // namespace

Result<Json> json_of(const std::vector<Answer>& answers, AnswerBudget& budget) {
  Json out = Json::object();
  ValuesLeft left;
  for (size_t i = 0; i < answers.size(); ++i) {
    const Answer& a = answers[i];
    if (are_map(answers, i)) {
      const auto& values = std::get<HostTensor>(answers[++i].value);
      if (!left.fit(values.elements())) say_left_out(map_name(a), values);
      MLC_ASSIGN(out[map_name(a)], map_json(map_name(a), std::get<HostTensor>(a.value), values, left, budget));
      continue;
    }
    if (const auto* t = std::get_if<HostTensor>(&a.value); t && !left.fit(t->elements())) say_left_out(a.name, *t);
    MLC_ASSIGN(out[a.name], answer_json(a, left, budget));
  }
  return out;
}

namespace {

constexpr size_t kLongString = size_t{1} << 20;

// A text that goes to a file in pieces: that of a large array is never there as a whole.
class JsonFile {
 public:
  explicit JsonFile(io::FileWriter& writer) : writer_(writer) {}

  void add(std::string_view text) {
    text_ += text;
    if (text_.size() >= kPiece) flush();
  }
  Status finish() {
    flush();
    return std::move(status_);
  }

 private:
  static constexpr size_t kPiece = size_t{1} << 16;

  void flush() {
    if (status_.ok()) status_ = writer_.write(std::as_bytes(std::span(text_)));
    text_.clear();
  }

  io::FileWriter& writer_;
  std::string text_;
  Status status_;
};

Status write_tensor(const HostTensor& t, const std::string& name, JsonFile& out, AnswerBudget& budget) {
  std::string head = type_json(t).print();
  head.pop_back();
  out.add(head + ",\"data\":[");
  const char* before = "";
  const auto add = [&](const Json& value) {
    out.add(before + value.print());
    before = ",";
  };
  for (const std::string& s : t.strings) {
    if (s.size() > kLongString) MLC_RETURN_IF_ERROR(budget.take(s.size(), kLetterInJson, name));  // all others are gone when the next one comes
    add(s);
  }
  for_each_value(t, [&](auto v) { add(value_json(v)); });
  out.add("]}");
  return ok();
}

// All of the answers, whatever their number of elements; the form is that of json_of.
Status write_json(const std::vector<Answer>& answers, io::FileWriter& writer, AnswerBudget& budget) {
  JsonFile out(writer);
  const char* before = "{";
  for (size_t i = 0; i < answers.size(); ++i) {
    const Answer& a = answers[i];
    const bool is_map = are_map(answers, i);
    out.add(before + Json(is_map ? map_name(a) : a.name).print() + ":");
    before = ",";
    ValuesLeft left;  // each is written before the next is made
    AnswerBudget of_one = budget;
    if (const auto* t = std::get_if<HostTensor>(&a.value); t && !is_map) {
      MLC_RETURN_IF_ERROR(write_tensor(*t, a.name, out, of_one));
      continue;
    }
    MLC_ASSIGN(const Json json, is_map ? map_json(map_name(a), std::get<HostTensor>(a.value), std::get<HostTensor>(answers[i + 1].value), left, of_one)
                                       : answer_json(a, left, of_one));
    out.add(json.print());
    i += is_map;
  }
  out.add(answers.empty() ? "{}\n" : "}\n");
  return out.finish();
}

bool ends(const std::string& path, std::string_view e) { return path.size() > e.size() && path.ends_with(e); }

// The only answer that is a file of this kind, which is then no longer among the answers.
template <class File>
Status write_file(std::vector<Answer>& answers, const std::string& path, const char* what, io::FileWriter& writer) {
  const auto is_file = [](const Answer& a) { return std::holds_alternative<File>(a.value); };
  const auto count = std::count_if(answers.begin(), answers.end(), is_file);
  if (count != 1)
    return Status(Code::Usage, "-o " + path + ": " + path.substr(path.rfind('.')) + " holds one " + what + ", there are " + std::to_string(count) + " among the answers")
        .hint(count == 0 ? "-o answer.json" : "a pipeline whose 'outputs' have one " + std::string(what));
  const auto file = std::find_if(answers.begin(), answers.end(), is_file);
  MLC_RETURN_IF_ERROR(writer.write(std::get<File>(file->value).bytes));
  answers.erase(file);
  return writer.sync();
}

}  // namespace

Status check_output_name(const std::string& path) {
  if (ends(path, ".json") || ends(path, ".npz") || ends(path, ".npy") || holds_one_file(path)) return ok();
  return Status(Code::Usage, "-o " + path + ": the name must end in .npz, .npy, .json, .png or .wav");
}

bool holds_one_file(const std::string& path) { return ends(path, ".png") || ends(path, ".wav"); }

Status write_answers(std::vector<Answer>& answers, const std::string& path, io::FileWriter& writer, AnswerBudget& budget) {
  MLC_RETURN_IF_ERROR(check_output_name(path));
  if (ends(path, ".png")) return write_file<ImageFile>(answers, path, "picture", writer);
  if (ends(path, ".wav")) return write_file<SoundFile>(answers, path, "sound", writer);
  std::vector<io::NpzItem> items;
  for (const Answer& a : answers)
    if (const auto* t = std::get_if<HostTensor>(&a.value)) items.push_back({a.name, t});
  if (ends(path, ".npz") && items.size() != answers.size())
    return Status(Code::Usage, "-o " + path + ": classes, text, boxes, pictures and sounds are no arrays").hint("-o answer.json, or --raw");
  if (ends(path, ".npy") && (items.size() != 1 || answers.size() != 1))
    return Status(Code::Usage, "-o " + path + ": .npy holds one array, there are " + std::to_string(answers.size()) +
                                   " answers").hint("-o answer.npz");
  if (ends(path, ".json")) {
    MLC_RETURN_IF_ERROR(write_json(answers, writer, budget));
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
