// What `mlpack check` finds: everything that build would refuse. It does what a build does before it makes machine code,
// but for models of more than kMostTried statements, of which only the operators and extents are looked at.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/compile/source/dims.h"
#include "packager/compile/estimate.h"
#include "packager/compile/interface_text.h"
#include "targets/target.h"

namespace mlc::compile {

inline constexpr size_t kMostTried = 10'000;

struct CheckOptions {
  std::string model_path;
  std::string pipeline_path;  // empty: none
  std::vector<std::string> operator_folders;
  InterfaceChoices interface;
  std::vector<const targets::Target*> targets;  // what is asked of; empty: of all processors
};

struct CheckReport {
  size_t models = 1;
  int64_t opset = 0;                           // the greatest of the models
  size_t nodes = 0;                            // those of bodies of If, Loop, ... too
  std::map<std::string, size_t> operators;     // "Conv": nodes
  std::map<std::string, int64_t> versions;     // "Conv": the opset whose definition is used; 0: part of the compiler
  uint64_t parameters = 0;
  std::vector<std::string> inputs, outputs;    // "x: f32[N, 3, 48, W]"
  std::vector<ShownPort> ports;                // both, for people
  std::vector<std::string> pipelines;          // "default: photo (image/jpeg image/png) -> classes"
  std::vector<std::string> free_extents;       // "N", "W in 32..640"; what differs from run to run
  std::string remark;                          // on inputs with defaults; empty: there are none
  std::string assumed;                         // "N = 1, W = 64": what the estimates stand for; empty: nothing is free
  Estimate cost;                               // of one run, before the passes, which can only make it less
  std::map<std::string, size_t> decided;       // what only the run decides: "branch", "loop", "list", "size": how many
  // Nodes with much of the work, handled one element at a time: "conv1 (Conv)" and which part of all operations that is.
  struct Slow {
    std::string node;
    double share = 0;
  };
  std::vector<Slow> slow;                      // largest first
  // A device that was asked of, and what each node is there.
  struct Device {
    struct Node {
      std::string node;     // "conv1 (Conv)"
      bool compiles = false;
      std::string why;      // it does not
    };
    std::string target;
    bool has_variant = false;  // a build would make one
    std::vector<std::string> programs, lacking;  // with code for these; other programs of the model
    std::string why;           // there is none, where that is no matter of nodes
    std::vector<Node> nodes;   // that the passes left, in order
    std::string text() const;
  };
  std::vector<Device> devices;
  bool is_tried = false;                       // the model was not too large to be tried out
  std::vector<std::string> native;             // targets with machine code; every model also has the portable form
  Status problem;                              // OK: it will compile
  std::string text() const;
};

// Fails only if the file is no model; what is wrong with a model is in the report.
Result<CheckReport> check(const CheckOptions& options);

}  // namespace mlc::compile
