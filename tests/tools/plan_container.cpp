// plan_container OUT PLAN [--module FILE] [--weights FILE] [--pipeline FILE] [--tensors NAME:COUNT] [--feature NAME]...: writes an unsigned container
// with nothing but a portable variant, from a plan in text form and, if the plan launches any, the portable module with its
// kernels (tests/support/containers/plan_container.h). Nothing of it is checked: it is for files that an enemy would make.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/support/containers/plan_container.h"

using namespace mlc;

namespace {

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status(Code::NotFound, "{} cannot be read", path);
  return std::string((std::istreambuf_iterator<char>(in)), {});
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Status write_container(int argc, char** argv) {
  test::PlanContainer parts;
  MLC_ASSIGN(parts.plan, read_file(argv[2]));
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--feature") {
      parts.features.push_back(static_cast<uint32_t>(feature_named(argv[i + 1])));
      continue;
    }
    if (flag == "--tensors") {
      parts.tensors = argv[i + 1];
      parts.num_tensors = static_cast<uint32_t>(std::atoi(parts.tensors.substr(parts.tensors.rfind(':') + 1).c_str()));
      continue;
    }
    MLC_ASSIGN(const std::string content, read_file(argv[i + 1]));
    if (flag == "--module") parts.module = bytes_of(content);
    else if (flag == "--weights") parts.weights = bytes_of(content);
    else if (flag == "--pipeline") parts.pipeline = content;
    else return Status(Code::Usage, "unknown flag {}", flag);
  }
  MLC_ASSIGN(const std::vector<std::byte> bytes, test::container_of(std::move(parts)));
  std::ofstream out(argv[1], std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return out.flush() ? ok() : Status(Code::Resource, "{} cannot be written", argv[1]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc % 2 == 0) {
    std::fprintf(stderr, "usage: plan_container OUT PLAN [--module FILE] [--weights FILE] [--pipeline FILE] [--tensors NAME:COUNT] [--feature NAME]...\n");
    return 2;
  }
  const Status status = write_container(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.text().c_str());
  return static_cast<int>(status.code);
}
