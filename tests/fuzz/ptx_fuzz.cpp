// libs: mlc_targets mlc_loop mlc_ir mlc_schema mlc_base
// Any text: refused with a message, or an image whose every instruction is in the table, names registers, parameters and places
// that there are, and ends.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "targets/ptx/parse.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlc::targets::ptx;
  const auto image = parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!image.ok()) {
    if (image.status().message.empty()) std::abort();
    return 0;
  }
  if (image->entries.empty()) std::abort();
  for (const Entry& e : image->entries) {
    if (e.code.empty() || e.code.back().has_guard || e.shared_bytes > kMaxSharedBytes || e.params.size() > kMaxParams) std::abort();
    for (const Instruction& i : e.code) {
      if (!i.op || i.operands.size() > kMaxOperands || (i.has_guard && i.guard >= e.num_registers)) std::abort();
      for (size_t k = 0; k < i.operands.size(); ++k) {
        const Operand& o = i.operands[k];
        if ((o.kind == Operand::Kind::Register && o.number >= e.num_registers) || (o.kind == Operand::Kind::Param && o.number >= e.params.size()) ||
            (o.kind == Operand::Kind::Label && o.number >= e.code.size()))
          std::abort();
      }
    }
  }
  return 0;
}
