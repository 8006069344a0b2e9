// Sessions, but for their runs and their state.
#include <algorithm>
#include <utility>

#include "runtime/api/session/golden.h"
#include "runtime/api/session/handles.h"
#include "runtime/api/sizes.h"
#include "runtime/api/table.h"
#include "runtime/api/table/run.h"

namespace mlc::api {
namespace {

static_assert(MLC_NO_LIMIT == kNoLimit && kNoLimit == WorkLimits::kNone);

Result<SessionOptions> session_options(const MlcSessionOptions* given) {
  MLC_ASSIGN(const MlcSessionOptions o, read_options(given, "MlcSessionOptions"));
  SessionOptions options;
  options.variant = text_or_empty(o.variant);
  options.require = text_or_empty(o.require);
  options.threads = o.threads;
  options.pool = o.pool ? o.pool->pool.get() : nullptr;
  options.objective = o.objective;
  options.placement = o.placement;
  options.pin_caller = o.pin_caller != 0;
  options.profile = o.profile != 0;
  options.limits.time_ns = o.time_limit_ns;
  options.limits.memory_bytes = o.memory_limit;
  MLC_ASSIGN(options.allocator, allocator_of(o.allocator));
  return options;
}

MlcSessionInfo info_of(Session& session) {
  MlcSessionInfo info{};
  info.variant = session.variant().name.c_str();
  info.is_portable = session.variant().module_format == format::ModuleFormat::Portable;
  info.threads = session.threads();
  info.arena_bytes = session.executor().arena_bytes();
  info.note = session.note().c_str();
  info.device = session.device().c_str();
  return info;
}

}  // namespace

namespace table {

int session_create(const MlcModel* m, const MlcSessionOptions* o, MlcSession** out, MlcError** error) {
  if (out) *out = nullptr;
  if (!m || !out) return fail(Status(Code::Usage, "session_create: no model, or no place for the result"), error);
  auto options = session_options(o);
  if (!options) return fail(std::move(options).status(), error);
  auto sessions = ProgramSessions::create(*m->model, *options);
  if (!sessions) return fail(std::move(sessions).status(), error);
  auto handle = std::make_unique<MlcSession>();
  handle->sessions = std::move(*sessions);
  handle->session = &handle->sessions->main();
  *out = handle.release();
  return MLC_OK;
}

void session_release(MlcSession* s) {
  if (!s) return;
  end_runs(s);
  delete s;
}

int session_info(const MlcSession* s, MlcSessionInfo* out) {
  if (!s) return MLC_USAGE;
  MlcSessionInfo info = info_of(s->sessions->main());
  info.note = s->sessions->note().c_str();
  return fill(info, out);
}

int program_info(const MlcSession* s, uint32_t program, MlcSessionInfo* out) {
  if (!s || program >= s->sessions->model().manifest().methods.size()) return MLC_USAGE;
  if (!s->sessions->can_run(program).ok()) return MLC_NO_VARIANT;
  return fill(info_of(s->sessions->of(program)), out);
}

int stage(const MlcSession* s, uint32_t index, MlcStage* out) {
  if (!s || !is_fillable(out)) return MLC_USAGE;
  for (uint32_t i = 0; i < s->sessions->size(); ++i) {
    const Session* const session = s->sessions->at(i);
    if (!session) continue;
    if (session->stage(index, out) == MLC_OK) return MLC_OK;
    index -= session->num_stages();
  }
  return MLC_NOT_FOUND;
}

int selftest(MlcSession* s, const char* vector, MlcSelftest* out, MlcError** error) {
  if (!s || !is_fillable(out)) return fail(Status(Code::Usage, "selftest: no session, or no place for the result"), error);
  fill(MlcSelftest{}, out);
  if (Status idle = is_idle(s); !idle.ok()) return fail(std::move(idle), error);
  auto report = run_golden(*s->sessions, vector);
  if (!report) return fail(std::move(report).status(), error);
  s->selftest_text = std::move(report->text);
  MlcSelftest told{};
  told.vectors = report->vectors;
  told.failures = report->failures;
  told.max_abs = report->max_abs;
  told.max_rel = report->max_rel;
  told.text = s->selftest_text.c_str();
  fill(told, out);
  if (report->failures == 0) return MLC_OK;
  return fail(Status(Code::SelfTest, "{}: {}", s->sessions->main().variant().name, s->selftest_text), error);
}

int profile(const MlcSession* s, const char* program, uint32_t index, MlcProfileEntry* out) {
  if (!s || !is_fillable(out)) return MLC_USAGE;
  const Session& session = s->sessions->of(program);
  const auto function = session.function(program);
  if (!function) return MLC_USAGE;
  const Session::Profiled at = session.profiled(*function, index);
  const auto entry = at.executor.profile(at.function, at.index);
  if (!entry) return MLC_NOT_FOUND;
  MlcProfileEntry told{};
  told.name = entry->name.data();  // a whole string of the plan, so it ends with a zero
  told.ns = entry->ns;
  told.runs = entry->runs;
  told.function = entry->function.data();
  told.device = at.device.c_str();
  told.waited_ns = entry->waited_ns;
  const exec::Executor::Figures& figures = entry->figures;
  told.operations = figures.operations;
  told.bytes_read = figures.read;
  told.bytes_written = figures.written;
  told.of_bytes = figures.of_bytes;
  told.is_launch = entry->op == exec::InstrOp::Launch;
  told.kernel = entry->kernel;
  told.threads = figures.workers;
  told.tiles = figures.tiles;
  told.num_cuts = figures.num_cuts;
  static_assert(exec::kMaxCuts == 3);
  std::copy(figures.units.begin(), figures.units.end(), told.units);
  std::copy(figures.chunks.begin(), figures.chunks.end(), told.chunks);
  return fill(told, out);
}

int profile_moments(const MlcSession* s, const char* program, uint32_t index, uint32_t thread, MlcProfileMoments* out) {
  if (!s || !is_fillable(out)) return MLC_USAGE;
  const Session& session = s->sessions->of(program);
  const auto function = session.function(program);
  if (!function) return MLC_USAGE;
  const Session::Profiled at = session.profiled(*function, index);
  const auto moments = at.executor.moments(at.function, at.index, thread);
  if (!moments) return MLC_NOT_FOUND;
  MlcProfileMoments told{};
  told.begin = moments->begin;
  told.done = moments->done;
  told.left = moments->left;
  return fill(told, out);
}

}  // namespace table
}  // namespace mlc::api
