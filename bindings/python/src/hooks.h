// What is easier said in Python: functions of mlrt/_arrays.py and mlrt/_errors.py that the extension calls.
#pragma once

#include "errors.h"

namespace mlrt {

struct Hooks {
  PyObject* convert = nullptr;        // (value, dtype name) -> (object with a buffer, dtype name)
  PyObject* strings = nullptr;        // (value) -> (shape, list of bytes)
  PyObject* string_array = nullptr;   // (shape, list of str) -> numpy array of objects
  PyObject* extended_array = nullptr; // (unsigned integers, dtype name) -> numpy array of ml_dtypes, if there
  PyObject* asarray = nullptr;        // numpy.asarray
};
// Set once, when the package is imported; they live as long as the process.
Hooks& hooks();

nb::object call(PyObject* hook, auto... arguments) { return nb::handle(hook)(arguments...); }

// A numpy array over a Tensor, which it keeps alive.
nb::object as_numpy(nb::handle tensor);

}  // namespace mlrt
