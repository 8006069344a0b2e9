#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "runtime/api/session/state_bytes.h"
#include "runtime/api/table.h"
#include "runtime/api/table/run.h"

namespace mlc::api {
namespace {

// The states of a manifest by index: those of its methods in order, each name once.
class NamedStates {
 public:
  explicit NamedStates(const format::Manifest& manifest) {
    std::unordered_set<std::string_view> known;
    for (const format::Method& m : manifest.methods)
      for (const format::Port& p : m.state)
        if (known.insert(p.name).second) ports_.push_back(&p);
  }
  // "state.3" where the manifest does not name it.
  std::string name(uint32_t index) const { return index < ports_.size() ? ports_[index]->name : compose("state.{}", index); }
  // As the manifest says, if that many elements can have this shape.
  std::vector<int64_t> shape(uint32_t index, uint64_t elements) const {
    std::vector<int64_t> shape;
    if (index < ports_.size())
      for (const format::DimRef& d : ports_[index]->dims) shape.push_back(d.extent.value_or(-1));
    if (index < ports_.size() && checked_product(shape) == elements) return shape;
    return {static_cast<int64_t>(elements)};
  }

 private:
  std::vector<const format::Port*> ports_;
};

Status save(MlcSession& s, MlcBytes& out) {
  Session& session = s.sessions->with_state();
  exec::Executor& executor = session.executor();
  const container::Container& c = session.model().container();
  const NamedStates named(c.manifest());
  std::vector<std::string> names(executor.num_states());  // the arrays refer to them
  std::vector<StateArray> arrays;
  for (uint32_t i = 0; i < executor.num_states(); ++i) {
    const DType dtype = executor.state_type(i);
    if (dtype == DType::Str) return Status(Code::Unsupported, "state_save: state {} holds strings", i);
    MLC_ASSIGN(const Bytes bytes, executor.state(i));
    if (bytes.empty()) continue;  // no run has used it: zeros
    names[i] = named.name(i);
    arrays.push_back({names[i], dtype, named.shape(i, bytes.size() / bytes_of(dtype)), bytes});
  }
  MLC_ASSIGN(s.saved_state, encode_state(c.root(), arrays, session.allocator()));
  out = {s.saved_state.data(), s.saved_state.size()};
  return ok();
}

Status restore(MlcSession& s, Bytes bytes) {
  Session& session = s.sessions->with_state();
  exec::Executor& executor = session.executor();
  const container::Container& c = session.model().container();
  MLC_ASSIGN(const SavedState saved, decode_state(bytes));
  if (saved.root != c.root()) return Status(Code::InputMismatch, "the saved state is of another container than {}", c.name());
  std::vector<std::optional<Bytes>> values(executor.num_states(), Bytes());
  const NamedStates named(c.manifest());
  std::unordered_map<std::string_view, const StateArray*> arrays;
  for (const StateArray& array : saved.arrays) arrays.emplace(array.name, &array);
  size_t found = 0;
  for (uint32_t i = 0; i < executor.num_states(); ++i) {
    const std::string name = named.name(i);
    const auto at = arrays.find(name);
    if (at == arrays.end()) continue;
    const StateArray* const array = at->second;
    const DType dtype = executor.state_type(i);
    if (dtype == DType::Str || array->dtype != dtype)
      return Status(Code::InputMismatch, "state '{}': found {}, expected {}", name, name_of(array->dtype), name_of(dtype));
    values[i] = array->bytes;
    ++found;
  }
  if (found != saved.arrays.size())
    return Status(Code::InputMismatch, "the saved state has {} arrays, variant '{}' knows {} of them", saved.arrays.size(),
                  session.variant().name, found);
  return executor.set_states(values);
}

}  // namespace

namespace table {

int state_reset(MlcSession* s, MlcError** error) {
  if (Status idle = is_idle(s); !idle.ok()) return fail(std::move(idle), error);
  s->sessions->with_state().executor().reset_states();
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
