// NumPy's array file: versions 1 to 3, both byte orders, C and Fortran order. Strings are read from S (taken as UTF-8) and
// U elements, in C order, and written as U. Object and structured arrays are refused. `V2` is read as bf16, which is how ml_dtypes arrays are saved.
// Format: numpy/lib/format.py (NEP 1).
#pragma once

#include <vector>

#include "runtime/io/limits.h"
#include "runtime/io/tensor.h"

namespace mlc::io {

// The tensor in C order. `file` must be the whole file: bytes that are missing or left over are an error.
// It takes at most limits.beyond(file), which matters for strings only.
Result<HostTensor> parse_npy(Bytes file, const DecodeLimits& limits = {});
// The same, where the bytes of `file` are counted already: at most limits.memory.
Result<HostTensor> parse_npy_within(Bytes file, const DecodeLimits& limits);

// The header that precedes `tensor.data` in a file, version 1, padded to a multiple of 64 bytes as NumPy does.
// Strings have no data: what stands for them is part of the answer.
// Floats of 8 bits and less are written as V1, bf16 as V2, integers of 4 and 2 bits as whole bytes; V1 cannot be read back,
// because it does not say which of them it is.
Result<std::vector<std::byte>> npy_header(const HostTensor& tensor);

}  // namespace mlc::io
