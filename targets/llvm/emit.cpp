#include "targets/llvm/emit.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/run_on_threads.h"
#include "schema/module_abi.h"
#include "targets/llvm/kernel_emitter.h"
#include "targets/llvm/link.h"
#include "targets/llvm/object.h"

namespace mlc::targets {

namespace {

// One kernel, compiled. What a store keeps of it are two numbers of 8 bytes, little-endian, then the object.
struct CompiledKernel {
  uint64_t scratch = 0;      // bytes that it needs
  uint64_t large_frame = 0;  // bytes of its frame where that is larger than it may be
  std::vector<char> object;

  std::vector<std::byte> bytes() const {
    std::vector<std::byte> out;
    for (const uint64_t value : {scratch, large_frame})
      for (unsigned k = 0; k < 8; ++k) out.push_back(static_cast<std::byte>(value >> (8 * k)));
    const std::span<const std::byte> data = std::as_bytes(std::span(object));
    out.insert(out.end(), data.begin(), data.end());
    return out;
  }
  static std::optional<CompiledKernel> of(std::span<const std::byte> bytes) {
    if (bytes.size() < 16) return std::nullopt;
    CompiledKernel code;
    for (unsigned k = 0; k < 8; ++k) {
      code.scratch |= static_cast<uint64_t>(bytes[k]) << (8 * k);
      code.large_frame |= static_cast<uint64_t>(bytes[8 + k]) << (8 * k);
    }
    for (const std::byte b : bytes.subspan(16)) code.object.push_back(static_cast<char>(b));
    return code;
  }
};

std::unique_ptr<Frame> make_frame(const Target& target) { return is_ptx(target) ? make_gpu_frame() : make_cpu_frame(target); }

// One kernel in a module of its own, so that its bytes depend on nothing else.
Result<CompiledKernel> compile_kernel(ObjectCompiler& compiler, const Target& target, const loop::Kernel& kernel, const std::string& symbol) {
  const Abilities abilities = abilities_of(target);
  llvm::LLVMContext context;
  llvm::Module module("kernel", context);
  compiler.prepare(module);
  const std::unique_ptr<Frame> frame = make_frame(target);
  KernelEmitter emitter(module, abilities, *frame);
  MLC_RETURN_IF_ERROR(emitter.emit(kernel, symbol));
  MLC_ASSIGN(ObjectCompiler::Object object, compiler.compile(module));
  return CompiledKernel{emitter.scratch_bytes(), object.large_frame, std::move(object.bytes)};
}

// All kernels, by number, on several threads. Each takes the next one that is not taken, so after a failure all before it
// get their result, and the first failure is always the same one.
class KernelCompiler {
 public:
  KernelCompiler(const Target& target, std::span<const loop::Kernel> kernels, const std::vector<std::string>& symbols, const EmitOptions& options)
      : target_(target), kernels_(kernels), symbols_(symbols), options_(options), code_(kernels.size()) {}

  Result<std::vector<CompiledKernel>> run() {
    const unsigned threads = number_of_threads(options_.threads);
    run_on_threads(static_cast<unsigned>(std::min<size_t>(kernels_.size(), threads)), [this] { work(); });
    if (failed_ < kernels_.size()) return std::move(failure_);
    return std::move(code_);
  }

 private:
  using Compilers = std::unordered_map<const Target*, std::unique_ptr<ObjectCompiler>>;

  void work() {
    Compilers compilers;
    for (size_t k; !stop_ && (k = next_++) < kernels_.size();) {
      if (Status s = one(k, compilers); !s.ok()) {
        stop_ = true;
        const std::lock_guard lock(mu_);
        if (k < failed_) failed_ = k, failure_ = std::move(s);
      }
      const size_t so_far = ++done_;
      if (options_.progress) options_.progress(so_far, kernels_.size());
    }
  }

  Status one(size_t k, Compilers& compilers) {
    if (options_.store)
      if (const auto kept = options_.store->find(options_.keys[k]))
        if (auto code = CompiledKernel::of(*kept)) {
          code_[k] = std::move(*code);
          return ok();
        }
    const Target& target = least_target(target_, kernels_[k]);
    std::unique_ptr<ObjectCompiler>& compiler = compilers[&target];
    if (!compiler) {
      MLC_ASSIGN(compiler, ObjectCompiler::create(target));
    }
    MLC_ASSIGN(code_[k], compile_kernel(*compiler, target, kernels_[k], symbols_[k]));
    if (options_.store) options_.store->keep(options_.keys[k], code_[k].bytes());
    return ok();
  }

