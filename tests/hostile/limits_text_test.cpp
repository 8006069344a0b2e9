// libs: mlc_pipeline_schema mlc_signing
// Limits of texts and of the signature block.
#include <doctest/doctest.h>

#include "base/byte_cursor.h"
#include "schema/pipeline/lines.h"
#include "schema/pipeline/pipeline.h"
#include "signing/bundle.h"
#include "signing/envelope.h"
#include "signing/policy.h"
#include "tests/support/limits.h"

using namespace mlc;
using namespace mlc::test;
using namespace mlc::signing;

namespace {

using Reader = std::function<Status()>;

template <class T>
Status status_of(const Result<T>& result) {
  return result.ok() ? ok() : result.status();
}
Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

Reader reads_pipeline(std::string text) {
  return [text] { return status_of(mlc::pipeline::parse(text, "p.json")); };
}
Reader json(std::string text) {
  return [text] { return status_of(parse_json(text, "p.json", mlc::pipeline::kTextLimits)); };
}
Reader policy(std::string text) {
  return [text] { return status_of(parse_policy(bytes_of(text), "trust.json")); };
}
Reader statement(std::string text) {
  return [text] { return status_of(parse_statement(bytes_of(text))); };
}
Reader bundle(std::string text) {
  return [text] { return status_of(parse_bundle(text, "b.json")); };
}
std::string good_bundle() {
  return R"({"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{}},)"
         R"("dsseEnvelope":{"payload":"","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":""}]}})";
}
Reader subjects(uint64_t count) {
  std::string text = R"({"_type":"https://in-toto.io/Statement/v1","predicateType":"t","subject":[)";
  for (uint64_t i = 0; i < count; ++i) text += i == 0 ? R"({"digest":{}})" : R"(,{"digest":{}})";
  return [text = text + "]}"] { return status_of(parse_statement_head(text, "b.json")); };
}
Reader lines(std::string text) {
  return [text] { return status_of(mlc::pipeline::split_lines(bytes_of(text), "labels.txt")); };
}
Reader block(std::vector<std::byte> bytes) {
  return [bytes] { return status_of(parse_block(bytes)); };
}
Reader record(std::vector<std::byte> bytes) {
  return [bytes] { return status_of(parse_envelope(bytes)); };
}
std::string filled(std::string text, uint64_t size) {
  text.resize(size, ' ');
  return text;
}
std::string nested(uint64_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }
std::string zeros(uint64_t values) {  // a list and its items
  std::string text = "[0";
  for (uint64_t i = 2; i < values; ++i) text += ",0";
  return text + "]";
}

std::string steps(uint64_t count) {
  std::string text = R"({"mlc_pipeline":1,"inputs":{"a":{"accept":["application/x-npy"]}},"steps":[)";
  for (uint64_t i = 0; i < count; ++i)
    text += i == 0 ? R"({"op":"sigmoid","in":"a")" : R"(,{"op":"sigmoid")", text += i + 1 == count ? R"(,"out":"y"})" : "}";
  return text + R"(],"outputs":["y"]})";
}
std::string inputs(uint64_t count) {
  std::string names, uses;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string name = "\"a" + std::to_string(i) + "\":";
    names += (i ? "," : "") + name + R"({"accept":["application/x-npy"]})";
    uses += (i ? "," : "") + name + "\"a" + std::to_string(i) + "\"";
  }
  return R"({"mlc_pipeline":1,"inputs":{)" + names + R"(},"steps":[{"op":"run","program":"main","in":{)" + uses +
         R"(},"out":{"y":"y"}}],"outputs":["y"]})";
}

std::string programs(uint64_t count) {
  std::string names;
  for (uint64_t i = 0; i < count; ++i) names += (i ? ",\"a" : "\"a") + std::to_string(i) + R"(":"m.onnx")";
  return R"({"mlc_pipeline":1,"programs":{)" + names + R"(},"inputs":{"a":{"accept":["application/x-npy"]}},"steps":[{"op":"sigmoid","in":"a","out":"y"}],"outputs":["y"]})";
}
// A step with so many first tokens and pairs of caches.
std::string generate(uint64_t starts, uint64_t carried) {
  std::string tokens, pairs;
  for (uint64_t i = 0; i < starts; ++i) tokens += i ? ",1" : "1";
  for (uint64_t i = 0; i < carried; ++i) pairs += (i ? ",\"p" : "\"p") + std::to_string(i) + R"(":"q")";
  return R"({"mlc_pipeline":1,"inputs":{"a":{"accept":["application/x-npy"]}},"steps":[{"op":"generate","program":"main","in":{"x":"a"},"tokens":"ids","logits":"l","start":[)" +
         tokens + R"(],"end":[2],"max":9,"carry":{)" + pairs + R"(},"out":"y"}],"outputs":["y"]})";
}

