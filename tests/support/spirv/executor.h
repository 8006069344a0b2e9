// Executes SPIR-V words on the machine of lanes. Everything unknown is an error, and so is what SPIR-V or Vulkan leave undefined:
// division by zero, shifts of the whole width, conversions that do not fit, sums and products that may be contracted.
#pragma once

#include <bit>
#include <cmath>
#include <optional>

#include "packager/ir/numeric.h"
#include "tests/support/lanes/lanes.h"
#include "tests/support/spirv/program.h"

namespace mlc::testing::spirv {

// What a device may do that the processor does not.
struct Manners {
  int division_ulps = 0;   // OpFDiv and Sqrt of f32 are wrong by so much
  bool flushes = false;    // subnormal f32 are read as zero, and never made
  bool fuses = true;       // Fma rounds once
  uint32_t subgroup = 8;   // lanes of a subgroup
};

class Executor final : public lanes::Program {
 public:
  Executor(std::span<const uint32_t> words, Manners manners = {}) : image_(Reader::read(words)), manners_(manners) {
    constants_.assign(image_.bound, 0);
    is_constant_.assign(image_.bound, false);
    for (const auto& [id, v] : image_.constants)
      if (id < image_.bound) constants_[id] = v, is_constant_[id] = true;
    types_.assign(image_.bound, nullptr);
    for (const auto& [id, t] : image_.type_of)
      if (id < image_.bound && image_.types.contains(t)) types_[id] = &image_.types[t];
  }

  void pin_subgroup(uint32_t lanes) { manners_.subgroup = lanes; }
  const Image& image() const { return image_; }
  const std::string& error() const { return image_.error; }  // of reading
  std::map<uint32_t, uint64_t> buffers;                      // address by binding
  std::vector<std::byte> push;

  uint32_t num_registers() const override { return image_.bound + image_.num_slots; }

  void step(lanes::Block& block, uint32_t pc, std::span<const uint32_t> together) override {
    if (pc >= image_.code.size()) return block.fail(together[0], "runs out of the function");
    const Instruction& i = image_.code[pc];
    if (is_of_matrices(i)) return matrices(block, i, pc, together);
    if (i.op >= Op::GroupNonUniformShuffleXor && i.op <= Op::GroupNonUniformLogicalOr) return between_lanes(block, i, pc, together);
    for (const uint32_t lane : together) {
      block_ = &block, lane_ = lane, registers_ = block.registers(lane);
      if (!control(i, pc)) {
        uint64_t r = 0;
        if (!compute(i, r)) return block.fail(lane, "instruction " + std::to_string(int(i.op)) + " is unknown or undefined here");
        if (i.result) registers_[i.result] = r;
        block.go_to(lane, pc + 1);
      }
      if (block.failed()) return;
    }
  }

 private:
  bool control(const Instruction& i, uint32_t pc) {
    switch (i.op) {
      case Op::LoopMerge: case Op::SelectionMerge: block_->go_to(lane_, pc + 1); return true;
      case Op::Branch: block_->go_to(lane_, image_.labels[i.args[0]]); return true;
      case Op::BranchConditional: block_->go_to(lane_, image_.labels[i.args[value(i.args[0]) ? 1 : 2]]); return true;
      case Op::Return: block_->finish(lane_); return true;
      case Op::ControlBarrier: block_->wait(lane_, pc + 1); return true;
      default: return false;
    }
  }

  uint64_t value(Id id) const {
    if (id >= image_.bound) return block_->fail(lane_, "an id beyond the bound"), 0;
    return is_constant_[id] ? constants_[id] : registers_[id];
  }
  const Type* type_of(Id id) const { return id < types_.size() ? types_[id] : nullptr; }
  uint32_t width_of(Id id) const { return type_of(id) ? type_of(id)->width : 0; }
  static uint64_t mask(uint32_t width) { return width >= 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1; }
  static int64_t extended(uint64_t v, uint32_t width) { return static_cast<int64_t>(v << (64 - width)) >> (64 - width); }

