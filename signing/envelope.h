// What is signed and where the signatures lie: the statement, its signed bytes, the embedded record and the signature
// block at the end of a container (spec/signing.md has the byte tables).
//
//   block  = "MLCSIGB1" | u64 block_len | u32 record_count | u32 0 | records | u64 block_len | "MLCSIGB1"
//   record = u32 type | u32 0 | u64 len | bytes | zeros to a multiple of 8
//   type 1 = u64 payload_len | u32 sig_count | u32 0 | payload | zeros to 8
//            | { u32 key_len | u32 sig_len | key | zeros to 8 | sig | zeros to 8 } x sig_count
//
// The payload is a JSON statement; it is signed and parsed as the same bytes, never re-serialized. Parsers here read
// hostile bytes: every length is checked, every padding byte is zero, every byte has exactly one meaning, so
// parse(encode(x)) == x and encode(parse(b)) == b.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "signing/hash_tree.h"
#include "signing/keys.h"

namespace mlc::signing {

// Limits of the format (never raised by a file).
inline constexpr uint64_t kMaxBlock = 16u << 20;
inline constexpr uint32_t kMaxRecords = 32;
inline constexpr uint32_t kMaxSignatures = 16;
inline constexpr uint64_t kMaxStatement = 1u << 20;

inline constexpr uint32_t kRecordDsse = 1;
inline constexpr uint32_t kRecordParentDsse = 2;
inline constexpr uint32_t kRecordUnsignedFirst = 0x80000000u;  // attestations outside the signature, ignored

inline constexpr std::string_view kPayloadType = "application/vnd.in-toto+json";
inline constexpr std::string_view kStatementType = "https://in-toto.io/Statement/v1";
inline constexpr std::string_view kPredicateType = "urn:mlc:container/v1";
inline constexpr std::string_view kTreeId = "mlc-sha256-1m-v1";

// The signed claims about one container.
struct Statement {
  Digest root{};
  Digest manifest{};           // SHA-256 of the manifest bytes
  std::string model_id;        // org/name
  uint64_t model_version = 1;
  uint64_t not_after = 0;      // seconds since 1970, 0: none; at most 9999-12-31T23:59:59Z

  friend bool operator==(const Statement&, const Statement&) = default;
};

// The payload: one fixed spelling, so equal statements are equal bytes. Usage if a field cannot be stated (model id
// outside [a-z0-9._-]+/[a-z0-9._-]+ or longer than 255 bytes, version 0, a time beyond year 9999).
[[nodiscard]] Result<std::string> encode_statement(const Statement& statement);
// Reads a payload that some key signed. Unknown keys are ignored unless `critical` lists them. BadSignature if it is
// not a statement about a container of this format.
[[nodiscard]] Result<Statement> parse_statement(Bytes payload);

// The bytes that a key signs: "DSSEv1 28 application/vnd.in-toto+json " + decimal(len) + " " + payload.
[[nodiscard]] std::vector<std::byte> pre_authentication_encoding(Bytes payload,
                                                                 std::string_view payload_type = kPayloadType);

struct Signature {
  std::vector<std::byte> key;  // SubjectPublicKeyInfo DER as found: a candidate, not yet a key
  std::vector<std::byte> value;
};
struct Envelope {  // the content of a record of type 1 or 2
  std::vector<std::byte> payload;
  std::vector<Signature> signatures;
};
struct Record {
  uint32_t type = 0;
  std::vector<std::byte> bytes;
};
struct SignatureBlock {
  Envelope envelope;               // the one record of type 1
  std::vector<Record> others;      // parents' and unsigned records, in file order, contents opaque
  uint32_t envelope_position = 0;  // index of type 1 among all records, kept so that encode(parse(b)) == b
};

// Malformed if a limit is exceeded (payload, counts, total).
[[nodiscard]] Result<std::vector<std::byte>> encode_envelope(const Envelope& envelope);
[[nodiscard]] Result<std::vector<std::byte>> encode_block(const SignatureBlock& block);

[[nodiscard]] Result<Envelope> parse_envelope(Bytes record);
// `tail` is the file from body_size to its end and must be exactly one block. Found from both ends: both lengths must
// be tail.size(), both magics must be there. Malformed otherwise, naming the field and its offset in the block. A
// block must hold exactly one record of type 1 and no record of an unknown type below 0x80000000.
[[nodiscard]] Result<SignatureBlock> parse_block(Bytes tail);

// Adds a signature over the envelope's payload. A signature by the same key is replaced.
[[nodiscard]] Status add_signature(Envelope& envelope, const PrivateKey& key);

// The same for a signature that was made elsewhere over pre_authentication_encoding(payload), by a key in a machine of its own, say.
// BadSignature (E3101) unless it is one of this key.
[[nodiscard]] Status attach_signature(Envelope& envelope, const PublicKey& key, std::vector<std::byte> value);

// A complete block with one signature: what a packager appends to the body.
[[nodiscard]] Result<std::vector<std::byte>> sign_block(const Statement& statement, const PrivateKey& key);

// "2027-11-20T00:00:00Z", the one spelling of times in statements and policies. Exact inverse of each other for every
// second from 1970 to the end of year 9999.
[[nodiscard]] std::optional<std::string> format_time(uint64_t seconds);
[[nodiscard]] std::optional<uint64_t> parse_time(std::string_view text);
// A decimal number without sign, space or leading zero.
[[nodiscard]] std::optional<uint64_t> parse_decimal(std::string_view text);

// The grammar of model ids: [a-z0-9._-]+/[a-z0-9._-]+, at most 255 bytes.
[[nodiscard]] bool is_model_id(std::string_view id);

}  // namespace mlc::signing
