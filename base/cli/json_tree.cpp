#include "base/cli/json_tree.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <utility>

#include <nlohmann/json.hpp>

namespace mlc::cli {
namespace {

// nlohmann-json prints what is not trivial: real numbers, and strings that have to be escaped or repaired.
void add_real(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char digits[64];  // what its printer has for them
  out.append(digits, nlohmann::detail::to_chars(digits, digits + sizeof digits, value));
}

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
}

void add_string(const std::string& text, std::string& out) {
  if (is_plain(text)) out.append(1, '"').append(text).append(1, '"');
  else out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <class T>
void add_whole(T value, std::string& out) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

}  // namespace

// Members in the order of their addition, and where each stands once they are more than a look along them is quick for.
struct Json::Object {
  static constexpr size_t kMostUnsorted = 24;

  std::vector<JsonMember> members;
  std::map<std::string, size_t, std::less<>> places;  // empty for few members

  JsonMember* find(std::string_view name) {
    if (!places.empty()) {
      const auto place = places.find(name);
      return place == places.end() ? nullptr : &members[place->second];
    }
    const auto found = std::find_if(members.begin(), members.end(), [&](const JsonMember& m) { return m.name == name; });
    return found == members.end() ? nullptr : &*found;
  }
  // Of a name that is not there.
  Json& append(std::string_view name, Json value) {
    members.push_back({std::string(name), std::move(value)});
    if (!places.empty()) places.emplace(name, members.size() - 1);
    else if (members.size() > kMostUnsorted) set_places();
    return members.back().value;
  }
  void erase(std::string_view name) {
    JsonMember* const found = find(name);
    if (!found) return;
    members.erase(members.begin() + (found - members.data()));
    places.clear();
    if (members.size() > kMostUnsorted) set_places();
  }

