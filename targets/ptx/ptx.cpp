// Devices of NVIDIA: kernels become PTX, text that the driver assembles for the card at hand. LLVM writes it; what it wrote is
// read again by a parser of ours, which knows every instruction that may stand there.
#include <algorithm>

#include "schema/format.h"
#include "schema/gpu_module.h"
#include "targets/families.h"
#include "targets/gpu/device_targets.h"
#include "targets/gpu/facts.h"
#include "targets/gpu/ranges.h"
#include "targets/llvm/emit.h"
#include "targets/ptx/audit.h"

namespace mlc::targets::ptx {

namespace {

constexpr size_t kKernelsOfImage = 16;  // a plan that uses few loads few

// Without comments, empty lines and what stands before and behind the words of a line. `exit`, which LLVM writes where it has proved
// that no lane comes, is `ret`: one way to end a kernel.
std::string tidy(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, std::min(text.find("//"), end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t first = line.find_first_not_of(" \t"), last = line.find_last_not_of(" \t");
    if (first == line.npos) continue;
    line = line.substr(first, last - first + 1);
    if (line == "exit;") line = "ret;";
    for (const char c : line) {
      if (c != ' ' && c != '\t') out += c;
      else if (out.back() != ' ') out += ' ';
    }
    out += '\n';
  }
  return out;
}

// LLVM has no word for it: so many blocks are a cluster, whatever the launch says.
std::string in_clusters(std::string text, uint32_t blocks) {
  const size_t body = text.find("\n{\n");
  if (blocks > 1 && body != text.npos) text.insert(body + 1, ".reqnctapercluster " + std::to_string(blocks) + ", 1, 1\n");
  return text;
}

std::string header_of(Level level) {
  return ".version " + std::to_string(level.version / 10) + "." + std::to_string(level.version % 10) + "\n.target sm_" + std::to_string(level.sm) + (level.is_specific ? "a" : "") +
         "\n.address_size 64\n";
}

Result<mlc::gpu::Entry> entry_of(const loop::Kernel& kernel, const std::string& symbol) {
  const gpu::KernelFacts facts = gpu::facts_of(kernel);
  MLC_ASSIGN(const gpu::SharedLayout shared, gpu::layout_shared(kernel));
  mlc::gpu::Entry e;
  e.name = symbol;
  e.lanes = {static_cast<uint16_t>(kernel.lanes), 1, 1};
  e.may_fault = facts.may_fault;
  e.has_barriers = facts.has_barriers;
  const gpu::Demands demands = gpu::demands_of(kernel);
  e.narrow = demands.narrow, e.has_few_lanes = demands.has_few_lanes;
  if (kernel.params.size() > mlc::gpu::kMaxBuffers || kernel.scalars.size() > mlc::gpu::kMaxScalars)
    return Status(Code::Internal, "kernel " + kernel.name + " has more arguments than a launch may have");
  e.num_buffers = static_cast<uint16_t>(kernel.params.size());
  e.num_scalars = static_cast<uint16_t>(kernel.scalars.size());
  (shared.bytes > gpu::kMostStaticShared ? e.dynamic_shared_bytes : e.shared_bytes) = static_cast<uint32_t>(shared.bytes);
  for (size_t k = 0; k < std::min<size_t>(64, kernel.params.size()); ++k)
    if (kernel.params[k].written) e.written |= uint64_t{1} << k;
  return e;
}

class PtxEmitter final : public Emitter {
 public:
  PtxEmitter() {
    struct Row {
      const char *name, *cpu, *version;
    };
    for (const Row& row : {Row{"cuda-sm75", "sm_75", "+ptx65"}, Row{"cuda-sm80", "sm_80", "+ptx70"}, Row{"cuda-sm90", "sm_90", "+ptx78"}, Row{"cuda-sm90a", "sm_90a", "+ptx84"}}) {
      Target t = gpu::device_target(row.name);
      t.emitter = this;
      t.llvm_triple = "nvptx64-nvidia-cuda";
      t.llvm_cpu = row.cpu;
      t.llvm_features = {row.version};
      t.has_mma = t.name != "cuda-sm75";  // its tensor cores know neither tf32 nor bf16
      t.has_exp2 = true;
      t.copies_aside = t.name != "cuda-sm75";
      t.most_cluster_blocks = t.name.starts_with("cuda-sm90") ? loop::kMaxClusterBlocks : 0;
      t.has_group_mma = t.is_alone = t.name == "cuda-sm90a";
      targets_.push_back(std::move(t));
    }
  }

