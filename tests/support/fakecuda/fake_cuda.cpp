#include "tests/support/fakecuda/fake.h"

namespace fakecuda {

Fake& fake() {
  static Fake& f = *[] {
    auto* made = new Fake;
    made->reset(std::getenv("MLC_FAKE_CUDA"));
    return made;
  }();
  return f;
}

thread_local std::vector<Handle> contexts;
const Handle kContext = reinterpret_cast<Handle>(uintptr_t{0xc0de});

int ready() {
  if (!fake().initialised) return 3;
  if (contexts.empty() || contexts.back() != kContext) return 201;
  return fake().sticky;
}

int told(const char* name) {
  const int code = int(fake().number("fail_" + std::string(name), 0));
  if (code == 700 || code == 719) fake().sticky = code;
  return code;
}

int forbids_capture() {
  int code = 0;
  for (auto& [handle, stream] : fake().streams)
    if (stream.captures && (stream.is_global || stream.captured_by == std::this_thread::get_id())) stream.broken = true, code = 900;
  return code;
}

int put(Handle handle, Work work) {
  const auto stream = fake().streams.find(handle);
  if (stream == fake().streams.end()) return 400;
  if (!stream->second.captures) return work();
  stream->second.captured.push_back(std::move(work));
  return 0;
}

namespace {

// The bytes at an address of the device or of pinned memory; null: not all of them are there.
std::byte* resolve(uint64_t address, size_t bytes) {
  for (auto& [at, data] : fake().blocks)
    if (address >= at && address - at <= data.size() && bytes <= data.size() - (address - at)) return data.data() + (address - at);
  for (auto& [at, size] : fake().host)
    if (address >= at && address - at <= size && bytes <= size - (address - at)) return reinterpret_cast<std::byte*>(address);
  return nullptr;
}

// The PTX that cubins of the tests carry (tests/support/tiny_cubin.h); null: none. Behind the last section is their table.
const char* text_in_cubin(const char* elf, int64_t& architecture) {
  uint64_t end = 0;
  uint32_t flags = 0;
  std::memcpy(&end, elf + 40, 8);
  std::memcpy(&flags, elf + 48, 4);
  architecture = (elf[7] == 51 ? flags : flags >> 8) & 0xff;
  const std::string_view all(elf, end);
  const size_t at = all.find(".version ");
  return at == all.npos ? nullptr : elf + at;
}

int code_of(const std::string& error) {
  return error.find("out of range") != error.npos ? 700 : error.find("misaligned") != error.npos ? 716 : 719;
}

// A launch in its turn; that it failed is told by later calls.
int execute(const Function& kernel, unsigned gx, unsigned gy, unsigned bx, unsigned shared, const std::vector<uint64_t>& arguments) {
  Fake& f = fake();
  const Entry& e = *kernel.entry;
  if (++f.launches == f.number("fail_launch", -1)) return f.sticky = 719, 0;
  ptx::Executor program(e, arguments);
  lanes::Launch launch;
  launch.lanes = bx;
  launch.cluster = e.cluster;
  launch.grid = {gx, gy, 1};
  launch.shared_bytes = e.shared_bytes + shared;
  f.error = program.error().empty() ? lanes::run(program, f.memory, launch) : program.error();
  if (!f.error.empty()) f.sticky = code_of(f.error);
  return 0;
}

}  // namespace
}  // namespace fakecuda

using namespace fakecuda;