  // Pointers: an address in memory, a place in shared memory, a register, a byte of the push constants, a number of an input.
  bool pointer(const Instruction& i, uint64_t& r) {
    const auto v = image_.variables.find(i.args[0]);
    if (v == image_.variables.end()) return false;
    const Type* t = &image_.types[image_.types[v->second.type].element];
    if (v->second.where == StorageClass::StorageBuffer) {
      const auto bound = buffers.find(v->second.binding);
      if (bound == buffers.end()) return block_->fail(lane_, "binding " + std::to_string(v->second.binding) + " is not bound"), false;
      r = bound->second;
    } else if (v->second.where == StorageClass::Function) {
      r = image_.bound + v->second.slot;
    }
    for (size_t k = 1; k < i.args.size(); ++k) {
      const uint64_t index = value(i.args[k]);
      Id next = t->element;
      if (t->op == Op::TypeStruct) {
        if (index >= t->members.size()) return false;
        r += t->offsets[index];
        next = t->members[index];
      } else if (t->op == Op::TypeRuntimeArray) {
        r += index * t->stride;
      } else if (t->op == Op::TypeArray || t->op == Op::TypeVector) {
        if (index >= t->count) return block_->fail(lane_, "element " + std::to_string(index) + " of an array of " + std::to_string(t->count)), false;
        r += index * (v->second.where == StorageClass::Function || t->op == Op::TypeVector ? 1 : t->stride);
      } else {
        return false;
      }
      t = &image_.types[next];
    }
    return true;
  }

  // Of a lane, as subgroups count: in another order than LocalInvocationIndex, since Vulkan promises none.
  uint32_t number() const { return block_->launch().lanes - 1 - lane_; }
  uint32_t lane_of(uint32_t number) const { return block_->launch().lanes - 1 - number; }

  // What lanes of a subgroup tell each other: all of the block are here.
  void between_lanes(lanes::Block& block, const Instruction& i, uint32_t pc, std::span<const uint32_t> together) {
    block_ = &block;
    const uint32_t lanes = block.launch().lanes, size = manners_.subgroup;
    if (together.size() != lanes) return block.fail(together[0], "an operation of subgroups where lanes have parted");
    if (size == 0 || lanes % size != 0 || i.args.size() != 3) return block.fail(together[0], "subgroups that are not full");
    const bool is_shuffle = i.op == Op::GroupNonUniformShuffleXor;
    if (!is_shuffle && i.args[1] != targets::spirv::kReduce) return block.fail(together[0], "an operation of subgroups that is no reduction");
    std::vector<uint64_t> given(lanes), result(lanes);
    const auto at = [&](uint32_t lane) { lane_ = lane, registers_ = block.registers(lane); };
    for (uint32_t n = 0; n < lanes; ++n) at(lane_of(n)), given[n] = value(i.args[is_shuffle ? 1 : 2]);
    for (uint32_t n = 0; n < lanes; ++n) {
      const uint32_t first = n / size * size;
      if (is_shuffle) {
        at(lane_of(n));
        const uint64_t partner = (n % size) ^ value(i.args[2]);
        if (partner >= size) return block.fail(lane_, "a shuffle beyond the subgroup");
        result[n] = given[first + partner];
      } else if (n == first) {
        result[n] = given[n];
        for (uint32_t k = 1; k < size; ++k) result[n] = joined(i.op, result[n], given[first + k]);
      } else {
        result[n] = result[first];
      }
    }
    for (uint32_t n = 0; n < lanes; ++n) at(lane_of(n)), registers_[i.result] = result[n], block.go_to(lane_of(n), pc + 1);
  }
  // Matrices, row by row. What a subgroup has of them stands beside its lanes' registers, under the number of the value or of the variable; another block finds nothing there.
  struct Matrix {
    std::array<uint32_t, 3> block{};
    std::vector<float> elements;
  };
  bool is_matrix(Id id) const { return type_of(id) && type_of(id)->op == Op::TypeCooperativeMatrix; }
  bool is_of_matrices(const Instruction& i) const {
    if (i.op >= Op::CooperativeMatrixLoad && i.op <= Op::CooperativeMatrixMulAdd) return true;
    return (i.op == Op::Load && is_matrix(i.result)) || (i.op == Op::Store && i.args.size() >= 2 && is_matrix(i.args[1]));
  }
  const std::vector<float>* matrix_of(uint64_t number, uint32_t subgroup) {
    const Matrix& m = kept_[{number, subgroup}];
    if (m.elements.empty() || m.block != block_->index()) return block_->fail(lane_, "a matrix that holds nothing"), nullptr;
    return &m.elements;
  }
  // The value of an id, which may be a constant.
  std::optional<std::vector<float>> matrix(Id id, uint32_t subgroup) {
    if (!is_matrix(id)) return block_->fail(lane_, "a value that is no matrix"), std::nullopt;
    const uint32_t side = type_of(id)->count;
    if (is_constant_[id]) return std::vector<float>(side * side, std::bit_cast<float>(static_cast<uint32_t>(constants_[id])));
    const std::vector<float>* found = matrix_of(id, subgroup);
    return found ? std::optional(*found) : std::nullopt;
  }
  void keep(uint64_t number, uint32_t subgroup, std::vector<float> elements) { kept_[{number, subgroup}] = {block_->index(), std::move(elements)}; }

