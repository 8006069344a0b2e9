// Inputs that the user does not give, as `-i random` and `-i zeros` ask for: shapes that fit together, and numbers that are legal.
//
// A free extent is what --dim says; else what a given array shows; else, of a picture of bytes, 480 rows and 640 columns; else that of the
// golden vector, with which the program is known to run; else its smallest value, at least 1.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/cli/options.h"
#include "runtime/io/tensor.h"

namespace mlc::cli {

class InputMemory;

// Bytes [height, width, 1, 3 or 4] whose height and width a run tells, and may be those of a camera's small picture.
bool is_picture_of_any_size(const MlcPort& port);

class MadeUpInputs {
 public:
  // `dims`: texts NAME=N. Usage where a name is none of a free extent. The model must outlive this.
  static Result<MadeUpInputs> of(const OpenModel& model, uint32_t program, const std::vector<std::string>& dims);

  const std::vector<MlcPort>& ports() const { return ports_; }
  // Takes the free extents that an array for `port` shows.
  void fit(const MlcPort& port, const HostTensor& given);
  // For the input of this index. Numbers that are no floats are drawn from those of the golden vector, if there is one:
  // they are legal as indices, lengths and choices.
  Result<HostTensor> make(size_t index, bool random, InputMemory& memory);

 private:
  MadeUpInputs(const OpenModel& model, uint32_t program) : model_(&model), program_(program) {}
  Status read_dims(const std::vector<std::string>& dims);
  Status read_golden();
  Result<std::vector<int64_t>> shape_of(size_t index) const;

  const OpenModel* model_;
  uint32_t program_;
  std::vector<MlcPort> ports_;
  std::map<std::string, int64_t> extents_;  // that are known otherwise than by the golden vector
  bool is_golden_read_ = false;             // when the first one is made
  std::vector<MlcTensor> golden_;           // for each port, or empty; of the model
};

}  // namespace mlc::cli
