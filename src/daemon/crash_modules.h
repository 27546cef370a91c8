// Where programs and libraries lie in this process, for symbolising addresses later.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace smeltr::daemon {

struct CrashModule {
  uintptr_t base = 0;  // What addresses in it are relative to.
  uintptr_t end = 0;
  std::array<char, 192> path{};
};

// Fills `modules` as far as they go; how many it took. Not for signal handlers: uses locks of the loader.
size_t CollectModules(std::span<CrashModule> modules);

}  // namespace smeltr::daemon
