// The embedded record and the signature block: bytes in, bytes out. See spec/signing.md for the tables.
#include "signing/envelope.h"

#include <algorithm>

#include "base/byte_cursor.h"
#include "base/compose.h"

namespace mlc::signing {

namespace {

constexpr std::string_view kMagic = "MLCSIGB1";
constexpr uint64_t kFrame = 40;         // both magics, both lengths, count and reserved word
constexpr uint64_t kFooter = 16;        // the second length and magic
constexpr uint64_t kMaxFieldLen = 512;  // the longest key is 158 bytes, the longest signature 141

// `part` of the file: "block" or "record".
Status damaged_part(const char* part, const ByteCursor& cursor, const char* pattern, Pieces pieces) {
  return Status(Code::Malformed, 3110, "signature {}: {}", part, compose_pieces(pattern, pieces))
      .fact("at byte {} of the {}", cursor.offset(), part);
}
Status damaged(const ByteCursor& cursor, const char* pattern, Pieces pieces = {}) {
  return damaged_part("block", cursor, pattern, pieces);
}
Status bad_record(const ByteCursor& cursor, const char* pattern, Pieces pieces = {}) {
  return damaged_part("record", cursor, pattern, pieces);
}

Status check_counts(const Envelope& envelope) {
  if (envelope.payload.empty() || envelope.payload.size() > kMaxStatement)
    return Status(Code::Malformed, 3110, "signature record: a statement of {} bytes, expected 1 to {}",
                  envelope.payload.size(), kMaxStatement);
  if (envelope.signatures.empty() || envelope.signatures.size() > kMaxSignatures)
    return Status(Code::Malformed, 3110, "signature record: {} signatures, expected 1 to {}",
                  envelope.signatures.size(), kMaxSignatures);
  for (const Signature& signature : envelope.signatures) {
    if (signature.key.empty() || signature.key.size() > kMaxFieldLen || signature.value.empty() ||
        signature.value.size() > kMaxFieldLen)
      return Status(Code::Malformed, 3110, "signature record: a key or signature of 0 or more than 512 bytes");
  }
  return ok();
}

Result<Record> parse_record(ByteCursor& cursor) {
  const auto type = cursor.take<uint32_t>();
  const auto reserved = cursor.take<uint32_t>();
  const auto len = cursor.take<uint64_t>();
  if (cursor.failed()) return damaged(cursor, "cut off inside a record header");
  if (reserved != 0) return damaged(cursor, "the reserved word of a record is not zero");
  if (type == 0 || (type > kRecordParentDsse && type < kRecordUnsignedFirst))
    return damaged(cursor, "a record of unknown type {}", {type}).hint("update mlrun");
  const Bytes content = cursor.bytes(len);
  if (cursor.failed()) return damaged(cursor, "a record of {} bytes, longer than the block", {len});
  cursor.skip_padding(8);
  if (cursor.failed()) return damaged(cursor, "padding after a record is missing or not zero");
  return Record{type, {content.begin(), content.end()}};
}

}  // namespace

Result<std::vector<std::byte>> encode_envelope(const Envelope& envelope) {
  MLC_RETURN_IF_ERROR(check_counts(envelope));
  ByteBuilder out;
  out.put_uint(envelope.payload.size(), 8);
  out.put_uint(envelope.signatures.size(), 4);
  out.put_uint(0, 4);
  out.put(envelope.payload);
  out.pad(8);
  for (const Signature& signature : envelope.signatures) {
    out.put_uint(signature.key.size(), 4);
    out.put_uint(signature.value.size(), 4);
    out.put(signature.key);
    out.pad(8);
    out.put(signature.value);
    out.pad(8);
  }
  return out.take();
}

Result<Envelope> parse_envelope(Bytes record) {
  ByteCursor cursor(record);
  const auto payload_len = cursor.take<uint64_t>();
  const auto count = cursor.take<uint32_t>();
  const auto reserved = cursor.take<uint32_t>();
  if (cursor.failed()) return bad_record(cursor, "cut off inside its header");
  if (reserved != 0) return bad_record(cursor, "the reserved word is not zero");
  if (payload_len > kMaxStatement) return bad_record(cursor, "a statement longer than 1 MiB");
  if (count > kMaxSignatures) return bad_record(cursor, "{} signatures, at most 16 are allowed", {count});
  const Bytes payload = cursor.bytes(payload_len);
  if (cursor.failed()) return bad_record(cursor, "the statement is cut off");
  cursor.skip_padding(8);
  if (cursor.failed()) return bad_record(cursor, "padding after the statement is missing or not zero");
  Envelope envelope;
  envelope.payload.assign(payload.begin(), payload.end());
  for (uint32_t i = 0; i < count; ++i) {
    const auto key_len = cursor.take<uint32_t>();
    const auto signature_len = cursor.take<uint32_t>();
    if (cursor.failed()) return bad_record(cursor, "cut off inside a signature header");
    const Bytes key = cursor.bytes(key_len);
    cursor.skip_padding(8);
    if (cursor.failed()) return bad_record(cursor, "a key is cut off or its padding is not zero");
    const Bytes value = cursor.bytes(signature_len);
    cursor.skip_padding(8);
    if (cursor.failed()) return bad_record(cursor, "a signature is cut off or its padding is not zero");
    envelope.signatures.push_back({{key.begin(), key.end()}, {value.begin(), value.end()}});
  }
  if (!cursor.done()) return bad_record(cursor, "bytes after the last signature");
  MLC_RETURN_IF_ERROR(check_counts(envelope));
  return envelope;
}

Result<std::vector<std::byte>> encode_block(const SignatureBlock& block) {
  MLC_ASSIGN(std::vector<std::byte> envelope, encode_envelope(block.envelope));
  std::vector<Record> records = block.others;
  if (block.envelope_position > records.size() || records.size() + 1 > kMaxRecords)
    return Status(Code::Malformed, 3110, "signature block: more than 32 records");
  records.insert(records.begin() + block.envelope_position, Record{kRecordDsse, std::move(envelope)});
  uint64_t len = kFrame;
  for (const Record& record : records) {
    const auto padded = checked_align(record.bytes.size(), 8);
    const auto sum = padded ? checked_add(len + 16, *padded) : std::nullopt;
    if (!sum || *sum > kMaxBlock) return Status(Code::Malformed, 3110, "signature block: longer than 16 MiB");
    len = *sum;
  }
  ByteBuilder out;
  out.put(kMagic);
  out.put_uint(len, 8);
  out.put_uint(records.size(), 4);
  out.put_uint(0, 4);
  for (const Record& record : records) {
    out.put_uint(record.type, 4);
    out.put_uint(0, 4);
    out.put_uint(record.bytes.size(), 8);
    out.put(record.bytes);
    out.pad(8);
  }
  out.put_uint(len, 8);
  out.put(kMagic);
  return out.take();
}

Result<SignatureBlock> parse_block(Bytes tail) {
  ByteCursor cursor(tail);
  if (tail.size() > kMaxBlock) return damaged(cursor, "longer than 16 MiB");
  if (tail.size() < kFrame)
    return damaged(cursor, "{} bytes after the body, too few for a signature block", {tail.size()});

  // From the end: an independent way to the same bytes.
  ByteCursor footer = cursor.at(tail.size() - kFooter);
  const auto len_behind = footer.take<uint64_t>();
  if (footer.text(kMagic.size()) != kMagic)
    return damaged(cursor, "the file does not end with its magic: cut off or extended");
  if (len_behind != tail.size())
    return damaged(cursor, "length at its end is {}, found {} bytes", {len_behind, tail.size()});

  if (cursor.text(kMagic.size()) != kMagic) return damaged(cursor, "does not begin with its magic");
  const auto len_ahead = cursor.take<uint64_t>();
  if (len_ahead != tail.size())
    return damaged(cursor, "length at its start is {}, found {} bytes", {len_ahead, tail.size()});
  const auto count = cursor.take<uint32_t>();
  const auto reserved = cursor.take<uint32_t>();
  if (reserved != 0) return damaged(cursor, "the reserved word is not zero");
  if (count > kMaxRecords) return damaged(cursor, "{} records, at most 32 are allowed", {count});

  ByteCursor body = ByteCursor(tail.first(tail.size() - kFooter)).at(cursor.offset());  // records end where it begins
  SignatureBlock block;
  bool found = false;
  for (uint32_t i = 0; i < count; ++i) {
    MLC_ASSIGN(Record record, parse_record(body));
    if (record.type != kRecordDsse) {
      block.others.push_back(std::move(record));
      continue;
    }
    if (found) return damaged(body, "more than one record of type 1");
    found = true;
    block.envelope_position = i;
    MLC_ASSIGN(block.envelope, parse_envelope(record.bytes));
  }
  if (!body.done()) return damaged(body, "bytes after the last record");
  if (!found) return damaged(body, "no record of type 1: an unsigned file has no signature block");
  return block;
}

std::vector<std::byte> pre_authentication_encoding(Bytes payload, std::string_view payload_type) {
  ByteBuilder out;
  out.put(compose("DSSEv1 {} ", payload_type.size()));
  out.put(payload_type);
  out.put(compose(" {} ", payload.size()));
  out.put(payload);
  return out.take();
}

namespace {

Status put_signature(Envelope& envelope, const PublicKey& key, std::vector<std::byte> value) {
  const Bytes der = key.der();
  std::erase_if(envelope.signatures, [&](const Signature& signature) {
    return std::equal(signature.key.begin(), signature.key.end(), der.begin(), der.end());
  });
  if (envelope.signatures.size() >= kMaxSignatures)
    return Status(Code::Usage, "the file carries 16 signatures already, more are not allowed");
  envelope.signatures.push_back({{der.begin(), der.end()}, std::move(value)});
  return ok();
}

}  // namespace

Status add_signature(Envelope& envelope, const PrivateKey& key) {
  MLC_ASSIGN(std::vector<std::byte> value, key.sign(pre_authentication_encoding(envelope.payload)));
  return put_signature(envelope, key.public_key(), std::move(value));
}

Status attach_signature(Envelope& envelope, const PublicKey& key, std::vector<std::byte> value) {
  if (!key.verify(pre_authentication_encoding(envelope.payload), value))
    return Status(Code::BadSignature, 3101, "this is no signature of key {} over this container's statement", key.id_prefix());
  return put_signature(envelope, key, std::move(value));
}

Result<std::vector<std::byte>> sign_block(const Statement& statement, const PrivateKey& key) {
  MLC_ASSIGN(const std::string payload, encode_statement(statement));
  const Bytes bytes = std::as_bytes(std::span(payload.data(), payload.size()));
  SignatureBlock block;
  block.envelope.payload.assign(bytes.begin(), bytes.end());
  MLC_RETURN_IF_ERROR(add_signature(block.envelope, key));
  return encode_block(block);
}

}  // namespace mlc::signing