// A step with so many numbers.
std::string constant(uint64_t numbers) {
  std::string list;
  for (uint64_t i = 0; i < numbers; ++i) list += i ? ",1" : "1";
  return R"({"mlc_pipeline":1,"inputs":{"a":{"accept":["application/x-npy"]}},"steps":[{"op":"sigmoid","in":"a","out":"y"},{"op":"constant","type":"i64","value":[)" + list +
         R"(],"out":"c"}],"outputs":["y","c"]})";
}
// A step of so many parts, of which the first looks at so many bytes.
std::string file_bytes(uint64_t parts, uint64_t within) {
  std::string list;
  for (uint64_t i = 0; i < parts; ++i)
    list += (i ? "," : "") + std::string(R"({"of":"end","strip":"none","length":1,"within":)") + std::to_string(i ? 1 : within) + "}";
  return R"({"mlc_pipeline":1,"inputs":{"a":{"accept":["application/octet-stream"]}},"steps":[{"op":"file_bytes","in":"a","fill":0,"parts":[)" + list +
         R"(]},{"op":"sigmoid","out":"y"}],"outputs":["y"]})";
}
// Other labels of so many classes.
std::string unsure(uint64_t classes) {
  std::string list;
  for (uint64_t i = 0; i < classes; ++i) list += (i ? ",\"" : "\"") + std::to_string(i) + R"(":{"below":1})";
  return R"({"mlc_pipeline":1,"inputs":{"a":{"accept":["application/x-npy"]}},"steps":[{"op":"sigmoid","in":"a"},
    {"op":"top_k","k":1,"labels":"l.txt","unsure":{"below":1,"label":"?","others":{)" + list + R"(}},"out":"y"}],"outputs":["y"]})";
}
// A stream that carries so many values.
std::string streamed(uint64_t carried) {
  std::string pairs, inputs;
  for (uint64_t i = 0; i < carried; ++i) {
    const std::string name = "\"p" + std::to_string(i) + "\"";
    pairs += (i ? "," : "") + name + R"(:"y")", inputs += "," + name + ":" + name;
  }
  return R"({"mlc_pipeline":1,"inputs":{"s":{"accept":["audio/wav"]}},"stream":{"input":"s","hop":1,"last":"pad","carry":{)" + pairs +
         R"(}},"steps":[{"op":"decode_audio","in":"s","channels":"first","rate":1,"out":"x"},{"op":"run","program":"main","in":{"x":"x")" + inputs + R"(},"out":{"y":"y"}}],"outputs":["y"]})";
}

std::string good_statement() {
  Statement s;
  s.model_id = "org/name";
  s.model_version = 1;
  return *encode_statement(s);
}
// A record as spec/signing.md draws it, whatever it holds.
std::vector<std::byte> envelope(uint64_t payload, uint64_t signatures, uint64_t key) {
  ByteBuilder out;
  out.put_uint(payload, 8).put_uint(signatures, 4).put_uint(0, 4).put(std::string(payload, 'p')).pad(8);
  for (uint64_t i = 0; i < signatures; ++i) {
    out.put_uint(key, 4).put_uint(1, 4).put(std::string(key, 'k')).pad(8);
    out.put("s").pad(8);
  }
  return out.take();
}
std::vector<std::byte> block_of(uint64_t records, uint64_t bytes_of_first) {
  ByteBuilder body;
  const std::vector<std::byte> first = envelope(1, 1, 1);
  body.put_uint(kRecordDsse, 4).put_uint(0, 4).put_uint(first.size(), 8).put(first).pad(8);
  for (uint64_t i = 1; i < records; ++i) {
    const uint64_t size = i == 1 ? bytes_of_first : 0;
    body.put_uint(kRecordUnsignedFirst, 4).put_uint(0, 4).put_uint(size, 8).put(std::string(size, 'r')).pad(8);
  }
  ByteBuilder out;
  const uint64_t len = body.size() + 40;
  out.put("MLCSIGB1").put_uint(len, 8).put_uint(records, 4).put_uint(0, 4).put(body.bytes());
  out.put_uint(len, 8).put("MLCSIGB1");
  return out.take();
}
std::vector<std::byte> block_of_size(uint64_t size) {
  std::vector<std::byte> bytes = block_of(2, (size - block_of(2, 0).size()) / 8 * 8);
  bytes.resize(size);
  return bytes;
}

}  // namespace

