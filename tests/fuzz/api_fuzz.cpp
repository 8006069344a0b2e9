// libs: mlrt_gpu mlc_container_reader mlc_container_writer
// Whole unsigned containers through the C API, as an application with default options would run them: the input is a
// choice of a container of the folder $MLC_FUZZ_CONTAINERS (a byte) and edits of it (tests/support/containers/container_mutation.h). Its last bytes
// are an array of DLPack as well, which becomes the first input of a run of the first container.
// Property: every call answers; an error has a sentence; a run that succeeds gives outputs that can be read to their end; an array belongs
// to one who deletes it once.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "runtime/api/devices/dlpack.h"
#include "runtime/api/mlc.h"
#include "runtime/api/sized.h"
#include "tests/support/containers/container_mutation.h"

namespace {

using namespace mlc;

const MlcApi& api() { return *mlc_get_api(MLC_API_VERSION); }

std::vector<test::MutableContainer>& containers() {
  static std::vector<test::MutableContainer> all;
  return all;
}

bool ok(int code, MlcError*& error) {
  if (code == MLC_OK) return true;
  if (!error || !*api().error_text(error)) std::abort();
  api().error_release(error);
  error = nullptr;
  return false;
}

unsigned read_to_end(const MlcTensor& t) {
  unsigned sum = 0;
  if (t.list_depth > 0) {
    for (uint64_t i = 0; i < t.num_items; ++i) sum += read_to_end(t.items[i]);
    return sum;
  }
  const auto* bytes = static_cast<const volatile unsigned char*>(t.data);
  for (uint64_t i = 0; i < t.bytes; ++i) sum += bytes[i];
  return sum;
}

// An array whose numbers are the input's. Where it says that its elements are there they are: of the rest nobody can know.
struct Foreign {
  struct Numbers {
    uint32_t major;
    int32_t device, id, ndim;
    dlpack::DataType dtype;
    int64_t shape[3], strides[3];
    uint64_t byte_offset, flags;
    uint8_t absent;  // bits: data, shape, strides
  } numbers{};
  alignas(64) unsigned char data[1 << 12] = {};
  int64_t shape[9] = {}, strides[9] = {};
  int deleted = 0;
  dlpack::Versioned managed{};

  Foreign(const uint8_t* bytes, size_t size) {
    std::memcpy(&numbers, bytes + size - std::min(size, sizeof numbers), std::min(size, sizeof numbers));
    for (int i = 0; i < 9; ++i) shape[i] = numbers.shape[i % 3], strides[i] = numbers.strides[i % 3];
    dlpack::Tensor& t = managed.tensor;
    t = {numbers.absent & 1 ? nullptr : data, {numbers.device, numbers.id}, numbers.ndim, numbers.dtype, numbers.absent & 2 ? nullptr : shape,
         numbers.absent & 4 ? nullptr : strides, numbers.byte_offset};
    managed.major = numbers.major % 4 ? 1 : numbers.major;
    managed.flags = numbers.flags;
    managed.context = this;
    managed.deleter = [](dlpack::Versioned* v) { ++static_cast<Foreign*>(v->context)->deleted; };
  }
  bool is_there(const MlcTensor& t) const { return numbers.byte_offset <= sizeof data && t.bytes <= sizeof data - numbers.byte_offset; }
};

// The first container as it is, open as long as the process.
struct Whole {
  std::vector<std::byte> file = containers()[0].mutate({});
  MlcModel* model = nullptr;
  MlcSession* session = nullptr;
  Whole() {
    auto how = sized<MlcOpenOptions>();
    how.memory = file.data();
    how.memory_bytes = file.size();
    how.config_folder = "/nonexistent";
    MlcError* error = nullptr;
    if (!ok(api().open(&how, &model, &error), error) || !ok(api().session_create(model, nullptr, &session, &error), error)) std::abort();
  }
};
const Whole& whole() {
  static const auto& all = *new Whole;
  return all;
}

void run_with_foreign(const Whole& all, const uint8_t* bytes, size_t size) {
  MlcSession* const session = all.session;
  auto program = sized<MlcProgram>();
  if (api().program(all.model, 0, &program) != MLC_OK) std::abort();
  Foreign foreign(bytes, size);
  MlcTensor in{};
  MlcMemory* memory = nullptr;
  MlcError* error = nullptr;
  if (!ok(api().tensor_from_dlpack(session, reinterpret_cast<DLManagedTensorVersioned*>(&foreign.managed), &in, &memory, &error), error)) {
    if (memory || foreign.deleted) std::abort();
    return;
  }
  DLManagedTensorVersioned* again = nullptr;
  if (ok(api().tensor_to_dlpack(&in, &again, &error), error)) {
    auto* const back = reinterpret_cast<dlpack::Versioned*>(again);
    if (back->tensor.ndim != static_cast<int32_t>(in.rank)) std::abort();
    back->deleter(back);
  }
  if (foreign.is_there(in)) {
    std::vector<MlcTensor> outputs(program.num_outputs);
    auto how = sized<MlcRunOptions>();
    how.program = program.name;
    ok(api().run(session, &how, &in, 1, outputs.data(), program.num_outputs, &error), error);
  }
  api().memory_release(memory);
  if (foreign.deleted != 1) std::abort();
}

void run_program(const MlcModel* model, MlcSession* session, uint32_t index) {
  auto program = sized<MlcProgram>();
  if (api().program(model, index, &program) != MLC_OK) std::abort();
  std::vector<MlcTensor> inputs(program.num_inputs), outputs(program.num_outputs);
  MlcError* error = nullptr;
  if (!ok(api().golden_inputs(model, index, inputs.data(), program.num_inputs, &error), error)) return;
  auto how = sized<MlcRunOptions>();
  how.program = program.name;
  const int code = api().run(session, &how, inputs.data(), program.num_inputs, outputs.data(), program.num_outputs, &error);
  if (!ok(code, error)) return;
  unsigned sum = 0;
  for (const MlcTensor& t : outputs) sum += read_to_end(t);
  if (sum == 0x12345678u) std::puts("");  // the reads must happen
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* folder = std::getenv("MLC_FUZZ_CONTAINERS");
  std::vector<std::filesystem::path> files;
  if (folder)
    for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    containers().emplace_back(std::as_bytes(std::span(bytes)));
  }
  if (containers().empty()) {
    std::fprintf(stderr, "api_fuzz: set MLC_FUZZ_CONTAINERS to a folder of unsigned containers\n");
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  run_with_foreign(whole(), data, size);
  const std::vector<std::byte> file =
      containers()[data[0] % containers().size()].mutate(std::as_bytes(std::span(data + 1, size - 1)));
  auto how = sized<MlcOpenOptions>();
  how.memory = file.data();
  how.memory_bytes = file.size();
  how.config_folder = "/nonexistent";
  MlcModel* model = nullptr;
  MlcError* error = nullptr;
  if (!ok(api().open(&how, &model, &error), error)) return 0;
  auto info = sized<MlcModelInfo>();
  api().model_info(model, &info);
  if (info.native_allowed) std::abort();
  auto options = sized<MlcSessionOptions>();
  options.threads = 1;
  MlcSession* session = nullptr;
  if (ok(api().session_create(model, &options, &session, &error), error))
    for (uint32_t p = 0; p < info.num_programs; ++p) run_program(model, session, p);
  api().session_release(session);
  api().model_release(model);
  return 0;
}
