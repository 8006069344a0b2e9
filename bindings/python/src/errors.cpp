#include "errors.h"

#include <dlfcn.h>

namespace mlrt {
namespace {

PyObject* error_factory = nullptr;  // as long as the process

[[noreturn]] void raise_made(int code, int number, nb::str message, nb::list facts, nb::str help, nb::str text) {
  const nb::object made = nb::handle(error_factory)(code, number, message, nb::tuple(facts), help, text);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  throw nb::python_error();
}

// `api` is the table that made the error.
template <class Api, class Error>
[[noreturn]] void raise_from(const Api& api, int code, Error*& error) {
  nb::list facts;
  for (uint32_t i = 0; const char* fact = api.error_fact(error, i); ++i) facts.append(show(fact));
  const nb::str message = show(api.error_message(error)), help = show(api.error_help(error)), text = show(api.error_text(error));
  const int number = api.error_number(error);
  api.error_release(error);
  error = nullptr;
  raise_made(code, number, message, facts, help, text);
}

const char* why_no_mlio = "";

const MlioApi* load_mlio() {
  // Beside this module: its RUNPATH is looked at.
  void* library = dlopen("libmlio.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    static const std::string why = dlerror();
    why_no_mlio = why.c_str();
    return nullptr;
  }
  const auto get = reinterpret_cast<const MlioApi* (*)(uint32_t)>(dlsym(library, "mlio_get_api"));
  const MlioApi* api = get ? get(MLIO_API_VERSION) : nullptr;
  if (!api) why_no_mlio = "libmlio.so.1 is older than this module";
  return api;
}

}  // namespace

const MlcApi& mlc() {
  static const MlcApi* const api = mlc_get_api(MLC_API_VERSION);
  if (!api) throw std::runtime_error("libmlrt.so.1 is older than this module");
  return *api;
}

const MlioApi* mlio_if_there() {
  static const MlioApi* const api = load_mlio();
  return api;
}

const MlioApi& mlio() {
  if (const MlioApi* api = mlio_if_there()) return *api;
  nb::list facts;
  facts.append(nb::str(why_no_mlio));
  raise_error(MLC_UNSUPPORTED, 0, "pipelines need the library of decoders, which cannot be loaded", facts,
              "apt install libjpeg62-turbo libpng16-16 libtiff6 libwebp7 libopenjp2-7, or give arrays");
}

void set_error_factory(nb::callable make) {
  Py_XDECREF(error_factory);
  error_factory = make.release().ptr();
}

void raise_error(int code, int number, const char* message, nb::list facts, const char* help) {
  raise_made(code, number, show(message), std::move(facts), show(help), show(message));
}

const char* name_of(nb::handle text) {
  if (!PyUnicode_Check(text.ptr())) {
    const nb::str found = nb::str("the name of an input is a str, found {}").format(nb::inst_name(text));
    throw nb::type_error(found.c_str());
  }
  Py_ssize_t length = 0;
  const char* name = PyUnicode_AsUTF8AndSize(text.ptr(), &length);
  if (!name) PyErr_Clear();
  if (!name || std::strlen(name) != static_cast<size_t>(length)) throw nb::value_error("the name of an input is no text that UTF-8 can hold");
  return name;
}

nb::object exception_in_flight() {
  const auto made = [](PyObject* type, const char* message) { return nb::handle(type)(show(message)); };
  try {
    throw;
  } catch (nb::python_error& raised) {
    return nb::borrow(raised.value());
  } catch (const std::bad_alloc&) {
    return made(PyExc_MemoryError, "no memory for the outputs");
  } catch (const std::exception& e) {
    return made(PyExc_RuntimeError, e.what());
  } catch (...) {
    return made(PyExc_RuntimeError, "a run ended in an unknown way");
  }
}

void check(int code, MlcError*& error) {
  if (code != MLC_OK) raise_from(mlc(), code, error);
}
void check(int code, MlioError*& error) {
  if (code != MLC_OK) raise_from(mlio(), code, error);
}

}  // namespace mlrt
