// Errors of the C libraries as exceptions of Python.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstring>

#include "runtime/api/mlc.h"
#include "runtime/api/sized.h"
#include "runtime/mlio/mlio.h"

namespace mlrt {

namespace nb = nanobind;
using ::mlc::sized;

const MlcApi& mlc();
// Whether the table of the library reaches as far as a function, which is at `offset`: those behind its end an older library lacks.
inline bool has(size_t offset) { return offset + sizeof(void (*)()) <= mlc().size; }
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

// The name of an input, which `text` owns. Raises TypeError where it is no str, ValueError where it cannot be written in UTF-8 or holds a
// zero: keys of a dictionary may be anything, and a str may hold halves of characters.
const char* name_of(nb::handle text);

// The exception that is being handled, as an object of Python: to be called in a `catch`. None is lost.
nb::object exception_in_flight();

// What is no UTF-8 becomes lone surrogates, from which the bytes can be had again.
inline nb::str show(MlcString s) {
  PyObject* text = PyUnicode_DecodeUTF8(s.data ? s.data : "", static_cast<Py_ssize_t>(s.bytes), "surrogateescape");
  if (!text) throw nb::python_error();
  return nb::steal<nb::str>(text);
}
inline nb::str show(const char* text) { return show(MlcString{text, std::strlen(text)}); }

}  // namespace mlrt
