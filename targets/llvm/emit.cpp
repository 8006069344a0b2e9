#include "targets/llvm/emit.h"

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "base/run_on_threads.h"
#include "schema/module_abi.h"
#include "targets/llvm/kernel_emitter.h"
#include "targets/llvm/link.h"
#include "targets/llvm/object.h"

namespace mlc::targets {

namespace {

// Kernels of one object. Fixed, so that the bytes do not depend on how many threads compile.
constexpr size_t kKernelsPerObject = 6;

std::string kernel_symbol(size_t k) { return "mlc_kernel_" + std::to_string(k); }

// `scratch`: memory that each kernel needs, by number.
Result<ObjectCompiler::Object> compile_group(const Target& target, std::span<const loop::Kernel> kernels, size_t first,
                                             std::vector<uint64_t>& scratch) {
  MLC_ASSIGN(auto compiler, ObjectCompiler::create(target));
  llvm::LLVMContext context;
  llvm::Module module("kernels", context);
  compiler->prepare(module);
  const Abilities abilities = abilities_of(target);
  KernelEmitter emitter(module, abilities);
  for (size_t k = 0; k < kernels.size(); ++k) {
    MLC_RETURN_IF_ERROR(emitter.emit(kernels[k], kernel_symbol(first + k)));
    scratch[first + k] = emitter.scratch_bytes();
  }
  return compiler->compile(module);
}

// mlrun_query and what it answers: MlrunModule and its MlrunEntry table (schema/module_abi.h), in read-only data.
Result<ObjectCompiler::Object> compile_query(const Target& target, const std::vector<uint64_t>& scratch) {
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
    auto* f = llvm::Function::Create(kernel_type, llvm::GlobalValue::ExternalLinkage, kernel_symbol(k), module);
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

Result<Module> emit_elf(const Target& target, std::span<const loop::Kernel> kernels, std::vector<LargeFrame>& large, const Progress& progress) {
  initialize_llvm();
  Module out;
  out.scratch_bytes.resize(kernels.size());
  const size_t num_groups = (kernels.size() + kKernelsPerObject - 1) / kKernelsPerObject;
  std::vector<ObjectCompiler::Object> groups(num_groups);
  std::vector<Status> statuses(num_groups);
  std::atomic<size_t> next = 0, done = 0;
  auto work = [&] {
    for (size_t g; (g = next++) < num_groups;) {
      const size_t first = g * kKernelsPerObject, count = std::min(kKernelsPerObject, kernels.size() - first);
      auto object = compile_group(target, kernels.subspan(first, count), first, out.scratch_bytes);
      if (object.ok())
        groups[g] = std::move(object).value();
      else
        statuses[g] = std::move(object).status();
      const size_t so_far = done += count;
      if (progress) progress(so_far, kernels.size());
    }
  };
  run_on_threads(static_cast<unsigned>(std::min<size_t>(num_groups, std::thread::hardware_concurrency())), work);
  for (Status& s : statuses)
    if (!s.ok()) return std::move(s);

  std::map<std::string, size_t> number;
  for (size_t k = 0; k < kernels.size(); ++k) number.emplace(kernel_symbol(k), k);
  std::vector<std::vector<char>> objects;
  for (ObjectCompiler::Object& group : groups) {
    for (const auto& [function, bytes] : group.large) {
      auto kernel = number.find(function);
      if (kernel == number.end()) return Status(Code::Internal, "the stack frame of " + function + " is too large");
      large.push_back({kernel->second, bytes});
    }
    objects.push_back(std::move(group.bytes));
  }
  if (!large.empty()) return Module();
  MLC_ASSIGN(ObjectCompiler::Object query, compile_query(target, out.scratch_bytes));
  objects.push_back(std::move(query.bytes));
  MLC_ASSIGN(out.bytes, link_module(target, objects));
  return out;
}

}  // namespace mlc::targets
