// What runs each program of a container, through mlc.hpp: a line for each program, "NAME VARIANT DEVICE", of a session. DEVICE "cpu" is the
// processor. Ends with the code of what failed, or with 70 if what was chosen before the session is not what it has.
//   program_places MODEL.mlc PROBE_PROGRAM DEVICES
#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/api/mlc.hpp"

namespace {

int failed(const mlrt::Error& error) {
  const std::string text(error.text());
  std::fprintf(stderr, "%s\n", text.c_str());
  return error.code();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return MLC_USAGE;
  mlrt::OpenOptions opening;
  if (const char* home = std::getenv("XDG_CONFIG_HOME")) opening.config_folder = std::string(home) + "/mlc";
  opening.probe_program = argv[2];
  opening.devices = argv[3];
  const auto model = mlrt::Model::open(std::string(argv[1]), opening);
  if (!model) return failed(model.error());
  const auto session = model->session();
  if (!session) return failed(session.error());
  uint32_t index = 0;
  for (const mlrt::Program& program : model->programs()) {
    const auto chosen = model->choose_for(index);
    if (!chosen) return failed(chosen.error());
    const auto info = session->program_info(index++);
    if (!info) return failed(info.error());
    std::printf("%s %s %s\n", program.name.c_str(), info->variant.c_str(), info->device.empty() ? "cpu" : info->device.c_str());
    if (chosen->name != info->variant || chosen->device != info->device || model->explain()[chosen->variant].name != chosen->name) return MLC_INTERNAL;
  }
  const auto behind = session->program_info(index);
  return !behind && behind.error().code() == MLC_USAGE ? MLC_OK : MLC_INTERNAL;
}
