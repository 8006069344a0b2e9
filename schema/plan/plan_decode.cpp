// A plan from its FlatBuffers form. Only this file and decode_*.cpp know that form.
#include <algorithm>
#include <cstring>

#include "schema/generated/plan_fields_generated.h"
#include "schema/module_abi.h"
#include "schema/plan/decode_function.h"

namespace mlc::exec {

namespace {
constexpr uint32_t kPlanFormat = 1;
constexpr uint32_t kMaxFunctions = 4096;
constexpr uint64_t kAlignment = alignof(fbp::SymbolInstr);  // the largest of any part of a plan
}  // namespace

std::optional<uint32_t> Plan::find(std::string_view name) const {
  for (uint32_t i = 0; i < functions.size(); ++i)
    if (functions[i].name == name) return i;
  return std::nullopt;
}

namespace {

// What functions share: the sizes of derived constants, and the number of the function that computes them.
Status read_derived(const fbp::Plan& in, Budget& budget, Plan& plan) {
  if (!budget.afford(length_of(in.derived()), sizeof(uint64_t))) return bad("plan: its parts share bytes");
  plan.derived.resize(length_of(in.derived()));
  // Like structs, 8-byte numbers in a vector may lie at any multiple of four.
  if (!plan.derived.empty()) std::memcpy(plan.derived.data(), in.derived()->Data(), plan.derived.size() * sizeof(uint64_t));
  uint64_t total = 0;
  for (const uint64_t bytes : plan.derived) {
    const auto sum = checked_add(total, bytes);
    if (!sum || *sum > kMaxDerivedBytes) return bad("plan: derived constants are too large, at most {} bytes are read", kMaxDerivedBytes);
    total = *sum;
  }
  plan.derive = in.derive();
  if (plan.derived.empty() ? plan.derive != kNoFunction : plan.derive >= length_of(in.functions()))
    return bad("plan: no function derives the constants, or one derives none");
  return ok();
}

// The function of derived constants runs once, so no other function may call it.
Status check_not_called(const Plan& plan) {
  for (const Function& f : plan.functions)
    for (const Step& s : f.steps)
      if (std::find(s.functions.begin(), s.functions.end(), plan.derive) != s.functions.end())
        return bad("plan: '{}' calls the function that derives constants", f.name);
  return ok();
}

}  // namespace

Result<Plan> decode_plan(Bytes bytes, const PlanContext& context) {
  if (bytes.size() < 16 || bytes.size() > format::kMaxPlanLen)
    return bad("plan: {} bytes, 16 to {} expected", bytes.size(), format::kMaxPlanLen);
  std::vector<std::byte> aligned;  // what the verifier says of alignment counts from an aligned start
  if (reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment != 0) {
    aligned.assign(bytes.begin(), bytes.end());
    bytes = aligned;
  }
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (!format::verify_tables(bytes, fbp::kTables, {format::kMaxTableDepth, format::kMaxTables * 4}))
    return bad("plan: not a well-formed plan table");
  const fbp::Plan& in = *fbp::GetPlan(data);
  if (in.format() != kPlanFormat)
    return bad("plan: format {}, this version reads {}", in.format(), kPlanFormat);
  if (in.module_abi() == 0 || in.module_abi() > MLRUN_MODULE_ABI) return bad("plan: kernel interface is newer");
  if (length_of(in.functions()) == 0 || length_of(in.functions()) > kMaxFunctions)
    return bad("plan: number of functions is {}, 1 to {} expected", length_of(in.functions()), kMaxFunctions);
  Plan plan;
  Budget budget(bytes.size());
  MLC_RETURN_IF_ERROR(read_derived(in, budget, plan));
  for (const fbp::Function* f : *in.functions()) {
    auto function = FunctionDecoder(*f, plan, plan.functions.size() == plan.derive, context, budget).decode();
    if (!function) return std::move(function).status().note("plan: " + format::quoted({f->name()->c_str(), f->name()->size()}));
    if (!plan.functions.empty() && plan.functions.back().name >= function->name)
      return bad("plan: functions are not sorted by name");
    for (const Buffer& b : function->buffers)
      if (b.kind == BufferKind::State) plan.num_states = std::max(plan.num_states, b.index + 1);
    plan.functions.push_back(std::move(*function));
  }
  MLC_RETURN_IF_ERROR(check_programs(plan));
  if (plan.derive != kNoFunction) MLC_RETURN_IF_ERROR(check_not_called(plan));
  return plan;
}

}  // namespace mlc::exec
