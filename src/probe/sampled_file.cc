#include "probe/sampled_file.h"

#include <errno.h>
#include <fcntl.h>

namespace smeltr::probe {
namespace {

std::optional<std::string_view> ReadFromStart(int fd, std::span<char> buffer) {
  size_t length = 0;
  while (length < buffer.size()) {
    const ssize_t got =
        ::pread(fd, buffer.data() + length, buffer.size() - length, static_cast<off_t>(length));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    length += static_cast<size_t>(got);
  }
  return std::string_view(buffer.data(), length);
}

}  // namespace

std::optional<std::string_view> ReadSmallFile(int directory_fd, const char* path, std::span<char> buffer) {
  const Fd fd(::openat(directory_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return std::nullopt;
  return ReadFromStart(fd.get(), buffer);
}

std::optional<std::string_view> ReadSmallFile(const std::string& path, std::span<char> buffer) {
  return ReadSmallFile(AT_FDCWD, path.c_str(), buffer);
}

std::optional<std::string_view> SampledFile::Read(std::span<char> buffer) {
  if (!fd_.valid()) fd_.Reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd_.valid()) return std::nullopt;
  const auto text = ReadFromStart(fd_.get(), buffer);
  if (!text.has_value()) {
    const int reason = errno;
    fd_.Reset();
    errno = reason;
  }
  return text;
}

}  // namespace smeltr::probe