extern "C" {

// For tests. What it pretends to be from now on; what was allocated stays.
void mlc_fake_cuda_reset(const char* script) {
  FAKE_LOCK;
  fake().reset(script);
}
const char* mlc_fake_cuda_error() { return fake().error.c_str(); }
uint64_t mlc_fake_cuda_allocated() { return fake().allocated; }
int64_t mlc_fake_cuda_loaded() { return fake().loaded; }
int64_t mlc_fake_cuda_graph_launches() { return fake().graph_launches; }
uint64_t mlc_fake_cuda_graphs() { return fake().graphs.size() + fake().instances.size(); }

int cuInit(unsigned flags) {
  FAKE_LOCK;
  if (flags != 0) return 1;
  const int code = int(fake().number("init", 0));
  fake().initialised = code == 0;
  return code;
}
int cuDriverGetVersion(int* version) { return *version = int(fake().number("driver", 13000)), 0; }
int cuDeviceGetCount(int* count) { return *count = 1, fake().initialised ? 0 : 3; }
int cuDeviceGet(int* device, int ordinal) { return *device = 0, ordinal == 0 ? 0 : 101; }
int cuDeviceGetName(char* name, int size, int) { return std::snprintf(name, size_t(size), "Fake %d", int(fake().number("cc", 90))), 0; }
int cuDeviceGetUuid(Uuid* uuid, int) {
  FAKE_LOCK;
  const auto said = fake().script.find("uuid");
  for (size_t k = 0; k < 16; ++k)
    uuid->bytes[k] = static_cast<unsigned char>(said == fake().script.end() || said->second.size() != 32 ? 0xa0 + k : std::stoul(said->second.substr(2 * k, 2), nullptr, 16));
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  const int cc = int(fake().number("cc", 90));
  const std::map<int, int> all = {{1, 1024}, {5, 0x7fffffff}, {6, 65535}, {8, 49152}, {75, cc / 10}, {76, cc % 10}, {97, cc >= 90 ? 232448 : cc >= 80 ? 166912 : 65536}};
  const auto found = all.find(attribute);
  return found == all.end() ? 1 : (*value = found->second, 0);
}
int cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = size_t(fake().number("memory", int64_t{1} << 30)), 0; }
int cuDevicePrimaryCtxRetain(Handle* context, int) { return *context = kContext, fake().initialised ? 0 : 3; }
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxPushCurrent_v2(Handle context) { return context != kContext ? 201 : (contexts.push_back(context), 0); }
int cuCtxPopCurrent_v2(Handle* context) {
  if (contexts.empty()) return 201;
  *context = contexts.back();
  contexts.pop_back();
  return 0;
}

int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  FAKE_READY_OUTSIDE;
  Fake& f = fake();
  if (bytes == 0) return 1;
  if (++f.allocations == f.number("fail_allocation", -1) || f.allocated + bytes > uint64_t(f.number("memory", int64_t{1} << 30))) return 2;
  std::vector<std::byte> data(bytes, std::byte{0xCD});
  f.memory.track = bytes <= 1 << 20;
  const uint64_t at = f.memory.add(data, true);
  f.blocks.emplace(at, std::move(data));  // its bytes stay where they are
  f.allocated += bytes;
  return *address = at, 0;
}
int cuMemFree_v2(uint64_t address) {
  FAKE_READY_OUTSIDE;
  const auto block = fake().blocks.find(address);
  if (block == fake().blocks.end()) return 1;
  fake().allocated -= block->second.size();
  fake().memory.remove(address);
  fake().blocks.erase(block);
  return 0;
}
int cuMemGetAddressRange_v2(uint64_t* base, size_t* bytes, uint64_t address) {
  FAKE_READY;
  for (const auto& [at, data] : fake().blocks)
    if (address >= at && address - at < data.size()) return *base = at, *bytes = data.size(), 0;
  return 500;
}
int cuMemHostAlloc(void** out, size_t bytes, unsigned) {
  FAKE_READY_OUTSIDE;
  *out = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!*out) return 2;
  fake().host[reinterpret_cast<uintptr_t>(*out)] = bytes;
  return 0;
}
int cuMemFreeHost(void* data) {
  FAKE_READY_OUTSIDE;
  if (fake().host.erase(reinterpret_cast<uintptr_t>(data)) == 0) return 1;
  std::free(data);
  return 0;
}
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, Handle stream) {
  FAKE_READY;
  if (!resolve(to, bytes) || !resolve(from, bytes)) return 1;
  return put(stream, [=] {
    std::byte *target = resolve(to, bytes), *source = resolve(from, bytes);
    if (!target || !source) return fake().sticky = 700;  // freed before a graph used it
    return std::memmove(target, source, bytes), 0;
  });
}
int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, Handle stream) {
  FAKE_READY;
  if (!resolve(to, bytes)) return 1;
  return put(stream, [=] {
    std::byte* target = resolve(to, bytes);
    return target ? (std::memset(target, byte, bytes), 0) : fake().sticky = 700;
  });
}

