#include "signing/hash_tree.h"

#include "support.h"

using namespace mlc;
using namespace mlc::signing::test;

namespace {

// Straight from the formulas, with nothing shared but SHA-256 itself.
Digest digest_of(const std::vector<std::byte>& bytes) { return sha256(Bytes(bytes)); }
void put(std::vector<std::byte>& out, Bytes bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }
void put_int(std::vector<std::byte>& out, uint64_t value, int len) {
  for (int i = 0; i < len; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

}  // namespace

TEST_CASE("SHA-256 agrees with the vectors of FIPS 180-4") {
  CHECK(to_hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(to_hex(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 million;
  const std::string block(1000, 'a');
  for (int i = 0; i < 1000; ++i) million.update(block);
  CHECK(to_hex(million.finish()) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("hex is read strictly") {
  const Digest digest = sha256("abc");
  CHECK(digest_from_hex(to_hex(digest)) == digest);
  CHECK_FALSE(digest_from_hex(to_hex(digest).substr(1)));
  CHECK_FALSE(digest_from_hex(to_hex(digest) + "0"));
  CHECK_FALSE(digest_from_hex("BA" + to_hex(digest).substr(2)));
  CHECK_FALSE(digest_from_hex(" a" + to_hex(digest).substr(2)));
}

TEST_CASE("a leaf is tagged with A5 and carries its length") {
  std::vector<std::byte> expected{std::byte{0xA5}};
  put_int(expected, 5, 4);
  put(expected, bytes_of("hello"));
  CHECK(leaf_digest(bytes_of("hello")) == digest_of(expected));
  LeafHasher pieces(5);
  pieces.update(bytes_of("he"));
  pieces.update(bytes_of("llo"));
  CHECK(pieces.finish() == leaf_digest(bytes_of("hello")));
  CHECK(leaf_digest(bytes_of(std::string_view("a\0", 2))) != leaf_digest(bytes_of("a")));
}

TEST_CASE("a segment is tagged with 5A and carries codec, leaf size and both lengths") {
  const std::vector<Digest> leaves{sha256("one"), sha256("two")};
  std::vector<std::byte> expected{std::byte{0x5A}, std::byte{2}, std::byte{20}, std::byte{0}, std::byte{0}};
  put_int(expected, 77, 8);
  put_int(expected, 1'500'000, 8);
  put(expected, leaves[0]);
  put(expected, leaves[1]);
  CHECK(segment_digest(2, 77, 1'500'000, leaves) == digest_of(expected));
}

TEST_CASE("a raw segment hashed in pieces of any size has the leaves of the whole") {
  std::vector<std::byte> data(2 * kLeafSize + 12'345);
  uint32_t state = 1;
  for (std::byte& b : data) b = static_cast<std::byte>((state = state * 1'664'525 + 1'013'904'223) >> 24);
  std::vector<Digest> leaves;
  for (size_t at = 0; at < data.size(); at += kLeafSize)
    leaves.push_back(leaf_digest(Bytes(data).subspan(at, std::min<size_t>(kLeafSize, data.size() - at))));
  CHECK(leaves.size() == raw_leaf_count(data.size()));
  const Digest whole = segment_digest(1, data.size(), data.size(), leaves);
  for (const size_t piece : {size_t{1'000'003}, size_t{4096}, size_t{kLeafSize}, data.size()}) {
    RawSegmentHasher hasher;
    for (size_t at = 0; at < data.size(); at += piece)
      hasher.update(Bytes(data).subspan(at, std::min(piece, data.size() - at)));
    CHECK(hasher.finish() == whole);
    CHECK(hasher.leaves() == leaves);
    CHECK(hasher.size() == data.size());
  }
  CHECK(raw_leaf_count(0) == 0);
  CHECK(raw_leaf_count(kLeafSize) == 1);
  CHECK(raw_leaf_count(kLeafSize + 1) == 2);
}

TEST_CASE("the root covers the core and the manifest's digest") {
  std::array<std::byte, kCoreSize> core{};
  core[63] = std::byte{7};
  std::vector<std::byte> expected;
  put(expected, bytes_of("MLCROOT1"));
  put(expected, core);
  put(expected, sha256("manifest"));
  CHECK(root_digest(core, bytes_of("manifest")) == digest_of(expected));
}

TEST_CASE("a tensor's digest covers type, rank, dims and elements") {
  const std::vector<uint64_t> dims{2, 3};
  std::vector<std::byte> expected;
  put(expected, bytes_of("MLCTENS1"));
  expected.push_back(static_cast<std::byte>(DType::U8));
  expected.push_back(std::byte{2});
  put_int(expected, 2, 8);
  put_int(expected, 3, 8);
  put(expected, bytes_of("abcdef"));
  CHECK(tensor_digest(DType::U8, dims, bytes_of("abcdef")) == digest_of(expected));
  const std::vector<uint64_t> swapped{3, 2};
  CHECK(tensor_digest(DType::U8, swapped, bytes_of("abcdef")) != tensor_digest(DType::U8, dims, bytes_of("abcdef")));
}
