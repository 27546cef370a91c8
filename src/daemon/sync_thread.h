// Makes files safe from a crash of the machine, on a thread of its own: it takes as long as the disk likes.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "base/result.h"

namespace smeltr::daemon {

class SyncThread {
 public:
  using Task = std::function<Result<void>()>;
  SyncThread() = default;
  SyncThread(const SyncThread&) = delete;
  SyncThread& operator=(const SyncThread&) = delete;
  // Finishes the task under way; the others are dropped.
  ~SyncThread();

  // Left out when the disk is far behind already: the next task covers what this one would have.
  void Post(Task task);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool stopping_ = false;
  std::thread thread_;  // Started with the first task.
};

}  // namespace smeltr::daemon
