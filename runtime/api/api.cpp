// The C table over Model and Session. Each function turns options and tensors into the types of the C++ side and a
// Status into a code and an MlcError; nothing else happens here.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/compose.h"
#include "runtime/api/golden.h"
#include "runtime/api/mlc.h"
#include "runtime/api/model.h"
#include "runtime/api/service.h"
#include "runtime/api/session.h"

using mlc::Bytes;
using mlc::Code;
using mlc::compose;
using mlc::DType;
using mlc::Result;
using mlc::Status;

struct MlcError {
  Status status;
  std::string text;
};

struct MlcFile {
  std::optional<mlc::api::ModelFile> file;  // none: used up
  std::string name;
};

struct MlcModel {
  std::unique_ptr<mlc::api::Model> model;
  // Strings that the table hands out.
  std::string root;
  std::vector<std::string> reasons;                          // per variant
  std::vector<std::vector<std::vector<int64_t>>> golden_shapes;  // per program and input, of its first golden vector
};

struct MlcSession {
  std::unique_ptr<mlc::api::Session> session;
  std::vector<mlc::exec::InputArg> inputs;    // reused, so that a run allocates nothing
  std::vector<mlc::exec::OutputArg> outputs;
  std::vector<mlc::exec::InputArg> input_items;  // of lists
  std::vector<MlcTensor> output_items;
  std::vector<std::vector<int64_t>> inferred;
  std::string selftest_text;
};

