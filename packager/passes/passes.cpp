#include "packager/passes/passes.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "packager/ir/numeric.h"
#include "packager/nest/interpret/interpret.h"
#include "packager/nest/verify/verify.h"
#include "packager/passes/all.h"
#include "packager/passes/forms/winograd.h"
#include "packager/passes/util.h"

namespace mlc::passes {

namespace {

constexpr std::string_view kForms[] = {"winograd"};

}  // namespace

std::vector<NamedPass> all_passes() {
  const auto plain = [](Status (*pass)(ir::Context&, nest::Function&)) {
    return [pass](ir::Context& ctx, nest::Function& f, const Options&) { return pass(ctx, f); };
  };
  const auto rounding = [](DType type, bool values) { return [=](ir::Context& ctx, nest::Function& f, const Options&) { return round_products(ctx, f, type, values); }; };
  const auto attention = [](DType type) { return [type](ir::Context& ctx, nest::Function& f, const Options&) { return round_attention(ctx, f, type); }; };
  return {{"narrow", plain(narrow)}, {"algebra", plain(algebra)}, {"fold-constants", [](ir::Context& ctx, nest::Function& f, const Options& o) { return fold_constants(ctx, f, *o.folding); }},
          {"permute-weights", plain(permute_weights)}, {"cleanup", plain(cleanup)},
          {"scale-weights", plain(scale_weights)}, {"fuse", plain(fuse)}, {"weights-in-bf16", rounding(DType::BF16, false)},
          {"products-in-bf16", rounding(DType::BF16, true)}, {"weights-in-f16", rounding(DType::F16, false)},
          {"values-in-bf16", [](ir::Context& ctx, nest::Function& f, const Options&) { return round_values(ctx, f, DType::BF16); }},
          {"values-in-f16", [](ir::Context& ctx, nest::Function& f, const Options&) { return round_values(ctx, f, DType::F16); }}, {"products-in-tf32", plain(products_in_tf32)},
          {"attention-in-bf16", attention(DType::BF16)}, {"attention-in-f16", attention(DType::F16)}, {"attention-in-tf32", attention(DType::F32)},
          {"codes", plain(codes)}, {"pad-codes", plain(pad_codes)}, {"join-products", [](ir::Context& ctx, nest::Function& f, const Options& o) {
            return join_products(ctx, f, o.reads_elsewhere, o.precision == Precision::BF16 || o.precision == Precision::F16);
          }}, {"split-dims", plain(split_dims)},
          {"procs", plain(simplify_procs)}, {"split-windows", plain(split_windows)}, {"share-weights", plain(share_weights)}, {"layout", plain(assign_layouts)}, {"inline-weights", plain(inline_weights)},
          {"winograd", [](ir::Context& ctx, nest::Function& f, const Options& o) { return winograd(ctx, f, o.most_derived); }},
          {"winograd-on-devices", [](ir::Context& ctx, nest::Function& f, const Options& o) { return winograd(ctx, f, o.most_derived, &targets::kAnyDevice); }},
          {"winograd-on-tensor-cores", [](ir::Context& ctx, nest::Function& f, const Options& o) { return winograd(ctx, f, o.most_derived, &targets::kTensorDevice); }},
          {"derive-weights", [](ir::Context& ctx, nest::Function& f, const Options& o) { return derive_weights(ctx, f, o.most_derived); }},
          {"widen", [](ir::Context& ctx, nest::Function& f, const Options& o) { return widen(ctx, f, o.most_derived); }},
          {"split-phases", plain(split_phases)}, {"split-folds", plain(split_folds)}, {"group", plain(group)}, {"join-rows", plain(join_rows)}, {"attention", plain(mark_attention)},
          {"prologues", [](ir::Context& ctx, nest::Function& f, const Options&) { return prologues(ctx, f, true); }},
          {"in-place", plain(in_place)}, {"join-copies", plain(join_copies)}, {"store-rounded", plain(store_rounded)},
          {"number-prologues", [](ir::Context& ctx, nest::Function& f, const Options&) { return prologues(ctx, f, false); }}};
}

std::vector<std::string> default_pipeline() {
  return {"narrow", "algebra", "fold-constants", "permute-weights", "cleanup", "fuse", "scale-weights", "codes", "pad-codes", "fold-constants", "cleanup", "join-products", "split-dims", "procs", "split-windows", "share-weights", "layout", "inline-weights",
          "derive-weights", "widen", "winograd", "split-phases", "split-folds", "group", "prologues", "in-place"};
}

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::F32: break;
    case Precision::TF32: return "tf32";
    case Precision::BF16: return "bf16";
    case Precision::F16: return "f16";
  }
  return "f32";
}

