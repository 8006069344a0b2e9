// Bytes to programs. The one place where portable code is checked: everything that steps rely on is established here
// (spec/portable-code.md, "What is checked").
#include <algorithm>
#include <bit>
#include <utility>

#include "base/byte_cursor.h"
#include "base/compose.h"
#include "loaders/portable/program.h"

namespace mlc::portable {
namespace {

constexpr auto kLastType = static_cast<uint8_t>(kLastDType);

// Code without jumps back is looked after every so many units of work, but not more often than every so many steps.
constexpr uint64_t kCostPerPoll = 8192;
constexpr size_t kStepsPerPoll = 64;

struct Register {
  Kind kind = Kind::None;
  uint8_t lanes = 0;
  uint32_t offset = 0;
  uint32_t blocks() const { return (lanes + kBlock - 1) / kBlock; }
};

class KernelDecoder {
 public:
  explicit KernelDecoder(ByteCursor& in) : in_(in) {}

  Status decode(Program& out) {
    out_ = &out;
    const uint16_t num_params = in_.take<uint16_t>(), num_locals = in_.take<uint16_t>();
    out.num_scalars = in_.take<uint16_t>();
    const uint16_t num_registers = in_.take<uint16_t>();
    const uint32_t num_instructions = in_.take<uint32_t>();
    if (in_.take<uint32_t>() != 0 || in_.failed()) return broken("header");
    const uint64_t needed = num_params + uint64_t{num_locals} * 8 + uint64_t{num_registers} * 2 +
                            uint64_t{num_instructions} * kInstructionLen;
    if (needed > in_.left()) return broken("cut off");

    for (unsigned k = 0; k < num_params; ++k) {
      out.param_flags.push_back(in_.take<uint8_t>());
      if (out.param_flags.back() & ~kParamWritten) return broken("unknown flag of parameter {}", {k});
    }
    in_.skip_padding(8);
    uint64_t locals = 0;
    for (unsigned k = 0; k < num_locals; ++k) {
      const uint64_t bytes = in_.take<uint64_t>();
      if (bytes > kMaxLocalBytes || (locals += (bytes + 63) & ~uint64_t{63}) > kMaxLocalBytes)
        return broken("more than {} bytes of local arrays", {kMaxLocalBytes});
      out.local_bytes.push_back(bytes);
    }
    uint64_t offset = 0;
    for (unsigned k = 0; k < num_registers; ++k) {
      Register r;
      const uint8_t kind = in_.take<uint8_t>();
      r.lanes = in_.take<uint8_t>();
      if (kind == 0 || kind > static_cast<uint8_t>(Kind::Mask) || r.lanes == 0 || r.lanes > kMaxLanes)
        return broken("register {}", {k});
      r.kind = static_cast<Kind>(kind);
      const uint64_t bytes = r.lanes == 1 ? 8 : uint64_t{r.blocks()} * kBlock * size_of(r.kind);
      if (r.lanes > 1) offset = (offset + 63) & ~uint64_t{63};
      r.offset = static_cast<uint32_t>(offset);
      if ((offset += bytes) > kMaxRegisterBytes) return broken("more than {} bytes of registers", {kMaxRegisterBytes});
      registers_.push_back(r);
    }
    in_.skip_padding(8);
    if (in_.failed()) return broken("padding");
    out.register_bytes = (offset + 63) & ~uint64_t{63};
    out.locals_offset = ((num_params + uint64_t{num_locals}) * sizeof(BufferView) + 63) & ~uint64_t{63};
    out.registers_offset = out.locals_offset + locals;
    out.scratch_bytes = out.registers_offset + out.register_bytes;

    out.steps.reserve(num_instructions + num_instructions / kStepsPerPoll + 2);  // steps point at each other
    for (at_ = 0; at_ < num_instructions; ++at_) {
      Instruction i;
      i.op = in_.take<uint8_t>();
      i.type = in_.take<uint8_t>();
      i.dst = in_.take<uint16_t>(), i.a = in_.take<uint16_t>(), i.b = in_.take<uint16_t>(), i.c = in_.take<uint16_t>();
      i.array = in_.take<uint16_t>();
      i.zero = in_.take<uint32_t>();
      i.imm = static_cast<int64_t>(in_.take<uint64_t>());
      add_poll();
      Step& step = out.steps.emplace_back();
      if (Status s = instruction(i, step); !s.ok()) return s;
      const unsigned cost = cost_of(i, step);
      out.cost += cost;
      path_ += cost;
    }
    if (!open_.empty()) return broken("a loop or condition without its end");
    out.steps.emplace_back().run = control_handler(Op::None);
    return ok();
  }

