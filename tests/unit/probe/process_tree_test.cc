#include "probe/process_tree.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "fake/fake_process.h"
#include "fake/scratch.h"
#include "probe/recorded_trees.h"
#include "util/process.h"

namespace smeltr::probe {
namespace {

using namespace std::string_literals;

constexpr char kToken[] = "11111111-2222-4333-8444-555555555555";

class ProcessTreeTest : public fake::ScratchTest {
 protected:
  // The recorded root is process 10, begun at 1000.
  ProcessTree MakeTree() {
    return ProcessTree({.session_id = "s",
                        .token = kToken,
                        .root_pid = 10,
                        .root_start_time_ticks = 1000,
                        .footprint_period_ns = 0},
                       tree_.At("proc"));
  }
  std::vector<ProcessEntry> List() { return ListProcesses(tree_.At("proc")); }
  static std::vector<uint32_t> Pids(const std::vector<ProcessTree::Member>& members) {
    std::vector<uint32_t> pids;
    for (const auto& member : members) pids.push_back(member.process.pid);
    std::ranges::sort(pids);
    return pids;
  }
  using Pidlist = std::vector<uint32_t>;

  fake::FileTree tree_{scratch()};
};

TEST_F(ProcessTreeTest, ListsWhatProcSays) {
  Write(tree_, {.pid = 7,
                .parent_pid = 3,
                .start_time_ticks = 42,
                .name = "a",
                .state = 'R',
                .user_ticks = 5,
                .system_ticks = 6,
                .thread_count = 8,
                .environment = {}});
  tree_.Write("proc/meminfo", "");
  tree_.Write("proc/12345/stat", "12345 (half");
  const auto processes = List();
  ASSERT_EQ(processes.size(), 1U);
  EXPECT_EQ(processes[0].pid, 7U);
  EXPECT_EQ(processes[0].parent_pid, 3U);
  EXPECT_EQ(processes[0].start_time_ticks, 42U);
  EXPECT_EQ(processes[0].cpu_ticks, 11U);
  EXPECT_EQ(processes[0].thread_count, 8U);
  EXPECT_EQ(processes[0].state, 'R');
  EXPECT_EQ(processes[0].name, "a");
  EXPECT_EQ(processes[0].uid, ::geteuid());
}

TEST_F(ProcessTreeTest, NamesCannotForgeFields) {
  Write(tree_, {.pid = 7, .parent_pid = 3, .name = "x) R 1 1 (y"});
  const auto processes = List();
  ASSERT_EQ(processes.size(), 1U);
  EXPECT_EQ(processes[0].name, "x) R 1 1 (y");
  EXPECT_EQ(processes[0].parent_pid, 3U);
  EXPECT_EQ(processes[0].state, 'S');
}

TEST_F(ProcessTreeTest, RootAndDescendantsAreMembers) {
  Write(tree_, {.pid = 1, .parent_pid = 0, .start_time_ticks = 0});
  Write(tree_, {.pid = 10, .start_time_ticks = 1000});
  Write(tree_, {.pid = 12, .parent_pid = 11, .start_time_ticks = 1002});
  Write(tree_, {.pid = 11, .parent_pid = 10, .start_time_ticks = 1001});
  Write(tree_, {.pid = 20, .parent_pid = 1, .start_time_ticks = 1001});
  ProcessTree tree = MakeTree();
  const auto change = tree.Update(List());
  EXPECT_EQ(Pids(change.joined), (Pidlist{10, 11, 12}));
  EXPECT_TRUE(change.left.empty());
  ASSERT_FALSE(tree.members().empty());
  EXPECT_EQ(tree.members().front().process.pid, 10U);
  EXPECT_TRUE(tree.members().front().is_root);
  EXPECT_FALSE(tree.members().back().is_root);
  const auto again = tree.Update(List());
  EXPECT_TRUE(again.joined.empty());
  EXPECT_TRUE(again.left.empty());
}

TEST_F(ProcessTreeTest, AnotherProcessWithTheRootsPidIsNotIt) {
  Write(tree_, {.pid = 10, .start_time_ticks = 999});
  ProcessTree tree = MakeTree();
  EXPECT_TRUE(tree.Update(List()).joined.empty());
}

TEST_F(ProcessTreeTest, MembersStayWhenTheirParentsGo) {
  Write(tree_, {.pid = 10, .start_time_ticks = 1000});
  Write(tree_, {.pid = 11, .parent_pid = 10, .start_time_ticks = 1001});
  Write(tree_, {.pid = 12, .parent_pid = 11, .start_time_ticks = 1002});
  ProcessTree tree = MakeTree();
  tree.Update(List());
  tree_.Remove("proc/10");
  tree_.Remove("proc/11");
  Write(tree_, {.pid = 12, .parent_pid = 1, .start_time_ticks = 1002, .name = "after exec"});
  Write(tree_, {.pid = 13, .parent_pid = 12, .start_time_ticks = 1003});
  const auto change = tree.Update(List());
  EXPECT_EQ(Pids(change.left), (Pidlist{10, 11}));
  EXPECT_EQ(Pids(change.joined), (Pidlist{13}));
  EXPECT_EQ(Pids(tree.members()), (Pidlist{12, 13}));
  EXPECT_EQ(tree.members().front().process.name, "after exec");
}

TEST_F(ProcessTreeTest, TokenCarriersAndTheirChildrenAreMembers) {
  Write(tree_, {.pid = 10, .start_time_ticks = 1000});
  Write(tree_, {.pid = 30,
                .start_time_ticks = 1005,
                .environment = "A=1\0SMELTR_SCOPE_TOKEN="s + kToken + "\0B=2\0"s});
  Write(tree_, {.pid = 31, .parent_pid = 30, .start_time_ticks = 1006});
  // None of these is the entry: another value, a longer one, another name, an older process.
  Write(tree_, {.pid = 40, .start_time_ticks = 1005, .environment = "SMELTR_SCOPE_TOKEN=other\0"s});
  Write(tree_,
        {.pid = 41, .start_time_ticks = 1005, .environment = "SMELTR_SCOPE_TOKEN="s + kToken + "1\0"s});
  Write(tree_,
        {.pid = 42, .start_time_ticks = 1005, .environment = "XSMELTR_SCOPE_TOKEN="s + kToken + "\0"s});
  Write(tree_, {.pid = 43, .start_time_ticks = 999, .environment = "SMELTR_SCOPE_TOKEN="s + kToken + "\0"s});
  ProcessTree tree = MakeTree();
  EXPECT_EQ(Pids(tree.Update(List()).joined), (Pidlist{10, 30, 31}));
}

TEST_F(ProcessTreeTest, TokenIsFoundAcrossThePiecesOfALongEnvironment) {
  for (const size_t padding : {4070, 4080, 4095, 4096, 9000}) {
    Write(tree_,
          {.pid = 30,
           .start_time_ticks = 1005,
           .environment = "P=" + std::string(padding, 'x') + "\0SMELTR_SCOPE_TOKEN="s + kToken + "\0"s});
    ProcessTree tree = MakeTree();
    EXPECT_EQ(Pids(tree.Update(List()).joined), (Pidlist{30})) << padding;
  }
}

TEST_F(ProcessTreeTest, AProcessIsAskedForItsTokenOnce) {
  Write(tree_, {.pid = 30, .start_time_ticks = 1005, .environment = "A=1\0"s});
  ProcessTree tree = MakeTree();
  tree.Update(List());
  const std::string token = "SMELTR_SCOPE_TOKEN="s + kToken + "\0"s;
  Write(tree_, {.pid = 30, .start_time_ticks = 1005, .environment = token});
  EXPECT_TRUE(tree.Update(List()).joined.empty());
  // Another one with the same number is.
  Write(tree_, {.pid = 30, .start_time_ticks = 1009, .environment = token});
  EXPECT_EQ(Pids(tree.Update(List()).joined), (Pidlist{30}));
}

TEST_F(ProcessTreeTest, AProcessCaughtInExecIsAskedAgain) {
  Write(tree_, {.pid = 30, .start_time_ticks = 1005});
  ProcessTree tree = MakeTree();
  EXPECT_TRUE(tree.Update(List()).joined.empty());
  Write(tree_, {.pid = 30, .start_time_ticks = 1005, .environment = "SMELTR_SCOPE_TOKEN="s + kToken + "\0"s});
  EXPECT_EQ(Pids(tree.Update(List()).joined), (Pidlist{30}));
}

TEST_F(ProcessTreeTest, AReusedPidLeavesAndDoesNotBringItsChildren) {
  Write(tree_, {.pid = 10, .start_time_ticks = 1000});
  Write(tree_, {.pid = 11, .parent_pid = 10, .start_time_ticks = 1001});
  ProcessTree tree = MakeTree();
  tree.Update(List());
  Write(tree_, {.pid = 11, .parent_pid = 1, .start_time_ticks = 2000});
  Write(tree_, {.pid = 12, .parent_pid = 11, .start_time_ticks = 2001});
  const auto change = tree.Update(List());
  EXPECT_EQ(Pids(change.left), (Pidlist{11}));
  EXPECT_TRUE(change.joined.empty());
}

TEST_F(ProcessTreeTest, AChildOlderThanItsParentIsNoChild) {
  Write(tree_, {.pid = 10, .start_time_ticks = 1000});
  Write(tree_, {.pid = 11, .parent_pid = 10, .start_time_ticks = 500});
  ProcessTree tree = MakeTree();
  EXPECT_EQ(Pids(tree.Update(List()).joined), (Pidlist{10}));
}

TEST_F(ProcessTreeTest, LoopsOfParentsEnd) {
  Write(tree_, {.pid = 21, .parent_pid = 22, .start_time_ticks = 1000});
  Write(tree_, {.pid = 22, .parent_pid = 21, .start_time_ticks = 1000});
  Write(tree_, {.pid = 23, .parent_pid = 23, .start_time_ticks = 1000});
  ProcessTree tree = MakeTree();
  EXPECT_TRUE(tree.Update(List()).joined.empty());
}

TEST_F(ProcessTreeTest, ZombiesAreGoneUnlessOtherThreadsLive) {
  Write(tree_, {.pid = 10, .start_time_ticks = 1000, .state = 'Z', .thread_count = 3});
  Write(tree_, {.pid = 11, .parent_pid = 10, .start_time_ticks = 1001, .state = 'Z'});
  ProcessTree tree = MakeTree();
  EXPECT_EQ(Pids(tree.Update(List()).joined), (Pidlist{10}));
  Write(tree_, {.pid = 10, .start_time_ticks = 1000, .state = 'Z'});
  EXPECT_EQ(Pids(tree.Update(List()).left), (Pidlist{10}));
}

TEST_F(ProcessTreeTest, TreesOfAllRecordingsComeFromOneListing) {
  Write(tree_, {.pid = 10, .start_time_ticks = 1000});
  Write(tree_, {.pid = 11, .parent_pid = 10, .start_time_ticks = 1001});
  RecordedTrees trees(tree_.At("proc"));
  Context context{.now_ns = 5, .recordings = {}};
  EXPECT_TRUE(trees.Get(context)->trees.empty());
  context.now_ns = 1'000'000'000;
  context.recordings = {{.session_id = "outer",
                         .token = "",
                         .root_pid = 10,
                         .root_start_time_ticks = 1000,
                         .footprint_period_ns = 0},
                        {.session_id = "inner",
                         .token = "",
                         .root_pid = 11,
                         .root_start_time_ticks = 1001,
                         .footprint_period_ns = 0}};
  const auto both = trees.Get(context);
  ASSERT_NE(both->Find("inner"), nullptr);
  EXPECT_EQ(Pids(both->Find("outer")->members), (Pidlist{10, 11}));
  EXPECT_EQ(Pids(both->Find("inner")->members), (Pidlist{11}));
  EXPECT_EQ(both->Find("other"), nullptr);
  EXPECT_EQ(trees.Get(context), both);
  // A recording that began meanwhile is not kept waiting, and time passes.
  context.recordings.pop_back();
  EXPECT_NE(trees.Get(context), both);
  context.now_ns += 1'000'000'000;
  tree_.Remove("proc/11");
  EXPECT_EQ(Pids(trees.Get(context)->Find("outer")->members), (Pidlist{10}));
}

TEST(RealProcesses, AnOrphanIsFoundByItsToken) {
  int out[2];
  ASSERT_EQ(::pipe(out), 0);
  const pid_t shell = ::fork();
  ASSERT_GE(shell, 0);
  if (shell == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    const std::string token = std::string("SMELTR_SCOPE_TOKEN=") + kToken;
    const char* environment[] = {"PATH=/usr/bin:/bin", token.c_str(), nullptr};
    ::execle("/bin/sh", "sh", "-c", "sleep 600 >/dev/null & echo $!", nullptr, environment);
    ::_exit(127);
  }
  ::close(out[1]);
  FILE* pipe = ::fdopen(out[0], "r");
  unsigned orphan = 0;
  ASSERT_EQ(std::fscanf(pipe, "%u", &orphan), 1);
  std::fclose(pipe);
  ASSERT_EQ(::waitpid(shell, nullptr, 0), shell);

  const auto facts = ReadProcessFacts(static_cast<pid_t>(orphan));
  ASSERT_TRUE(facts.has_value());
  ProcessTree tree({.session_id = "s",
                    .token = kToken,
                    .root_pid = static_cast<uint32_t>(shell),
                    .root_start_time_ticks = facts->start_time_ticks,
                    .footprint_period_ns = 0});
  // It may be caught in its exec at first, when it shows no environment.
  tree.Update(ListProcesses());
  tree.Update(ListProcesses());
  ::kill(static_cast<pid_t>(orphan), SIGKILL);
  ASSERT_EQ(tree.members().size(), 1U);
  EXPECT_EQ(tree.members()[0].process.pid, orphan);
  EXPECT_FALSE(tree.members()[0].is_root);
}

TEST(RealProcesses, WeAreListedAsWeAre) {
  const auto processes = ListProcesses();
  const auto self = std::ranges::find(processes, static_cast<uint32_t>(::getpid()), &ProcessEntry::pid);
  ASSERT_NE(self, processes.end());
  EXPECT_EQ(self->parent_pid, static_cast<uint32_t>(::getppid()));
  EXPECT_EQ(self->uid, ::geteuid());
  EXPECT_EQ(self->start_time_ticks, ReadProcessFacts(::getpid())->start_time_ticks);
  EXPECT_FALSE(IsDead(*self));
}

}  // namespace
}  // namespace smeltr::probe
