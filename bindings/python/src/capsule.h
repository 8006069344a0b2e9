// Arrays of DLPack in capsules of Python. A consumer that takes ownership renames the capsule.
#pragma once

#include <string_view>

#include "errors.h"
#include "runtime/api/devices/dlpack.h"

namespace mlrt {

namespace dlpack = mlc::dlpack;

inline constexpr const char* kNewCapsule = "dltensor_versioned";
inline constexpr const char* kOldCapsule = "dltensor";

// Of dlpack::Versioned or Managed; `name` is the constant for it. The capsule owns it.
template <class Managed>
nb::object capsule_of(Managed* managed, const char* name) {
  PyObject* const capsule = PyCapsule_New(managed, name, [](PyObject* c) {
    const char* const now = PyCapsule_GetName(c);
    if (!now || (std::string_view(now) != kNewCapsule && std::string_view(now) != kOldCapsule)) return;  // taken over
    auto* const left = static_cast<Managed*>(PyCapsule_GetPointer(c, now));
    left->deleter(left);
  });
  if (capsule) return nb::steal(capsule);
  managed->deleter(managed);
  throw nb::python_error();
}

}  // namespace mlrt
