#include <doctest/doctest.h>

#include "packager/ir/context.h"
#include "packager/ir/node_map.h"

using namespace mlc::ir;

TEST_CASE("a table by node keeps the first value of each, however many there are") {
  Context ctx;
  NodeMap<int64_t> map;
  std::vector<const Expr*> nodes;
  for (int64_t k = 0; k < 5000; ++k) nodes.push_back(ctx.integer(k * 3));
  for (size_t k = 0; k < nodes.size(); ++k) {
    CHECK_FALSE(map.contains(nodes[k]));
    CHECK(map.insert(nodes[k], static_cast<int64_t>(k)));
    CHECK_FALSE(map.insert(nodes[k / 2], -1));
    REQUIRE(map.size() == k + 1);
  }
  for (size_t k = 0; k < nodes.size(); ++k) {
    REQUIRE(map.find(nodes[k]));
    CHECK(*map.find(nodes[k]) == static_cast<int64_t>(k));
  }
  CHECK(map.find(ctx.integer(1)) == nullptr);
}
