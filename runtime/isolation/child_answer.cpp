// What is the same on every system.
#include "runtime/isolation/child_answer.h"

#include <new>
#include <stdexcept>

namespace mlc::cli {

Result<Report> reported(const std::string& file, const char* help, const Answer& answer) {
  try {
    return answer();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return no_memory_for(file, help);
}

Status no_memory_for(const std::string& file, const char* help) {
  return Status(Code::Resource, 6006, "there is no memory left for what " + file + " asks for").hint(help);
}

Status no_process_for(const std::string& file) {
  return Status(Code::Resource, 6013, "{} is not opened: no trusted key has signed it, and {}", file, sandbox::why_no_process())
      .hint("mlrun trust vouches for the key of a signer; or --allow-unsigned runs the file with all that this user may do");
}

Status changed_while_mapped(const std::string& file) {
  return Status(Code::Malformed, 6001, file + " changed while it was mapped").hint(kHowToReplace);
}

}  // namespace mlc::cli
