#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "daemon/crash_modules.h"

namespace smeltr::daemon {
namespace {

struct Collection {
  std::span<CrashModule> modules;
  size_t count = 0;
};

int Add(dl_phdr_info* info, size_t /*bytes*/, void* context) {
  auto& collection = *static_cast<Collection*>(context);
  if (collection.count == collection.modules.size()) return 1;
  CrashModule module{.base = info->dlpi_addr, .end = info->dlpi_addr, .path = {}};
  for (const ElfW(Phdr) & segment : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
    if (segment.p_type != PT_LOAD) continue;
    module.end = std::max<uintptr_t>(module.end, info->dlpi_addr + segment.p_vaddr + segment.p_memsz);
  }
  const std::string_view name = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  if (name.empty() && collection.count == 0) {
    // The program itself.
    static_cast<void>(::readlink("/proc/self/exe", module.path.data(), module.path.size() - 1));
  } else {
    std::memcpy(module.path.data(), name.data(), std::min(name.size(), module.path.size() - 1));
  }
  collection.modules[collection.count++] = module;
  return 0;
}

}  // namespace

size_t CollectModules(std::span<CrashModule> modules) {
  Collection collection{.modules = modules};
  ::dl_iterate_phdr(Add, &collection);
  return collection.count;
}

}  // namespace smeltr::daemon