 private:
  void set_places() {
    for (size_t k = 0; k < members.size(); ++k) places.emplace(members[k].name, k);
  }
};

Json::Json(std::string text) : kind_(Kind::String) { value_.text = new std::string(std::move(text)); }

Json::Json(std::initializer_list<JsonField> fields) : Json(object()) {
  value_.object->members.reserve(fields.size());
  for (const JsonField& field : fields) append(field.name, std::move(field.value));
}

Json::Json(const Json& other) : value_(other.value_) {
  switch (other.kind_) {
    case Kind::String: value_.text = new std::string(*other.value_.text); break;
    case Kind::Array: value_.items = new std::vector<Json>(*other.value_.items); break;
    case Kind::Object: value_.object = new Object(*other.value_.object); break;
    case Kind::Null: case Kind::Bool: case Kind::Signed: case Kind::Unsigned: case Kind::Real: break;
  }
  kind_ = other.kind_;
}

void Json::release() noexcept {
  switch (kind_) {
    case Kind::String: delete value_.text; break;
    case Kind::Array: delete value_.items; break;
    case Kind::Object: delete value_.object; break;
    case Kind::Null: case Kind::Bool: case Kind::Signed: case Kind::Unsigned: case Kind::Real: break;
  }
}

Json Json::array() {
  Json json;
  json.value_.items = new std::vector<Json>();
  json.kind_ = Kind::Array;
  return json;
}

Json Json::array(std::initializer_list<Json> items) {
  Json json = array();
  json.value_.items->assign(items.begin(), items.end());
  return json;
}

Json Json::object() {
  Json json;
  json.value_.object = new Object();
  json.kind_ = Kind::Object;
  return json;
}

void Json::push_back(Json item) {
  if (is(Kind::Null)) *this = array();
  if (is(Kind::Array)) value_.items->push_back(std::move(item));
}

Json& Json::back() { return value_.items->back(); }

Json& Json::operator[](std::string_view name) {
  if (!is(Kind::Object)) *this = object();
  JsonMember* const found = value_.object->find(name);
  return found ? found->value : value_.object->append(name, Json());
}

void Json::append(std::string_view name, Json value) { value_.object->append(name, std::move(value)); }

void Json::update(Json other) {
  if (!is(Kind::Object)) *this = object();
  if (!other.is(Kind::Object)) return;
  for (JsonMember& member : other.value_.object->members) (*this)[member.name] = std::move(member.value);
}

void Json::erase(std::string_view name) {
  if (is(Kind::Object)) value_.object->erase(name);
}

size_t Json::size() const { return is(Kind::Array) ? value_.items->size() : is(Kind::Object) ? value_.object->members.size() : 0; }

std::span<const Json> Json::items() const { return is(Kind::Array) ? std::span<const Json>(*value_.items) : std::span<const Json>(); }
std::span<Json> Json::items() { return is(Kind::Array) ? std::span<Json>(*value_.items) : std::span<Json>(); }

std::span<const JsonMember> Json::members() const {
  return is(Kind::Object) ? std::span<const JsonMember>(value_.object->members) : std::span<const JsonMember>();
}

const Json* Json::find(std::string_view name) const {
  const JsonMember* const found = is(Kind::Object) ? value_.object->find(name) : nullptr;
  return found ? &found->value : nullptr;
}

const Json& Json::operator[](std::string_view name) const {
  static const Json nothing;
  const Json* const found = find(name);
  return found ? *found : nothing;
}

const std::string& Json::text() const {
  static const std::string nothing;
  return is(Kind::String) ? *value_.text : nothing;
}

uint64_t Json::as_u64() const {
  return is(Kind::Unsigned) ? value_.natural : is(Kind::Signed) ? static_cast<uint64_t>(value_.whole) : is(Kind::Real) ? static_cast<uint64_t>(value_.real) : 0;
}

int64_t Json::as_i64() const {
  return is(Kind::Signed) ? value_.whole : is(Kind::Unsigned) ? static_cast<int64_t>(value_.natural) : is(Kind::Real) ? static_cast<int64_t>(value_.real) : 0;
}

double Json::number() const {
  return is(Kind::Real) ? value_.real : is(Kind::Unsigned) ? static_cast<double>(value_.natural) : is(Kind::Signed) ? static_cast<double>(value_.whole) : 0;
}

bool operator==(const Json& a, const Json& b) {
  using Kind = Json::Kind;
  const auto is_number = [](const Json& json) { return json.is(Kind::Signed) || json.is(Kind::Unsigned) || json.is(Kind::Real); };
  if (is_number(a) && is_number(b)) {
    if (a.is(Kind::Real) || b.is(Kind::Real)) return a.number() == b.number();
    if (a.kind_ == b.kind_) return a.value_.natural == b.value_.natural;
    return std::cmp_equal(a.is(Kind::Signed) ? a.value_.whole : b.value_.whole, a.is(Kind::Signed) ? b.value_.natural : a.value_.natural);
  }
  if (a.kind_ != b.kind_) return false;
  switch (a.kind_) {
    case Kind::Bool: return a.value_.boolean == b.value_.boolean;
    case Kind::String: return *a.value_.text == *b.value_.text;
    case Kind::Array: return *a.value_.items == *b.value_.items;
    case Kind::Object: return std::ranges::equal(a.members(), b.members(), [](const JsonMember& x, const JsonMember& y) { return x.name == y.name && x.value == y.value; });
    case Kind::Null: case Kind::Signed: case Kind::Unsigned: case Kind::Real: break;
  }
  return true;
}

namespace {

// Prints into one string, which grows at its end.
struct JsonPrinter {
  std::string& out;

  void add(const Json& json) {
    using Kind = Json::Kind;
    switch (json.kind()) {
      case Kind::Null: out += "null"; break;
      case Kind::Bool: out += json == Json(true) ? "true" : "false"; break;
      case Kind::Signed: add_whole(json.as_i64(), out); break;
      case Kind::Unsigned: add_whole(json.as_u64(), out); break;
      case Kind::Real: add_real(json.number(), out); break;
      case Kind::String: add_string(json.text(), out); break;
      case Kind::Array: add_items(json.items()); break;
      case Kind::Object: add_members(json.members()); break;
    }
  }

 private:
  void add_items(std::span<const Json> items) {
    const char* before = "";
    out += '[';
    for (const Json& item : items) {
      out += before;
      add(item);
      before = ",";
    }
    out += ']';
  }
  void add_members(std::span<const JsonMember> members) {
    const char* before = "";
    out += '{';
    for (const auto& [name, value] : members) {
      out += before;
      add_string(name, out);
      out += ':';
      add(value);
      before = ",";
    }
    out += '}';
  }
};

}  // namespace

std::string Json::print() const {
  std::string out;
  JsonPrinter{out}.add(*this);
  return out;
}

}  // namespace mlc::cli