namespace {

static_assert(MLC_U8 == static_cast<int>(DType::U8) && MLC_BOOL == static_cast<int>(DType::Bool));
static_assert(MLC_I2 == static_cast<int>(DType::I2) && DType::I2 == mlc::kLastDType && MLC_MAX_RANK == mlc::format::kMaxRank);
static_assert(MLC_STR == static_cast<int>(DType::Str) && sizeof(MlcString) == sizeof(mlc::exec::Text));
static_assert(MLC_NO_LIMIT == mlc::api::kNoLimit && mlc::api::kNoLimit == mlc::WorkLimits::kNone);
static_assert(MLC_INTERNAL == static_cast<int>(Code::Internal) && MLC_EXPIRED == static_cast<int>(Code::Expired));

static_assert(MLC_NATIVE_CERTAIN == static_cast<int>(mlc::signing::NativeCode::Certain));

int fail(Status status, MlcError** error) {
  const int code = static_cast<int>(status.code);
  if (error) {
    *error = new (std::nothrow) MlcError{std::move(status), {}};
    if (*error) (*error)->text = (*error)->status.text();
  }
  return code;
}

// Reads a field of an option struct only if the caller's struct is long enough to have it.
#define MLC_FIELD(options, field, fallback)                                                              \
  ((options) && (options)->size >= offsetof(std::remove_cvref_t<decltype(*(options))>, field) + sizeof((options)->field) \
       ? (options)->field                                                                                \
       : (fallback))

std::string text_or_empty(const char* s) { return s ? s : ""; }

Result<mlc::api::ModelOptions> model_options(const MlcOpenOptions* o) {
  mlc::api::ModelOptions options;
  options.path = text_or_empty(MLC_FIELD(o, path, nullptr));
  const auto* memory = static_cast<const std::byte*>(MLC_FIELD(o, memory, nullptr));
  options.memory = Bytes(memory, memory ? static_cast<size_t>(MLC_FIELD(o, memory_bytes, 0)) : 0);
  if (options.path.empty() && !memory && MLC_FIELD(o, use_fd, 0) != 0) {
    options.descriptor = MLC_FIELD(o, fd, -1);
    if (options.descriptor < 0) return Status(Code::Usage, "open: no valid descriptor");
  } else if (options.path.empty() && !memory) {
    return Status(Code::Usage, "open: no path, memory or descriptor");
  }
  switch (MLC_FIELD(o, verify, MLC_VERIFY_AUTO)) {
    case MLC_VERIFY_AUTO: options.verify = mlc::container::Verify::Auto; break;
    case MLC_VERIFY_LAZY: options.verify = mlc::container::Verify::Lazy; break;
    case MLC_VERIFY_FULL: options.verify = mlc::container::Verify::Full; break;
    case MLC_VERIFY_COPY: options.verify = mlc::container::Verify::Copy; break;
    default: return Status(Code::Usage, "open: unknown verify mode");
  }
  options.allow_unsigned = MLC_FIELD(o, allow_unsigned, 0) != 0;
  options.trust.policy_file = text_or_empty(MLC_FIELD(o, policy, nullptr));
  options.allow_older = MLC_FIELD(o, allow_older, 0) != 0;
  options.state_folder = text_or_empty(MLC_FIELD(o, state_folder, nullptr));
  options.trust.config_folder = text_or_empty(MLC_FIELD(o, config_folder, nullptr));
  if (const char* const* keys = MLC_FIELD(o, trust_keys, nullptr))
    for (uint32_t i = 0; i < MLC_FIELD(o, num_trust_keys, 0); ++i) options.trust.key_files.emplace_back(keys[i]);
  if (const MlcService* services = MLC_FIELD(o, services, nullptr))
    for (uint32_t i = 0; i < MLC_FIELD(o, num_services, 0); ++i) {
      if (!services[i].name || !services[i].run)
        return Status(Code::Usage, "open: a service without name or function");
      options.services.push_back(mlc::api::service_of(services[i]));
    }
  if (const char* const* names = MLC_FIELD(o, untrusted_services, nullptr))
    for (uint32_t i = 0; i < MLC_FIELD(o, num_untrusted_services, 0); ++i) options.untrusted_services.emplace_back(names[i]);
  return options;
}

int api_authenticate(const MlcOpenOptions* o, MlcFile** out, MlcError** error) {
  if (!out) return fail(Status(Code::Usage, "authenticate: no place for the result"), error);
  *out = nullptr;
  auto options = model_options(o);
  if (!options) return fail(std::move(options).status(), error);
  auto file = mlc::api::ModelFile::authenticate(std::move(*options));
  if (!file) return fail(std::move(file).status(), error);
  auto handle = std::make_unique<MlcFile>();
  handle->name = file->file.name();
  handle->file.emplace(std::move(*file));
  *out = handle.release();
  return MLC_OK;
}

void api_file_info(const MlcFile* f, MlcFileInfo* out) {
  *out = {};
  out->file = f->name.c_str();
  if (!f->file) return;
  const auto& authentication = f->file->file.authentication();
  out->native_code = static_cast<int32_t>(f->file->native_code);
  out->is_signed = authentication && authentication->is_signed();
}

int api_open_file(MlcFile* f, MlcModel** out, MlcError** error) {
  if (!f || !f->file || !out) return fail(Status(Code::Usage, "open_file: no file, or no place for the result"), error);
  *out = nullptr;
  auto model = mlc::api::Model::open(std::move(*f->file));
  f->file.reset();
  if (!model) return fail(std::move(model).status(), error);
  auto handle = std::make_unique<MlcModel>();
  handle->model = std::move(*model);
  for (std::byte b : handle->model->container().root()) {
    constexpr char kHex[] = "0123456789abcdef";
    handle->root += {kHex[std::to_integer<unsigned>(b) >> 4], kHex[std::to_integer<unsigned>(b) & 15]};
  }
  for (const mlc::Assessment& a : handle->model->matcher().assessments()) handle->reasons.push_back(a.reason());
  handle->golden_shapes.resize(handle->model->manifest().methods.size());
  for (const auto& g : handle->model->manifest().golden) {
    auto& shapes = handle->golden_shapes[g.method];
    if (!shapes.empty()) continue;
    for (const auto& a : g.inputs) shapes.emplace_back(a.shape.begin(), a.shape.end());
  }
  *out = handle.release();
  return MLC_OK;
}

void api_file_release(MlcFile* f) { delete f; }

int api_open(const MlcOpenOptions* o, MlcModel** out, MlcError** error) {
  if (!out) return fail(Status(Code::Usage, "open: no place for the result"), error);
  *out = nullptr;
  MlcFile* file = nullptr;
  if (const int code = api_authenticate(o, &file, error); code != MLC_OK) return code;
  const std::unique_ptr<MlcFile> owner(file);
  return api_open_file(file, out, error);
}

void api_model_release(MlcModel* m) { delete m; }

void api_model_info(const MlcModel* m, MlcModelInfo* out) {
  const auto& c = m->model->container();
  const auto& manifest = c.manifest();
  out->file = c.name().c_str();
  out->id = manifest.model.id.c_str();
  out->version = manifest.model.version;
  out->root = m->root.c_str();
  out->trust = c.verdict().reason.c_str();
  out->trust_help = c.verdict().help.c_str();
  out->native_allowed = c.native_allowed();
  out->is_signed = c.verdict().trust != mlc::signing::Trust::Unsigned;
  out->file_bytes = c.file_size();
  out->num_programs = static_cast<uint32_t>(manifest.methods.size());
  out->num_variants = static_cast<uint32_t>(manifest.variants.size());
  out->num_golden = static_cast<uint32_t>(manifest.golden.size());
  out->num_notes = static_cast<uint32_t>(m->model->notes().size());
}

int api_model_is_copied(const MlcModel* m) { return m->model->container().copies(); }

const char* api_model_note(const MlcModel* m, uint32_t index) {
  const auto& notes = m->model->notes();
  return index < notes.size() ? notes[index].c_str() : nullptr;
}

// The arrays that a plan takes and gives: the core ports where a method has such.
const std::vector<mlc::format::Port>& ports_of(const mlc::format::Method& m, bool is_output) {
  if (is_output) return m.core_outputs.empty() ? m.outputs : m.core_outputs;
  return m.core_inputs.empty() ? m.inputs : m.core_inputs;
}

int api_program(const MlcModel* m, uint32_t index, MlcProgram* out) {
  const auto& manifest = m->model->manifest();
  if (index >= manifest.methods.size()) return MLC_USAGE;
  const auto& method = manifest.methods[index];
  out->name = method.name.c_str();
  out->is_default = index == manifest.model.default_method;
  out->num_inputs = static_cast<uint32_t>(ports_of(method, false).size());
  out->num_outputs = static_cast<uint32_t>(ports_of(method, true).size());
  return MLC_OK;
}

int api_port(const MlcModel* m, uint32_t program, int32_t is_output, uint32_t index, MlcPort* out) {
  const auto& manifest = m->model->manifest();
  if (program >= manifest.methods.size()) return MLC_USAGE;
  const auto& method = manifest.methods[program];
  const auto& ports = ports_of(method, is_output != 0);
  if (index >= ports.size()) return MLC_USAGE;
  const mlc::format::Port& port = ports[index];
  *out = {};
  out->name = port.name.c_str();
  out->dtype = static_cast<MlcDType>(port.dtype);
  out->rank = static_cast<uint32_t>(port.dims.size());
  out->list_depth = port.list_depth;
  for (uint32_t axis = 0; axis < out->rank && axis < MLC_MAX_RANK; ++axis) {
    const mlc::format::DimRef& d = port.dims[axis];
    out->extents[axis] = d.extent.value_or(-1);
    out->min[axis] = d.extent.value_or(-1);
    out->max[axis] = d.extent.value_or(-1);
    out->dims[axis] = d.expr.c_str();
    if (d.dim) {
      const mlc::format::Dim& dim = method.dims[*d.dim];
      out->dims[axis] = dim.name.c_str();
      out->min[axis] = dim.min;
      out->max[axis] = dim.max;
    }
  }
  return MLC_OK;
}

int api_explain(const MlcModel* m, uint32_t index, MlcVariant* out) {
  const auto assessments = m->model->matcher().assessments();
  if (index >= assessments.size()) return MLC_USAGE;
  const auto& v = m->model->manifest().variants[index];
  const mlc::Assessment& a = assessments[index];
  out->name = v.name.c_str();
  out->target = v.target.c_str();
  out->family = v.family.c_str();
  out->fits = a.fits ? MLC_FITS : a.unknown ? MLC_FITS_UNKNOWN : MLC_FITS_NOT;
  out->reason = m->reasons[index].c_str();
  out->estimate_ns = v.cost.empty() ? 0 : v.cost.front().ns;
  out->num_failing = static_cast<uint32_t>(a.failing.size());
  return MLC_OK;
}

int api_failing(const MlcModel* m, uint32_t variant, uint32_t index, MlcClause* out) {
  const auto assessments = m->model->matcher().assessments();
  if (variant >= assessments.size() || index >= assessments[variant].failing.size()) return MLC_USAGE;
  const mlc::FailingClause& f = assessments[variant].failing[index];
  out->clause = f.clause.c_str();
  out->answer = f.answer == mlc::probe::Answer::No ? "no" : "unknown";
  out->source = f.source.c_str();
  return MLC_OK;
}

int api_choose(const MlcModel* m, const char* variant, const char* require, uint32_t* out, MlcError** error) {
  auto r = m->model->matcher().candidates(variant ? variant : "", require ? require : "");
  if (!r) return fail(std::move(r).status(), error);
  *out = r->front();
  return MLC_OK;
}

int api_part(const MlcModel* m, const char* name, const void** data, uint64_t* bytes, MlcError** error) {
  auto r = m->model->asset(text_or_empty(name));
  if (!r) return fail(std::move(r).status(), error);
  *data = r->data();
  *bytes = r->size();
  return MLC_OK;
}

int api_golden_inputs(const MlcModel* m, uint32_t program, MlcTensor* inputs, uint32_t count, MlcError** error) {
  const auto& manifest = m->model->manifest();
  for (const auto& g : manifest.golden) {
    if (g.method != program) continue;
    const auto& ports = ports_of(manifest.methods[program], false);
    if (count == ports.size() && std::any_of(ports.begin(), ports.end(), [](const auto& p) { return p.list_depth > 0; }))
      break;
    if (count != g.inputs.size() || count != ports.size())
      return fail(Status(Code::Usage, "golden_inputs: the program has {} inputs", ports.size()), error);
    for (uint32_t i = 0; i < count; ++i) {
      const auto& a = g.inputs[i];
      if (a.port >= count) return fail(Status(Code::Malformed, "golden vector: no such input"), error);
      auto bytes = m->model->golden_array(a.ref);
      if (!bytes) return fail(std::move(bytes).status(), error);
      const auto& shape = m->golden_shapes[program][i];
      inputs[a.port] = {ports[a.port].name.c_str(), const_cast<std::byte*>(bytes->data()), bytes->size(),
                        static_cast<MlcDType>(a.dtype), static_cast<uint32_t>(shape.size()), shape.data(), 0, 0, nullptr};
    }
    return MLC_OK;
  }
  return fail(Status(Code::NotFound, "the program has no golden vector of arrays"), error);
}

int api_session_create(const MlcModel* m, const MlcSessionOptions* o, MlcSession** out, MlcError** error) {
  if (!m || !out) return fail(Status(Code::Usage, "session_create: no model, or no place for the result"), error);
  *out = nullptr;
  mlc::api::SessionOptions options;
  options.variant = text_or_empty(MLC_FIELD(o, variant, nullptr));
  options.require = text_or_empty(MLC_FIELD(o, require, nullptr));
  options.threads = MLC_FIELD(o, threads, 0);
  options.pin_caller = MLC_FIELD(o, pin_caller, 0) != 0;
  options.profile = MLC_FIELD(o, profile, 0) != 0;
  options.limits.time_ns = MLC_FIELD(o, time_limit_ns, 0);
  options.limits.memory_bytes = MLC_FIELD(o, memory_limit, 0);
  auto session = mlc::api::Session::create(*m->model, options);
  if (!session) return fail(std::move(session).status(), error);
  auto handle = std::make_unique<MlcSession>();
  handle->session = std::move(*session);
  *out = handle.release();
  return MLC_OK;
}

void api_session_release(MlcSession* s) { delete s; }

void api_session_info(const MlcSession* s, MlcSessionInfo* out) {
  out->variant = s->session->variant().name.c_str();
  out->is_portable = s->session->variant().module_format == mlc::format::ModuleFormat::Portable;
  out->threads = s->session->threads();
  out->arena_bytes = s->session->executor().arena_bytes();
  out->note = s->session->note().c_str();
}

// Orders the caller's tensors like the ports: by name where they have one, by position otherwise.
Status find_port(const std::vector<mlc::exec::Port>& ports, const MlcTensor& t, uint32_t position, uint32_t& out) {
  if (!t.name) {
    out = position;
    return position < ports.size() ? mlc::ok() : Status(Code::InputMismatch, 4001, "more tensors than the program has");
  }
  for (uint32_t i = 0; i < ports.size(); ++i)
    if (ports[i].name == t.name) {
      out = i;
      return mlc::ok();
    }
  Status s(Code::InputMismatch, 4001, "the program has no '{}'", t.name);
  for (const auto& p : ports) s.facts.push_back("known: " + p.name);
  return s;
}

// Tensors in lists, in lists of them, ...; as deep as the numbers say, which are checked when items are bound.
uint64_t count_items(const MlcTensor& t) {
  uint64_t count = t.list_depth > 0 && t.items ? t.num_items : 0;
  for (uint32_t i = 0; t.list_depth > 1 && t.items && i < t.num_items; ++i)
    if (t.items[i].list_depth < t.list_depth) count += count_items(t.items[i]);
  return count;
}

// `room` begins where items of lists go. Recursion: the depth of lists.
Status bind_input(const MlcTensor& t, DType dtype, uint32_t depth, mlc::exec::InputArg*& room, mlc::exec::InputArg& out) {
  if (t.list_depth != depth || (depth > 0 && t.num_items > 0 && !t.items)) return Status(Code::InputMismatch, 4001, "no such list");
  if (depth == 0) {
    if (t.dtype <= 0 || t.dtype > MLC_I2 || t.rank > 64 || (t.rank > 0 && !t.shape))
      return Status(Code::InputMismatch, 4001, "no valid type or shape");
    out = {static_cast<DType>(t.dtype), {t.shape, t.rank}, t.data, t.bytes};
    return mlc::ok();
  }
  mlc::exec::InputArg* items = room;
  room += t.num_items;
  for (uint32_t i = 0; i < t.num_items; ++i) MLC_RETURN_IF_ERROR(bind_input(t.items[i], dtype, depth - 1, room, items[i]));
  out = {dtype, {}, nullptr, 0, {items, t.num_items}, static_cast<uint8_t>(depth)};
  return mlc::ok();
}

Status bind_inputs(MlcSession* s, const mlc::exec::Function& f, const MlcTensor* in, uint32_t count) {
  s->inputs.assign(f.inputs.size(), {});
  uint64_t items = 0;
  for (uint32_t i = 0; i < count; ++i)
    if (in[i].list_depth <= mlc::format::kMaxListDepth) items += count_items(in[i]);
  s->input_items.resize(items);
  mlc::exec::InputArg* room = s->input_items.data();
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t port = 0;
    MLC_RETURN_IF_ERROR(find_port(f.inputs, in[i], i, port));
    const mlc::exec::Port& p = f.inputs[port];
    if (s->inputs[port].dtype != DType::None)
      return Status(Code::InputMismatch, 4001, "input '{}' is given twice", p.name);
    if (in[i].list_depth != p.list_depth)
      return Status(Code::InputMismatch, 4001, "input '{}': lists {} deep found, {} expected", p.name,
                    in[i].list_depth, p.list_depth);
    if (Status bound = bind_input(in[i], p.dtype, p.list_depth, room, s->inputs[port]); !bound.ok())
      return std::move(bound).note("input '{}'", p.name);
  }
  Status missing;
  for (size_t i = 0; i < f.inputs.size(); ++i) {
    const mlc::exec::Port& p = f.inputs[i];
    if (s->inputs[i].dtype != DType::None) continue;
    s->inputs[i].dtype = p.dtype;
    s->inputs[i].list_depth = p.list_depth;
    if (p.list_depth > 0) continue;  // an empty one
    if (missing.ok()) missing = Status(Code::InputMismatch, 4001, "an input is missing");
    missing.facts.push_back(compose("{}   missing, expected {} with {} axes", p.name, name_of(p.dtype), p.shape.size()));
  }
  return missing;
}