 private:
  struct Open {
    Op op;
    size_t at;        // of the opening step, or Else
    size_t test = 0;  // of WhileTest, 0 if none yet
    uint64_t cost = 0;  // of all steps before
    uint64_t path = 0;  // see path_: the longest with which one gets behind the end other than through the last step
  };

  // Jumps back are charged for, so they look at the meter. Where the longest way through the steps since the last look
  // is long, a step is put in that looks.
  void add_poll() {
    if (path_ < kCostPerPoll || out_->steps.size() - last_poll_ <= kStepsPerPoll) return;
    last_poll_ = out_->steps.size();
    out_->steps.emplace_back().run = poll_handler();
    path_ = 0;
  }

  Status broken(const char* pattern, Pieces pieces = {}) const {
    return Status(Code::Malformed, "instruction {}: {}", at_, compose_pieces(pattern, pieces));
  }
  // Units of work of an instruction, from the slowest that it can be: what a scalar or 16 lanes of plain arithmetic take is
  // one unit, and no instruction takes more than half a microsecond for each of its units.
  unsigned cost_of(const Instruction& i, const Step& s) const {
    const unsigned lanes = s.lanes, blocks = std::max<unsigned>(s.blocks, lanes / kBlock);
    switch (static_cast<Op>(i.op)) {
      case Op::FMod: return lanes * (registers_[i.a].kind == Kind::F64 ? 512 : 64);  // bit by bit of the quotient
      case Op::Pow: case Op::PowU: return lanes * 16;
      case Op::Quot: case Op::QuotU: case Op::Rem: case Op::RemU: case Op::FloorQuot: case Op::FloorRem:
        return lanes * 2;
      case Op::Load: case Op::Store: {
        const bool each = i.b != kNoRegister || registers_[i.a].lanes > 1 || lanes % kBlock != 0;  // lane by lane
        return each ? 1 + lanes / 4 : blocks;
      }
      case Op::Dot: return registers_[i.a].blocks();
      case Op::Div: case Op::Sqrt: case Op::Floor: case Op::Ceil: case Op::Trunc: case Op::Rint: case Op::Pack:
      case Op::Unpack: case Op::ToInt: case Op::ToIntU: return blocks * 4;
      default: return blocks;
    }
  }
  static Kind kind(const Register* r) { return r ? r->kind : Kind::None; }

  // The registers of an instruction; null where it names none.
  struct Operands {
    const Instruction& i;
    const Register *dst = nullptr, *a = nullptr, *b = nullptr, *c = nullptr;

    // Which of them the instruction must have, exactly.
    bool has(bool d, bool x, bool y, bool z) const { return !!dst == d && !!a == x && !!b == y && !!c == z; }
    bool plain() const { return i.type == 0 && i.array == 0; }  // neither type nor buffer
    bool bare() const { return plain() && i.imm == 0; }
  };
  static bool is(const Register* r, Kind k, unsigned lanes) { return r->kind == k && r->lanes == lanes; }
  static bool same(const Register* x, const Register* y) { return x->kind == y->kind && x->lanes == y->lanes; }
  Status wrong(const Instruction& i) const { return broken("operands of operation {} have the wrong kinds", {i.op}); }

