// What a model says of itself.
#include <algorithm>
#include <utility>

#include "base/counted.h"
#include "runtime/api/session/handles.h"
#include "runtime/api/session/ports.h"
#include "runtime/api/sizes.h"
#include "runtime/api/table.h"

namespace mlc::api {
namespace {

static_assert(MLC_U8 == static_cast<int>(DType::U8) && MLC_BOOL == static_cast<int>(DType::Bool));
static_assert(MLC_F6E3M2 == static_cast<int>(DType::F6E3M2) && DType::F6E3M2 == kLastDType && MLC_MAX_RANK == format::kMaxRank);
static_assert(MLC_INTERNAL == static_cast<int>(Code::Internal) && MLC_EXPIRED == static_cast<int>(Code::Expired));

MlcPort described(const format::Method& method, const format::Port& port) {
  MlcPort out{};
  out.name = port.name.c_str();
  out.dtype = static_cast<MlcDType>(port.dtype);
  out.rank = static_cast<uint32_t>(port.dims.size());
  out.list_depth = port.list_depth;
  for (uint32_t axis = 0; axis < out.rank && axis < MLC_MAX_RANK; ++axis) {
    const format::DimRef& d = port.dims[axis];
    out.extents[axis] = out.min[axis] = out.max[axis] = d.extent.value_or(-1);
    out.dims[axis] = d.expr.c_str();
    if (d.dim) {
      const format::Dim& dim = method.dims[*d.dim];
      out.dims[axis] = dim.name.c_str();
      out.min[axis] = dim.min;
      out.max[axis] = dim.max;
    }
  }
  return out;
}

}  // namespace

namespace table {

void model_release(MlcModel* m) { delete m; }

int model_info(const MlcModel* m, MlcModelInfo* out) {
  if (!m) return MLC_USAGE;
  const container::Container& c = m->model->container();
  const format::Manifest& manifest = c.manifest();
  MlcModelInfo info{};
  info.file = c.name().c_str();
  info.id = manifest.model.id.c_str();
  info.version = manifest.model.version;
  info.root = m->root.c_str();
  info.trust = c.verdict().reason.c_str();
  info.trust_help = c.verdict().help.c_str();
  info.native_allowed = c.native_allowed();
  info.is_signed = c.verdict().trust != signing::Trust::Unsigned;
  info.file_bytes = c.file_size();
  info.num_programs = static_cast<uint32_t>(manifest.methods.size());
  info.num_variants = static_cast<uint32_t>(manifest.variants.size());
  info.num_golden = static_cast<uint32_t>(manifest.golden.size());
  info.num_notes = static_cast<uint32_t>(m->model->notes().size());
  info.num_assets = static_cast<uint32_t>(manifest.assets.size());
  info.is_copied = c.copies();
  return fill(info, out);
}

const char* model_note(const MlcModel* m, uint32_t index) {
  return m && index < m->model->notes().size() ? m->model->notes()[index].c_str() : nullptr;
}

int program(const MlcModel* m, uint32_t index, MlcProgram* out) {
  if (!m || index >= m->model->manifest().methods.size()) return MLC_USAGE;
  const format::Manifest& manifest = m->model->manifest();
  const format::Method& method = manifest.methods[index];
  MlcProgram info{};
  info.name = method.name.c_str();
  info.is_default = index == manifest.model.default_method;
  info.num_inputs = static_cast<uint32_t>(ports_of(method, false).size());
  info.num_outputs = static_cast<uint32_t>(ports_of(method, true).size());
  info.num_states = static_cast<uint32_t>(method.state.size());
  return fill(info, out);
}

int port(const MlcModel* m, uint32_t program, int32_t is_output, uint32_t index, MlcPort* out) {
  if (!m || program >= m->model->manifest().methods.size()) return MLC_USAGE;
  const format::Method& method = m->model->manifest().methods[program];
  const auto& ports = ports_of(method, is_output != 0);
  return index < ports.size() ? fill(described(method, ports[index]), out) : MLC_USAGE;
}

int explain(const MlcModel* m, uint32_t index, MlcVariant* out) {
  if (!m || index >= m->model->matcher().assessments().size()) return MLC_USAGE;
  const format::Variant& v = m->model->manifest().variants[index];
  const Assessment& a = m->model->matcher().assessments()[index];
  MlcVariant info{};
  info.name = v.name.c_str();
  info.target = v.target.c_str();
  info.family = v.family.c_str();
  info.fits = a.fits ? MLC_FITS : a.unknown ? MLC_FITS_UNKNOWN : MLC_FITS_NOT;
  info.reason = m->reasons[index].c_str();
  info.estimate_ns = v.cost.empty() ? 0 : v.cost.front().ns;
  info.num_failing = static_cast<uint32_t>(a.failing.size());
  info.measured_ns = m->model->matcher().measured_ns(index);
  info.rank = m->ranks[index];
  info.is_remembered = m->model->matcher().is_chosen(index);
  const NamedDevice* const device = m->model->matcher().device_of(index);
  info.device = device ? device->name.c_str() : "";
  return fill(info, out);
}

int failing(const MlcModel* m, uint32_t variant, uint32_t index, MlcClause* out) {
  if (!m || variant >= m->model->matcher().assessments().size()) return MLC_USAGE;
  const Assessment& a = m->model->matcher().assessments()[variant];
  if (index >= a.failing.size()) return MLC_USAGE;
  const FailingClause& f = a.failing[index];
  MlcClause info{};
  info.clause = f.clause.c_str();
  info.answer = f.answer == probe::Answer::No ? "no" : "unknown";
  info.source = f.source.c_str();
  return fill(info, out);
}

int choose(const MlcModel* m, const char* variant, const char* require, uint32_t* out, MlcError** error) {
  if (!m || !out) return fail(Status(Code::Usage, "choose: no model, or no place for the result"), error);
  auto r = m->model->matcher_of(0).candidates(text_or_empty(variant), text_or_empty(require));
  if (!r) return fail(std::move(r).status(), error);
  *out = r->front();
  return MLC_OK;
}

int choose_for(const MlcModel* m, uint32_t program, const char* variant, const char* require, MlcChoice* out, MlcError** error) {
  if (!m || !is_fillable(out) || program >= m->model->manifest().methods.size())
    return fail(Status(Code::Usage, "choose_for: no model, no such program, or no place for the result"), error);
  const Matcher& matcher = m->model->matcher_of(m->model->group_of(program));
  auto r = matcher.candidates(text_or_empty(variant), text_or_empty(require));
  if (!r) return fail(std::move(r).status(), error);
  const NamedDevice* const device = matcher.device_of(r->front());
  MlcChoice told{};
  told.variant = r->front();
  told.name = m->model->manifest().variants[told.variant].name.c_str();
  told.device = device ? device->name.c_str() : "";
  for (const MeasuredVariant& one : m->model->measured_of(program))
    if (one.variant == told.variant) told.measured_ns = one.ns, told.is_remembered = one.is_chosen;
  return fill(told, out);
}

int device(const MlcModel* m, uint32_t index, MlcDevice* out) {
  if (!m || !is_fillable(out)) return MLC_USAGE;
  if (index >= m->model->devices().size()) return MLC_NOT_FOUND;
  const NamedDevice& d = m->model->devices()[index];
  MlcDevice info{};
  info.name = d.name.c_str();
  info.api = d.info.api.c_str();
  info.title = d.info.title.c_str();
  info.driver = d.info.driver.c_str();
  info.is_software = d.info.is_software;
  info.memory_bytes = d.info.memory_bytes;
  return fill(info, out);
}

int asset(const MlcModel* m, uint32_t index, MlcAsset* out) {
  if (!m || index >= m->model->manifest().assets.size()) return MLC_USAGE;
  const format::Asset& a = m->model->manifest().assets[index];
  MlcAsset info{};
  info.name = a.name.c_str();
  info.media_type = a.media.c_str();
  info.bytes = a.ref.length;
  return fill(info, out);
}

int asset_data(const MlcModel* m, const char* name, MlcBytes* out, MlcError** error) {
  if (!m || !name || !out) return fail(Status(Code::Usage, "asset_data: no model, no name, or no place for the result"), error);
  *out = {};
  auto r = m->model->asset(name);
  if (!r) return fail(std::move(r).status(), error);
  *out = {r->data(), r->size()};
  return MLC_OK;
}

int golden_inputs(const MlcModel* m, uint32_t program, MlcTensor* inputs, uint32_t count, MlcError** error) {
  if (!m || (count > 0 && !inputs)) return fail(Status(Code::Usage, "golden_inputs: no model, or no place for the result"), error);
  const format::Manifest& manifest = m->model->manifest();
  for (const auto& g : manifest.golden) {
    if (g.method != program) continue;
    const auto& ports = ports_of(manifest.methods[program], false);
    if (count == ports.size() && std::any_of(ports.begin(), ports.end(), [](const auto& p) { return p.list_depth > 0; }))
      break;
    if (count != g.inputs.size() || count != ports.size())
      return fail(Status(Code::Usage, "golden_inputs: the program has {}", counted(ports.size(), "input")), error);
    for (uint32_t i = 0; i < count; ++i) {
      const auto& a = g.inputs[i];
      if (a.port >= count) return fail(Status(Code::Malformed, "golden vector: no such input"), error);
      auto bytes = m->model->golden_array(a.ref);
      if (!bytes) return fail(std::move(bytes).status(), error);
      const auto& shape = m->golden_shapes[program][i];
      MlcTensor& t = inputs[a.port] = {};
      t.name = ports[a.port].name.c_str();
      t.data = const_cast<std::byte*>(bytes->data());
      t.bytes = bytes->size();
      t.dtype = static_cast<int32_t>(a.dtype);
      t.rank = static_cast<uint32_t>(shape.size());
      t.shape = shape.data();
    }
    return MLC_OK;
  }
  return fail(Status(Code::NotFound, "the program has no golden vector of arrays"), error);
}

}  // namespace table
}  // namespace mlc::api
