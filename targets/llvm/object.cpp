#include "targets/llvm/object.h"

#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/CodeGen/MachineFrameInfo.h>
#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetFrameLowering.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/ScalarizeMaskedMemIntrin.h>
#include <llvm/Transforms/Scalar/Scalarizer.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <mutex>

#include "targets/families.h"
#include "targets/llvm/gathers.h"
#include "targets/llvm/kernel_emitter.h"
#include "targets/llvm/link.h"

namespace mlc::targets {

namespace {

// The audit counts otherwise than LLVM (alignment of the frame), and RISC-V reaches 4080 bytes without arithmetic on sp.
constexpr int64_t kFrameReserve = 64;

// Errors of the code generator arrive here instead of ending the process.
struct Diagnostics final : llvm::DiagnosticHandler {
  Diagnostics(std::string& out, uint64_t& frame) : text(out), large_frame(frame) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getKind() == llvm::DK_StackSize) {
      large_frame = std::max<uint64_t>(large_frame, llvm::cast<llvm::DiagnosticInfoStackSize>(info).getStackSize());
    } else if (info.getSeverity() == llvm::DS_Error) {
      llvm::raw_string_ostream stream(text);
      llvm::DiagnosticPrinterRawOStream printer(stream);
      if (!text.empty()) stream << "; ";
      info.print(printer);
    }
    return true;
  }
  std::string& text;
  uint64_t& large_frame;
};

// Moves invariant values out of innermost loops; attributes may ask for the others, or for none.
struct HoistFromLoops : llvm::PassInfoMixin<HoistFromLoops> {
  llvm::PreservedAnalyses run(llvm::Loop& loop, llvm::LoopAnalysisManager& analyses, llvm::LoopStandardAnalysisResults& results,
                              llvm::LPMUpdater& updater) {
    const bool limited = loop.getHeader()->getParent()->hasFnAttribute(kHoistingAttribute);
    if (limited && !loop.isInnermost()) return llvm::PreservedAnalyses::all();
    return llvm::LICMPass(llvm::LICMOptions()).run(loop, analyses, results, updater);
  }
};

// Lanes of a device have no vectors: left to it, the code generator would put some on a stack.
void add_scalarizer(llvm::FunctionPassManager& passes) {
  passes.addPass(llvm::ScalarizeMaskedMemIntrinPass());
  llvm::ScalarizerPassOptions options;
  options.ScalarizeLoadStore = true;
  passes.addPass(llvm::ScalarizerPass(options));
}

// No vectoriser, no unroller, no idiom recognition: Loop has decided all that. Inlined are helpers of targets without calls.
void simplify(llvm::Module& module, llvm::TargetMachine& machine, bool has_vectors) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager helpers;
  helpers.addPass(llvm::AlwaysInlinerPass(/*InsertLifetime=*/false));
  helpers.run(module, modules);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  if (has_vectors) passes.addPass(ExpandGathers());
  else add_scalarizer(passes);
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  llvm::LoopPassManager loop_passes;
  loop_passes.addPass(HoistFromLoops());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loop_passes), /*UseMemorySSA=*/true));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::ADCEPass());
  // Kernels whose values are in scratch memory keep nothing that they can read or compute again: no common subexpressions.
  llvm::FunctionPassManager plain;
  if (has_vectors) plain.addPass(ExpandGathers());
  plain.addPass(llvm::InstCombinePass());
  plain.addPass(llvm::SimplifyCFGPass());
  plain.addPass(llvm::ADCEPass());
  for (llvm::Function& f : module)
    if (!f.isDeclaration()) (f.getFnAttribute(kHoistingAttribute).getValueAsString() == "none" ? plain : passes).run(f, functions);
}

// Loop strength reduction sees how an address came about, through the minima and products that are the place of a row tile,
// and computes that again where it is used, in each turn of the innermost loop (products of a group, whose strides are no
// constants: 78 instructions for 28 FMA). What does not change there leaves the loop again.
struct HoistAddresses final : llvm::FunctionPass {
  inline static char ID = 0;
  HoistAddresses() : FunctionPass(ID) {}
  void getAnalysisUsage(llvm::AnalysisUsage& usage) const override {
    usage.addRequired<llvm::LoopInfoWrapperPass>();
    usage.setPreservesCFG();
  }
  bool runOnFunction(llvm::Function& f) override {
    if (f.getFnAttribute(kHoistingAttribute).getValueAsString() == "none") return false;
    bool changed = false;
    for (llvm::Loop* loop : getAnalysis<llvm::LoopInfoWrapperPass>().getLoopInfo().getLoopsInPreorder()) {
      if (!loop->isInnermost()) continue;
      for (llvm::BasicBlock* block : loop->blocks())
        for (llvm::Instruction& i : llvm::make_early_inc_range(*block))
          if (i.getType()->isIntegerTy() || i.getType()->isPointerTy()) loop->makeLoopInvariant(&i, changed);
    }
    return changed;
  }
};

