#include "util/paths.h"

#include <fmt/format.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "util/file.h"

namespace smeltr {
namespace {

namespace fs = std::filesystem;

constexpr EnvironmentVariable kVariables[] = {
    {"SMELTR_HOME", "all", "root of everything smeltr keeps (default ~/.smeltr)"},
    {"SMELTR_SOCKET", "record, smeltrd", "socket of the daemon (default $SMELTR_HOME/run/smeltr.sock)"},
    {"SMELTR_LOG", "smeltrd", "lowest level to log: debug, info, warn, error, off"},
    {"SMELTR_FOOTPRINT_PERIOD_MS", "smeltrd",
     "ms between looks at a recorded process's memory (default 2000)"},
    {"SMELTR_SESSION_NAME", "record", "name of the session when --name is not given"},
    {"SMELTR_RING_DIR", "recorded program", "set by record: where its ring goes"},
    {"SMELTR_SCOPE_TOKEN", "recorded program", "set by record: which recording it belongs to"},
    {"SMELTR_AUTOLOAD", "recorded program", "set by record: 1 = load what records it"},
    {"SMELTR_HOOK_LIBRARY", "recorded program", "set by record: the library behind smeltr.h"},
    {"SMELTR_VULKAN_LAYER", "recorded program", "set by record: 1 = enable the Vulkan layer"},
    {"SMELTR_VULKAN_LAYER_DISABLE", "recorded program", "present = never enable the Vulkan layer"},
    {"SMELTR_HOOK_DISABLE", "recorded program", "1 = the hook does nothing at all"},
    {"SMELTR_HOOK_NO_OPS", "recorded program", "1 = no per-op capture, command buffers only"},
    {"SMELTR_HOOK_DISPATCH_BOUNDARY", "recorded program", "1 = a timestamp after every op (costly)"},
    {"SMELTR_TEST_CRASH", "smeltrd", "for tests: segv, abort or throw, a colon, after how many ms"},
    {"SMELTR_DIAGNOSTIC_REPORTS_DIR", "smeltrd",
     "where .ips crash reports appear, instead of macOS's folders"},
    {"SMELTR_BIN_DIR", "tests", "where the programs under test are"},
};

// sun_path holds the terminating zero too.
constexpr size_t kSocketPathLimit = sizeof(sockaddr_un::sun_path) - 1;

// Two rings of the usual size. A container's /dev/shm may be smaller.
constexpr uintmax_t kRingRoomBytes = 48U << 20;

// f_type of tmpfs and ramfs, from linux/magic.h.
constexpr uint32_t kTmpfs = 0x01021994;
constexpr uint32_t kRamfs = 0x858458F6;

bool IsMemoryBacked(const fs::path& path) {
  struct statfs status{};
  if (::statfs(path.c_str(), &status) != 0) return false;
  const auto type = static_cast<uint32_t>(status.f_type);
  return type == kTmpfs || type == kRamfs;
}

Result<fs::path> ResolveHome() {
  std::error_code error;
  if (const auto home = Environment("SMELTR_HOME")) return fs::absolute(*home, error).lexically_normal();
  if (const auto user_home = Environment("HOME")) return fs::absolute(*user_home, error) / ".smeltr";
  if (const passwd* entry = ::getpwuid(::geteuid()); entry != nullptr && entry->pw_dir != nullptr) {
    return fs::path(entry->pw_dir) / ".smeltr";
  }
  return Fail(ErrorCode::kNotFound, "no home directory: set SMELTR_HOME to a directory you can write");
}

// Another directory for things of this home: private by its name and, once made, by its mode.
fs::path SideDirectory(const fs::path& base, const fs::path& home) {
  return base / fmt::format("smeltr-{}-{}", ::geteuid(), HashText(home.native()));
}

Result<fs::path> ResolveSocket(const fs::path& home) {
  if (const auto socket = Environment("SMELTR_SOCKET")) {
    std::error_code error;
    fs::path path = fs::absolute(*socket, error).lexically_normal();
    if (path.native().size() > kSocketPathLimit) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("path too long ({} > {}): set SMELTR_SOCKET to a shorter one than {}",
                              path.native().size(), kSocketPathLimit, path.native()));
    }
    return path;
  }
  fs::path path = home / "run" / "smeltr.sock";
  if (path.native().size() <= kSocketPathLimit) return path;
  path = SideDirectory(Environment("XDG_RUNTIME_DIR").value_or("/tmp"), home) / "smeltr.sock";
  if (path.native().size() <= kSocketPathLimit) return path;
  return SideDirectory("/tmp", home) / "smeltr.sock";
}

}  // namespace

std::span<const EnvironmentVariable> AllEnvironmentVariables() { return kVariables; }

bool IsKnownEnvironmentVariable(std::string_view name) {
  return std::ranges::any_of(kVariables, [&](const auto& variable) { return variable.name == name; });
}

std::optional<std::string> Environment(const char* name) {
  const char* value = ::getenv(name);
  if (value == nullptr) return std::nullopt;
  const std::string_view text = value;
  if (std::ranges::all_of(text, [](unsigned char c) { return std::isspace(c) != 0; })) return std::nullopt;
  return std::string(text);
}

Result<Paths> ResolvePaths() {
  Paths paths;
  SMELTR_ASSIGN_OR_RETURN(paths.home, ResolveHome());
  SMELTR_ASSIGN_OR_RETURN(paths.socket, ResolveSocket(paths.home));
  paths.own_socket_directory = !Environment("SMELTR_SOCKET").has_value();
  paths.lock = paths.home / "smeltrd.lock";
  paths.log = paths.home / "smeltrd.log";
  paths.run = paths.home / "run";
  paths.sessions = paths.home / "sessions";
  paths.lib = paths.home / "lib";
  return paths;
}

std::vector<fs::path> RingBaseCandidates(const Paths& paths) {
  std::vector<fs::path> candidates;
  if (const auto runtime = Environment("XDG_RUNTIME_DIR"); runtime && IsMemoryBacked(*runtime)) {
    candidates.push_back(SideDirectory(*runtime, paths.home));
  }
  if (IsMemoryBacked("/dev/shm")) candidates.push_back(SideDirectory("/dev/shm", paths.home));
  candidates.push_back(paths.run / "rings");
  return candidates;
}

Result<fs::path> MakeRingBase(const Paths& paths) {
  Result<fs::path> last = Fail(ErrorCode::kNotFound, "no directory for rings");
  for (fs::path& candidate : RingBaseCandidates(paths)) {
    if (const auto made = MakePrivateDirectory(candidate); !made.has_value()) {
      last = std::unexpected(made.error());
      continue;
    }
    std::error_code error;
    const fs::space_info space = fs::space(candidate, error);
    last = std::move(candidate);
    if (!error && space.available >= kRingRoomBytes) break;
  }
  return last;
}

std::string HashText(std::string_view bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

std::string HashOf(std::span<const std::byte> bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

}  // namespace smeltr