  std::span<const Target> targets() const override { return targets_; }

  Result<Module> emit(const Target& target, std::span<const loop::Kernel> kernels, std::vector<LargeFrame>&, const EmitOptions& options) const override {
    const std::vector<std::string> symbols = kernel_symbols(kernels.size(), options);
    MLC_ASSIGN(const std::vector<std::string> texts, emit_texts(target, kernels, symbols, options));
    mlc::gpu::Module module;
    module.format = static_cast<uint8_t>(format::ModuleFormat::Ptx);
    for (size_t first = 0; first < kernels.size(); first += kKernelsOfImage) {
      const size_t end = std::min(kernels.size(), first + kKernelsOfImage);
      for (size_t k = first; k < end; ++k) {
        MLC_ASSIGN(mlc::gpu::Entry entry, entry_of(kernels[k], symbols[k]));
        entry.image = static_cast<uint32_t>(module.images.size());
        module.entries.push_back(std::move(entry));
      }
      MLC_ASSIGN(mlc::gpu::Image image, make_image(target, std::span(texts).subspan(first, end - first), kernels.subspan(first, end - first)));
      module.images.push_back(std::move(image));
    }
    Module out;
    out.bytes = mlc::gpu::encode(module);
    out.scratch_bytes.assign(kernels.size(), 0);
    return out;
  }

  Result<KernelText> print(const Target& target, const loop::Kernel& kernel) const override { return print_compiled(target, kernel); }

  Status audit(const Target& target, std::span<const std::byte> module) const override {
    Status s = audit_module_bytes(target, module);
    return s.ok() ? std::move(s) : std::move(s).note("audit of the module for " + target.name);
  }

  void require(const Target& target, std::span<const std::byte> module, format::Variant& variant) const override {
    gpu::require_device(target, variant);
    const Result<mlc::gpu::Module> m = mlc::gpu::decode(module);
    uint32_t most = 0;
    if (m.ok())
      for (const mlc::gpu::Entry& e : m->entries) most = std::max(most, e.shared_bytes + e.dynamic_shared_bytes);
    if (most > gpu::kMostStaticShared)
      variant.clauses.push_back({static_cast<uint32_t>(Feature::CudaMaxSharedOptin), format::ClauseOp::AtLeast, {most}});
  }

 private:
  // The texts of these kernels under one header.
  static Result<mlc::gpu::Image> make_image(const Target& target, std::span<const std::string> texts, std::span<const loop::Kernel> kernels) {
    const std::string header = header_of(level_of(target));
    std::string text = header;
    for (size_t k = 0; k < texts.size(); ++k) {
      const std::string tidied = in_clusters(tidy(texts[k]), kernels[k].cluster);
      if (!tidied.starts_with(header)) return Status(Code::Internal, "LLVM made code for another target than " + target.name);
      text += std::string_view(tidied).substr(header.size());
    }
    Result<Image> read = parse(text);
    if (!read.ok()) return std::move(read).status().note("what LLVM made for " + target.name);
    MLC_ASSIGN(const std::set<OpClass> classes, audit_image(target, *read));
    mlc::gpu::Image image;
    image.kind = mlc::gpu::ImageKind::Ptx;
    for (const OpClass c : classes) image.features.push_back(static_cast<uint32_t>(c));
    const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
    image.bytes.assign(bytes.begin(), bytes.end());
    image.bytes.push_back(std::byte{0});
    return image;
  }

  std::vector<Target> targets_;
};

}  // namespace

const Emitter& emitter() {
  static const PtxEmitter all;
  return all;
}

}  // namespace mlc::targets::ptx
