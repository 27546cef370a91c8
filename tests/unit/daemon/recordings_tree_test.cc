// Who belongs to a recording, and what keeps it open.
#include "unit/daemon/recordings_fixture.h"

namespace smeltr::daemon {
namespace {

constexpr uint32_t kRoot = 4'000'001;  // More than the system gives: nobody by chance.
constexpr uint32_t kChild = 4'000'002;
constexpr uint32_t kGrandchild = 4'000'003;

probe::ProcessEntry Process(uint32_t pid, uint32_t parent_pid, const char* name) {
  probe::ProcessEntry process;
  process.pid = pid;
  process.parent_pid = parent_pid;
  process.start_time_ticks = 100 + pid;
  process.state = 'S';
  process.thread_count = 1;
  process.name = name;
  return process;
}

class TreeTest : public RecordingsTest {
 protected:
  ipc::Reserved Begin() {
    ipc::Reserved session = Reserve();
    processes_ = {Process(1, 0, "init"), Process(kRoot, 1, "root"), Process(kChild, kRoot, "child")};
    ipc::Attach attach;
    attach.session_id = session.session_id;
    attach.pid = kRoot;
    attach.start_time_ticks = 100 + kRoot;
    attach.hook_state = "skipped";
    EXPECT_TRUE(recordings_->Attach(attach).has_value());
    PollAfter(1100 * kMs);
    return session;
  }
  void Remove(uint32_t pid) {
    std::erase_if(processes_, [pid](const probe::ProcessEntry& process) { return process.pid == pid; });
  }
};

TEST_F(TreeTest, MembersAreToldOfAsTheyComeAndGo) {
  const ipc::Reserved session = Begin();
  processes_.push_back(Process(kGrandchild, kChild, "grandchild"));
  PollAfter(1100 * kMs);
  Remove(kGrandchild);
  Remove(kChild);
  PollAfter(1100 * kMs);
  Remove(kRoot);
  ASSERT_TRUE(Finish(session).has_value());
  Poll();
  ASSERT_TRUE(finished_.has_value());
  EXPECT_EQ(recordings_->open_count(), 0U);
  const session::Metadata metadata = MetadataOf(session);
  EXPECT_EQ(metadata.event_counts.at("ProcessSeen"), 3U);
  EXPECT_EQ(metadata.event_counts.at("ProcessExit"), 3U) << "the root's is told by its record, once";
}

TEST_F(TreeTest, DaemonisedGrandchildKeepsTheSessionOpenWithoutARing) {
  const ipc::Reserved session = Begin();
  processes_.push_back(Process(kGrandchild, kChild, "background"));
  PollAfter(1100 * kMs);
  Remove(kRoot);
  Remove(kChild);
  processes_.back().parent_pid = 1;
  ASSERT_TRUE(Finish(session).has_value());
  PollAfter(50 * kMs);
  EXPECT_FALSE(finished_.has_value()) << "those who die together get a moment";
  PollAfter(300 * kMs);
  ASSERT_TRUE(finished_.has_value());
  EXPECT_EQ(finished_->live_process_count, 1U);
  EXPECT_EQ(recordings_->open_count(), 1U);
  EXPECT_TRUE(recordings_->Find(session.session_id)->IsMember(kGrandchild));
  EXPECT_FALSE(recordings_->Find(session.session_id)->IsMember(1));
  Remove(kGrandchild);
  PollAfter(1100 * kMs);
  EXPECT_EQ(recordings_->open_count(), 0U);
  EXPECT_EQ(MetadataOf(session).end_reason, "exit");
}

TEST_F(TreeTest, ShutdownLeavesWhatStillRunsToTheNextDaemon) {
  const ipc::Reserved session = Begin();
  recordings_->Shutdown(MonotonicNowNs() + 5000 * kMs);
  EXPECT_EQ(MetadataOf(session).end_reason, "daemon-shutdown");
  EXPECT_EQ(MetadataOf(session).ended_rfc3339, "") << "not over";
  EXPECT_TRUE(std::filesystem::exists(session.ring_directory));
  Restart();
  recordings_->AdoptUnfinished();
  EXPECT_EQ(recordings_->open_count(), 1U);
  ASSERT_TRUE(recordings_->Resume({session.session_id}, 5).has_value());
  PollAfter(3000 * kMs);
  EXPECT_EQ(recordings_->open_count(), 1U) << "its record is there again";
  processes_.clear();
  ASSERT_TRUE(Finish(session).has_value());
  Poll();
  EXPECT_EQ(recordings_->open_count(), 0U);
  EXPECT_EQ(MetadataOf(session).exit_code, 3);
}

TEST_F(TreeTest, CrashLeavesTheSessionOpenForLateReports) {
  const ipc::Reserved session = Begin();
  processes_.clear();
  ipc::Finish finish;
  finish.session_id = session.session_id;
  finish.term_signal = 11;
  ASSERT_TRUE(recordings_->Finish(finish, now_ns_, [this](const ipc::Finished& reply) { finished_ = reply; })
                  .has_value());
  PollAfter(50 * kMs);
  EXPECT_TRUE(finished_.has_value()) << "record does not wait for them";
  EXPECT_EQ(recordings_->open_count(), 1U);
  EXPECT_EQ(MetadataOf(session).term_signal, 11);
  PollAfter(2100 * kMs);
  EXPECT_EQ(recordings_->open_count(), 0U);
}

}  // namespace
}  // namespace smeltr::daemon