// LLVM counts the bytes of a frame that are known while compiling. Vector registers of RISC-V and SVE that are kept on the stack take as much
// as the machine's registers have: counted here, at the longest that a variant may meet.
struct CountScalableFrame final : llvm::MachineFunctionPass {
  inline static char ID = 0;
  CountScalableFrame() : MachineFunctionPass(ID) {}
  bool runOnMachineFunction(llvm::MachineFunction& f) override {
    const bool is_sve = f.getTarget().getTargetTriple().isAArch64();
    const int64_t unit = is_sve ? 16 : 8;  // bytes of a register of the shortest length that LLVM counts in
    const int64_t most = is_sve ? aarch64::kMostSveBytes : riscv::kMostVlenb;
    const llvm::MachineFrameInfo& frame = f.getFrameInfo();
    int64_t scalable = 0;
    for (int k = frame.getObjectIndexBegin(); k < frame.getObjectIndexEnd(); ++k)
      if (frame.getStackID(k) == llvm::TargetStackID::ScalableVector && !frame.isDeadObjectIndex(k)) scalable += frame.getObjectSize(k);
    const auto bytes = static_cast<int64_t>(frame.getStackSize()) + (scalable + unit) / unit * most;
    if (scalable > 0 && bytes > kMaxFrame - kFrameReserve)
      f.getFunction().getContext().diagnose(llvm::DiagnosticInfoStackSize(f.getFunction(), static_cast<uint64_t>(bytes), kMaxFrame, llvm::DS_Warning));
    return false;
  }
};

// What TargetMachine::addPassesToEmitFile does, with two passes more (above), and less another: MachineLICM takes the constants of an epilogue out of the
// loop over register tiles, where they live through the innermost loop and push accumulators onto the stack (AVX2 6x16
// with hard-swish: 44 instead of 110 GFLOP/s). What should leave a loop has left it in IR.
bool add_code_generation(llvm::legacy::PassManager& passes, llvm::TargetMachine& target_machine, llvm::raw_pwrite_stream& out,
                         llvm::CodeGenFileType kind) {
  auto& machine = static_cast<llvm::LLVMTargetMachine&>(target_machine);
  llvm::TargetPassConfig* config = machine.createPassConfig(passes);
  config->setDisableVerify(true);
  config->disablePass(&llvm::EarlyMachineLICMID);
  config->disablePass(&llvm::MachineLICMID);
  config->insertPass(std::unique_ptr<llvm::Pass>(llvm::createLoopStrengthReducePass())->getPassID(), new HoistAddresses);
  // NVPTX has no pass that lays out a frame: a pass after it would be added to no pipeline, and freed by none.
  if (!machine.getTargetTriple().isNVPTX()) config->insertPass(&llvm::PrologEpilogCodeInserterID, new CountScalableFrame);
  auto* info = new llvm::MachineModuleInfoWrapperPass(&machine);
  passes.add(config);
  passes.add(info);
  if (config->addISelPasses()) return false;
  config->addMachinePasses();
  config->setInitialized();
  if (machine.addAsmPrinter(passes, out, nullptr, kind, info->getMMI().getContext())) return false;
  passes.add(llvm::createFreeMachineFunctionPass());
  return true;
}

}  // namespace

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeAArch64Disassembler();
    LLVMInitializeRISCVTargetInfo();
    LLVMInitializeRISCVTarget();
    LLVMInitializeRISCVTargetMC();
    LLVMInitializeRISCVAsmPrinter();
    LLVMInitializeRISCVDisassembler();
    LLVMInitializeLoongArchTargetInfo();
    LLVMInitializeLoongArchTarget();
    LLVMInitializeLoongArchTargetMC();
    LLVMInitializeLoongArchAsmPrinter();
    LLVMInitializeLoongArchDisassembler();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

void on_failure(void (*out_of_memory)(), void (*failed)(const Status& why)) {
  static void (*no_memory)() = out_of_memory;
  static void (*gave_up)(const Status&) = failed;
  llvm::install_bad_alloc_error_handler([](void*, const char*, bool) { no_memory(); });
  llvm::install_fatal_error_handler([](void*, const char* reason, bool) {
    const Status lacking = lack(reason);
    gave_up(lacking.ok() ? Status(Code::Internal, std::string("the code generator gave up: ") + reason) : lacking);
  });
}