uint64_t count_items(const mlc::exec::OutputArg& o) {
  uint64_t count = o.items.size();
  for (const mlc::exec::OutputArg& item : o.items) count += count_items(item);
  return count;
}

void show_output(const mlc::exec::OutputArg& o, MlcTensor*& room, MlcTensor& out) {
  out.data = o.data;
  out.bytes = o.bytes;
  out.dtype = static_cast<MlcDType>(o.dtype);
  out.rank = static_cast<uint32_t>(o.shape.size());
  out.shape = o.shape.data();
  out.list_depth = o.list_depth;
  out.num_items = static_cast<uint32_t>(o.items.size());
  out.items = room;
  MlcTensor* items = room;
  room += o.items.size();
  for (size_t i = 0; i < o.items.size(); ++i) show_output(o.items[i], room, items[i]);
}

int api_run_program(MlcSession* s, const char* program, const MlcTensor* in, uint32_t num_in, MlcTensor* out,
                    uint32_t num_out, MlcError** error) {
  auto function = s->session->function(program ? program : "");
  if (!function) return fail(std::move(function).status(), error);
  const mlc::exec::Function& f = s->session->plan().functions[*function];
  if (Status bound = bind_inputs(s, f, in, num_in); !bound.ok()) return fail(std::move(bound), error);
  s->outputs.assign(f.outputs.size(), {});
  for (uint32_t i = 0; i < num_out; ++i) {
    uint32_t port = 0;
    if (Status found = find_port(f.outputs, out[i], i, port); !found.ok()) return fail(std::move(found), error);
    s->outputs[port].data = out[i].data;
    s->outputs[port].capacity = out[i].bytes;
  }
  if (Status ran = s->session->run(*function, s->inputs, s->outputs); !ran.ok())
    return fail(std::move(ran), error);
  uint64_t items = 0;
  for (const mlc::exec::OutputArg& o : s->outputs) items += count_items(o);
  s->output_items.assign(items, {});
  MlcTensor* room = s->output_items.data();
  for (uint32_t i = 0; i < num_out; ++i) {
    uint32_t port = 0;
    if (find_port(f.outputs, out[i], i, port).ok()) show_output(s->outputs[port], room, out[i]);
  }
  return MLC_OK;
}

