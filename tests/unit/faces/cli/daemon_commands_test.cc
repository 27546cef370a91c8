// Commands that talk to the daemon, against one made of functions.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "event/owned.h"
#include "faces/cli/console.h"
#include "faces/cli/run.h"
#include "fake/fake_daemon.h"
#include "fake/scratch.h"
#include "ipc/stream.h"
#include "session/store.h"
#include "util/paths.h"

namespace smeltr::faces::cli {
namespace {

using fake::FakeDaemon;
using Json = nlohmann::json;

struct Output {
  int status = 0;
  std::string out;
  std::string err;
};

class DaemonCommands : public fake::ScratchTest {
 protected:
  DaemonCommands() {
    SetEnv("SMELTR_HOME", scratch().native());
    SetEnv("SMELTR_SOCKET", (scratch() / "s").native());
    SetEnv("XDG_CONFIG_HOME", (scratch() / "config").native());
    paths_ = ResolvePaths().value();
  }
  std::unique_ptr<FakeDaemon> StartDaemon(const FakeDaemon::Handler& handler) const {
    return std::make_unique<FakeDaemon>(paths_.socket, paths_.home.native(), handler);
  }
  Output Smeltr(std::vector<const char*> arguments) const {
    arguments.insert(arguments.begin(), "smeltr");
    Output output;
    std::FILE* const out = std::tmpfile();
    std::FILE* const err = std::tmpfile();
    Console console(out, err, {.colour = false, .width = 80});
    output.status = cli::Run(static_cast<int>(arguments.size()), arguments.data(), console);
    output.out = TakeAll(out);
    output.err = TakeAll(err);
    return output;
  }
  static std::string TakeAll(std::FILE* file) {
    std::fflush(file);
    std::string text;
    std::rewind(file);
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
    std::fclose(file);
    return text;
  }
  std::string MakeSession(const std::string& name) const {
    session::Metadata metadata;
    metadata.name = name;
    return session::CreateSession(paths_.sessions, metadata).value().metadata.session_id;
  }
  static std::string Batch(std::string_view session_id, uint64_t first_seq, uint64_t count) {
    std::vector<std::byte> bytes;
    for (uint64_t seq = first_seq; seq < first_seq + count; ++seq) {
      event::Event event;
      event.envelope.seq = seq;
      event.payload = event::Mark{.label = "m"};
      event::AppendOwned(event, bytes);
    }
    std::string message = ipc::BatchHeader(session_id);
    message.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return message;
  }

