#include "daemon/session_log.h"

#include <signal.h>
#include <sys/resource.h>

#include "fake/scratch.h"
#include "session/reader.h"
#include "unit/daemon/log_context.h"

namespace smeltr::daemon {
namespace {

// Files of this process cannot grow past a size: writes fail as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    previous_handler_ = ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &previous_);
    const rlimit limit{bytes, previous_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &previous_), 0);
    ::signal(SIGXFSZ, previous_handler_);
  }

 private:
  rlimit previous_{};
  sighandler_t previous_handler_ = nullptr;
};

class SessionLogTest : public fake::ScratchTest {
 protected:
  SessionLogTest() { SetLogLevel(LogLevel::kNothing); }
  ~SessionLogTest() override { SetLogLevel(LogLevel::kInfo); }

  // Each with a label of its own, so that they do not compress to nothing.
  void AppendMarks(SessionLog& log, int count) {
    for (int i = 0; i < count; ++i) {
      const std::string label = "mark " + std::to_string(next_mark_++ * 2654435761U);
      log.AppendOwn(event::Api::kNone, 1, event::Mark{std::string_view(label), {}});
    }
  }
  // What is buffered is old enough by the second call.
  void FlushAt(SessionLog& log, uint64_t seconds) {
    const uint64_t now_ns = MonotonicNowNs() + seconds * kNsPerSecond;
    log.FlushIfDue(now_ns);
    log.FlushIfDue(now_ns + kNsPerSecond / 2);
  }

  TestLogContext around_{scratch() / "reserve"};
  uint32_t next_mark_ = 0;
};

TEST_F(SessionLogTest, LossIsMarkedWhenThereIsSpaceAgain) {
  SessionLog log = std::move(SessionLog::Create(scratch() / "sessions", {}, around_.context)).value();
  AppendMarks(log, 100);
  FlushAt(log, 1);
  EXPECT_EQ(log.lost_count(), 0U);
  {
    const FileSizeLimit full(256);
    AppendMarks(log, 5000);
    FlushAt(log, 2);
    EXPECT_EQ(log.lost_count(), 5000U);
    FlushAt(log, 3);
  }
  AppendMarks(log, 10);
  FlushAt(log, 4);  // Reaches the disk ...
  FlushAt(log, 5);  // ... which is noticed at the latest now.
  log.Close("exit");
  log.SaveMetadata();

  const session::Metadata metadata = session::ReadMetadata(log.directory()).value();
  EXPECT_EQ(metadata.storage_lost_count, 5000U);
  const auto reader = session::Reader::Open(log.directory() / session::kEventsFile);
  ASSERT_TRUE(reader.has_value()) << reader.error().text();
  uint64_t marks = 0;
  reader->ForEachOf<event::Mark>([&](const event::Envelope&, const event::Mark&) { ++marks; });
  EXPECT_EQ(marks, 110U);
  std::vector<uint64_t> told;
  reader->ForEachOf<event::StorageDegraded>(
      [&](const event::Envelope&, const event::StorageDegraded& fields) {
        told.push_back(fields.lost_count);
      });
  EXPECT_EQ(told, (std::vector<uint64_t>{5000}));
}

TEST_F(SessionLogTest, AdoptedSessionKeepsItsEarlierFile) {
  session::StoredSession stored;
  {
    SessionLog log = std::move(SessionLog::Create(scratch() / "sessions", {}, around_.context)).value();
    AppendMarks(log, 3);
    FlushAt(log, 1);
    stored = {.directory = log.directory(), .metadata = log.metadata()};
  }
  const auto earlier_bytes = std::filesystem::file_size(stored.directory / session::kEventsFile);
  for (const char* file : {"events-1.smlt", "events-2.smlt"}) {
    SessionLog log = SessionLog::Adopt(stored, around_.context);
    EXPECT_FALSE(std::filesystem::exists(stored.directory / file)) << "made before there was an event";
    AppendMarks(log, 4);
    log.Close("recovered");
    const auto reader = session::Reader::Open(stored.directory / file);
    ASSERT_TRUE(reader.has_value()) << reader.error().text();
    EXPECT_EQ(reader->summary().event_count, 6U);  // SessionResumed, four marks, SessionEnded.
  }
  EXPECT_EQ(std::filesystem::file_size(stored.directory / session::kEventsFile), earlier_bytes);
}

TEST_F(SessionLogTest, DiscardedSessionIsGone) {
  SessionLog log = std::move(SessionLog::Create(scratch() / "sessions", {}, around_.context)).value();
  log.Discard();
  EXPECT_FALSE(std::filesystem::exists(log.directory()));
}

TEST_F(SessionLogTest, ReserveIsHeldAndGivenUp) {
  around_.reserve.Hold();
  EXPECT_EQ(std::filesystem::file_size(scratch() / "reserve"), 1U << 20);
  around_.reserve.Release();
  EXPECT_FALSE(std::filesystem::exists(scratch() / "reserve"));
  DiskReserve impossible(scratch() / "no" / "reserve");
  impossible.Hold();
  impossible.Release();
  const FileSizeLimit full(4096);
  around_.reserve.Hold();
  EXPECT_FALSE(std::filesystem::exists(scratch() / "reserve")) << "half a reserve";
}

}  // namespace
}  // namespace smeltr::daemon
