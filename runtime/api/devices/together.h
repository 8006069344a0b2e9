// What sessions on devices keep. Of libmlrt-gpu.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/api/session/session.h"
#include "runtime/device.h"
#include "runtime/ensemble/parts_runner.h"
#include "runtime/plan/device/device_constants.h"

namespace mlc::api {

// Of a session on one device.
struct OnDevice {
  device::Device* device = nullptr;
  std::shared_ptr<device::Module> module;
  exec::DeviceConstants* weights = nullptr;  // the model's
};

// Of a session on several; with the objective "throughput" sessions share it.
struct Together {
  std::string devices;  // "cpu,gpu0"
  exec::Plan front;     // that sessions run, each by an executor of its own
  std::vector<ensemble::Place> places;  // of its functions
  std::vector<PlacedStage> stages;
  std::shared_ptr<ensemble::Ensemble> ensemble;

  // Whether no two parts ever have requests at the same time.
  bool is_one_at_a_time() const {
    return std::all_of(places.begin(), places.end(), [](const ensemble::Place& p) { return p.how == ensemble::Place::How::On; }) && !is_shared;
  }
  bool is_shared = false;  // by sessions
};
struct SharedTogether {
  std::mutex mu;  // held while one is made
  std::map<std::string, std::weak_ptr<Together>> by_options;  // guarded by mu
};

// What a model keeps in SharedOnDevices.
struct ModelOnDevices {
  std::map<std::string, std::unique_ptr<exec::DeviceConstants>> uploaded;  // by API and identity; guarded by SharedOnDevices::mu
  SharedTogether together;
};
ModelOnDevices& shared_on_devices(const Model& model);

}  // namespace mlc::api
