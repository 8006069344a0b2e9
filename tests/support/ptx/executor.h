// Runs an entry of PTX on the machine of lanes:
//
//   const auto image = targets::ptx::parse(text);
//   ptx::Executor program(image->entries[0], {address_a, address_b, tiles, launch, n});   // one number for each parameter
//   const std::string wrong = program.error().empty() ? lanes::run(program, memory, launch) : program.error();
//
// The entry must outlive it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "targets/ptx/parse.h"
#include "tests/support/lanes/lanes.h"
#include "tests/support/ptx/mma.h"
#include "tests/support/ptx/values.h"
#include "tests/support/ptx/wgmma.h"

namespace mlc::testing::ptx {

class Executor final : public lanes::Program {
 public:
  Executor(const targets::ptx::Entry& entry, std::vector<uint64_t> params) : entry_(entry), params_(std::move(params)) {
    if (params_.size() != entry.params.size()) error_ = "the entry has " + std::to_string(entry.params.size()) + " parameters";
    for (const targets::ptx::Instruction& i : entry.code) code_.push_back(decode(i));
  }

  const std::string& error() const { return error_; }  // of decoding
  uint32_t num_registers() const override { return entry_.num_registers; }

  void step(lanes::Block& block, uint32_t pc, std::span<const uint32_t> lanes) override {
    const Step& s = code_[pc];
    if (s.is_shuffle) return shuffle(block, s, pc, lanes);
    if (s.is_mma || s.is_matrices || s.is_group) return of_warps(block, s, pc, lanes);
    for (const uint32_t lane : lanes) {
      if (block.failed()) return;
      const std::span<uint64_t> regs = block.registers(lane);
      if (s.in->has_guard && (regs[s.in->guard] != 0) == s.in->guard_negated) block.go_to(lane, pc + 1);
      else (this->*s.run)({block, regs, s, lane, pc});
    }
  }

 private:
  using Operand = targets::ptx::Operand;
  static constexpr unsigned kPeerBits = 32;
  struct Step;
  struct At {
    lanes::Block& block;
    std::span<uint64_t> regs;
    const Step& s;
    uint32_t lane, pc;
  };
  using Run = void (Executor::*)(const At&);
  using Compute = bool (*)(const Step&, const uint64_t* in, uint64_t& out);  // false: undefined
  struct Step {
    const targets::ptx::Instruction* in = nullptr;
    Run run = nullptr;
    Compute compute = nullptr;
    ValueType type, first_type;
    std::string_view how;  // a modifier: "lt", "rzi"
    unsigned vector = 1;   // ld, st
    bool is_mma = false, is_shuffle = false, is_matrices = false, is_group = false;  // lanes of a warp do it together
  };

  static unsigned bits_of_class(targets::ptx::RegClass c) {
    using enum targets::ptx::RegClass;
    return c == Pred ? 1 : c == B16 ? 16 : c == B32 || c == F32 ? 32 : 64;
  }
  static bool is_braced(const targets::ptx::Instruction& i) { return i.op->parts[0] == "mov" && i.operands.size() == 3; }

  uint64_t value(const At& at, const Operand& o) const {
    using Kind = Operand::Kind;
    switch (o.kind) {
      case Kind::Register: return at.regs[o.number];
      case Kind::Number: return low_bits(uint64_t(o.value), at.s.type.bits);
      case Kind::Special: return o.number == uint32_t(targets::ptx::SpecialRegister::TidX)   ? at.block.lane_in_block(at.lane)
                                 : o.number == uint32_t(targets::ptx::SpecialRegister::CtaidX) ? at.block.index()[0] + at.block.block_of(at.lane)
                                                                                               : at.block.index()[1];
      case Kind::SharedAddress: return uint64_t(o.value);
      case Kind::Label: case Kind::Param: return 0;
    }
    return 0;
  }
  static void set(const At& at, const Operand& o, uint64_t v) { at.regs[o.number] = low_bits(v, bits_of_class(o.reg_class)); }
  static uint64_t extended(uint64_t v, ValueType t) { return t.is_signed() ? uint64_t(sign_extended(v, t.bits)) : low_bits(v, t.bits); }

