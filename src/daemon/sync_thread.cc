#include "daemon/sync_thread.h"

#include <string>
#include <utility>

#include "base/clock.h"
#include "util/log.h"

namespace smeltr::daemon {
namespace {

constexpr size_t kMaxWaiting = 256;

}  // namespace

SyncThread::~SyncThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void SyncThread::Post(Task task) {
  const std::lock_guard lock(mutex_);
  if (tasks_.size() >= kMaxWaiting) return;
  tasks_.push_back(std::move(task));
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  changed_.notify_one();
}

void SyncThread::Run() {
  LogThrottle throttle(60 * kNsPerSecond);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (stopping_) return;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    if (const Result<void> synced = task(); !synced.has_value()) {
      throttle.Log(LogLevel::kWarning, "sync", synced.error().text(), MonotonicNowNs());
    }
    lock.lock();
  }
}

}  // namespace smeltr::daemon