  // What subgroups do together: all lanes of the block are here, and those of a subgroup name the same places.
  void matrices(lanes::Block& block, const Instruction& i, uint32_t pc, std::span<const uint32_t> together) {
    block_ = &block;
    const uint32_t lanes = block.launch().lanes, size = manners_.subgroup;
    if (together.size() != lanes) return block.fail(together[0], "a matrix where lanes have parted");
    if (size == 0 || lanes % size != 0) return block.fail(together[0], "subgroups that are not full");
    const auto at = [&](uint32_t lane) { lane_ = lane, registers_ = block.registers(lane); };
    for (uint32_t group = 0; group < lanes / size && !block.failed(); ++group) {
      std::vector<uint32_t> all;
      for (uint32_t k = 0; k < size; ++k) all.push_back(lane_of(group * size + k));
      at(all[0]);
      switch (i.op) {
        case Op::Load:
          if (const auto* m = matrix_of(place(i.args[0]), group)) keep(i.result, group, *m);
          break;
        case Op::Store:
          if (const auto m = matrix(i.args[1], group)) keep(place(i.args[0]), group, *m);
          break;
        case Op::CooperativeMatrixMulAdd: multiply(i, group); break;
        default: through_memory(i, group, all, at);
      }
    }
    for (uint32_t lane = 0; lane < lanes; ++lane) block.go_to(lane, pc + 1);
  }

  void multiply(const Instruction& i, uint32_t group) {
    if (i.args.size() != 3) return block_->fail(lane_, "a product of matrices in another form");
    const auto a = matrix(i.args[0], group), b = matrix(i.args[1], group);
    auto sums = matrix(i.args[2], group);
    if (!a || !b || !sums) return;
    const size_t side = type_of(i.result)->count;
    for (size_t e = 0; e < sums->size(); ++e) {
      double sum = (*sums)[e];
      for (size_t k = 0; k < side; ++k) sum += double{(*a)[e / side * side + k]} * (*b)[k * side + e % side];
      (*sums)[e] = static_cast<float>(sum);
    }
    keep(i.result, group, std::move(*sums));
  }