  void compute(const At& at) {
    const targets::ptx::Instruction& i = *at.s.in;
    uint64_t in[5] = {}, out = 0;
    for (size_t k = 1; k < i.operands.size(); ++k) in[k - 1] = value(at, i.operands[k]);
    if (!at.s.compute(at.s, in, out)) return at.block.fail(at.lane, i.op->name + " of what it is not defined for");
    set(at, i.operands[0], out);
    at.block.go_to(at.lane, at.pc + 1);
  }
  void pack(const At& at) {  // and unpack: mov of halves in braces
    const targets::ptx::Instruction& i = *at.s.in;
    const unsigned half = at.s.type.bits / 2;
    if (bits_of_class(i.operands[0].reg_class) == half) {
      const uint64_t whole = value(at, i.operands[2]);
      set(at, i.operands[0], whole);
      set(at, i.operands[1], whole >> half);
    } else {
      set(at, i.operands[0], value(at, i.operands[1]) | value(at, i.operands[2]) << half);
    }
    at.block.go_to(at.lane, at.pc + 1);
  }
  // All lanes of a warp wait for each other, as the mask says, and each gets what the lane has whose number differs in these bits.
  void shuffle(lanes::Block& block, const Step& s, uint32_t pc, std::span<const uint32_t> lanes) {
    const auto& operands = s.in->operands;
    const auto flips = uint64_t(operands[2].value), clamp = uint64_t(operands[3].value), mask = low_bits(uint64_t(operands[4].value), 32);
    if (flips > 31 || clamp != 31 || mask != 0xffffffff) return block.fail(lanes[0], "a shuffle of other lanes than those of a warp");
    if (block.launch().lanes % 32 != 0) return block.fail(lanes[0], "a shuffle without some lanes of the warp");
    const auto at = [&](uint32_t lane) { return At{block, block.registers(lane), s, lane, pc}; };
    for (const uint32_t lane : lanes) {
      block.hold(lane);
      const uint32_t first = lane / 32 * 32;
      bool all = true;
      for (uint32_t k = 0; k < 32; ++k) all = all && block.is_held(first + k, pc);
      if (!all) continue;
      std::array<uint64_t, 32> given;
      for (uint32_t k = 0; k < 32; ++k) given[k] = value(at(first + k), operands[1]);
      for (uint32_t k = 0; k < 32; ++k) {
        set(at(first + k), operands[0], given[k ^ flips]);
        block.resume(first + k, pc + 1);
      }
    }
  }
  void branch(const At& at) { at.block.go_to(at.lane, at.s.in->operands[0].number); }
  void finish(const At& at) {
    if (products(at.lane).any()) return at.block.fail(at.lane, "ends before its products");
    at.block.finish(at.lane);
  }
  // Products of groups of warps.
  GroupProducts& products(uint32_t lane) {
    if (products_.size() <= lane) products_.resize(lane + 1);
    return products_[lane];
  }
  void fence_products(const At& at) {
    products(at.lane).fence();
    at.block.go_to(at.lane, at.pc + 1);
  }
  void commit_products(const At& at) {
    products(at.lane).commit();
    at.block.go_to(at.lane, at.pc + 1);
  }
  void wait_products(const At& at) {
    products(at.lane).wait(uint64_t(at.s.in->operands[0].value), at.regs);
    at.block.go_to(at.lane, at.pc + 1);
  }
  void fence_memory(const At& at) {
    at.block.fence(at.lane);
    at.block.go_to(at.lane, at.pc + 1);
  }
  void barrier(const At& at) { at.block.wait(at.lane, at.pc + 1); }
  void arrive(const At& at) { at.block.arrive(at.lane, at.pc + 1); }
  void wait_for_cluster(const At& at) { at.block.wait_for_cluster(at.lane, at.pc + 1); }
  // Where something of this block's memory is in that of another one: its number above the address.
  void map_to_peer(const At& at) {
    const auto& o = at.s.in->operands;
    set(at, o[0], address(at, o[1]) | (value(at, o[2]) + 1) << kPeerBits);
    at.block.go_to(at.lane, at.pc + 1);
  }

