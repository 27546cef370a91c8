// Runs a piece of code in a forked process that is, or is not, being recorded: what the hook decides once
// a process is decided anew for each test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fake/ring_pair.h"

namespace smeltr::fake {

using EnvironmentVariables = std::vector<std::pair<std::string, std::string>>;

enum class Ending { kExit, kImmediately };  // exit() with its handlers, or _exit().

// True when `body` returned true in a child whose environment has `variables` on top.
inline bool InChild(const EnvironmentVariables& variables, const std::function<bool()>& body,
                    Ending ending = Ending::kImmediately) {
  const pid_t child = ::fork();
  if (child == -1) return false;
  if (child == 0) {
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    const int status = body() ? 0 : 1;
    if (ending == Ending::kExit) ::exit(status);
    ::_exit(status);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return false;
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Empties the ring at `path`: each event goes to `visit` while its texts are valid.
inline void ReadRing(const std::string& path, const std::function<void(const event::Event&)>& visit) {
  ring::Reader reader(ring::Segment::Map(path.c_str()).value());
  EXPECT_EQ(reader.Drain(UINT64_MAX, visit).corrupt_frames, 0U);
}

// Its events of type E, with `project` applied to each.
template <typename E, typename Project>
auto EventsOf(const std::string& path, Project project) {
  std::vector<decltype(project(std::declval<const E&>()))> found;
  ReadRing(path, [&](const event::Event& event) {
    if (const auto* fields = std::get_if<E>(&event.payload)) found.push_back(project(*fields));
  });
  return found;
}

}  // namespace smeltr::fake
