#include "packager/container/zstd_frames.h"

#include <zstd.h>

#include <algorithm>
#include <memory>

#include "schema/format.h"

namespace mlc::container {
namespace {

constexpr int level_of(Effort effort) { return effort == Effort::Small ? 19 : 3; }

struct ContextDeleter {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

}  // namespace

Result<Frames> compress(Bytes decoded, Effort effort) {
  std::unique_ptr<ZSTD_CCtx, ContextDeleter> context(ZSTD_createCCtx());
  if (!context) return Status(Code::Resource, "no memory for compression");
  bool set = !ZSTD_isError(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level_of(effort))) &&
             !ZSTD_isError(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1)) &&
             !ZSTD_isError(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_contentSizeFlag, 1)) &&
             !ZSTD_isError(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_dictIDFlag, 0));
  if (!set) return Status(Code::Internal, "zstd refuses its parameters");

  Frames out;
  std::vector<std::byte> frame(ZSTD_compressBound(format::kLeafLen));
  for (size_t at = 0; at < decoded.size(); at += format::kLeafLen) {
    Bytes block = decoded.subspan(at, std::min<size_t>(format::kLeafLen, decoded.size() - at));
    size_t len = ZSTD_compress2(context.get(), frame.data(), frame.size(), block.data(), block.size());
    if (ZSTD_isError(len)) return Status(Code::Resource, std::string("compression: ") + ZSTD_getErrorName(len));
    out.stored.insert(out.stored.end(), frame.begin(), frame.begin() + static_cast<ptrdiff_t>(len));
    out.lengths.push_back(static_cast<uint32_t>(len));
  }
  return out;
}

std::string compressor_id() {
  return std::string("zstd-") + ZSTD_versionString() + "-levels-" + std::to_string(level_of(Effort::Small)) + "-" +
         std::to_string(level_of(Effort::Fast));
}

}  // namespace mlc::container