  // Lanes of a warp, or of four, wait until all of them are there.
  void of_warps(lanes::Block& block, const Step& s, uint32_t pc, std::span<const uint32_t> lanes) {
    const uint32_t width = s.is_group ? 128 : 32;
    if (block.launch().lanes % width != 0) return block.fail(lanes[0], s.in->op->name + " by fewer lanes than " + std::to_string(width));
    for (const uint32_t lane : lanes) {
      block.hold(lane);
      const uint32_t first = lane / width * width;
      bool all = true;
      for (uint32_t k = 0; k < width; ++k) all = all && block.is_held(first + k, pc);
      if (all && s.is_group) multiply_group(block, s, pc, first);
      else if (all) s.is_mma ? multiply(block, s, pc, first) : load_matrices(block, s, pc, first);
    }
  }
  // Lane 8m + i has the address of row i of matrix m, of eight elements of 16 bits; lane l gets of each matrix the elements 2(l%4) and 2(l%4) + 1 of row l/4, or of the column of that number.
  void load_matrices(lanes::Block& block, const Step& s, uint32_t pc, uint32_t first) {
    constexpr unsigned kRowBytes = 16;
    std::array<std::array<uint16_t, kRowBytes / 2>, 32> rows;
    for (uint32_t k = 0; k < 32; ++k) {
      const uint64_t place = address({block, block.registers(first + k), s, first + k, pc}, s.in->operands[4]);
      const std::byte* from = block.access(first + k, lanes::Space::Shared, place, kRowBytes, false, true);
      if (!from) return;
      std::memcpy(rows[k].data(), from, kRowBytes);
    }
    const bool by_columns = s.in->op->parts[5] == "trans";
    for (uint32_t k = 0; k < 32; ++k) {
      const uint32_t two = 2 * (k % 4), one = k / 4;
      for (uint32_t m = 0; m < 4; ++m)
        block.registers(first + k)[s.in->operands[m].number] = by_columns ? rows[8 * m + two][one] | uint64_t(rows[8 * m + two + 1][one]) << 16 : rows[8 * m + one][two] | uint64_t(rows[8 * m + one][two + 1]) << 16;
      block.resume(first + k, pc + 1);
    }
  }
  void multiply(lanes::Block& block, const Step& s, uint32_t pc, uint32_t first) {
    const auto& operands = s.in->operands;
    const auto& parts = s.in->op->parts;
    if (parts.back() == "s32") return multiply_codes(block, s, pc, first, parts[parts.size() - 3] == "s8", parts[parts.size() - 2] == "s8");
    std::array<MmaLane, 32> warp;
    for (uint32_t k = 0; k < 32; ++k) {
      const std::span<uint64_t> regs = block.registers(first + k);
      for (size_t r = 0; r < 4; ++r) warp[k].a[r] = uint32_t(regs[operands[4 + r].number]);
      for (size_t r = 0; r < 2; ++r) warp[k].b[r] = uint32_t(regs[operands[8 + r].number]);
      for (size_t r = 0; r < 4; ++r) warp[k].c[r] = as_f32(regs[operands[10 + r].number]);
    }
    mma(parts[parts.size() - 2], warp);
    for (uint32_t k = 0; k < 32; ++k) {
      for (size_t r = 0; r < 4; ++r) block.registers(first + k)[operands[r].number] = bits_of(warp[k].c[r]);
      block.resume(first + k, pc + 1);
    }
  }