  // Loads are of two lanes, so that one which stores meets another than itself; stores are of all in turn. Elements follow each other in memory as bytes do.
  template <class At>
  void through_memory(const Instruction& i, uint32_t group, const std::vector<uint32_t>& all, const At& at) {
    const bool loads = i.op == Op::CooperativeMatrixLoad;
    const size_t first = loads ? 0 : 1;  // where the layout stands, less one
    if (i.args.size() != 4 + first || i.args.back() != targets::spirv::kNonPrivate) return block_->fail(lane_, "a matrix in memory that other lanes are not told of");
    const Type& t = *type_of(loads ? i.result : i.args[1]);
    const uint64_t pointer = value(i.args[0]), layout = value(i.args[1 + first]), stride = value(i.args[2 + first]);
    const uint32_t side = t.count, bytes = image_.types[t.element].width / 8;
    for (const uint32_t lane : all)
      if (at(lane); value(i.args[0]) != pointer || value(i.args[2 + first]) != stride) return block_->fail(lane, "lanes of a subgroup whose matrices lie at different places");
    const Type* p = type_of(i.args[0]);
    if (!p || p->where != StorageClass::Workgroup || layout > 1 || pointer % 16 != 0 || 4 * stride % 16 != 0) return block_->fail(lane_, "a matrix that is not aligned, or lies elsewhere");
    const auto place_of = [&](uint32_t r, uint32_t c) { return pointer + 4 * stride * (layout ? c : r) + bytes * (layout ? r : c); };
    if (!loads) {
      const auto m = matrix(i.args[1], group);
      for (uint32_t e = 0; m && e < m->size(); ++e) block_->store(all[e % all.size()], lanes::Space::Shared, place_of(e / side, e % side), bytes, std::bit_cast<uint32_t>((*m)[e]));
      return;
    }
    std::vector<float> elements;
    for (uint32_t e = 0; e < side * side; ++e)
      for (uint32_t lane = 0; lane < 2; ++lane) {
        uint64_t bits = 0;
        if (!block_->load(all[lane], lanes::Space::Shared, place_of(e / side, e % side), bytes, bits)) return;
        if (lane == 0) elements.push_back(bytes == 2 ? static_cast<float>(ir::f16_value(static_cast<uint16_t>(bits))) : std::bit_cast<float>(static_cast<uint32_t>(bits)));
      }
    keep(i.result, group, std::move(elements));
  }

  static uint64_t joined(Op op, uint64_t ra, uint64_t rb) {
    const auto a = static_cast<uint32_t>(ra), b = static_cast<uint32_t>(rb);
    const auto sa = static_cast<int32_t>(a), sb = static_cast<int32_t>(b);
    switch (op) {
      case Op::GroupNonUniformIAdd: return a + b;
      case Op::GroupNonUniformIMul: return a * b;
      case Op::GroupNonUniformSMin: return static_cast<uint32_t>(std::min(sa, sb));
      case Op::GroupNonUniformSMax: return static_cast<uint32_t>(std::max(sa, sb));
      case Op::GroupNonUniformUMin: return std::min(a, b);
      case Op::GroupNonUniformUMax: return std::max(a, b);
      case Op::GroupNonUniformLogicalAnd: return ra && rb;
      default: return ra || rb;
    }
  }

  uint64_t place(Id id) {  // of a variable or of what an access chain gave
    const auto v = image_.variables.find(id);
    if (v == image_.variables.end()) return value(id);
    return v->second.where == StorageClass::Function ? image_.bound + v->second.slot : 0;
  }

