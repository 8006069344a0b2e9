// The statement: its one spelling when written, its strict reading, and the spelling of times.
#include <algorithm>
#include <array>
#include <charconv>

#include "base/compose.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "signing/envelope.h"

namespace mlc::signing {

namespace {

using Kind = JsonValue::Kind;

constexpr JsonLimits kStatementLimits{.bytes = kMaxStatement, .depth = 16, .values = 100'000};
constexpr uint64_t kDay = 86'400;
constexpr uint64_t kLastSecond = 253'402'300'799;  // 9999-12-31T23:59:59Z

// The predicate's keys that this version understands: `critical` may list only these.
constexpr std::string_view kPredicateKeys = "format tree manifestSha256 modelId modelVersion notAfter critical";

Status refuse(const char* pattern, Pieces pieces = {}) {
  return Status(Code::BadSignature, 3103, "signed statement: {}", compose_pieces(pattern, pieces));
}

Result<std::string> required_text(const JsonValue& object, const char* key) {
  const JsonValue* member = object.find(key);
  if (!member || !member->is(Kind::String)) return refuse("'{}' is missing or no string", {key});
  return std::string(member->text());
}

Status require(const JsonValue& object, const char* key, std::string_view expected) {
  MLC_ASSIGN(const std::string found, required_text(object, key));
  if (found == expected) return ok();
  return refuse("'{}' is {}, expected {}", {key, json_quote(found.substr(0, 80)), json_quote(expected)});
}

Result<Digest> required_digest(const JsonValue& object, const char* key) {
  MLC_ASSIGN(const std::string text, required_text(object, key));
  const auto digest = digest_from_hex(text);
  if (!digest) return refuse("'{}' is not 64 lower-case hex digits", {key});
  return *digest;
}

bool is_id_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

struct Date {
  uint64_t year, month, day;
};
// Days since 1970-01-01 and back, proleptic Gregorian; years are counted from March so that leap days come last
// (Howard Hinnant, "chrono-compatible low-level date algorithms").
uint64_t days_from(const Date& date) {
  const uint64_t y = date.month <= 2 ? date.year - 1 : date.year;
  const uint64_t era = y / 400, year_of_era = y - era * 400;
  const uint64_t day_of_year = (153 * (date.month > 2 ? date.month - 3 : date.month + 9) + 2) / 5 + date.day - 1;
  return era * 146'097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719'468;
}
Date date_from(uint64_t days) {
  days += 719'468;
  const uint64_t era = days / 146'097, day_of_era = days - era * 146'097;
  const uint64_t year_of_era = (day_of_era - day_of_era / 1'460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
  const uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const uint64_t shifted = (5 * day_of_year + 2) / 153;
  const uint64_t month = shifted < 10 ? shifted + 3 : shifted - 9;
  return {year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) / 5 + 1};
}

void put_number(std::string& out, uint64_t value, size_t width) {
  const std::string digits = std::to_string(value);
  out.append(width - digits.size(), '0');
  out += digits;
}

}  // namespace

bool is_model_id(std::string_view id) {
  const size_t slash = id.find('/');
  if (id.size() > 255 || slash == std::string_view::npos) return false;
  const auto org = id.substr(0, slash), name = id.substr(slash + 1);
  return !org.empty() && !name.empty() && std::all_of(org.begin(), org.end(), is_id_character) &&
         std::all_of(name.begin(), name.end(), is_id_character);
}

std::optional<uint64_t> parse_decimal(std::string_view text) {
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::string> format_time(uint64_t seconds) {
  if (seconds > kLastSecond) return std::nullopt;
  const Date date = date_from(seconds / kDay);
  const uint64_t of_day = seconds % kDay;
  std::string out;
  put_number(out, date.year, 4);
  out += '-';
  put_number(out, date.month, 2);
  out += '-';
  put_number(out, date.day, 2);
  out += 'T';
  put_number(out, of_day / 3'600, 2);
  out += ':';
  put_number(out, of_day / 60 % 60, 2);
  out += ':';
  put_number(out, of_day % 60, 2);
  return out + "Z";
}

std::optional<uint64_t> parse_time(std::string_view text) {
  constexpr std::string_view shape = "dddd-dd-ddTdd:dd:ddZ";
  if (text.size() != shape.size()) return std::nullopt;
  std::array<uint64_t, 6> fields{};
  size_t field = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 'd') {
      if (text[i] != shape[i]) return std::nullopt;
      ++field;
      continue;
    }
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    fields[field] = fields[field] * 10 + static_cast<uint64_t>(text[i] - '0');
  }
  if (fields[0] < 1970 || fields[1] < 1 || fields[1] > 12 || fields[2] < 1 || fields[2] > 31) return std::nullopt;
  if (fields[3] > 23 || fields[4] > 59 || fields[5] > 59) return std::nullopt;
  const uint64_t seconds =
      days_from({fields[0], fields[1], fields[2]}) * kDay + fields[3] * 3'600 + fields[4] * 60 + fields[5];
  if (format_time(seconds) != text) return std::nullopt;  // a day that its month does not have
  return seconds;
}

Result<std::string> encode_statement(const Statement& statement) {
  if (!is_model_id(statement.model_id))
    return Status(Code::Usage, "model id {} is not of the form org/name with characters a-z 0-9 . _ -",
                  json_quote(statement.model_id.substr(0, 80)));
  if (statement.model_version == 0) return Status(Code::Usage, "model version 0, the first version is 1");
  std::string not_after;
  if (statement.not_after != 0) {
    const auto time = format_time(statement.not_after);
    if (!time) return Status(Code::Usage, "not_after lies beyond the year 9999");
    not_after = ",\"notAfter\":\"" + *time + "\"";
  }
  return compose("{\"_type\":\"{}\",\"subject\":[{\"name\":\"{}\",\"digest\":{\"sha256\":\"{}\"}}],", kStatementType,
                 statement.model_id, to_hex(statement.root)) +
         compose("\"predicateType\":\"{}\",\"predicate\":{\"format\":\"1\",\"tree\":\"{}\",\"manifestSha256\":\"{}\",",
                 kPredicateType, kTreeId, to_hex(statement.manifest)) +
         compose("\"modelId\":\"{}\",\"modelVersion\":\"{}\"{},\"critical\":[]}}", statement.model_id,
                 statement.model_version, not_after);
}

Result<Statement> parse_statement(Bytes payload) {
  auto document =
      parse_json({reinterpret_cast<const char*>(payload.data()), payload.size()}, "signed statement", kStatementLimits);
  if (!document.ok()) return Status(Code::BadSignature, 3103, document.status().message);
  const JsonValue& json = document->root();
  if (!json.is(Kind::Object)) return refuse("found {}, expected an object", {name_of(json.kind())});
  MLC_RETURN_IF_ERROR(require(json, "_type", kStatementType));
  MLC_RETURN_IF_ERROR(require(json, "predicateType", kPredicateType));

  const JsonValue* subjects = json.find("subject");
  if (!subjects || !subjects->is(Kind::Array) || subjects->size() != 1)
    return refuse("'subject' is not an array of exactly one entry");
  const JsonValue& subject = *subjects->items().begin();
  const JsonValue* digests = subject.find("digest");
  if (!digests || !digests->is(Kind::Object) || digests->size() != 1) return refuse("'subject' has not exactly one digest");
  Statement statement;
  MLC_ASSIGN(statement.root, required_digest(*digests, "sha256"));

  const JsonValue* predicate = json.find("predicate");
  if (!predicate || !predicate->is(Kind::Object)) return refuse("'predicate' is missing or no object");
  MLC_RETURN_IF_ERROR(require(*predicate, "format", "1"));
  MLC_RETURN_IF_ERROR(require(*predicate, "tree", kTreeId));
  MLC_ASSIGN(statement.manifest, required_digest(*predicate, "manifestSha256"));
  MLC_ASSIGN(statement.model_id, required_text(*predicate, "modelId"));
  if (!is_model_id(statement.model_id)) return refuse("'modelId' is not of the form org/name");
  MLC_RETURN_IF_ERROR(require(subject, "name", statement.model_id));

  MLC_ASSIGN(const std::string version_text, required_text(*predicate, "modelVersion"));
  const auto version = parse_decimal(version_text);
  if (!version || *version == 0) return refuse("'modelVersion' is not a decimal number from 1");
  statement.model_version = *version;
  if (predicate->find("notAfter")) {
    MLC_ASSIGN(const std::string time, required_text(*predicate, "notAfter"));
    const auto seconds = parse_time(time);
    if (!seconds || *seconds == 0) return refuse("'notAfter' is not a time such as 2027-11-20T00:00:00Z");
    statement.not_after = *seconds;
  }

  const JsonValue* critical = predicate->find("critical");
  if (!critical || !critical->is(Kind::Array)) return refuse("'critical' is missing or no array");
  for (const JsonValue& item : critical->items()) {
    if (!is_word_of(kPredicateKeys, item.text()) || !predicate->find(item.text()))
      return refuse("'critical' lists {}, which this version does not know", {json_quote(item.text().substr(0, 80))})
          .hint("update mlrun");
  }
  return statement;
}

}  // namespace mlc::signing
