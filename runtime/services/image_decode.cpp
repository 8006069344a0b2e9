#include "runtime/services/image_decode.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

#include "runtime/io/picture/image.h"

namespace mlc::services {
namespace {

struct Options {
  io::ImageOptions image;
  bool or_empty = false;
};

// A pixel format, then words.
std::optional<Options> parse(std::string_view text) {
  Options o;
  o.image.orient = io::Orient::Ignore;
  const auto next = [&] {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size());
    if (!text.empty()) text.remove_prefix(1);
    return word;
  };
  const std::string_view format = next();
  if (format == "RGB") o.image.color = io::Color::Rgb;
  else if (format == "BGR") o.image.color = io::Color::Bgr;
  else if (format == "Grayscale") o.image.color = io::Color::Gray;
  else return std::nullopt;
  while (!text.empty()) {
    if (next() != "or-empty") return std::nullopt;
    o.or_empty = true;
  }
  return o;
}

// What the run leaves, and no more than any decode may take.
uint64_t memory_of(const MlcServiceCall& call) {
  constexpr size_t kEnd = offsetof(MlcServiceCall, memory_bytes) + sizeof call.memory_bytes;
  return call.size < kEnd ? io::kDefaultDecodeMemory : std::min(call.memory_bytes, io::kDefaultDecodeMemory);
}

// The picture is copied into the result, so that both are there for a moment.
Result<HostTensor> decode(Bytes file, const io::ImageOptions& options, uint64_t memory) {
  io::DecodeLimits limits;
  limits.memory = memory;
  MLC_ASSIGN(const io::ImageInfo info, io::image_info(file, limits));
  const uint64_t pixels = static_cast<uint64_t>(info.height) * static_cast<uint64_t>(info.width);
  io::MemoryNeed result;
  result.add(pixels, options.color == io::Color::Gray ? 1 : 3);
  MLC_RETURN_IF_ERROR(result.check(limits, "the picture"));
  limits.memory -= result.bytes;
  return io::decode_image(file, options, limits);
}

int fail(MlcServiceCall* call, int code, const char* sentence) {
  std::snprintf(call->message, sizeof call->message, "%s", sentence);
  return code;
}

}  // namespace

int decode_image(void*, MlcServiceCall* call) {
  const auto options = parse(call->options);
  if (!options) return fail(call, MLC_UNSUPPORTED, "options that this version does not know");
  if (call->num_inputs != 1 || call->num_outputs != 1 || call->inputs[0].dtype != MLC_U8 || call->inputs[0].rank != 1)
    return fail(call, MLC_INPUT_MISMATCH, "it takes the bytes of one file and gives one picture");
  const Bytes file(static_cast<const std::byte*>(call->inputs[0].data), static_cast<size_t>(call->inputs[0].bytes));
  auto decoded = decode(file, options->image, memory_of(*call));
  if (!decoded.ok()) {
    const Status& why = decoded.status();
    const io::Media media = io::media_of(file);
    const bool not_here = io::is_picture(media) && !io::is_decoded(media);  // another build would: nothing to pass over
    if (!options->or_empty || not_here || why.code == Code::Resource || why.code == Code::Internal)
      return fail(call, static_cast<int>(why.code), why.message.c_str());
    const int64_t nothing[] = {0, 0, options->image.color == io::Color::Gray ? 1 : 3};
    return call->result(call, 0, MLC_U8, 3, nothing) ? MLC_OK : MLC_RESOURCE;
  }
  void* const pixels = call->result(call, 0, MLC_U8, 3, decoded->shape.data());
  if (!pixels) return MLC_RESOURCE;
  if (decoded->data.size() > 0) std::memcpy(pixels, decoded->data.data(), decoded->data.size());
  return MLC_OK;
}

}  // namespace mlc::services
