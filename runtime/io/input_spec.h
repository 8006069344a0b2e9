// The argument of `-i [NAME=]X` and what it stands for.
//
//   X = FILE | -          a file or stdin: image, audio, .npy, .npz, decided by its first bytes
//   X = random | zeros    made up for the type and shape that the model wants; without NAME, for all that is not given
//   X = @FILE:TYPE[DIMS]  raw little-endian elements of exactly that size, "@t.bin:f32[1,3,224,224]"
//   X = FILE.npz:ARRAY    one array of an archive
//   NAME=NUMBER[,NUMBER]  the elements in order: -12, 0.5, 1e-3, true, false; as many as the input takes
//   NAME=TEXT             the text itself, for inputs of a pipeline that take texts; NAME=@FILE the text of a file
//
// A file called "random" or "12" is "./random" or "./12"; a path that contains '=' is written "=path".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/io/file.h"
#include "runtime/io/limits.h"
#include "runtime/io/media.h"
#include "runtime/io/tensor.h"

namespace mlc::io {

struct TensorType {
  DType dtype = DType::None;
  std::vector<int64_t> shape;
};
// "f32[1,3,224,224]"; "f32[]" is a scalar.
Result<TensorType> parse_tensor_type(std::string_view text);

struct InputSpec {
  enum class Kind { File, Random, Zeros, Raw, Numbers, Text };
  std::string name;  // empty: not named
  Kind kind = Kind::File;
  std::string path;  // File, Raw; "-" is stdin. Of Numbers and Text what is written
  std::string array; // File: the one that is meant of an archive; empty: all
  TensorType type;   // Raw
};
// `names`: the inputs of the model. A name may itself contain '=', so the longest known name that fits wins; without
// one the text before the first '=' is the name (and the caller reports that the model has no such input). `texts`: those of
// the names that take texts.
Result<InputSpec> parse_input_spec(std::string_view text, std::span<const std::string> names = {}, std::span<const std::string> texts = {});

// What a File or Raw spec holds: arrays (.npy: one, unnamed; .npz: by name; raw: one) or the bytes of a medium.
struct LoadedInput {
  Media media = Media::Unknown;
  std::vector<NamedTensor> tensors;  // Npy, Zip, raw
  HostBuffer bytes;                  // everything else, undecoded
  uint64_t gap_at = 0, gap = 0;      // as in FileEnds
};
Result<LoadedInput> load_input(const InputSpec& spec, InputFiles& files, const DecodeLimits& limits = {});
// The same of a file that has been read. `name` is that of an array without one, `where` stands in messages.
Result<LoadedInput> load_bytes(HostBuffer bytes, const std::string& name, std::string_view where, const DecodeLimits& limits = {});

// The array that Numbers are as this type. Of the extents (-1: free) the last free one is as long as there are numbers, the others are 1.
// InputMismatch where the shape takes another number of them, or the type does not hold one.
Result<HostTensor> tensor_of_numbers(const InputSpec& spec, DType dtype, std::span<const int64_t> extents);

// The files ("-": stdin) that a text may mean, whatever the names of the inputs are: to be opened before these are known.
std::vector<std::string> paths_possible(std::string_view text);

// Deterministic contents for `random`: floats uniform in [-1, 1), u8 0..255, other integers 0..9 (so that they are
// valid in most index tables), bool 0 or 1. Equal seeds give equal bytes on every machine.
void fill_random(HostTensor& tensor, uint64_t seed);
// Each element is one of `elements`, which are of the tensor's type, at least one.
void draw_from(Bytes elements, uint64_t seed, HostTensor& tensor);

}  // namespace mlc::io
