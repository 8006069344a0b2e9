// Many runs of one session, whose model keeps states: f32 inputs of one shape, one after the other in IN, the first output of each run to OUT.
//   run_steps MODEL.mlc VARIANT IN OUT INPUT EXTENT... [--save-at K]
// With --save-at the state is saved before run K, lost by a reset, and restored in another session, which goes on.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/api/mlc.hpp"

namespace {

int failed(const mlrt::Error& error) {
  const std::string text(error.text());
  std::fprintf(stderr, "%s\n", text.c_str());
  return error.code();
}

// Replaces the session by another one of the model that begins with its state. 0, or the code of what failed.
int move(const mlrt::Model& model, const mlrt::SessionOptions& options, mlrt::Session& session) {
  const auto saved = session.state_save();
  if (!saved) return failed(saved.error());
  const std::vector<std::byte> bytes(saved->begin(), saved->end());
  if (const auto reset = session.state_reset(); !reset) return failed(reset.error());
  auto next = model.session(options);
  if (!next) return failed(next.error());
  if (const auto restored = next->state_restore(bytes); !restored) return failed(restored.error());
  session = std::move(*next);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  std::vector<int64_t> shape;
  long save_at = -1;
  size_t count = 1;
  for (int k = 6; k < argc; ++k) {
    if (std::strcmp(argv[k], "--save-at") == 0 && k + 1 < argc) save_at = std::atol(argv[++k]);
    else shape.push_back(std::atoll(argv[k])), count *= static_cast<size_t>(shape.back());
  }
  mlrt::OpenOptions opening;
  if (const char* home = std::getenv("XDG_CONFIG_HOME")) opening.config_folder = std::string(home) + "/mlc";
  const auto model = mlrt::Model::open(std::string(argv[1]), opening);
  if (!model) return failed(model.error());
  mlrt::SessionOptions options;
  options.variant = argv[2];
  auto session = model->session(options);
  if (!session) return failed(session.error());
  std::FILE *in = std::fopen(argv[3], "rb"), *answers = std::fopen(argv[4], "wb");
  if (!in || !answers) return 2;
  mlrt::Vector<float> values(count);
  for (long step = 0; std::fread(values.data(), sizeof(float), count, in) == count; ++step) {
    if (step == save_at)
      if (const int code = move(*model, options, *session)) return code;
    const auto out = session->run({mlrt::Input(argv[5], values, mlrt::Shape(std::span<const int64_t>(shape)))});
    if (!out) return failed(out.error());
    const auto bytes = (*out)[0].bytes();
    std::fwrite(bytes.data(), 1, bytes.size(), answers);
  }
  std::fclose(in);
  return std::fclose(answers) == 0 ? 0 : 2;
}
