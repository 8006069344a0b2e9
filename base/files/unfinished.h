// What a process has begun to write and would leave behind if it ended early: a file under a temporary name, a folder of
// temporary files. Destructors remove such things where a function returns; this is for where none runs, in a handler of
// signals or of memory that is used up.
#pragma once

#include <string>

namespace mlc {

// As long as this lives, `remove_unfinished` removes `path`: a file, or a folder with files only. The destructor only forgets.
class Unfinished {
 public:
  explicit Unfinished(const std::string& path);
  Unfinished(Unfinished&& other) noexcept;
  Unfinished& operator=(Unfinished&&) = delete;
  ~Unfinished();

 private:
  int slot_;  // below 0: moved from, or there are too many; then nothing is removed
};

// Removes everything that is registered. Allocates nothing and takes no lock: a signal handler may call it.
void remove_unfinished() noexcept;
// In a process made by fork: what is registered belongs to the parent.
void forget_unfinished() noexcept;

namespace detail {
// A file, or a folder with the files in it. Likewise for a signal handler.
void remove_place(const char* path) noexcept;
}  // namespace detail

}  // namespace mlc
