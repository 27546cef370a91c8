// What an op runs: a pipeline's code, or a plain command. Interned: equal code and name share one Kernel,
// which lives until the process ends, so that ops may point to it whatever the program destroys.
#pragma once

#include <cstdint>
#include <string_view>

#include "event/event.h"

namespace smeltr::hook::vulkan {

struct Kernel {
  uint64_t hash = 0;              // Of the code; 0 = a plain command, named by `symbol`.
  std::string_view symbol;        // May be empty. Characters live as long as the Kernel.
  uint32_t local[3] = {0, 0, 0};  // Workgroup size; 0 = not known.
};

// The one Kernel of that hash, symbol and workgroup size. Any thread. Falls back to UnknownKernel() when the
// program makes more different ones than a program should, or memory is short.
const Kernel* InternKernel(uint64_t hash, std::string_view symbol, const uint32_t (&local)[3]);
const Kernel* UnknownKernel();

// The name an op has in a session: K_<8 hex digits>_<x>x<y>x<z>, or the command's own. `space` holds it.
inline constexpr size_t kOpNameBytes = 64;
std::string_view OpName(const Kernel& kernel, uint32_t x, uint32_t y, uint32_t z,
                        char (&space)[kOpNameBytes]);

void ResetKernelLockAfterFork();

}  // namespace smeltr::hook::vulkan
