// A container in which two variants have each other's code, hashed and audited anew, for matrix.py:   mislabel IN.mlc OUT.mlc VARIANT OTHER
// IN is unsigned, and so is OUT: a signature on it vouches for code that is not what its label says.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "schema/audit.h"
#include "tests/support/containers/bad_container.h"

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: mislabel IN.mlc OUT.mlc VARIANT OTHER\n");
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(in)), {});
  mlc::test::Parts parts = mlc::test::take_apart(std::as_bytes(std::span(file)));
  auto& variants = parts.manifest.variants;
  const auto named = [&](const char* name) { return std::find_if(variants.begin(), variants.end(), [&](const auto& v) { return v.name == name; }); };
  const auto one = named(argv[3]), other = named(argv[4]);
  const auto is_native = [&](auto variant) { return variant != variants.end() && variant->audit && variant->module; };
  if (!is_native(one) || !is_native(other)) {
    std::fprintf(stderr, "%s has no native variants %s and %s\n", argv[1], argv[3], argv[4]);
    return 3;
  }
  std::swap(*one, *other);
  std::swap(one->name, other->name), std::swap(one->target, other->target);
  std::swap(one->features, other->features), std::swap(one->clauses, other->clauses);
  for (const auto variant : {one, other})
    variant->audit->digest = mlc::sha256(mlc::format::audit_preimage(*variant, parts.manifest.segments[*variant->module].digest));
  const std::vector<std::byte> bytes = mlc::test::assemble(parts, nullptr);
  std::ofstream out(argv[2], std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) {
    std::fprintf(stderr, "cannot write %s\n", argv[2]);
    return 3;
  }
}