TEST_CASE("limits of pipelines") {
  const Limit limits[] = {
      {"pipeline.bytes", 1 << 20, [](uint64_t n) { return reads_pipeline(filled(steps(1), n)); }, "at most 1048576"},
      {"pipeline.depth", 16, [](uint64_t n) { return json(nested(n)); }, "nested deeper than 16"},
      {"pipeline.values", 100'000, [](uint64_t n) { return json(zeros(n)); }, "more than 100000"},
      {"pipeline.programs", 64, [](uint64_t n) { return reads_pipeline(programs(n)); }, "no object of 1 to 64 models"},
      {"pipeline.starts", 4'096, [](uint64_t n) { return reads_pipeline(generate(n, 1)); }, "no list of 1 to 4096 tokens"},
      {"pipeline.carried", 1'024, [](uint64_t n) { return reads_pipeline(generate(1, n)); }, "of at most 1024"},
      {"pipeline.constant", 4'096, [](uint64_t n) { return reads_pipeline(constant(n)); }, "expected at most 4096"},
      {"pipeline.file-bytes", 1 << 26, [](uint64_t n) { return reads_pipeline(file_bytes(1, n)); }, "67108864"},
      {"pipeline.byte-parts", 16, [](uint64_t n) { return reads_pipeline(file_bytes(n, 1)); }, "no list of 1 to 16 parts"},
      {"pipeline.unsure", 4'096, [](uint64_t n) { return reads_pipeline(unsure(n)); }, "no object of at most 4096 labels"},
      {"pipeline.stream-carried", 1'024, [](uint64_t n) { return reads_pipeline(streamed(n)); }, "no object of at most 1024 values"},
      {"pipeline.steps", 1'000, [](uint64_t n) { return reads_pipeline(steps(n)); }, "1001 steps, at most 1000"},
      {"pipeline.inputs", 1'000, [](uint64_t n) { return reads_pipeline(inputs(n)); }, "expected 1 to 1000"},
      {"list.lines", 1 << 20, [](uint64_t n) { return lines(std::string(n, '\n')); }, "at most 1048576", false, 96},
      {"list.bytes", 64 << 20, [](uint64_t n) { return lines(std::string(n, 'a')); }, "at most 67108864", false, 160},
  };
  check_limits(limits);
}

TEST_CASE("limits of policies, statements and signature blocks") {
  const auto with_name = [](uint64_t n) {
    return policy(R"({"rules":[{"models":["*"],"level":"strict","require_variants":[")" + std::string(n, 'v') + "\"]}]}");
  };
  const auto model_id = [](uint64_t n) {
    return [n] { return is_model_id("org/" + std::string(n - 4, 'm')) ? ok() : Status(Code::Malformed, "no model id"); };
  };
  const Limit limits[] = {
      {"policy.bytes", 4 << 20, [](uint64_t n) { return policy(filled("{}", n)); }, "at most 4194304"},
      {"policy.depth", 16, [](uint64_t n) { return policy(nested(n)); }, "nested deeper than 16", true},
      {"policy.values", 100'000, [](uint64_t n) { return policy(zeros(n)); }, "more than 100000", true},
      {"policy.name", 255, with_name, "1 to 255 bytes"},
      {"model.id", 255, model_id, "no model id"},
      {"statement.bytes", 1 << 20, [](uint64_t n) { return statement(filled(good_statement(), n)); }, "at most 1048576"},
      {"statement.depth", 16, [](uint64_t n) { return statement(nested(n)); }, "nested deeper than 16", true},
      {"statement.values", 100'000, [](uint64_t n) { return statement(zeros(n)); }, "more than 100000", true},
      {"signature.block", 16 << 20, [](uint64_t n) { return block(block_of_size(n)); }, "longer than 16 MiB"},
      {"signature.records", 32, [](uint64_t n) { return block(block_of(n, 0)); }, "33 records, at most 32"},
      {"signature.payload", 1 << 20, [](uint64_t n) { return record(envelope(n, 1, 1)); }, "longer than 1 MiB"},
      {"signature.count", 16, [](uint64_t n) { return record(envelope(1, n, 1)); }, "17 signatures, at most 16"},
      {"signature.field", 512, [](uint64_t n) { return record(envelope(1, 1, n)); }, "more than 512 bytes"},
      {"bundle.bytes", 8 << 20, [](uint64_t n) { return bundle(filled(good_bundle(), n)); }, "at most 8388608"},
      {"bundle.depth", 32, [](uint64_t n) { return bundle(nested(n)); }, "nested deeper than 32", true},
      {"bundle.values", 400'000, [](uint64_t n) { return bundle(zeros(n)); }, "more than 400000", true},
      {"bundle.subjects", 1024, [](uint64_t n) { return subjects(n); }, "1025 subjects"},
  };
  check_limits(limits);
}
