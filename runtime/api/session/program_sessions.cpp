#include "runtime/api/session/program_sessions.h"

#include <algorithm>
#include <utility>

#include "runtime/plan/memory_budget.h"

namespace mlc::api {

Result<std::unique_ptr<ProgramSessions>> ProgramSessions::create(const Model& model, SessionOptions options) {
  auto out = std::make_unique<ProgramSessions>();
  const uint32_t count = model.num_groups();
  if (count > 1 && options.placement && model.is_split_by_choices())
    return Status(Code::Usage, "a placement says of each segment where it runs, and mlrun tune measured another variant to be the fastest for each program")
        .hint("mlrun tune --forget drops what was measured");
  if (count > 1 && options.placement)
    return Status(Code::Usage, "a placement says of each segment where it runs: devices by program are not said beside it");
  const char* const objective = options.objective;
  for (uint32_t i = 0; i < count; ++i) {
    if (Status code = has_code(model, i, options.variant); !code.ok()) {
      out->groups_.push_back({nullptr, {}, std::move(code)});
      continue;
    }
    options.group = i;
    // Programs of the processor alone have nothing to divide, beside others that have.
    options.objective = count > 1 && !has_device(model, i) ? nullptr : objective;
    auto session = Session::create(model, options);
    if (!session) return count == 1 ? std::move(session).status() : std::move(session).status().note("programs {}", model.programs_of(i));
    out->groups_.push_back({std::move(*session), count == 1 ? std::string() : model.programs_of(i), {}});
  }
  while (out->main_ < count && !out->groups_[out->main_].session) ++out->main_;
  if (out->main_ == count) return out->groups_[0].missing;
  out->memory_limit_ = out->main().executor().budget().limit;
  return out;
}

Session& ProgramSessions::of(uint32_t method) {
  Session* const session = groups_[model().group_of(method)].session.get();
  return session ? *session : main();
}

Session& ProgramSessions::of(const char* program) {
  const auto method = model().container().find_method(program ? program : model().manifest().methods[model().main_method()].name);
  return method ? of(*method) : main();
}

Result<Session*> ProgramSessions::for_run(const char* program) {
  if (groups_.size() == 1) return &main();
  const auto method = program ? model().container().find_method(program) : model().main_method();
  if (method) MLC_RETURN_IF_ERROR(can_run(*method));
  Session& session = of(program);
  uint64_t held = 0;
  for (const Group& group : groups_)
    if (group.session && group.session.get() != &session) held += group.session->executor().budget().held;
  exec::MemoryBudget& budget = session.executor().budget();
  budget.limit = std::max(budget.held, memory_limit_ - std::min(held, memory_limit_));
  return &session;
}

Session& ProgramSessions::with_state() {
  const auto& methods = model().manifest().methods;
  for (uint32_t i = 0; i < methods.size() && groups_.size() > 1; ++i)
    if (!methods[i].state.empty()) return of(i);
  return main();
}

const std::string& ProgramSessions::note() {
  if (groups_.size() == 1) return main().note();
  for (Group& group : groups_) {
    if (!group.session) continue;
    std::string_view added = group.session->note();
    added.remove_prefix(group.heard);
    group.heard += added.size();
    if (added.starts_with("; ")) added.remove_prefix(2);
    if (added.empty()) continue;
    note_ += (note_.empty() ? "" : "; ") + group.programs + ": ";
    note_ += added;
  }
  return note_;
}

}  // namespace mlc::api
