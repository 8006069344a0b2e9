#include "signing/envelope.h"

#include "support.h"

using namespace mlc;
using namespace mlc::signing;
using namespace mlc::signing::test;

namespace {

Envelope sample_envelope() {
  Envelope envelope;
  envelope.payload.assign(5, std::byte{'p'});
  envelope.signatures.push_back({std::vector<std::byte>(3, std::byte{1}), std::vector<std::byte>(8, std::byte{2})});
  envelope.signatures.push_back({std::vector<std::byte>(16, std::byte{3}), std::vector<std::byte>(1, std::byte{4})});
  return envelope;
}
SignatureBlock sample_block() {
  SignatureBlock block;
  block.envelope = sample_envelope();
  block.others.push_back({kRecordParentDsse, std::vector<std::byte>(9, std::byte{5})});
  block.others.push_back({kRecordUnsignedFirst + 7, {}});
  block.envelope_position = 1;
  return block;
}
void set_u32(std::vector<std::byte>& bytes, size_t at, uint32_t value) {
  for (int i = 0; i < 4; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
}

}  // namespace

TEST_CASE("the signed bytes are those of the DSSE protocol") {
  CHECK(text_of(pre_authentication_encoding(bytes_of("hello world"), "http://example.com/HelloWorld")) ==
        "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
  CHECK(text_of(pre_authentication_encoding(bytes_of("{}"))) == "DSSEv1 28 application/vnd.in-toto+json 2 {}");
}

TEST_CASE("an envelope and a block read back as they were written, and write back as they were read") {
  const auto record = encode_envelope(sample_envelope());
  REQUIRE(record.ok());
  CHECK(record->size() == 16 + 8 + (8 + 8 + 8) + (8 + 16 + 8));
  const auto envelope = parse_envelope(*record);
  REQUIRE(envelope.ok());
  CHECK(envelope->payload == sample_envelope().payload);
  REQUIRE(envelope->signatures.size() == 2);
  CHECK(envelope->signatures[1].key == sample_envelope().signatures[1].key);
  CHECK(envelope->signatures[1].value == sample_envelope().signatures[1].value);

  const auto bytes = encode_block(sample_block());
  REQUIRE(bytes.ok());
  const auto block = parse_block(*bytes);
  REQUIRE(block.ok());
  CHECK(block->others.size() == 2);
  CHECK(block->envelope_position == 1);
  CHECK(*encode_block(*block) == *bytes);
}

TEST_CASE("a block cut anywhere or extended is refused") {
  const auto bytes = *encode_block(sample_block());
  for (size_t len = 0; len < bytes.size(); ++len) {
    CHECK_FALSE(parse_block(Bytes(bytes).first(len)).ok());
    CHECK_FALSE(parse_block(Bytes(bytes).subspan(bytes.size() - len)).ok());
  }
  for (const size_t extra : {1, 8, 40}) {
    auto longer = bytes;
    longer.resize(bytes.size() + extra);
    CHECK_FALSE(parse_block(longer).ok());
  }
  auto twice = bytes;
  twice.insert(twice.end(), bytes.begin(), bytes.end());
  CHECK_FALSE(parse_block(twice).ok());
}

TEST_CASE("every changed byte of a block is refused or changes what it holds") {
  const auto bytes = *encode_block(sample_block());
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int value = 0; value < 256; ++value) {
      auto changed = bytes;
      if (changed[i] == static_cast<std::byte>(value)) continue;
      changed[i] = static_cast<std::byte>(value);
      const auto block = parse_block(changed);
      if (block.ok()) CHECK(*encode_block(*block) == changed);  // no byte is free
    }
  }
}

TEST_CASE("a block without exactly one signed record is refused") {
  SignatureBlock block = sample_block();
  auto bytes = *encode_block(block);
  // The second record is the envelope: 24 bytes of frame, then 16 + 16 bytes of the parent's record.
  const size_t type_at = 24 + 32;
  for (const uint32_t type : {0u, 2u, 3u, 0x7fffffffu, 0x80000000u, 0x80000001u, 0xffffffffu}) {
    auto changed = bytes;
    set_u32(changed, type_at, type);
    CAPTURE(type);
    CHECK_FALSE(parse_block(changed).ok());
  }
  set_u32(bytes, type_at, 1);
  CHECK(parse_block(bytes).ok());

  block.others.push_back({kRecordDsse, *encode_envelope(sample_envelope())});
  CHECK_FALSE(parse_block(*encode_block(block)).ok());

  // Zero records in an otherwise perfect frame.
  auto empty = from_hex(
      "4d4c435349474231"
      "2800000000000000"
      "00000000"
      "00000000"
      "2800000000000000"
      "4d4c435349474231");
  CHECK(parse_block(empty).status().message.find("no record of type 1") != std::string::npos);
}

TEST_CASE("limits hold for payloads, signatures, records and the whole") {
  Envelope envelope = sample_envelope();
  envelope.payload.resize(kMaxStatement + 1);
  CHECK_FALSE(encode_envelope(envelope).ok());
  envelope.payload.clear();
  CHECK_FALSE(encode_envelope(envelope).ok());
  envelope = sample_envelope();
  envelope.signatures.resize(kMaxSignatures + 1, envelope.signatures[0]);
  CHECK_FALSE(encode_envelope(envelope).ok());
  envelope.signatures.clear();
  CHECK_FALSE(encode_envelope(envelope).ok());

  SignatureBlock block = sample_block();
  block.others.resize(kMaxRecords, block.others[1]);
  CHECK_FALSE(encode_block(block).ok());
  block.others.resize(1);
  block.others[0] = {kRecordUnsignedFirst, std::vector<std::byte>(kMaxBlock)};
  block.envelope_position = 0;
  CHECK_FALSE(encode_block(block).ok());
}

TEST_CASE("counts and lengths that promise more than there is are refused") {
  const auto record = *encode_envelope(sample_envelope());
  for (const size_t at : {size_t{8}, size_t{24}, size_t{28}}) {
    for (const uint32_t value : {0u, 17u, 1'000'000u, 0x7fffffffu, 0xffffffffu}) {
      auto changed = record;
      set_u32(changed, at, value);
      CAPTURE(at);
      CAPTURE(value);
      CHECK_FALSE(parse_envelope(changed).ok());
    }
  }
  for (const uint32_t high : {1u, 0xffffffffu}) {
    auto changed = record;
    set_u32(changed, 4, high);  // payload_len near 2^64
    CHECK_FALSE(parse_envelope(changed).ok());
    const auto block = *encode_block(sample_block());
    for (const size_t at : {size_t{12}, size_t{24 + 12}, block.size() - 12}) {
      auto damaged = block;
      set_u32(damaged, at, high);
      CHECK_FALSE(parse_block(damaged).ok());
    }
  }
}

TEST_CASE("signing twice with one key leaves one signature, with two keys two") {
  const PrivateKey first = make_key(), second = make_key(KeyType::Ed25519);
  Envelope envelope;
  envelope.payload.assign(4, std::byte{'x'});
  REQUIRE(add_signature(envelope, first).ok());
  REQUIRE(add_signature(envelope, first).ok());
  CHECK(envelope.signatures.size() == 1);
  REQUIRE(add_signature(envelope, second).ok());
  CHECK(envelope.signatures.size() == 2);
  while (envelope.signatures.size() < kMaxSignatures) envelope.signatures.push_back(sample_envelope().signatures[0]);
  CHECK(add_signature(envelope, second).ok());
  CHECK(add_signature(envelope, make_key()).code == Code::Usage);
}
