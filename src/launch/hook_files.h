// The hook library and its Vulkan layer manifest: carried inside the smeltr binary, unpacked where the
// loaders of recorded programs can find them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace smeltr::launch {

struct HookImages {
  std::span<const std::byte> library;
  std::span<const std::byte> layer_manifest;
};

// What this binary was built with; valid for ever.
HookImages EmbeddedHook();

struct HookFiles {
  std::filesystem::path directory;  // For XDG_DATA_DIRS: has vulkan/implicit_layer.d below it.
  std::filesystem::path library;    // libsmeltr_hook.so
  std::filesystem::path layer_directory;
};

// Makes `lib_directory`/<content hash>/ hold the images. Any number of processes may do it at once: files
// appear complete or not at all, and one that another user owns or that differs in size is replaced.
Result<HookFiles> UnpackHook(const std::filesystem::path& lib_directory, const HookImages& images);

}  // namespace smeltr::launch
