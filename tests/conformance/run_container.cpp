// run_container CONTAINER VARIANT INPUTS OUTPUTS: what onnx_node_tests starts under an emulator. Needs the runtime only.
#include <cstdio>
#include <fstream>
#include <iterator>

#include "tests/conformance/emulate.h"
#include "tests/conformance/execute.h"

namespace mlc::conformance {
namespace {

Status run(char** argv) {
  std::ifstream in(argv[1], std::ios::binary);
  if (!in) return Status(Code::NotFound, std::string(argv[1]) + " is not there");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  MLC_ASSIGN(const std::vector<nest::Tensor> inputs, read_tensors(argv[3]));
  MLC_ASSIGN(const std::vector<nest::Tensor> outputs, execute(std::as_bytes(std::span(text)), argv[2], inputs));
  return write_tensors(argv[4], outputs);
}

}  // namespace
}  // namespace mlc::conformance

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: run_container CONTAINER VARIANT INPUTS OUTPUTS\n", stderr);
    return 2;
  }
  const mlc::Status status = mlc::conformance::run(argv);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.text().c_str());
  return status.ok() ? 0 : 1;
}