  bool load(const Instruction& i, uint64_t& r) {
    const Id from = i.args[0];
    const Type& p = *type_of(from);
    const unsigned size = std::max(8u, image_.types[i.type].width) / 8;
    switch (p.where) {
      case StorageClass::Input: {
        const auto v = image_.variables.find(from);
        if (v == image_.variables.end()) r = block_->index()[place(from) % 3];  // of the vector of the group
        else if (v->second.builtin == 29) r = lane_;
        else if (v->second.builtin == 36) r = manners_.subgroup;
        else if (v->second.builtin == 40) r = number() / manners_.subgroup;
        else if (v->second.builtin == 41) r = number() % manners_.subgroup;
        else return false;
        return true;
      }
      case StorageClass::Function: r = registers_[place(from)]; return true;
      case StorageClass::PushConstant: {
        const uint64_t at = place(from);
        if (at > push.size() || size > push.size() - at) return block_->fail(lane_, "push constant out of range"), false;
        std::memcpy(&r, push.data() + at, size);
        return true;
      }
      case StorageClass::StorageBuffer: return block_->load(lane_, lanes::Space::Global, place(from), size, r);
      case StorageClass::Workgroup: return block_->load(lane_, lanes::Space::Shared, place(from), size, r);
    }
    return false;
  }

  bool store(const Instruction& i) {
    const Type& p = *type_of(i.args[0]);
    const uint64_t v = value(i.args[1]);
    const unsigned size = image_.types[p.element].width / 8;
    switch (p.where) {
      case StorageClass::Function: registers_[place(i.args[0])] = v; return true;
      case StorageClass::StorageBuffer: return block_->store(lane_, lanes::Space::Global, place(i.args[0]), size, v);
      case StorageClass::Workgroup: return block_->store(lane_, lanes::Space::Shared, place(i.args[0]), size, v);
      default: return false;
    }
  }

  bool compute(const Instruction& i, uint64_t& r) {
    if (i.args.empty() || (i.result && !type_of(i.result))) return false;
    switch (i.op) {
      case Op::AccessChain: return pointer(i, r);
      case Op::Load: return load(i, r);
      case Op::Store: return store(i);
      case Op::AtomicCompareExchange:
        return i.args.size() == 6 && block_->exchange(lane_, lanes::Space::Global, place(i.args[0]), 4, value(i.args[5]), value(i.args[4]), r);
      case Op::Select: r = value(i.args[0]) ? value(i.args[1]) : value(i.args[2]); return true;
      case Op::ExtInst: return extended_set(i, r);
      default: break;
    }
    if (i.op >= Op::SDot && i.op <= Op::SUDot) return dot(i, r);
    const uint32_t from = width_of(i.args[0]), to = width_of(i.result);
    const uint64_t a = value(i.args[0]), b = i.args.size() > 1 ? value(i.args[1]) : 0;
    if (i.op >= Op::ConvertFToU && i.op <= Op::Bitcast) return convert(i.op, a, from, to, r);
    const bool is_float = type_of(i.args[0])->op == Op::TypeFloat;
    if (is_float) {
      if ((i.op == Op::FAdd || i.op == Op::FSub || i.op == Op::FMul) && !image_.precise[i.result]) return false;
      return from == 32 ? floating<float, uint32_t>(i.op, a, b, r) : floating<double, uint64_t>(i.op, a, b, r);
    }
    return integral(i.op, a, b, i.args.size() > 1 ? width_of(i.args[1]) : 0, from, to, r);
  }

  bool dot(const Instruction& i, uint64_t& r) {
    if (i.args.size() != 3 || i.args[2] != targets::spirv::kPacked4x8 || width_of(i.args[0]) != 32 || width_of(i.args[1]) != 32) return false;
    const auto code = [](uint64_t v, int k, bool has_sign) { return has_sign ? int64_t{static_cast<int8_t>(v >> 8 * k)} : int64_t{static_cast<uint8_t>(v >> 8 * k)}; };
    int64_t sum = 0;
    for (int k = 0; k < 4; ++k) sum += code(value(i.args[0]), k, i.op != Op::UDot) * code(value(i.args[1]), k, i.op == Op::SDot);
    return r = static_cast<uint32_t>(sum), true;
  }

