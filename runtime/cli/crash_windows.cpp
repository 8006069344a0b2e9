#include "runtime/cli/crash.h"

#include <windows.h>

#include <cstring>
#include <string>

#include "base/cli/report.h"
#include "base/files/unfinished.h"
#include "base/system/windows_text.h"
#include "runtime/cli/tune/remember.h"
#include "runtime/isolation/child_answer.h"

namespace mlc::cli {
namespace {

enum Crash { ChangedFile, IllegalInstruction, MemoryFault, kNumCrashes };

const char* volatile running_file = nullptr;
const char* volatile running_variant = nullptr;

// With --json: the whole answer for each, made while that is allowed.
std::string answers[kNumCrashes];
std::string_view command_with_json;

void say(DWORD stream, std::string_view text) {
  DWORD written = 0;
  WriteFile(GetStdHandle(stream), text.data(), static_cast<DWORD>(text.size()), &written, nullptr);
}

const char* kHowToRunWithout = "--variant portable runs without native code";
const char* kFromNowOn = ", and so do runs from now on until mlrun tune --forget";

FaultLines faults;  // of what is running
std::wstring faults_path;

// Allocates nothing.
bool remember_fault(Crash crash) {
  const std::string& line = crash == IllegalInstruction ? faults.illegal_instruction : faults.memory_fault;
  if (crash == ChangedFile || line.empty()) return false;
  const HANDLE file = CreateFileW(faults_path.c_str(), FILE_APPEND_DATA, FILE_SHARE_READ, nullptr, OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (file == INVALID_HANDLE_VALUE) return false;
  DWORD written = 0;
  WriteFile(file, line.data(), static_cast<DWORD>(line.size()), &written, nullptr);
  CloseHandle(file);
  return true;
}

// Allocates nothing: the fault may have been in the allocator.
void say_crash(Crash crash) {
  const char* const file = running_file;
  const char* const variant = running_variant;
  const bool is_remembered = remember_fault(crash);
  if (!answers[crash].empty()) return say(STD_OUTPUT_HANDLE, answers[crash]);
  if (crash == ChangedFile) {
    say(STD_ERROR_HANDLE, "error[E6001]: ");
    say(STD_ERROR_HANDLE, file ? file : "a mapped file");
    say(STD_ERROR_HANDLE, " changed while it was mapped\n  stopped, no result written\n  help: ");
    say(STD_ERROR_HANDLE, kHowToReplace);
    return say(STD_ERROR_HANDLE, "\n");
  }
  say(STD_ERROR_HANDLE, crash == IllegalInstruction ? "error[E6002]: illegal instruction" : "error[E6003]: memory fault");
  say(STD_ERROR_HANDLE, " while running variant ");
  say(STD_ERROR_HANDLE, variant ? variant : "(none yet)");
  say(STD_ERROR_HANDLE, " of ");
  say(STD_ERROR_HANDLE, file ? file : "(no file)");
  say(STD_ERROR_HANDLE, "\n  help: ");
  say(STD_ERROR_HANDLE, kHowToRunWithout);
  if (is_remembered) say(STD_ERROR_HANDLE, kFromNowOn);
  say(STD_ERROR_HANDLE, "\n");
}

LONG WINAPI on_exception(EXCEPTION_POINTERS* what) {
  switch (what->ExceptionRecord->ExceptionCode) {
    case EXCEPTION_IN_PAGE_ERROR:  // a mapped page that cannot be read any more
      say_crash(ChangedFile);
      TerminateProcess(GetCurrentProcess(), static_cast<UINT>(Code::Malformed));
      break;
    case EXCEPTION_ILLEGAL_INSTRUCTION: case EXCEPTION_PRIV_INSTRUCTION: say_crash(IllegalInstruction); break;
    case EXCEPTION_ACCESS_VIOLATION: case EXCEPTION_STACK_OVERFLOW: case EXCEPTION_DATATYPE_MISALIGNMENT: say_crash(MemoryFault); break;
    default: return EXCEPTION_CONTINUE_SEARCH;
  }
  TerminateProcess(GetCurrentProcess(), what->ExceptionRecord->ExceptionCode);  // the number that the process would have ended with
  return EXCEPTION_EXECUTE_HANDLER;
}

// Ctrl-C and its like: in a thread of the system's.
BOOL WINAPI on_end(DWORD) {
  remove_unfinished();
  return FALSE;  // the next handler ends the process
}

}  // namespace

void install_crash_handlers() {
  SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX);
  SetUnhandledExceptionFilter(on_exception);
  SetConsoleCtrlHandler(on_end, TRUE);
}

void crash_with_json(std::string_view command) { command_with_json = command; }

void say_what_crashed(const OpenModel& model, const char* variant) {
  const char* const file = model.info.file;
  running_file = file;
  if (running_variant == nullptr || std::string_view(running_variant) != variant) {
    faults = fault_lines(model, variant);
    faults_path = windows::wide_path(faults.file);
  }
  running_variant = variant;
  if (command_with_json.empty()) return;
  for (const Crash crash : {ChangedFile, IllegalInstruction, MemoryFault}) {
    const bool is_fault = crash == MemoryFault;
    const Status status = crash == ChangedFile ? changed_while_mapped(file)
                                               : Status(Code::Internal, is_fault ? uint16_t{6003} : uint16_t{6002}, "{} while running variant {} of {}",
                                                        is_fault ? "memory fault" : "illegal instruction", variant, file)
                                                     .hint("{}", kHowToRunWithout);
    Json json = first_fields(command_with_json, status);
    if (crash != ChangedFile) json["exit_code"] = is_fault ? EXCEPTION_ACCESS_VIOLATION : EXCEPTION_ILLEGAL_INSTRUCTION;
    answers[crash] = line_of(json);
  }
}

}  // namespace mlc::cli
