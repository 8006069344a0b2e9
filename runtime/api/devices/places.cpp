// Arrays of a run in memory that the application holds (memory.h). Of libmlrt-gpu.
//
// They are used in place if they are on the device that runs the program. What cannot be is brought to the host, and the session's note says so.
#include <deque>
#include <utility>

#include "runtime/api/devices/memory.h"
#include "runtime/api/devices/together.h"
#include "runtime/api/table/run.h"

namespace mlc::api {
namespace {


struct Array {
  MlcMemory* memory = nullptr;
  uint32_t output = 0;      // its number, if it is one
  bool is_output = false;
  device::Range range;      // within the memory
  AlignedBlock on_host;     // what stands for it there; without data: it is used where it is
};
// Of the run that is bound.
struct Places {
  std::deque<Array> arrays;
};
Places& places_of(MlcSession* s) {
  if (!s->places) s->places = std::make_shared<Places>();
  return *static_cast<Places*>(s->places.get());
}

// Empty: a run of this function uses it where it is.
std::string why_not_in_place(const Session& session, const exec::Function& f, uint32_t port, const Array& array) {
  if (session.device_of_runs() != array.memory->device) return compose("runs are on {}", session.device().empty() ? "the processor" : session.device());
  if (f.is_program()) return compose("'{}' decides while it runs what it does with its values", f.name);
  for (const exec::Function::ElementRead& read : f.elements)
    if (!array.is_output && read.input == port) return "shapes depend on its elements";
  const uint64_t alignment = array.memory->device->limits().buffer_alignment;
  if (array.range.offset % alignment != 0) return compose("it begins at {}, multiples of {} are used in place", array.range.offset, alignment);
  if (!range_within(array.range.offset, (array.range.length + kLine - 1) / kLine * kLine, array.memory->memory->size())) return "its last line of 64 bytes is not whole";
  return {};
}

bool overlap(const Array& a, const Array& b) {
  return a.memory->memory && a.memory->memory == b.memory->memory && a.range.offset < b.range.offset + b.range.length &&
         b.range.offset < a.range.offset + a.range.length;
}

}  // namespace

device::Device* Session::device_of_runs() const {
  return on_devices_ && !is_together_ ? static_cast<const OnDevice*>(on_devices_.get())->device : nullptr;
}

void clear_places(MlcSession* s) { s->places.reset(); }

Status place_tensor(MlcSession* s, const MlcTensor& t, uint32_t function, uint32_t port, exec::InputArg* in, exec::OutputArg* out) {
  const exec::Function& f = s->session->plan().functions[function];
  const exec::Port& p = (in ? f.inputs : f.outputs)[port];
  if (t.data) return Status(Code::Usage, "'{}' has data of its own beside memory", p.name);
  if (p.list_depth > 0 || p.dtype == DType::Str) return Status(Code::InputMismatch, 4001, "'{}' is no array of numbers, which alone lie in memory", p.name);
  Array array;
  MLC_ASSIGN(array.memory, find_memory(t));
  array.range = {array.memory->memory.get(), t.reserved[1], t.bytes};
  array.is_output = out != nullptr;
  array.output = port;
  if (!range_within(t.reserved[1], t.bytes, array.memory->bytes))
    return Status(Code::InputMismatch, 4001, "'{}' is {} bytes from {} on, in memory of {}", p.name, t.bytes, t.reserved[1], array.memory->bytes);
  if (out && array.memory->is_read_only) {
    Status read_only(Code::InputMismatch, 4001, "'{}' is to be written to memory that may only be read", p.name);
    return array.memory->note.empty() ? std::move(read_only) : std::move(read_only).fact("it is a copy: {}", array.memory->note);
  }
  std::byte* data = array.memory->data ? array.memory->data + t.reserved[1] : nullptr;
  Places& places = places_of(s);
  if (array.memory->device) {
    for (const Array& other : places.arrays)
      if ((out || other.is_output) && overlap(array, other)) return Status(Code::Usage, "'{}' overlaps another array of the run, and one of them is an output", p.name);
    if (const std::string why = why_not_in_place(*s->session, f, port, array); !why.empty()) {
      MLC_ASSIGN(array.on_host, AlignedBlock::allocate(t.bytes, s->session->allocator()));
      if (in) MLC_RETURN_IF_ERROR(download(*array.memory, t.reserved[1], array.on_host.data(), t.bytes));
      data = array.on_host.data();
      s->session->tell(compose("'{}' is copied between {} and the host: {}", p.name, array.memory->device_name, why));
    }
  }
  const Array& kept = places.arrays.emplace_back(std::move(array));
  if (in) in->data = data, in->on_device = data ? nullptr : &kept.range;
  else out->data = data, out->on_device = data ? nullptr : &kept.range;
  return ok();
}

bool has_copied_places(const MlcSession* s) {
  if (!s->places) return false;
  for (const Array& a : static_cast<const Places*>(s->places.get())->arrays)
    if (a.on_host.data()) return true;
  return false;
}

Status settle_places(MlcSession* s) {
  if (!s->places) return ok();
  for (const Array& a : places_of(s).arrays) {
    if (!a.is_output) continue;
    exec::OutputArg& out = s->outputs[a.output];
    if (a.on_host.data()) MLC_RETURN_IF_ERROR(upload(*a.memory, a.range.offset, a.on_host.data(), out.bytes));
    out.data = a.memory->data ? out.data : nullptr;
  }
  return ok();
}

}  // namespace mlc::api
