// Reading objects with known keys: collects every problem of a file, with its place, before anything is refused.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/json.h"
#include "base/text/nearest_name.h"
#include "schema/pipeline/pipeline.h"

namespace mlc::pipeline {

using Json = JsonValue;

// Text from a file as messages show it: in quotes, without control characters, 60 bytes of it at most.
std::string quoted(std::string_view text);

// "crop resize"
std::string joined(std::span<const std::string_view> words);

// The problems of one file. A file can have as many as it has bytes: the first kMost are kept, the others counted.
class Problems {
 public:
  static constexpr size_t kMost = 50;

  explicit Problems(std::string_view file_name) : file_(file_name) {}

  // `number`: 5001 unknown key or name, 5002 missing keys, 5004 wrong value, 5005 wrong use of values, 5007 not in this
  // version.
  void add(uint16_t number, Position where, std::string what, std::string fact = {});
  bool any() const { return !found_.empty(); }
  // The next one will not be shown: what costs time to say may be left out.
  bool full() const { return found_.size() >= kMost; }
  // The nearest of the names as ", did you mean 'x'?", if one is near.
  std::string did_you_mean(std::string_view word, std::span<const std::string_view> names) const;
  // The first as message, the others as facts.
  Status status() const;

 private:
  std::string file_;
  std::vector<Status> found_;
  size_t more_ = 0;
};

template <class E>
struct Choice {
  std::string_view word;
  E value;
};

// One object. Keys are asked for one by one; `finish` reports those that no step reads and those that were required
// and missing, the latter in one message.
class ObjectReader {
 public:
  // `what`: "step 'resize'", for messages. Both arguments must outlive the reader.
  ObjectReader(const Json& object, std::string what, Problems& problems)
      : object_(object), what_(std::move(what)), problems_(problems) {}

  const Json* optional(std::string_view key);
  const Json* required(std::string_view key);
  bool has(std::string_view key);

  // A value of the wrong kind or range is a problem; the answer then is the default.
  std::string string(const Json* value, std::string_view key);
  int64_t integer(const Json* value, std::string_view key, int64_t least, int64_t most);
  double number(const Json* value, std::string_view key);
  bool boolean(const Json* value, std::string_view key);
  // One number stands for `count` equal ones.
  std::vector<double> numbers(const Json* value, std::string_view key, int64_t count);
  // [height, width]
  std::pair<int64_t, int64_t> pair(const Json* value, std::string_view key, int64_t least, int64_t most);
  template <class E>
  E choice(const Json* value, std::string_view key, std::initializer_list<Choice<E>> choices) {
    std::vector<std::string_view> words;
    for (const auto& c : choices) words.push_back(c.word);
    size_t i = choose(value, key, words);
    return choices.begin()[i].value;
  }

  void wrong(const Json& value, std::string_view key, std::string what);
  void finish();
  Problems& problems() { return problems_; }  // for an object within this one

 private:
  // A key that is required and missing, with what is expected of it: "exif ignore".
  struct Missing {
    std::string_view key;
    std::string expected;
  };
  size_t choose(const Json* value, std::string_view key, std::span<const std::string_view> words);
  const Json* find(std::string_view key, bool needed);
  void expects(std::string_view key, std::string what);  // no effect on keys that are there

  const Json& object_;
  std::string what_;
  Problems& problems_;
  std::vector<std::string_view> known_;
  std::vector<Missing> missing_;
};

}  // namespace mlc::pipeline
