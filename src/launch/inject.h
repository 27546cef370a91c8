// The environment that makes a child, and all it starts, recorded.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/hook_files.h"
#include "util/paths.h"

namespace smeltr::launch {

struct Injection {
  std::string home;
  std::string socket;
  std::string ring_directory;
  std::string scope_token;
  HookFiles hook;
  bool gpu_hook = true;  // False (--no-hook): scopes and marks only, no layer.
};

// `inherited` ("NAME=value" each) with what the injection needs: the user's own values of shared variables
// are kept behind ours, and those of an outer recording replaced.
std::vector<std::string> ChildEnvironment(const std::vector<std::string>& inherited,
                                          const Injection& injection);

// `inherited` without any trace of an outer recording: for a program that runs unrecorded.
std::vector<std::string> UnrecordedEnvironment(const std::vector<std::string>& inherited);

// SMELTR_ variables in `inherited` that nothing reads: misspelt, or of another version.
std::vector<std::string> UnknownVariables(const std::vector<std::string>& inherited);

// The environment of this process.
std::vector<std::string> InheritedEnvironment();

}  // namespace smeltr::launch
