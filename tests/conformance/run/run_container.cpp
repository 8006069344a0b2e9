// What onnx_node_tests starts under an emulator; needs the runtime only. For every line "CONTAINER \\t VARIANT \\t INPUTS \\t
// OUTPUTS" of its input it runs the container and answers "0", or the code of an error and its message.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "tests/conformance/run/emulate.h"
#include "tests/conformance/run/execute.h"

namespace mlc::conformance {
namespace {

Status run(const std::string& line) {
  std::istringstream in(line);
  std::string container, variant, inputs_path, outputs_path;
  if (!std::getline(in, container, '\t') || !std::getline(in, variant, '\t') || !std::getline(in, inputs_path, '\t') || !std::getline(in, outputs_path))
    return Status(Code::Usage, "not CONTAINER, VARIANT, INPUTS and OUTPUTS");
  std::ifstream file(container, std::ios::binary);
  if (!file) return Status(Code::NotFound, container + " is not there");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  MLC_ASSIGN(const std::vector<nest::Tensor> inputs, read_tensors(inputs_path));
  MLC_ASSIGN(const std::vector<nest::Tensor> outputs, execute(std::as_bytes(std::span(text)), variant, inputs));
  return write_tensors(outputs_path, outputs);
}

}  // namespace
}  // namespace mlc::conformance

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const mlc::Status status = mlc::conformance::run(line);
    std::string message = status.message;
    for (const std::string& fact : status.facts) message += "; " + fact;
    for (char& c : message)
      if (c == '\n') c = ' ';
    std::printf("%d %s\n", static_cast<int>(status.code), message.c_str());
    std::fflush(stdout);
  }
}
