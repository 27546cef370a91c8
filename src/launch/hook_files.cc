#include "launch/hook_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "util/file.h"
#include "util/paths.h"

extern "C" {
extern const std::byte smeltr_embedded_hook_library_begin[];
extern const std::byte smeltr_embedded_hook_library_end[];
extern const std::byte smeltr_embedded_layer_manifest_begin[];
extern const std::byte smeltr_embedded_layer_manifest_end[];
}

namespace smeltr::launch {
namespace {

// Ours, a plain file, as long as it should be. Files appear by rename, so the length is all that an
// interrupted machine could have left wrong.
bool IsInPlace(const std::filesystem::path& path, size_t size) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid() &&
         (status.st_mode & 022) == 0 && static_cast<size_t>(status.st_size) == size;
}

Result<void> PutInPlace(const std::filesystem::path& path, std::span<const std::byte> bytes, mode_t mode) {
  if (IsInPlace(path, bytes.size())) return {};
  return WriteFileAtomically(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, mode,
                             FileSync::kDisk);
}

}  // namespace

HookImages EmbeddedHook() {
  return {{smeltr_embedded_hook_library_begin, smeltr_embedded_hook_library_end},
          {smeltr_embedded_layer_manifest_begin, smeltr_embedded_layer_manifest_end}};
}

Result<HookFiles> UnpackHook(const std::filesystem::path& lib_directory, const HookImages& images) {
  HookFiles files;
  const std::string hashes = HashOf(images.library) + HashOf(images.layer_manifest);
  files.directory = lib_directory / HashText(hashes);
  files.library = files.directory / "libsmeltr_hook.so";
  files.layer_directory = files.directory / "vulkan" / "implicit_layer.d";
  // Each level by itself: every one must be ours and private.
  for (const auto& directory :
       {lib_directory, files.directory, files.directory / "vulkan", files.layer_directory}) {
    SMELTR_TRY(MakePrivateDirectory(directory));
  }
  SMELTR_TRY(PutInPlace(files.library, images.library, 0755));
  SMELTR_TRY(PutInPlace(files.layer_directory / "smeltr.json", images.layer_manifest, 0644));
  return files;
}

}  // namespace smeltr::launch
