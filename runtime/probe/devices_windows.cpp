// The process that asks drivers.
#include <windows.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/compose.h"
#include "base/system/clock.h"
#include "base/system/windows_text.h"
#include "runtime/probe/devices.h"

namespace mlc::probe {
namespace {

struct CloseHandleOf {
  void operator()(void* handle) const { CloseHandle(handle); }
};
using OwnedHandle = std::unique_ptr<void, CloseHandleOf>;

OwnedHandle owned(HANDLE handle) { return OwnedHandle(handle == INVALID_HANDLE_VALUE ? nullptr : handle); }

// Everything that comes, up to what a text may have and a little more. False: the deadline passed.
bool read_all(HANDLE from, uint64_t end, std::string& out) {
  std::array<char, 4096> piece;
  for (;;) {
    if (now_ns() >= end) return false;
    DWORD waits = 0, got = 0;
    if (!PeekNamedPipe(from, nullptr, 0, nullptr, &waits, nullptr)) return true;  // its other end is closed
    if (waits == 0) {
      Sleep(1);
      continue;
    }
    if (!ReadFile(from, piece.data(), std::min<DWORD>(waits, piece.size()), &got, nullptr) || got == 0) return true;
    out.append(piece.data(), got);
    if (out.size() > kMostDeviceText || out.ends_with("\nend\n")) return true;
  }
}

std::wstring own_program() {
  std::wstring path(32768, L'\0');
  path.resize(GetModuleFileNameW(nullptr, path.data(), static_cast<DWORD>(path.size())));
  return path;
}

// Inherits `output` alone, as its standard output and errors.
OwnedHandle start(const std::wstring& program, const std::wstring& line, HANDLE output, OwnedHandle& main_thread) {
  SIZE_T bytes = 0;
  InitializeProcThreadAttributeList(nullptr, 1, 0, &bytes);
  const auto room = std::make_unique<std::byte[]>(bytes);
  auto* const list = reinterpret_cast<LPPROC_THREAD_ATTRIBUTE_LIST>(room.get());
  if (!InitializeProcThreadAttributeList(list, 1, 0, &bytes)) return nullptr;
  const std::unique_ptr<_PROC_THREAD_ATTRIBUTE_LIST, decltype(&DeleteProcThreadAttributeList)> ends(list, &DeleteProcThreadAttributeList);
  if (!UpdateProcThreadAttribute(list, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, &output, sizeof output, nullptr, nullptr)) return nullptr;
  STARTUPINFOEXW info{};
  info.StartupInfo.cb = sizeof info;
  info.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
  info.StartupInfo.hStdOutput = output;
  info.lpAttributeList = list;
  PROCESS_INFORMATION process{};
  std::wstring words = line;  // the call writes into it
  if (!CreateProcessW(program.c_str(), words.data(), nullptr, nullptr, TRUE, EXTENDED_STARTUPINFO_PRESENT | CREATE_NO_WINDOW, nullptr, nullptr, &info.StartupInfo, &process))
    return nullptr;
  main_thread = owned(process.hThread);
  return owned(process.hProcess);
}

}  // namespace

bool may_have_graphics() {
  for (const wchar_t* variable : {L"VK_DRIVER_FILES", L"VK_ICD_FILENAMES", L"VK_ADD_DRIVER_FILES"})
    if (!windows::variable(variable).empty()) return true;
  std::wstring folder(MAX_PATH, L'\0');
  folder.resize(std::min<size_t>(GetSystemDirectoryW(folder.data(), MAX_PATH), MAX_PATH));
  return GetFileAttributesW((folder + L"\\vulkan-1.dll").c_str()) != INVALID_FILE_ATTRIBUTES;
}

Result<std::vector<device::Info>> ask_child(const std::string& program, const char* api, uint64_t deadline_ns) {
  const std::wstring path = program == kOwnProgram ? own_program() : windows::wide(program);
  HANDLE ends[2];
  SECURITY_ATTRIBUTES inherited{sizeof(SECURITY_ATTRIBUTES), nullptr, TRUE};
  if (!CreatePipe(&ends[0], &ends[1], &inherited, 0)) return Status(Code::NotFound, "no pipe: {}", windows::last_error());
  const OwnedHandle from(ends[0]);
  OwnedHandle to(ends[1]), main_thread;
  SetHandleInformation(from.get(), HANDLE_FLAG_INHERIT, 0);
  const OwnedHandle child = start(path, L"mlrun probe-child " + windows::wide(api), to.get(), main_thread);
  if (!child) return Status(Code::NotFound, "{} cannot be started: {}", windows::narrow(path), windows::last_error());
  to.reset();

  std::string text;
  const bool in_time = read_all(from.get(), now_ns() + deadline_ns, text);
  const bool whole = in_time && text.ends_with("end\n");  // a driver may hang at its own end: not waited for
  DWORD code = 0;
  if (!in_time || whole || text.size() > kMostDeviceText || WaitForSingleObject(child.get(), 1000) != WAIT_OBJECT_0) TerminateProcess(child.get(), 1);
  GetExitCodeProcess(child.get(), &code);
  if (!in_time) return Status(Code::Resource, "the probe of {} timed out after {} s", api, deadline_ns / 1'000'000'000);
  if (!whole && code >= 0xC0000000) return Status(Code::Resource, "the probe of {} crashed with exception {}", api, code);
  if (whole) return parse_device_text(text);
  // What it says instead of devices is why there are none.
  std::string why(std::string_view(text).substr(0, std::min<size_t>(text.find('\n'), 200)));
  std::replace_if(why.begin(), why.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
  return Status(Code::NotFound, why.empty() ? compose("the probe of {} ended with {}", api, code) : why);
}

}  // namespace mlc::probe