std::vector<std::string> for_devices(std::vector<std::string> pipeline, bool with_tensor_cores, Precision precision) {
  const std::pair<std::string_view, std::string_view> kInstead[] = {
      {"widen", ""}, {"winograd", with_tensor_cores ? "winograd-on-tensor-cores" : "winograd-on-devices"}, {"group", "join-rows"}, {"prologues", "number-prologues"}};
  for (const auto& [pass, instead] : kInstead) std::replace(pipeline.begin(), pipeline.end(), std::string(pass), std::string(instead));
  if (const auto rows = std::find(pipeline.begin(), pipeline.end(), "join-rows"); rows != pipeline.end()) {
    const std::string values = precision == Precision::BF16 || precision == Precision::F16 ? "values-in-" + std::string(name_of(precision)) : "";
    pipeline.insert(pipeline.insert(rows, values) + 2, "attention");
  }
  if (const auto placed = std::find(pipeline.begin(), pipeline.end(), "in-place"); placed != pipeline.end()) pipeline.insert(pipeline.insert(placed + 1, "join-copies") + 1, "store-rounded");
  std::erase(pipeline, "");
  if (precision == Precision::TF32) pipeline.push_back("products-in-tf32");
  if (precision != Precision::F32 && with_tensor_cores) pipeline.push_back("attention-in-" + std::string(name_of(precision)));
  return pipeline;
}

std::vector<std::string> rounding_passes(Precision precision, RoundedValues values) {
  if (precision == Precision::F32) return {};
  if (precision == Precision::TF32) return {"products-in-tf32"};
  const std::string type(name_of(precision));
  if (precision == Precision::BF16 && values == RoundedValues::All) return {"products-in-bf16"};
  if (values == RoundedValues::Devices) return {"weights-in-" + type, "values-in-" + type, "attention", "attention-in-" + type};
  return {"weights-in-" + type};
}

std::vector<std::string> with_precision(std::vector<std::string> pipeline, Precision precision, RoundedValues values) {
  if (precision != Precision::BF16 && precision != Precision::F16) return pipeline;
  // Which weights f16 can hold is seen once they are computed.
  const std::string passes[] = {precision == Precision::F16 ? "fold-constants" : "", rounding_passes(precision, values)[0], "fold-constants", "cleanup", "fuse"};
  pipeline.insert(std::find(pipeline.begin(), pipeline.end(), "codes"), std::begin(passes), std::end(passes));
  std::erase(pipeline, "");
  return pipeline;
}

std::vector<std::string> without_forms(std::vector<std::string> pipeline) {
  std::erase_if(pipeline, [](const std::string& pass) { return std::find(std::begin(kForms), std::end(kForms), pass) != std::end(kForms); });
  return pipeline;
}

std::vector<uint32_t> used_constants(const nest::Function& f) {
  Uses u = uses_of(f);
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < f.arrays.size(); ++i)
    if (f.arrays[i].kind == nest::Array::Kind::Const && (u.output[i] || !u.readers[i].empty())) out.push_back(i);
  return out;
}

