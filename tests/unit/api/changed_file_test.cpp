// A file that somebody writes to while a session uses it: a mapped one gives an error instead of a wrong answer, a copied one
// goes on giving the right answer. Containers behind descriptors, and opening in two steps: other ways to the same file.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "packager/container/builder.h"
#include "packager/plan/text.h"
#include "runtime/api/mlc.h"
#include "runtime/api/sized.h"
#include "runtime/probe/probe.h"
#include "schema/features.h"
#include "signing/hash_tree.h"
#include "tests/support/test_modules.h"

using namespace mlc;

namespace {

const MlcApi& lib() { return *mlc_get_api(MLC_API_VERSION); }
constexpr int64_t kBytes = 300'000;

// y = the weights. No kernel is launched: any module will do.
std::vector<std::byte> plan_bytes() {
  const auto plan = plan::parse(R"(plan function "main" {
    $0 = const 300000 $1 = const 1 $2 = const 0
    buffer #0 u8 bytes $1 input 0
    buffer #1 u8 bytes $0 output 0
    buffer #2 u8 bytes $0 constant 0 copy 0
    input "x" u8 [$1] #0
    output "y" u8 [$0] #1
    arena $2
    copy (#1, #2)
  })");
  REQUIRE_MESSAGE(plan.ok(), plan.status().text());
  return plan::encode(*plan);
}

// Empty: no compiler here.
const std::vector<std::byte>& container_bytes() {
  static std::vector<std::byte> bytes;
  const auto module = test::compile_module(probe::host().machine, "tests/support/module_source.c");
  if (!bytes.empty() || module.empty()) return bytes;
  container::ContainerBuilder b;
  b.manifest.model.id = "test/changed";
  b.manifest.provenance.tool = "changed_file_test";
  b.manifest.provenance.tool_version = "1";
  format::Method method;
  method.name = "main";
  format::Port port;
  port.dtype = DType::U8;
  port.name = "x";
  port.dims = {format::DimRef::constant(1)};
  method.inputs = {port};
  port.name = "y";
  port.dims = {format::DimRef::constant(kBytes)};
  method.outputs = {port};
  const uint32_t main = b.add_method(method);
  std::vector<std::byte> weights(kBytes, std::byte{7});
  const std::vector<uint64_t> shape{kBytes};
  const uint32_t segment = b.add_segment("weights", format::SegmentKind::Weights);
  const auto tensor = b.add_tensor("w", DType::U8, shape, tensor_digest(DType::U8, shape, weights));
  REQUIRE(tensor.ok());
  const uint32_t layout = b.layout("dense");
  REQUIRE(b.add_copy(*tensor, layout, segment, std::move(weights)).ok());
  format::Variant native;
  native.name = native.target = "native-test";
  native.family = "cpu";
  native.module_format = format::ModuleFormat::Elf;
  native.layouts = {layout};
  native.clauses.push_back({static_cast<uint32_t>(Feature::HostArch), format::ClauseOp::Equal,
                            {static_cast<int64_t>(probe::host().machine)}});
  native.features = {static_cast<uint32_t>(Feature::OsCodePages)};
  native.audit = format::Audit{"changed_file_test", "1", {}};
  native.plan = b.add_segment("plan/native-test", format::SegmentKind::Plan, true, plan_bytes());
  native.module = b.add_segment("code/native-test", format::SegmentKind::Module, true, module);
  b.add_variant(native);
  format::Variant portable;
  portable.name = portable.target = portable.family = "portable";
  portable.module_format = format::ModuleFormat::Portable;
  portable.layouts = {layout};
  portable.plan = b.add_segment("plan/portable", format::SegmentKind::Plan, false, plan_bytes());
  portable.module = b.add_segment("code/portable", format::SegmentKind::Module, false, std::vector<std::byte>(64));
  b.add_variant(portable);
  format::Golden golden;
  golden.name = "first";
  golden.method = main;
  golden.entry = format::GoldenEntry::Run;
  golden.inputs.push_back(b.golden_array(0, DType::U8, {1}, std::vector<std::byte>(1)));
  golden.outputs.push_back(b.golden_array(0, DType::U8, {static_cast<uint64_t>(kBytes)}, std::vector<std::byte>(kBytes, std::byte{7})));
  b.add_golden(golden);
  auto built = b.to_bytes(nullptr);
  REQUIRE_MESSAGE(built.ok(), (built.ok() ? std::string() : built.status().text()));
  bytes = *built;
  return bytes;
}

#define NEED_CONTAINER()                                  \
  if (container_bytes().empty()) {                              \
    MESSAGE("skipped: clang-19 or ld.lld-19 is missing"); \
    return;                                               \
  }

// The container in a folder of its own.
struct File {
  std::string folder, path;
  explicit File(mode_t mode = 0600) {
    char name[] = "/tmp/mlc-changed-XXXXXX";
    folder = ::mkdtemp(name);
    path = folder + "/m.mlc";
    write_to(path);
    REQUIRE(::chmod(path.c_str(), mode) == 0);
  }
  ~File() {
    ::unlink(path.c_str());
    ::rmdir(folder.c_str());
  }
  static void write_to(const std::string& path) {
    const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    REQUIRE(::write(fd, container_bytes().data(), container_bytes().size()) == static_cast<ssize_t>(container_bytes().size()));
    ::close(fd);
  }
  // What lies in the middle of the file, which is mostly weights.
  void overwrite() const {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    const std::vector<char> other(100'000, 'B');
    REQUIRE(::pwrite(fd, other.data(), other.size(), 150'000) == 100'000);
    ::close(fd);
  }
};

struct Session {
  MlcModel* model = nullptr;
  MlcSession* session = nullptr;
  std::string text;
  int code = 0;

  explicit Session(MlcOpenOptions o) {
    o.size = sizeof o;
    o.allow_unsigned = 1;
    MlcError* error = nullptr;
    code = lib().open(&o, &model, &error);
    if (code == MLC_OK) code = lib().session_create(model, nullptr, &session, &error);
    text = lib().error_text(error);
    lib().error_release(error);
  }
  Session(const Session&) = delete;
  ~Session() {
    lib().session_release(session);
    lib().model_release(model);
  }
  // "right", "wrong", or the error.
  std::string run() {
    REQUIRE_MESSAGE(code == MLC_OK, text);
    alignas(64) static uint8_t x[64] = {};
    static const int64_t shape[] = {1};
    const MlcTensor in = mlc_tensor(x, MLC_U8, 1, shape);
    MlcTensor out{};
    MlcError* error = nullptr;
    const int ran = lib().run(session, nullptr, &in, 1, &out, 1, &error);
    if (ran != MLC_OK) {
      const std::string number = "E" + std::to_string(lib().error_number(error));
      lib().error_release(error);
      return std::to_string(ran) + " " + number;
    }
    const auto* y = static_cast<const uint8_t*>(out.data);
    for (int64_t i = 0; i < kBytes; ++i)
      if (y[i] != 7) return "wrong";
    return "right";
  }
};

MlcOpenOptions at(const File& file, int32_t verify) {
  MlcOpenOptions o{};
  o.path = file.path.c_str();
  o.verify = verify;
  return o;
}

}  // namespace

TEST_CASE("a mapped file that is written to gives an error, never a wrong answer") {
  NEED_CONTAINER();
  for (const int32_t verify : {MLC_VERIFY_AUTO, MLC_VERIFY_LAZY, MLC_VERIFY_FULL}) {
    CAPTURE(verify);
    const File file;
    Session s(at(file, verify));
    CHECK(s.run() == "right");
    file.overwrite();
    CHECK(s.run() == "4 E6001");
    CHECK(s.run() == "4 E6001");  // for good
  }
}

TEST_CASE("a mapped file that is truncated between two runs gives an error, no signal") {
  NEED_CONTAINER();
  const File file;
  Session s(at(file, MLC_VERIFY_LAZY));
  CHECK(s.run() == "right");
  REQUIRE(::truncate(file.path.c_str(), 8192) == 0);
  CHECK(s.run() == "4 E6001");
}

TEST_CASE("replacing the file by renaming, removing it or changing its mode disturbs nobody") {
  NEED_CONTAINER();
  const File file;
  Session s(at(file, MLC_VERIFY_LAZY));
  CHECK(s.run() == "right");
  const std::string other = file.path + ".new";
  File::write_to(other);
  REQUIRE(::chmod(file.path.c_str(), 0400) == 0);
  REQUIRE(::rename(other.c_str(), file.path.c_str()) == 0);
  CHECK(s.run() == "right");
}

TEST_CASE("a file that others may write to is copied: what they write has no effect") {
  NEED_CONTAINER();
  for (const mode_t mode : {0666, 0660, 0602}) {
    CAPTURE(mode);
    const File file(mode);
    Session s(at(file, MLC_VERIFY_AUTO));
    CHECK(s.run() == "right");
    file.overwrite();
    CHECK(s.run() == "right");
    REQUIRE(::truncate(file.path.c_str(), 8192) == 0);
    CHECK(s.run() == "right");
  }
  const File file(0666);
  Session s(at(file, MLC_VERIFY_LAZY));  // as the caller wishes
  CHECK(s.run() == "right");
  file.overwrite();
  CHECK(s.run() == "4 E6001");
}

TEST_CASE("a sealed file of memory is opened by descriptor and by path, and outlives the descriptor") {
  NEED_CONTAINER();
  for (const bool by_path : {false, true}) {
    CAPTURE(by_path);
    const int fd = ::memfd_create("container", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    REQUIRE(fd >= 0);
    REQUIRE(::write(fd, container_bytes().data(), container_bytes().size()) == static_cast<ssize_t>(container_bytes().size()));
    REQUIRE(::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    MlcOpenOptions o{};
    if (by_path) o.path = path.c_str();
    else o.use_fd = 1, o.fd = fd;
    Session s(o);
    ::close(fd);
    CHECK(s.run() == "right");
  }
  MlcOpenOptions o{};
  o.use_fd = 1;
  o.fd = -1;
  CHECK(Session(o).code == MLC_USAGE);
  o.fd = 1'000'000;
  CHECK(Session(o).code == MLC_NOT_FOUND);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  o.fd = ends[0];
  CHECK(Session(o).code == MLC_NOT_FOUND);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("between the two steps of opening it is known whether native code may run, and nothing is read from outside any more") {
  NEED_CONTAINER();
  for (const bool allowed : {false, true}) {
    const File file;
    MlcOpenOptions o = at(file, MLC_VERIFY_AUTO);
    o.size = sizeof o;
    o.allow_unsigned = allowed;
    MlcFile* half = nullptr;
    MlcError* error = nullptr;
    REQUIRE(lib().authenticate(&o, &half, &error) == MLC_OK);
    auto info = sized<MlcFileInfo>();
    lib().file_info(half, &info);
    CHECK(info.native_code == (allowed ? MLC_NATIVE_CERTAIN : MLC_NATIVE_NEVER));
    CHECK(info.is_signed == 0);
    CHECK(std::string(info.file) == file.path);
    REQUIRE(::unlink(file.path.c_str()) == 0);
    MlcModel* model = nullptr;
    REQUIRE(lib().open_file(half, &model, &error) == MLC_OK);
    auto opened = sized<MlcModelInfo>();
    lib().model_info(model, &opened);
    CHECK(opened.native_allowed == allowed);
    CHECK(opened.is_copied == 0);
    MlcModel* again = nullptr;
    CHECK(lib().open_file(half, &again, nullptr) == MLC_USAGE);
    CHECK(again == nullptr);
    lib().file_release(half);
    lib().model_release(model);
  }
  MlcFile* none = nullptr;
  const File file;
  REQUIRE(::truncate(file.path.c_str(), static_cast<off_t>(container_bytes().size()) - 1) == 0);
  MlcOpenOptions o = at(file, MLC_VERIFY_AUTO);
  o.size = sizeof o;
  REQUIRE(lib().authenticate(&o, &none, nullptr) == MLC_OK);  // what is cut off stands in the manifest
  auto info = sized<MlcFileInfo>();
  lib().file_info(none, &info);
  CHECK(info.native_code == MLC_NATIVE_NEVER);
  MlcModel* model = nullptr;
  CHECK(lib().open_file(none, &model, nullptr) == MLC_MALFORMED);
  lib().file_release(none);
  lib().file_release(nullptr);
  CHECK(lib().authenticate(&o, nullptr, nullptr) == MLC_USAGE);
}
