// The structs of DLPack 1.1 (dmlc/dlpack: include/dlpack/dlpack.h), as far as they are used here, and their numbers for the
// element types of mlc.h. They are an ABI between libraries: field for field as they stand there.
#pragma once

#include <cstdint>

#include "runtime/api/mlc.h"

namespace mlc::dlpack {

struct Device {
  int32_t type, id;
};
inline constexpr int32_t kCpu = 1, kCuda = 2, kCudaHost = 3, kVulkan = 7;

struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: dense
  uint64_t byte_offset;
};

struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed* self);
};

struct Versioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(Versioned* self);
  uint64_t flags;
  Tensor tensor;
};
inline constexpr uint32_t kMajor = 1, kMinor = 1;
inline constexpr uint64_t kReadOnly = 1, kIsCopied = 2;

struct Known {
  int32_t dtype;  // of mlc.h
  uint8_t code, bits;
};
// Elements of 6, 4 and 2 bits take a byte each here, as whole bytes do there.
inline constexpr Known kKnown[] = {
    {MLC_I8, 0, 8},   {MLC_I16, 0, 16}, {MLC_I32, 0, 32}, {MLC_I64, 0, 64},  {MLC_U8, 1, 8},
    {MLC_U16, 1, 16}, {MLC_U32, 1, 32}, {MLC_U64, 1, 64}, {MLC_F16, 2, 16},  {MLC_F32, 2, 32},
    {MLC_F64, 2, 64}, {MLC_BF16, 4, 16}, {MLC_BOOL, 6, 8}, {MLC_F8E4M3, 10, 8}, {MLC_F8E4M3FNUZ, 11, 8},
    {MLC_F8E5M2, 12, 8}, {MLC_F8E5M2FNUZ, 13, 8}, {MLC_F8E8M0, 14, 8}, {MLC_I4, 0, 8}, {MLC_I2, 0, 8},
    {MLC_U4, 1, 8},   {MLC_U2, 1, 8},   {MLC_F4E2M1, 1, 8}, {MLC_F6E2M3, 1, 8}, {MLC_F6E3M2, 1, 8}};

// MLC_NONE: none of them.
inline int32_t dtype_of(DataType t) {
  for (const Known& k : kKnown)
    if (k.code == t.code && k.bits == t.bits && t.lanes == 1) return k.dtype;
  return MLC_NONE;
}
inline bool find(int32_t dtype, DataType& out) {
  for (const Known& k : kKnown)
    if (k.dtype == dtype) {
      out = {k.code, k.bits, 1};
      return true;
    }
  return false;
}

}  // namespace mlc::dlpack
