// Calls of the system for files, which all systems have under some name. Names are UTF-8 everywhere. What fails says why in errno,
// as calls of POSIX do, so that strerror has the words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace mlc {

// Opening of a file without a writer, as a FIFO may be: waits for one, or does not.
enum class Waiting : bool { No, Yes };

// A descriptor that no other program inherits, of bytes as they are; below 0: failed.
[[nodiscard]] int open_to_read(const std::string& path, Waiting waiting);
// A new file, of these rights where the system has such; fails with EEXIST where something has that name.
[[nodiscard]] int open_new(const std::string& path, unsigned mode);
// A new file beside `path`, whose name becomes `made`, with the rights that files of this process get.
[[nodiscard]] int open_new_beside(const std::string& path, std::string& made);
// Another descriptor of what `fd` is open for, or below 0.
[[nodiscard]] int duplicate(int fd);
void close_descriptor(int fd);
// The file has these rights, where the system has such, whatever the process's mask says.
[[nodiscard]] bool set_mode(int fd, unsigned mode);

// So many bytes were read, fewer than asked for at the end of the file alone or of what a pipe has; below 0: failed. Goes on after
// interruptions.
[[nodiscard]] int64_t read_some(int fd, void* to, size_t bytes);
// The same from byte `at` of the file on; where the descriptor stands is of no matter.
[[nodiscard]] int64_t read_some_at(int fd, void* to, size_t bytes, uint64_t at);
// What was written is on the disk.
[[nodiscard]] bool sync_descriptor(int fd);
// The same of the names in the folder that `path` lies in, where the system knows that.
void sync_folder_of(const std::string& path);

// `from` is called `to` afterwards, in place of what was called so.
[[nodiscard]] bool rename_over(const std::string& from, const std::string& to);
// The same, if nothing is called so; else EEXIST. Where it fails, `from` may be gone.
[[nodiscard]] bool rename_to_new(const std::string& from, const std::string& to);
bool remove_file(const std::string& path);
// Whether something is called so, be it a link that leads nowhere. False with errno 0: nothing is.
[[nodiscard]] bool has_file(const std::string& path);

[[nodiscard]] bool is_folder(const std::string& path);
// Links followed. None: there is no regular file.
[[nodiscard]] std::optional<uint64_t> regular_file_size(const std::string& path);
// With those that it lies in. False if one is missing then.
[[nodiscard]] bool make_folders(const std::string& path);

}  // namespace mlc
