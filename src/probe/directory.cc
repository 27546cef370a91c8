#include "probe/directory.h"

#include <dirent.h>

#include <algorithm>
#include <memory>

namespace smeltr::probe {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
// No directory that a probe looks at has so many of a kind.
constexpr size_t kMaxNames = 65536;

}  // namespace

std::vector<std::string> ListNames(const std::string& directory, std::string_view prefix) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseDirectory> stream(::opendir(directory.c_str()));
  if (stream == nullptr) return names;
  while (const dirent* entry = ::readdir(stream.get())) {  // NOLINT(concurrency-mt-unsafe): own stream.
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && name.starts_with(prefix)) names.emplace_back(name);
    if (names.size() >= kMaxNames) break;
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace smeltr::probe
