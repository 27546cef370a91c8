// How processes of a recording end, when that was, and what they executed.
#include <fcntl.h>
#include <signal.h>

#include <string>
#include <vector>

#include "session/identity.h"
#include "session/reader.h"
#include "unit/daemon/recordings_fixture.h"

namespace smeltr::daemon {
namespace {

constexpr uint32_t kRoot = 4'000'001;  // More than the system gives: nobody by chance.

class EndsTest : public RecordingsTest {
 protected:
  // One whose recorded process is nobody, killed by `signal` now.
  ipc::Reserved Begin() {
    ipc::Reserved session = Reserve();
    EXPECT_TRUE(Attach(session, kRoot).has_value());
    return session;
  }
  void FinishBy(const ipc::Reserved& session, int signal) {
    ipc::Finish finish;
    finish.session_id = session.session_id;
    finish.term_signal = signal;
    ASSERT_TRUE(recordings_->Finish(finish, now_ns_, [](const ipc::Finished&) {}).has_value());
  }
  template <typename E>
  std::vector<std::pair<uint32_t, std::string>> TextsOf(const ipc::Reserved& session) {
    std::vector<std::pair<uint32_t, std::string>> texts;
    const auto reader =
        session::Reader::Open(std::filesystem::path(session.session_directory) / session::kEventsFile);
    if (!reader.has_value()) return texts;
    reader->ForEachOf<E>([&](const event::Envelope& envelope, const E& fields) {
      texts.emplace_back(envelope.pid, std::string(TextOf(fields).view));
    });
    return texts;
  }

 private:
  static event::Text TextOf(const event::CrashHint& hint) { return hint.text; }
  static event::Text TextOf(const event::ProcessSeen& seen) { return seen.executable; }
};

void Commit(ring::Writer& writer) {
  writer.Write(event::Api::kVulkan, event::CbCommitted{.cb_id = event::CbId{1}});
}
void Complete(ring::Writer& writer) {
  writer.Write(event::Api::kVulkan, event::CbCompleted{.cb_id = event::CbId{1}});
}

TEST_F(EndsTest, AChildThatIsSuddenlyGoneIsTold) {
  const ipc::Reserved session = Begin();
  RingProcess crashed(session.ring_directory, [](ring::Writer& writer) { Commit(writer); });
  RingProcess idle(session.ring_directory, [](ring::Writer& writer) {
    Commit(writer);
    Complete(writer);
  });
  RingProcess polite(session.ring_directory, [](ring::Writer& writer) {
    Commit(writer);
    writer.MarkClosed();
  });
  Poll();
  crashed.End();
  idle.End();
  polite.End();
  PollAfter(200 * kMs);
  ASSERT_TRUE(Finish(session).has_value());
  PollAfter(300 * kMs);
  const auto hints = TextsOf<event::CrashHint>(session);
  ASSERT_EQ(hints.size(), 1U);
  EXPECT_EQ(hints[0].first, crashed.pid());
  EXPECT_EQ(hints[0].second,
            "process " + std::to_string(crashed.pid()) + " ended unexpectedly, with GPU work in flight");
}

// Its record tells how it ended.
TEST_F(EndsTest, OfTheRecordedProcessTheRecordTells) {
  const ipc::Reserved session = Reserve();
  RingProcess root(session.ring_directory, [](ring::Writer& writer) { Commit(writer); });
  ASSERT_TRUE(Attach(session, root.pid()).has_value());
  Poll();
  root.End();
  PollAfter(200 * kMs);
  FinishBy(session, SIGTERM);
  PollAfter(300 * kMs);
  EXPECT_EQ(recordings_->open_count(), 0U);
  EXPECT_TRUE(TextsOf<event::CrashHint>(session).empty());
}

TEST_F(EndsTest, ACrashedSessionEndsWithItsProcess) {
  now_ns_ -= 10'000 * kMs;  // All of it is over by now.
  const ipc::Reserved session = Begin();
  Poll();
  const uint64_t crash_ns = now_ns_;
  FinishBy(session, SIGSEGV);
  Poll();
  EXPECT_EQ(recordings_->open_count(), 1U) << "reports may come";
  PollAfter(2500 * kMs);
  EXPECT_EQ(recordings_->open_count(), 0U);
  const session::Metadata metadata = MetadataOf(session);
  EXPECT_EQ(metadata.end_mono_ns, crash_ns);
  const double ended_ns = static_cast<double>(session::ParseInstant(metadata.ended_rfc3339).value_or(0));
  const double crash_wall_ns = static_cast<double>(WallNowNs() - (MonotonicNowNs() - crash_ns));
  EXPECT_NEAR(ended_ns, crash_wall_ns, 1e9);
}

TEST_F(EndsTest, WhoeverOutlivesTheRecordedProcessMovesTheEnd) {
  const ipc::Reserved session = Begin();
  RingProcess child(session.ring_directory, [](ring::Writer& writer) { WriteMarks(writer, 1); });
  Poll();
  ASSERT_TRUE(Finish(session).has_value());
  PollAfter(1000 * kMs);
  const uint64_t alive_ns = now_ns_;
  child.End();
  PollAfter(1000 * kMs);
  EXPECT_EQ(recordings_->open_count(), 0U);
  EXPECT_EQ(MetadataOf(session).end_mono_ns, alive_ns);
}

// Held before it executes its program it is still its parent, and the program may be over at the next look.
TEST_F(EndsTest, AHeldProcessIsToldOfAsWhatItWillBe) {
  const ipc::Reserved session = Reserve();
  RingProcess root(session.ring_directory, [](ring::Writer& writer) { WriteMarks(writer, 1); });
  ASSERT_TRUE(Attach(session, root.pid()).has_value());
  Poll();
  root.End();
  ASSERT_TRUE(Finish(session).has_value());
  Poll();
  EXPECT_EQ(TextsOf<event::ProcessSeen>(session),
            (std::vector<std::pair<uint32_t, std::string>>{{root.pid(), "prog"}}));
}

TEST_F(EndsTest, WhatAProcessExecutesLaterIsToldAgain) {
  const ipc::Reserved session = Begin();
  int start[2];
  ASSERT_EQ(::pipe2(start, O_CLOEXEC), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    char byte = 0;
    if (::read(start[0], &byte, 1) == 1) ::execl("/bin/sleep", "sleep", "600", nullptr);
    ::_exit(1);
  }
  probe::ProcessEntry child;
  child.pid = static_cast<uint32_t>(pid);
  child.parent_pid = kRoot;
  child.start_time_ticks = ReadProcessFacts(pid)->start_time_ticks;
  child.state = 'S';
  child.thread_count = 1;
  probe::ProcessEntry root;
  root.pid = kRoot;
  root.start_time_ticks = 0;
  root.state = 'S';
  root.thread_count = 1;
  processes_ = {root, child};
  PollAfter(1100 * kMs);
  const std::string before = ProcessExecutable(pid);
  ASSERT_EQ(::write(start[1], "x", 1), 1);
  while (ProcessExecutable(pid) == before) ::usleep(1000);
  const std::string after = ProcessExecutable(pid);
  PollAfter(1100 * kMs);
  PollAfter(1100 * kMs);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  ::close(start[0]);
  ::close(start[1]);
  processes_.clear();
  ASSERT_TRUE(Finish(session).has_value());
  PollAfter(300 * kMs);
  std::vector<std::string> told;
  for (const auto& [who, executable] : TextsOf<event::ProcessSeen>(session)) {
    if (who == child.pid) told.push_back(executable);
  }
  EXPECT_EQ(told, (std::vector<std::string>{before, after}));
}

}  // namespace
}  // namespace smeltr::daemon
