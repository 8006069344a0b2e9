#include "runtime/cli/tune/remember.h"

#include <functional>

#include "runtime/probe/probe.h"
#include "signing/files/file.h"
#include "signing/files/owned_file.h"
#include "signing/user_key.h"

namespace mlc::cli {
namespace {

// Read, changed and replaced as a whole. Of two processes that do so at once the last one's counts: a measurement that is lost is made again.
Status change(const std::function<bool(match::ChoiceList&)>& how) {
  MLC_ASSIGN(const std::string state, signing::state_folder());
  MLC_ASSIGN(const signing::OwnedFolder folder, signing::OwnedFolder::make(state));
  const std::string path = folder.path() + "/" + std::string(match::kChoicesName);
  const auto text = signing::read_owned_file(path, 2 * match::kMostChoiceBytes);
  match::ChoiceList list = text.ok() && *text ? match::ChoiceList::parse(**text) : match::ChoiceList();
  return how(list) ? signing::replace_file(path, list.encode(), 0600) : ok();
}

}  // namespace

match::Fingerprints fingerprints_of(const OpenModel& model) {
  std::vector<NamedDevice> devices;
  auto d = sized<MlcDevice>();
  for (uint32_t i = 0; api().device(model.model.get(), i, &d) == MLC_OK; ++i) {
    NamedDevice device{d.name, {}};
    device.info.api = d.api;
    device.info.title = d.title;
    device.info.driver = d.driver;
    devices.push_back(std::move(device));
  }
  return match::fingerprints(probe::host(), devices);
}

Digest root_of(const OpenModel& model) { return digest_from_hex(model.info.root).value_or(Digest{}); }

Status remember_measured(const OpenModel& model, std::span<const match::RememberedVariant> variants) {
  return change([&](match::ChoiceList& list) { return list.put_measured(root_of(model), fingerprints_of(model), variants), true; });
}

Status remember_fault(const OpenModel& model, std::string_view variant, std::string_view reason) {
  return change([&](match::ChoiceList& list) { return list.put_fault(root_of(model), fingerprints_of(model), variant, reason), true; });
}

Result<bool> forget_choices(const OpenModel& model) {
  bool any = false;
  MLC_RETURN_IF_ERROR(change([&](match::ChoiceList& list) { return any = list.forget(root_of(model)); }));
  return any;
}

FaultLines fault_lines(const OpenModel& model, std::string_view variant) {
  bool is_native = false;
  for (uint32_t i = 0; i < model.info.num_variants; ++i)
    if (const MlcVariant v = variant_at(model, i); v.name == variant) is_native = std::string_view(v.family) != "portable";
  const auto state = signing::state_folder();
  if (!is_native || model.isolated || !state.ok()) return {};
  const auto folder = signing::OwnedFolder::open(*state);
  if (!folder.ok() || !*folder) return {};
  const Digest root = root_of(model);
  const match::Fingerprints here = fingerprints_of(model);
  return {(*folder)->path() + "/" + std::string(match::kChoicesName), match::fault_line(root, here, variant, "illegal instruction"),
          match::fault_line(root, here, variant, "memory fault")};
}

}  // namespace mlc::cli
