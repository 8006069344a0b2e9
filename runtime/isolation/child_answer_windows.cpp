#include "runtime/isolation/child_answer.h"

namespace mlc::cli {

sandbox::Limits limits_of(const ChildWork& work) { return {.native_code = work.native_code}; }

int answer_in_child(const ChildCommand& command, bool, const Answer&, const std::function<void()>&) {
  const Result<Report> refused = no_process_for(command.file);
  return command.print ? command.print(refused) : finish(command.name, command.as_json, refused);
}

}  // namespace mlc::cli
