#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "crash/kernel_record.h"
#include "crash/scan.h"
#include "probe/kernel_log_events.h"
#include "probe/kernel_log_probe.h"
#include "probe/line_child.h"
#include "probe/sampled_file.h"

namespace smeltr::probe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDevice = "/dev/kmsg";
constexpr uint64_t kPeriodNs = 250'000'000;
constexpr uint64_t kContextNs = 60 * kNsPerSecond;
// The largest record has 8 KiB.
constexpr size_t kRecordBytes = size_t{16} << 10;
// A reading ends somewhere; the rest is for the next one. The whole log of a big machine fits.
constexpr size_t kMaxRecords = 200'000;
constexpr size_t kMaxJournalLines = 2'000;

constexpr std::string_view kRemedy =
    "the kernel log may not be read: `sudo sysctl kernel.dmesg_restrict=0`, or give smeltrd CAP_SYSLOG, or "
    "add "
    "yourself to the group systemd-journal or adm and log in again";

// The first pid namespace has a number of its own, the same everywhere.
bool InFirstPidNamespace() {
  std::error_code error;
  return fs::read_symlink("/proc/self/ns/pid", error) == "pid:[4026531836]";
}

uint32_t ProcessOfThread(uint32_t tid) {
  std::array<char, 1024> buffer;
  const auto status = ReadSmallFile(fmt::format("/proc/{}/status", tid), buffer);
  if (!status.has_value()) return 0;
  return crash::LeadingNumber<uint32_t>(crash::Trim(crash::After(*status, "\nTgid:"))).value_or(0);
}

// journalctl shows users without the right groups their own entries only, and says nothing about it.
bool SystemJournalReadable() {
  for (const char* root : {"/var/log/journal", "/run/log/journal"}) {
    std::error_code error;
    for (fs::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
      if (::access((entry->path() / "system.journal").c_str(), R_OK) == 0) return true;
    }
  }
  return false;
}

class KernelLogProbe : public Probe {
 public:
  explicit KernelLogProbe(Fd records)
      : records_(std::move(records)), events_(InFirstPidNamespace(), ProcessOfThread) {}

  std::string_view name() const override { return "kernel-log"; }
  uint64_t period_ns() const override { return kPeriodNs; }

  Status Sample(const Context& context, Sink& sink) override {
    const uint64_t now_ns = context.now_ns;
    if (!journal_.has_value() && !records_.valid()) Open();
    bool works = false;
    if (records_.valid()) {
      works = ReadRecords(now_ns, sink);
    } else if (journal_.has_value()) {
      works = ReadJournal(now_ns, sink);
    }
    if (!works) {
      records_.Reset();
      journal_.reset();
      return {Health::kFailed, failure_};
    }
    events_.Flush(now_ns, clock_, sink);
    last_reading_ns_ = now_ns;
    return {};
  }

  Status Check() override {
    const Fd device(::open(kDevice, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (device.valid() || (Journalctl() != nullptr && SystemJournalReadable())) return {};
    return {Health::kFailed, std::string(kRemedy)};
  }

 private:
  static const char* Journalctl() {
    for (const char* path : {"/usr/bin/journalctl", "/bin/journalctl"}) {
      if (::access(path, X_OK) == 0) return path;
    }
    return nullptr;
  }

  void Open() {
    backlog_ = true;
    last_sequence_.reset();
    records_.Reset(::open(kDevice, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (records_.valid()) return;
    failure_ = kRemedy;
    const char* journalctl = Journalctl();
    if (journalctl == nullptr || !SystemJournalReadable()) return;
    auto child =
        LineChild::Start({journalctl, "--dmesg", "--follow", "--since=-60s", "--output=json", "--quiet"});
    if (child.has_value()) {
      journal_.emplace(std::move(*child));
    } else {
      failure_ = child.error().text();
    }
  }

  // False when the device has failed.
  bool ReadRecords(uint64_t now_ns, Sink& sink) {
    for (size_t i = 0; i < kMaxRecords; ++i) {
      const ssize_t size = ::read(records_.get(), buffer_.data(), buffer_.size());
      if (size > 0) {
        AddRecord(std::string_view(buffer_.data(), static_cast<size_t>(size)), now_ns, sink);
        continue;
      }
      // Overwritten before it was read: the next record is the oldest that is left, and its number tells.
      if (size < 0 && (errno == EPIPE || errno == EINTR)) continue;
      if (size < 0 && errno == EAGAIN) {
        backlog_ = false;
        return true;
      }
      failure_ = errno == EPERM || errno == EACCES ? std::string(kRemedy)
                                                   : fmt::format("{} cannot be read any more", kDevice);
      return false;
    }
    return true;
  }

  void AddRecord(std::string_view text, uint64_t now_ns, Sink& sink) {
    const auto record = crash::ParseKmsgRecord(text);
    if (!record.has_value()) return;
    if (last_sequence_.has_value() && record->sequence > *last_sequence_ + 1) {
      events_.Gap(fmt::format("{} kernel records were overwritten before they could be read",
                              record->sequence - *last_sequence_ - 1),
                  clock_.ToSession(record->stamp_us), sink);
    }
    last_sequence_ = record->sequence;
    if (backlog_) {
      if (clock_.ToSession(record->stamp_us) + kContextNs < now_ns) return;
      // At least it is not from the future.
      clock_.Learn(record->stamp_us, 0, now_ns);
    } else {
      clock_.Learn(record->stamp_us, last_reading_ns_, now_ns);
    }
    events_.Add(*record, backlog_, clock_, sink);
  }

  // False when journalctl has ended. Its times are those of the session clock already.
  bool ReadJournal(uint64_t now_ns, Sink& sink) {
    std::vector<std::string> lines;
    const bool open = journal_->Read(kMaxJournalLines, lines);
    for (const std::string& line : lines) {
      auto record = crash::ParseJournalRecord(line);
      if (!record.has_value()) continue;
      if (record->stamp_us == 0) record->stamp_us = now_ns / 1000;
      if (KernelClock{}.ToSession(record->stamp_us) + 2 * kContextNs < now_ns) continue;
      events_.Add(*record, false, KernelClock{}, sink);
    }
    if (!open) failure_ = "journalctl has ended";
    return open;
  }

  Fd records_;
  std::optional<LineChild> journal_;
  std::string failure_;
  bool backlog_ = true;
  std::optional<uint64_t> last_sequence_;
  uint64_t last_reading_ns_ = 0;
  KernelClock clock_;
  KernelLogEvents events_;
  std::array<char, kRecordBytes> buffer_;
};

}  // namespace

std::unique_ptr<Probe> MakeKernelLogProbe() { return MakeKernelLogProbe(Fd()); }

std::unique_ptr<Probe> MakeKernelLogProbe(Fd records) {
  return std::make_unique<KernelLogProbe>(std::move(records));
}

}  // namespace smeltr::probe
