#include "runtime/container/foreign.h"

#include <algorithm>
#include <string_view>

#include "base/compose.h"
#include "schema/format.h"

namespace mlc::container {
namespace {

using std::string_view_literals::operator""sv;

struct Kind {
  size_t offset;
  std::string_view bytes, name, help;
};
constexpr Kind kKinds[] = {
    {0, "PK\x03\x04"sv, "a ZIP archive (PyTorch, NumPy and Core ML files are ZIP archives too)", ""},
    {0, "PK\x05\x06"sv, "an empty ZIP archive", ""},
    {0, "\x7f" "ELF"sv, "an ELF executable or library", ""},
    {0, "MZ"sv, "a Windows executable", ""},
    {0, "GGUF"sv, "a GGUF model", ""},
    {0, "\x1f\x8b"sv, "a gzip file", "gunzip it first"},
    {0, "\x28\xb5\x2f\xfd"sv, "a zstd file", "unzstd it first"},
    {0, "\xfd" "7zXZ"sv, "an xz file", "unxz it first"},
    {0, "BZh"sv, "a bzip2 file", "bunzip2 it first"},
    {257, "ustar"sv, "a tar archive", "extract it first"},
    {0, "\x89PNG\r\n\x1a\n"sv, "a PNG image", "open a container, and give it this file as an input: mlrun MODEL.mlc --input IMAGE"},
    {0, "\xff\xd8\xff"sv, "a JPEG image", "open a container, and give it this file as an input: mlrun MODEL.mlc --input IMAGE"},
    {0, "\x93NUMPY"sv, "a NumPy array", "open a container, and give it this file as an input: mlrun MODEL.mlc --input ARRAY.npy"},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file (Keras)", ""},
    {4, "TFL3"sv, "a TensorFlow Lite model", ""},
    {4, "ORTM"sv, "an ONNX Runtime model", "build from the original .onnx file"},
    {0, "%PDF"sv, "a PDF document", ""},
    {0, "-----BEGIN "sv, "a PEM file", ""},
    {0, "\x80\x02"sv, "a Python pickle", ""},
    {0, "\x80\x04"sv, "a Python pickle", ""},
};

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

bool starts_with_ignoring_case(std::string_view text, std::string_view prefix) {
  if (text.size() < prefix.size()) return false;
  return std::equal(prefix.begin(), prefix.end(), text.begin(),
                    [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b + 32 : b); });
}

// An ONNX ModelProto begins with ir_version (field 1, a small varint) and then one of its first fields.
bool looks_like_onnx(std::string_view text) {
  if (text.size() < 4 || text[0] != 0x08 || text[1] < 1 || text[1] > 32) return false;
  uint8_t next = static_cast<uint8_t>(text[2]);
  return next == 0x12 || next == 0x1a || next == 0x22 || next == 0x28 || next == 0x32 || next == 0x3a || next == 0x42;
}

// The digits or hex digits behind `key` on its line.
std::string_view value_of(std::string_view text, std::string_view key) {
  size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + key.size());
  auto end = std::find_if(text.begin(), text.end(), [](char c) {
    return !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'));
  });
  return text.substr(0, std::min<size_t>(64, static_cast<size_t>(end - text.begin())));
}

Status git_lfs_pointer(std::string_view text, uint64_t size, const std::string& name) {
  Status status(Code::Malformed, 1001, "{} is a git-lfs pointer of {} bytes, not a container", name, size);
  return std::move(status)
      .fact("stands for {} bytes, sha256 {}", value_of(text, "\nsize "), value_of(text, "oid sha256:"))
      .hint("git lfs pull --include {}", name);
}

}  // namespace

Status recognise(Bytes front, uint64_t size, const std::string& name) {
  std::string_view text = text_of(front);
  std::string_view magic(reinterpret_cast<const char*>(format::kMagic.data()), format::kMagic.size());
  if (text.starts_with(magic)) {
    if (size >= format::kHeaderLen) return ok();
    return Status(Code::Malformed, 1101, "{} is truncated: {} bytes found, the header page alone has 4096", name, size)
        .hint("copy or download it again");
  }
  auto is = [&](std::string_view what, std::string_view help) {
    Status status(Code::Malformed, "{} is {}, not a container", name, what);
    status.help = help;
    return status;
  };
  if (size == 0) return is("empty", "copy or download it again");
  if (size < magic.size() && magic.starts_with(text))
    return Status(Code::Malformed, 1101, "{} is truncated: {} bytes found, the header page alone has 4096", name, size)
        .hint("copy or download it again");
  if (text.starts_with("version https://git-lfs.github.com/spec/")) return git_lfs_pointer(text, size, name);
  size_t start = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  std::string_view body = text.substr(start);
  if (starts_with_ignoring_case(body, "<!doctype html") || starts_with_ignoring_case(body, "<html")) {
    Status status(Code::Malformed, 1002, name + " is a web page, not a container");
    return std::move(status).hint("fetch it again with credentials and compare the size");
  }
  for (const Kind& kind : kKinds)
    if (text.size() >= kind.offset && text.substr(kind.offset).starts_with(kind.bytes)) return is(kind.name, kind.help);
  if (looks_like_onnx(text)) return is("an ONNX model", "mlpack build FILE -o model.mlc");
  if (text.size() > 10 && text.substr(8, 2) == "{\"") return is("a safetensors file", "");
  if (body.starts_with("{") || body.starts_with("[")) return is("a JSON text", "");
  // The magic shows what happened to the rest: lost high bits, or line ends rewritten by a text-mode transfer.
  if (text.substr(0, 4) == "\x09MLC" || text.substr(0, 5) == "\x89MLC\n" || text.substr(0, 6) == "\x89MLC\r\r")
    return Status(Code::Malformed, "{} was damaged by a transfer in text mode", name)
        .hint("transfer it again in binary mode");
  size_t inside = text.find(magic);
  if (inside != std::string_view::npos)
    return Status(Code::Malformed, "{} has {} bytes before the container", name, inside)
        .hint("a container must begin at the first byte");
  return Status(Code::Malformed, "{} is not a container: the first bytes are unknown", name);
}

}  // namespace mlc::container
