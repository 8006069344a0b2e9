// What kind of file some bytes are, decided by the first of them and never by a name.
#pragma once

#include <string_view>

#include "base/checked.h"

namespace mlc::io {

enum class Media { Unknown, Png, Jpeg, Bmp, Jpeg2000, Pnm, Tiff, WebP, Wav, Flac, Ogg, Npy, Zip };
constexpr bool is_picture(Media media) { return media >= Media::Png && media <= Media::WebP; }

Media media_of(Bytes bytes);
// "image/png", "audio/wav", ...; Zip is "application/x-npz", the only use of it here.
std::string_view media_type(Media media);
// A few words for a message about a file that is none of these: "empty", "a web page", "a git-lfs pointer", "text", ...
std::string_view describe_bytes(Bytes bytes);

}  // namespace mlc::io
