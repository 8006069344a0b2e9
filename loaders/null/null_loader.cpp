#include "loaders/null/null_loader.h"

#include "base/byte_cursor.h"

namespace mlc::null {
namespace {

class NullModule final : public KernelModule {
 public:
  explicit NullModule(uint32_t num_kernels) : num_kernels_(num_kernels) {}

  uint32_t num_kernels() const override { return num_kernels_; }
  uint64_t scratch_bytes(uint32_t) const override { return 0; }
  // It touches nothing, so any buffers and scalars will do. A loader of untrusted code compares them with what the
  // kernel uses; a loader that uploads to a device would note here which buffers go where.
  Status accepts(uint32_t, const LaunchForm&) const override { return ok(); }
  int32_t run(uint32_t, const MlrunLaunch&, uint32_t, uint32_t, WorkMeter&) const override { return MLRUN_FAULT_NONE; }

 private:
  uint32_t num_kernels_;
};

class NullLoader final : public Loader {
 public:
  std::string_view format() const override { return "null"; }

  // Taking the token by value spends it: the matcher admitted this variant for one load.
  Result<std::unique_ptr<KernelModule>> load(Compatible, VerifiedBytes bytes) const override {
    const Bytes b = bytes.bytes();
    // Everything is checked before anything has an effect, and a message names the segment and what was expected.
    ByteCursor in(b);
    const bool is_null = in.text(4) == "NULL";
    const auto count = in.take<uint32_t>();
    if (!is_null || !in.done())
      return Status(Code::Malformed, bytes.name() + ": a null module is 'NULL' and a count, 8 bytes");
    if (count > 65536) return Status(Code::Malformed, bytes.name() + ": " + std::to_string(count) + " kernels, at most 65536");
    return std::unique_ptr<KernelModule>(new NullModule(count));
  }
};

}  // namespace

std::unique_ptr<Loader> make_null_loader() { return std::make_unique<NullLoader>(); }

}  // namespace mlc::null
