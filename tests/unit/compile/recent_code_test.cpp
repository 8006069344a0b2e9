#include "packager/compile/cache/recent_code.h"

#include <doctest/doctest.h>

using namespace mlc;
using namespace mlc::compile;

namespace {

std::vector<std::byte> code(size_t bytes) { return std::vector<std::byte>(bytes, std::byte{7}); }

// What was asked of it, one after another.
struct Recorded final : targets::CodeStore {
  std::optional<std::vector<std::byte>> find(const std::string& key) override {
    calls.push_back("find " + key);
    return key == "old" ? std::optional(code(3)) : std::nullopt;
  }
  void keep(const std::string& key, std::span<const std::byte> bytes) override { calls.push_back("keep " + key + " " + std::to_string(bytes.size())); }
  std::vector<std::string> calls;
};

}  // namespace

TEST_CASE("code of this build is found without asking what stands behind it, until it is forgotten") {
  Recorded earlier;
  RecentCode recent(&earlier);
  CHECK(!recent.find("new"));
  recent.keep("new", code(5));
  CHECK(recent.find("new")->size() == 5);
  CHECK(recent.find("old")->size() == 3);
  CHECK(recent.find("old")->size() == 3);
  CHECK(earlier.calls == std::vector<std::string>{"find new", "keep new 5", "find old"});
  recent.forget();
  CHECK(!recent.find("new"));
  CHECK(recent.find("old"));
  CHECK(earlier.calls.size() == 5);
}

TEST_CASE("nothing need stand behind it") {
  RecentCode recent(nullptr);
  CHECK(!recent.find("new"));
  recent.keep("new", code(0));
  CHECK(recent.find("new")->empty());
}
