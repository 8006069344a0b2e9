// The numbers of SPIR-V that we use, from the public specification (Khronos, "SPIR-V Specification" and "SPIR-V Extended Instructions
// for GLSL"). What is not here is neither written nor taken by the audit.
//
// A module is a stream of 32-bit words: a header of five, then instructions. The first word of an instruction is its length in words
// (upper half) and its opcode; ids are numbers below a bound, each defined by one instruction.
#pragma once

#include <cstdint>

namespace mlc::targets::spirv {

using Id = uint32_t;

inline constexpr uint32_t kMagic = 0x07230203, kVersion13 = 0x00010300, kVersion16 = 0x00010600, kHeaderWords = 5;

enum class Op : uint16_t {
  Extension = 10, ExtInstImport = 11, ExtInst = 12, MemoryModel = 14, EntryPoint = 15, ExecutionMode = 16, Capability = 17,
  TypeVoid = 19, TypeBool = 20, TypeInt = 21, TypeFloat = 22, TypeVector = 23, TypeArray = 28, TypeRuntimeArray = 29, TypeStruct = 30,
  TypePointer = 32, TypeFunction = 33, ConstantTrue = 41, ConstantFalse = 42, Constant = 43, ConstantComposite = 44,
  Function = 54, FunctionEnd = 56, Variable = 59, Load = 61, Store = 62, AccessChain = 65, Decorate = 71, MemberDecorate = 72,
  ConvertFToU = 109, ConvertFToS = 110, ConvertSToF = 111, ConvertUToF = 112, UConvert = 113, SConvert = 114, FConvert = 115,
  Bitcast = 124, SNegate = 126, FNegate = 127, IAdd = 128, FAdd = 129, ISub = 130, FSub = 131, IMul = 132, FMul = 133,
  UDiv = 134, SDiv = 135, FDiv = 136, UMod = 137,
  LogicalEqual = 164, LogicalNotEqual = 165, LogicalOr = 166, LogicalAnd = 167, LogicalNot = 168, Select = 169,
  IEqual = 170, INotEqual = 171, UGreaterThan = 172, SGreaterThan = 173, UGreaterThanEqual = 174, SGreaterThanEqual = 175,
  ULessThan = 176, SLessThan = 177, ULessThanEqual = 178, SLessThanEqual = 179,
  FOrdEqual = 180, FUnordNotEqual = 183, FOrdLessThan = 184, FOrdGreaterThan = 186, FOrdLessThanEqual = 188, FOrdGreaterThanEqual = 190,
  ShiftRightLogical = 194, ShiftRightArithmetic = 195, ShiftLeftLogical = 196, BitwiseOr = 197, BitwiseXor = 198, BitwiseAnd = 199, Not = 200,
  ControlBarrier = 224, AtomicCompareExchange = 230,
  GroupNonUniformShuffleXor = 346, GroupNonUniformIAdd = 349, GroupNonUniformIMul = 351, GroupNonUniformSMin = 353, GroupNonUniformUMin = 354,
  GroupNonUniformSMax = 356, GroupNonUniformUMax = 357, GroupNonUniformLogicalAnd = 362, GroupNonUniformLogicalOr = 363,
  SDot = 4450, UDot = 4451, SUDot = 4452,
  TypeCooperativeMatrix = 4456, CooperativeMatrixLoad = 4457, CooperativeMatrixStore = 4458, CooperativeMatrixMulAdd = 4459,
  LoopMerge = 246, SelectionMerge = 247, Label = 248, Branch = 249, BranchConditional = 250, Return = 253,
};

// Instructions of the set "GLSL.std.450".
enum class Glsl : uint32_t { RoundEven = 2, Trunc = 3, FAbs = 4, Floor = 8, Ceil = 9, Sqrt = 31, Fma = 50 };

enum class Capability : uint32_t {
  Shader = 1, Float16 = 9, Float64 = 10, Int64 = 11, GroupNonUniform = 61, GroupNonUniformArithmetic = 63, GroupNonUniformShuffle = 65, StorageBuffer16BitAccess = 4433, StorageBuffer8BitAccess = 4448, SignedZeroInfNanPreserve = 4466,
  VulkanMemoryModel = 5345,
  DotProductInput4x8BitPacked = 6018, DotProduct = 6019, CooperativeMatrix = 6022,
};

enum class StorageClass : uint32_t { Input = 1, Workgroup = 4, Function = 7, PushConstant = 9, StorageBuffer = 12 };
enum class Decoration : uint32_t {
  Block = 2, ArrayStride = 6, BuiltIn = 11, Aliased = 20, Coherent = 23, NonWritable = 24, Binding = 33, DescriptorSet = 34, Offset = 35, NoContraction = 42,
};
enum class BuiltIn : uint32_t { WorkgroupId = 26, LocalInvocationIndex = 29, SubgroupSize = 36, SubgroupId = 40, SubgroupLocalInvocationId = 41 };
enum class Mode : uint32_t { LocalSize = 17, SignedZeroInfNanPreserve = 4461 };

inline constexpr uint32_t kLogicalAddressing = 0, kGlsl450Memory = 1, kVulkanMemory = 3, kGlCompute = 5;
inline constexpr uint32_t kScopeDevice = 1, kScopeWorkgroup = 2, kScopeSubgroup = 3;
inline constexpr uint32_t kReduce = 0;  // of operations of a group
inline constexpr uint32_t kPacked4x8 = 0;  // of dot products: words of four codes
inline constexpr uint32_t kLeastSubgroup = 4, kMostSubgroup = 64;  // lanes
inline constexpr uint32_t kAcquireRelease = 0x8, kUniformMemory = 0x40, kWorkgroupMemory = 0x100, kMakeAvailable = 0x2000, kMakeVisible = 0x4000;
inline constexpr uint32_t kNonPrivate = 0x20;  // of a load or a store: other lanes are told
enum class MatrixUse : uint32_t { A = 0, B = 1, Accumulator = 2 };
inline constexpr uint32_t kRowMajor = 0, kColumnMajor = 1;  // how a matrix lies in memory

inline constexpr char kGlslSet[] = "GLSL.std.450", kFloatControls[] = "SPV_KHR_float_controls", k8BitStorage[] = "SPV_KHR_8bit_storage", kMatrixExtension[] = "SPV_KHR_cooperative_matrix";

}  // namespace mlc::targets::spirv