  const Target& target_;
  const std::span<const loop::Kernel> kernels_;
  const std::vector<std::string>& symbols_;
  const EmitOptions& options_;
  std::vector<CompiledKernel> code_;  // each by the thread that took its number
  std::atomic<size_t> next_ = 0, done_ = 0;
  std::atomic<bool> stop_ = false;
  std::mutex mu_;  // guards the two below
  size_t failed_ = SIZE_MAX;
  Status failure_;
};

// mlrun_query and what it answers: MlrunModule and its MlrunEntry table (schema/module_abi.h), in read-only data.
Result<ObjectCompiler::Object> compile_query(const Target& target, const std::vector<std::string>& symbols, const std::vector<uint64_t>& scratch) {
  MLC_ASSIGN(auto compiler, ObjectCompiler::create(target));
  llvm::LLVMContext context;
  llvm::Module module("query", context);
  compiler->prepare(module);
  llvm::IRBuilder<> b(context);
  llvm::Type *ptr = b.getPtrTy(), *i32 = b.getInt32Ty(), *i64 = b.getInt64Ty();
  auto hidden = [](llvm::GlobalValue* v) {
    v->setVisibility(llvm::GlobalValue::HiddenVisibility);
    v->setDSOLocal(true);
  };
  auto* entry_type = llvm::StructType::get(context, {i32, i32, i64, ptr});
  auto* kernel_type = llvm::FunctionType::get(i32, {ptr, i32, i32}, false);
  std::vector<llvm::Constant*> rows;
  for (size_t k = 0; k < scratch.size(); ++k) {
    auto* f = llvm::Function::Create(kernel_type, llvm::GlobalValue::ExternalLinkage, symbols[k], module);
    hidden(f);
    rows.push_back(llvm::ConstantStruct::get(entry_type, {b.getInt32(static_cast<uint32_t>(k)), b.getInt32(0),
                                                          b.getInt64(scratch[k]), f}));
  }
  auto* table_type = llvm::ArrayType::get(entry_type, rows.size());
  auto* table = new llvm::GlobalVariable(module, table_type, true, llvm::GlobalValue::InternalLinkage,
                                         llvm::ConstantArray::get(table_type, rows), "entries");
  auto* module_type = llvm::StructType::get(context, {i32, i32, i32, i32, ptr});
  auto* answer = new llvm::GlobalVariable(
      module, module_type, true, llvm::GlobalValue::InternalLinkage,
      llvm::ConstantStruct::get(module_type, {b.getInt32(MLRUN_MODULE_MAGIC), b.getInt32(MLRUN_MODULE_ABI),
                                              b.getInt32(static_cast<uint32_t>(scratch.size())),
                                              b.getInt32(sizeof(MlrunEntry)), table}),
      "module");
  auto* query = llvm::Function::Create(llvm::FunctionType::get(ptr, {i32, ptr}, false),
                                       llvm::GlobalValue::ExternalLinkage, MLRUN_QUERY_SYMBOL, module);
  query->setVisibility(llvm::GlobalValue::ProtectedVisibility);
  query->setDSOLocal(true);
  b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", query));
  auto* known = b.CreateICmpUGE(query->getArg(0), b.getInt32(MLRUN_MODULE_ABI));
  b.CreateRet(b.CreateSelect(known, answer, llvm::ConstantPointerNull::get(b.getPtrTy())));
  return compiler->compile(module);
}

}  // namespace

std::vector<std::string> kernel_symbols(size_t count, const EmitOptions& options) {
  std::vector<std::string> symbols;
  for (size_t k = 0; k < count; ++k) symbols.push_back("mlc_kernel_" + (options.store ? options.keys[k] : std::to_string(k)));
  return symbols;
}

Result<std::vector<std::string>> emit_texts(const Target& target, std::span<const loop::Kernel> kernels, const std::vector<std::string>& symbols,
                                            const EmitOptions& options) {
  initialize_llvm();
  MLC_ASSIGN(const std::vector<CompiledKernel> compiled, KernelCompiler(target, kernels, symbols, options).run());
  std::vector<std::string> texts;
  for (const CompiledKernel& code : compiled) texts.emplace_back(code.object.begin(), code.object.end());
  return texts;
}

Result<Module> emit_elf(const Target& target, std::span<const loop::Kernel> kernels, std::vector<LargeFrame>& large, const EmitOptions& options) {
  initialize_llvm();
  const std::vector<std::string> symbols = kernel_symbols(kernels.size(), options);
  MLC_ASSIGN(std::vector<CompiledKernel> compiled, KernelCompiler(target, kernels, symbols, options).run());
  Module out;
  std::vector<std::vector<char>> objects;
  for (size_t k = 0; k < compiled.size(); ++k) {
    if (compiled[k].large_frame) large.push_back({k, compiled[k].large_frame});
    out.scratch_bytes.push_back(compiled[k].scratch);
    objects.push_back(std::move(compiled[k].object));
  }
  if (!large.empty()) return Module();
  MLC_ASSIGN(ObjectCompiler::Object query, compile_query(target, symbols, out.scratch_bytes));
  objects.push_back(std::move(query.bytes));
  MLC_ASSIGN(out.bytes, link_module(target, objects));
  return out;
}

Result<KernelText> print_compiled(const Target& target, const loop::Kernel& kernel) {
  initialize_llvm();
  const Target& least = least_target(target, kernel);  // as KernelCompiler does
  MLC_ASSIGN(const auto compiler, ObjectCompiler::create(least));
  const Abilities abilities = abilities_of(least);
  llvm::LLVMContext context;
  llvm::Module module(kernel.name, context);
  compiler->prepare(module);
  const std::unique_ptr<Frame> frame = make_frame(target);
  KernelEmitter emitter(module, abilities, *frame);
  MLC_RETURN_IF_ERROR(emitter.emit(kernel, kernel.name));
  return compiler->print(module);
}

}  // namespace mlc::targets
