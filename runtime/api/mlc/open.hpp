// Opening: where a container is, how it is opened, and what is said of it. Read ../mlc.hpp first.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "service.hpp"

namespace mlrt {

// Where a container is: a path, or one of the others.
class Source {
 public:
  Source(std::string path) : path_(std::move(path)) {}
  Source(const char* path) : path_(path) {}
  // At a multiple of 256; outlives the model and does not change.
  static Source memory(std::span<const std::byte> bytes) {
    Source s{std::string()};
    s.memory_ = bytes;
    return s;
  }
  // Stays the caller's, who may close it when the container is open.
  static Source descriptor(int fd) {
    Source s{std::string()};
    s.fd_ = fd;
    return s;
  }
  static Source reader(std::shared_ptr<Reader> reader) {
    Source s{std::string()};
    s.reader_ = std::move(reader);
    return s;
  }

 private:
  friend class File;
  std::string path_;
  std::span<const std::byte> memory_;
  std::optional<int> fd_;
  std::shared_ptr<Reader> reader_;
};

// MlcOpenOptions; empty texts are its nulls.
struct OpenOptions {
  std::vector<std::string> trust_keys = {};      // PEM files of public keys
  std::vector<std::string> trust_key_data = {};  // public keys as PEM
  std::string policy = {};
  std::string config_folder = {};
  std::string state_folder = {};
  bool allow_unsigned = false;
  bool allow_older = false;
  int32_t verify = MLC_VERIFY_AUTO;
  std::string name = {};
  std::vector<Service> services = {};
  std::vector<std::string> untrusted_services = {};
  const MlcAllocator* allocator = nullptr;
  // Devices beside the processor, of libmlrt-gpu: "gpu", "gpu0,cpu"; by program "detect=gpu0;read=cpu;auto". `probe_program`, a path
  // of mlrun, asks their drivers; empty: no device is known.
  std::string devices = {};
  std::string probe_program = {};
};

struct FileInfo {
  std::string file;
  int32_t native_code;  // MLC_NATIVE_*
  bool is_signed;
};
struct ModelInfo {
  std::string file, id;
  uint64_t version;
  std::string root, trust, trust_help;
  bool native_allowed, is_signed, is_copied;
  uint64_t file_bytes;
  uint32_t num_golden;
};
struct Extent {
  int64_t value;     // -1 where it depends on the input
  std::string name;  // the name or expression of such an extent
  int64_t min, max;  // of a named one; -1 where it follows from others
};
struct Port {
  std::string name;
  MlcDType dtype;
  std::vector<Extent> extents;
  uint32_t list_depth;
};
struct Program {
  std::string name;
  bool is_default;
  std::vector<Port> inputs, outputs;
};
struct Asset {
  std::string name, media_type;
  uint64_t bytes;
};
struct Clause {
  std::string clause, answer, source;
};
struct Variant {
  std::string name, target, family;
  int32_t fits;                       // MLC_FITS, ...
  std::string reason;                 // empty if it fits
  std::chrono::nanoseconds estimate;  // 0: none
  std::vector<Clause> failing;
};
struct Choice {
  uint32_t variant;    // its index in `explain`
  std::string name;    // of the variant
  std::string device;  // "gpu0"; empty: the processor
};

namespace detail {

// A model and what it uses; sessions keep it.
struct ModelState {
  std::vector<Service> services;
  std::shared_ptr<Reader> reader;
  std::optional<MlcReader> raw_reader;
  MlcFile* file = nullptr;
  MlcModel* model = nullptr;

  ModelState() = default;
  ModelState(const ModelState&) = delete;
  ~ModelState() {
    if (!api()) return;
    api()->model_release(model);
    api()->file_release(file);
  }
};

inline int call_service(void* user, MlcServiceCall* raw) noexcept {
  ServiceCall call(raw);
  return static_cast<const Service*>(user)->run(call);
}
inline int call_reader(void* user, uint64_t offset, void* out, uint64_t bytes) noexcept {
  return static_cast<Reader*>(user)->read(offset, {static_cast<std::byte*>(out), static_cast<size_t>(bytes)}) ? 0 : 1;
}

}  // namespace detail

}  // namespace mlrt
