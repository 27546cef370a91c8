#include "daemon/post_mortem.h"

#include <signal.h>

#include <chrono>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "fake/scratch.h"
#include "session/identity.h"
#include "session/reader.h"
#include "session/segmented_writer.h"
#include "session/store.h"
#include "session/writer.h"

namespace smeltr::daemon {
namespace {

constexpr uint64_t kSecond = kNsPerSecond;
constexpr uint32_t kMember = 100;
constexpr uint32_t kStranger = 200;

// A session as the daemon writes one, and what it does when a dump is announced.
struct LiveSession {
  session::StoredSession stored;
  std::optional<session::Writer> writer;
};

class FakeHost : public PostMortems::Host {
 public:
  void FlushSession(std::string_view session_id) override {
    const auto found = sessions.find(session_id);
    if (found == sessions.end()) return;
    EXPECT_TRUE(found->second.writer->Flush().has_value());
  }
  std::optional<session::Metadata> SessionMetadata(std::string_view session_id) override {
    const auto found = sessions.find(session_id);
    if (found == sessions.end()) return std::nullopt;
    return found->second.stored.metadata;
  }
  bool IsMember(std::string_view session_id, uint32_t pid) override {
    return sessions.contains(session_id) && pid == kMember;
  }
  bool HasScopedSessions() override { return has_scoped; }
  void Announce(const WrittenDump& dump) override {
    EXPECT_TRUE(session::ReadMetadata(dump.directory).has_value()) << "complete before anybody hears of it";
    announced.push_back(dump);
  }

  std::map<std::string, LiveSession, std::less<>> sessions;
  std::vector<WrittenDump> announced;
  bool has_scoped = true;
};

class PostMortemTest : public fake::ScratchTest {
 protected:
  PostMortemTest() { SetLogLevel(LogLevel::kNothing); }
  ~PostMortemTest() override { SetLogLevel(LogLevel::kInfo); }

