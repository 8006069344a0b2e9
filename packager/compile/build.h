// From models to a signed container: the whole of `mlpack build` but its command line.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/compile/source/dims.h"
#include "packager/compile/dump.h"
#include "packager/compile/golden/golden.h"
#include "packager/compile/golden/rounding.h"
#include "packager/compile/variant/variant.h"
#include "signing/hash_tree.h"
#include "targets/ptx/cubins.h"
#include "targets/target.h"

namespace mlc::compile {

// A container that is complete and has not got its name yet.
struct FinishedFile {
  struct Vector {
    std::string name, program;
    double operations = 0;  // of a run, roughly
  };
  std::string path;             // where it lies meanwhile
  std::vector<Vector> vectors;  // its golden vectors, those first that cover most: pipelines, whose model is part of them
};

// What a build is doing: "target 3 of 11, x86-64-v4", of which 12 of 340 "kernels" are done. Nothing is counted where `total` is 0.
struct Stage {
  std::string name;
  const char* parts = "";
  size_t done = 0, total = 0;
};
// "target 3 of 11" for the third; "target" if there is one only.
std::string nth(const std::string& noun, size_t index, size_t count);

// Records of tuning as stored in the file.
struct TuningText {
  uint64_t records = 0;
  std::string text;
};

struct BuildOptions {
  std::string model_path, output_path;            // load_sources says what the first may be
  std::string pipeline_path;                      // empty: bare arrays only
  std::vector<const targets::Target*> targets;    // the portable form is always added
  std::vector<std::string> operator_folders;      // --ops
  InterfaceChoices interface;                     // --dim, --shape, --feed
  std::string id;                                 // "org/name"; empty: "local/<file name>"
  uint64_t version = 1;
  std::string key_path;                           // empty: the user's own key
  std::string key_passphrase;                     // of an encrypted one: file:PATH or fd:N
  bool sign = true;
  std::optional<std::string> program;             // the options above as the file records them for `mlpack add` (JSON); none: it keeps no program
  unsigned threads = 0;                           // 0: as many as this process may use
  std::string cache_folder;                       // code of kernels compiled before (code_cache.h); empty: none is kept
  double tolerance = 1e-3;                        // of golden vectors, relative to the largest output
  std::vector<GivenVector> golden;                // inputs of the model's golden vectors; none: they are drawn
  double golden_seconds = 120;                    // of one core, counted and not timed: work on the golden vectors of all programs; 0: there are none
  bool forms = true;                              // products may be computed in other ways, which round otherwise
  passes::Precision precision = passes::Precision::F32;  // what both factors of products are rounded to
  bool for_devices = false;                       // programs are cut as for devices though no target is one
  std::optional<uint64_t> most_derived;           // bytes of derived constants; none: what is usual (passes.h)
  struct Cubins {
    std::vector<uint32_t> architectures;          // empty: what is usual for each target, where the assembler is installed
    std::string folders;                          // where it is looked for, as PATH is written
  };
  std::optional<Cubins> cubins;                   // beside the PTX of targets of CUDA; none: none
  DumpOptions dump;
  ChooseSchedule choose;                          // of nests (variant.h); may be empty
  // The records that `choose` followed of what was compiled for a target; the file carries them. May be empty, as what it gives may.
  std::function<TuningText(const CompiledVariant&)> followed;
  // Told before each stage, and during it whenever something more is done, on any thread. May be empty.
  std::function<void(const Stage&)> progress;
  // Asked before the file gets its name; if it fails, the build does and leaves no file. May be empty.
  std::function<Status(const FinishedFile&)> accept;
};

struct BuildReport {
  struct Variant {
    std::string name;
    uint64_t module_bytes = 0, plan_bytes = 0;
    size_t kernels = 0, launches = 0;
    uint64_t tuned = 0;                       // records that were followed
    targets::ptx::CubinReport cubins;
    std::vector<CompiledLaunch> in_order;     // with BuildOptions::choose
  };
  // Kernels of machine code that earlier builds had compiled, and those that were compiled now.
  struct Cache {
    size_t found = 0, compiled = 0;
    Status unused;           // why the folder is not used
  };
  // A program in whose golden vectors some statements do not show: changed results of theirs move no output by more than its tolerance.
  struct Hidden {
    std::string program;
    size_t tried = 0;                // statements that were changed
    std::vector<std::string> nodes;  // those that do not show
  };
  std::vector<Hidden> hidden;
  std::optional<Rounding> rounding;  // with a precision below f32: of all programs the one that moves farthest
  std::vector<Rounding> unmeasured;  // likewise, programs of which that is not known
  std::optional<Cache> cache;  // none: none was asked for
  std::string model_line;  // "opset 12, 70 nodes, 7 operators, 3.5 M parameters"
  std::vector<Variant> variants;
  Digest root{};
  uint64_t file_bytes = 0;
  std::string no_cubins;   // why there are none though they were wanted; empty: there are, or they were not
  std::string no_program;  // why the file keeps none though it was wanted; empty: it does, or it was not
  std::string key_name;    // empty: unsigned
  std::vector<std::string> warnings;  // a line each
};

// Writes options.output_path complete or not at all. What can be known to be wrong before anything is compiled is told before:
// id, version, key, output, folders, pipeline and the files it names.
Result<BuildReport> build(const BuildOptions& options);

}  // namespace mlc::compile
