// When a file was last changed, as the system's struct has it.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace smeltr::probe {

uint64_t ChangedUnixNs(const struct stat& status);

}  // namespace smeltr::probe
