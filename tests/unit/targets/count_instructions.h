#pragma once

#include <Zydis/Zydis.h>
#include <doctest/doctest.h>

#include <span>
#include <string_view>

#include "targets/llvm/disassemble.h"
#include "targets/module_elf.h"
#include "targets/target.h"

namespace mlc::testing {

// How often a module has an instruction: x86 by its mnemonic, AArch64 by the beginning of LLVM's name.
inline size_t count_instructions(const targets::Target& target, std::span<const std::byte> module, std::string_view name) {
  auto elf = targets::read_module_elf(module, target.machine);
  REQUIRE(elf.ok());
  size_t found = 0;
  for (const targets::CodeRange& code : elf->code) {
    if (target.machine == Machine::AArch64) {
      (void)targets::disassemble(target, {}, code, [&](const targets::Instruction& i) -> Status {
        return found += i.name.substr(0, name.size()) == name, ok();
      });
      continue;
    }
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    ZydisDecodedInstruction i;
    for (size_t at = 0; at < code.bytes.size(); at += i.length) {
      REQUIRE(ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, nullptr, code.bytes.data() + at, code.bytes.size() - at, &i)));
      found += name == ZydisMnemonicGetString(i.mnemonic);
    }
  }
  return found;
}

}  // namespace mlc::testing
