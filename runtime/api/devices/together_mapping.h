// What of a model runs where on several devices: decided when a session is made, by what was measured or by what the caller says.
// Of libmlrt-gpu.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "runtime/api/devices/together_measured.h"
#include "runtime/api/session/session.h"
#include "runtime/ensemble/choose.h"
#include "runtime/ensemble/composed_plan.h"
#include "runtime/ensemble/measure/measure.h"
#include "runtime/ensemble/parts_runner.h"

namespace mlc::api {

class Mapping {
 public:
  // What it is given outlives it. The parts have the same functions.
  Mapping(const Model& model, const std::vector<ensemble::Part>& parts, const SessionOptions& options, std::optional<ensemble::Objective> objective)
      : model_(model), parts_(parts), options_(options), objective_(objective), remembered_(model.found_devices(options.group)->state_folder) {}

  Status run();

  // Results.
  std::vector<ensemble::Staged> staged;
  std::vector<uint32_t> place;               // of each function of the plans that is neither staged nor the next
  std::map<uint32_t, ensemble::Place> wide;  // functions that several parts have: First and Rows
  std::vector<PlacedStage> stages;           // told to people
  struct Expected {
    uint32_t function = 0, part = 0;
    double ns = 0;
  };
  std::vector<Expected> expected;  // of functions that several parts have

 private:
  using Shapes = std::vector<std::vector<int64_t>>;

  Status measure_links();
  Shapes shapes_of(uint32_t method) const;
  void find_rows(uint32_t method, const exec::Function& program, const Shapes& shapes, ensemble::Rows& rows, std::vector<uint8_t>& has_rows) const;
  Status decide(uint32_t method, uint32_t function, const exec::Function& program);
  Result<ensemble::Problem> measured(const exec::Function& program, const Shapes& shapes);
  std::string fingerprint(const ensemble::Part& part) const;  // of the device
  void apply(const ensemble::Choice& choice, uint32_t function, const exec::Function& program, const ensemble::Problem& problem, const ensemble::Place& by_rows);
  void tell_stages(const ensemble::Choice& choice, const exec::Function& program, const ensemble::Problem& problem);
  void tell_whole(uint32_t function);
  void tell_wide(const ensemble::Choice& choice, uint32_t function, const ensemble::Problem& problem);
  bool is_free(uint32_t function) const;

  const Model& model_;
  const std::vector<ensemble::Part>& parts_;
  const SessionOptions& options_;
  const std::optional<ensemble::Objective> objective_;  // none: the caller places
  std::vector<uint32_t> fixed_;  // part of each function; kAnyPart: not fixed
  std::vector<ensemble::PartCost> links_;
  Remembered remembered_;
};

}  // namespace mlc::api
