// Where everything lives, and every environment variable smeltr knows. One resolver for all programs, so
// that shells, services and recorded children agree.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace smeltr {

struct EnvironmentVariable {
  std::string_view name;
  std::string_view read_by;  // Which process looks at it.
  std::string_view meaning;
};

// The one table; `record` warns about SMELTR_ variables that are not in it.
std::span<const EnvironmentVariable> AllEnvironmentVariables();
bool IsKnownEnvironmentVariable(std::string_view name);

// The value of an environment variable; a blank one counts as unset.
std::optional<std::string> Environment(const char* name);

struct Paths {
  std::filesystem::path home;        // $SMELTR_HOME, else ~/.smeltr. Absolute.
  std::filesystem::path socket;      // $SMELTR_SOCKET, else home/run/smeltr.sock, else (too long) see below.
  bool own_socket_directory = true;  // False for $SMELTR_SOCKET: its directory may serve others too.
  std::filesystem::path lock;        // home/smeltrd.lock
  std::filesystem::path log;         // home/smeltrd.log
  std::filesystem::path run;         // home/run
  std::filesystem::path sessions;    // home/sessions
  std::filesystem::path lib;         // home/lib: unpacked hook libraries by content hash
};

// Looks at the environment and the file system but creates nothing. A default socket path that is too
// long for the system moves to a private directory named by a hash of home under $XDG_RUNTIME_DIR, else
// /tmp; an explicit SMELTR_SOCKET that is too long is an error.
Result<Paths> ResolvePaths();

// Where the ring directories of recordings go: candidates in order of preference, memory-backed ones first.
// A daemon looks for leftovers in all of them, since its environment may differ from its predecessor's.
std::vector<std::filesystem::path> RingBaseCandidates(const Paths& paths);
// The first candidate that can be made private and has room for some rings; else the last one.
Result<std::filesystem::path> MakeRingBase(const Paths& paths);

// 16 hex digits.
std::string HashText(std::string_view bytes);
std::string HashOf(std::span<const std::byte> bytes);

}  // namespace smeltr
