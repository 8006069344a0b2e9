// Vectors and what each of them is of: what mlrun embed makes, keeps in a file and looks in.
//
// The file is an .npz: the vectors, f32 [rows, width], under the name of the pipeline's output; `file`, strings [rows]; of lines of text also
// `line`, i64 [rows], and `text`, strings [rows], unless the texts are long (kMostTextBytes); `model`, strings [1], the root of the container.
#pragma once

#include <string>
#include <vector>

#include "runtime/cli/embed/embedder.h"
#include "runtime/io/file.h"

namespace mlc::cli {

struct Row {
  std::string file;
  uint64_t line = 0;  // from 1; 0: the file as a whole
  std::string text;   // of the line
};

struct VectorIndex {
  Vectors vectors;
  std::vector<Row> rows;
  std::string model;  // root of the container
};

// The bytes of an .npz. InputMismatch where it is no index.
Result<VectorIndex> read_index(HostBuffer bytes, const std::string& path, const io::DecodeLimits& limits);
Status write_index(const VectorIndex& index, io::FileWriter& writer);

}  // namespace mlc::cli
