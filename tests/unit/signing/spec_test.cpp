// The worked example of spec/signing.md, read from the page itself: the library must agree with every byte of it.
#include <sstream>

#include "support.h"
#include "tests/support/source_path.h"

using namespace mlc;
using namespace mlc::signing;
using namespace mlc::signing::test;

namespace {

// The fenced blocks of one kind after "## 10.", in order.
std::vector<std::string> blocks(const std::string& kind) {
  const std::string page = read_file(mlc::testing::source_path("spec/signing.md"));
  std::vector<std::string> found;
  size_t at = page.find("## 10. Worked example");
  REQUIRE(at != std::string::npos);
  const std::string fence = "\n```" + kind + "\n";
  while ((at = page.find(fence, at)) != std::string::npos) {
    at += fence.size();
    const size_t end = page.find("\n```", at);
    REQUIRE(end != std::string::npos);
    found.push_back(page.substr(at, end - at));
    at = end + 4;
  }
  return found;
}

std::vector<std::byte> undump(const std::string& dump) {
  std::vector<std::byte> bytes;
  std::istringstream lines(dump);
  for (std::string line; std::getline(lines, line);) {
    REQUIRE(std::stoul(line.substr(0, 4), nullptr, 16) == bytes.size());
    std::istringstream words(line.substr(6, 47));
    for (std::string word; words >> word;) bytes.push_back(static_cast<std::byte>(std::stoi(word, nullptr, 16)));
  }
  return bytes;
}

// The digest at the end of the line that begins with `name`.
std::string digest_line(const std::string& name) {
  const std::string page = read_file(mlc::testing::source_path("spec/signing.md"));
  const size_t at = page.find("\n" + name, page.find("## 10."));
  REQUIRE(at != std::string::npos);
  const size_t end = page.find('\n', at + 1);
  return page.substr(end - 64, 64);
}

}  // namespace

TEST_CASE("the worked example of the specification holds byte for byte") {
  const std::string manifest = "not parsed.\n";
  const std::vector<Digest> leaves{leaf_digest(bytes_of("hello"))};
  CHECK(digest_line("leaf of") == to_hex(leaves[0]));
  CHECK(digest_line("raw segment of") == to_hex(segment_digest(1, 5, 5, leaves)));
  const std::vector<uint64_t> dims{1, 2};
  CHECK(digest_line("tensor f32") == to_hex(tensor_digest(DType::F32, dims, from_hex("0000803f000000c0"))));
  CHECK(digest_line("manifest \"not") == to_hex(sha256(manifest)));

  const auto dumps = blocks("hexdump");
  REQUIRE(dumps.size() == 2);
  const auto core_bytes = undump(dumps[0]);
  REQUIRE(core_bytes.size() == kCoreSize);
  const std::span<const std::byte, kCoreSize> core(core_bytes.data(), kCoreSize);
  const Digest root = root_digest(core, bytes_of(manifest));
  CHECK(digest_line("root  ") == to_hex(root));

  const auto pem = blocks("pem"), payload = blocks("payload");
  REQUIRE(pem.size() == 1);
  REQUIRE(payload.size() == 1);
  const auto key = PrivateKey::from_pem(pem[0] + "\n");
  REQUIRE(key.ok());
  CHECK(digest_line("key id") == key->public_key().id_hex());

  Statement statement;
  statement.root = root;
  statement.manifest = sha256(manifest);
  statement.model_id = "acme/cat";
  statement.model_version = 42;
  statement.not_after = *parse_time("2027-11-20T00:00:00Z");
  CHECK(*encode_statement(statement) == payload[0]);
  CHECK(*sign_block(statement, *key) == undump(dumps[1]));
  const auto authentication = authenticate(core, bytes_of(manifest), undump(dumps[1]));
  REQUIRE(authentication.ok());
  CHECK(*authentication->statement() == statement);
}

TEST_CASE("the policy shown in the specification is a valid policy apart from its placeholders") {
  const std::string page = read_file(mlc::testing::source_path("spec/signing.md"));
  const size_t at = page.find("{\"keys\"");
  std::string text = page.substr(at, page.find("\n```", at) - at);
  const auto put = [&](const std::string& from, const std::string& to) {
    const size_t where = text.find(from);
    REQUIRE(where != std::string::npos);
    text.replace(where, from.size(), to);
  };
  std::string pem = make_key().public_key().pem();
  for (size_t i = 0; (i = pem.find('\n', i)) != std::string::npos;) pem.replace(i, 1, "\\n");
  for (int keys = 0; keys < 2; ++keys) put("-----BEGIN PUBLIC KEY-----\\n...", pem);
  put("<key id>", to_hex(sha256("")));
  put("<root>", to_hex(sha256("")));
  const auto policy = parse_policy(bytes_of(text), "example");
  REQUIRE(policy.ok());
  CHECK(policy->keys.size() == 1);
  CHECK(policy->rules[0].threshold == 2);
  CHECK(policy->version == 4);
  CHECK(policy->administrators_needed == 1);
}