  Status instruction(const Instruction& i, Step& s) {
    Operands o{i};
    for (auto [number, slot] : {std::pair{i.dst, &o.dst}, {i.a, &o.a}, {i.b, &o.b}, {i.c, &o.c}}) {
      if (number == kNoRegister) continue;
      if (number >= registers_.size()) return broken("register {} does not exist", {number});
      *slot = &registers_[number];
    }
    if (i.zero != 0) return broken("a field that must be zero is not");
    s.imm = i.imm;
    s.array = i.array;
    if (o.dst) s.dst = o.dst->offset;
    if (o.a) s.a = o.a->offset;
    if (o.b) s.b = o.b->offset;
    if (o.c) s.c = o.c->offset;
    const Register* shape = o.dst ? o.dst : o.c ? o.c : o.a;
    if (shape) s.lanes = shape->lanes, s.blocks = static_cast<uint8_t>(shape->blocks());
    return control(static_cast<Op>(i.op), i, o, s);
  }

  // Loops, conditions, faults, launch values; the rest is moves.
  Status control(Op op, const Instruction& i, const Operands& o, Step& s) {
    switch (op) {
      case Op::LoopBegin:
        if (!o.has(true, true, true, false) || !o.plain() || !is(o.dst, Kind::I64, 1) || !is(o.a, Kind::I64, 1) || !is(o.b, Kind::I64, 1))
          return wrong(i);
        if (i.imm < 1) return broken("a loop with a step below 1");
        s.run = control_handler(op);
        return open(op);
      case Op::WhileBegin:
        if (!o.has(true, true, false, false) || !o.bare() || !is(o.dst, Kind::I64, 1) || !is(o.a, Kind::I64, 1))
          return wrong(i);
        s.run = control_handler(op);
        return open(op);
      case Op::If:
        if (!o.has(false, true, false, false) || !o.bare() || !is(o.a, Kind::Mask, 1)) return wrong(i);
        s.run = control_handler(op);
        return open(op);
      case Op::LoopEnd: case Op::WhileTest: case Op::WhileEnd: case Op::Else: case Op::EndIf:
        if (op == Op::WhileTest ? !o.has(false, true, false, false) || !is(o.a, Kind::Mask, 1) : !o.has(false, false, false, false))
          return wrong(i);
        if (!o.bare()) return wrong(i);
        s.run = control_handler(op);
        return close(op, s);
      case Op::FaultIf:
        if (!o.has(false, true, false, false) || !o.plain() || o.a->kind != Kind::Mask) return wrong(i);
        if (i.imm < 0 || i.imm > MLRUN_FAULT_BOUND) return broken("an unknown fault");
        s.run = control_handler(op);
        return ok();
      case Op::Scalar: case Op::Tile:
        if (!o.has(true, false, false, false) || !o.plain() || !is(o.dst, Kind::I64, 1)) return wrong(i);
        if (i.imm < 0 || i.imm >= (op == Op::Tile ? 2 : out_->num_scalars)) return broken("a scalar that does not exist");
        s.run = control_handler(op);
        return ok();
      default: return move(op, i, o, s);
    }
  }

