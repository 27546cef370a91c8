#include "daemon/ambient.h"

#include <utility>

namespace smeltr::daemon {
namespace {

constexpr uint64_t kLongestNs = 24 * 3600 * kNsPerSecond;
constexpr uint64_t kLargestBytes = uint64_t{256} << 20;
constexpr uint64_t kRetryNs = 10 * kNsPerSecond;
// A few events a second: larger chunks take a tenth of the disk and of the writes. Incidents flush at once.
constexpr uint64_t kFlushNs = 5 * kNsPerSecond;
constexpr uint64_t kSyncNs = 60 * kNsPerSecond;

}  // namespace

void Ambient::Open(uint64_t now_ns) {
  if (now_ns < retry_ns_) return;
  session::Metadata metadata;
  metadata.kind = session::SessionKind::kAmbient;
  metadata.smeltr_version = SMELTR_VERSION;
  LogOptions options;
  options.flush_after_ns = kFlushNs;
  options.sync_after_ns = kSyncNs;
  auto log = SessionLog::Create(sessions_directory_, std::move(metadata), context_, options);
  if (!log.has_value()) {
    retry_ns_ = now_ns + kRetryNs;
    throttle_.Log(LogLevel::kError, "open", log.error().text(), now_ns);
    return;
  }
  log_.emplace(std::move(*log));
  opened_ns_ = now_ns;
}

void Ambient::Append(const event::Event& event) {
  if (log_.has_value()) log_->Append(event);
}

void Ambient::Poll(uint64_t now_ns) {
  if (log_.has_value() && (now_ns - opened_ns_ > kLongestNs || log_->file_bytes() > kLargestBytes)) {
    Close("rotated");
  }
  if (!log_.has_value()) Open(now_ns);
  if (log_.has_value()) log_->FlushIfDue(now_ns);
}

void Ambient::Close(std::string_view reason) {
  if (!log_.has_value()) return;
  log_->Close(reason);
  log_->SaveMetadata();
  log_.reset();
}

}  // namespace smeltr::daemon
