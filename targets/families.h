// The emitters there are, one folder each, and the audits of machine code, which tests call too.
#pragma once

#include "targets/cpu_emitter.h"

namespace mlc::targets {

// An audit fails with an instruction's address and text as facts. `num_instructions` counts upward.
namespace x86 {
const Emitter& emitter();
Status audit(const Target& target, const CodeRange& code, uint64_t& num_instructions);
}  // namespace x86
namespace aarch64 {
// Bytes of the longest vector registers that code may meet: registers of SVE on the stack count with as many each. No processor has longer ones; the
// architecture allows four times as many, and frames that count with these leave a kernel 15 registers to spill.
inline constexpr int64_t kMostSveBytes = 64;
const Emitter& emitter();
Status audit(const Target& target, const CodeRange& code, uint64_t& num_instructions);
}  // namespace aarch64
namespace riscv {
// Bytes of the longest vector registers that code may meet: registers on the stack take as many each, and frames are bounded (kMaxFrame).
inline constexpr int64_t kMostVlenb = 128;
const Emitter& emitter();
Status audit(const Target& target, const CodeRange& code, uint64_t& num_instructions);
}  // namespace riscv
namespace loongarch {
const Emitter& emitter();
Status audit(const Target& target, const CodeRange& code, uint64_t& num_instructions);
}  // namespace loongarch
namespace ptx {
const Emitter& emitter();
}  // namespace ptx
namespace spirv {
const Emitter& emitter();
}  // namespace spirv
namespace portable {
const Emitter& emitter();
}  // namespace portable

}  // namespace mlc::targets
