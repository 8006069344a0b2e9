// A container in which one variant has the code of another, hashed and audited anew, for matrix.py:   mislabel IN.mlc OUT.mlc VARIANT CODE
// IN is unsigned, and so is OUT: whoever signs it vouches for code that is not what its label says.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "schema/audit.h"
#include "tests/support/containers/bad_container.h"

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: mislabel IN.mlc OUT.mlc VARIANT CODE\n");
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(in)), {});
  mlc::test::Parts parts = mlc::test::take_apart(std::as_bytes(std::span(file)));
  auto& variants = parts.manifest.variants;
  const auto named = [&](const char* name) { return std::find_if(variants.begin(), variants.end(), [&](const auto& v) { return v.name == name; }); };
  const auto label = named(argv[3]), code = named(argv[4]);
  if (label == variants.end() || code == variants.end() || !code->audit || !code->module) {
    std::fprintf(stderr, "%s has no native variants %s and %s\n", argv[1], argv[3], argv[4]);
    return 3;
  }
  mlc::format::Variant wrong = *code;
  wrong.name = label->name, wrong.target = label->target, wrong.features = label->features, wrong.clauses = label->clauses;
  wrong.audit->digest = mlc::sha256(mlc::format::audit_preimage(wrong, parts.manifest.segments[*wrong.module].digest));
  *label = wrong;
  const std::vector<std::byte> bytes = mlc::test::assemble(parts, nullptr);
  std::ofstream out(argv[2], std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) {
    std::fprintf(stderr, "cannot write %s\n", argv[2]);
    return 3;
  }
}
