// The rings of one recording: found in its ring directory, drained fairly, removed after their owners.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "event/event.h"
#include "ring/failure.h"
#include "ring/reader.h"

namespace smeltr::daemon {

struct DrainStats {
  uint64_t event_count = 0;
  uint64_t corrupt_frames = 0;
  bool more = false;  // The limit ended the pass; there is more at once.
};

// What a ring lost since it was last asked, with the GPU interface its process uses.
struct RingDrops {
  ring::ProcessIdentity process;
  event::Api api = event::Api::kNone;
  std::vector<ring::DroppedCount> counts;  // Not empty.
};

// A ring whose process is gone, drained.
struct RingEnd {
  ring::ProcessIdentity process;
  bool said_goodbye = false;
  bool work_in_flight = false;  // Command buffers were committed and not told to be complete.
};

class RingDirectory {
 public:
  using Sink = std::function<void(const event::Event&)>;
  using DropSink = std::function<void(const RingDrops&)>;

  explicit RingDirectory(std::filesystem::path directory) : directory_(std::move(directory)) {}

  // Opens rings that appeared and returns the processes not seen before. A file that is no valid ring is
  // logged once and left alone.
  std::vector<ring::ProcessIdentity> Discover();
  // Those that could have no ring, found by Discover() since the last call.
  std::vector<ring::Failure> TakeFailures() { return std::exchange(failures_, {}); }

  // One fair pass: up to `max_events` from each ring in turn.
  DrainStats Drain(uint64_t max_events, const Sink& sink);

  void ReportDrops(const DropSink& sink);

  // Closes and deletes the rings whose process is dead, or has become another program by exec, and which have
  // nothing left to drain, after reporting their drops.
  void RemoveFinished(const DropSink& sink);
  // Those that RemoveFinished() has removed since the last call.
  std::vector<RingEnd> TakeEnded() { return std::exchange(ended_, {}); }

  // Deletes the directory and whatever is in it. Open rings are closed, drained or not.
  void RemoveAll();

  size_t open_count() const { return rings_.size(); }
  // Whether a ring of the process is open.
  bool HasRing(const ring::ProcessIdentity& process) const;
  size_t process_count() const { return seen_.size(); }
  // Rings whose process still runs, as RemoveFinished() last found.
  size_t live_count() const;
  const std::filesystem::path& path() const { return directory_; }

 private:
  struct Ring {
    ring::Reader reader;
    event::Api api = event::Api::kNone;
    bool owner_dead = false;
    int64_t in_flight = 0;
    bool dry = false;  // A pass after the owner's death found nothing, whatever the ring claims.
  };
  bool ChangedSinceScan();
  bool OwnerDead(const Ring& ring) const;
  void OpenRing(const std::string& name, std::vector<ring::ProcessIdentity>& fresh);

  std::filesystem::path directory_;
  uint64_t scanned_change_ns_ = 0;     // The directory's time of change before the last scan; 0 = scan again.
  std::map<std::string, Ring> rings_;  // By file name.
  // Processes, each with when it made its newest ring.
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> seen_;
  std::vector<ring::Failure> failures_;
  std::set<std::string> refused_;
  std::vector<RingEnd> ended_;
};

}  // namespace smeltr::daemon
