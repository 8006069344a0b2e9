#include "packager/cli/compare/diff_parts.h"

#include <map>
#include <optional>
#include <utility>

#include "packager/cli/inspect/inspect_ops.h"
#include "signing/hash_tree.h"

namespace mlc::cli {
namespace {

using format::Manifest;

// {name: what it is, its bytes}.
using PartItems = std::map<std::string, std::pair<Digest, uint64_t>>;
constexpr std::string_view kPipeline = "pipeline.json";

PartItems weights_in(const Manifest& m) {
  PartItems out;
  for (const format::Tensor& tensor : m.tensors) {
    uint64_t bytes = 0;
    for (const format::Copy& copy : tensor.copies) bytes += copy.ref.length;
    out[tensor.name] = {tensor.content, bytes};
  }
  return out;
}

PartItems variants_in(const Manifest& m) {
  PartItems out;
  for (const format::Variant& variant : m.variants) {
    Sha256 both;
    uint64_t bytes = 0;
    for (const auto& segment : {variant.plan, variant.module}) {
      if (!segment) continue;
      both.update(m.segments[*segment].digest);
      bytes += m.segments[*segment].stored_len;
    }
    out[variant.name] = {both.finish(), bytes};
  }
  return out;
}

PartItems assets_in(const Manifest& m, bool pipelines) {
  PartItems out;
  for (const format::Asset& asset : m.assets)
    if ((asset.name == kPipeline) == pipelines) out[asset.name] = {asset.digest, asset.ref.length};
  return out;
}

PartBytes compared(const std::string& part, const PartItems& a, const PartItems& b) {
  PartBytes out{part, {}, {}, {}, {}};
  const auto count = [](PartBytes::Sum& sum, uint64_t bytes) { ++sum.count, sum.bytes += bytes; };
  for (const auto& [name, item] : a)
    if (b.count(name) == 0) count(out.only_a, item.second);
  for (const auto& [name, item] : b) {
    const auto before = a.find(name);
    count(before == a.end() ? out.only_b : before->second.first == item.first ? out.same : out.changed, item.second);
  }
  return out;
}

// {program, step: how often}.
using StepTimes = std::map<std::pair<std::string, std::string>, uint64_t>;
StepTimes times_of(const exec::Plan& plan) {
  StepTimes out;
  for (const exec::Function& function : plan.functions) {
    for (const exec::Instr& instr : function.body)
      if (instr.op == exec::InstrOp::Launch) ++out[{function.name, instr.name}];
    for (const exec::Step& step : function.steps)
      if (!step.name.empty()) ++out[{function.name, step.name}];
  }
  return out;
}

}  // namespace

std::vector<PartBytes> part_bytes(const Manifest& a, const Manifest& b) {
  return {compared("weights", weights_in(a), weights_in(b)), compared("variants", variants_in(a), variants_in(b)),
          compared("pipelines", assets_in(a, true), assets_in(b, true)), compared("assets", assets_in(a, false), assets_in(b, false))};
}

Result<std::vector<StepDifference>> step_differences(const OpenContainer& a, const OpenContainer& b) {
  std::vector<StepDifference> out;
  for (const format::Variant& variant : a.opened->manifest().variants) {
    const auto other = b.opened->find_variant(variant.name);
    if (!other) continue;
    const format::Variant& there = b.opened->manifest().variants[*other];
    if (variant.plan && there.plan && a.opened->manifest().segments[*variant.plan].digest == b.opened->manifest().segments[*there.plan].digest) continue;
    MLC_ASSIGN(const std::optional<exec::Plan> plan_a, plan_of(a, variant));
    MLC_ASSIGN(const std::optional<exec::Plan> plan_b, plan_of(b, there));
    if (!plan_a || !plan_b) continue;
    const StepTimes in_a = times_of(*plan_a), in_b = times_of(*plan_b);
    const auto times = [](const StepTimes& steps, const StepTimes::key_type& key) {
      const auto found = steps.find(key);
      return found == steps.end() ? uint64_t{0} : found->second;
    };
    for (const auto& [key, count] : in_a)
      if (const uint64_t there_times = times(in_b, key); there_times != count) out.push_back({variant.name, key.first, key.second, count, there_times});
    for (const auto& [key, count] : in_b)
      if (times(in_a, key) == 0) out.push_back({variant.name, key.first, key.second, 0, count});
  }
  return out;
}

}  // namespace mlc::cli
