// A ring of this process with both its ends, on one mapping, in a directory of its own.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "fake/frame_bytes.h"
#include "ring/reader.h"
#include "ring/writer.h"

namespace smeltr::fake {

// Gone, with everything in it, at the end of its life.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "smeltr-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~ScratchDirectory() { std::filesystem::remove_all(path_); }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::string& path() const { return path_; }
  // The rings in it, by name.
  std::vector<std::string> Rings() const {
    std::vector<std::string> rings;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      if (entry.path().extension() == ".ring") rings.push_back(entry.path().string());
    }
    std::ranges::sort(rings);
    return rings;
  }

 private:
  std::string path_;
};

// A copy that outlives the drain: who, and what as bytes.
struct DrainedEvent {
  event::Envelope envelope;
  event::Kind kind;
  std::vector<std::byte> frame;
  uint64_t number = 0;  // CbScheduled::cb_id: the tests' counter.
};

inline DrainedEvent Copy(const event::Event& event) {
  DrainedEvent copy{event.envelope, event::KindOf(event.payload), FrameBytes(event.payload)};
  if (const auto* fields = std::get_if<event::CbScheduled>(&event.payload)) {
    copy.number = event::Raw(fields->cb_id);
  }
  return copy;
}

class RingPair {
 public:
  // Some blocks are kept for fatal frames; `usable_blocks` come on top.
  explicit RingPair(uint32_t usable_blocks = 32)
      : segment_(ring::Segment::Create(directory_.path().c_str(),
                                       {.block_count = usable_blocks + ring::kFatalBlockCount})
                     .value()),
        header_(&segment_.header()),
        reader_(std::move(segment_)) {
    static uint32_t generation = 0;
    writer_.Attach(header_, ++generation);
  }

  ring::Writer& writer() { return writer_; }
  ring::Reader& reader() { return reader_; }
  ring::RingHeader& header() { return *header_; }
  ring::BlockHeader& block(uint32_t index) {
    return reinterpret_cast<ring::BlockHeader*>(header_ + 1)[index];
  }
  std::byte* data(uint32_t index) {
    return reinterpret_cast<std::byte*>(header_) + header_->blocks_offset +
           uint64_t{index} * ring::kBlockBytes;
  }
  std::string path() const { return directory_.Rings().at(0); }

  // Another reader of the same ring, as a new daemon would have it.
  ring::Reader NewReader() const { return ring::Reader(ring::Segment::Map(path().c_str()).value()); }

  bool WriteNumber(uint64_t number) {
    return writer_.Write(event::Api::kVulkan,
                         event::CbScheduled{.cb_id = event::CbId{number}, .queue_id = {}});
  }
  // Until the ring is full; how many got in.
  uint64_t Fill() {
    uint64_t count = 0;
    while (WriteNumber(count)) ++count;
    return count;
  }
  std::vector<DrainedEvent> Drain(uint64_t max_events = UINT64_MAX) {
    std::vector<DrainedEvent> events;
    last_ = reader_.Drain(max_events, [&](const event::Event& event) { events.push_back(Copy(event)); });
    EXPECT_EQ(last_.event_count, events.size());
    return events;
  }
  const ring::DrainResult& last() const { return last_; }

 private:
  ScratchDirectory directory_;
  ring::Segment segment_;
  ring::RingHeader* header_;
  ring::Writer writer_;
  ring::Reader reader_;
  ring::DrainResult last_;
};

inline std::vector<uint64_t> Numbers(const std::vector<DrainedEvent>& events) {
  std::vector<uint64_t> numbers;
  for (const DrainedEvent& event : events) numbers.push_back(event.number);
  return numbers;
}

}  // namespace smeltr::fake
