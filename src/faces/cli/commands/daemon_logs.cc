// `smeltr daemon logs`: the end of $SMELTR_HOME/smeltrd.log.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "base/fd.h"
#include "faces/cli/commands/daemon.h"
#include "faces/cli/console.h"
#include "util/file.h"
#include "util/format.h"

namespace smeltr::faces::cli {
namespace {

constexpr long kLookNs = 200'000'000;
// Of the file's end, for the last lines.
constexpr off_t kMaxTailBytes = 4 << 20;

// Lines as they are, each of them safe to print.
std::string Safe(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    safe += Printable(text.substr(0, end));
    if (end < text.size()) safe += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return safe;
}

std::string ReadRest(int fd) {
  std::string text;
  std::array<char, 65536> buffer{};
  while (true) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count > 0) text.append(buffer.data(), static_cast<size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR)) return text;
  }
}

// The last `lines` of `text`.
std::string_view LastLines(std::string_view text, uint64_t lines) {
  size_t start = text.size();
  if (start > 0 && text.back() == '\n') --start;
  for (uint64_t i = 0; i < lines; ++i) {
    const size_t newline = start == 0 ? std::string_view::npos : text.rfind('\n', start - 1);
    if (newline == std::string_view::npos) return text;
    start = newline;
  }
  return text.substr(std::min(start + 1, text.size()));
}

class DaemonLogs final : public Command {
 public:
  CLI::App* AddTo(CLI::App& daemon) override {
    CLI::App* const app = daemon.add_subcommand("logs", "Show what smeltrd says");
    app->add_option("-n,--lines", lines_, "The last so many lines")->type_name("N");
    app->add_flag("-f,--follow", follow_, "And what is added from now on");
    app->footer("Example:\n  smeltr daemon logs -f -n 20");
    return app;
  }

  Result<int> Run(Console& console) override {
    ::signal(SIGPIPE, SIG_IGN);
    SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
    SMELTR_ASSIGN_OR_RETURN(Fd log, OpenRegularFile(paths.log));
    struct stat status{};
    if (::fstat(log.get(), &status) != 0) return std::unexpected(SystemError("read", paths.log, errno));
    ::lseek(log.get(), std::max<off_t>(0, status.st_size - kMaxTailBytes), SEEK_SET);
    const std::string text = ReadRest(log.get());
    std::string pending(LastLines(text, lines_));
    while (true) {
      const Console::Delivery delivery = console.Deliver(Safe(pending));
      if (delivery == Console::Delivery::kReaderLeft) return kExitOk;
      if (delivery == Console::Delivery::kFailed) return kExitFailed;
      if (!follow_) return kExitOk;
      const timespec pause{0, kLookNs};
      ::nanosleep(&pause, nullptr);
      pending = ReadRest(log.get());
      Reopen(paths, log);
    }
  }

 private:
  // The next daemon may have put a full log aside and begun another; one that was cut short begins again.
  static void Reopen(const Paths& paths, Fd& log) {
    struct stat held{};
    struct stat there{};
    if (::fstat(log.get(), &held) != 0 || ::stat(paths.log.c_str(), &there) != 0) return;
    if (held.st_dev == there.st_dev && held.st_ino == there.st_ino) {
      if (::lseek(log.get(), 0, SEEK_CUR) > held.st_size) ::lseek(log.get(), 0, SEEK_SET);
      return;
    }
    if (auto next = OpenRegularFile(paths.log); next.has_value()) log = std::move(*next);
  }

  uint64_t lines_ = 50;
  bool follow_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeDaemonLogs() { return std::make_unique<DaemonLogs>(); }

}  // namespace smeltr::faces::cli
