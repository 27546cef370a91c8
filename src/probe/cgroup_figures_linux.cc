#include <unistd.h>

#include <algorithm>
#include <array>

#include "probe/cgroup.h"
#include "probe/proc_text.h"
#include "probe/sampled_file.h"

namespace smeltr::probe {
namespace {

// v1 says "no limit" with the largest multiple of a page.
constexpr uint64_t kNoLimit = uint64_t{1} << 62;

std::optional<std::string> ReadText(const std::string& path) {
  std::array<char, 4096> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read into.
  const auto text = ReadSmallFile(path, buffer);
  if (!text.has_value()) return std::nullopt;
  return std::string(*text);
}

// 0 for "max" and whatever else is no number.
uint64_t ReadNumber(const std::string& path) {
  std::array<char, 64> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read into.
  const auto text = ReadSmallFile(path, buffer);
  const uint64_t value = text.has_value() ? LeadingNumber(*text).value_or(0) : 0;
  return value >= kNoLimit ? 0 : value;
}

bool Exists(const std::string& path) { return ::access(path.c_str(), R_OK) == 0; }

// The path of a line "id:controllers:path", when `controller` (empty: the unified hierarchy) is in it.
std::optional<std::string_view> PathOf(std::string_view line, std::string_view controller) {
  const size_t first = line.find(':');
  const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  std::string_view controllers = line.substr(first + 1, second - first - 1);
  const std::string_view path = line.substr(second + 1);
  if (controller.empty()) return controllers.empty() ? std::optional(path) : std::nullopt;
  while (!controllers.empty()) {
    const size_t end = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, end) == controller) return path;
    controllers.remove_prefix(std::min(end + 1, controllers.size()));
  }
  return std::nullopt;
}

std::optional<std::string> FindPath(std::string_view text, std::string_view controller) {
  while (!text.empty()) {
    const auto path = PathOf(TakeLine(text), controller);
    // Nothing from there may lead out of the mount point.
    if (path.has_value() && path->starts_with('/') && path->find("/..") == std::string_view::npos) {
      return std::string(*path);
    }
  }
  return std::nullopt;
}

// In a container the path may be that of the host while the mount shows the container's group as its root.
std::optional<CgroupPlace> Place(const std::string& mount, const std::string& name, bool is_v2) {
  const std::string counter = is_v2 ? "/memory.current" : "/memory.usage_in_bytes";
  for (const std::string& directory : {mount + (name == "/" ? "" : name), mount}) {
    if (Exists(directory + counter)) {
      return CgroupPlace{.directory = directory, .mount = mount, .name = name, .is_v2 = is_v2};
    }
  }
  return std::nullopt;
}

uint64_t TightestLimit(const CgroupPlace& place, const char* file) {
  uint64_t tightest = 0;
  std::string directory = place.directory;
  while (directory.size() >= place.mount.size()) {
    const uint64_t limit = ReadNumber(directory + file);
    if (limit != 0) tightest = tightest == 0 ? limit : std::min(tightest, limit);
    if (directory.size() == place.mount.size()) break;
    directory.resize(directory.rfind('/'));
  }
  return tightest;
}

CgroupFigures ReadV2(const CgroupPlace& place) {
  const std::string& at = place.directory;
  CgroupFigures figures{.current_bytes = ReadNumber(at + "/memory.current"),
                        .limit_bytes = TightestLimit(place, "/memory.max"),
                        .peak_bytes = ReadNumber(at + "/memory.peak"),
                        .high_bytes = ReadNumber(at + "/memory.high"),
                        .swap_bytes = ReadNumber(at + "/memory.swap.current")};
  const std::string events = ReadText(at + "/memory.events").value_or("");
  figures.oom_count = FlatKeyed(events, "oom").value_or(0);
  figures.oom_kill_count = FlatKeyed(events, "oom_kill").value_or(0);
  figures.max_count = FlatKeyed(events, "max").value_or(0);
  return figures;
}

CgroupFigures ReadV1(const CgroupPlace& place) {
  const std::string& at = place.directory;
  CgroupFigures figures{.current_bytes = ReadNumber(at + "/memory.usage_in_bytes"),
                        .limit_bytes = TightestLimit(place, "/memory.limit_in_bytes"),
                        .peak_bytes = ReadNumber(at + "/memory.max_usage_in_bytes"),
                        .high_bytes = ReadNumber(at + "/memory.soft_limit_in_bytes")};
  const uint64_t with_swap_bytes = ReadNumber(at + "/memory.memsw.usage_in_bytes");
  figures.swap_bytes = with_swap_bytes - std::min(with_swap_bytes, figures.current_bytes);
  const std::string control = ReadText(at + "/memory.oom_control").value_or("");
  figures.oom_kill_count = FlatKeyed(control, "oom_kill").value_or(0);
  figures.max_count = ReadNumber(at + "/memory.failcnt");
  return figures;
}

}  // namespace

std::optional<CgroupPlace> FindCgroup(const Roots& roots, uint32_t pid) {
  const auto text = ReadText(roots.proc + "/" + std::to_string(pid) + "/cgroup");
  if (!text.has_value()) return std::nullopt;
  const std::string base = roots.sys + "/fs/cgroup";
  if (const auto path = FindPath(*text, "")) {
    for (const char* mount : {"", "/unified"}) {
      if (auto place = Place(base + mount, *path, true)) return place;
    }
  }
  if (const auto path = FindPath(*text, "memory")) return Place(base + "/memory", *path, false);
  return std::nullopt;
}

std::optional<CgroupFigures> ReadCgroup(const CgroupPlace& place) {
  if (!Exists(place.directory + (place.is_v2 ? "/memory.current" : "/memory.usage_in_bytes"))) {
    return std::nullopt;
  }
  return place.is_v2 ? ReadV2(place) : ReadV1(place);
}

}  // namespace smeltr::probe