int api_run(MlcSession* s, const MlcTensor* in, uint32_t num_in, MlcTensor* out, uint32_t num_out, MlcError** error) {
  const mlc::api::Model& model = s->session->model();
  return api_run_program(s, model.manifest().methods[model.main_method()].name.c_str(), in, num_in, out, num_out, error);
}

int api_infer_shapes(MlcSession* s, const char* program, const MlcTensor* in, uint32_t num_in, MlcTensor* out,
                     uint32_t num_out, MlcError** error) {
  auto function = s->session->function(program ? program : "");
  if (!function) return fail(std::move(function).status(), error);
  const mlc::exec::Function& f = s->session->plan().functions[*function];
  if (Status bound = bind_inputs(s, f, in, num_in); !bound.ok()) return fail(std::move(bound), error);
  if (Status inferred = s->session->executor().infer(*function, s->inputs, s->inferred); !inferred.ok())
    return fail(std::move(inferred), error);
  for (uint32_t i = 0; i < num_out; ++i) {
    uint32_t port = 0;
    if (Status found = find_port(f.outputs, out[i], i, port); !found.ok()) return fail(std::move(found), error);
    const auto& shape = s->inferred[port];
    out[i].dtype = static_cast<MlcDType>(f.outputs[port].dtype);
    out[i].rank = static_cast<uint32_t>(shape.size());
    out[i].shape = shape.data();
    const MlcTensor sized = mlc_tensor(nullptr, out[i].dtype, out[i].rank, out[i].shape);
    out[i].bytes = sized.bytes;
  }
  return MLC_OK;
}

