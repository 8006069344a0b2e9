#include <algorithm>
#include <utility>

#include "runtime/api/run.h"
#include "runtime/api/state_bytes.h"
#include "runtime/api/table.h"

namespace mlc::api {
namespace {

// The state of this index: what the manifest says of it, if it does.
struct NamedState {
  std::string name;
  std::vector<int64_t> shape;
};
NamedState named_state(const format::Manifest& manifest, uint32_t index, uint64_t elements) {
  NamedState out{compose("state.{}", index), {static_cast<int64_t>(elements)}};
  std::vector<const format::Port*> ports;  // each name once
  for (const format::Method& m : manifest.methods)
    for (const format::Port& p : m.state)
      if (std::none_of(ports.begin(), ports.end(), [&](const auto* known) { return known->name == p.name; })) ports.push_back(&p);
  if (index >= ports.size()) return out;
  out.name = ports[index]->name;
  std::vector<int64_t> shape;
  for (const format::DimRef& d : ports[index]->dims) shape.push_back(d.extent.value_or(-1));
  if (checked_product(shape) == elements) out.shape = std::move(shape);
  return out;
}

Status save(MlcSession& s, MlcBytes& out) {
  exec::Executor& executor = s.session->executor();
  const container::Container& c = s.session->model().container();
  std::vector<NamedState> names(executor.num_states());
  std::vector<StateArray> arrays;
  for (uint32_t i = 0; i < executor.num_states(); ++i) {
    const DType dtype = executor.state_type(i);
    if (dtype == DType::Str) return Status(Code::Unsupported, "state_save: state {} holds strings", i);
    MLC_ASSIGN(const Bytes bytes, executor.state(i));
    if (bytes.empty()) continue;  // no run has used it: zeros
    names[i] = named_state(c.manifest(), i, bytes.size() / bytes_of(dtype));
    arrays.push_back({names[i].name, dtype, names[i].shape, bytes});
  }
  MLC_ASSIGN(s.saved_state, encode_state(c.root(), arrays, s.session->allocator()));
  out = {s.saved_state.data(), s.saved_state.size()};
  return ok();
}

Status restore(MlcSession& s, Bytes bytes) {
  exec::Executor& executor = s.session->executor();
  const container::Container& c = s.session->model().container();
  MLC_ASSIGN(const SavedState saved, decode_state(bytes));
  if (saved.root != c.root()) return Status(Code::InputMismatch, "the saved state is of another container than {}", c.name());
  std::vector<std::optional<Bytes>> values(executor.num_states(), Bytes());
  size_t found = 0;
  for (uint32_t i = 0; i < executor.num_states(); ++i) {
    const std::string name = named_state(c.manifest(), i, 0).name;
    const auto array = std::find_if(saved.arrays.begin(), saved.arrays.end(), [&](const StateArray& a) { return a.name == name; });
    if (array == saved.arrays.end()) continue;
    const DType dtype = executor.state_type(i);
    if (dtype == DType::Str || array->dtype != dtype)
      return Status(Code::InputMismatch, "state '{}': found {}, expected {}", name, name_of(array->dtype), name_of(dtype));
    values[i] = array->bytes;
    ++found;
  }
  if (found != saved.arrays.size())
    return Status(Code::InputMismatch, "the saved state has {} arrays, variant '{}' knows {} of them", saved.arrays.size(),
                  s.session->variant().name, found);
  return executor.set_states(values);
}

}  // namespace

namespace table {

int state_reset(MlcSession* s, MlcError** error) {
  if (Status idle = is_idle(s); !idle.ok()) return fail(std::move(idle), error);
  s->session->executor().reset_states();
  return MLC_OK;
}

int state_save(MlcSession* s, MlcBytes* out, MlcError** error) {
  if (!out) return fail(Status(Code::Usage, "state_save: no place for the result"), error);
  *out = {};
  Status status = is_idle(s);
  if (status.ok()) status = save(*s, *out);
  return status.ok() ? int{MLC_OK} : fail(std::move(status), error);
}

int state_restore(MlcSession* s, const void* data, uint64_t bytes, MlcError** error) {
  if (!data) return fail(Status(Code::Usage, "state_restore: no bytes"), error);
  Status status = is_idle(s);
  if (status.ok()) status = restore(*s, {static_cast<const std::byte*>(data), static_cast<size_t>(bytes)});
  return status.ok() ? int{MLC_OK} : fail(std::move(status), error);
}

}  // namespace table
}  // namespace mlc::api