int cuModuleLoadDataEx(Handle* module, const void* image, unsigned num_options, int* options, void** values) {
  FAKE_READY_OUTSIDE;
  const auto* text = static_cast<const char*>(image);
  fake().loaded = 0;
  if (std::memcmp(text, "\x7f" "ELF", 4) == 0) {
    text = text_in_cubin(text, fake().loaded);
    if (!text || !fake().number("cubins", 0) || fake().loaded > fake().number("cc", 90)) return 209;
  }
  auto parsed = mlc::targets::ptx::parse(text);
  if (!parsed.ok()) {
    for (unsigned k = 0; k + 1 < num_options; ++k)
      if (options[k] == 5 && options[k + 1] == 6) std::snprintf(static_cast<char*>(values[k]), reinterpret_cast<uintptr_t>(values[k + 1]), "%s", parsed.status().text().c_str());
    return 218;
  }
  // The releases of CUDA that brought these versions.
  const std::map<unsigned, int> releases = {{65, 10020}, {70, 11000}, {78, 11080}, {84, 12040}};
  const auto release = releases.find(parsed->version);
  if (release == releases.end() || release->second > fake().number("driver", 13000)) return 222;
  const auto cc = static_cast<unsigned>(fake().number("cc", 90));
  if (parsed->is_specific ? parsed->sm != cc : parsed->sm > cc) return 218;
  auto made = std::make_unique<Module>();
  made->image = std::move(*parsed);
  for (const Entry& e : made->image.entries) made->functions[e.name].entry = &e;
  *module = fake().handle();
  fake().modules[*module] = std::move(made);
  return 0;
}
int cuModuleUnload(Handle module) {
  FAKE_READY_OUTSIDE;
  return fake().modules.erase(module) ? 0 : 400;
}
int cuModuleGetFunction(Handle* function, Handle module, const char* name) {
  FAKE_READY;
  const auto found = fake().modules.find(module);
  if (found == fake().modules.end()) return 400;
  const auto f = found->second->functions.find(name);
  return f == found->second->functions.end() ? 500 : (*function = reinterpret_cast<Handle>(&f->second), 0);
}
int cuFuncSetAttribute(Handle function, int attribute, int value) {
  FAKE_READY;
  int most = 0;
  cuDeviceGetAttribute(&most, 97, 0);
  auto* f = reinterpret_cast<Function*>(function);
  if (attribute != 8 || value < 0 || uint64_t(value) + f->entry->shared_bytes > uint64_t(most)) return 1;
  f->most_dynamic_shared = uint64_t(value);
  return 0;
}

int cuLaunchKernel(Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, Handle stream, void** parameters, void** extra) {
  FAKE_READY;
  const auto* kernel = reinterpret_cast<const Function*>(function);
  const Entry& e = *kernel->entry;
  if (extra || !gx || !gy || gz != 1 || gy > 65535 || bx == 0 || bx > e.max_lanes[0] || by != 1 || bz != 1) return 1;
  if (shared > std::max<uint64_t>(kernel->most_dynamic_shared, 49152 - std::min(49152u, e.shared_bytes))) return 1;
  std::vector<uint64_t> arguments;
  for (size_t k = 0; k < e.params.size(); ++k) {
    uint64_t value = 0;
    std::memcpy(&value, parameters[k], e.params[k].bytes);
    arguments.push_back(value);
  }
  return put(stream, [=] { return execute(*kernel, gx, gy, bx, shared, arguments); });
}

int cuStreamCreate(Handle* stream, unsigned) {
  FAKE_READY;
  return fake().streams[*stream = fake().handle()] = {}, 0;
}
int cuStreamDestroy_v2(Handle stream) {
  FAKE_READY_OUTSIDE;
  return fake().streams.erase(stream) ? 0 : 400;
}
int cuStreamSynchronize(Handle stream) {
  FAKE_READY;
  return !stream || fake().streams.contains(stream) ? 0 : 400;
}
int cuEventCreate(Handle* event, unsigned) {
  FAKE_READY;
  return fake().events[*event = fake().handle()] = 1, 0;
}
int cuEventDestroy_v2(Handle event) {
  FAKE_READY;
  return fake().events.erase(event) ? 0 : 400;
}
int cuEventRecord(Handle event, Handle stream) {
  FAKE_READY;
  return fake().events.contains(event) ? put(stream, [] { return 0; }) : 400;
}
#ifndef MLC_FAKE_CUDA_OLD
int cuEventQuery(Handle event) {
  FAKE_READY_OUTSIDE;
  if (!fake().events.contains(event)) return 400;
  return fake().number("hang", 0) ? 600 : 0;
}
#endif

}  // extern "C"
