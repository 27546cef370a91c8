#include "launch/inject.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace smeltr::launch {
namespace {

constexpr std::string_view kPrefix = "SMELTR_";

// Set by record alone, in every recording anew.
constexpr std::string_view kPlumbing[] = {"SMELTR_RING_DIR", "SMELTR_SCOPE_TOKEN", "SMELTR_AUTOLOAD",
                                          "SMELTR_HOOK_LIBRARY", "SMELTR_VULKAN_LAYER"};

std::string_view NameOf(std::string_view entry) { return entry.substr(0, entry.find('=')); }

class Editor {
 public:
  explicit Editor(std::vector<std::string> entries) : entries_(std::move(entries)) {}

  std::optional<std::string> Get(std::string_view name) const {
    for (const std::string& entry : entries_) {
      if (NameOf(entry) == name && entry.size() > name.size()) return entry.substr(name.size() + 1);
    }
    return std::nullopt;
  }
  void Remove(std::string_view name) {
    std::erase_if(entries_, [&](const std::string& entry) { return NameOf(entry) == name; });
  }
  void Set(std::string_view name, std::string_view value) {
    Remove(name);
    entries_.push_back(fmt::format("{}={}", name, value));
  }
  std::vector<std::string> Take() { return std::move(entries_); }

 private:
  std::vector<std::string> entries_;
};

// The entries of a colon-separated list that are not `unwanted`.
std::string ListWithout(std::string_view list, std::string_view unwanted) {
  std::string kept;
  while (true) {
    const size_t end = std::min(list.find(':'), list.size());
    const std::string_view entry = list.substr(0, end);
    if (!entry.empty() && entry != unwanted) kept += fmt::format("{}{}", kept.empty() ? "" : ":", entry);
    if (end == list.size()) return kept;
    list.remove_prefix(end + 1);
  }
}

void EnableVulkanLayer(Editor& environment, const HookFiles& hook) {
  environment.Set("SMELTR_VULKAN_LAYER", "1");
  // Unset means these defaults; our directory alone would hide the drivers.
  std::string data_dirs = environment.Get("XDG_DATA_DIRS").value_or("");
  data_dirs = ListWithout(data_dirs, hook.directory.native());
  if (data_dirs.empty()) data_dirs = "/usr/local/share:/usr/share";
  environment.Set("XDG_DATA_DIRS", fmt::format("{}:{}", hook.directory.native(), data_dirs));
  // A loader that sees this variable searches nowhere else for implicit layers.
  if (const auto search = environment.Get("VK_IMPLICIT_LAYER_PATH"); search && !search->empty()) {
    const std::string others = ListWithout(*search, hook.layer_directory.native());
    environment.Set("VK_IMPLICIT_LAYER_PATH",
                    fmt::format("{}{}{}", others, others.empty() ? "" : ":", hook.layer_directory.native()));
  }
  // ggml names its pipelines and regions only when asked.
  if (!environment.Get("GGML_VK_DEBUG_MARKERS")) environment.Set("GGML_VK_DEBUG_MARKERS", "1");
}

}  // namespace

std::vector<std::string> UnrecordedEnvironment(const std::vector<std::string>& inherited) {
  Editor environment(inherited);
  for (const std::string_view name : kPlumbing) environment.Remove(name);
  return environment.Take();
}

std::vector<std::string> ChildEnvironment(const std::vector<std::string>& inherited,
                                          const Injection& injection) {
  Editor environment(UnrecordedEnvironment(inherited));
  environment.Set("SMELTR_HOME", injection.home);
  environment.Set("SMELTR_SOCKET", injection.socket);
  environment.Set("SMELTR_RING_DIR", injection.ring_directory);
  environment.Set("SMELTR_SCOPE_TOKEN", injection.scope_token);
  environment.Set("SMELTR_AUTOLOAD", "1");
  environment.Set("SMELTR_HOOK_LIBRARY", injection.hook.library.native());
  // A name is for one session: recordings made inside this one must not take it over.
  environment.Remove("SMELTR_SESSION_NAME");
  if (injection.gpu_hook) EnableVulkanLayer(environment, injection.hook);
  return environment.Take();
}

std::vector<std::string> UnknownVariables(const std::vector<std::string>& inherited) {
  std::vector<std::string> unknown;
  for (const std::string& entry : inherited) {
    const std::string_view name = NameOf(entry);
    if (name.starts_with(kPrefix) && !IsKnownEnvironmentVariable(name)) unknown.emplace_back(name);
  }
  std::ranges::sort(unknown);
  return unknown;
}

std::vector<std::string> InheritedEnvironment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

}  // namespace smeltr::launch
