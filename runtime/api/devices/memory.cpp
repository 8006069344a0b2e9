#include "runtime/api/devices/memory.h"

#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "runtime/api/sizes.h"
#include "runtime/api/table.h"
#include "runtime/api/table/run.h"
#include "runtime/plan/device/device_link.h"

namespace {

// Of the process: an address in a tensor is compared with these before it is believed.
struct Registry {
  std::mutex mu;
  std::set<MlcMemory*> live;  // guarded by mu
};
Registry& registry() {
  static auto& all = *new Registry;
  return all;
}

}  // namespace

MlcMemory::MlcMemory() {
  const std::lock_guard lock(registry().mu);
  registry().live.insert(this);
}

MlcMemory::~MlcMemory() {
  {
    const std::lock_guard lock(registry().mu);
    registry().live.erase(this);
  }
  memory.reset();
  if (source && source->deleter) source->deleter(source);
}

namespace mlc::api {
namespace {

struct SharedLink {
  explicit SharedLink(device::Device& device) : link(device) {}
  std::mutex mu;
  exec::DeviceLink link;  // guarded by mu
};

// Devices stay as long as the process, and so do these.
SharedLink& link_of(device::Device& device) {
  static std::mutex mu;
  static auto& links = *new std::map<device::Device*, std::unique_ptr<SharedLink>>;
  const std::lock_guard lock(mu);
  std::unique_ptr<SharedLink>& found = links[&device];
  if (!found) found = std::make_unique<SharedLink>(device);
  return *found;
}

device::Range range_of(const MlcMemory& memory, uint64_t offset, uint64_t bytes) { return {memory.memory.get(), offset, bytes}; }

// The bytes of an array in memory, or of the caller.
struct ArrayPlace {
  MlcMemory* memory = nullptr;  // null: `data` is the caller's
  uint64_t offset = 0;
  std::byte* data = nullptr;    // null: on a device
};
Result<ArrayPlace> place_of(const MlcTensor& t, uint64_t bytes) {
  if (t.list_depth != 0 || t.dtype == MLC_STR) return Status(Code::Usage, "arrays of numbers are copied, lists and strings are not");
  if (t.reserved[0] == 0 && t.reserved[1] == 0) {
    if (bytes > 0 && !t.data) return Status(Code::Usage, "an array without data");
    return ArrayPlace{nullptr, 0, static_cast<std::byte*>(t.data)};
  }
  MLC_ASSIGN(MlcMemory* const memory, find_memory(t));
  if (!range_within(t.reserved[1], bytes, memory->bytes))
    return Status(Code::InputMismatch, "{} bytes from {} on, in memory of {}", bytes, t.reserved[1], memory->bytes);
  return ArrayPlace{memory, t.reserved[1], memory->data ? memory->data + t.reserved[1] : nullptr};
}

Status copy(const MlcTensor& from, const MlcTensor& to) {
  const uint64_t bytes = from.bytes;
  if (to.bytes < bytes) return Status(Code::InputMismatch, "{} bytes are to be copied to {}", bytes, to.bytes);
  MLC_ASSIGN(const ArrayPlace source, place_of(from, bytes));
  MLC_ASSIGN(const ArrayPlace target, place_of(to, bytes));
  if (target.memory && target.memory->is_read_only) return Status(Code::InputMismatch, "the memory may only be read");
  if (bytes == 0) return ok();
  if (source.data && target.data) return std::memmove(target.data, source.data, bytes), ok();
  if (source.data) return upload(*target.memory, target.offset, source.data, bytes);
  if (target.data) return download(*source.memory, source.offset, target.data, bytes);
  if (source.memory->device == target.memory->device) return copy_within(*target.memory, target.offset, *source.memory, source.offset, bytes);
  MLC_ASSIGN(AlignedBlock between, AlignedBlock::allocate(bytes));
  MLC_RETURN_IF_ERROR(download(*source.memory, source.offset, between.data(), bytes));
  return upload(*target.memory, target.offset, between.data(), bytes);
}

}  // namespace

Result<MlcMemory*> find_memory(const MlcTensor& t) {
  auto* const memory = reinterpret_cast<MlcMemory*>(static_cast<uintptr_t>(t.reserved[0]));
  const std::lock_guard lock(registry().mu);
  if (registry().live.contains(memory)) return memory;
  return Status(Code::Usage, "`reserved` of a tensor names no memory that there is: set the whole struct to zeros first");
}

std::shared_ptr<device::Memory> find_own(const device::Device& device, uint64_t address) {
  const std::lock_guard lock(registry().mu);
  for (const MlcMemory* m : registry().live)
    if (m->device == &device && m->memory && device.address_of(*m->memory) == address) return m->memory;
  return nullptr;
}

Status download(MlcMemory& from, uint64_t offset, std::byte* to, uint64_t bytes) {
  SharedLink& shared = link_of(*from.device);
  const std::lock_guard lock(shared.mu);
  return shared.link.download(to, range_of(from, offset, bytes));
}

Status upload(MlcMemory& to, uint64_t offset, const std::byte* from, uint64_t bytes) {
  SharedLink& shared = link_of(*to.device);
  const std::lock_guard lock(shared.mu);
  return shared.link.upload(range_of(to, offset, bytes), from);
}

Status copy_within(MlcMemory& to, uint64_t to_offset, MlcMemory& from, uint64_t from_offset, uint64_t bytes) {
  if (to.memory == from.memory && to_offset < from_offset + bytes && from_offset < to_offset + bytes)
    return to_offset == from_offset ? ok() : Status(Code::Usage, "an array is copied over a part of itself");
  SharedLink& shared = link_of(*to.device);
  const std::lock_guard lock(shared.mu);
  return shared.link.copy(range_of(to, to_offset, bytes), range_of(from, from_offset, bytes));
}

Result<std::unique_ptr<MlcMemory>> allocate_memory(const Session& session, uint64_t bytes) {
  auto out = std::make_unique<MlcMemory>();
  out->bytes = bytes;
  if (device::Device* const device = session.device_of_runs()) {
    out->device = device;
    out->device_name = session.device();
    MLC_ASSIGN(out->memory, device->allocate(bytes, device::MemoryKind::Local));
  } else {
    MLC_ASSIGN(out->block, AlignedBlock::allocate(bytes, session.allocator()));
    out->data = out->block.data();
  }
  return out;
}

namespace table {

int memory_create(MlcSession* s, uint64_t bytes, MlcMemory** out, MlcError** error) {
  if (out) *out = nullptr;
  if (!s || !out) return fail(Status(Code::Usage, "memory_create: no session, or no place for the result"), error);
  auto memory = allocate_memory(s->sessions->main(), bytes);
  if (!memory) return fail(std::move(memory).status(), error);
  *out = memory->release();
  return MLC_OK;
}

void memory_release(MlcMemory* memory) {
  if (memory) memory->release();
}

int memory_info(const MlcMemory* m, MlcMemoryInfo* out) {
  if (!m) return MLC_USAGE;
  MlcMemoryInfo info{};
  info.device = m->device_name.c_str();
  info.bytes = m->bytes;
  info.data = m->data;
  info.is_read_only = m->is_read_only;
  info.note = m->note.c_str();
  return fill(info, out);
}

int tensor_copy(const MlcTensor* from, const MlcTensor* to, MlcError** error) {
  if (!from || !to) return fail(Status(Code::Usage, "tensor_copy: from nothing, or to nothing"), error);
  Status status = copy(*from, *to);
  return status.ok() ? int{MLC_OK} : fail(std::move(status), error);
}

}  // namespace table
}  // namespace mlc::api
