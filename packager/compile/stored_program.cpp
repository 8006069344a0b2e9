#include "packager/compile/stored_program.h"

#include "base/byte_cursor.h"

namespace mlc::compile {
namespace {

constexpr std::string_view kProgramMagic = "MLCPROG1";
constexpr uint32_t kLongestOptions = 64 << 10;

}  // namespace

std::vector<std::byte> encode_program(const StoredProgram& program) {
  ByteBuilder out;
  out.put(kProgramMagic).put_uint(program.options.size(), 4).put(program.options).put(program.model);
  return out.take();
}

Result<StoredProgram> decode_program(Bytes bytes) {
  ByteCursor in(bytes);
  const bool is_one = in.text(kProgramMagic.size()) == kProgramMagic;
  const auto length = in.take<uint32_t>();
  const std::string_view options = in.text(length);
  if (!is_one || in.failed() || length > kLongestOptions) return Status(Code::Malformed, "the program in the file: its options are not there, or longer than {} bytes", kLongestOptions);
  const Bytes model = in.rest();
  return StoredProgram{std::string(options), {model.begin(), model.end()}};
}

}  // namespace mlc::compile
