// Crash reports, whoever writes them: watches directories, reads what appears, and emits each incident once.
// The same on every system; which directories there are is not.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "crash/core_files.h"
#include "probe/probe.h"
#include "probe/report_directory.h"

namespace smeltr::probe {

enum class ReportKind : uint8_t {
  kApple,    // *.ips
  kSystemd,  // systemd-coredump's files
  kApport,   // *.crash
  kAbrt,     // ccpp-* directories
  kCore,     // What the kernel writes after core_pattern.
};

struct ReportSource {
  std::filesystem::path directory;
  ReportKind kind = ReportKind::kApple;
  crash::CorePattern pattern;  // kCore
  bool core_uses_pid = false;  // kCore
};

// The last incidents told of.
class IncidentMemory {
 public:
  // False when it is known already.
  bool Remember(const std::string& incident);

 private:
  static constexpr size_t kMax = 512;
  std::deque<std::string> order_;
  std::set<std::string, std::less<>> known_;
};

class CrashReports {
 public:
  // An extended attribute of a file as text, empty when there is none.
  using Attribute = std::function<std::string(const std::filesystem::path& file, const char* name)>;
  // Reports older than `not_before_unix_ns` are passed over.
  CrashReports(uint64_t not_before_unix_ns, Attribute attribute);

  // Sources that were there before keep what is known of them.
  void SetSources(const std::vector<ReportSource>& sources);
  void Scan(uint64_t now_ns, uint64_t wall_now_ns, Sink& sink);

 private:
  struct Watched {
    ReportSource source;
    ReportDirectory directory;
  };

  bool ReadReport(const ReportSource& source, const std::filesystem::path& file);
  bool ReadApple(const std::filesystem::path& file);
  bool ReadSystemd(const std::filesystem::path& file);
  bool ReadApport(const std::filesystem::path& file);
  bool ReadAbrt(const std::filesystem::path& directory);
  bool ReadCore(const ReportSource& source, const std::filesystem::path& file);
  // What all the readers of one process's crash know.
  struct Crash {
    std::string incident;
    uint32_t pid = 0;
    std::string process_name;
    std::string signal;
    std::string summary;
    uint64_t unix_ns = 0;
    std::vector<int64_t> codes;
    std::vector<std::string> frames;
  };
  void Emit(const std::filesystem::path& path, const Crash& crash);

  uint64_t not_before_unix_ns_;
  Attribute attribute_;
  std::vector<std::unique_ptr<Watched>> watched_;
  IncidentMemory incidents_;
  Sink* sink_ = nullptr;  // During Scan().
  uint64_t now_ns_ = 0;
};

}  // namespace smeltr::probe
