#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/fd.h"
#include "launch/target.h"

namespace smeltr::launch {
namespace {

constexpr int kMaxInterpreters = 5;  // As many as the kernel follows.

enum class Usable { kYes, kNo, kMissing };

Usable CheckExecutable(const std::string& file) {
  struct stat status{};
  if (::stat(file.c_str(), &status) != 0) return errno == EACCES ? Usable::kNo : Usable::kMissing;
  if (!S_ISREG(status.st_mode) || ::faccessat(AT_FDCWD, file.c_str(), X_OK, AT_EACCESS) != 0) {
    return Usable::kNo;
  }
  return Usable::kYes;
}

// Up to `size` bytes at `offset`; fewer at the end of the file or on an error.
std::string ReadPart(const std::string& file, uint64_t offset, size_t size) {
  const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string part(size, '\0');
  const ssize_t count = fd.valid() ? ::pread(fd.get(), part.data(), size, static_cast<off_t>(offset)) : 0;
  part.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return part;
}

std::vector<std::string> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  while (true) {
    const size_t start = text.find_first_not_of(" \t");
    if (start == std::string_view::npos) return words;
    text.remove_prefix(start);
    const size_t end = std::min(text.find_first_of(" \t"), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

// The words after "#!", empty for anything that is no script.
std::vector<std::string> ScriptInterpreter(const std::string& file) {
  const std::string head = ReadPart(file, 0, 256);
  if (!head.starts_with("#!")) return {};
  const std::string_view line = std::string_view(head).substr(2, head.find('\n') - 2);
  return SplitWords(line.substr(0, line.find('\r')));
}

// What `env` would start given `words` (its own path first); nothing when it names no program.
std::optional<std::string> CommandOfEnv(const std::vector<std::string>& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    const bool assignment = words[i].find('=') != std::string::npos;
    if (!words[i].starts_with("-") && !assignment) return words[i];
  }
  return std::nullopt;
}

struct ElfFacts {
  uint8_t elf_class = 0;
  uint16_t machine = 0;
  std::string loader;  // PT_INTERP; empty for static programs.
};

template <typename Header, typename Segment>
std::string ReadLoader(const std::string& file, const std::string& head) {
  Header header{};
  if (head.size() < sizeof(header)) return {};
  std::memcpy(&header, head.data(), sizeof(header));
  if (header.e_phentsize != sizeof(Segment) || header.e_phnum > 256) return {};
  const std::string table = ReadPart(file, header.e_phoff, header.e_phnum * sizeof(Segment));
  for (size_t offset = 0; offset + sizeof(Segment) <= table.size(); offset += sizeof(Segment)) {
    Segment segment{};
    std::memcpy(&segment, table.data() + offset, sizeof(segment));
    if (segment.p_type != PT_INTERP) continue;
    const std::string loader =
        ReadPart(file, segment.p_offset, std::min<size_t>(static_cast<size_t>(segment.p_filesz), 256));
    return loader.c_str();  // Up to its terminating zero.
  }
  return {};
}

std::optional<ElfFacts> ReadElf(const std::string& file) {
  const std::string head = ReadPart(file, 0, sizeof(Elf64_Ehdr));
  if (head.size() < sizeof(Elf32_Ehdr) || !head.starts_with(ELFMAG)) return std::nullopt;
  ElfFacts facts;
  facts.elf_class = static_cast<uint8_t>(head[EI_CLASS]);
  std::memcpy(&facts.machine, head.data() + offsetof(Elf64_Ehdr, e_machine), sizeof(facts.machine));
  facts.loader = facts.elf_class == ELFCLASS64 ? ReadLoader<Elf64_Ehdr, Elf64_Phdr>(file, head)
                                               : ReadLoader<Elf32_Ehdr, Elf32_Phdr>(file, head);
  return facts;
}

}  // namespace

Result<std::string> FindExecutable(std::string_view command, std::string_view path) {
  const auto not_executable = [&](std::string_view file) {
    return Fail(ErrorCode::kPermission, fmt::format("{} is not executable", file));
  };
  if (command.find('/') != std::string_view::npos) {
    std::string file(command);
    switch (CheckExecutable(file)) {
      case Usable::kYes:
        return file;
      case Usable::kNo:
        return not_executable(file);
      case Usable::kMissing:
        return Fail(ErrorCode::kNotFound, fmt::format("{}: no such file", command));
    }
  }
  std::string refused;
  while (!command.empty()) {
    const size_t end = path.find(':');
    const std::string_view directory = path.substr(0, end);
    // An empty entry is the current directory.
    std::string file = fmt::format("{}/{}", directory.empty() ? "." : directory, command);
    const Usable usable = CheckExecutable(file);
    if (usable == Usable::kYes) return file;
    if (usable == Usable::kNo && refused.empty() && !std::filesystem::is_directory(file)) refused = file;
    if (end == std::string_view::npos) break;
    path.remove_prefix(end + 1);
  }
  if (!refused.empty()) return not_executable(refused);
  return Fail(ErrorCode::kNotFound,
              fmt::format("command not found: {} (neither a path nor in PATH)", command));
}

std::string FollowToBinary(const std::string& executable, std::string_view path) {
  std::string current = executable;
  for (int i = 0; i < kMaxInterpreters; ++i) {
    std::error_code error;
    if (auto real = std::filesystem::canonical(current, error); !error) current = real.native();
    const std::vector<std::string> words = ScriptInterpreter(current);
    if (words.empty()) return current;
    const bool is_env = std::filesystem::path(words[0]).filename() == "env";
    const auto next = is_env ? CommandOfEnv(words) : words[0];
    if (!next.has_value()) return words[0];
    current = FindExecutable(*next, path).value_or(*next);
  }
  return current;
}

HookVerdict JudgeBinary(const std::string& binary) {
  struct stat status{};
  if (::stat(binary.c_str(), &status) != 0) return {false, fmt::format("cannot inspect {}", binary)};
  // Secure execution: the loaders ignore the environment.
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != ::geteuid()) return {false, binary + " is setuid"};
  if ((status.st_mode & S_ISGID) != 0 && status.st_gid != ::getegid()) return {false, binary + " is setgid"};
  if (::getxattr(binary.c_str(), "security.capability", nullptr, 0) > 0 && ::geteuid() != 0) {
    return {false, binary + " has file capabilities"};
  }
  const auto own = ReadElf("/proc/self/exe");
  const auto elf = ReadElf(binary);
  if (!elf.has_value()) return {};  // Not readable, or of a kind we do not know: only a run can tell.
  if (own.has_value() && (elf->elf_class != own->elf_class || elf->machine != own->machine)) {
    return {false, binary + " is built for another machine type than the hook"};
  }
  if (elf->loader.empty()) return {false, binary + " is statically linked"};
  if (elf->loader.find("ld-musl") != std::string::npos) return {false, binary + " uses the musl C library"};
  return {};
}

}  // namespace smeltr::launch
