// Statements of a kernel, and its memory.
#include <algorithm>

#include "schema/module_abi.h"
#include "targets/spirv/kernel_builder.h"

namespace mlc::targets::spirv {

using loop::ForKind;
using loop::Stmt;
using loop::StmtKind;

void KernelBuilder::block(const std::vector<loop::StmtPtr>& body) {
  const size_t mark = open_scope();
  for (const loop::StmtPtr& s : body) {
    if (!status_.ok()) break;
    if (statements_left_-- == 0) return fail("unrolls to more than a million statements");
    statement(*s);
    end_statement();
  }
  close_scope(mark);
}

void KernelBuilder::statement(const Stmt& s) {
  switch (s.kind) {
    case StmtKind::For: return for_loop(s);
    case StmtKind::While: return while_loop(s);
    case StmtKind::If: {
      const Id condition = scalar_of(s.cond);
      end_statement();
      if (!condition) return;
      if (s.orelse.empty()) return c_.if_(condition, [&] { block(s.body); });
      return c_.if_(condition, [&] { block(s.body); }, [&] { block(s.orelse); });
    }
    case StmtKind::Let: {
      ranges_.define(s);
      const bool narrow = ranges_.fits(s.value);
      if (const Value* v = eval(s.value, narrow)) vars_[s.var->i] = narrow ? Binding{{}, *v, true, {}} : Binding{*v, {}, false, {}};
      return;
    }
    case StmtKind::Local:
    case StmtKind::Assign: return bind_local(s);
    case StmtKind::Store: return store(s);
    case StmtKind::Fault: {
      const Value* v = eval(s.cond);
      if (!v) return;
      Id any = (*v)[0];
      for (size_t k = 1; k < v->size(); ++k) any = c_.test(Op::LogicalOr, any, (*v)[k]);
      return fault(any, s.fault);
    }
    case StmtKind::Barrier: return barrier();
    case StmtKind::FoldLanes: return fold_lanes(s);
    case StmtKind::ClusterBarrier:
    case StmtKind::Peer: return fail("a cluster of blocks, which this target does not have");
    case StmtKind::Matrix: return matrix(s);
    case StmtKind::LoadMatrices: return fail("loads of matrices, which this target does not have");
    case StmtKind::Tiles:
    case StmtKind::GroupMma:
    case StmtKind::Mma: return fail("a product of tiles, which this target does not have");
    case StmtKind::Copy:
    case StmtKind::CloseCopies:
    case StmtKind::WaitCopies: return fail("a copy that goes on beside its lane, which this target does not have");
    case StmtKind::Prefetch: return;
  }
}

void KernelBuilder::barrier() {
  const Id scope = c_.u32(kScopeWorkgroup);
  const uint32_t told = has_matrices() ? kMakeAvailable | kMakeVisible : 0;
  writer_.effect(Op::ControlBarrier, {scope, scope, c_.u32(kAcquireRelease | kUniformMemory | kWorkgroupMemory | told)});
}

void KernelBuilder::bind_local(const Stmt& s) {
  const Value* v = eval(s.value);
  if (!v) return;
  Binding& b = vars_[s.var->i];
  if (s.kind == StmtKind::Local) {
    b = {};
    for (size_t k = 0; k < v->size(); ++k) b.places.push_back(c_.variable(reg_of(s.var->type.dtype)));
  }
  if (b.places.size() != v->size()) return fail("assigns a variable that is no local");
  for (size_t k = 0; k < v->size(); ++k) c_.store(b.places[k], (*v)[k]);
}

// The loop over tiles has one turn here, and that over lanes none at all.
void KernelBuilder::for_loop(const Stmt& s) {
  ranges_.define(s);
  if (s.begin == kernel_.tile_begin && s.end == kernel_.tile_end && s.step == 1) {
    vars_[s.var->i] = vars_[kernel_.tile_begin->i];
    return block(s.body);
  }
  if (s.for_kind == ForKind::Lanes) {
    if (!s.begin->is_int(0) || !s.end->is_int(kernel_.lanes) || s.step != 1) return fail("a loop over lanes that is not over all of them");
    vars_[s.var->i] = {{}, {lane_}, false, {}};
    return block(s.body);
  }
  if (s.for_kind == ForKind::Unroll) return unroll(s);
  const bool narrow = ranges_.fits(s.begin) && ranges_.fits(s.end) && s.step <= INT32_MAX - std::max<int64_t>(ranges_.of(s.end).hi, 0);
  const Value* begin = eval(s.begin, narrow);
  const Value* end = begin ? eval(s.end, narrow) : nullptr;
  if (!end) return;
  const Reg reg = narrow ? Reg::U32 : Reg::U64;
  const Id last = (*end)[0];
  const Body::Variable i = c_.variable(reg, (*begin)[0]);
  end_statement();
  c_.loop([&] { return c_.test(Op::SLessThan, c_.load(i), last); },
          [&] {
            const Id now = c_.load(i);
            vars_[s.var->i] = narrow ? Binding{{}, {now}, true, {}} : Binding{{now}, {}, false, {}};
            block(s.body);
          },
          [&] { c_.store(i, c_.op(Op::IAdd, reg, {c_.load(i), c_.integer(reg, static_cast<uint64_t>(s.step))})); });
}

void KernelBuilder::unroll(const Stmt& s) {
  if (!s.begin->is_const() || !s.end->is_const()) return fail("unrolls a loop without constant bounds");
  for (int64_t i = s.begin->i; i < s.end->i && status_.ok(); i += s.step) {
    // Values that depend on the variable must not outlive this copy of the body.
    const size_t mark = open_scope();
    vars_[s.var->i] = {{c_.u64(static_cast<uint64_t>(i))}, {c_.u32(static_cast<uint32_t>(i))}, false, {}};
    block(s.body);
    end_statement();
    close_scope(mark);
  }
}

// What is left of the bound counts down: there are drivers that hang where a counter goes up.
void KernelBuilder::while_loop(const Stmt& s) {
  const Id bound = scalar_of(s.bound);
  end_statement();
  if (!bound) return;
  const Body::Variable left = c_.variable(Reg::U64, bound);
  const size_t mark = open_scope();
  c_.loop([&] {
            const Id condition = scalar_of(s.cond);
            end_statement();
            return condition ? condition : c_.boolean(false);
          },
          [&] {
            c_.if_(c_.test(Op::SLessThanEqual, c_.load(left), c_.u64(0)), [&] {
              record_fault(MLRUN_FAULT_BOUND);
              if (entry_.has_barriers) c_.leave_loop();
              else c_.return_();
            });
            block(s.body);
          },
          [&] { c_.store(left, c_.op(Op::ISub, Reg::U64, {c_.load(left), c_.u64(1)})); });
  close_scope(mark);
}

// A lane that left before a barrier would keep the others waiting for ever: there the fault is noted, and it goes on. Leaving without
// a fault is for all lanes of a block or none, which the audit proves.
void KernelBuilder::fault(Id condition, int32_t code) {
  c_.if_(condition, [&] {
    if (code != 0) record_fault(code);
    if (code == 0 || !entry_.has_barriers) c_.return_();
  });
}

// The first one wins.
void KernelBuilder::record_fault(int32_t code) {
  const Id type = c_.type(Reg::U32), pointer = c_.pointer(StorageClass::StorageBuffer, type);
  const auto word = [&](uint32_t k) { return writer_.result(Op::AccessChain, pointer, {faults_, c_.u32(0), c_.u32(k)}); };
  const Id none = c_.u32(0);
  const Id before = writer_.result(Op::AtomicCompareExchange, type,
                                   {word(0), c_.u32(kScopeDevice), none, none, c_.u32(static_cast<uint32_t>(code)), none});
  c_.if_(c_.test(Op::IEqual, before, none), [&] {
    const Id launch = push_constant(1, Reg::U32);
    writer_.effect(Op::Store, {word(1), launch});
  });
}

KernelBuilder::Buffer* KernelBuilder::buffer(uint32_t array) {
  if (array < buffers_.size()) return &buffers_[array];
  fail("uses an unknown buffer");
  return nullptr;
}

Id KernelBuilder::element(const Buffer& b, Id index) {
  if (b.kind == Buffer::Kind::Storage) return writer_.result(Op::AccessChain, b.element_pointer, {b.variable, c_.u32(0), index});
  return writer_.result(Op::AccessChain, b.element_pointer, {b.variable, index});
}


Id KernelBuilder::load_element(const Buffer& b, Id index) {
  const auto read = [&](Id at) {
    const Id from = element(b, at);
    return is_marked(b) ? writer_.result(Op::Load, b.element_type, {from, kNonPrivate}) : writer_.result(Op::Load, b.element_type, {from});
  };
  if (b.kind == Buffer::Kind::Private) return read(index);
  if (b.kind == Buffer::Kind::Shared) {
    const Id first = c_.u32(b.first_cell);
    if (bits_of(b.dtype) < 64) return n_.from_raw(b.dtype, read(c_.op(Op::IAdd, Reg::U32, {first, index})));
    const Id at = c_.op(Op::IAdd, Reg::U32, {first, c_.op(Op::IAdd, Reg::U32, {index, index})});
    const Id low = c_.op(Op::UConvert, Reg::U64, {read(at)});
    const Id high = c_.op(Op::UConvert, Reg::U64, {read(c_.op(Op::IAdd, Reg::U32, {at, c_.u32(1)}))});
    return n_.from_raw(b.dtype, c_.op(Op::BitwiseOr, Reg::U64, {low, c_.op(Op::ShiftLeftLogical, Reg::U64, {high, c_.u32(32)})}));
  }
  const Id raw = read(index);
  return n_.from_raw(b.dtype, bytes_of(b.dtype) < 4 ? c_.op(Op::UConvert, Reg::U32, {raw}) : raw);
}

void KernelBuilder::store_element(const Buffer& b, Id index, Id value) {
  const auto write = [&](Id at, Id v) {
    const Id to = element(b, at);
    is_marked(b) ? writer_.effect(Op::Store, {to, v, kNonPrivate}) : writer_.effect(Op::Store, {to, v});
  };
  if (b.kind == Buffer::Kind::Private) return write(index, value);
  const Id raw = n_.to_raw(b.dtype, value);
  if (b.kind == Buffer::Kind::Shared) {
    const Id first = c_.u32(b.first_cell);
    if (bits_of(b.dtype) < 64) return write(c_.op(Op::IAdd, Reg::U32, {first, index}), raw);
    const Id at = c_.op(Op::IAdd, Reg::U32, {first, c_.op(Op::IAdd, Reg::U32, {index, index})});
    write(at, c_.op(Op::UConvert, Reg::U32, {raw}));
    return write(c_.op(Op::IAdd, Reg::U32, {at, c_.u32(1)}), c_.op(Op::UConvert, Reg::U32, {c_.op(Op::ShiftRightLogical, Reg::U64, {raw, c_.u32(32)})}));
  }
  write(index, bytes_of(b.dtype) < 4 ? writer_.result(Op::UConvert, b.element_type, {raw}) : raw);
}

// Of an index for all lanes together, the one of a lane.
Id KernelBuilder::lane_index(const Value& index, unsigned lane) {
  if (index.size() > 1) return index[lane];
  return lane ? c_.op(Op::IAdd, Reg::U32, {index[0], c_.u32(lane)}) : index[0];
}

// A lane that is masked off touches nothing and reads as zero.
Value KernelBuilder::load(const Expr& e) {
  const Buffer* b = buffer(e.array);
  if (!b) return {};
  const Value& index = arg(e, 0, true);
  const Value* mask = e.args.size() > 1 ? &arg(e, 1) : nullptr;
  Value out;
  for (unsigned k = 0; k < e.type.lanes; ++k) {
    if (!mask) {
      out.push_back(load_element(*b, lane_index(index, k)));
      continue;
    }
    const Body::Variable read = c_.variable(reg_of(b->dtype), n_.constant(b->dtype, 0, 0));
    c_.if_((*mask)[k], [&] { c_.store(read, load_element(*b, lane_index(index, k))); });
    out.push_back(c_.load(read));
  }
  return out;
}

void KernelBuilder::store(const Stmt& s) {
  const Buffer* b = buffer(s.array);
  const Value* value = b ? eval(s.value) : nullptr;
  const Value* index = value ? eval(s.index[0], true) : nullptr;
  const Value* mask = index && s.cond ? eval(s.cond) : nullptr;
  if (!index || (s.cond && !mask)) return;
  for (unsigned k = 0; k < value->size(); ++k) {
    const auto one = [&] { store_element(*b, lane_index(*index, k), (*value)[k]); };
    if (mask) c_.if_((*mask)[k], one);
    else one();
  }
}

}  // namespace mlc::targets::spirv
