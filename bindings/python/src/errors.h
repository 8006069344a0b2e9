// Errors of the C libraries as exceptions of Python.
#pragma once

#include <nanobind/nanobind.h>

#include "runtime/api/mlc.h"
#include "runtime/api/sized.h"
#include "runtime/mlio/mlio.h"

namespace mlrt {

namespace nb = nanobind;
using ::mlc::sized;

const MlcApi& mlc();
// Loads libmlio.so, which needs the decoders of pictures, when it is asked for the first time. Throws if it cannot.
const MlioApi& mlio();
// Null if it cannot.
const MlioApi* mlio_if_there();

// `make(code, number, message, facts, help, text)` gives the exception to raise.
void set_error_factory(nb::callable make);

// Nothing if `code` is MLC_OK, else throws what the factory makes of the error, which it releases.
void check(int code, MlcError*& error);
void check(int code, MlioError*& error);
[[noreturn]] void raise_error(int code, int number, const char* message, nb::list facts = {}, const char* help = "");

// What is no UTF-8 becomes lone surrogates, from which the bytes can be had again.
inline nb::str show(MlcString s) {
  PyObject* text = PyUnicode_DecodeUTF8(s.data ? s.data : "", static_cast<Py_ssize_t>(s.bytes), "surrogateescape");
  if (!text) throw nb::python_error();
  return nb::steal<nb::str>(text);
}

}  // namespace mlrt
