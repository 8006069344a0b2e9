#include "packager/import/foreign.h"

#include <array>
#include <string_view>

namespace mlc::import {
namespace {

struct Signature {
  std::string_view prefix, what, help;
};
using namespace std::string_view_literals;
constexpr std::array kForeign = {
    Signature{"\x89MLC\r\n\x1a\n"sv, "a container already", "run it with mlrun, or look inside with mlpack inspect"},
    Signature{"PK\x03\x04"sv, "a ZIP archive", "unpack it; a PyTorch checkpoint (.pt, .pth) must be exported to ONNX first"},
    Signature{"\x1f\x8b"sv, "gzip-compressed", "gunzip it first"},
    Signature{"\x28\xb5\x2f\xfd"sv, "zstd-compressed", "unpack it with zstd -d first"},
    Signature{"\x7f" "ELF"sv, "an ELF binary", ""},
    Signature{"GGUF"sv, "a GGUF file", "ONNX models are expected"},
    Signature{"\x80\x02"sv, "a Python pickle", "export the model to ONNX"},
    Signature{"\x89HDF\r\n"sv, "an HDF5 file (Keras)", "export the model to ONNX"},
    Signature{"\x89PNG"sv, "a PNG image", ""},
    Signature{"\xff\xd8\xff"sv, "a JPEG image", ""},
    Signature{"<!DOCTYPE"sv, "a web page", "fetch it again with credentials and compare the size"},
    Signature{"<html"sv, "a web page", "fetch it again with credentials and compare the size"},
    Signature{"{"sv, "JSON text", ""},
};

std::string field_of(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  const size_t begin = at + key.size();
  return std::string(text.substr(begin, std::min(text.find('\n', begin), text.size()) - begin));
}

}  // namespace

Status refuse_foreign(const std::string& path, Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 1024));
  if (bytes.empty()) return Status(Code::Malformed, 1014, path + " is empty, expected an ONNX model");
  if (text.starts_with("version https://git-lfs")) {
    Status status(Code::Malformed, 1001, path + " is a git-lfs pointer of " + std::to_string(bytes.size()) + " bytes, not a model");
    return std::move(status)
        .fact("stands for " + field_of(text, "\nsize ") + " bytes, sha256 " + field_of(text, "oid sha256:"))
        .hint("git lfs pull --include " + path);
  }
  if (text.size() >= 8 && text.substr(4, 4) == "TFL3") return Status(Code::Malformed, 1002, path + " is a TensorFlow Lite model, expected ONNX");
  for (const Signature& s : kForeign)
    if (text.starts_with(s.prefix))
      return Status(Code::Malformed, 1002, path + " is " + std::string(s.what) + ", not an ONNX model").hint(std::string(s.help));
  return ok();
}

}  // namespace mlc::import
