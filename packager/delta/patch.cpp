#include "packager/delta/patch.h"

#include <zstd.h>

#include <memory>
#include <string>

namespace mlc::delta {
namespace {

constexpr int kLevel = 9, kWindowLog = 22;  // a window that holds a part and what it refers to

struct PackerDeleter {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};
struct UnpackerDeleter {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

Result<std::vector<std::byte>> pack(Bytes bytes, Bytes reference) {
  const std::unique_ptr<ZSTD_CCtx, PackerDeleter> context(ZSTD_createCCtx());
  if (!context) return Status(Code::Resource, "no memory for compression");
  const bool set = !ZSTD_isError(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kLevel)) &&
                   !ZSTD_isError(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_windowLog, kWindowLog)) &&
                   !ZSTD_isError(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_enableLongDistanceMatching, reference.empty() ? 0 : 1)) &&
                   !ZSTD_isError(ZSTD_CCtx_refPrefix(context.get(), reference.data(), reference.size()));
  if (!set) return Status(Code::Internal, "zstd refuses its parameters");
  std::vector<std::byte> out(ZSTD_compressBound(bytes.size()));
  const size_t length = ZSTD_compress2(context.get(), out.data(), out.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(length)) return Status(Code::Resource, std::string("compression: ") + ZSTD_getErrorName(length));
  out.resize(length);
  return out;
}

Result<std::vector<std::byte>> unpack(Bytes packed, Bytes reference, uint64_t length) {
  const std::unique_ptr<ZSTD_DCtx, UnpackerDeleter> context(ZSTD_createDCtx());
  if (!context) return Status(Code::Resource, "no memory for decompression");
  const bool set = !ZSTD_isError(ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kWindowLog)) &&
                   !ZSTD_isError(ZSTD_DCtx_refPrefix(context.get(), reference.data(), reference.size()));
  if (!set) return Status(Code::Internal, "zstd refuses its parameters");
  // One frame: what stands behind it would be decoded too.
  if (ZSTD_findFrameCompressedSize(packed.data(), packed.size()) != packed.size()) return Status(Code::Malformed, "its bytes are not one zstd frame");
  std::vector<std::byte> out(length);
  const size_t found = ZSTD_decompressDCtx(context.get(), out.data(), out.size(), packed.data(), packed.size());
  if (ZSTD_isError(found)) return Status(Code::Malformed, std::string("its bytes cannot be decompressed: ") + ZSTD_getErrorName(found));
  if (found != length) return Status(Code::Malformed, "its bytes decompress to {}, {} expected", found, length);
  return out;
}

}  // namespace mlc::delta