  template <class F>
  F flushed(F v) const {
    return manners_.flushes && sizeof(F) == 4 && std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(F(0), v) : v;
  }
  template <class F, class U>
  uint64_t bits(F v) const { return std::bit_cast<U>(flushed(v)); }
  template <class F, class U>
  F wrong(F v) const {
    if (sizeof(F) != 4 || !std::isfinite(v) || v == 0) return v;
    return std::bit_cast<F>(static_cast<U>(std::bit_cast<U>(v) + static_cast<U>(manners_.division_ulps)));
  }

  template <class F, class U>
  bool floating(Op op, uint64_t ra, uint64_t rb, uint64_t& r) const {
    const F a = flushed(std::bit_cast<F>(static_cast<U>(ra))), b = flushed(std::bit_cast<F>(static_cast<U>(rb)));
    switch (op) {
      case Op::FNegate: r = std::bit_cast<U>(-std::bit_cast<F>(static_cast<U>(ra))); return true;
      case Op::FAdd: r = bits<F, U>(a + b); return true;
      case Op::FSub: r = bits<F, U>(a - b); return true;
      case Op::FMul: r = bits<F, U>(a * b); return true;
      case Op::FDiv: r = bits<F, U>(wrong<F, U>(a / b)); return true;
      case Op::FOrdEqual: r = a == b; return true;
      case Op::FUnordNotEqual: r = !(a == b); return true;
      case Op::FOrdLessThan: r = a < b; return true;
      case Op::FOrdGreaterThan: r = a > b; return true;
      case Op::FOrdLessThanEqual: r = a <= b; return true;
      case Op::FOrdGreaterThanEqual: r = a >= b; return true;
      default: return false;
    }
  }

  bool integral(Op op, uint64_t a, uint64_t b, uint32_t b_width, uint32_t width, uint32_t to, uint64_t& r) const {
    if (width == 0) return logical(op, a, b, r);
    const int64_t sa = extended(a, width), sb = b_width ? extended(b, b_width) : 0;
    switch (op) {
      case Op::SNegate: r = 0 - a; break;
      case Op::IAdd: r = a + b; break;
      case Op::ISub: r = a - b; break;
      case Op::IMul: r = a * b; break;
      case Op::UDiv: if (b == 0) return false; r = a / b; break;
      case Op::UMod: if (b == 0) return false; r = a % b; break;
      case Op::SDiv:
        if (sb == 0 || (sb == -1 && sa == extended(uint64_t{1} << (width - 1), width))) return false;
        r = static_cast<uint64_t>(sa / sb);
        break;
      case Op::Not: r = ~a; break;
      case Op::BitwiseOr: r = a | b; break;
      case Op::BitwiseXor: r = a ^ b; break;
      case Op::BitwiseAnd: r = a & b; break;
      case Op::ShiftRightLogical: if (b >= width) return false; r = a >> b; break;
      case Op::ShiftRightArithmetic: if (b >= width) return false; r = static_cast<uint64_t>(sa >> b); break;
      case Op::ShiftLeftLogical: if (b >= width) return false; r = a << b; break;
      case Op::IEqual: r = a == b; return true;
      case Op::INotEqual: r = a != b; return true;
      case Op::UGreaterThan: r = a > b; return true;
      case Op::UGreaterThanEqual: r = a >= b; return true;
      case Op::ULessThan: r = a < b; return true;
      case Op::ULessThanEqual: r = a <= b; return true;
      case Op::SGreaterThan: r = sa > sb; return true;
      case Op::SGreaterThanEqual: r = sa >= sb; return true;
      case Op::SLessThan: r = sa < sb; return true;
      case Op::SLessThanEqual: r = sa <= sb; return true;
      default: return false;
    }
    r &= mask(to);
    return width == 32 || width == 64;  // memory may hold narrower ones; nothing computes with them
  }

  static bool logical(Op op, uint64_t a, uint64_t b, uint64_t& r) {
    switch (op) {
      case Op::LogicalEqual: r = a == b; return true;
      case Op::LogicalNotEqual: r = a != b; return true;
      case Op::LogicalOr: r = a | b; return true;
      case Op::LogicalAnd: r = a & b; return true;
      case Op::LogicalNot: r = !a; return true;
      default: return false;
    }
  }

