#include "support.h"

using namespace mlc;
using namespace mlc::signing;
using namespace mlc::signing::test;

namespace {

Statement sample() {
  Statement statement;
  statement.root = sha256("root");
  statement.manifest = sha256("manifest");
  statement.model_id = "org/name-1.2_x";
  statement.model_version = UINT64_MAX;
  statement.not_after = 1'826'755'200;
  return statement;
}
std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a statement has one spelling and reads back as itself") {
  const auto text = encode_statement(sample());
  REQUIRE(text.ok());
  CHECK(*text ==
        "{\"_type\":\"https://in-toto.io/Statement/v1\",\"subject\":[{\"name\":\"org/name-1.2_x\",\"digest\":{"
        "\"sha256\":\"" +
            to_hex(sha256("root")) +
            "\"}}],\"predicateType\":\"urn:mlc:container/v1\","
            "\"predicate\":{\"format\":\"1\",\"tree\":\"mlc-sha256-1m-v1\",\"manifestSha256\":\"" +
            to_hex(sha256("manifest")) +
            "\",\"modelId\":\"org/name-1.2_x\",\"modelVersion\":\"18446744073709551615\","
            "\"notAfter\":\"2027-11-21T00:00:00Z\",\"critical\":[]}}");
  CHECK(*parse_statement(bytes_of(*text)) == sample());
  Statement endless = sample();
  endless.not_after = 0;
  CHECK(encode_statement(endless)->find("notAfter") == std::string::npos);
  CHECK(*parse_statement(bytes_of(*encode_statement(endless))) == endless);
}

TEST_CASE("a statement about something else is refused") {
  const std::string good = *encode_statement(sample());
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"in-toto.io/Statement/v1", "in-toto.io/Statement/v0.1"},
      {"urn:mlc:container/v1", "https://slsa.dev/provenance/v1"},
      {"\"format\":\"1\"", "\"format\":\"2\""},
      {"\"format\":\"1\"", "\"format\":1"},
      {"mlc-sha256-1m-v1", "mlc-sha256-4k-v1"},
      {"\"sha256\":\"", "\"sha512\":\""},
      {"\"sha256\":\"", "\"sha256\":\"00"},
      {"{\"sha256\":", "{\"sha512\":\"00\",\"sha256\":"},
      {"\"subject\":[", "\"subject\":[{},"},
      {"\"subject\":[", "\"subject\":[],\"x\":["},
      {"\"name\":\"org/name-1.2_x\"", "\"name\":\"org/other\""},
      {"\"modelId\":\"org/name-1.2_x\"", "\"modelId\":\"../x\""},
      {"\"modelId\":\"org/name-1.2_x\"", "\"modelId\":null"},
      {"\"18446744073709551615\"", "18446744073709551615"},
      {"\"18446744073709551615\"", "\"0\""},
      {"\"18446744073709551615\"", "\"8.0\""},
      {"\"18446744073709551615\"", "\"007\""},
      {"\"18446744073709551615\"", "\"18446744073709551616\""},
      {"2027-11-21T00:00:00Z", "2027-11-21"},
      {"2027-11-21T00:00:00Z", "1970-01-01T00:00:00Z"},
      {"2027-11-21T00:00:00Z", "2027-02-29T00:00:00Z"},
      {"\"critical\":[]", "\"critical\":[\"futureRule\"]"},
      {"\"critical\":[]", "\"futureRule\":1,\"critical\":[\"futureRule\"]"},
      {"\"critical\":[]", "\"critical\":[1]"},
      {"\"critical\":[]", "\"critical\":{}"},
      {",\"critical\":[]", ""},
      {"\"critical\":[]", "\"critical\":[],\"critical\":[]"},
      {"\"predicate\":{", "\"predicate\":[],\"x\":{"},
  };
  for (const auto& [from, to] : changes) {
    CAPTURE(from);
    CAPTURE(to);
    const auto result = parse_statement(bytes_of(replaced(good, from, to)));
    REQUIRE_FALSE(result.ok());
    CHECK(result.status().code == Code::BadSignature);
  }
  for (const char* text : {"", "null", "[]", "\"x\"", "{}", "{\"_type\":\"https://in-toto.io/Statement/v1\"}"})
    CHECK_FALSE(parse_statement(bytes_of(text)).ok());
}

TEST_CASE("unknown keys are ignored unless they are critical, known ones may be critical") {
  const std::string good = *encode_statement(sample());
  CHECK(parse_statement(bytes_of(replaced(good, "\"critical\"", "\"hint\":{\"a\":[1]},\"critical\""))).ok());
  CHECK(parse_statement(bytes_of(replaced(good, "\"critical\":[]", "\"critical\":[\"notAfter\"]"))).ok());
  CHECK(*parse_statement(bytes_of(replaced(good, ",\"critical\"", " ,\n\"critical\""))) == sample());
}

TEST_CASE("a statement that could not be read back is not written") {
  for (const char* id : {"", "/", "a/", "/a", "a", "a/b/c", "A/b", "a b/c", "a/b\n", "\xc3\xa9/x", "a/\"b"}) {
    Statement statement = sample();
    statement.model_id = id;
    CAPTURE(id);
    CHECK(encode_statement(statement).status().code == Code::Usage);
  }
  Statement statement = sample();
  statement.model_id = std::string(200, 'a') + "/" + std::string(55, 'b');
  CHECK_FALSE(encode_statement(statement).ok());
  statement = sample();
  statement.model_version = 0;
  CHECK_FALSE(encode_statement(statement).ok());
  statement = sample();
  statement.not_after = 253'402'300'800;
  CHECK_FALSE(encode_statement(statement).ok());
}

TEST_CASE("times have one spelling each, leap years included") {
  CHECK(format_time(0) == "1970-01-01T00:00:00Z");
  CHECK(format_time(951'782'400) == "2000-02-29T00:00:00Z");
  CHECK(format_time(4'107'542'399) == "2100-02-28T23:59:59Z");
  CHECK(format_time(4'107'542'400) == "2100-03-01T00:00:00Z");
  CHECK(format_time(253'402'300'799) == "9999-12-31T23:59:59Z");
  CHECK_FALSE(format_time(253'402'300'800));
  for (uint64_t s = 0; s < 253'402'300'800; s += 86'399 * 97) CHECK(parse_time(*format_time(s)) == s);
  for (const char* text :
       {"", "1969-12-31T23:59:59Z", "2100-02-29T00:00:00Z", "2027-04-31T00:00:00Z", "2027-00-01T00:00:00Z",
        "2027-13-01T00:00:00Z", "2027-01-01T24:00:00Z", "2027-01-01T00:60:00Z", "2027-01-01T00:00:60Z",
        "2027-01-01 00:00:00Z", "2027-01-01T00:00:00+", "2027-01-01T00:00:00z", "2027-01-0aT00:00:00Z"})
    CHECK_FALSE(parse_time(text));
}

TEST_CASE("decimal strings have one spelling") {
  CHECK(parse_decimal("0") == 0);
  CHECK(parse_decimal("18446744073709551615") == UINT64_MAX);
  for (const char* text : {"", "00", "01", "+1", "-1", " 1", "1 ", "1.0", "1e3", "0x1", "18446744073709551616"})
    CHECK_FALSE(parse_decimal(text));
}