void api_state_reset(MlcSession* s) { s->session->executor().reset_states(); }
void api_cancel(MlcSession* s) { s->session->executor().cancel(); }

int api_selftest_one(MlcSession* s, const char* vector, MlcSelftest* out, MlcError** error) {
  *out = {};
  auto report = mlc::api::run_golden(*s->session, vector);
  if (!report) return fail(std::move(report).status(), error);
  s->selftest_text = std::move(report->text);
  *out = {report->vectors, report->failures, report->max_abs, report->max_rel, s->selftest_text.c_str()};
  if (report->failures == 0) return MLC_OK;
  return fail(Status(Code::SelfTest, "{}: {}", s->session->variant().name, s->selftest_text), error);
}

int api_selftest(MlcSession* s, MlcSelftest* out, MlcError** error) { return api_selftest_one(s, nullptr, out, error); }

uint32_t api_profile(const MlcSession* s, const char* program, MlcProfileEntry* out, uint32_t count) {
  const auto function = s->session->function(program ? program : "");
  if (!function) return 0;
  const auto entries = s->session->executor().profile(*function);
  // The names are whole strings of the plan, so they end with a zero.
  for (uint32_t i = 0; i < count && i < entries.size(); ++i)
    out[i] = {entries[i].name.data(), entries[i].ns, entries[i].runs};
  return static_cast<uint32_t>(entries.size());
}

