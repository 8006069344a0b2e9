// Rewrites of a Nest function, in a fixed order that is a list of names.
//
//   narrow          statements that read many arrays become several that read few
//   algebra         scales leave sums of products, dequantised products become products of codes
//   fold-constants  statements whose inputs are all constant are computed now
//   permute-weights  a product that reads elements in another order than they lie takes constant weights in that order
//   cleanup         dead statements, equal statements, copies and renamings (Reshape, Transpose, Slice, ...) read through
//   scale-weights   a constant scale and shift per output channel after a contraction goes into its weights and bias
//   fuse            maps go into their readers, elementwise chains into the contraction or fold they follow
//   weights-in-bf16  only where asked for: both factors of products with weights are rounded to bf16
//   products-in-bf16  the same, and of products of two values of the run that have rows enough
//   weights-in-f16  the same in f16, but for weights that it cannot hold
//   codes           zero points of 8 bits leave sums of products, weights are signed and activations are not
//   pad-codes       products of codes with few channels read copies with borders: taps in groups instead of channels
//   join-products   products of one array with constant weights, and with equal epilogues, are one product of weights side by side
//   split-dims      splits a flattened dim where its index needs div or mod by a dynamic extent, or where vectors would cross its rows
//   procs           loops of procs: indices written out, folds over the same range in one loop
//   split-windows   the largest of a window of three axes is found along one axis, then along the others
//   layout          activations channels-last where convolutions want it, weights as panels
//   inline-weights  weights that are computed from constants in every run go into the products that read them
//   winograd        a form: 3x3 convolutions with fewer multiplications, where that is faster
//   winograd-on-devices, winograd-on-tensor-cores  the same where it is faster on devices: without tensor cores, and with them, which large batches alone are
//   derive-weights  what is computed from constants in every run becomes a constant of the opened model
//   widen           processors: f16 that products convert many times is converted once, or stored in f32
//   split-phases    sums that a divisibility cuts short (transposed convolutions) become sums over what divides, phase by phase
//   split-folds     folds over a whole array become folds over its pieces, which workers divide among them
//   group           processors: neighbours that share their rows are marked to run in one launch
//   values-in-bf16, values-in-f16  devices, only where asked for: values that products of two values alone read are stored rounded, but for exponentials
//   join-rows       devices: folds over rows and what is made of them for each point of a row are one statement
//   attention       devices: statements that are attention together are marked
//   products-in-tf32  devices, only where asked for: both factors of wide products are rounded to tf32
//   attention-in-tf32, attention-in-bf16, attention-in-f16  the same of products of attention with tensor cores: all factors, or exponentials, whose others are stored so
//   prologues       numbers that take less than a launch are computed by each statement that reads them; number-prologues, for
//                   devices, those without folds
//   in-place        what a concatenation copies lies in its result from the start
//   join-copies     devices: small copies, and turned halves of rotary positions, are chosen from by one statement, or where they are read; small maps at the same points are one statement
//
// Each is one file and leaves a function that nest/verify/verify.h accepts. `check` interprets the function before and after
// every pass, on inputs that are given or random ones, and fails where the answers differ: for tests and for finding a bad rewrite.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "packager/nest/evaluate/tensor.h"
#include "packager/nest/nest.h"

namespace mlc::passes {

// What factors of products in f32 are rounded to; sums stay f32.
enum class Precision : uint8_t { F32, TF32, BF16, F16 };

std::string_view name_of(Precision precision);  // "tf32"

// Of processors.
std::vector<std::string> default_pipeline();
// The same for devices: equal up to where both fuse in their own ways. Weights are stored alike.
std::vector<std::string> for_devices(std::vector<std::string> pipeline, bool with_tensor_cores, Precision precision = Precision::F32);
// Products of two values of the run whose factors are rounded beside those of weights: none; on devices, with their own pass; all (bf16 of processors).
enum class RoundedValues : uint8_t { None, Devices, All };
// The same with products in bf16 or f16, which are fused anew. Nothing for others.
std::vector<std::string> with_precision(std::vector<std::string> pipeline, Precision precision, RoundedValues values);
// The passes that round.
std::vector<std::string> rounding_passes(Precision precision, RoundedValues values);
std::vector<std::string> without_forms(std::vector<std::string> pipeline);

// Twice what ResNet-50 asks for, a third of what untrusted files may hold.
constexpr uint64_t kUsualDerived = 64 << 20;

// What computing constants may take, in the interpreter's units: ten seconds of one core, and three times what a quantised
// model asks for, of which there are more the larger it is. It is counted, not timed: equal builds give equal files.
constexpr double kLeastFolding = 1e10, kFoldingPerByte = 32;

// Whether another function of the model reads a constant equal to this one.
using ReadsElsewhere = std::function<bool(const nest::Function& f, uint32_t array)>;
// Among these, as they are now. The functions must outlive it.
ReadsElsewhere reads_elsewhere_in(const std::vector<std::unique_ptr<nest::Function>>& functions);

struct Options {
  std::vector<std::string> pipeline = default_pipeline();
  Precision precision = Precision::F32;  // that devices have behind the others; whose pass `pipeline` has already
  double* folding = nullptr;  // what is left of it, for several functions together; null: kLeastFolding for this one
  uint64_t most_derived = kUsualDerived;  // bytes of derived constants that a function may ask for
  ReadsElsewhere reads_elsewhere;  // empty: none does
  std::function<Status(const std::string& pass, const nest::Function& f)> after;  // each pass; may be empty
  bool verify = true;       // structure after every pass (index ranges only with `check`)
  bool check = false;
  std::vector<nest::Tensor> inputs;  // for `check`: tried first, where a function takes them; else random ones of a few sizes, which conditions on extents may refuse
};

using Pass = std::function<Status(ir::Context&, nest::Function&, const Options&)>;
struct NamedPass {
  std::string_view name;
  Pass pass;
};
std::vector<NamedPass> all_passes();

Status run(ir::Context& ctx, nest::Function& f, const Options& options = {});

// The Const arrays that some statement reads or that are outputs, in order of their numbers.
std::vector<uint32_t> used_constants(const nest::Function& f);

}  // namespace mlc::passes
