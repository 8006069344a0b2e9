// An open container with its match against this host. Immutable after opening, shared by sessions.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/api/session/devices.h"
#include "runtime/container/container.h"
#include "runtime/container/source.h"
#include "runtime/loader.h"
#include "runtime/match/matcher.h"
#include "runtime/plan/derived.h"
#include "runtime/plan/execute/service.h"
#include "signing/policy.h"
#include "signing/version_marks.h"

namespace mlc::api {

struct ModelOptions {
  // The first of these that is there. All but the path must outlive the model, the descriptor the opening.
  std::string path;
  Bytes memory;
  int descriptor = -1;  // of an open file; negative: none
  container::Reader reader;
  std::string name;     // in messages, where there is no path; empty: one that says what it was opened from
  container::Verify verify = container::Verify::Auto;
  bool allow_unsigned = false;
  bool allow_older = false;
  signing::TrustSources trust;
  std::string state_folder;  // of the versions seen; empty: they are not remembered
  std::optional<Allocator> allocator;  // none: the system's memory
  std::vector<exec::Service> services;
  std::vector<std::string> untrusted_services;  // of these: for files whose native code may not run
  DeviceChoice devices;
};

// A file that was authenticated, with what is needed to open it: nothing else is read from outside after this.
struct ModelFile {
  ModelOptions options;
  signing::TrustSet trust;
  container::AuthenticatedFile file;
  signing::NativeCode native_code = signing::NativeCode::Never;
  uint64_t now = 0;  // one clock for all that is decided
  std::optional<signing::VersionMarks> seen;  // if there is a state folder
  std::vector<std::string> notes = {};

  static Result<ModelFile> authenticate(ModelOptions options);
};

class Model {
 public:
  static Result<std::unique_ptr<Model>> open(ModelFile file);
  static Result<std::unique_ptr<Model>> open(const ModelOptions& options);

  const container::Container& container() const { return *container_; }
  const format::Manifest& manifest() const { return container_->manifest(); }
  std::span<const exec::Service> services() const { return services_; }  // that this file may use
  // False: it gets the profile of untrusted.h.
  bool is_trusted() const { return container_->native_allowed(); }
  // Against all devices that some program may use.
  const Matcher& matcher() const { return matcher_; }
  // What the caller should know: of the container, of the verdict, of the versions seen.
  const std::vector<std::string>& notes() const { return notes_; }
  // Of this machine, if the container has variants for them and their code may run.
  std::span<const NamedDevice> devices() const { return devices_ ? std::span<const NamedDevice>(devices_->all) : std::span<const NamedDevice>(); }

  // Programs that use devices of their own; most often there is one group, of all of them. The first has the main method.
  uint32_t num_groups() const { return groups_.empty() ? 1 : static_cast<uint32_t>(groups_.size()); }
  uint32_t group_of(uint32_t method) const;
  std::string programs_of(uint32_t group) const;  // "detect, read"
  const std::vector<uint32_t>& methods_of(uint32_t group) const { return groups_.empty() ? all_methods_ : groups_[group].methods; }
  // Against the devices of a group. A session rejects variants of its own copy.
  const Matcher& matcher_of(uint32_t group) const { return groups_.empty() ? matcher_ : groups_[group].matcher; }
  const FoundDevices* found_devices(uint32_t group) const { return groups_.empty() ? devices_.get() : groups_[group].devices.get(); }  // null: none were asked for
  // What was measured of a program on this machine; none: nothing was.
  std::span<const MeasuredVariant> measured_of(uint32_t method) const;
  // Programs that use the same devices are groups of their own, since another variant was measured to be the fastest for each.
  bool is_split_by_choices() const { return is_split_by_choices_; }
  // True: the caller named devices, and is to be told where none is used.
  bool wants_device(uint32_t group) const { return groups_.empty() ? wants_device_ : groups_[group].wants_device; }

  // The bytes of an asset or golden array, read and verified on first use and kept. Thread-safe.
  Result<Bytes> asset(std::string_view name) const;
  Result<Bytes> golden_array(const format::Ref& ref) const;

  // The derived constants of a variant, for all of its sessions. Thread-safe.
  std::shared_ptr<exec::DerivedConstants> derived(uint32_t variant) const;

  SharedOnDevices& shared_on_devices() const { return on_devices_; }

  // The method that `run` means: "main", or else the default one.
  uint32_t main_method() const;

 private:
  Model(std::unique_ptr<Allocator> allocator, std::unique_ptr<container::Container> container, MatchPolicy policy, std::shared_ptr<const FoundDevices> devices);
  struct Group {
    std::vector<uint32_t> methods;
    std::shared_ptr<const FoundDevices> devices;  // of the matcher
    Matcher matcher;
    bool wants_device = false;
  };
  Result<Bytes> keep(const std::string& key, Result<VerifiedBytes> bytes) const;
  void recall_choices(const std::string& state_folder);  // into the matchers
  // The programs of a group, by the variant that is to be taken first for each of them.
  std::vector<Group> split_by_choice(const Group& group) const;

  std::unique_ptr<Allocator> allocator_;  // null: the system's memory; of all that follows
  std::unique_ptr<container::Container> container_;
  std::vector<std::string> notes_;
  std::shared_ptr<const FoundDevices> devices_;  // null: none were asked for; of the matcher
  bool wants_device_ = false;
  std::vector<exec::Service> services_;
  Matcher matcher_;
  std::vector<Group> groups_;  // none: one of all programs, of the above
  std::vector<uint32_t> all_methods_;
  std::vector<std::vector<MeasuredVariant>> measured_;  // by method; none: nothing is remembered
  bool is_split_by_choices_ = false;
  mutable std::mutex mu_;
  mutable std::map<std::string, VerifiedBytes> kept_;  // guarded by mu_
  mutable std::map<uint32_t, std::shared_ptr<exec::DerivedConstants>> derived_;  // by variant; guarded by mu_
  mutable SharedOnDevices on_devices_;
};

}  // namespace mlc::api