  Paths paths_;
};

constexpr const char* kId = "3f2a9c1d-0000-4000-8000-000000000001";

TEST_F(DaemonCommands, MarkSendsTypedFields) {
  const std::string id = MakeSession("baseline");
  const auto daemon = StartDaemon(
      [&](const ipc::Request&) { return FakeDaemon::Say(ipc::Marked{id, id.substr(0, 8), "scoped"}); });
  const Output output = Smeltr({"mark", "epoch ends", "--field", "n=3", "--field", "lr=1e-3", "--field",
                                "ok=true", "--field", "note=a=b", "--field", "big=99999999999999999999",
                                "--field", "odd=nan", "--field", "none=", "--session", "baseline"});
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.out, "marked 'epoch ends' in " + id.substr(0, 8) + " (scoped)\n");
  const auto mark = std::get<ipc::Mark>(daemon->requests().at(0));
  EXPECT_EQ(mark.label, "epoch ends");
  EXPECT_EQ(mark.session_id, id);
  EXPECT_EQ(mark.field_keys, (std::vector<std::string>{"n", "lr", "ok", "note", "big", "odd", "none"}));
  EXPECT_EQ(mark.field_types,
            (std::vector<std::string>{"int", "float", "bool", "string", "float", "string", "string"}));
  EXPECT_EQ(mark.field_values,
            (std::vector<std::string>{"3", "1e-3", "true", "a=b", "99999999999999999999", "nan", ""}));
}

TEST_F(DaemonCommands, MarkJson) {
  const auto daemon = StartDaemon(
      [](const ipc::Request&) { return FakeDaemon::Say(ipc::Marked{kId, "3f2a9c1d", "ambient"}); });
  const Json json = Json::parse(Smeltr({"mark", "x", "--json"}).out);
  EXPECT_EQ(json["session_id"], kId);
  EXPECT_EQ(json["kind"], "ambient");
  EXPECT_EQ(std::get<ipc::Mark>(daemon->requests().at(0)).session_id, "");
}

TEST_F(DaemonCommands, MarkRefusedSaysWhy) {
  const auto daemon = StartDaemon([](const ipc::Request&) {
    return FakeDaemon::Say(ipc::Refusal{ErrorCode::kInvalidArgument, "session 3f2a9c1d has ended"});
  });
  const Output output = Smeltr({"mark", "x"});
  EXPECT_EQ(output.status, 1);
  EXPECT_EQ(output.out, "");
  EXPECT_EQ(output.err, "smeltr: session 3f2a9c1d has ended\n");
}

TEST_F(DaemonCommands, WithoutADaemon) {
  for (const char* command : {"mark", "tail", "dump"}) {
    const Output output = std::string_view(command) == "mark" ? Smeltr({command, "x"}) : Smeltr({command});
    EXPECT_EQ(output.status, 1) << command;
    EXPECT_NE(output.err.find("`smeltr daemon start`"), std::string::npos) << output.err;
  }
  EXPECT_EQ(Smeltr({"daemon", "status"}).status, 3);
  EXPECT_EQ(Json::parse(Smeltr({"daemon", "status", "--json"}).out)["running"], false);
  const Output stopped = Smeltr({"daemon", "stop"});
  EXPECT_EQ(stopped.status, 0);
  EXPECT_EQ(stopped.out, "smeltrd does not run\n");
}

TEST_F(DaemonCommands, WrongUsage) {
  for (const std::vector<const char*>& arguments :
       std::vector<std::vector<const char*>>{{"mark"},
                                             {"mark", "x", "--field", "novalue"},
                                             {"mark", "x", "--field", "=v"},
                                             {"tail", "--kind", "NoSuchKind"},
                                             {"tail", "--pid", "x"},
                                             {"tail", "--count", "0"},
                                             {"daemon"},
                                             {"daemon", "frobnicate"},
                                             {"sessions", "ls", "--kind", "odd"},
                                             {"sessions", "ls", "--all", "--kind", "scoped"},
                                             {"sessions", "prune", "--max-total", "much"},
                                             {"sessions", "rm"},
                                             {"sessions", "rm", "x", "--last"},
                                             {"record", "--max-size", "1", "--", "true"},
                                             {"record", "--footprint-period", "5", "--", "true"}}) {
    EXPECT_EQ(Smeltr(arguments).status, 2) << arguments[0] << " " << arguments.size();
  }
}

TEST_F(DaemonCommands, WrongUsageIsToldInPlainWords) {
  EXPECT_EQ(Smeltr({"sessions", "list"}).err,
            "smeltr: no such command: sessions list; did you mean `ls`?; see `smeltr sessions --help`\n");
  EXPECT_EQ(Smeltr({"daemon", "foo"}).err,
            "smeltr: no such command: daemon foo; see `smeltr daemon --help`\n");
  EXPECT_EQ(Smeltr({"breakdwn"}).err,
            "smeltr: no such command: breakdwn; did you mean `breakdown`?; see `smeltr --help`\n");
  EXPECT_EQ(Smeltr({"sessions"}).err, "smeltr: a command is missing; see `smeltr sessions --help`\n");
  EXPECT_EQ(Smeltr({"daemon", "logs", "--lines", "abc"}).err,
            "smeltr: --lines: 'abc' is no number it can take; see `smeltr daemon logs --help`\n");
}

TEST_F(DaemonCommands, HelpIsACommandToo) {
  EXPECT_EQ(Smeltr({"help"}).out, Smeltr({"--help"}).out);
  EXPECT_EQ(Smeltr({"help", "record"}).out, Smeltr({"record", "--help"}).out);
  EXPECT_EQ(Smeltr({"help", "daemon", "logs"}).out, Smeltr({"daemon", "logs", "--help"}).out);
  EXPECT_EQ(Smeltr({"help", "nothing"}).status, 2);
}

TEST_F(DaemonCommands, HelpHasExamplesAndFits80Columns) {
  for (const std::vector<const char*>& command :
       std::vector<std::vector<const char*>>{{},
                                             {"record"},
                                             {"breakdown"},
                                             {"mark"},
                                             {"tail"},
                                             {"dump"},
                                             {"doctor"},
                                             {"sessions"},
                                             {"sessions", "ls"},
                                             {"sessions", "show"},
                                             {"sessions", "pin"},
                                             {"sessions", "unpin"},
                                             {"sessions", "rm"},
                                             {"sessions", "rm", "x", "--last"},
                                             {"sessions", "prune"},
                                             {"daemon"},
                                             {"daemon", "status"},
                                             {"daemon", "start"},
                                             {"daemon", "stop"},
                                             {"daemon", "restart"},
                                             {"daemon", "install"},
                                             {"daemon", "uninstall"},
                                             {"daemon", "logs"}}) {
    std::vector<const char*> arguments = command;
    arguments.push_back("--help");
    const Output output = Smeltr(arguments);
    EXPECT_EQ(output.status, 0);
    EXPECT_NE(output.out.find("Example"), std::string::npos) << output.out;
    EXPECT_EQ(output.out.find("\n\n\n"), std::string::npos) << output.out;
    size_t start = 0;
    for (size_t end = 0; (end = output.out.find('\n', start)) != std::string::npos; start = end + 1) {
      EXPECT_LE(end - start, 80U) << output.out.substr(start, end - start);
    }
  }
}

TEST_F(DaemonCommands, DumpSaysWhere) {
  const auto daemon = StartDaemon(
      [](const ipc::Request&) { return FakeDaemon::Say(ipc::Dumped{kId, "3f2a9c1d", "/where", 1234}); });
  const Output output = Smeltr({"dump", "--label", "why"});
  EXPECT_EQ(output.out, "wrote 1,234 events as 3f2a9c1d in /where\n");
  EXPECT_EQ(std::get<ipc::Dump>(daemon->requests().at(0)).label, "why");
  EXPECT_EQ(Json::parse(Smeltr({"dump", "--json"}).out)["directory"], "/where");
}

// --- tail ---

TEST_F(DaemonCommands, TailEndsWithFourWhenTheDaemonIsLost) {
  const auto daemon = StartDaemon([](const ipc::Request&) {
    return FakeDaemon::Answer{{ipc::Encode(ipc::Reply(ipc::Subscribed{{kId}, {1}})), Batch(kId, 1, 3)}, true};
  });
  const Output output = Smeltr({"tail"});
  EXPECT_EQ(output.status, 4);
  EXPECT_EQ(std::count(output.out.begin(), output.out.end(), '\n'), 3);
  EXPECT_TRUE(output.err.starts_with("smeltr: tail: smeltrd is gone: ")) << output.err;
}

TEST_F(DaemonCommands, TailSaysWhatTheDaemonSaid) {
  const auto daemon = StartDaemon([](const ipc::Request&) {
    return FakeDaemon::Answer{
        {ipc::Encode(ipc::Reply(ipc::Subscribed{})), ipc::Encode(ipc::Notice(ipc::Goodbye{"terminated"}))},
        true};
  });
  const Output output = Smeltr({"tail"});
  EXPECT_EQ(output.status, 4);
  EXPECT_EQ(output.err, "smeltr: tail: smeltrd has ended: terminated\n");
}

TEST_F(DaemonCommands, TailFiltersAreTheDaemons) {
  const std::string id = MakeSession("baseline");
  const auto daemon = StartDaemon([&](const ipc::Request&) {
    return FakeDaemon::Answer{{ipc::Encode(ipc::Reply(ipc::Subscribed{{id}, {1}})),
                               ipc::Encode(ipc::Notice(ipc::SessionClosed{id, "exit", 5}))}};
  });
  const Output output = Smeltr({"tail", "--session", "baseline", "--kind", "Mark", "--kind",
                                "VulkanCbCompleted", "--pid", "12", "--pid", "13"});
  EXPECT_EQ(output.status, 0);
  EXPECT_EQ(output.err, "smeltr: tail: the session has ended: exit\n");
  const auto subscribe = std::get<ipc::Subscribe>(daemon->requests().at(0));
  EXPECT_EQ(subscribe.session_ids, std::vector<std::string>{id});
  EXPECT_EQ(subscribe.kinds, (std::vector<std::string>{"Mark", "VulkanCbCompleted"}));
  EXPECT_EQ(subscribe.pids, (std::vector<uint32_t>{12, 13}));
}

TEST_F(DaemonCommands, TailCountsAndPassesOverWhatItDoesNotKnow) {
  const auto daemon = StartDaemon([](const ipc::Request&) {
    return FakeDaemon::Answer{{ipc::Encode(ipc::Reply(ipc::Subscribed{})), Batch(kId, 1, 1),
                               R"({"notice":"FromTheFuture"})", Batch(kId, 2, 5)}};
  });
  const Output output = Smeltr({"tail", "--count", "3"});
  EXPECT_EQ(output.status, 0);
  EXPECT_EQ(std::count(output.out.begin(), output.out.end(), '\n'), 3);
}

TEST_F(DaemonCommands, TailFollowsOverARestart) {
  std::atomic<int> subscriptions = 0;
  const auto daemon = StartDaemon([&](const ipc::Request&) {
    const bool first = subscriptions++ == 0;
    const ipc::Subscribed subscribed{{kId}, {first ? uint64_t{1} : uint64_t{6}}};
    return FakeDaemon::Answer{
        {ipc::Encode(ipc::Reply(subscribed)), first ? Batch(kId, 1, 2) : Batch(kId, 6, 1)}, first};
  });
  const Output output = Smeltr({"tail", "--follow", "--count", "3"});
  EXPECT_EQ(output.status, 0);
  EXPECT_NE(output.out.find("{\"_smeltr_tail\":\"reconnect\",\"attempt\":1}\n"), std::string::npos)
      << output.out;
  EXPECT_NE(output.out.find("\"expected\":3,\"got\":6,\"skipped\":3"), std::string::npos) << output.out;
}

TEST_F(DaemonCommands, TailRefusedDoesNotRetry) {
  const auto daemon = StartDaemon(
      [](const ipc::Request&) { return FakeDaemon::Say(ipc::Refusal{ErrorCode::kNotFound, "not open"}); });
  const Output output = Smeltr({"tail", "--follow"});
  EXPECT_EQ(output.status, 1);
  EXPECT_EQ(output.err, "smeltr: not open\n");
  EXPECT_EQ(daemon->connection_count(), 1);
}

TEST_F(DaemonCommands, TailOfAnEndedSessionEndsAtOnce) {
  session::Metadata metadata;
  metadata.name = "over";
  metadata.ended_rfc3339 = "2026-01-01T00:00:00.000Z";
  session::CreateSession(paths_.sessions, metadata).value();
  const Output output = Smeltr({"tail", "--session", "over"});
  EXPECT_EQ(output.status, 0) << "no daemon is needed to know";
  EXPECT_EQ(output.out, "");
  EXPECT_NE(output.err.find("the session has ended"), std::string::npos) << output.err;
}

TEST_F(DaemonCommands, TailTakesKindsHoweverTheyAreTyped) {
  const auto daemon = StartDaemon([](const ipc::Request&) {
    return FakeDaemon::Answer{{ipc::Encode(ipc::Reply(ipc::Subscribed{}))}, true};
  });
  Smeltr({"tail", "--kind", "mark", "--kind", "vulkancbcompleted", "--kind", "CbCommitted"});
  EXPECT_EQ(std::get<ipc::Subscribe>(daemon->requests().at(0)).kinds,
            (std::vector<std::string>{"Mark", "VulkanCbCompleted", "MetalCbCommitted", "CudaCbCommitted",
                                      "VulkanCbCommitted"}));
}

// --- status ---

ipc::StatusReport SampleReport() {
  ipc::StatusReport report;
  report.daemon_version = "9.9";
  report.daemon_pid = static_cast<uint32_t>(::getpid());
  report.managed_by = "systemd";
  report.uptime_ns = 3'723'000'000'000;
  report.resident_bytes = 14 << 20;
  report.cpu_ns = 3'723'000'000;
  report.subscriber_count = 1;
  report.storage_paused = true;
  ipc::RecordingStatus session;
  session.session_id = kId;
  session.short_id = "3f2a9c1d";
  session.kind = "scoped";
  session.command = "evil\x1b[2J";
  session.state = "recording";
  session.dropped_count = 5;
  report.sessions.push_back(session);
  report.probes.push_back({"vm", "ok", "", 100, 0.01});
  report.probes.push_back({"kernel-log", "failed",
                           "the kernel's log cannot be read by this user; run as root, or set "
                           "kernel.dmesg_restrict=0 with sysctl",
                           0, 0});
  return report;
}

TEST_F(DaemonCommands, StatusShowsAllOfIt) {
  const auto daemon = StartDaemon([](const ipc::Request&) { return FakeDaemon::Say(SampleReport()); });
  const Output output = Smeltr({"daemon", "status"});
  EXPECT_EQ(output.status, 0);
  for (const std::string_view part :
       {"9.9 runs, pid", "for 62 min 03 s", "Managed by", "systemd", "14.0 MiB memory", "0.1 % of a core",
        "1 subscriber", "paused: the disk", "3f2a9c1d", "evil?[2J", "kernel-log", "kernel.dmesg_restrict=0",
        "`smeltr daemon restart`"}) {
    EXPECT_NE(output.out.find(part), std::string::npos) << part << " in\n" << output.out;
  }
  const Json json = Json::parse(Smeltr({"daemon", "status", "--json"}).out);
  EXPECT_EQ(json["running"], true);
  EXPECT_EQ(json["version_matches"], false);
  EXPECT_EQ(json["sessions"][0]["dropped_events"], 5);
  EXPECT_NE(json["probes"][1]["reason"].get<std::string>().find("run as root"), std::string::npos);
}

}  // namespace
}  // namespace smeltr::faces::cli