namespace {

using nest::Tensor;

// Small random inputs: free extents get a value within their bounds, integers stay small enough to be indices.
std::vector<Tensor> random_inputs(const nest::Function& f, int64_t size) {
  std::mt19937 random(7);
  std::vector<Tensor> inputs;
  for (uint32_t n : f.inputs) {
    const nest::Array& a = f.arrays[n];
    std::vector<int64_t> shape;
    for (const Expr* e : a.shape) {
      auto v = ir::evaluate_extent(e, [&](const ir::Sym* s) -> std::optional<int64_t> {
        int64_t want = std::clamp<int64_t>(size, std::max<int64_t>(s->lo, 1), s->hi);
        return (want + s->multiple - 1) / s->multiple * s->multiple;
      });
      shape.push_back(std::max<int64_t>(0, v.value_or(1)));
    }
    Tensor t = Tensor::zeros(a.dtype, shape);
    std::uniform_real_distribution<double> real(-1, 1);
    for (int64_t i = 0, count = t.elements(); i < count; ++i)
      ir::store_element(a.dtype, t.bytes.data(), static_cast<uint64_t>(i), {static_cast<int64_t>(random() % 2), real(random)});
    inputs.push_back(std::move(t));
  }
  return inputs;
}

Status compare(const Tensor& before, const Tensor& after, const std::string& name) {
  if (before.shape != after.shape || before.dtype != after.dtype)
    return Status(Code::Internal, "output '" + name + "' changed its shape or type");
  double largest = 0, difference = 0;
  for (int64_t i = 0, n = before.elements(); i < n; ++i) {
    auto a = ir::load_element(before.dtype, before.bytes.data(), static_cast<uint64_t>(i));
    auto b = ir::load_element(after.dtype, after.bytes.data(), static_cast<uint64_t>(i));
    if (!is_float(before.dtype)) {
      if (a.i != b.i) return Status(Code::Internal, "output '" + name + "' changed element " + std::to_string(i));
      continue;
    }
    if (std::isnan(a.f) && std::isnan(b.f)) continue;
    if (a.f == b.f) continue;
    if (std::isnan(a.f) != std::isnan(b.f) || std::isinf(a.f) || std::isinf(b.f))
      return Status(Code::Internal, "output '" + name + "' changed element " + std::to_string(i));
    largest = std::max(largest, std::fabs(a.f));
    difference = std::max(difference, std::fabs(a.f - b.f));
  }
  double tolerance = bits_of(before.dtype) < 32 ? 1e-2 : 1e-4;
  if (difference <= tolerance * std::max(largest, 1e-3)) return ok();
  return Status(Code::Internal, "output '" + name + "' changed by " + std::to_string(difference) + " of " + std::to_string(largest));
}

}  // namespace

Status run(ir::Context& ctx, nest::Function& f, const Options& given) {
  Options options = given;
  double folding = kLeastFolding;
  if (!options.folding) options.folding = &folding;
  std::vector<Tensor> inputs, expected;
  if (options.verify) MLC_RETURN_IF_ERROR(nest::verified(ctx, f, {.ranges = options.check}));
  if (options.check) {
    // Sizes that the model's own conditions allow.
    Result<std::vector<Tensor>> r = Status(Code::Internal, "not run");
    for (int64_t size : {0, 5, 8, 32, 64, 1}) {
      inputs = size == 0 ? options.inputs : random_inputs(f, size);
      if (inputs.size() != f.inputs.size()) continue;
      r = nest::interpret(f, inputs);
      if (r.ok() || r.status().code != Code::InputMismatch) break;
    }
    if (!r.ok()) return std::move(r).status().note("before all passes");
    expected = std::move(*r);
  }
  const std::vector<NamedPass> known = all_passes();
  for (const std::string& name : options.pipeline) {
    auto it = std::find_if(known.begin(), known.end(), [&](const NamedPass& p) { return p.name == name; });
    if (it == known.end()) return Status(Code::Usage, "no pass '" + name + "'");
    MLC_RETURN_IF_ERROR(it->pass(ctx, f, options));
    if (options.after) MLC_RETURN_IF_ERROR(options.after(name, f));
    if (options.verify)
      if (Status s = nest::verified(ctx, f, {.ranges = options.check}); !s.ok()) return std::move(s).note("after " + name);
    if (!options.check) continue;
    auto r = nest::interpret(f, inputs);
    if (!r.ok()) return std::move(r).status().note("after " + name);
    for (size_t i = 0; i < expected.size(); ++i)
      if (Status s = compare(expected[i], (*r)[i], f.arrays[f.outputs[i]].name); !s.ok()) return std::move(s).note("after " + name);
  }
  return ok();
}

}  // namespace mlc::passes