  // Values into registers, between them and memory; the rest is arithmetic.
  Status move(Op op, const Instruction& i, const Operands& o, Step& s) {
    switch (op) {
      case Op::Const: {
        if (!o.has(true, false, false, false) || !o.plain()) return wrong(i);
        const unsigned size = size_of(o.dst->kind);
        if (size < 8 && static_cast<uint64_t>(i.imm) >> (8 * size)) return broken("a constant wider than its register");
        if (o.dst->kind == Kind::Mask && i.imm > 1) return broken("a truth value above 1");
        // The step copies the first bytes of imm.
        if constexpr (std::endian::native == std::endian::big)
          s.imm = static_cast<int64_t>(static_cast<uint64_t>(i.imm) << (64 - 8 * size));
        return data(s, move_handler(op, o.dst->kind, o.dst->lanes > 1));
      }
      case Op::Move:
        if (!o.has(true, true, false, false) || !o.bare() || o.dst->lanes != o.a->lanes || size_of(o.dst->kind) != size_of(o.a->kind))
          return wrong(i);
        return data(s, move_handler(op, o.dst->kind, o.dst->lanes > 1));
      case Op::Load: case Op::Store: {
        const bool is_load = op == Op::Load;
        const Register* value = is_load ? o.dst : o.c;
        if (!value || !o.a || !!o.dst != is_load || !!o.c == is_load || o.a->kind != Kind::I64) return wrong(i);
        if (o.a->lanes != 1 && o.a->lanes != value->lanes) return wrong(i);
        if (o.b && !is(o.b, Kind::Mask, value->lanes)) return wrong(i);
        if (i.type == 0 || i.type > kLastType || kind_of(static_cast<DType>(i.type)) != value->kind) return wrong(i);
        if (i.array >= out_->param_flags.size() + out_->local_bytes.size()) return broken("a buffer that does not exist");
        if (!is_load && i.array < out_->param_flags.size() && !(out_->param_flags[i.array] & kParamWritten))
          return broken("stores to a parameter that is not declared as written");
        return data(s, memory_handler(op, static_cast<DType>(i.type), o.a->lanes > 1, o.b != nullptr, value->lanes));
      }
      case Op::Splat:
        if (!o.has(true, true, false, false) || !o.bare() || !is(o.a, o.dst->kind, 1)) return wrong(i);
        return data(s, move_handler(op, o.dst->kind, o.dst->lanes > 1));
      case Op::Repeat:
        if (!o.has(true, true, false, false) || !o.bare() || o.a->kind != o.dst->kind || o.dst->lanes % o.a->lanes != 0) return wrong(i);
        s.imm = o.a->lanes;
        return data(s, move_handler(op, o.dst->kind, true));
      case Op::Ramp:
        if (!o.has(true, true, false, false) || !o.plain() || !is(o.a, o.dst->kind, 1) ||
            (o.dst->kind != Kind::I32 && o.dst->kind != Kind::I64))
          return wrong(i);
        return data(s, move_handler(op, o.dst->kind, o.dst->lanes > 1));
      case Op::Extract:
        if (!o.has(true, true, false, false) || !o.plain() || !is(o.dst, o.a->kind, 1)) return wrong(i);
        if (i.imm < 0 || i.imm >= o.a->lanes) return broken("a lane that does not exist");
        return data(s, move_handler(op, o.dst->kind, true));
      case Op::Insert:
        if (!o.has(true, true, false, false) || !o.plain() || o.dst->kind != o.a->kind) return wrong(i);
        if (i.imm < 0 || i.imm > o.dst->lanes || o.dst->lanes - i.imm < o.a->lanes) return broken("a lane that does not exist");
        s.lanes = o.a->lanes;
        return data(s, move_handler(op, o.dst->kind, true));
      default: return compute(op, i, o, s);
    }
  }

