#include "packager/import/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace mlc::import {

Mapping::~Mapping() {
  if (!bytes.empty()) munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
}

Result<std::shared_ptr<Mapping>> map_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Status(Code::NotFound, 1003, path + ": " + std::strerror(errno));
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    close(fd);
    return Status(Code::NotFound, 1003, path + " is not a regular file");
  }
  auto mapping = std::make_shared<Mapping>();
  const auto size = static_cast<uint64_t>(st.st_size);
  void* p = size > 0 ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0) : nullptr;
  close(fd);
  if (p == MAP_FAILED) return Status(Code::Resource, path + " cannot be mapped");
  mapping->bytes = Bytes(static_cast<const std::byte*>(p), size);
  return mapping;
}

}  // namespace mlc::import
