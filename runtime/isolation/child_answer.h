// A command that is answered by a process without privileges (runtime/sandbox): the answer to a user who gives a file
// that no trusted key has signed. The parent opens what the child needs before, waits, and ends as the child did.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cli/report.h"
#include "base/status.h"
#include "runtime/sandbox/sandbox.h"

namespace mlc::cli {

// What one run of an untrusted file may take, by default, and a session of it (spec/untrusted.md).
inline constexpr uint64_t kUntrustedNs = 1'500'000'000, kUntrustedMemory = uint64_t{192} << 20;

// What a child is going to do: its limits follow from that.
struct ChildWork {
  bool native_code = false;          // of the file may run, or may turn out to: the host is the limit of memory
  bool keeps_stdin = false;
  uint64_t container_bytes = 0;
  uint64_t input_bytes = 0;          // of files that are read beside containers
  uint64_t memory_limit = 0;         // of sessions and of decoding, 0: the profile's
  bool is_memory_unlimited = false;  // but by the host: the user wants it so, or it does not follow from what is given
  uint32_t sessions = 1;             // at once; for what runs nothing: containers
  uint64_t threads = 1;              // workers
  std::optional<uint64_t> run_seconds = 0;  // of processor time, of all runs together; none: no limit
};
[[nodiscard]] sandbox::Limits limits_of(const ChildWork& work);

using Answer = std::function<Result<Report>()>;

// What `answer` reports; where it finds no memory, that: as any other failure, so that there is one document with --json too.
[[nodiscard]] Result<Report> reported(const std::string& file, const char* help, const Answer& answer);
[[nodiscard]] Status no_memory_for(const std::string& file, const char* help);

struct ChildCommand {
  std::string_view name;
  bool as_json = false;
  std::string file;                                // for messages
  const char* help = "";                           // where there is no memory
  std::vector<int> inherited{};                    // descriptors that the child closes
  std::function<void()> begin{};                   // the first that the child does: it forgets what the parent has for its own end
  std::function<Result<ChildWork>()> work{};       // asked in the child
  std::function<int(const Result<Report>&)> print{};  // what is answered, in the child, or here where it was ended; returns the exit code; default: `finish`
};

// Forks; the child gives its privileges up, prints what `answer` reports, and "isolated": true with it if `says_isolated`. Returns the
// exit code. `ended` is called in the parent if a signal of the user, or an output that is closed, ended the child: this process ends likewise.
[[nodiscard]] int answer_in_child(const ChildCommand& command, bool says_isolated, const Answer& answer, const std::function<void()>& ended = {});

// E6013: a file that is answered in such a process only, where there is none.
[[nodiscard]] Status no_process_for(const std::string& file);

// E6001: the file changed while it was mapped.
inline constexpr char kHowToReplace[] = "rename a new file over it instead of writing into it";
[[nodiscard]] Status changed_while_mapped(const std::string& file);

}  // namespace mlc::cli
