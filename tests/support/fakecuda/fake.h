// What the functions of the libcuda of the tests share: handles, memory, what it is told to pretend.
#pragma once

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "loaders/cuda/library.h"
#include "tests/support/ptx/executor.h"

// As the loader declares them: it calls these functions by such pointers.
extern "C" {
using namespace mlc::cuda;
#define FAKE_DECLARED(name, symbol, parameters) Code32 symbol parameters;
MLC_CUDA_FUNCTIONS(FAKE_DECLARED)
MLC_CUDA_OPTIONAL_FUNCTIONS(FAKE_DECLARED)
#undef FAKE_DECLARED
}

namespace fakecuda {

using namespace mlc::testing;
using mlc::targets::ptx::Entry;
using mlc::targets::ptx::Image;

struct Function {
  const Entry* entry = nullptr;
  uint64_t most_dynamic_shared = 0;  // beyond 48 KiB only if asked for
};
struct Module {
  Image image;
  std::map<std::string, Function> functions;
};

// What was put into a stream: does it, and gives a code.
using Work = std::function<int()>;
using Graph = std::vector<Work>;
struct Stream {
  bool captures = false, broken = false;  // broken: something was called that no capture allows
  bool is_global = false;                 // other threads than this one may not call such things either:
  std::thread::id captured_by;
  Graph captured;
};

struct Fake {
  std::recursive_mutex mu;
  std::map<std::string, std::string> script;
  lanes::Memory memory;
  std::map<uint64_t, std::vector<std::byte>> blocks;  // of the device, by address
  std::map<uint64_t, size_t> host;                    // pinned
  std::map<const void*, std::unique_ptr<Module>> modules;
  std::map<const void*, Stream> streams;
  std::map<const void*, int> events;
  std::map<const void*, Graph> graphs, instances;
  int sticky = 0;
  int64_t allocations = 0, launches = 0, graph_launches = 0;
  uint64_t allocated = 0;
  bool initialised = false;
  int64_t loaded = 0;  // architecture of the cubin that was loaded last; 0: it was a text
  std::string error;  // of the last launch that went wrong
  uintptr_t next_handle = 0x1000;

  int64_t number(const std::string& name, int64_t otherwise) const {
    const auto found = script.find(name);
    return found == script.end() ? otherwise : std::atoll(found->second.c_str());
  }
  void reset(const char* text) {
    std::istringstream in(text ? text : "");
    script.clear();
    for (std::string word; in >> word;)
      if (const size_t equal = word.find('='); equal != word.npos) script[word.substr(0, equal)] = word.substr(equal + 1);
    sticky = 0, allocations = launches = graph_launches = 0;
    error.clear();
  }
  Handle handle() { return reinterpret_cast<Handle>(next_handle += 16); }
};

Fake& fake();

// The state every call of a context asks first.
int ready();
// What the script says that function `name` answers; 0: nothing.
int told(const char* name);
// What a call answers that no capture allows, if one of the streams captures, for this thread or for all; else 0.
int forbids_capture();
// Does it, or keeps it for the graph that the stream captures.
int put(Handle stream, Work work);

#define FAKE_LOCK const std::lock_guard lock(fake().mu)
#define FAKE_READY                            \
  FAKE_LOCK;                                  \
  if (const int code = ready()) return code;  \
  if (const int code = told(__func__)) return code
#define FAKE_READY_OUTSIDE \
  FAKE_READY;              \
  if (const int code = forbids_capture()) return code

}  // namespace fakecuda
