"""What may include what, beyond the table of the root README. Every exception says why."""

# (who, what): who includes what although the table's arrows do not say so.
EXCEPTIONS = {
    ("packager/cli/", "runtime/container/"): "the tools open files with the one reader of containers",
    ("packager/cli/", "runtime/api/sized.h"): "the header that goes with it",
    ("packager/cli/", "runtime/api/mlc.h"): "a build tests its file through the library's public header, as an application runs it",
    ("packager/cli/", "runtime/api/session/golden.h"): "differences of answers are those that a self-test tells",
    ("packager/cli/", "runtime/io/"): "golden vectors are given in the files that mlrun takes",
    ("packager/cli/", "runtime/trust/"): "one command of both tools",
    ("packager/cli/", "runtime/isolation/"): "both tools look into strangers' files in one kind of process",
    ("packager/cli/", "runtime/probe/"): "records of tuning name the processor",
    ("registry/", "runtime/container/"): "the one reader of containers checks what a registry gives",
    ("registry/", "packager/container/"): "files that appear complete or not at all, and parts of containers",
    ("registry/", "runtime/match/"): "what this machine runs",
    ("registry/", "runtime/probe/"): "likewise",
    ("registry/", "runtime/sandbox/"): "strangers' files are read in one kind of process",
    ("packager/pipeline/golden_texts", "runtime/pipeline/host_pipeline.h"): "golden vectors of texts are what the one pipeline makes of them",
    ("packager/pipeline/golden_texts", "runtime/io/tensor.h"): "tensors of that pipeline",
    ("targets/", "packager/loop/"): "an emitter takes Loop structures",
    ("targets/", "packager/ir/"): "expressions inside of Loop structures",
    ("targets/portable/", "loaders/portable/program.h"): "the loader's verifier is the audit of portable code",
    ("loaders/", "runtime/loader.h"): "the interface that a loader implements",
    ("loaders/", "runtime/device.h"): "the interface that a loader of a device implements",
    ("loaders/", "runtime/device_info.h"): "what such a loader tells of a device",
    ("loaders/", "runtime/device_api.h"): "what devices of all driver interfaces have in common",
    ("loaders/", "runtime/compatible.h"): "the matcher's token",
    ("loaders/", "runtime/verified.h"): "bytes that were verified",
    ("loaders/", "runtime/memory/"): "code pages",
    ("runtime/api/", "loaders/"): "the library puts its loaders together here",
    ("runtime/cli/", "loaders/"): "the tool names the loaders that it was built with",
}

# A library that is no folder of its own.
UNITS = {
    "packager/compile/expand": "mlc_expand, the folder of that name included: below pipelines, which the rest of packager/compile stands on",
}

# First match counts: who may see the headers of another library. An empty tuple: no library.
FOREIGN = (
    (r"llvm/|llvm-c/|lld/|clang/", ("targets/llvm/",)),
    (r"Zydis/|Zycore/", ("targets/x86/",)),
    (r"onnx/|google/protobuf/", ("packager/import/",)),
    (r"openssl/", ("signing/",)),
    (r"zstd", ("packager/container/", "packager/delta/", "runtime/container/")),
    (r"flatbuffers/", ("schema/generated/", "schema/verify_tables.cpp")),
    (r"CLI/", ("base/cli/command.cpp", "base/cli/program.cpp", "base/cli/completion.cpp")),  # not the tools: ten seconds of each source's compile time
    (r"nlohmann/", ("base/cli/json_tree.cpp",)),  # likewise
    (r"jpeglib\.h|jerror\.h|turbojpeg\.h|png\.h|zlib\.h|tiff(io)?\.h|sndfile\.h|webp/|openjpeg\.h", ("runtime/io/",)),
    (r"unicode/", ("packager/text/unicode.cpp", "packager/text/code_points.cpp")),
    (r"seccomp\.h|linux/(seccomp|landlock)\.h", ("runtime/sandbox/",)),
    (r"doctest/", ()),
    (r"curl/", ("registry/net/http.cpp", "registry/main.cpp")),
    (r"sys/socket\.h|netinet/|arpa/|netdb\.h", ()),
    (r"boost/|absl/|Eigen/|fmt/|glib|gtest/", ()),
)
TESTS = ("tests/", "bench/")  # may see everything but the network

# The only files that see generated FlatBuffers code: those that encode and decode.
FLATBUFFERS = (
    "packager/container/manifest_encode.cpp",
    "packager/plan/encode.cpp",
    "runtime/container/manifest_decode.cpp",
    "schema/generated/",
    "schema/plan/decode_",
    "schema/plan/plan_decode.cpp",
    "tests/",
)

# Libraries that report errors as values: no throw, try and catch but in the one header where a lack of memory ends.
NO_EXCEPTIONS = ("base/", "schema/", "signing/", "runtime/", "loaders/")
NO_EXCEPTIONS_BUT = ("base/cli/", "runtime/cli/", "runtime/isolation/", "runtime/trust/", "runtime/mlio/handles.h", "base/out_of_memory.h")
# Those of libmlrt are unwound through on the way there; all others of these folders are built with -fno-exceptions.
UNWOUND = ("mlc_base", "mlc_schema", "mlc_signing", "mlc_container_reader", "mlc_probe", "mlc_match", "mlc_threads",
           "mlc_memory", "mlc_plan_schema", "mlc_plan", "mlc_loader_elf", "mlc_loader_portable", "mlrt_parts", "mlrt", "mlrt_shared",
           "mlc_plan_device", "mlc_ensemble", "mlc_probe_devices", "mlc_loader_cuda", "mlc_loader_vulkan", "mlrt_gpu", "mlrt_gpu_shared")

# Who may print, ask the environment or end the process: tools, tests. Libraries answer.
SPEAKERS = ("base/cli/", "packager/cli/", "runtime/cli/", "tests/", "bench/")
SILENT_BUT = {
    "registry/net/credentials.cpp": "where Docker keeps its configuration",
    "packager/compile/build.cpp": "SOURCE_DATE_EPOCH, which reproducible builds set",
    "signing/config_folder_posix.cpp": "the user's configuration folder",
    "runtime/probe/": "sources of facts about the host",
    "runtime/api/mlc/result.hpp": "code of the application's: the value of an error is a mistake that ends its program",
    "runtime/sandbox/child.cpp": "ends the process that it has made",
}

# Comments of these folders name components in the words of the field, so that a search finds them (spec/glossary.md).
COMMENTED = ("base", "schema", "signing", "runtime", "loaders", "targets", "packager", "registry", "bindings")
PEOPLE = r"\b(nobody|whoever|somebody|anybody)\b"
NAME_THE_COMPONENT = "name the component (caller, owner, reader, worker, lane, user ...): spec/glossary.md"
PEOPLE_BUT = {}  # file: why it may say so; better none

# A folder with more sources than this (.h .hpp .cpp, but generated ones) is asking to be several.
MOST_SOURCES = 25
FULL_FOLDERS = {
    "tests/fuzz/": "each source is a program of its own, which CMakeLists.txt and run.sh find there",
}

# Folders of one library that include each other. Others have no circle: a folder and those inside of it are no pair.
FOLDERS_IN_CIRCLES = {}

LONG_FILE = 750  # lines: worth a thought, no failure