Result<std::unique_ptr<ObjectCompiler>> ObjectCompiler::create(const Target& target) {
  initialize_llvm();
  std::unique_ptr<ObjectCompiler> self(new ObjectCompiler);
  self->target_ = target;
  std::string error;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(target.llvm_triple, error);
  if (!backend) return Status(Code::Unsupported, "no code generator for " + target.name + ": " + error);
  for (const std::string& f : target.llvm_features) self->features_ += (self->features_.empty() ? "" : ",") + f;
  switch (target.machine) {
    case Machine::X86_64: self->cpu_ = "x86-64"; break;
    case Machine::AArch64:
      self->cpu_ = "generic";
      self->features_ += ",+reserve-x18";  // the platform's register on Windows, macOS and Android
      break;
    case Machine::RiscV64: self->cpu_ = "generic-rv64"; break;
    case Machine::LoongArch64:
      self->cpu_ = "generic";  // "generic-la64" has LSX
      self->features_ += ",+64bit";
      break;
    case Machine::None:
      if (!is_ptx(target)) return Status(Code::Internal, "LLVM was asked for portable code");
      self->cpu_ = target.llvm_cpu;
      break;
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;  // only Op::Fma is fused
  options.FunctionSections = true;
  options.DataSections = true;
  if (target.machine == Machine::RiscV64 || target.machine == Machine::LoongArch64) options.MCOptions.ABIName = "lp64d";
  self->machine_.reset(backend->createTargetMachine(target.llvm_triple, self->cpu_, self->features_, options,
                                                    llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                    llvm::CodeGenOptLevel::Aggressive));
  // Where it does not know the processor LLVM prints a line and takes another one.
  if (!self->machine_ || !self->machine_->getMCSubtargetInfo()->isCPUStringValid(self->cpu_))
    return Status(Code::Internal, "LLVM does not know the machine of " + target.name);
  return self;
}

void ObjectCompiler::prepare(llvm::Module& module) const {
  module.setTargetTriple(target_.llvm_triple);
  module.setDataLayout(machine_->createDataLayout());
  module.setPICLevel(llvm::PICLevel::SmallPIC);
  if (target_.machine == Machine::X86_64) module.addModuleFlag(llvm::Module::Override, "cf-protection-branch", 1);
  if (target_.machine == Machine::AArch64) {
    module.addModuleFlag(llvm::Module::Min, "branch-target-enforcement", 1);
    module.addModuleFlag(llvm::Module::Min, "sign-return-address", uint32_t{0});
  }
  if (target_.machine == Machine::RiscV64)
    module.addModuleFlag(llvm::Module::Error, "target-abi", llvm::MDString::get(module.getContext(), "lp64d"));
}

// Attributes and simplification.
Status ObjectCompiler::optimise(llvm::Module& module) const {
  const std::string vector_bits = std::to_string(target_.vector_bytes * 8);
  for (llvm::Function& f : module) {
    if (f.isDeclaration()) continue;
    f.addFnAttr(llvm::Attribute::NoUnwind);
    if (target_.machine == Machine::X86_64) f.addFnAttr(llvm::Attribute::NoRedZone);
    if (target_.machine == Machine::AArch64) f.addFnAttr("branch-target-enforcement");
    f.addFnAttr("no-builtins");
    f.addFnAttr("no-jump-tables", "true");
    f.addFnAttr("target-cpu", cpu_);
    f.addFnAttr("target-features", features_);
    f.addFnAttr("min-legal-vector-width", vector_bits);
    f.addFnAttr("prefer-vector-width", vector_bits);
    // A least length and no most: predicates name lanes ("ptrue p0.s, vl8"), so longer registers give the same.
    if (has_feature(target_, "a64.sve")) f.addFnAttr(llvm::Attribute::getWithVScaleRangeArgs(f.getContext(), target_.vector_bytes / 16, 0));
    f.addFnAttr("warn-stack-size", std::to_string(kMaxFrame - kFrameReserve));
  }
  std::string broken;
  llvm::raw_string_ostream broken_stream(broken);
  if (llvm::verifyModule(module, &broken_stream))
    return Status(Code::Internal, "the emitter made malformed LLVM IR: " + broken.substr(0, 400));
  simplify(module, *machine_, !is_ptx(target_));
  return ok();
}

Status ObjectCompiler::generate(llvm::Module& module, llvm::CodeGenFileType kind, llvm::SmallVectorImpl<char>& out, uint64_t& large_frame) {
  std::string diagnostics;
  module.getContext().setDiagnosticHandler(std::make_unique<Diagnostics>(diagnostics, large_frame));
  llvm::raw_svector_ostream stream(out);
  llvm::legacy::PassManager passes;
  if (!add_code_generation(passes, *machine_, stream, kind))
    return Status(Code::Internal, "LLVM cannot write objects for " + target_.name);
  passes.run(module);
  module.getContext().setDiagnosticHandler(nullptr);
  return diagnostics.empty() ? ok() : Status(Code::Internal, "code generation for " + target_.name + ": " + diagnostics);
}

Result<ObjectCompiler::Object> ObjectCompiler::compile(llvm::Module& module) {
  MLC_RETURN_IF_ERROR(optimise(module));
  Object object;
  llvm::SmallVector<char, 0> bytes;
  const auto kind = is_ptx(target_) ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  MLC_RETURN_IF_ERROR(generate(module, kind, bytes, object.large_frame));
  object.bytes.assign(bytes.begin(), bytes.end());
  return object;
}

Result<KernelText> ObjectCompiler::print(llvm::Module& module) {
  MLC_RETURN_IF_ERROR(optimise(module));
  KernelText out;
  llvm::raw_string_ostream stream(out.llvm);
  module.print(stream, nullptr);
  llvm::SmallVector<char, 0> assembly;
  uint64_t large_frame = 0;
  MLC_RETURN_IF_ERROR(generate(module, llvm::CodeGenFileType::AssemblyFile, assembly, large_frame));
  out.assembly.assign(assembly.begin(), assembly.end());
  return out;
}

}  // namespace mlc::targets