  double real(uint64_t a, uint32_t width) const {
    return width == 32 ? flushed(std::bit_cast<float>(static_cast<uint32_t>(a))) : std::bit_cast<double>(a);
  }
  uint64_t real_bits(double v, uint32_t width) const {
    return width == 32 ? bits<float, uint32_t>(static_cast<float>(v)) : std::bit_cast<uint64_t>(v);
  }

  bool convert(Op op, uint64_t a, uint32_t from, uint32_t to, uint64_t& r) const {
    switch (op) {
      case Op::UConvert: r = a & mask(to); return true;
      case Op::SConvert: r = static_cast<uint64_t>(extended(a, from)) & mask(to); return true;
      case Op::Bitcast: r = a; return from == to;
      case Op::FConvert: r = real_bits(real(a, from), to); return true;
      case Op::ConvertSToF: r = to == 32 ? std::bit_cast<uint32_t>(static_cast<float>(extended(a, from))) : std::bit_cast<uint64_t>(static_cast<double>(extended(a, from))); return true;
      case Op::ConvertUToF: r = to == 32 ? std::bit_cast<uint32_t>(static_cast<float>(a)) : std::bit_cast<uint64_t>(static_cast<double>(a)); return true;
      case Op::ConvertFToS: case Op::ConvertFToU: {
        const double v = std::trunc(real(a, from)), above = std::ldexp(1.0, static_cast<int>(to) - (op == Op::ConvertFToS));
        if (!(v >= (op == Op::ConvertFToS ? -above : 0) && v < above)) return false;
        r = (op == Op::ConvertFToS ? static_cast<uint64_t>(static_cast<int64_t>(v)) : static_cast<uint64_t>(v)) & mask(to);
        return true;
      }
      default: return false;
    }
  }

  bool extended_set(const Instruction& i, uint64_t& r) const {
    if (i.args.size() < 3 || i.args[0] != image_.glsl) return false;
    return width_of(i.result) == 32 ? glsl<float, uint32_t>(i, r) : glsl<double, uint64_t>(i, r);
  }
  template <class F, class U>
  bool glsl(const Instruction& i, uint64_t& r) const {
    using targets::spirv::Glsl;
    const F a = flushed(std::bit_cast<F>(static_cast<U>(value(i.args[2]))));
    switch (static_cast<Glsl>(i.args[1])) {
      case Glsl::RoundEven: r = bits<F, U>(std::nearbyint(a)); return true;
      case Glsl::Trunc: r = bits<F, U>(std::trunc(a)); return true;
      case Glsl::FAbs: r = bits<F, U>(std::fabs(a)); return true;
      case Glsl::Floor: r = bits<F, U>(std::floor(a)); return true;
      case Glsl::Ceil: r = bits<F, U>(std::ceil(a)); return true;
      case Glsl::Sqrt: r = bits<F, U>(wrong<F, U>(std::sqrt(a))); return true;
      case Glsl::Fma: {
        if (i.args.size() != 5) return false;
        const F b = flushed(std::bit_cast<F>(static_cast<U>(value(i.args[3])))), c = flushed(std::bit_cast<F>(static_cast<U>(value(i.args[4]))));
        const volatile F product = a * b;
        r = bits<F, U>(manners_.fuses ? std::fma(a, b, c) : product + c);
        return true;
      }
      default: return false;
    }
  }

  Image image_;
  Manners manners_;
  std::vector<uint64_t> constants_;
  std::vector<bool> is_constant_;
  std::vector<const Type*> types_;
  std::map<std::pair<uint64_t, uint32_t>, Matrix> kept_;  // by number and subgroup
  lanes::Block* block_ = nullptr;
  uint32_t lane_ = 0;
  std::span<uint64_t> registers_;
};

}  // namespace mlc::testing::spirv