  std::string Open(session::SessionKind kind = session::SessionKind::kScoped) {
    session::Metadata metadata;
    metadata.kind = kind;
    metadata.name = "train";
    metadata.argv = {"python", "train.py"};
    metadata.root_pid = kMember;
    auto stored = session::CreateSession(sessions_, metadata);
    EXPECT_TRUE(stored.has_value());
    const std::string id = stored->metadata.session_id;
    auto writer = session::Writer::Create(
        stored->directory / session::kEventsFile,
        {.on_sealed = [this, id](const session::SealedChunk& chunk) { recorder_.Note(id, chunk, now_ns_); }});
    EXPECT_TRUE(writer.has_value());
    host_.sessions[id] = {.stored = std::move(*stored), .writer = std::move(*writer)};
    return id;
  }
  void Close(const std::string& id) {
    post_mortems_.SessionClosing(id, now_ns_);
    ASSERT_TRUE(host_.sessions.at(id).writer->Close().has_value());
    recorder_.Forget(id, now_ns_);
    host_.sessions.erase(id);
  }
  void Append(const std::string& id, const event::Payload& payload, uint32_t pid = kMember,
              event::Api api = event::Api::kVulkan) {
    const event::Event event{{.ts_ns = now_ns_, .pid = pid, .api = api}, payload};
    host_.sessions.at(id).writer->Append(event);
    post_mortems_.Note(id, event, now_ns_);
  }
  void Advance(uint64_t seconds) {
    for (uint64_t i = 0; i < seconds * 4; ++i) {
      now_ns_ += kSecond / 4;
      for (auto& [id, session] : host_.sessions) session.writer->FlushIfDue(now_ns_);
      post_mortems_.Poll(now_ns_);
    }
  }
  // Until so many dumps were announced; the writer has its own thread.
  void AwaitDumps(size_t count) {
    for (int i = 0; i < 5000 && host_.announced.size() < count; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      post_mortems_.Poll(now_ns_);
    }
    ASSERT_EQ(host_.announced.size(), count);
  }
  // How many dumps the trigger makes in a session of its own.
  size_t DumpsOf(const event::Payload& payload, uint32_t pid = kMember,
                 event::Api api = event::Api::kVulkan) {
    const size_t before = host_.announced.size();
    const std::string id = Open();
    Append(id, event::Mark{.label = "before"});
    Append(id, payload, pid, api);
    Advance(3);
    Close(id);
    for (int i = 0; i < 5000 && Writing(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    post_mortems_.Poll(now_ns_);
    now_ns_ += 3600 * kSecond;  // The limits of the hour are another test's.
    post_mortems_.Poll(now_ns_);
    return host_.announced.size() - before;
  }
  bool Writing() {
    post_mortems_.Poll(now_ns_);
    return post_mortems_.writing();
  }

  std::filesystem::path sessions_ = scratch() / "sessions";
  uint64_t now_ns_ = 1000 * kSecond;
  FakeHost host_;
  FlightRecorder recorder_{60 * kSecond, size_t{64} << 20};
  PostMortems post_mortems_{host_, recorder_, sessions_};
};

TEST_F(PostMortemTest, ADumpHoldsTheLastMinuteAndSaysWhatItIsAbout) {
  const std::string id = Open();
  Append(id, event::DeviceInfo{.device_name = "lavapipe"});
  uint64_t first_kept_ns = 0;
  for (int i = 0; i < 100; ++i) {
    Advance(1);
    const std::string label = "step " + std::to_string(i);
    Append(id, event::Mark{.label = std::string_view(label)});
    if (i == 39) first_kept_ns = now_ns_;
  }
  Append(id,
         event::CbCompleted{.status = event::CbStatus::kError, .error_code = -4, .error_domain = "VkResult"});
  Advance(1);
  Append(id, event::Mark{.label = "after"});
  EXPECT_TRUE(host_.announced.empty()) << "the post-roll is not over";
  Advance(1);
  AwaitDumps(1);

  const WrittenDump& dump = host_.announced[0];
  EXPECT_EQ(dump.source_session, id);
  EXPECT_EQ(dump.trigger_count, 1U);
  EXPECT_NE(dump.reason.find("VkResult error -4"), std::string::npos);
  EXPECT_TRUE(dump.directory.filename().native().starts_with("post-mortem-gpu-error-"));
  const auto metadata = session::ReadMetadata(dump.directory);
  ASSERT_TRUE(metadata.has_value());
  EXPECT_EQ(metadata->kind, session::SessionKind::kPostMortem);
  EXPECT_EQ(metadata->source_session_id, id);
  EXPECT_EQ(metadata->argv, (std::vector<std::string>{"python", "train.py"}));
  EXPECT_EQ(metadata->name, "train");
  EXPECT_EQ(metadata->end_reason, "post-mortem");
  EXPECT_FALSE(metadata->ended_rfc3339.empty());
  ASSERT_EQ(metadata->triggers.size(), 1U);
  EXPECT_EQ(metadata->triggers[0].trigger_class, "gpu-error");
  EXPECT_EQ(metadata->covered_begin_ns, dump.begin_ns);
  EXPECT_EQ(metadata->covered_end_ns, dump.end_ns);
  EXPECT_LE(dump.begin_ns, first_kept_ns + 2 * kSecond);
  EXPECT_GE(dump.begin_ns, first_kept_ns - 2 * kSecond);
  // Its own time, on the source's scale.
  const session::Metadata& source = host_.sessions.at(id).stored.metadata;
  EXPECT_EQ(metadata->start_mono_ns, source.start_mono_ns);
  const uint64_t length_ns =
      *session::ParseInstant(metadata->ended_rfc3339) - *session::ParseInstant(metadata->started_rfc3339);
  EXPECT_NEAR(static_cast<double>(length_ns), static_cast<double>(dump.end_ns - dump.begin_ns), 1e9);

  const auto reader = session::Reader::Open(dump.directory / session::kEventsFile);
  ASSERT_TRUE(reader.has_value());
  EXPECT_FALSE(reader->damage().any());
  EXPECT_FALSE(reader->damage().no_footer);
  EXPECT_EQ(reader->summary().event_count, dump.event_count);
  std::set<std::string> labels;
  reader->ForEachOf<event::Mark>(
      [&](const event::Envelope&, const event::Mark& mark) { labels.insert(std::string(mark.label.view)); });
  EXPECT_TRUE(labels.contains("after"));
  EXPECT_TRUE(labels.contains("step 99"));
  EXPECT_TRUE(labels.contains("step 45"));
  EXPECT_FALSE(labels.contains("step 30"));
  int devices = 0;
  reader->ForEachOf<event::DeviceInfo>([&](const event::Envelope&, const event::DeviceInfo&) { ++devices; });
  EXPECT_EQ(devices, 1) << "what events refer to is kept, however old";
}

// Entered long before; the last command buffers belong to them all the same.
TEST_F(PostMortemTest, ScopesOfBeforeKeepTheirNames) {
  const std::string id = Open();
  Append(id, event::Mark{.label = "the first chunk is always kept"});
  Advance(1);
  Append(id, event::ModuleEntered{.module_call_id = event::ScopeId{1}, .qualname = "epoch"});
  Append(id,
         event::ModuleEntered{
             .module_call_id = event::ScopeId{2}, .qualname = "other", .parent_call_id = event::ScopeId{1}});
  Append(id,
         event::ModuleEntered{
             .module_call_id = event::ScopeId{3}, .qualname = "step", .parent_call_id = event::ScopeId{1}});
  Advance(100);
  Append(id, event::CbCommitted{.cb_id = event::CbId{9}, .scope_id = event::ScopeId{3}});
  Append(id, event::SignalCaught{.signal = SIGSEGV});
  Advance(2);
  AwaitDumps(1);
  std::multiset<std::string> names;
  uint64_t found = 0;
  for (const uint32_t number : session::ListSegments(host_.announced[0].directory)) {
    const auto reader = session::Reader::Open(host_.announced[0].directory / session::SegmentName(number));
    ASSERT_TRUE(reader.has_value());
    found += reader->summary().event_count;
    reader->ForEachOf<event::ModuleEntered>(
        [&](const event::Envelope& envelope, const event::ModuleEntered& scope) {
          EXPECT_EQ(envelope.pid, kMember);
          names.insert(std::string(scope.qualname.view));
        });
  }
  EXPECT_EQ(names, (std::multiset<std::string>{"epoch", "step"})) << "what is referred to, and its parents";
  EXPECT_EQ(found, host_.announced[0].event_count);
  EXPECT_EQ(session::ReadMetadata(host_.announced[0].directory)->event_counts.at("ModuleEntered"), 2U);
}

TEST_F(PostMortemTest, AFloodIsOneDumpAndLateTriggersAreNotedInIt) {
  const std::string id = Open();
  for (int i = 0; i < 75; ++i) {
    Append(id, event::CbCompleted{.status = event::CbStatus::kError, .error_code = -4});
  }
  Advance(2);
  AwaitDumps(1);
  Append(id, event::ProcessExit{.exit_code = -1, .term_signal = SIGABRT});
  Advance(60);
  AwaitDumps(1);
  for (int i = 0; i < 5000 && Writing(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto metadata = session::ReadMetadata(host_.announced[0].directory);
  EXPECT_EQ(metadata->trigger_count, 76U);
  EXPECT_EQ(post_mortems_.written_count(), 1U);
}

TEST_F(PostMortemTest, EveryTriggerOfAMemberMakesADump) {
  EXPECT_EQ(DumpsOf(event::CbWarning{.elapsed_ns = 6 * kSecond}), 1U);
  EXPECT_EQ(DumpsOf(event::ApiError{.error_code = -2}), 1U);
  EXPECT_EQ(DumpsOf(event::SignalCaught{.signal = SIGSEGV}), 1U);
  EXPECT_EQ(DumpsOf(event::ProcessExit{.exit_code = -1, .term_signal = SIGSEGV}), 1U);
  EXPECT_EQ(DumpsOf(event::OomKill{.killed_pid = kMember}, 0), 1U);
  EXPECT_EQ(DumpsOf(event::JetsamKill{.killed_pid = kMember}, 0), 1U);
  EXPECT_EQ(DumpsOf(event::GpuFault{.target_pid = kMember}, 0), 1U);
  EXPECT_EQ(DumpsOf(event::MlxPanicTriggered{}), 1U);
  EXPECT_EQ(DumpsOf(event::CrashReportEmitted{.crashed_pid = kMember}, 0), 1U);
  EXPECT_EQ(DumpsOf(event::MachException{.target_pid = kMember}, 0), 1U);
  EXPECT_EQ(DumpsOf(event::CrashHint{.target_pid = kMember, .text = "segfault"}, 0), 1U);
  EXPECT_EQ(DumpsOf(event::VmSample{.pressure = "critical"}, 0), 1U);
}

TEST_F(PostMortemTest, StrangersAreEventsOnly) {
  EXPECT_EQ(DumpsOf(event::ProcessExit{.exit_code = -1, .term_signal = SIGSEGV}, kStranger), 0U);
  EXPECT_EQ(DumpsOf(event::OomKill{.killed_pid = kStranger}, 0), 0U);
  EXPECT_EQ(DumpsOf(event::GpuFault{.target_pid = kStranger}, 0), 0U);
  EXPECT_EQ(DumpsOf(event::CrashReportEmitted{.crashed_pid = kStranger}, 0), 0U);
  EXPECT_EQ(DumpsOf(event::CrashHint{.target_pid = kStranger}, 0), 0U);
  EXPECT_EQ(DumpsOf(event::GpuFault{.text = "no pid"}, 0), 0U) << "the session uses no GPU";
  EXPECT_EQ(DumpsOf(event::ProcessExit{.exit_code = -1, .term_signal = SIGKILL}), 0U) << "somebody killed it";
  EXPECT_EQ(DumpsOf(event::ProcessExit{.exit_code = -1, .term_signal = SIGTERM}), 0U);
  EXPECT_EQ(post_mortems_.suppressed_count(), 0U);
}

TEST_F(PostMortemTest, AFaultOfTheDeviceConcernsSessionsThatUseOne) {
  const std::string id = Open();
  Append(id, event::DeviceInfo{});
  Append(id, event::GpuFault{.code = 79, .text = "fallen off the bus"}, 0);
  Advance(2);
  AwaitDumps(1);
}

TEST_F(PostMortemTest, AKillCountsWhenMemoryWasShort) {
  const std::string id = Open();
  Append(id, event::CgroupMemory{.oom_kill_count = 3, .cgroup = "/a"}, 0);
  Append(id, event::CgroupMemory{.oom_kill_count = 3, .cgroup = "/a"}, 0);
  Append(id, event::ProcessExit{.exit_code = -1, .term_signal = SIGKILL});
  Advance(3);
  EXPECT_FALSE(post_mortems_.busy()) << "those kills were of before";
  Append(id, event::CgroupMemory{.oom_kill_count = 4, .cgroup = "/a"}, 0);
  Append(id, event::ProcessExit{.exit_code = -1, .term_signal = SIGKILL});
  Advance(2);
  AwaitDumps(1);
  EXPECT_TRUE(host_.announced[0].directory.filename().native().starts_with("post-mortem-memory-kill-"));
}

TEST_F(PostMortemTest, EvidenceOfMemoryAges) {
  const std::string id = Open();
  Append(id, event::VmSample{.oom_kill_count = 1}, 0);
  Append(id, event::VmSample{.oom_kill_count = 2}, 0);
  Advance(31);
  Append(id, event::ProcessExit{.exit_code = -1, .term_signal = SIGKILL});
  EXPECT_FALSE(post_mortems_.busy());
}

TEST_F(PostMortemTest, PressureOfTheMachineIsToldAboutARecordingWhereThereIsOne) {
  const std::string ambient = Open(session::SessionKind::kAmbient);
  Append(ambient, event::VmSample{.pressure = "critical"}, 0);
  EXPECT_FALSE(post_mortems_.busy());
  host_.has_scoped = false;
  Append(ambient, event::VmSample{.pressure = "critical"}, 0);
  EXPECT_TRUE(post_mortems_.busy());
}

TEST_F(PostMortemTest, AClosingSessionIsDumpedAtOnceAndLinkedAfterwards) {
  const std::string id = Open();
  const std::filesystem::path source = host_.sessions.at(id).stored.directory;
  Append(id, event::SignalCaught{.signal = SIGSEGV});
  Close(id);
  AwaitDumps(1);
  EXPECT_EQ(host_.announced[0].event_count, 1U);
  ASSERT_TRUE(LinkToSource(sessions_, host_.announced[0]).has_value());
  ASSERT_TRUE(LinkToSource(sessions_, host_.announced[0]).has_value());
  EXPECT_EQ(session::ReadMetadata(source)->post_mortems,
            std::vector<std::string>{host_.announced[0].session_id});
}

TEST_F(PostMortemTest, ShutdownWritesWhatIsOpen) {
  const std::string id = Open();
  Append(id, event::SignalCaught{.signal = SIGSEGV});
  post_mortems_.Shutdown(MonotonicNowNs() + 60 * kSecond);
  EXPECT_EQ(host_.announced.size(), 1U);
}

TEST_F(PostMortemTest, RequestsAreAnsweredWithTheDump) {
  const std::string id = Open();
  Append(id, event::Mark{.label = "x"});
  std::optional<Result<WrittenDump>> answer;
  const auto keep = [&](const Result<WrittenDump>& result) { answer = result; };
  post_mortems_.Request(id, "../Slow step!", now_ns_, keep);
  EXPECT_FALSE(answer.has_value());
  AwaitDumps(1);
  ASSERT_TRUE(answer.has_value());
  ASSERT_TRUE(answer->has_value());
  EXPECT_EQ((*answer)->directory.parent_path(), sessions_);
  EXPECT_TRUE((*answer)->directory.filename().native().starts_with("post-mortem-slow-step-"));
  EXPECT_EQ((*answer)->event_count, 1U);

  post_mortems_.Request("no such session", "", now_ns_, keep);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->error().code(), ErrorCode::kNotFound);
}

TEST_F(PostMortemTest, ADumpThatCannotBeWrittenLeavesNothingAndIsNotAnnounced) {
  const std::string id = Open();
  Append(id, event::Mark{.label = "x"});
  // A file where the sessions directory was.
  std::filesystem::rename(sessions_, scratch() / "moved");
  std::ofstream(sessions_) << "x";
  std::optional<Result<WrittenDump>> answer;
  post_mortems_.Request(id, "", now_ns_, [&](const Result<WrittenDump>& result) { answer = result; });
  for (int i = 0; i < 5000 && !answer.has_value(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    post_mortems_.Poll(now_ns_);
  }
  ASSERT_TRUE(answer.has_value());
  EXPECT_FALSE(answer->has_value());
  EXPECT_TRUE(host_.announced.empty());
}

TEST(MakeFlushedEvent, SaysWhatTheDumpIs) {
  const WrittenDump dump{.source_session = "s",
                         .session_id = "d",
                         .directory = {},
                         .reason = "r",
                         .event_count = 5,
                         .begin_ns = 6,
                         .end_ns = 7,
                         .trigger_count = 8};
  const event::PostMortemFlushed flushed = MakeFlushedEvent(dump);
  EXPECT_EQ(flushed.reason.view, "r");
  EXPECT_EQ(flushed.source_session.view, "s");
  EXPECT_EQ(flushed.dump_session.view, "d");
  EXPECT_EQ(flushed.event_count, 5U);
  EXPECT_EQ(flushed.begin_ns, 6U);
  EXPECT_EQ(flushed.end_ns, 7U);
  EXPECT_EQ(flushed.trigger_count, 8U);
}

}  // namespace
}  // namespace smeltr::daemon
