#include "packager/plan/verify.h"

#include <algorithm>
#include <string>
#include <vector>

#include "schema/plan/plan.h"
#include "schema/plan/shape_program.h"

namespace mlc::plan {
namespace {

using namespace exec;

// What free extents are taken for, one after the other.
constexpr int64_t kSamples[] = {1, 2, 7, 16, 64, 100, 257, 1000};

Status wrong(const Function& f, const std::string& what) { return Status(Code::Internal, "plan of '" + f.name + "': " + what); }

struct Tenant {
  uint32_t buffer = 0;
  uint64_t begin = 0, end = 0;   // bytes of the arena
  uint32_t first = 0, last = 0;  // instructions
};

class FunctionVerifier {
 public:
  FunctionVerifier(const Function& f, const std::function<bool(uint32_t, size_t)>& writes) : f_(f), writes_(writes), first_(f.buffers.size(), UINT32_MAX), last_(f.buffers.size(), 0) {
    for (uint32_t i = 0; i < f.body.size(); ++i)
      for (uint32_t b : f.body[i].buffers) {
        first_[b] = std::min(first_[b], i);
        last_[b] = i;
      }
  }

  Status run() {
    std::vector<int64_t> fixed(f_.num_symbols, -1);
    for (const SymbolInstr& i : f_.shape)
      if (i.op == SymbolOp::Const) fixed[i.dst] = i.imm;
    for (int64_t sample : kSamples) {
      std::vector<std::vector<int64_t>> extents;
      for (const Port& p : f_.inputs) {
        auto& shape = extents.emplace_back();
        for (Symbol s : p.shape) shape.push_back(fixed[s] >= 0 ? fixed[s] : sample);
      }
      const std::vector<Shape> shapes(extents.begin(), extents.end());
      std::vector<int64_t> symbols;
      const std::vector<int64_t> elements(f_.elements.size(), sample);
      if (!evaluate_shapes(f_, shapes, elements, symbols).ok()) continue;  // not a shape that the model takes
      MLC_RETURN_IF_ERROR(check_arena(symbols));
      MLC_RETURN_IF_ERROR(check_order(symbols));
      MLC_RETURN_IF_ERROR(check_reads(symbols));
      MLC_RETURN_IF_ERROR(check_steps(symbols));
    }
    return ok();
  }

 private:
  Status check_arena(const std::vector<int64_t>& symbols) const {
    std::vector<Tenant> tenants;
    for (uint32_t i = 0; i < f_.buffers.size(); ++i) {
      const Buffer& b = f_.buffers[i];
      if (symbols[b.bytes] < 0) return wrong(f_, "buffer " + std::to_string(i) + " has a negative length");
      if (b.kind != BufferKind::Arena) continue;
      const int64_t offset = symbols[b.offset], arena = symbols[f_.arena_bytes];
      const auto bytes = static_cast<uint64_t>(symbols[b.bytes]);
      if (offset < 0 || offset % 64 != 0 || arena < 0 ||
          !range_within(static_cast<uint64_t>(offset), bytes, static_cast<uint64_t>(arena)))
        return wrong(f_, "buffer " + std::to_string(i) + " does not lie in the arena");
      if (bytes > 0 && first_[i] != UINT32_MAX)
        tenants.push_back({i, static_cast<uint64_t>(offset), static_cast<uint64_t>(offset) + bytes, first_[i], last_[i]});
    }
    // Kernels may read to the end of a line, never use it, so lines need not be apart.
    std::sort(tenants.begin(), tenants.end(), [](const Tenant& a, const Tenant& b) { return a.begin < b.begin; });
    std::vector<Tenant> open;
    for (const Tenant& t : tenants) {
      std::erase_if(open, [&](const Tenant& o) { return o.end <= t.begin; });
      for (const Tenant& o : open)
        if (o.first <= t.last && t.first <= o.last)
          return wrong(f_, "buffers " + std::to_string(o.buffer) + " and " + std::to_string(t.buffer) +
                               " share bytes of the arena, and both are alive at " + name_of(std::max(o.first, t.first)));
      open.push_back(t);
    }
    return ok();
  }

