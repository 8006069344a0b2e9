#include "runtime/api/table/run.h"

#include <utility>

#include "base/compose.h"
#include "base/counted.h"
#include "runtime/api/session/ports.h"
#include "runtime/api/sizes.h"
#include "runtime/api/table.h"

namespace mlc::api {
namespace {

static_assert(MLC_STR == static_cast<int>(DType::Str) && sizeof(MlcString) == sizeof(exec::Text));

bool names_memory(const MlcTensor& t) { return t.reserved[0] != 0 || t.reserved[1] != 0; }

// Orders the caller's tensors like the ports: by name where they have one, by position otherwise.
Status find_port(const std::vector<exec::Port>& ports, const MlcTensor& t, uint32_t position, uint32_t& out) {
  if (!t.name) {
    out = position;
    return position < ports.size() ? ok() : Status(Code::InputMismatch, 4001, "more tensors than the program has");
  }
  for (uint32_t i = 0; i < ports.size(); ++i)
    if (ports[i].name == t.name) {
      out = i;
      return ok();
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
Status bind_input(const MlcTensor& t, DType dtype, uint32_t depth, exec::InputArg*& room, exec::InputArg& out) {
  if (t.list_depth != depth || (depth > 0 && t.num_items > 0 && !t.items)) return Status(Code::InputMismatch, 4001, "no such list");
  if (depth == 0) {
    if (t.dtype <= 0 || t.dtype > static_cast<int>(kLastDType) || t.rank > 64 || (t.rank > 0 && !t.shape))
      return Status(Code::InputMismatch, 4001, "no valid type or shape");
    out = {static_cast<DType>(t.dtype), {t.shape, t.rank}, t.data, t.bytes};
    return ok();
  }
  exec::InputArg* items = room;
  room += t.num_items;
  for (uint32_t i = 0; i < t.num_items; ++i) {
    if (names_memory(t.items[i])) return Status(Code::Usage, "`reserved` of an item of a list is not 0: set the whole struct to zeros first");
    MLC_RETURN_IF_ERROR(bind_input(t.items[i], dtype, depth - 1, room, items[i]));
  }
  out = {dtype, {}, nullptr, 0, {items, t.num_items}, static_cast<uint8_t>(depth)};
  return ok();
}

// f32[N,3,224,224] as the manifest says, which has the ports of the plan (session/ports.h).
std::string expected_text(const format::Manifest& manifest, const exec::Function& f, size_t input) {
  std::string text = compose("{}[", name_of(f.inputs[input].dtype));
  for (const format::Method& m : manifest.methods) {
    if (m.name != f.name) continue;
    for (const format::DimRef& d : m.inputs[input].dims) {
      if (&d != m.inputs[input].dims.data()) text += ',';
      text += d.extent ? compose("{}", *d.extent) : d.dim ? m.dims[*d.dim].name : d.expr;
    }
  }
  return text += ']';
}

Status bind_inputs(MlcSession* s, uint32_t function, const MlcTensor* in, uint32_t count) {
  const exec::Function& f = s->session->plan().functions[function];
  clear_places(s);
  s->inputs.assign(f.inputs.size(), {});
  uint64_t items = 0;
  for (uint32_t i = 0; i < count; ++i)
    if (in[i].list_depth <= format::kMaxListDepth) items += count_items(in[i]);
  s->input_items.resize(items);
  exec::InputArg* room = s->input_items.data();
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t port = 0;
    MLC_RETURN_IF_ERROR(find_port(f.inputs, in[i], i, port));
    const exec::Port& p = f.inputs[port];
    if (s->inputs[port].dtype != DType::None)
      return Status(Code::InputMismatch, 4001, "input '{}' is given twice", p.name);
    if (in[i].list_depth != p.list_depth)
      return Status(Code::InputMismatch, 4001, "input '{}': lists {} deep found, {} expected", p.name,
                    in[i].list_depth, p.list_depth);
    if (Status bound = bind_input(in[i], p.dtype, p.list_depth, room, s->inputs[port]); !bound.ok())
      return std::move(bound).note("input '{}'", p.name);
    if (names_memory(in[i])) MLC_RETURN_IF_ERROR(place_tensor(s, in[i], function, port, &s->inputs[port], nullptr));
  }
  Status missing;
  for (size_t i = 0; i < f.inputs.size(); ++i) {
    const exec::Port& p = f.inputs[i];
    if (s->inputs[i].dtype != DType::None) continue;
    s->inputs[i].dtype = p.dtype;
    s->inputs[i].list_depth = p.list_depth;
    if (p.list_depth > 0) continue;  // an empty one
    if (missing.ok()) missing = Status(Code::InputMismatch, 4001, "an input is missing");
    missing.facts.push_back(compose("{}   missing, expected {}", p.name, expected_text(s->session->model().container().manifest(), f, i)));
  }
  return missing;
}

uint64_t count_items(const exec::OutputArg& o) {
  uint64_t count = o.items.size();
  for (const exec::OutputArg& item : o.items) count += count_items(item);
  return count;
}

void show_output(const exec::OutputArg& o, MlcTensor*& room, MlcTensor& out) {
  out.data = o.data;
  out.bytes = o.bytes;
  out.dtype = static_cast<int32_t>(o.dtype);
  out.rank = static_cast<uint32_t>(o.shape.size());
  out.shape = o.shape.data();
  out.list_depth = o.list_depth;
  out.num_items = static_cast<uint32_t>(o.items.size());
  out.items = room;
  MlcTensor* items = room;
  room += o.items.size();
  for (size_t i = 0; i < o.items.size(); ++i) show_output(o.items[i], room, items[i]);
}

Status check_pointers(const MlcTensor* in, uint32_t num_in, const MlcTensor* out, uint32_t num_out) {
  if (num_in > 0 && !in) return Status(Code::Usage, "{} announced, there are none", counted(num_in, "input"));
  if (num_out > 0 && !out) return Status(Code::Usage, "{} outputs are announced, there are none", num_out);
  return ok();
}

Status infer(MlcSession* s, const char* program, const MlcTensor* in, uint32_t num_in, MlcTensor* out, uint32_t num_out) {
  MLC_RETURN_IF_ERROR(check_pointers(in, num_in, out, num_out));
  MLC_ASSIGN(s->session, s->sessions->for_run(program));
  MLC_ASSIGN(const uint32_t function, s->session->function(program));
  const exec::Function& f = s->session->plan().functions[function];
  MLC_RETURN_IF_ERROR(bind_inputs(s, function, in, num_in));
  MLC_RETURN_IF_ERROR(s->session->executor().infer(function, s->inputs, s->inferred));
  for (uint32_t i = 0; i < num_out; ++i) {
    uint32_t port = 0;
    MLC_RETURN_IF_ERROR(find_port(f.outputs, out[i], i, port));
    const auto& shape = s->inferred[port];
    const MlcTensor sized = mlc_tensor(nullptr, static_cast<int32_t>(f.outputs[port].dtype), static_cast<uint32_t>(shape.size()), shape.data());
    out[i].dtype = sized.dtype;
    out[i].rank = sized.rank;
    out[i].shape = sized.shape;
    out[i].bytes = sized.bytes;
  }
  return ok();
}

}  // namespace

Result<uint32_t> bind_tensors(MlcSession* s, const MlcRunOptions& options, const MlcTensor* in, uint32_t num_in, const MlcTensor* out,
                              uint32_t num_out) {
  MLC_RETURN_IF_ERROR(check_pointers(in, num_in, out, num_out));
  MLC_ASSIGN(s->session, s->sessions->for_run(options.program));
  MLC_ASSIGN(const uint32_t function, s->session->function(options.program));
  const exec::Function& f = s->session->plan().functions[function];
  MLC_RETURN_IF_ERROR(bind_inputs(s, function, in, num_in));
  s->outputs.assign(f.outputs.size(), {});
  for (uint32_t i = 0; i < num_out; ++i) {
    uint32_t port = 0;
    MLC_RETURN_IF_ERROR(find_port(f.outputs, out[i], i, port));
    s->outputs[port].data = out[i].data;
    s->outputs[port].capacity = out[i].bytes;
    if (names_memory(out[i])) MLC_RETURN_IF_ERROR(place_tensor(s, out[i], function, port, nullptr, &s->outputs[port]));
  }
  s->output_items = {};
  s->output_items_charge = {};
  return function;
}

Status show_outputs(MlcSession* s, uint32_t function, MlcTensor* out, uint32_t num_out) {
  MLC_RETURN_IF_ERROR(check_results(s->session->model().manifest(), s->session->plan().functions[function], s->outputs));
  uint64_t items = 0;
  for (const exec::OutputArg& o : s->outputs) items += count_items(o);
  MLC_RETURN_IF_ERROR(s->session->executor().charge("views of the items of lists", items * sizeof(MlcTensor), s->output_items_charge));
  s->output_items.assign(items, {});
  MlcTensor* room = s->output_items.data();
  for (uint32_t i = 0; i < num_out; ++i) {
    uint32_t port = 0;
    if (find_port(s->session->plan().functions[function].outputs, out[i], i, port).ok()) show_output(s->outputs[port], room, out[i]);
  }
  return ok();
}

Status run_tensors(MlcSession* s, const MlcRunOptions& options, const MlcTensor* in, uint32_t num_in, MlcTensor* out,
                   uint32_t num_out) {
  MLC_ASSIGN(const uint32_t function, bind_tensors(s, options, in, num_in, out, num_out));
  CancelFlag* cancelled = options.cancel ? &options.cancel->cancelled : nullptr;
  MLC_RETURN_IF_ERROR(s->session->run(function, s->inputs, s->outputs, {cancelled, options.time_limit_ns}));
  MLC_RETURN_IF_ERROR(settle_places(s));
  return show_outputs(s, function, out, num_out);
}

Status is_idle(const MlcSession* s) {
  if (!s) return Status(Code::Usage, "no session");
  return s->is_in(Phase::Idle) ? ok() : Status(Code::Usage, "a run of this session goes on: wait until it is over");
}

namespace table {

int run(MlcSession* s, const MlcRunOptions* o, const MlcTensor* in, uint32_t num_in, MlcTensor* out, uint32_t num_out,
        MlcError** error) {
  const auto options = read_options(o, "MlcRunOptions");
  Status status = options.ok() ? ok() : options.status();
  if (status.ok()) status = is_idle(s);
  if (status.ok()) status = run_tensors(s, *options, in, num_in, out, num_out);
  return status.ok() ? int{MLC_OK} : fail(std::move(status), error);
}

int infer_shapes(MlcSession* s, const char* program, const MlcTensor* in, uint32_t num_in, MlcTensor* out,
                 uint32_t num_out, MlcError** error) {
  Status status = is_idle(s);
  if (status.ok()) status = infer(s, program, in, num_in, out, num_out);
  return status.ok() ? int{MLC_OK} : fail(std::move(status), error);
}

}  // namespace table
}  // namespace mlc::api
