#include "daemon/desk.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <utility>
#include <vector>

#include "event/frame.h"
#include "util/file.h"
#include "util/log.h"

namespace smeltr::daemon {
namespace {

constexpr size_t kMaxMarkFields = 64;

ipc::Reply Refuse(const Error& error) { return ipc::Refusal{error.code(), std::string(error.text())}; }

ipc::Reply ReplyOf(const Result<void>& result) {
  if (result.has_value()) return ipc::Ack{};
  return Refuse(result.error());
}

template <typename T>
bool ParseAll(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

// Of a mark's field; it points into the request.
Result<event::Attribute> AttributeOf(std::string_view key, std::string_view type, std::string_view value) {
  event::Attribute attribute;
  attribute.key = key;
  if (type == "string") {
    attribute.type = event::AttributeType::kString;
    attribute.text = value;
    return attribute;
  }
  if (type == "bool" && (value == "true" || value == "false")) {
    attribute.type = event::AttributeType::kBool;
    attribute.bits = value == "true" ? 1 : 0;
    return attribute;
  }
  int64_t integer = 0;
  if (type == "int" && ParseAll(value, integer)) {
    attribute.type = event::AttributeType::kInt;
    attribute.bits = static_cast<uint64_t>(integer);
    return attribute;
  }
  double number = 0;
  if (type == "float" && ParseAll(value, number)) {
    attribute.type = event::AttributeType::kFloat;
    attribute.bits = std::bit_cast<uint64_t>(number);
    return attribute;
  }
  return Fail(ErrorCode::kInvalidArgument, fmt::format("field '{}': '{}' is no {}", key.substr(0, 64),
                                                       value.substr(0, 64), type.substr(0, 16)));
}

uint64_t ResidentBytes() {
  const std::string text = ReadFile("/proc/self/statm", 256).value_or("");
  const size_t space = text.find(' ');
  uint64_t pages = 0;
  if (space == std::string::npos) return 0;
  const std::string_view rest = std::string_view(text).substr(space + 1);
  if (!ParseAll(rest.substr(0, rest.find(' ')), pages)) return 0;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

uint64_t CpuNs() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  const auto ns = [](const timeval& time) {
    return static_cast<uint64_t>(time.tv_sec) * kNsPerSecond + static_cast<uint64_t>(time.tv_usec) * 1000;
  };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

// systemd and launchd set these for what they start.
std::string ManagedBy() {
  if (::getenv("INVOCATION_ID") != nullptr && ::getppid() != 1) return "systemd";
  if (::getenv("XPC_SERVICE_NAME") != nullptr) return "launchd";
  return {};
}

}  // namespace

void Desk::Handle(const ipc::Request& request, ClientId client, Answer answer) {
  const auto handle = [&]<typename M>(const M& message) {
    if constexpr (std::same_as<M, ipc::Finish> || std::same_as<M, ipc::Dump>) {
      On(message, answer);
    } else if constexpr (std::same_as<M, ipc::Attach>) {
      answer(ReplyOf(parts_.recordings.Attach(message)));
    } else if constexpr (std::same_as<M, ipc::Cancel>) {
      answer(ReplyOf(parts_.recordings.Cancel(message)));
    } else if constexpr (std::same_as<M, ipc::Resume>) {
      answer(ReplyOf(parts_.recordings.Resume(message, client)));
    } else if constexpr (std::same_as<M, ipc::Reserve>) {
      answer(On(message, client));
    } else if constexpr (std::same_as<M, ipc::Status>) {
      answer(StatusNow());
    } else if constexpr (std::same_as<M, ipc::Shutdown>) {
      answer(ipc::Ack{});
      stop_();
    } else if constexpr (std::same_as<M, ipc::Subscribe>) {
      answer(ipc::Refusal{ErrorCode::kInvalidArgument, "this connection is subscribed already"});
    } else {
      answer(On(message));
    }
  };
  std::visit(handle, request);
  wake_();
}

void Desk::ClientLost(ClientId client) {
  parts_.recordings.ClientLost(client);
  wake_();
}

ipc::Reply Desk::On(const ipc::Hello& hello) {
  if (hello.protocol_min <= ipc::kProtocolVersion && hello.protocol_max >= ipc::kProtocolVersion) {
    return welcome_;
  }
  const bool client_newer = hello.protocol_min > ipc::kProtocolVersion;
  return ipc::Refusal{ErrorCode::kUnsupported,
                      fmt::format("the running smeltrd {} is {} than this smeltr: {}",
                                  welcome_.daemon_version, client_newer ? "older" : "newer",
                                  client_newer ? "restart it with: smeltr daemon restart" : "update smeltr")};
}

ipc::Reply Desk::On(const ipc::Reserve& reserve, ClientId client) {
  auto reserved = parts_.recordings.Reserve(reserve, client);
  if (!reserved.has_value()) return Refuse(reserved.error());
  Recording* recording = parts_.recordings.Find(reserved->session_id);
  // How the probes stand is part of what the session can and cannot tell.
  if (recording != nullptr && parts_.probes != nullptr) {
    for (const ProbeState& state : parts_.probes->states()) {
      event::ProbeHealth health;
      health.probe = std::string_view(state.name);
      health.state = probe::Name(state.health);
      health.reason = std::string_view(state.reason);
      recording->log().AppendOwn(event::Api::kNone, 0, health);
    }
  }
  return std::move(*reserved);
}

void Desk::On(const ipc::Finish& finish, const Answer& answer) {
  const auto accepted = parts_.recordings.Finish(
      finish, MonotonicNowNs(), [answer](const ipc::Finished& finished) { answer(finished); });
  if (!accepted.has_value()) answer(Refuse(accepted.error()));
}

Result<SessionLog*> Desk::Target(const std::string& session_id) {
  Recording* recording = session_id.empty() ? parts_.recordings.Newest() : parts_.recordings.Find(session_id);
  if (recording != nullptr) return &recording->log();
  SessionLog* ambient = parts_.ambient.log();
  const bool ambient_meant =
      ambient != nullptr && (session_id.empty() || ambient->metadata().session_id == session_id);
  if (ambient_meant) return ambient;
  if (session_id.empty()) return Fail(ErrorCode::kUnavailable, "no session is open: the disk takes none");
  return Fail(ErrorCode::kNotFound,
              fmt::format("session {} is not being recorded (any more)", session_id.substr(0, 8)));
}

ipc::Reply Desk::On(const ipc::Mark& mark) {
  if (mark.label.empty()) return Refuse({ErrorCode::kInvalidArgument, "a mark needs a label"});
  const size_t count = mark.field_keys.size();
  if (count > kMaxMarkFields || mark.field_types.size() != count || mark.field_values.size() != count) {
    return Refuse({ErrorCode::kInvalidArgument, fmt::format("a mark has at most {} fields", kMaxMarkFields)});
  }
  const auto too_long = [](const std::string& text) { return text.size() > event::kMaxTextBytes; };
  if (too_long(mark.label) || std::ranges::any_of(mark.field_keys, too_long) ||
      std::ranges::any_of(mark.field_values, too_long)) {
    return Refuse({ErrorCode::kInvalidArgument,
                   fmt::format("a text in a mark has at most {} bytes", event::kMaxTextBytes)});
  }
  std::vector<event::Attribute> fields;
  for (size_t i = 0; i < count; ++i) {
    auto attribute = AttributeOf(mark.field_keys[i], mark.field_types[i], mark.field_values[i]);
    if (!attribute.has_value()) return Refuse(attribute.error());
    fields.push_back(*attribute);
  }
  const auto target = Target(mark.session_id);
  if (!target.has_value()) return Refuse(target.error());
  SessionLog& log = **target;
  log.AppendOwn(event::Api::kNone, 0, event::Mark{std::string_view(mark.label), fields});
  log.Flush();
  return ipc::Marked{log.metadata().session_id, session::ShortId(log.metadata()),
                     std::string(session::Name(log.metadata().kind))};
}

void Desk::On(const ipc::Dump& dump, const Answer& answer) {
  const auto target = Target(dump.session_id);
  if (!target.has_value()) return answer(Refuse(target.error()));
  PostMortems* post_mortems = parts_.router.post_mortems();
  if (post_mortems == nullptr) {
    return answer(ipc::Refusal{ErrorCode::kUnavailable, "the flight recorder is off (config.toml)"});
  }
  post_mortems->Request((*target)->metadata().session_id, dump.label, MonotonicNowNs(),
                        [answer](const Result<WrittenDump>& written) {
                          if (!written.has_value()) return answer(Refuse(written.error()));
                          answer(ipc::Dumped{written->session_id, written->session_id.substr(0, 8),
                                             written->directory.native(), written->event_count});
                        });
}

ipc::Heartbeat Desk::Standing() {
  ipc::Heartbeat standing;
  const auto add = [&](const SessionLog& log) {
    standing.session_ids.push_back(log.metadata().session_id);
    standing.last_seqs.push_back(log.last_seq());
  };
  if (const SessionLog* ambient = parts_.ambient.log(); ambient != nullptr) add(*ambient);
  parts_.recordings.ForEach([&](const Recording& recording) { add(recording.log()); });
  return standing;
}

ipc::Reply Desk::StatusNow() {
  ipc::StatusReport report;
  report.daemon_version = welcome_.daemon_version;
  report.daemon_pid = welcome_.daemon_pid;
  report.home = welcome_.home;
  report.managed_by = ManagedBy();
  const uint64_t now_ns = MonotonicNowNs();
  report.uptime_ns = now_ns - started_ns_;
  report.resident_bytes = ResidentBytes();
  report.cpu_ns = CpuNs();
  report.subscriber_count = static_cast<uint32_t>(bus().subscriber_count());
  report.connection_count = static_cast<uint32_t>(connection_count_);
  report.flight_recorder_bytes = parts_.router.recorder().bytes();
  report.flight_recorder_ns = parts_.router.recorder().span_ns(now_ns);
  if (const PostMortems* post_mortems = parts_.router.post_mortems(); post_mortems != nullptr) {
    report.post_mortem_count = post_mortems->written_count();
    report.suppressed_count = post_mortems->suppressed_count();
  }
  if (SessionLog* ambient = parts_.ambient.log(); ambient != nullptr) {
    ipc::RecordingStatus status;
    status.session_id = ambient->metadata().session_id;
    status.short_id = session::ShortId(ambient->metadata());
    status.kind = session::Name(ambient->metadata().kind);
    status.state = ambient->paused() ? "paused" : "recording";
    status.event_count = ambient->event_count();
    status.storage_lost_count = ambient->lost_count();
    status.started_mono_ns = ambient->metadata().start_mono_ns;
    report.sessions.push_back(std::move(status));
  } else {
    report.storage_paused = true;
  }
  parts_.recordings.ForEach([&](Recording& recording) { report.sessions.push_back(recording.Status()); });
  for (const ipc::RecordingStatus& status : report.sessions) {
    report.storage_paused |= status.state == "paused";
  }
  if (parts_.probes != nullptr) {
    for (const ProbeState& state : parts_.probes->states()) {
      report.probes.push_back(
          {state.name, std::string(probe::Name(state.health)), state.reason, state.readings, state.cost_pct});
    }
  }
  return report;
}

}  // namespace smeltr::daemon
