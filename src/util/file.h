// Files as tools and daemon use them. Every error names the path and the system's reason.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace smeltr {

// An Error for a failed system call: "cannot <action> <path>: <reason>", with the code that `errno_value`
// stands for (ENOSPC and EDQUOT kNoSpace, EACCES, EPERM and EROFS kPermission, ENOENT kNotFound ...).
Error SystemError(std::string_view action, const std::filesystem::path& path, int errno_value);

// For reading; kCorrupt for anything that is no regular file, of which a FIFO would block and a device never
// end.
Result<Fd> OpenRegularFile(const std::filesystem::path& path);

// The whole file; kUnsupported when it is larger than `max_bytes`. Works for /proc too, whose files say
// size 0.
Result<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes = size_t{64} << 20);

enum class FileSync { kNone, kDisk };

// The file has either its old or its new content, whenever anybody looks and whatever is interrupted:
// temporary file beside it, then rename. kDisk also survives a power loss (fsync of file and directory).
Result<void> WriteFileAtomically(const std::filesystem::path& path, std::string_view content, mode_t mode,
                                 FileSync sync);

// Creates `path` and its missing parents with mode 0700. An existing last directory must belong to the
// user; if it is empty, access for others is taken away from it, else others must not be able to write to it.
// Symbolic links are refused for the last component, and so
// are directories shared by design like /tmp.
Result<void> MakePrivateDirectory(const std::filesystem::path& path);

}  // namespace smeltr
