// AMX by trap: where a processor has no such unit its instructions raise SIGILL, and what they do is done here, by Intel's manual (volume 2). So
// code with tiles runs in tests on any x86-64, the code around it natively. One thread at a time.
#pragma once

#if defined(__x86_64__) && defined(__linux__)

#include <signal.h>
#include <ucontext.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace mlc::testing {

class AmxTrap {
 public:
  // Which instructions were met, and whether one of them was none that a kernel may use.
  struct Seen {
    unsigned configured = 0, zeroed = 0, products = 0, stored = 0, released = 0;
    bool wrong = false;
  };

  AmxTrap() {
    machine() = {};
    struct sigaction action {};
    action.sa_sigaction = &trapped;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, &before_);
  }
  ~AmxTrap() { sigaction(SIGILL, &before_, nullptr); }
  AmxTrap(const AmxTrap&) = delete;
  const Seen& seen() const { return machine().seen; }

 private:
  struct Machine {
    Seen seen;
    bool configured = false;
    std::array<unsigned, 8> rows{}, bytes{};
    std::array<std::array<std::array<uint8_t, 64>, 16>, 8> tiles{};
  };
  static Machine& machine() {
    static Machine m;
    return m;
  }

  static uint64_t register_of(const ucontext_t& c, unsigned number) {
    constexpr int kOrder[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return static_cast<uint64_t>(c.uc_mcontext.gregs[kOrder[number]]);
  }

  // An instruction with a VEX prefix of three bytes.
  struct Decoded {
    const uint8_t* end = nullptr;
    unsigned prefix = 0, other = 0, opcode = 0, reg = 0, rm = 0;
    bool is_memory = false;
    uint64_t address = 0, index = 0;  // with the index, or without: tiles take it as a stride
  };
  static bool decode(const ucontext_t& c, Decoded& d) {
    const auto* p = reinterpret_cast<const uint8_t*>(c.uc_mcontext.gregs[REG_RIP]);
    if (p[0] != 0xc4 || (p[1] & 31) != 2 || (p[2] & 0x84) != 0) return false;
    const unsigned r = p[1] & 0x80 ? 0 : 8, x = p[1] & 0x40 ? 0 : 8, b = p[1] & 0x20 ? 0 : 8;
    d.other = ~(p[2] >> 3) & 15, d.prefix = p[2] & 3, d.opcode = p[3];
    const unsigned mod = p[4] >> 6, rm = p[4] & 7;
    d.reg = (p[4] >> 3 & 7) + r, d.rm = rm + b;
    d.end = p + 5;
    if (mod == 3) return true;
    d.is_memory = true;
    const auto displacement = [&](unsigned bytes) {
      int32_t value = 0;
      if (bytes == 1) value = static_cast<int8_t>(*d.end);
      else std::memcpy(&value, d.end, 4);
      d.end += bytes;
      return static_cast<uint64_t>(int64_t{value});
    };
    if (rm == 4) {
      const unsigned sib = *d.end++, base = sib & 7, index = (sib >> 3 & 7) + x;
      if (index != 4) d.index = register_of(c, index) << (sib >> 6);
      if (base == 5 && mod == 0) d.address = displacement(4);
      else d.address = register_of(c, base + b);
    } else if (rm == 5 && mod == 0) {
      const uint64_t ahead = displacement(4);
      d.address = reinterpret_cast<uint64_t>(d.end) + ahead;
    } else {
      d.address = register_of(c, d.rm);
    }
    if (mod == 1) d.address += displacement(1);
    if (mod == 2) d.address += displacement(4);
    return true;
  }

  static bool configure(Machine& m, const uint8_t* from) {
    m.tiles = {};
    for (unsigned t = 0; t < 8; ++t) {
      uint16_t bytes = 0;
      std::memcpy(&bytes, from + 16 + 2 * t, 2);
      m.bytes[t] = bytes, m.rows[t] = from[48 + t];
      if (bytes > 64 || m.rows[t] > 16 || (bytes == 0) != (m.rows[t] == 0)) return false;
    }
    for (unsigned k = 2; k < 16; ++k)
      if (from[k] || from[k + 30]) return false;  // reserved, as is what lies behind eight tiles
    m.configured = from[0] == 1 && from[1] == 0;
    ++m.seen.configured;
    return m.configured;
  }

  // tile += a*b: groups of four codes of a row of a, and of a column of b.
  static bool multiply(Machine& m, unsigned sums, unsigned a, unsigned b, bool a_signed, bool b_signed) {
    if (sums == a || sums == b || a == b || m.bytes[a] != 4 * m.rows[b] || m.rows[sums] != m.rows[a] || m.bytes[sums] != m.bytes[b]) return false;
    const auto code = [](uint8_t bits, bool is_signed) { return is_signed ? int32_t{static_cast<int8_t>(bits)} : int32_t{bits}; };
    for (unsigned r = 0; r < m.rows[a]; ++r)
      for (unsigned c = 0; c < m.bytes[b] / 4; ++c) {
        uint32_t sum = 0;
        std::memcpy(&sum, m.tiles[sums][r].data() + 4 * c, 4);
        for (unsigned k = 0; k < m.bytes[a]; ++k)
          sum += static_cast<uint32_t>(code(m.tiles[a][r][k], a_signed) * code(m.tiles[b][k / 4][4 * c + k % 4], b_signed));
        std::memcpy(m.tiles[sums][r].data() + 4 * c, &sum, 4);
      }
    ++m.seen.products;
    return true;
  }

  // tile += a*b of pairs of bf16; these tests have whole numbers, whose sums are the same in any order.
  static bool multiply_pairs(Machine& m, unsigned sums, unsigned a, unsigned b) {
    if (sums == a || sums == b || a == b || m.bytes[a] != 4 * m.rows[b] || m.rows[sums] != m.rows[a] || m.bytes[sums] != m.bytes[b]) return false;
    const auto number = [](const uint8_t* at) {
      uint32_t bits = uint32_t{at[1]} << 24 | uint32_t{at[0]} << 16;
      float value = 0;
      std::memcpy(&value, &bits, 4);
      return value;
    };
    for (unsigned r = 0; r < m.rows[a]; ++r)
      for (unsigned c = 0; c < m.bytes[b] / 4; ++c) {
        float sum = 0;
        std::memcpy(&sum, m.tiles[sums][r].data() + 4 * c, 4);
        for (unsigned k = 0; k < m.bytes[a] / 2; ++k) sum += number(m.tiles[a][r].data() + 2 * k) * number(m.tiles[b][k / 2].data() + 4 * c + 2 * (k % 2));
        std::memcpy(m.tiles[sums][r].data() + 4 * c, &sum, 4);
      }
    ++m.seen.products;
    return true;
  }

  static bool run(Machine& m, const Decoded& d) {
    if (d.opcode == 0x49 && d.prefix == 0) {
      if (d.is_memory) return configure(m, reinterpret_cast<const uint8_t*>(d.address));
      m.configured = false;
      ++m.seen.released;
      return d.reg == 0 && d.rm == 0;
    }
    if (!m.configured || d.reg > 7 || d.rm > 15 || d.other > 15) return false;
    if (d.opcode == 0x49 && d.prefix == 3) return m.tiles[d.reg] = {}, ++m.seen.zeroed, d.rm == 0;
    if (d.opcode == 0x4b && d.is_memory && d.prefix >= 1) {
      for (unsigned r = 0; r < m.rows[d.reg]; ++r) {
        auto* row = reinterpret_cast<uint8_t*>(d.address + r * d.index);
        if (d.prefix == 2) std::memcpy(row, m.tiles[d.reg][r].data(), m.bytes[d.reg]);
        else m.tiles[d.reg][r].fill(0), std::memcpy(m.tiles[d.reg][r].data(), row, m.bytes[d.reg]);
      }
      m.seen.stored += d.prefix == 2;
      return true;
    }
    if (d.opcode == 0x5c && d.prefix == 2) return !d.is_memory && d.rm < 8 && d.other < 8 && multiply_pairs(m, d.reg, d.rm, d.other);
    // No prefix: both unsigned; 66: b is signed; F3: a is; F2: both are.
    return d.opcode == 0x5e && !d.is_memory && d.rm < 8 && d.other < 8 && multiply(m, d.reg, d.rm, d.other, d.prefix >= 2, d.prefix == 1 || d.prefix == 3);
  }

  static void trapped(int, siginfo_t*, void* context) {
    auto& c = *static_cast<ucontext_t*>(context);
    Decoded d;
    if (!decode(c, d) || !run(machine(), d)) {
      machine().seen.wrong = true;
      signal(SIGILL, SIG_DFL);  // the instruction comes again, and ends the test
      return;
    }
    c.uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(reinterpret_cast<uintptr_t>(d.end));
  }

  struct sigaction before_ {};
};

}  // namespace mlc::testing

#endif
