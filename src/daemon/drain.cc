#include "daemon/drain.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "daemon/ring_base.h"
#include "util/log.h"

namespace smeltr::daemon {
namespace {

constexpr uint64_t kSettledNs = 100'000'000;

}  // namespace

// One system call instead of a listing, for the many times a second that nothing is new.
bool RingDirectory::ChangedSinceScan() {
  struct stat status{};
  if (::stat(directory_.c_str(), &status) != 0) return false;
  const uint64_t change_ns = static_cast<uint64_t>(status.st_mtim.tv_sec) * kNsPerSecond +
                             static_cast<uint64_t>(status.st_mtim.tv_nsec);
  if (change_ns == scanned_change_ns_) return false;
  // Two changes within a tick of the file system's clock look like one: only an old time is settled.
  scanned_change_ns_ = WallNowNs() > change_ns + kSettledNs ? change_ns : 0;
  return true;
}

std::vector<ring::ProcessIdentity> RingDirectory::Discover() {
  std::vector<ring::ProcessIdentity> fresh;
  if (!ChangedSinceScan()) return fresh;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory_, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().native();
    if (const auto failure = ring::ParseFailureFileName(name); failure.has_value()) {
      // Gone at once: neither this daemon nor the next tells it twice.
      if (::unlink(entry->path().c_str()) == 0) failures_.push_back(*failure);
      continue;
    }
    if (!rings_.contains(name) && !refused_.contains(name)) OpenRing(name, fresh);
  }
  return fresh;
}

void RingDirectory::OpenRing(const std::string& name, std::vector<ring::ProcessIdentity>& fresh) {
  if (!ring::ParseRingFileName(name).has_value()) return;  // Still under its temporary name.
  auto segment = ring::Segment::Map((directory_ / name).c_str());
  if (!segment.has_value()) {
    Log(LogLevel::kWarning, fmt::format("not a usable ring: {}: {}", name, segment.error().text()));
    refused_.insert(name);
    return;
  }
  const auto ring = rings_.try_emplace(name, Ring{ring::Reader(std::move(*segment))}).first;
  const ring::ProcessIdentity process = ring->second.reader.process();
  const auto [seen, is_new] = seen_.try_emplace({process.pid, process.start_time_ticks});
  seen->second = std::max(seen->second, ring->second.reader.created_ns());
  if (is_new) fresh.push_back(process);
}

DrainStats RingDirectory::Drain(uint64_t max_events, const Sink& sink) {
  DrainStats stats;
  for (auto& [name, ring] : rings_) {
    const ring::DrainResult result = ring.reader.Drain(max_events, [&](const event::Event& event) {
      if (event.envelope.api != event::Api::kNone) ring.api = event.envelope.api;
      if (std::holds_alternative<event::CbCommitted>(event.payload)) ++ring.in_flight;
      if (std::holds_alternative<event::CbCompleted>(event.payload)) --ring.in_flight;
      sink(event);
    });
    stats.event_count += result.event_count;
    stats.corrupt_frames += result.corrupt_frames;
    stats.more |= result.more;
    ring.dry = ring.owner_dead && result.event_count == 0 && !result.more;
  }
  return stats;
}

void RingDirectory::ReportDrops(const DropSink& sink) {
  for (auto& [name, ring] : rings_) {
    RingDrops drops{ring.reader.process(), ring.api, ring.reader.TakeDropped()};
    if (!drops.counts.empty()) sink(drops);
  }
}

// A process lives on after an exec, but the program that wrote to the ring does not. That it did not merely
// close what it does not know, the lock with it, a newer ring tells.
bool RingDirectory::OwnerDead(const Ring& ring) const {
  if (!ring.reader.owner_alive()) return true;
  const ring::ProcessIdentity process = ring.reader.process();
  const auto seen = seen_.find({process.pid, process.start_time_ticks});
  return seen != seen_.end() && ring.reader.created_ns() < seen->second && !ring.reader.life_locked();
}

void RingDirectory::RemoveFinished(const DropSink& sink) {
  for (auto ring = rings_.begin(); ring != rings_.end();) {
    Ring& state = ring->second;
    // Death first, emptiness second: the other way round the last events could slip in between.
    if (!state.owner_dead) state.owner_dead = OwnerDead(state);
    if (!state.owner_dead || !(state.reader.empty() || state.dry)) {
      ++ring;
      continue;
    }
    RingDrops drops{state.reader.process(), state.api, state.reader.TakeDropped()};
    if (!drops.counts.empty()) sink(drops);
    ended_.push_back({.process = state.reader.process(),
                      .said_goodbye = state.reader.closed(),
                      .work_in_flight = state.in_flight > 0});
    ::unlink((directory_ / ring->first).c_str());
    ring = rings_.erase(ring);
  }
}

size_t RingDirectory::live_count() const {
  size_t count = 0;
  for (const auto& [name, ring] : rings_) count += ring.owner_dead ? 0 : 1;
  return count;
}

bool RingDirectory::HasRing(const ring::ProcessIdentity& process) const {
  return std::ranges::any_of(rings_,
                             [&](const auto& entry) { return entry.second.reader.process() == process; });
}

void RingDirectory::RemoveAll() {
  rings_.clear();
  if (directory_.empty()) return;
  // "base/../name" is not a child of "base".
  const std::filesystem::path base = directory_.parent_path();
  const Result<void> removed = base.filename() == ".."
                                   ? Fail(ErrorCode::kInvalidArgument, "not a ring directory's path")
                                   : RemoveRingDirectory(base, directory_.filename().native());
  if (!removed.has_value()) {
    Log(LogLevel::kWarning, fmt::format("left {} as it is: {}", directory_.native(), removed.error().text()));
  }
}

}  // namespace smeltr::daemon