  void multiply_codes(lanes::Block& block, const Step& s, uint32_t pc, uint32_t first, bool a_signed, bool b_signed) {
    const auto& operands = s.in->operands;
    std::array<MmaCodes, 32> warp;
    for (uint32_t k = 0; k < 32; ++k) {
      const std::span<uint64_t> regs = block.registers(first + k);
      for (size_t r = 0; r < 4; ++r) warp[k].a[r] = uint32_t(regs[operands[4 + r].number]);
      for (size_t r = 0; r < 2; ++r) warp[k].b[r] = uint32_t(regs[operands[8 + r].number]);
      for (size_t r = 0; r < 4; ++r) warp[k].c[r] = uint32_t(regs[operands[10 + r].number]);
    }
    mma_codes(a_signed, b_signed, warp);
    for (uint32_t k = 0; k < 32; ++k) {
      for (size_t r = 0; r < 4; ++r) block.registers(first + k)[operands[r].number] = warp[k].c[r];
      block.resume(first + k, pc + 1);
    }
  }

  // Sums of warp w of the four are of rows 16w .. 16w + 15: lane l has columns 8j + 2(l%4) and the next of rows l/4 and l/4 + 8.
  void multiply_group(lanes::Block& block, const Step& s, uint32_t pc, uint32_t first) {
    const auto& operands = s.in->operands;
    const auto& parts = s.in->op->parts;
    const bool of_codes = parts[5] == "s32";
    const size_t columns = std::stoul(std::string(parts[4].substr(4))), count = columns / 2;
    const auto at = [&](uint32_t lane) { return At{block, block.registers(lane), s, lane, pc}; };
    std::array<std::vector<std::vector<double>>, 2> factors;
    for (size_t f = 0; f < 2; ++f) {
      const uint64_t bits = at(first).regs[operands[count + f].number];
      for (uint32_t k = 0; k < 128; ++k)
        if (at(first + k).regs[operands[count + f].number] != bits || at(first + k).regs[operands[count + 2].number] != 1) return block.fail(first + k, "lanes of a group with other factors, or sums that do not count");
      auto read = group_factor(block, first, bits, parts[6 + f], f == 0 ? 64 : columns, !of_codes && operands[count + 5 + f].value == 1);
      if (!read) return;
      factors[f] = std::move(*read);
    }
    std::vector<uint32_t> registers;
    for (size_t k = 0; k < count; ++k) registers.push_back(operands[k].number);
    for (uint32_t k = 0; k < 128; ++k) {
      auto sums = products(first + k).begin(registers, block.registers(first + k));
      if (!sums) return block.fail(first + k, "products in registers without a fence, or some of those of others");
      for (size_t r = 0; r < count; ++r) {
        const auto &row = factors[0][k / 32 * 16 + k % 32 / 4 + r / 2 % 2 * 8], &column = factors[1][r / 4 * 8 + k % 4 * 2 + r % 2];
        double sum = of_codes ? double(int32_t((*sums)[r])) : as_f32((*sums)[r]);
        for (size_t d = 0; d < row.size(); ++d) sum += row[d] * column[d];
        (*sums)[r] = of_codes ? uint32_t(int64_t(sum)) : bits_of(float(sum));
      }
      products(first + k).set(registers, std::move(*sums), block.registers(first + k));
      block.resume(first + k, pc + 1);
    }
  }

