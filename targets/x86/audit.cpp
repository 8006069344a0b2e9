// The audit of x86-64 code, by Zydis: LLVM's decoder accepts instructions whose features are off, Zydis names the
// instruction set each encoding belongs to, and tells VEX "vpdpbusd" from EVEX, or lzcnt from bsr. A set without a row
// in the table stops the build.
#include <Zydis/Zydis.h>

#include <cstdio>

#include "targets/families.h"

namespace mlc::targets::x86 {

namespace {

// The features an instruction set needs; all of them must be in the target's list.
struct Row {
  ZydisISASet set;
  const char* features[3];
};

#define MLC_AVX512(SET, FEATURE)                                                    \
  {ZYDIS_ISA_SET_##SET##_128, {FEATURE, "x86.avx512vl"}},                           \
  {ZYDIS_ISA_SET_##SET##_256, {FEATURE, "x86.avx512vl"}},                           \
  {ZYDIS_ISA_SET_##SET##_512, {FEATURE}}

constexpr Row kRows[] = {
    {ZYDIS_ISA_SET_I86, {"x86.base"}},
    {ZYDIS_ISA_SET_I186, {"x86.base"}},
    {ZYDIS_ISA_SET_I386, {"x86.base"}},
    {ZYDIS_ISA_SET_I486REAL, {"x86.base"}},  // bswap, xadd, cmpxchg
    {ZYDIS_ISA_SET_CMOV, {"x86.base"}},
    {ZYDIS_ISA_SET_LONGMODE, {"x86.base"}},
    {ZYDIS_ISA_SET_FAT_NOP, {"x86.base"}},
    {ZYDIS_ISA_SET_SSE, {"x86.base"}},
    {ZYDIS_ISA_SET_SSE_PREFETCH, {"x86.base"}},
    {ZYDIS_ISA_SET_SSE2, {"x86.base"}},
    {ZYDIS_ISA_SET_CET, {"x86.base"}},  // endbr64 only (below): a no-op before the feature existed
    {ZYDIS_ISA_SET_SSE3, {"x86.sse3"}},
    {ZYDIS_ISA_SET_SSSE3, {"x86.ssse3"}},
    {ZYDIS_ISA_SET_SSE4, {"x86.sse41"}},
    {ZYDIS_ISA_SET_SSE42, {"x86.sse42"}},
    {ZYDIS_ISA_SET_POPCNT, {"x86.popcnt"}},
    {ZYDIS_ISA_SET_CMPXCHG16B, {"x86.cx16"}},
    {ZYDIS_ISA_SET_LAHF, {"x86.lahf"}},
    {ZYDIS_ISA_SET_AVX, {"x86.avx"}},
    {ZYDIS_ISA_SET_AVX2, {"x86.avx2"}},
    {ZYDIS_ISA_SET_AVX2GATHER, {"x86.avx2"}},
    {ZYDIS_ISA_SET_FMA, {"x86.fma"}},
    {ZYDIS_ISA_SET_F16C, {"x86.f16c"}},
    {ZYDIS_ISA_SET_BMI1, {"x86.bmi1"}},
    {ZYDIS_ISA_SET_BMI2, {"x86.bmi2"}},
    {ZYDIS_ISA_SET_LZCNT, {"x86.lzcnt"}},
    {ZYDIS_ISA_SET_MOVBE, {"x86.movbe"}},
    {ZYDIS_ISA_SET_AVX_VNNI, {"x86.avxvnni"}},
    MLC_AVX512(AVX512F, "x86.avx512f"),
    {ZYDIS_ISA_SET_AVX512F_128N, {"x86.avx512f"}},
    {ZYDIS_ISA_SET_AVX512F_SCALAR, {"x86.avx512f"}},
    {ZYDIS_ISA_SET_AVX512F_KOP, {"x86.avx512f"}},
    MLC_AVX512(AVX512BW, "x86.avx512bw"),
    {ZYDIS_ISA_SET_AVX512BW_128N, {"x86.avx512bw"}},
    {ZYDIS_ISA_SET_AVX512BW_KOP, {"x86.avx512bw"}},
    MLC_AVX512(AVX512CD, "x86.avx512cd"),
    MLC_AVX512(AVX512DQ, "x86.avx512dq"),
    {ZYDIS_ISA_SET_AVX512DQ_128N, {"x86.avx512dq"}},
    {ZYDIS_ISA_SET_AVX512DQ_SCALAR, {"x86.avx512dq"}},
    {ZYDIS_ISA_SET_AVX512DQ_KOP, {"x86.avx512dq"}},
    MLC_AVX512(AVX512_VNNI, "x86.avx512vnni"),
    MLC_AVX512(AVX512_BF16, "x86.avx512bf16"),
    MLC_AVX512(AVX512_VBMI, "x86.avx512vbmi"),
    MLC_AVX512(AVX512_FP16, "x86.avx512fp16"),
    {ZYDIS_ISA_SET_AVX512_FP16_128N, {"x86.avx512fp16"}},
    {ZYDIS_ISA_SET_AVX512_FP16_SCALAR, {"x86.avx512fp16"}},
    {ZYDIS_ISA_SET_AMX_TILE, {"x86.amx_tile", "x86.amx_permission"}},
    {ZYDIS_ISA_SET_AMX_INT8, {"x86.amx_int8", "x86.amx_tile", "x86.amx_permission"}},
    {ZYDIS_ISA_SET_AMX_BF16, {"x86.amx_bf16", "x86.amx_tile", "x86.amx_permission"}},
};
#undef MLC_AVX512

// What the instruction sets above contain and kernels must not use. Null if nothing.
const char* forbidden(const ZydisDecodedInstruction& i) {
  switch (i.meta.category) {
    case ZYDIS_CATEGORY_INTERRUPT:
      // lld fills the gaps between functions with int3; reaching one is a crash, not a service.
      return i.mnemonic == ZYDIS_MNEMONIC_INT3 ? nullptr : "an interrupt";
    case ZYDIS_CATEGORY_IO: case ZYDIS_CATEGORY_IOSTRINGOP: return "an I/O instruction";
    case ZYDIS_CATEGORY_SYSCALL: case ZYDIS_CATEGORY_SYSRET: return "a system call";
    case ZYDIS_CATEGORY_SYSTEM: case ZYDIS_CATEGORY_VTX: case ZYDIS_CATEGORY_SEGOP: return "a system instruction";
    case ZYDIS_CATEGORY_X87_ALU: case ZYDIS_CATEGORY_MMX: return "x87 or MMX";
    case ZYDIS_CATEGORY_CET: return i.mnemonic == ZYDIS_MNEMONIC_ENDBR64 ? nullptr : "a shadow-stack instruction";
    default: break;
  }
  switch (i.mnemonic) {
    case ZYDIS_MNEMONIC_LDMXCSR: case ZYDIS_MNEMONIC_VLDMXCSR: case ZYDIS_MNEMONIC_STMXCSR:
    case ZYDIS_MNEMONIC_VSTMXCSR: return "a change of the floating-point mode";
    case ZYDIS_MNEMONIC_STD: case ZYDIS_MNEMONIC_CLI: case ZYDIS_MNEMONIC_STI: case ZYDIS_MNEMONIC_POPFQ:
      return "a change of the processor's flags";
    case ZYDIS_MNEMONIC_CPUID: case ZYDIS_MNEMONIC_HLT: case ZYDIS_MNEMONIC_UD0: case ZYDIS_MNEMONIC_UD1:
    case ZYDIS_MNEMONIC_UD2: return "a system or undefined instruction";
    default: return nullptr;
  }
}

}  // namespace

Status audit(const Target& target, const CodeRange& code, uint64_t& num_instructions) {
  ZydisDecoder decoder;
  if (!ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
    return Status(Code::Internal, "the decoder for x86 could not be set up");
  ZydisDecodedInstruction i;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  int64_t frame = 0;
  for (uint64_t at = 0; at < code.bytes.size();) {
    const uint64_t address = code.address + at;
    char where[40];
    std::snprintf(where, sizeof where, " at 0x%llx", static_cast<unsigned long long>(address));
    auto refuse = [&](std::string what) {
      const char* name = ZydisMnemonicGetString(i.mnemonic);
      return Status(Code::Internal, "refused: " + what).fact("instruction " + std::string(name ? name : "?") + where);
    };
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code.bytes.data() + at, code.bytes.size() - at, &i, operands)))
      return Status(Code::Internal, std::string("the bytes") + where + " are no instruction");
    ++num_instructions;
    if (const char* what = forbidden(i)) return refuse(what);
    const Row* row = nullptr;
    for (const Row& r : kRows)
      if (r.set == i.meta.isa_set) row = &r;
    if (!row) {
      const char* set = ZydisISASetGetString(i.meta.isa_set);
      return refuse("the instruction set " + std::string(set ? set : "?") + " has no row in the audit's table");
    }
    for (const char* feature : row->features)
      if (feature && !has_feature(target, feature))
        return refuse(std::string("needs ") + feature + ", which " + target.name + " does not list");

    const bool branches = i.meta.category == ZYDIS_CATEGORY_CALL || i.meta.category == ZYDIS_CATEGORY_COND_BR ||
                          i.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
    if (branches) {
      ZyanU64 target_address = 0;
      if (operands[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE ||
          !ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&i, &operands[0], address, &target_address)))
        return refuse("an indirect branch or call");
      if (target_address < code.address || target_address >= code.address + code.bytes.size())
        return refuse("a branch or call that leaves the module");
    }
    for (unsigned k = 0; k < i.operand_count; ++k) {
      const ZydisDecodedOperand& o = operands[k];
      if (o.type == ZYDIS_OPERAND_TYPE_MEMORY && (o.mem.segment == ZYDIS_REGISTER_FS || o.mem.segment == ZYDIS_REGISTER_GS))
        return refuse("thread-local memory");
      if (o.type != ZYDIS_OPERAND_TYPE_REGISTER) continue;
      if (o.reg.value >= ZYDIS_REGISTER_ST0 && o.reg.value <= ZYDIS_REGISTER_MM7) return refuse("x87 or MMX");
    }

    // Frames: sub rsp, imm; the fixed cost of pushes is small.
    const bool writes_rsp = i.operand_count > 0 && operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
                            operands[0].reg.value == ZYDIS_REGISTER_RSP &&
                            (operands[0].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE);
    if (writes_rsp && (i.mnemonic == ZYDIS_MNEMONIC_SUB || i.mnemonic == ZYDIS_MNEMONIC_ADD)) {
      if (operands[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE) return refuse("a stack frame of variable size");
      const int64_t delta = i.mnemonic == ZYDIS_MNEMONIC_SUB ? operands[1].imm.value.s : -operands[1].imm.value.s;
      frame = delta > 0 ? frame + delta : 0;
    } else if (writes_rsp && i.mnemonic == ZYDIS_MNEMONIC_LEA && operands[1].mem.base != ZYDIS_REGISTER_RBP) {
      const int64_t delta = -operands[1].mem.disp.value;
      if (operands[1].mem.index != ZYDIS_REGISTER_NONE) return refuse("a stack frame of variable size");
      frame = delta > 0 ? frame + delta : 0;
    } else if (i.meta.category == ZYDIS_CATEGORY_RET) {
      frame = 0;
    }
    if (frame > kMaxFrame) return refuse("a stack frame of more than 4096 bytes");
    at += i.length;
  }
  return ok();
}

}  // namespace mlc::targets::x86
