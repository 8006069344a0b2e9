#include "schema/pipeline/reader.h"

#include <algorithm>
#include <cmath>

namespace mlc::pipeline {

std::string joined(std::span<const std::string_view> words) {
  std::string all;
  for (auto w : words) all += (all.empty() ? "" : " ") + std::string(w);
  return all;
}

std::string quoted(std::string_view s) {
  std::string q = "'";
  for (unsigned char c : s.substr(0, 60)) q += c < 0x20 || c == 0x7F ? '?' : static_cast<char>(c);
  return q + (s.size() > 60 ? "...'" : "'");
}

void Problems::add(uint16_t number, Position where, std::string what, std::string fact) {
  if (full()) return void(++more_);
  Status s(Code::Usage, number,
           file_ + ":" + std::to_string(where.line) + ":" + std::to_string(where.column) + ": " + what);
  if (!fact.empty()) s.facts.push_back(std::move(fact));
  found_.push_back(std::move(s));
}

Status Problems::status() const {
  if (found_.empty()) return ok();
  Status all = found_.front();
  for (size_t i = 1; i < found_.size(); ++i) {
    all.facts.push_back(found_[i].message);
    for (const auto& fact : found_[i].facts) all.facts.push_back("  " + fact);
  }
  if (more_ > 0) all.facts.push_back("and " + std::to_string(more_) + " more");
  return all;
}

std::string Problems::did_you_mean(std::string_view word, std::span<const std::string_view> names) const {
  const std::string_view near = full() ? std::string_view() : nearest_name(word, names);
  return near.empty() ? "" : ", did you mean " + quoted(near) + "?";
}

const Json* ObjectReader::find(std::string_view key, bool needed) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
  if (const Json* value = object_.find(key)) return value;
  const bool is_known_missing = std::any_of(missing_.begin(), missing_.end(), [&](const Missing& m) { return m.key == key; });
  if (needed && !is_known_missing) missing_.push_back({key, {}});
  return nullptr;
}

void ObjectReader::expects(std::string_view key, std::string what) {
  for (Missing& m : missing_)
    if (m.key == key) m.expected = what;
}

const Json* ObjectReader::optional(std::string_view key) { return find(key, false); }
const Json* ObjectReader::required(std::string_view key) { return find(key, true); }
bool ObjectReader::has(std::string_view key) { return find(key, false) != nullptr; }

void ObjectReader::wrong(const Json& value, std::string_view key, std::string what) {
  problems_.add(5004, value.where(), quoted(key) + " of " + what_ + " " + what);
}

std::string ObjectReader::string(const Json* v, std::string_view key) {
  if (!v) return expects(key, "a string"), "";
  if (!v->is(Json::Kind::String))
    return wrong(*v, key, "is " + std::string(name_of(v->kind())) + ", expected a string"), "";
  if (v->text().empty()) wrong(*v, key, "is empty");
  return std::string(v->text());
}

int64_t ObjectReader::integer(const Json* v, std::string_view key, int64_t least, int64_t most) {
  if (!v) return expects(key, least == most ? std::to_string(least) : "a whole number"), least;
  if (!v->is(Json::Kind::Integer))
    return wrong(*v, key, "is " + std::string(name_of(v->kind())) + ", expected a whole number"), least;
  const std::optional<int64_t> number = v->as_i64();
  if (number && *number >= least && *number <= most) return *number;
  wrong(*v, key,
        "is " + (number ? std::to_string(*number) : "beyond 2^63") + ", expected " + std::to_string(least) + " to " + std::to_string(most));
  return least;
}

double ObjectReader::number(const Json* v, std::string_view key) {
  if (!v) return expects(key, "a number"), 0;
  bool fits = (v->is(Json::Kind::Integer) || v->is(Json::Kind::Real)) && std::abs(v->number()) < 3.4e38;
  if (!fits) return wrong(*v, key, "is " + std::string(name_of(v->kind())) + ", expected a finite number"), 0;
  return v->number();
}

bool ObjectReader::boolean(const Json* v, std::string_view key) {
  if (!v) return expects(key, "true or false"), false;
  if (!v->is(Json::Kind::Bool))
    return wrong(*v, key, "is " + std::string(name_of(v->kind())) + ", expected true or false"), false;
  return v->boolean();
}

std::vector<double> ObjectReader::numbers(const Json* v, std::string_view key, int64_t count) {
  if (!v) return expects(key, "a number, or " + std::to_string(count)), std::vector<double>();
  if (!v->is(Json::Kind::Array)) return std::vector<double>(static_cast<size_t>(count), number(v, key));
  std::vector<double> all;
  for (const Json& item : v->items()) all.push_back(number(&item, key));
  if (static_cast<int64_t>(all.size()) != count) {
    wrong(*v, key, "has " + std::to_string(all.size()) + " numbers for " + std::to_string(count) + " channels");
    all.resize(static_cast<size_t>(count));
  }
  return all;
}

std::pair<int64_t, int64_t> ObjectReader::pair(const Json* v, std::string_view key, int64_t least, int64_t most) {
  if (!v) return expects(key, "[height, width]"), std::pair{least, least};
  if (!v->is(Json::Kind::Array) || v->size() != 2)
    return wrong(*v, key, "is not a list of two whole numbers, height first"), std::pair{least, least};
  auto item = v->items().begin();
  const Json &first = *item, &second = *++item;
  return {integer(&first, key, least, most), integer(&second, key, least, most)};
}

size_t ObjectReader::choose(const Json* v, std::string_view key, std::span<const std::string_view> words) {
  if (!v) return expects(key, joined(words)), 0;
  auto expected = "expected one of: " + joined(words);
  if (!v->is(Json::Kind::String)) return wrong(*v, key, "is " + std::string(name_of(v->kind())) + ", " + expected), 0;
  for (size_t i = 0; i < words.size(); ++i)
    if (v->text() == words[i]) return i;
  wrong(*v, key, "is " + quoted(v->text()) + problems_.did_you_mean(v->text(), words) + " (" + expected + ")");
  return 0;
}

void ObjectReader::finish() {
  for (const auto& [key, value] : object_.members()) {
    if (std::find(known_.begin(), known_.end(), key.text()) != known_.end()) continue;
    problems_.add(5001, key.where(),
                  "unknown key " + quoted(key.text()) + " in " + what_ + problems_.did_you_mean(key.text(), known_),
                  "known here: " + joined(known_));
  }
  if (missing_.empty()) return;
  std::string all;
  for (const Missing& m : missing_) {
    all += (all.empty() ? "'" : ", '") + std::string(m.key) + "'";
    if (!m.expected.empty()) all += " (" + m.expected + ")";
  }
  problems_.add(5002, object_.where(), what_ + " lacks " + all);
}

}  // namespace mlc::pipeline
