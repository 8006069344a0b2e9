#include "targets/llvm/disassemble.h"

#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstrAnalysis.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>

#include <algorithm>
#include <cstdio>

#include "targets/llvm/object.h"

namespace mlc::targets {

namespace {

std::string hex(uint64_t v) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(v));
  return text;
}

}  // namespace

Status disassemble(const Target& target, std::span<const std::string_view> implied, const CodeRange& code,
                   const std::function<Status(const Instruction&)>& visit) {
  initialize_llvm();
  std::string error;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(target.llvm_triple, error);
  if (!backend) return Status(Code::Internal, "no decoder for " + target.name + ": " + error);
  llvm::MCTargetOptions options;
  const llvm::Triple triple(target.llvm_triple);
  std::unique_ptr<llvm::MCRegisterInfo> registers(backend->createMCRegInfo(target.llvm_triple));
  std::unique_ptr<llvm::MCAsmInfo> assembly(backend->createMCAsmInfo(*registers, target.llvm_triple, options));
  std::unique_ptr<llvm::MCInstrInfo> instructions(backend->createMCInstrInfo());
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(backend->createMCSubtargetInfo(target.llvm_triple, "", ""));
  if (!registers || !assembly || !instructions || !subtarget) return Status(Code::Internal, "no decoder for " + target.name);

  // Exactly the features of the target: bits one by one, because the parser of feature strings adds implications.
  std::vector<std::string> wanted;
  for (const std::string& f : target.llvm_features) wanted.push_back(f.substr(1));
  for (std::string_view f : implied) wanted.emplace_back(f);
  llvm::FeatureBitset exact;
  std::vector<std::string> with_plus;
  for (const std::string& name : wanted) {
    bool found = false;
    for (const llvm::SubtargetFeatureKV& kv : subtarget->getAllProcessorFeatures())
      if (name == kv.Key) exact.set(kv.Value), found = true;
    if (!found) return Status(Code::Internal, "LLVM has no feature " + name);
  }
  std::unique_ptr<llvm::MCSubtargetInfo> closure(backend->createMCSubtargetInfo(target.llvm_triple, "", ""));
  closure->setFeatureBits({});
  for (const std::string& name : wanted) closure->ApplyFeatureFlag("+" + name);
  for (const llvm::SubtargetFeatureKV& kv : subtarget->getAllProcessorFeatures())
    if (closure->getFeatureBits()[kv.Value] && !exact[kv.Value])
      return Status(Code::Internal, "the feature list of " + target.name + " implies " + kv.Key + ", which it lacks");
  subtarget->setFeatureBits(exact);

  llvm::MCContext context(triple, assembly.get(), registers.get(), subtarget.get());
  std::unique_ptr<llvm::MCDisassembler> decoder(backend->createMCDisassembler(*subtarget, context));
  std::unique_ptr<llvm::MCInstrAnalysis> analysis(backend->createMCInstrAnalysis(instructions.get()));
  if (!decoder || !analysis) return Status(Code::Internal, "no decoder for " + target.name);
  const llvm::ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t*>(code.bytes.data()), code.bytes.size());
  for (uint64_t at = 0; at < bytes.size();) {
    llvm::MCInst inst;
    Instruction out;
    uint64_t size = 0;
    out.address = code.address + at;
    if (decoder->getInstruction(inst, size, bytes.slice(at), out.address, llvm::nulls()) !=
            llvm::MCDisassembler::Success || size == 0)
      return Status(Code::Internal, "the bytes at " + hex(out.address) + " are no instruction of this target");
    const llvm::MCInstrDesc& description = instructions->get(inst.getOpcode());
    const llvm::StringRef name = instructions->getName(inst.getOpcode());
    out.name = {name.data(), name.size()};
    out.size = static_cast<unsigned>(size);
    out.is_call = description.isCall();
    out.is_branch = description.isBranch();
    out.is_return = description.isReturn();
    for (const llvm::MCOperand& o : inst) {
      Operand operand;
      if (o.isReg() && o.getReg()) operand.reg = registers->getName(o.getReg());
      if (o.isImm()) operand.imm = o.getImm();
      out.operands.push_back(operand);
    }
    if (out.is_call || out.is_branch) {
      uint64_t destination = 0;
      if (analysis->evaluateBranch(inst, out.address, size, destination)) out.target = destination;
      out.is_indirect = !out.target;
    }
    if (Status s = visit(out); !s.ok())
      return std::move(s).fact("instruction " + std::string(out.name) + " at " + hex(out.address));
    at += size;
  }
  return ok();
}

}  // namespace mlc::targets
