// Memory of a device through the C API, with a model of one input x and one output y, both f32[n,24]: arrays that stay there, DLPack in
// and out, runs that nobody waits for. Ends with 0, or with 1 and the lines that were wrong.
//   device_arrays MODEL.mlc PROBE_PROGRAM DEVICE
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/api/devices/dlpack.h"
#include "runtime/api/mlc.h"
#include "runtime/api/sized.h"

namespace {

using namespace mlc;

int failures = 0;
#define EXPECT(condition) \
  do {                    \
    if (!(condition)) ++failures, std::fprintf(stderr, "device_arrays.cpp:%d: %s\n", __LINE__, #condition); \
  } while (0)

const MlcApi& api() { return *mlc_get_api(MLC_API_VERSION); }

// What a call answers; its sentence is kept.
std::string sentence;
template <class Call>
int code_of(const Call& call) {
  MlcError* error = nullptr;
  const int code = call(&error);
  sentence = api().error_message(error);
  api().error_release(error);
  if ((code != MLC_OK && code != MLC_NO) == sentence.empty()) ++failures, std::fprintf(stderr, "code %d, sentence '%s'\n", code, sentence.c_str());
  return code;
}
template <class Call>
bool is_ok(const Call& call) {
  if (code_of(call) == MLC_OK) return true;
  ++failures;
  std::fprintf(stderr, "%s\n", sentence.c_str());
  return false;
}

constexpr int64_t kShape[] = {3, 24};
constexpr uint64_t kFloats = 72, kBytes = 288, kRoom = 512;
using Values = std::vector<float>;

MlcTensor host(Values& v) { return mlc_tensor(v.data(), MLC_F32, 2, kShape); }
MlcTensor there(const MlcMemory* m, uint64_t offset = 0) { return mlc_tensor_in(m, offset, MLC_F32, 2, kShape); }
MlcTensor room(const MlcMemory* m, uint64_t offset = 0) {
  MlcTensor t = there(m, offset);
  t.bytes = kRoom - 128;
  return t;
}

struct Sample {
  MlcModel* model = nullptr;
  MlcSession* session = nullptr;
  std::string note() const {
    auto info = sized<MlcSessionInfo>();
    api().session_info(session, &info);
    return info.note;
  }
  int run(const MlcTensor& in, MlcTensor& out) const {
    return code_of([&](MlcError** e) { return api().run(session, nullptr, &in, 1, &out, 1, e); });
  }
  // x after so many runs one after the other, on the host in between.
  Values after(Values x, int runs) const {
    for (int k = 0; k < runs; ++k) {
      Values y(kFloats);
      const MlcTensor in = host(x);
      MlcTensor out = host(y);
      EXPECT(run(in, out) == MLC_OK);
      x = y;
    }
    return x;
  }
};

Values start_values() {
  Values x(kFloats);
  for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(static_cast<int>(k * 37 % 101) - 50) / 50;
  return x;
}
Values values_in(const MlcMemory* m, uint64_t offset = 0) {
  Values v(kFloats);
  const MlcTensor from = there(m, offset), to = host(v);
  EXPECT(is_ok([&](MlcError** e) { return api().tensor_copy(&from, &to, e); }));
  return v;
}
MlcMemory* memory_with(const Sample& s, Values v, uint64_t offset = 0) {
  MlcMemory* m = nullptr;
  EXPECT(is_ok([&](MlcError** e) { return api().memory_create(s.session, kRoom, &m, e); }));
  const MlcTensor from = host(v), to = there(m, offset);
  EXPECT(is_ok([&](MlcError** e) { return api().tensor_copy(&from, &to, e); }));
  return m;
}

void arrays_stay_on_the_device(const Sample& s, const Sample& other) {
  const Values x = start_values(), want = s.after(x, 6);
  MlcMemory *a = memory_with(s, x), *b = memory_with(s, Values(kFloats));
  auto info = sized<MlcMemoryInfo>();
  EXPECT(api().memory_info(a, &info) == MLC_OK && std::string(info.device) == "gpu0" && !info.data && info.bytes == kRoom && !*info.note && !info.is_read_only);
  for (int k = 0; k < 6; ++k) {  // what one session gives the other takes
    const MlcTensor in = there(k % 2 ? b : a);
    MlcTensor out = room(k % 2 ? a : b);
    EXPECT((k % 3 ? s : other).run(in, out) == MLC_OK);
    EXPECT(out.bytes == kBytes && out.rank == 2 && out.shape[0] == 3 && !out.data && out.dtype == MLC_F32);
  }
  EXPECT(values_in(a) == want);
  EXPECT(s.note().empty() && other.note().empty());
  // Begun, and asked for.
  for (int k = 0; k < 4; ++k) {
    const MlcTensor in = there(k % 2 ? b : a);
    MlcTensor out = room(k % 2 ? a : b);
    EXPECT(is_ok([&](MlcError** e) { return api().run_start(s.session, nullptr, &in, 1, &out, 1, e); }));
    EXPECT(code_of([&](MlcError** e) { return api().state_reset(s.session, e); }) == MLC_USAGE);
    int code = MLC_NO;
    while (code == MLC_NO) code = code_of([&](MlcError** e) { return api().run_wait(s.session, 1000, e); });
    EXPECT(code == MLC_OK && out.bytes == kBytes && api().run_done(s.session) == 1);
  }
  EXPECT(values_in(a) == s.after(want, 4));
  const MlcTensor in = there(a);
  MlcTensor out{};
  EXPECT(is_ok([&](MlcError** e) { return api().run_start(s.session, nullptr, &in, 1, &out, 1, e); }));
  EXPECT(is_ok([&](MlcError** e) { return api().run_wait(s.session, UINT64_MAX, e); }));
  EXPECT(out.data && Values(static_cast<float*>(out.data), static_cast<float*>(out.data) + kFloats) == s.after(want, 5));
  api().memory_release(a);
  api().memory_release(b);
}

void what_cannot_be_used_in_place_is_copied_and_told(const Sample& s) {
  const Values x = start_values();
  MlcMemory *a = memory_with(s, x, 2), *b = memory_with(s, Values(kFloats));
  const MlcTensor in = there(a, 2);
  MlcTensor out = room(b, 64);
  EXPECT(s.run(in, out) == MLC_OK && !out.data);
  EXPECT(values_in(b, 64) == s.after(x, 1));
  EXPECT(s.note().find("'x' is copied between gpu0 and the host: it begins at 2, multiples of") != std::string::npos);
  MlcTensor begun = room(b, 64);
  EXPECT(is_ok([&](MlcError** e) { return api().run_start(s.session, nullptr, &in, 1, &begun, 1, e); }));
  EXPECT(is_ok([&](MlcError** e) { return api().run_wait(s.session, UINT64_MAX, e); }));
  EXPECT(begun.bytes == kBytes && values_in(b, 64) == s.after(x, 1));
  api().memory_release(a);
  api().memory_release(b);
}

void what_is_wrong_is_refused(const Sample& s) {
  MlcMemory *a = memory_with(s, start_values()), *b = memory_with(s, Values(kFloats));
  const auto refuses = [&](const MlcTensor& in, MlcTensor out, int code) {
    EXPECT(s.run(in, out) == code);
  };
  MlcTensor garbage = there(a);
  garbage.reserved[0] = 0x12345678;
  refuses(garbage, room(b), MLC_USAGE);
  refuses(there(a, 256), room(b), MLC_INPUT_MISMATCH);         // beyond its end
  refuses(there(a, UINT64_MAX - 8), room(b), MLC_INPUT_MISMATCH);
  refuses(there(a), room(b, 512), MLC_INPUT_MISMATCH);
  refuses(there(a), room(a), MLC_USAGE);                       // over its own input
  MlcTensor small = room(b);
  small.bytes = 100;
  refuses(there(a), small, MLC_INPUT_MISMATCH);
  MlcTensor both = there(a);
  both.data = &both;
  refuses(both, room(b), MLC_USAGE);
  MlcMemory* none = nullptr;
  EXPECT(code_of([&](MlcError** e) { return api().memory_create(s.session, UINT64_MAX - 100, &none, e); }) == MLC_RESOURCE && !none);
  const MlcTensor past = there(a, 400), to = there(b);
  EXPECT(code_of([&](MlcError** e) { return api().tensor_copy(&past, &to, e); }) == MLC_INPUT_MISMATCH);
  EXPECT(code_of([&](MlcError** e) { return api().tensor_copy(nullptr, &to, e); }) == MLC_USAGE);
  api().memory_release(b);
  refuses(there(a), room(b), MLC_USAGE);                       // gone
  api().memory_release(a);
  api().memory_release(nullptr);
}

dlpack::Versioned* as_ours(DLManagedTensorVersioned* v) { return reinterpret_cast<dlpack::Versioned*>(v); }
DLManagedTensorVersioned* as_theirs(dlpack::Versioned* v) { return reinterpret_cast<DLManagedTensorVersioned*>(v); }

void dlpack_goes_out_and_in(const Sample& s, int32_t kind) {
  const Values x = start_values();
  MlcMemory *a = memory_with(s, x), *b = nullptr, *c = memory_with(s, Values(kFloats));
  const MlcTensor given = there(a);
  DLManagedTensorVersioned* shared = nullptr;
  EXPECT(is_ok([&](MlcError** e) { return api().tensor_to_dlpack(&given, &shared, e); }));
  api().memory_release(a);  // it stays as long as it is shared
  const dlpack::Tensor& t = as_ours(shared)->tensor;
  EXPECT(t.device.type == kind && t.device.id == 0 && t.ndim == 2 && t.shape[1] == 24 && t.strides[0] == 24 && t.strides[1] == 1 && t.dtype.bits == 32);
  MlcTensor in{};
  EXPECT(is_ok([&](MlcError** e) { return api().tensor_from_dlpack(s.session, shared, &in, &b, e); }));
  auto info = sized<MlcMemoryInfo>();
  EXPECT(api().memory_info(b, &info) == MLC_OK && !*info.note && std::string(info.device) == "gpu0");
  EXPECT(in.bytes == kBytes && in.rank == 2 && in.shape[0] == 3 && in.dtype == MLC_F32);
  MlcTensor out = room(c);
  EXPECT(s.run(in, out) == MLC_OK && values_in(c) == s.after(x, 1));

  // A view that begins where no device lets an array begin: a copy as of now, which may only be read.
  DLManagedTensorVersioned* view = nullptr;
  const MlcTensor again = in;
  EXPECT(is_ok([&](MlcError** e) { return api().tensor_to_dlpack(&again, &view, e); }));
  int64_t short_shape[] = {1, 24};
  as_ours(view)->tensor.byte_offset += 96;
  as_ours(view)->tensor.shape = short_shape;
  MlcMemory* copy = nullptr;
  MlcTensor row{};
  EXPECT(is_ok([&](MlcError** e) { return api().tensor_from_dlpack(s.session, view, &row, &copy, e); }));
  auto told = sized<MlcMemoryInfo>();
  EXPECT(api().memory_info(copy, &told) == MLC_OK);
  if (kind == dlpack::kCuda) EXPECT(std::string(told.note).find("multiples of 256") != std::string::npos && told.is_read_only);
  Values found(24);
  const int64_t n = 24;
  const MlcTensor to = mlc_tensor(found.data(), MLC_F32, 1, &n);
  EXPECT(is_ok([&](MlcError** e) { return api().tensor_copy(&row, &to, e); }));
  EXPECT(found == Values(x.begin() + 24, x.begin() + 48));
  if (told.is_read_only) {
    MlcTensor into = row;
    into.name = "y";
    EXPECT(s.run(in, into) == MLC_INPUT_MISMATCH);
  }
  api().memory_release(copy);
  api().memory_release(b);
  api().memory_release(c);
}

struct Foreign {
  dlpack::Versioned managed{};
  int deleted = 0;
  int64_t shape[2] = {3, 24}, strides[2] = {24, 1};
  Values values = start_values();
  Foreign() {
    managed.major = 1;
    managed.context = this;
    managed.deleter = [](dlpack::Versioned* v) { ++static_cast<Foreign*>(v->context)->deleted; };
    managed.tensor = {values.data(), {dlpack::kCpu, 0}, 2, {2, 32, 1}, shape, strides, 0};
  }
};

void foreign_arrays_are_looked_at(const Sample& s, int32_t kind) {
  Foreign good;
  MlcTensor in{};
  MlcMemory* m = nullptr;
  EXPECT(is_ok([&](MlcError** e) { return api().tensor_from_dlpack(s.session, as_theirs(&good.managed), &in, &m, e); }));
  MlcTensor out{};
  EXPECT(s.run(in, out) == MLC_OK && out.data);
  EXPECT(good.deleted == 0);
  api().memory_release(m);
  EXPECT(good.deleted == 1);

  Foreign empty;  // has no data at all
  empty.shape[0] = 0;
  empty.managed.tensor.data = nullptr;
  EXPECT(is_ok([&](MlcError** e) { return api().tensor_from_dlpack(s.session, as_theirs(&empty.managed), &in, &m, e); }));
  MlcTensor rows{};
  EXPECT(s.run(in, rows) == MLC_OK && rows.bytes == 0 && rows.rank == 2);
  api().memory_release(m);

  const auto refuses = [&](int code, const char* why, const auto& change) {
    Foreign f;
    change(f.managed);
    MlcMemory* none = m;
    EXPECT(code_of([&](MlcError** e) { return api().tensor_from_dlpack(s.session, as_theirs(&f.managed), &in, &none, e); }) == code);
    EXPECT(!none && f.deleted == 0);
    if (sentence.find(why) == sentence.npos) ++failures, std::fprintf(stderr, "'%s' is not in '%s'\n", why, sentence.c_str());
  };
  const int wrong = MLC_INPUT_MISMATCH;
  const bool is_cuda = kind == dlpack::kCuda;  // whose driver knows the addresses of others; of Vulkan nobody knows
  refuses(wrong, is_cuda ? "is no memory of" : "did not make", [&](dlpack::Versioned& v) { v.tensor.device.type = kind; });
  refuses(wrong, "runs on gpu0", [&](dlpack::Versioned& v) { v.tensor.device = {kind, 7}; });
  refuses(wrong, "runs on gpu0", [&](dlpack::Versioned& v) { v.tensor.device = {kind == dlpack::kCuda ? dlpack::kVulkan : dlpack::kCuda, 0}; });
  refuses(wrong, "of kind 8", [](dlpack::Versioned& v) { v.tensor.device.type = 8; });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: device_arrays MODEL.mlc PROBE_PROGRAM cuda|vulkan\n"), 2;
  const std::string kind = argv[3];
  auto o = sized<MlcOpenOptions>();
  o.path = argv[1];
  o.allow_unsigned = 1;
  o.devices = "gpu";
  o.probe_program = argv[2];
  Sample first, second;
  if (!is_ok([&](MlcError** e) { return api().open(&o, &first.model, e); })) return 1;
  second.model = first.model;
  auto how = sized<MlcSessionOptions>();
  how.require = kind.c_str();
  for (Sample* s : {&first, &second})
    if (!is_ok([&](MlcError** e) { return api().session_create(s->model, &how, &s->session, e); })) return 1;
  const int32_t number = kind == "cuda" ? dlpack::kCuda : dlpack::kVulkan;
  arrays_stay_on_the_device(first, second);
  dlpack_goes_out_and_in(first, number);
  foreign_arrays_are_looked_at(first, number);
  what_is_wrong_is_refused(first);
  what_cannot_be_used_in_place_is_copied_and_told(second);
  api().session_release(second.session);
  api().session_release(first.session);
  api().model_release(first.model);
  return failures ? 1 : 0;
}
