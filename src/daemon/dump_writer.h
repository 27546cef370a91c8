// Writes post-mortems: sessions of their own, from chunks of the flight recorder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "daemon/flight_recorder.h"
#include "session/metadata.h"

namespace smeltr::daemon {

// A post-mortem that is complete on disk.
struct WrittenDump {
  std::string source_session;
  std::string session_id;
  std::filesystem::path directory;
  std::string reason;  // The first trigger, in words.
  uint64_t event_count = 0;
  uint64_t begin_ns = 0;  // The time it covers.
  uint64_t end_ns = 0;
  uint32_t trigger_count = 0;
  uint64_t file_bytes = 0;
};

struct DumpJob {
  std::string label;           // In the directory's name.
  session::Metadata metadata;  // Complete but for what the events tell.
  std::vector<RecordedChunk> chunks;
  std::string reason;
};

// The metadata of a post-mortem about the session of `source`: what ran where and how it ended.
session::Metadata MetadataAbout(const session::Metadata& source);

// Directory, events and metadata; fsync of all. Nothing is left behind when it fails.
Result<WrittenDump> WriteDump(const std::filesystem::path& sessions_directory, const DumpJob& job);

// Writes one after the other on a thread of its own, started when there is something to do. All functions on
// one thread.
class DumpThread {
 public:
  struct Finished {
    uint64_t number = 0;  // As Write() gave it.
    Result<WrittenDump> dump;
  };

  explicit DumpThread(std::filesystem::path sessions_directory);
  DumpThread(const DumpThread&) = delete;
  DumpThread& operator=(const DumpThread&) = delete;
  // Waits for what is being written.
  ~DumpThread();

  uint64_t Write(DumpJob job);
  // Puts the triggers into the metadata of a dump that was written.
  void UpdateTriggers(std::filesystem::path directory, std::vector<session::TriggerNote> triggers,
                      uint64_t trigger_count);
  std::vector<Finished> TakeFinished();
  // Until everything is done, at most until `deadline_ns`; false for the latter. What is still being written
  // then is finished if the process lives long enough.
  bool WaitUntil(uint64_t deadline_ns);
  bool busy() const;

 private:
  struct State;
  void Push(std::function<void(State&)> work);

  std::shared_ptr<State> state_;  // Shared with the thread, which may be left alone with it.
  uint64_t next_number_ = 1;
};

}  // namespace smeltr::daemon
