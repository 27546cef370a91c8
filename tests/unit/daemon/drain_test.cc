#include "daemon/drain.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>

#include "fake/scratch.h"
#include "unit/daemon/rings.h"
#include "util/log.h"

namespace smeltr::daemon {
namespace {

class DrainTest : public fake::ScratchTest {
 protected:
  uint64_t DrainAll(RingDirectory& rings) {
    uint64_t count = 0;
    while (true) {
      const DrainStats stats = rings.Drain(1000, [&](const event::Event&) { ++count; });
      if (!stats.more && stats.event_count == 0) return count;
    }
  }
  const RingDirectory::DropSink no_drops_ = [](const RingDrops& drops) {
    ADD_FAILURE() << drops.counts.size();
  };
};

TEST_F(DrainTest, RingsAreFoundOnceAndDrainedFairly) {
  RingDirectory rings(scratch());
  EXPECT_TRUE(rings.Discover().empty());
  RingProcess one(scratch(), [](ring::Writer& writer) { WriteMarks(writer, 1000); });
  RingProcess two(scratch(), [](ring::Writer& writer) { WriteMarks(writer, 10); });
  EXPECT_EQ(rings.Discover().size(), 2U);
  EXPECT_TRUE(rings.Discover().empty());
  std::map<uint32_t, int> by_pid;
  const DrainStats stats = rings.Drain(100, [&](const event::Event& event) { ++by_pid[event.envelope.pid]; });
  // The busy one does not keep the other waiting.
  EXPECT_EQ(by_pid, (std::map<uint32_t, int>{{one.pid(), 100}, {two.pid(), 10}}));
  EXPECT_TRUE(stats.more);
  EXPECT_EQ(DrainAll(rings), 900U);
}

TEST_F(DrainTest, RingOfADeadProcessIsRemovedWhenDrained) {
  RingDirectory rings(scratch());
  RingProcess process(scratch(), [](ring::Writer& writer) { WriteMarks(writer, 5); });
  rings.Discover();
  rings.RemoveFinished(no_drops_);
  EXPECT_EQ(rings.live_count(), 1U);
  process.End();
  rings.RemoveFinished(no_drops_);
  EXPECT_EQ(rings.live_count(), 0U);
  EXPECT_EQ(rings.open_count(), 1U) << "removed with events in it";
  EXPECT_EQ(DrainAll(rings), 5U);
  rings.RemoveFinished(no_drops_);
  EXPECT_EQ(rings.open_count(), 0U);
  EXPECT_TRUE(std::filesystem::is_empty(scratch()));
  EXPECT_EQ(rings.process_count(), 1U);
}

// As a process does that replaces itself by exec: each of its programs has a ring, and only the last one
// lives.
TEST_F(DrainTest, RingsOfEarlierProgramsOfAProcessAreRemoved) {
  RingDirectory rings(scratch());
  RingProcess process(scratch(), [&](ring::Writer& writer) {
    WriteMarks(writer, 5);
    for (int i = 0; i < 3; ++i) static_cast<void>(ring::Segment::Create(scratch().c_str(), {16}));
    // The first one's lock goes as at an exec: with any descriptor of the file.
    for (const auto& entry : std::filesystem::directory_iterator(scratch())) {
      ::close(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    }
    ring::Writer last;
    auto segment = ring::Segment::Create(scratch().c_str(), {16});
    if (!segment.has_value()) ::_exit(1);
    last.Attach(&segment->header(), 2);
    WriteMarks(last, 2);
    static_cast<void>(segment->Leak());
  });
  EXPECT_EQ(rings.Discover().size(), 1U);
  ASSERT_EQ(rings.open_count(), 5U);
  rings.RemoveFinished(no_drops_);
  EXPECT_EQ(rings.open_count(), 2U) << "one has events in it, one is in use";
  EXPECT_EQ(DrainAll(rings), 7U);
  rings.RemoveFinished(no_drops_);
  EXPECT_EQ(rings.open_count(), 1U);
  EXPECT_EQ(rings.live_count(), 1U);
  rings.RemoveFinished(no_drops_);
  EXPECT_EQ(rings.open_count(), 1U) << "the newest stays, whatever became of its lock";
}

TEST_F(DrainTest, NotesOfProcessesWithoutARingAreTakenOnce) {
  RingDirectory rings(scratch());
  ring::LeaveFailure(scratch().c_str(), ErrorCode::kNoSpace);
  EXPECT_TRUE(rings.Discover().empty());
  const auto failures = rings.TakeFailures();
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures[0].process, ring::SelfIdentity());
  EXPECT_TRUE(rings.TakeFailures().empty());
  EXPECT_TRUE(std::filesystem::is_empty(scratch()));
  ring::LeaveFailure(scratch().c_str(), ErrorCode::kNoSpace);
  rings.Discover();
  EXPECT_EQ(rings.TakeFailures().size(), 1U) << "another program of the same process";
}

TEST_F(DrainTest, DropsAreReportedWithTheApiOfTheProcess) {
  RingDirectory rings(scratch());
  RingProcess process(scratch(), [](ring::Writer& writer) {
    writer.Write(event::Api::kVulkan, event::CbScheduled{});
    writer.CountDropped(event::Kind::kCbCommitted, 7);
  });
  rings.Discover();
  DrainAll(rings);
  std::vector<RingDrops> seen;
  rings.ReportDrops([&](const RingDrops& drops) { seen.push_back(drops); });
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].process.pid, process.pid());
  EXPECT_EQ(seen[0].api, event::Api::kVulkan);
  ASSERT_EQ(seen[0].counts.size(), 1U);
  EXPECT_EQ(seen[0].counts[0].kind, event::Kind::kCbCommitted);
  EXPECT_EQ(seen[0].counts[0].count, 7U);
  rings.ReportDrops(no_drops_);
}

