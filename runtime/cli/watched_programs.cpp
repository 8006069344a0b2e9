#include "runtime/cli/watched_programs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/cli/crash.h"

namespace mlc::cli {
namespace {

// That runs this program; of the model, so it lives as long. Null: there is no such program.
const char* variant_of(const OpenModel& model, const MlcSession* session, const std::string& name) {
  auto program = sized<MlcProgram>();
  auto info = sized<MlcSessionInfo>();
  for (uint32_t i = 0; api().program(model.model.get(), i, &program) == MLC_OK; ++i)
    if (name == program.name) return api().program_info(session, i, &info) == MLC_OK ? info.variant : nullptr;
  return nullptr;
}

}  // namespace

pipeline::Programs watched_programs(const OpenModel& model, MlcSession* session, pipeline::AnswerBudget& budget, uint64_t& run_ns) {
  pipeline::Programs programs = mlio::programs_of(model, session, nullptr, budget, run_ns);
  const std::vector<ProgramChoice> all = programs_on(model, session);
  const auto is_other = [&](const ProgramChoice& p) { return p.variant != all[0].variant; };
  if (std::none_of(all.begin(), all.end(), is_other)) return programs;  // what is said of the session holds
  programs.run = [&model, session, said = static_cast<const char*>(nullptr), run = std::move(programs.run)](const std::string& name, const std::vector<NamedTensor>& inputs) mutable {
    if (const char* const variant = variant_of(model, session, name); variant && variant != said) say_what_crashed(model, said = variant);
    return run(name, inputs);
  };
  return programs;
}

}  // namespace mlc::cli
