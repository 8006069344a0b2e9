#include "tests/conformance/run/execute.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>

#include "runtime/api/session/service.h"
#include "runtime/api/session/session.h"
#include "runtime/services/services.h"

namespace mlc::conformance {

namespace {

// Containers lie at a multiple of 256, with some readable bytes behind them.
struct Freed {
  void operator()(std::byte* p) const { std::free(p); }
};
std::unique_ptr<std::byte, Freed> placed(Bytes container) {
  const size_t room = (container.size() + 256 + 255) / 256 * 256;
  std::unique_ptr<std::byte, Freed> bytes(static_cast<std::byte*>(std::aligned_alloc(256, room)));
  if (bytes) std::memcpy(bytes.get(), container.data(), container.size());
  return bytes;
}

// `held`: what spans of lists refer to.
exec::InputArg argument(const nest::Tensor& t, std::list<std::vector<exec::InputArg>>& held, std::list<std::vector<exec::Text>>& texts) {
  if (t.dtype == DType::Str && t.list_depth == 0) {
    std::vector<exec::Text>& all = texts.emplace_back();
    for (const std::string& s : t.strings) all.push_back({s.data(), s.size()});
    return {t.dtype, t.shape, all.data(), all.size() * sizeof(exec::Text)};
  }
  if (t.list_depth == 0) return {t.dtype, t.shape, t.bytes.data(), t.bytes.size()};
  std::vector<exec::InputArg>& items = held.emplace_back();
  for (const nest::Tensor& item : t.items) items.push_back(argument(item, held, texts));
  exec::InputArg list;
  list.dtype = t.dtype;
  list.items = items;
  list.list_depth = t.list_depth;
  return list;
}

nest::Tensor result(const exec::OutputArg& o) {
  nest::Tensor t{o.dtype, {o.shape.begin(), o.shape.end()}, {}};
  t.list_depth = o.list_depth;
  if (o.dtype == DType::Str) {
    for (uint64_t k = 0; k < o.bytes / sizeof(exec::Text); ++k) {
      const exec::Text& text = static_cast<const exec::Text*>(o.data)[k];
      t.strings.emplace_back(text.data, text.bytes);
    }
  } else if (o.list_depth == 0) {
    t.bytes.resize(o.bytes);
    if (o.bytes) std::memcpy(t.bytes.data(), o.data, o.bytes);
  }
  for (const exec::OutputArg& item : o.items) t.items.push_back(result(item));
  return t;
}

class Weights final : public exec::Constants {
 public:
  explicit Weights(const container::Container& container) : container_(container) {}
  Result<const std::byte*> acquire(uint32_t tensor, uint32_t copy) const override {
    alignas(64) static constexpr std::byte kNothing[64] = {};
    const auto& copies = container_.manifest().tensors[tensor].copies;
    if (copies.empty()) return kNothing;  // a tensor without elements
    const format::Ref& ref = copies[copy].ref;
    return container_.acquire(ref.segment, ref.offset, ref.length);
  }

 private:
  const container::Container& container_;
};

// What a session has, of another plan and other kernels.
struct Replaced {
  exec::Plan plan;
  std::unique_ptr<Weights> weights;
  std::unique_ptr<exec::Executor> executor;
};
Result<std::unique_ptr<Replaced>> replaced(const Instead& instead, const api::Model& model, api::Session& session) {
  auto all = std::make_unique<Replaced>();
  const format::Manifest& m = model.container().manifest();
  exec::PlanContext context;
  context.num_kernels = instead.module->num_kernels();
  context.constant_bytes = [&m](uint32_t tensor, uint32_t copy) { return format::copy_bytes(m.tensors, tensor, copy); };
  MLC_ASSIGN(all->plan, exec::decode_plan(instead.plan, context));
  all->weights = std::make_unique<Weights>(model.container());
  MLC_ASSIGN(all->executor, exec::Executor::create(all->plan, *instead.module, *all->weights, TeamOptions(session.pool(), 1), {}, model.services()));
  return all;
}

// A container that is open, with a session of one worker.
struct Opened {
  std::unique_ptr<std::byte, Freed> bytes;
  std::unique_ptr<api::Model> model;
  std::unique_ptr<api::Session> session;
};
Result<Opened> opened(Bytes container, const std::string& variant, const api::DeviceChoice& devices) {
  Opened all;
  all.bytes = placed(container);
  if (!all.bytes) return Status(Code::Resource, "out of memory");
  api::ModelOptions how;
  how.memory = {all.bytes.get(), container.size()};
  how.allow_unsigned = true;
  how.verify = container::Verify::Full;
  how.devices = devices;
  for (const MlcService& service : services::all()) how.services.push_back(api::service_of(service));
  MLC_ASSIGN(all.model, api::Model::open(how));
  api::SessionOptions options;
  options.variant = variant;
  options.threads = 1;
  MLC_ASSIGN(all.session, api::Session::create(*all.model, options));
  return all;
}

Result<std::vector<nest::Tensor>> run_main(const exec::Plan& plan, exec::Executor& executor, const std::vector<nest::Tensor>& inputs) {
  const auto function = plan.find("main");
  if (!function) return Status(Code::Internal, "the plan has no program 'main'");
  std::list<std::vector<exec::InputArg>> held;
  std::list<std::vector<exec::Text>> texts;
  std::vector<exec::InputArg> in;
  for (const nest::Tensor& t : inputs) in.push_back(argument(t, held, texts));
  std::vector<exec::OutputArg> out(plan.functions[*function].outputs.size());
  MLC_RETURN_IF_ERROR(executor.run(*function, in, out));
  std::vector<nest::Tensor> results;
  for (const exec::OutputArg& o : out) results.push_back(result(o));
  return results;
}

bool has_kernels(const exec::Plan& plan) {
  for (const exec::Function& f : plan.functions)
    if (std::any_of(f.body.begin(), f.body.end(), [](const exec::Instr& i) { return i.op == exec::InstrOp::Launch; })) return true;
  return false;
}

}  // namespace

Result<std::vector<nest::Tensor>> execute(Bytes container, const std::string& variant, const std::vector<nest::Tensor>& inputs, const Instead& instead) {
  MLC_ASSIGN(const Opened all, opened(container, variant, {}));
  if (!instead.module) return run_main(all.session->plan(), all.session->executor(), inputs);
  MLC_ASSIGN(const std::unique_ptr<Replaced> other, replaced(instead, *all.model, *all.session));
  return run_main(other->plan, *other->executor, inputs);
}

Result<OnDevice> execute_on(const api::DeviceChoice& choice, Bytes container, const std::string& variant, const std::vector<nest::Tensor>& inputs) {
  MLC_ASSIGN(const Opened all, opened(container, variant, choice));
  if (all.session->device().empty()) return Status(Code::Internal, "variant '{}' runs on the processor", variant);
  OnDevice out;
  out.has_kernels = has_kernels(all.session->plan());
  MLC_ASSIGN(out.results, run_main(all.session->plan(), all.session->executor(), inputs));
  return out;
}

}  // namespace mlc::conformance