  bool is_written(const Instr& i, size_t operand) const { return i.op == InstrOp::Launch ? writes_(i.kernel, operand) : operand == 0; }
  bool share_bytes(uint32_t a, uint32_t b, const std::vector<int64_t>& symbols) const {
    const Buffer &x = f_.buffers[a], &y = f_.buffers[b];
    if (a == b) return symbols[x.bytes] > 0;
    const auto memory_of = [](const Buffer& of) { return of.kind == BufferKind::OutputPart ? BufferKind::Output : of.kind; };
    if (memory_of(x) != memory_of(y)) return false;
    if (x.kind != BufferKind::Arena && (x.index != y.index || x.copy != y.copy)) return false;
    const bool in_parts = x.kind == BufferKind::Arena || (x.kind == BufferKind::OutputPart && y.kind == BufferKind::OutputPart);
    if (!in_parts) return true;
    return symbols[x.offset] < symbols[y.offset] + symbols[y.bytes] && symbols[y.offset] < symbols[x.offset] + symbols[x.bytes];
  }
  bool in_each_others_way(const Instr& a, const Instr& b, const std::vector<int64_t>& symbols) const {
    for (size_t i = 0; i < a.buffers.size(); ++i)
      for (size_t k = 0; k < b.buffers.size(); ++k)
        if ((is_written(a, i) || is_written(b, k)) && share_bytes(a.buffers[i], b.buffers[k], symbols)) return true;
    return false;
  }
  Status check_order(const std::vector<int64_t>& symbols) const {
    for (uint32_t i = 0; i < f_.body.size(); ++i)
      for (uint32_t before = f_.body[i].after; before < i; ++before)
        if (in_each_others_way(f_.body[before], f_.body[i], symbols)) return wrong(f_, name_of(i) + " does not wait for " + name_of(before));
    return ok();
  }

  // What is in the arena is nothing before it is written.
  Status check_reads(const std::vector<int64_t>& symbols) const {
    for (uint32_t i = 0; i < f_.body.size(); ++i)
      for (size_t operand = 0; operand < f_.body[i].buffers.size(); ++operand) {
        const uint32_t buffer = f_.body[i].buffers[operand];
        if (f_.buffers[buffer].kind != BufferKind::Arena || symbols[f_.buffers[buffer].bytes] == 0 || first_[buffer] != i) continue;
        bool writes = false;
        for (size_t k = 0; k < f_.body[i].buffers.size(); ++k) writes |= f_.body[i].buffers[k] == buffer && is_written(f_.body[i], k);
        if (!writes) return wrong(f_, name_of(i) + " reads buffer " + std::to_string(buffer) + " before anything is written to it");
      }
    return ok();
  }

  Status check_steps(const std::vector<int64_t>& symbols) const {
    for (uint32_t i = 0; i < f_.body.size(); ++i)
      if (f_.body[i].steps != kNoSymbol && symbols[f_.body[i].steps] < 0) return wrong(f_, name_of(i) + " has loops of less than no turns");
    return ok();
  }

  std::string name_of(uint32_t instruction) const {
    return "instruction " + std::to_string(instruction) + " (" + f_.body[instruction].name + ")";
  }

  const Function& f_;
  const std::function<bool(uint32_t, size_t)>& writes_;
  std::vector<uint32_t> first_, last_;
};

}  // namespace

Status verify(Bytes bytes, uint32_t num_kernels, const std::function<bool(uint32_t kernel, size_t operand)>& writes) {
  // Which tensors there are is decided when the container is packed.
  auto plan = decode_plan(bytes, {num_kernels, [](uint32_t, uint32_t) { return std::optional<uint64_t>(INT64_MAX); }});
  if (!plan) return Status(Code::Internal, "the plan that was written is refused: " + plan.status().message);
  for (const Function& f : plan->functions)
    if (!f.is_program()) MLC_RETURN_IF_ERROR(FunctionVerifier(f, writes).run());
  return ok();
}

}  // namespace mlc::plan
