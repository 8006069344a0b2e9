#include <doctest/doctest.h>

#include "packager/compile/variant/variant.h"

namespace mlc::compile {
namespace {

CompiledVariant variant(const char* target, int code, int plan = 0) {
  CompiledVariant v;
  v.target = targets::find_target(target);
  REQUIRE(v.target != nullptr);
  v.module = {static_cast<std::byte>(code)};
  v.plan = {static_cast<std::byte>(plan)};
  return v;
}

std::string kept(std::vector<CompiledVariant> variants) {
  drop_equal_variants(variants);
  std::string names;
  for (const CompiledVariant& v : variants) names += (names.empty() ? "" : " ") + v.target->name;
  return names;
}

TEST_CASE("a variant goes if one that asks for less is the same") {
  CHECK(kept({variant("x86-64-v4", 1), variant("x86-64-v4+vnni", 1), variant("x86-64-v4+vnni+bf16", 1)}) == "x86-64-v4");
  CHECK(kept({variant("x86-64-v4+vnni", 1), variant("x86-64-v4", 1)}) == "x86-64-v4");
  CHECK(kept({variant("x86-64-v4", 1), variant("x86-64-v4+vnni+bf16", 1)}) == "x86-64-v4");
  CHECK(kept({variant("x86-64-v4", 1), variant("x86-64-v4+vnni", 2), variant("x86-64-v4+vnni+bf16", 2)}) == "x86-64-v4 x86-64-v4+vnni");
}

TEST_CASE("a variant stays if its code or its plan is another, or if nothing stands in for it") {
  CHECK(kept({variant("x86-64-v4", 1), variant("x86-64-v4+vnni", 1, 1)}) == "x86-64-v4 x86-64-v4+vnni");
  CHECK(kept({variant("x86-64-v4+vnni", 1)}) == "x86-64-v4+vnni");
  CHECK(kept({variant("x86-64-v3", 1), variant("x86-64-v4", 1)}) == "x86-64-v3 x86-64-v4");
  CHECK(kept({variant("x86-64-v3", 1), variant("x86-64-v4+vnni", 1)}) == "x86-64-v3 x86-64-v4+vnni");
}

}  // namespace
}  // namespace mlc::compile