  Status compute(Op op, const Instruction& i, const Operands& o, Step& s) {
    switch (op) {
      case Op::Select:
        if (!o.has(true, true, true, true) || !o.bare() || !is(o.a, Kind::Mask, o.dst->lanes) || !same(o.b, o.dst) || !same(o.c, o.dst))
          return wrong(i);
        return data(s, move_handler(op, o.dst->kind, o.dst->lanes > 1));
      case Op::Neg: case Op::Abs: case Op::Floor: case Op::Ceil: case Op::Trunc: case Op::Rint: case Op::Sqrt: case Op::Not:
        if (!o.has(true, true, false, false) || !o.bare() || !same(o.a, o.dst)) return wrong(i);
        return data(s, arithmetic(op, o.a));
      case Op::IsNan: case Op::IsInf:
        if (!o.has(true, true, false, false) || !o.bare() || !is(o.dst, Kind::Mask, o.a->lanes)) return wrong(i);
        return data(s, float_handler(op, o.a->kind, o.a->lanes > 1));
      case Op::Widen: case Op::WidenU: case Op::Narrow: case Op::ToFloat: case Op::ToFloatU: case Op::ToInt:
      case Op::ToIntU: case Op::Resize: case Op::ResizeOdd: case Op::FromMask:
        if (!o.has(true, true, false, false) || !o.bare() || o.a->lanes != o.dst->lanes) return wrong(i);
        return data(s, convert_handler(op, DType::None, o.a->kind, o.dst->kind, o.a->lanes > 1));
      case Op::Wrap: case Op::Pack: case Op::Unpack:
        if (!o.has(true, true, false, false) || i.array != 0 || i.imm != 0 || i.type > kLastType ||
            o.a->lanes != o.dst->lanes)
          return wrong(i);
        return data(s, convert_handler(op, static_cast<DType>(i.type), o.a->kind, o.dst->kind, o.a->lanes > 1));
      case Op::Add: case Op::Sub: case Op::Mul: case Op::Div: case Op::FMod: case Op::Min: case Op::Max: case Op::MinU:
      case Op::MaxU: case Op::Quot: case Op::QuotU: case Op::Rem: case Op::RemU: case Op::FloorQuot: case Op::FloorRem:
      case Op::Pow: case Op::PowU: case Op::And: case Op::Or: case Op::Xor: case Op::Shl: case Op::Shr: case Op::ShrU:
        if (!o.has(true, true, true, false) || !o.bare() || !same(o.a, o.dst) || !same(o.b, o.dst)) return wrong(i);
        return data(s, arithmetic(op, o.a));
      case Op::Lt: case Op::Le: case Op::Eq: case Op::Ne: case Op::LtU: case Op::LeU:
        if (!o.has(true, true, true, false) || !o.bare() || !same(o.a, o.b) || !is(o.dst, Kind::Mask, o.a->lanes))
          return wrong(i);
        return data(s, arithmetic(op, o.a));
      case Op::Fma:
        if (!o.has(true, true, true, true) || !o.bare() || !same(o.a, o.dst) || !same(o.b, o.dst) || !same(o.c, o.dst))
          return wrong(i);
        return data(s, float_handler(op, o.dst->kind, o.dst->lanes > 1));
      case Op::FmaSplat:
        if (!o.has(true, true, true, true) || !o.bare() || !is(o.a, o.dst->kind, 1) || !same(o.b, o.dst) ||
            !same(o.c, o.dst))
          return wrong(i);
        return data(s, float_handler(op, o.dst->kind, o.dst->lanes > 1));
      case Op::Dot: {
        if (!o.has(true, true, true, true) || !o.bare() || !same(o.c, o.dst) || !same(o.a, o.b) || o.a->kind != o.dst->kind ||
            o.a->lanes % o.dst->lanes != 0)
          return wrong(i);
        s.imm = o.a->lanes / o.dst->lanes;
        return data(s, lanes_handler(op, o.dst->kind));
      }
      case Op::SumLanes: case Op::ProdLanes: case Op::MinLanes: case Op::MaxLanes: case Op::MinLanesU: case Op::MaxLanesU:
        if (!o.has(true, true, false, false) || !o.bare() || !is(o.dst, o.a->kind, 1) ||
            (o.a->lanes & (o.a->lanes - 1)) != 0)
          return wrong(i);
        s.lanes = o.a->lanes;
        return data(s, lanes_handler(op, o.a->kind));
      default: return broken("unknown operation {}", {i.op});
    }
  }

