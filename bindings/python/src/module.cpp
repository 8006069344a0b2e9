// The extension module mlrt._core: the C libraries as classes. What users see is in mlrt/*.py.
#include <nanobind/nanobind.h>

#include "async.h"
#include "device_tensor.h"
#include "hooks.h"
#include "model.h"
#include "pipeline.h"
#include "stream.h"
#include "tensor.h"

namespace mlrt {

Hooks& hooks() {
  static Hooks all;
  return all;
}

namespace {

// Where an input would be read from, and whether that is the memory of the value itself: for tests of what is not copied.
nb::tuple borrowed(nb::handle value) {
  Inputs inputs;
  const MlcTensor t = inputs.add("value", Port{}, value);
  return nb::make_tuple(reinterpret_cast<uintptr_t>(t.data), t.bytes);
}

}  // namespace
}  // namespace mlrt

NB_MODULE(_core, m) {
  using namespace mlrt;
  mlrt::mlc();  // says so now if the library is too old
  nb::set_leak_warnings(false);  // models may live as long as the process
  m.def("version", [] { return mlc_version_string(); });
  m.def("set_hooks",
        [](nb::callable make_error, nb::callable convert, nb::callable strings, nb::callable string_array,
           nb::callable extended_array, nb::callable asarray) {
          set_error_factory(make_error);
          hooks() = {convert.release().ptr(), strings.release().ptr(), string_array.release().ptr(),
                     extended_array.release().ptr(), asarray.release().ptr()};
        },
        nb::arg("make_error"), nb::arg("convert"), nb::arg("strings"), nb::arg("string_array"), nb::arg("extended_array"),
        nb::arg("asarray"));
  m.def("borrowed", &borrowed, nb::arg("value"));
  add_tensor(m);
  add_device_tensor(m);
  add_model(m);
  add_pipeline(m);
  add_stream(m);
  add_async(m);
}