  void load_param(const At& at) {
    const Operand& from = at.s.in->operands[1];
    if (from.value != 0 || at.s.type.bits != 8 * entry_.params[from.number].bytes) return at.block.fail(at.lane, "load of a part of a parameter");
    set(at, at.s.in->operands[0], params_[from.number]);
    at.block.go_to(at.lane, at.pc + 1);
  }
  lanes::Space space_of(const At& at) const { return at.s.in->op->parts[1] == "shared" ? lanes::Space::Shared : lanes::Space::Global; }
  uint64_t address(const At& at, const Operand& o) const {
    return (o.kind == Operand::Kind::Register ? at.regs[o.number] : 0) + uint64_t(o.value);
  }
  void load(const At& at) {
    const targets::ptx::Instruction& i = *at.s.in;
    const unsigned bytes = at.s.type.bits / 8;
    const uint64_t place = address(at, i.operands[at.s.vector]), peer = place >> kPeerBits;
    const bool of_peer = i.op->parts[1] == "shared::cluster";
    if (of_peer && peer == 0) return at.block.fail(at.lane, "load of another block's memory at an address of this one's");
    const std::byte* from = of_peer ? at.block.access(at.lane, lanes::Space::Shared, uint32_t(peer - 1), low_bits(place, kPeerBits), bytes * at.s.vector, false, true)
                                    : at.block.access(at.lane, space_of(at), place, bytes * at.s.vector, false, true);
    if (!from) return;
    for (unsigned k = 0; k < at.s.vector; ++k) {
      uint64_t v = 0;
      std::memcpy(&v, from + k * bytes, bytes);
      set(at, i.operands[k], extended(v, at.s.type));
    }
    at.block.go_to(at.lane, at.pc + 1);
  }
  void store(const At& at) {
    const targets::ptx::Instruction& i = *at.s.in;
    const unsigned bytes = at.s.type.bits / 8;
    std::byte* to = at.block.access(at.lane, space_of(at), address(at, i.operands[0]), bytes * at.s.vector, true, true);
    if (!to) return;
    if (space_of(at) == lanes::Space::Shared) at.block.note_store(at.lane);
    for (unsigned k = 0; k < at.s.vector; ++k) {
      const uint64_t v = value(at, i.operands[1 + k]);
      std::memcpy(to + k * bytes, &v, bytes);
    }
    at.block.go_to(at.lane, at.pc + 1);
  }
  void copy(const At& at) {
    const targets::ptx::Instruction& i = *at.s.in;
    const auto size = uint64_t(i.operands[2].value);
    const bool counted = i.operands.size() == 4;
    const uint64_t given = !counted ? size : i.operands[3].kind == Operand::Kind::Number ? uint64_t(i.operands[3].value) : low_bits(at.regs[i.operands[3].number], 32);
    if (given > size) return at.block.fail(at.lane, i.op->name + " of more bytes than it has");
    if (at.block.begin_copy(at.lane, address(at, i.operands[0]), address(at, i.operands[1]), size, given)) at.block.go_to(at.lane, at.pc + 1);
  }
  void close_copies(const At& at) {
    at.block.close_copies(at.lane);
    at.block.go_to(at.lane, at.pc + 1);
  }
  void wait_copies(const At& at) {
    if (at.block.wait_copies(at.lane, uint64_t(at.s.in->operands[0].value))) at.block.go_to(at.lane, at.pc + 1);
  }
  void compare_and_swap(const At& at) {
    const targets::ptx::Instruction& i = *at.s.in;
    uint64_t old = 0;
    if (!at.block.exchange(at.lane, lanes::Space::Global, address(at, i.operands[1]), at.s.type.bits / 8, value(at, i.operands[2]), value(at, i.operands[3]), old)) return;
    set(at, i.operands[0], old);
    at.block.go_to(at.lane, at.pc + 1);
  }

  Step decode(const targets::ptx::Instruction& i);
  static Compute computation(std::string_view name, const Step& s);
  static Compute float_computation(std::string_view name);
  static Compute integer_computation(std::string_view name);