  static Handler arithmetic(Op op, const Register* a) {
    const bool vector = a->lanes > 1;
    return a->kind == Kind::F32 || a->kind == Kind::F64 ? float_handler(op, a->kind, vector)
                                                        : int_handler(op, a->kind, vector);
  }
  Status data(Step& s, Handler handler) {
    s.run = handler;
    return handler ? ok() : broken("this operation does not exist for these kinds");
  }

  Status open(Op op) {
    if (open_.size() >= kMaxDepth) return broken("nested deeper than {}", {kMaxDepth});
    open_.push_back({op, this_step(), 0, out_->cost, path_});
    return ok();
  }
  size_t this_step() const { return out_->steps.size() - 1; }
  Status close(Op op, Step& s) {
    if (open_.empty()) return broken("ends what was not begun");
    Open& o = open_.back();
    Step& first = out_->steps[o.at];
    const Step* next = &s + 1;
    s.cost = static_cast<uint32_t>(std::min<uint64_t>(out_->cost - o.cost + 1, UINT32_MAX));
    switch (op) {
      case Op::LoopEnd:
        if (o.op != Op::LoopBegin) return broken("ends a loop that was not begun");
        first.jump = next;
        s.jump = &first + 1;
        s.dst = first.dst, s.b = first.b, s.imm = first.imm;
        break;
      case Op::WhileTest:
        if (o.op != Op::WhileBegin || o.test) return broken("tests a loop that was not begun, or twice");
        o.test = this_step();
        o.path = std::max(o.path, path_);
        s.dst = first.dst, s.b = first.a;
        return ok();
      case Op::WhileEnd:
        if (o.op != Op::WhileBegin || !o.test) return broken("ends a loop that was not begun or has no test");
        out_->steps[o.test].jump = next;
        s.jump = &first + 1;
        break;
      case Op::Else:
        if (o.op != Op::If) return broken("else without a condition");
        first.jump = next;
        o = {Op::Else, this_step(), 0, o.cost, std::exchange(path_, o.path)};
        return ok();
      default:
        if (o.op != Op::If && o.op != Op::Else) return broken("ends a condition that was not begun");
        first.jump = next;
        break;
    }
    path_ = std::max(path_, o.path);
    open_.pop_back();
    return ok();
  }

  ByteCursor& in_;
  Program* out_ = nullptr;
  std::vector<Register> registers_;
  std::vector<Open> open_;
  uint32_t at_ = 0;  // the instruction
  uint64_t path_ = 0;  // units of work of the longest way here since the meter was looked at
  size_t last_poll_ = 0;
};

}  // namespace

Result<std::vector<Program>> decode_module(Bytes module) {
  auto broken = [](const char* pattern, Pieces pieces = {}) {
    return Status(Code::Malformed, "portable code: {}", compose_pieces(pattern, pieces));
  };
  ByteCursor in(module);
  const uint32_t magic = in.take<uint32_t>();
  const uint16_t version = in.take<uint16_t>(), zero = in.take<uint16_t>();
  const uint32_t num_kernels = in.take<uint32_t>(), zero2 = in.take<uint32_t>();
  if (in.failed() || magic != kMagic) return broken("no portable module");
  if (version != kVersion) return broken("version {}, expected {}", {version, kVersion});
  if (zero || zero2 || module.size() % 8 != 0) return broken("malformed header");
  if (num_kernels > kMaxKernels) return broken("{} kernels, at most {} are read", {num_kernels, kMaxKernels});
  if (num_kernels * uint64_t{kKernelHeaderLen} > in.left())
    return broken("{} kernels do not fit", {num_kernels});
  std::vector<Program> out(num_kernels);
  for (uint32_t k = 0; k < num_kernels; ++k) {
    KernelDecoder decoder(in);
    if (Status s = decoder.decode(out[k]); !s.ok())
      return std::move(s).note("kernel {}", k).note("portable code");
  }
  if (in.left() != 0) return broken("{} bytes behind the last kernel", {in.left()});
  return out;
}

}  // namespace mlc::portable
