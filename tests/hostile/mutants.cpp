// Damaged containers with hashes that fit, for mutants.py:   mutants IN.mlc FOLDER COUNT SEED
// writes FOLDER/0.mlc, 1.mlc, ... of one to four edits each.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "tests/support/containers/container_mutation.h"

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: mutants IN.mlc FOLDER COUNT SEED\n");
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(in)), {});
  const mlc::test::MutableContainer container(std::as_bytes(std::span(file)));
  std::mt19937_64 random(std::strtoull(argv[4], nullptr, 10));
  const int count = std::atoi(argv[3]);
  for (int n = 0; n < count; ++n) {
    std::vector<std::byte> script((1 + random() % 4) * mlc::test::MutableContainer::kEditLen);
    for (std::byte& b : script) b = static_cast<std::byte>(random());
    const std::vector<std::byte> mutant = container.mutate(script);
    std::ofstream out(std::string(argv[2]) + "/" + std::to_string(n) + ".mlc", std::ios::binary);
    out.write(reinterpret_cast<const char*>(mutant.data()), static_cast<std::streamsize>(mutant.size()));
    if (!out) {
      std::fprintf(stderr, "cannot write into %s\n", argv[2]);
      return 3;
    }
  }
}