  const targets::ptx::Entry& entry_;
  std::vector<uint64_t> params_;
  std::vector<Step> code_;
  std::vector<GroupProducts> products_;  // of each lane
  std::string error_;
};

inline Executor::Step Executor::decode(const targets::ptx::Instruction& i) {
  const targets::ptx::Opcode& op = *i.op;
  Step s;
  s.in = &i;
  if (!op.type.empty()) s.type = ValueType::of(op.type), s.first_type = ValueType::of(op.first_type);
  if (op.parts.size() > 1) s.how = op.parts[1];
  const std::string_view name = op.parts[0];
  if (name == "ld" || name == "st") {
    for (const std::string_view part : op.parts) s.vector = part == "v2" ? 2 : part == "v4" ? 4 : s.vector;
    s.run = s.how == "param" ? &Executor::load_param : name == "ld" ? &Executor::load : &Executor::store;
  } else if (name == "bra") {
    s.run = &Executor::branch;
  } else if (name == "ret") {
    s.run = &Executor::finish;
  } else if (name == "bar") {
    s.run = &Executor::barrier;
  } else if (name == "barrier") {
    s.run = op.parts[2] == "arrive" ? &Executor::arrive : &Executor::wait_for_cluster;
  } else if (name == "mapa") {
    s.run = &Executor::map_to_peer;
  } else if (name == "shfl") {
    s.is_shuffle = true;
  } else if (name == "atom") {
    s.run = &Executor::compare_and_swap;
  } else if (name == "cp") {
    const std::string_view what = op.parts[2];
    s.run = what == "commit_group" ? &Executor::close_copies : what == "wait_group" ? &Executor::wait_copies : &Executor::copy;
  } else if (name == "mma") {
    s.is_mma = true;
  } else if (name == "fence") {
    s.run = &Executor::fence_memory;
  } else if (name == "wgmma") {
    s.is_group = s.how == "mma_async";
    s.run = s.how == "fence" ? &Executor::fence_products : s.how == "commit_group" ? &Executor::commit_products : &Executor::wait_products;
  } else if (name == "ldmatrix") {
    s.is_matrices = true;
  } else if (is_braced(i)) {
    s.run = &Executor::pack;
  } else {
    s.run = &Executor::compute;
    s.compute = computation(name, s);
    if (!s.compute) error_ = "the executor does not know '" + op.name + "'";
  }
  return s;
}

inline Executor::Compute Executor::computation(std::string_view name, const Step& s) {
  static const std::map<std::string_view, Compute> any = {
      {"mov", [](const Step&, const uint64_t* in, uint64_t& out) { return out = in[0], true; }},
      {"selp", [](const Step&, const uint64_t* in, uint64_t& out) { return out = in[2] ? in[0] : in[1], true; }},
      {"cvt", [](const Step& t, const uint64_t* in, uint64_t& out) {
         if (const bool is_bf16 = t.first_type.kind == 'P'; is_bf16 || t.first_type.kind == 'p')
           return out = small_of(as_f32(in[0]), is_bf16) << 16 | small_of(as_f32(in[1]), is_bf16), true;
         const uint64_t v = converted(in[0], t.type, t.first_type, t.how);
         return out = t.first_type.is_float() ? v : extended(low_bits(v, t.first_type.bits), t.first_type), true;
       }},
      {"setp", [](const Step& t, const uint64_t* in, uint64_t& out) {
         out = !t.type.is_float()     ? compared_int(t.how, in[0], in[1], t.type)
               : t.type.bits == 32    ? compared(t.how, as_f32(in[0]), as_f32(in[1]))
                                      : compared(t.how, as_f64(in[0]), as_f64(in[1]));
         return true;
       }},
  };
  if (const auto found = any.find(name); found != any.end()) return found->second;
  if (s.type.kind == 'h') {
    if (name == "neg") return [](const Step&, const uint64_t* in, uint64_t& out) { return out = in[0] ^ 0x8000, true; };
    if (name == "abs") return [](const Step&, const uint64_t* in, uint64_t& out) { return out = in[0] & 0x7fff, true; };
    return nullptr;
  }
  return s.type.is_float() ? float_computation(name) : integer_computation(name);
}

// A computation of f32 and f64 alike.
#define MLC_PTX_FLOAT(expression)                                       \
  [](const Step& t, const uint64_t* in, uint64_t& out) {                \
    const auto run = [&]<class F>(F a, F b, F c) -> F {                 \
      (void)b, (void)c, (void)t;                                        \
      return expression;                                                \
    };                                                                  \
    if (t.type.bits == 32) out = bits_of(run(as_f32(in[0]), as_f32(in[1]), as_f32(in[2]))); \
    else out = bits_of(run(as_f64(in[0]), as_f64(in[1]), as_f64(in[2]))); \
    return true;                                                        \
  }
inline Executor::Compute Executor::float_computation(std::string_view name) {
  static const std::map<std::string_view, Compute> all = {
      {"add", MLC_PTX_FLOAT(a + b)},
      {"sub", MLC_PTX_FLOAT(a - b)},
      {"mul", MLC_PTX_FLOAT(a * b)},
      {"div", MLC_PTX_FLOAT(a / b)},
      {"fma", MLC_PTX_FLOAT(std::fma(a, b, c))},
      {"rcp", MLC_PTX_FLOAT(F(1) / a)},
      {"sqrt", MLC_PTX_FLOAT(std::sqrt(a))},
      {"ex2", MLC_PTX_FLOAT(a < F(-126) ? F(0) : std::exp2(a))},
      {"abs", MLC_PTX_FLOAT(std::fabs(a))},
      {"neg", MLC_PTX_FLOAT(-a)},
      {"min", MLC_PTX_FLOAT(smaller_float(true, t.how == "NaN", a, b))},
      {"max", MLC_PTX_FLOAT(smaller_float(false, t.how == "NaN", a, b))},
  };
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}
#undef MLC_PTX_FLOAT

// The result is cut to the width of the register that it goes to.
#define MLC_PTX_INTEGER(expression) \
  [](const Step& t, const uint64_t* in, uint64_t& out) { return (void)t, out = (expression), true; }
inline Executor::Compute Executor::integer_computation(std::string_view name) {
  static const std::map<std::string_view, Compute> all = {
      {"add", MLC_PTX_INTEGER(in[0] + in[1])},
      {"sub", MLC_PTX_INTEGER(in[0] - in[1])},
      {"mul", MLC_PTX_INTEGER(t.how == "lo"   ? in[0] * in[1]
                              : t.how == "hi" ? high_product(in[0], in[1], t.type)
                                              : wide_product(in[0], in[1], t.type))},
      {"mad", MLC_PTX_INTEGER((t.how == "lo" ? in[0] * in[1] : wide_product(in[0], in[1], t.type)) + in[2])},
      {"div", [](const Step& t, const uint64_t* in, uint64_t& out) { return quotient(in[0], in[1], t.type, false, out); }},
      {"rem", [](const Step& t, const uint64_t* in, uint64_t& out) { return quotient(in[0], in[1], t.type, true, out); }},
      {"abs", MLC_PTX_INTEGER(sign_extended(in[0], t.type.bits) < 0 ? 0 - in[0] : in[0])},
      {"neg", MLC_PTX_INTEGER(0 - in[0])},
      {"min", MLC_PTX_INTEGER(smaller(true, in[0], in[1], t.type))},
      {"max", MLC_PTX_INTEGER(smaller(false, in[0], in[1], t.type))},
      {"clz", MLC_PTX_INTEGER(uint64_t(std::countl_zero(in[0])) - (64 - t.type.bits))},
      {"bfe", MLC_PTX_INTEGER(field_of(in[0], in[1], in[2], t.type))},
      {"bfi", MLC_PTX_INTEGER(with_field(in[0], in[1], in[2], in[3], t.type))},
      {"dp4a", MLC_PTX_INTEGER(in[2] + dot_of_codes(in[0], in[1], t.how == "s32", t.type.is_signed()))},
      {"prmt", MLC_PTX_INTEGER(permuted(in[0], in[1], in[2]))},
      {"shf", MLC_PTX_INTEGER(funnel(t.how == "l", in[0], in[1], in[2]))},
      {"and", MLC_PTX_INTEGER(in[0] & in[1])},
      {"or", MLC_PTX_INTEGER(in[0] | in[1])},
      {"xor", MLC_PTX_INTEGER(in[0] ^ in[1])},
      {"not", MLC_PTX_INTEGER(~in[0])},
      {"shl", MLC_PTX_INTEGER(shifted(true, in[0], in[1], t.type))},
      {"shr", MLC_PTX_INTEGER(shifted(false, in[0], in[1], t.type))},
  };
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}
#undef MLC_PTX_INTEGER

}  // namespace mlc::testing::ptx
