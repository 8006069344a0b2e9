// Values of Python as arrays of the C interface, borrowed as long as this lives: dense arrays with the buffer protocol
// (NumPy, array, bytes) and CPU tensors with DLPack without a copy, everything else through NumPy. To be made and destroyed
// with the lock of the interpreter; in between it may be released.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "errors.h"

namespace mlrt {

// What a program says of an input or output.
struct Port {
  std::string name;
  int32_t dtype = MLC_NONE;
  uint32_t list_depth = 0;
  std::vector<int64_t> extents;  // -1: the input decides
  bool is_fixed() const;         // an array whose size is known
};

class Inputs {
 public:
  Inputs() = default;
  Inputs(const Inputs&) = delete;
  ~Inputs();

  // Of runs of this session: arrays of its device are taken where they are. Null: they are refused.
  void set_session(MlcSession* session) { session_ = session; }
  // Recursion: the depth of lists, which the port says.
  MlcTensor add(const char* name, const Port& port, nb::handle value);

 private:
  MlcTensor add_list(const char* name, const Port& port, nb::handle value, uint32_t depth);
  MlcTensor add_array(const char* name, int32_t dtype, nb::handle value);
  MlcTensor add_strings(const char* name, nb::handle value);
  // False, and no exception, where the value has no dense buffer of elements that are known.
  bool add_buffer(nb::handle value, MlcTensor& out);
  bool add_dlpack(nb::handle value, MlcTensor& out);

  bool add_on_device(nb::handle value, MlcTensor& out);

  MlcSession* session_ = nullptr;
  std::list<Py_buffer> buffers_;
  std::vector<nb::object> kept_;
  std::list<std::vector<int64_t>> shapes_;
  std::list<std::vector<MlcString>> strings_;
  std::list<std::vector<MlcTensor>> items_;
};

}  // namespace mlrt