int api_error_code(const MlcError* e) { return e ? static_cast<int>(e->status.code) : MLC_OK; }
const char* api_error_text(const MlcError* e) { return e ? e->text.c_str() : ""; }
const char* api_error_message(const MlcError* e) { return e ? e->status.message.c_str() : ""; }
int api_error_number(const MlcError* e) { return e ? e->status.number : 0; }
const char* api_error_fact(const MlcError* e, uint32_t index) {
  return e && index < e->status.facts.size() ? e->status.facts[index].c_str() : nullptr;
}
const char* api_error_help(const MlcError* e) { return e ? e->status.help.c_str() : ""; }
void api_error_release(MlcError* e) { delete e; }

constexpr MlcApi kApi = {
    MLC_API_VERSION,     sizeof(MlcApi),     api_open,        api_model_release, api_model_info,    api_model_note,
    api_program,         api_port,           api_explain,     api_failing,       api_choose,        api_part,
    api_golden_inputs,   api_session_create, api_session_release, api_session_info, api_run,        api_run_program,
    api_infer_shapes,    api_state_reset,    api_cancel,      api_selftest,      api_profile,       api_error_code,
    api_error_text,      api_error_message,  api_error_number, api_error_fact,   api_error_help,    api_error_release,
    api_authenticate,    api_file_info,      api_open_file,   api_file_release,
    api_selftest_one,    api_model_is_copied};

}  // namespace

extern "C" MLC_EXPORT const MlcApi* mlc_get_api(uint32_t version) {
  return version >= 1 && version <= MLC_API_VERSION ? &kApi : nullptr;
}

extern "C" MLC_EXPORT const char* mlc_version_string(void) { return MLC_VERSION_TEXT; }
