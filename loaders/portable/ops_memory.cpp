// Loads and stores. The only steps that touch memory outside of the frame; every one checks its elements against the
// length of the buffer first (loads may read on to the next multiple of 64 bytes, as schema/module_abi.h says).
#include "loaders/portable/step.h"

namespace mlc::portable {
namespace {

// How an element of type T is stored in memory (Raw) and in a register (Reg).
template <DType T> struct Element;
template <class M, class R>
struct Plain {
  using Raw = M;
  using Reg = R;
  static R in(M x) { return static_cast<R>(x); }
  static M out(R x) { return static_cast<M>(x); }
};
template <> struct Element<DType::F64> : Plain<double, double> {};
template <> struct Element<DType::F32> : Plain<float, float> {};
template <> struct Element<DType::I64> : Plain<int64_t, int64_t> {};
template <> struct Element<DType::I32> : Plain<int32_t, int32_t> {};
template <> struct Element<DType::I16> : Plain<int16_t, int32_t> {};
template <> struct Element<DType::U16> : Plain<uint16_t, int32_t> {};
template <> struct Element<DType::I8> : Plain<int8_t, int32_t> {};
template <> struct Element<DType::U8> : Plain<uint8_t, int32_t> {};
template <> struct Element<DType::Bool> {
  using Raw = uint8_t;
  using Reg = uint8_t;
  static Reg in(Raw x) { return x != 0; }
  static Raw out(Reg x) { return x != 0; }
};
template <class Raw>
inline Raw read(const std::byte* p) {
  Raw x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

// Address of elements [index + imm, + count), or null if one of them is outside of `bytes`.
template <class Raw>
inline std::byte* elements(const Step* s, const BufferView& buffer, uint64_t bytes, int64_t index, uint64_t count) {
  const uint64_t limit = bytes / sizeof(Raw);
  const uint64_t first = static_cast<uint64_t>(index) + static_cast<uint64_t>(s->imm);
  if (first > limit || limit - first < count) return nullptr;
  return buffer.data + first * sizeof(Raw);
}

template <DType T, bool Blocks>
const Step* load(const Step* s, Frame& f) {
  using E = Element<T>;
  using Raw = typename E::Raw;
  using Reg = typename E::Reg;
  const BufferView& buffer = f.buffers[s->array];
  const std::byte* p = elements<Raw>(s, buffer, buffer.readable, *at<int64_t>(f, s->a), s->lanes);
  if (!p) return stop(f, MLRUN_FAULT_INDEX);
  Reg* d = at<Reg>(f, s->dst);
  if constexpr (Blocks) {
#pragma GCC ivdep
    for (unsigned k = 0, n = s->blocks * kBlock; k < n; ++k) d[k] = E::in(read<Raw>(p + k * sizeof(Raw)));
  } else {
    for (unsigned k = 0; k < s->lanes; ++k) d[k] = E::in(read<Raw>(p + k * sizeof(Raw)));
  }
  return s + 1;
}

template <DType T, bool Blocks>
const Step* store(const Step* s, Frame& f) {
  using E = Element<T>;
  using Raw = typename E::Raw;
  const BufferView& buffer = f.buffers[s->array];
  std::byte* p = elements<Raw>(s, buffer, buffer.writable, *at<int64_t>(f, s->a), s->lanes);
  if (!p) return stop(f, MLRUN_FAULT_INDEX);
  const typename E::Reg* v = at<typename E::Reg>(f, s->c);
  if constexpr (Blocks) {
    const uint64_t count = uint64_t{s->blocks} * kBlock;
    if constexpr (std::is_same_v<Raw, typename E::Reg>) {
      std::memcpy(p, v, count * sizeof(Raw));
    } else {
      Raw raw[kMaxLanes];
      for (unsigned k = 0; k < count; ++k) raw[k] = E::out(v[k]);
      std::memcpy(p, raw, count * sizeof(Raw));
    }
  } else {
    for (unsigned k = 0; k < s->lanes; ++k) {
      const Raw raw = E::out(v[k]);
      std::memcpy(p + k * sizeof(Raw), &raw, sizeof raw);
    }
  }
  return s + 1;
}

// Lane by lane: with a mask, with an index per lane, or both.
template <DType T, bool Gather, bool Masked>
const Step* load_lanes(const Step* s, Frame& f) {
  using E = Element<T>;
  using Raw = typename E::Raw;
  const BufferView& buffer = f.buffers[s->array];
  const int64_t* index = at<int64_t>(f, s->a);
  const uint8_t* mask = at<uint8_t>(f, s->b);
  typename E::Reg* d = at<typename E::Reg>(f, s->dst);
  for (unsigned k = 0; k < s->lanes; ++k) {
    if (Masked && !mask[k]) {
      d[k] = 0;
      continue;
    }
    const uint64_t element = Gather ? static_cast<uint64_t>(index[k]) : static_cast<uint64_t>(index[0]) + k;
    const std::byte* p = elements<Raw>(s, buffer, buffer.readable, static_cast<int64_t>(element), 1);
    if (!p) return stop(f, MLRUN_FAULT_INDEX);
    d[k] = E::in(read<Raw>(p));
  }
  return s + 1;
}

template <DType T, bool Gather, bool Masked>
const Step* store_lanes(const Step* s, Frame& f) {
  using E = Element<T>;
  using Raw = typename E::Raw;
  const BufferView& buffer = f.buffers[s->array];
  const int64_t* index = at<int64_t>(f, s->a);
  const uint8_t* mask = at<uint8_t>(f, s->b);
  const typename E::Reg* v = at<typename E::Reg>(f, s->c);
  for (unsigned k = 0; k < s->lanes; ++k) {
    if (Masked && !mask[k]) continue;
    const uint64_t element = Gather ? static_cast<uint64_t>(index[k]) : static_cast<uint64_t>(index[0]) + k;
    std::byte* p = elements<Raw>(s, buffer, buffer.writable, static_cast<int64_t>(element), 1);
    if (!p) return stop(f, MLRUN_FAULT_INDEX);
    const Raw raw = E::out(v[k]);
    std::memcpy(p, &raw, sizeof raw);
  }
  return s + 1;
}

template <DType T>
Handler find(Op op, bool gather, bool masked, bool blocks) {
  const bool is_load = op == Op::Load;
  if (gather && masked) return is_load ? load_lanes<T, true, true> : store_lanes<T, true, true>;
  if (gather) return is_load ? load_lanes<T, true, false> : store_lanes<T, true, false>;
  if (masked) return is_load ? load_lanes<T, false, true> : store_lanes<T, false, true>;
  if (blocks) return is_load ? load<T, true> : store<T, true>;
  return is_load ? load<T, false> : store<T, false>;
}

}  // namespace

Handler memory_handler(Op op, DType type, bool gather, bool masked, unsigned lanes) {
  const bool blocks = lanes % kBlock == 0;
  switch (type) {
    case DType::F64: return find<DType::F64>(op, gather, masked, blocks);
    case DType::F32: return find<DType::F32>(op, gather, masked, blocks);
    case DType::I64: return find<DType::I64>(op, gather, masked, blocks);
    case DType::I32: return find<DType::I32>(op, gather, masked, blocks);
    case DType::I16: return find<DType::I16>(op, gather, masked, blocks);
    case DType::U16: return find<DType::U16>(op, gather, masked, blocks);
    case DType::I8: return find<DType::I8>(op, gather, masked, blocks);
    case DType::U8: return find<DType::U8>(op, gather, masked, blocks);
    case DType::Bool: return find<DType::Bool>(op, gather, masked, blocks);
    default: return nullptr;  // the others are loaded as integers and unpacked
  }
}

}  // namespace mlc::portable