TEST_F(DrainTest, StrangeFilesAreLeftAlone) {
  std::ofstream(scratch() / "1-2.ring") << "no ring at all";
  std::ofstream(scratch() / "note.txt") << "x";
  std::filesystem::create_directory(scratch() / "3-4.ring");
  std::filesystem::create_symlink("/dev/zero", scratch() / "5-6.ring");
  RingDirectory rings(scratch());
  testing::internal::CaptureStderr();
  EXPECT_TRUE(rings.Discover().empty());
  EXPECT_TRUE(rings.Discover().empty());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(log, '\n'), 3) << log;
  EXPECT_EQ(rings.open_count(), 0U);
  EXPECT_TRUE(std::filesystem::exists(scratch() / "1-2.ring"));
}

TEST_F(DrainTest, OnlyDirectoriesNamedByASessionAreRemoved) {
  const std::string id = "0a1b2c3d-0000-4000-8000-000000000001";
  const auto make = [&](const std::filesystem::path& directory) {
    std::filesystem::create_directories(directory / "inner");
    std::ofstream(directory / "1-2.ring") << "x";
    return directory;
  };
  std::filesystem::permissions(scratch(), std::filesystem::perms::owner_all);
  const auto other = make(scratch() / "other");
  const auto beside = make(scratch() / id);
  std::filesystem::create_directory(scratch() / "base", scratch());
  const auto mine = make(scratch() / "base" / id);
  const auto link = scratch() / "base" / "0a1b2c3d-0000-4000-8000-000000000002";
  std::filesystem::create_directory_symlink(other, link);
  SetLogLevel(LogLevel::kNothing);
  for (const auto& path : {other, scratch() / "base" / ".." / id, link, scratch() / "base" / "", mine}) {
    RingDirectory(path).RemoveAll();
  }
  SetLogLevel(LogLevel::kInfo);
  EXPECT_TRUE(std::filesystem::exists(other / "1-2.ring"));
  EXPECT_TRUE(std::filesystem::exists(beside / "1-2.ring"));
  EXPECT_FALSE(std::filesystem::exists(mine));
  RingDirectory gone(mine);
  EXPECT_TRUE(gone.Discover().empty());
  gone.RemoveAll();
}

}  // namespace
}  // namespace smeltr::daemon
