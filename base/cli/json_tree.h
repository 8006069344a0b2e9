// JSON that a tool writes: a tree of values that is built, looked into and printed. What a stranger wrote is read by
// base/text/json.h instead.
//
//   Json json = {{"name", v.name}, {"shape", tensor.shape}};     an object, its members in this order
//   json["cubins"] = Json::array();                              one member more, or another value for the one of that name
//   json["cubins"].push_back({{"name", k.name}});
//   std::string text = json.print();
//
// A value owns all that is inside of it; copies are deep. Reading it as what it is not answers nothing: "", 0, no items.
// Different threads may read one value at the same time; none may while one changes it. Copying, comparing, printing and
// destruction recurse: how deep a tree is must follow from the code that builds it, not from a file.
//
// Found by its name a member takes O(log n), so that an object may have as many members as a file asks for.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace mlc::cli {

struct JsonField;   // of an initializer list
struct JsonMember;  // of an object

class Json {
 public:
  enum class Kind : uint8_t { Null, Bool, Signed, Unsigned, Real, String, Array, Object };

  Json() noexcept {}  // null
  Json(std::nullptr_t) noexcept {}
  template <std::same_as<bool> T>  // exactly: no pointer is a truth value
  Json(T value) noexcept : kind_(Kind::Bool) { value_.boolean = value; }
  template <std::signed_integral T>
  Json(T value) noexcept : kind_(Kind::Signed) { value_.whole = value; }
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  Json(T value) noexcept : kind_(Kind::Unsigned) { value_.natural = value; }
  template <class T>
    requires std::is_enum_v<T>
  Json(T value) = delete;  // its name is meant, or its number: say which
  Json(double value) noexcept : kind_(Kind::Real) { value_.real = value; }  // printed as null where it is no finite number
  Json(std::string text);
  Json(std::string_view text) : Json(std::string(text)) {}
  Json(const char* text) : Json(std::string(text)) {}
  // Lists become arrays, maps objects.
  template <class T>
  Json(const std::vector<T>& items) : Json(array()) {
    for (const T& item : items) push_back(Json(item));
  }
  template <class T, size_t N>
  Json(std::span<T, N> items) : Json(array()) {
    for (const T& item : items) push_back(Json(item));
  }
  template <class T, class Less>
  Json(const std::map<std::string, T, Less>& members) : Json(object()) {
    for (const auto& [name, value] : members) append(name, Json(value));
  }
  // An object. The names differ from each other.
  Json(std::initializer_list<JsonField> fields);

  Json(const Json& other);
  Json(Json&& other) noexcept : kind_(other.kind_), value_(other.value_) { other.kind_ = Kind::Null; }
  Json& operator=(Json other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(value_, other.value_);
    return *this;
  }
  ~Json() {
    if (kind_ >= Kind::String) release();
  }

  [[nodiscard]] static Json array();   // without items
  [[nodiscard]] static Json array(std::initializer_list<Json> items);
  [[nodiscard]] static Json object();  // without members

  // ---- Building. References to items and members are good until one is added or removed beside them.

  // Of an array, or of null, which becomes one.
  void push_back(Json item);
  Json& back();  // of an array that has items
  // The member of that name, which is null if it was not there yet. Of an object, or of null, which becomes one.
  Json& operator[](std::string_view name);
  // Members of `other` that are not here yet come last, the others are replaced. Of an object, or of null, which becomes one.
  void update(Json other);
  void erase(std::string_view name);

  // ---- Reading

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool is(Kind kind) const { return kind_ == kind; }
  [[nodiscard]] size_t size() const;  // items or members
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] std::span<const Json> items() const;          // of an array
  [[nodiscard]] std::span<Json> items();
  [[nodiscard]] std::span<const JsonMember> members() const;  // of an object
  [[nodiscard]] const Json* find(std::string_view name) const;          // null if there is none
  [[nodiscard]] const Json& operator[](std::string_view name) const;    // the value null if there is none
  [[nodiscard]] const std::string& text() const;              // of a string
  [[nodiscard]] uint64_t as_u64() const;                      // of a number, as static_cast has it
  [[nodiscard]] int64_t as_i64() const;
  [[nodiscard]] double number() const;

  // Numbers are equal by what they are worth, objects if their members have one order.
  friend bool operator==(const Json& a, const Json& b);

  // On one line, without blanks. Bytes that are no UTF-8 are replaced by U+FFFD, never passed on. Real numbers are printed
  // with the fewest digits that read back as the same double, and always with a point or an exponent.
  [[nodiscard]] std::string print() const;

 private:
  struct Object;
  union Value {
    bool boolean;
    int64_t whole;
    uint64_t natural = 0;
    double real;
    std::string* text;         // these three are owned
    std::vector<Json>* items;
    Object* object;
  };

  void append(std::string_view name, Json value);  // to an object that has no member of that name
  void release() noexcept;

  Kind kind_ = Kind::Null;
  Value value_;
};

struct JsonMember {
  std::string name;
  Json value;
};

// Holds its name no longer than the statement it stands in.
struct JsonField {
  std::string_view name;
  mutable Json value;  // moved from: initializer lists are constant
};

}  // namespace mlc::cli
