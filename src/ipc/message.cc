#include "ipc/message.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <type_traits>

namespace smeltr::ipc {
namespace {

using Json = nlohmann::json;

// One list of fields for both directions: Fields(message, visitor) calls visitor(key, member).
template <typename M, typename V>
void Fields(M& m, V&& visit) {
  using T = std::remove_const_t<M>;
  if constexpr (std::is_same_v<T, Hello>) {
    visit("protocol_min", m.protocol_min);
    visit("protocol_max", m.protocol_max);
    visit("role", m.role);
  } else if constexpr (std::is_same_v<T, Reserve>) {
    visit("token", m.token);
    visit("name", m.name);
    visit("argv", m.argv);
    visit("cwd", m.cwd);
    visit("max_size_bytes", m.max_size_bytes);
    visit("footprint_period_ms", m.footprint_period_ms);
  } else if constexpr (std::is_same_v<T, Attach>) {
    visit("session_id", m.session_id);
    visit("pid", m.pid);
    visit("start_time_ticks", m.start_time_ticks);
    visit("hook_state", m.hook_state);
    visit("hook_reason", m.hook_reason);
  } else if constexpr (std::is_same_v<T, Finish>) {
    visit("session_id", m.session_id);
    visit("exit_code", m.exit_code);
    visit("term_signal", m.term_signal);
    visit("core_dumped", m.core_dumped);
    visit("max_rss_bytes", m.max_rss_bytes);
    visit("user_cpu_ns", m.user_cpu_ns);
    visit("system_cpu_ns", m.system_cpu_ns);
  } else if constexpr (std::is_same_v<T, Cancel>) {
    visit("session_id", m.session_id);
  } else if constexpr (std::is_same_v<T, Resume>) {
    visit("session_id", m.session_id);
  } else if constexpr (std::is_same_v<T, Mark>) {
    visit("session_id", m.session_id);
    visit("label", m.label);
    visit("field_keys", m.field_keys);
    visit("field_types", m.field_types);
    visit("field_values", m.field_values);
  } else if constexpr (std::is_same_v<T, Subscribe>) {
    visit("session_ids", m.session_ids);
    visit("kinds", m.kinds);
    visit("pids", m.pids);
  } else if constexpr (std::is_same_v<T, Dump>) {
    visit("session_id", m.session_id);
    visit("label", m.label);
  } else if constexpr (std::is_same_v<T, Welcome>) {
    visit("protocol", m.protocol);
    visit("daemon_version", m.daemon_version);
    visit("daemon_pid", m.daemon_pid);
    visit("home", m.home);
  } else if constexpr (std::is_same_v<T, Reserved>) {
    visit("session_id", m.session_id);
    visit("short_id", m.short_id);
    visit("session_directory", m.session_directory);
    visit("ring_directory", m.ring_directory);
  } else if constexpr (std::is_same_v<T, Finished>) {
    visit("event_count", m.event_count);
    visit("dropped_count", m.dropped_count);
    visit("storage_lost_count", m.storage_lost_count);
    visit("process_count", m.process_count);
    visit("live_process_count", m.live_process_count);
    visit("drained", m.drained);
    visit("hook_state", m.hook_state);
    visit("saw_gpu", m.saw_gpu);
    visit("failed_ring_count", m.failed_ring_count);
    visit("ring_failure", m.ring_failure);
  } else if constexpr (std::is_same_v<T, Marked>) {
    visit("session_id", m.session_id);
    visit("short_id", m.short_id);
    visit("kind", m.kind);
  } else if constexpr (std::is_same_v<T, RecordingStatus>) {
    visit("session_id", m.session_id);
    visit("short_id", m.short_id);
    visit("kind", m.kind);
    visit("name", m.name);
    visit("command", m.command);
    visit("state", m.state);
    visit("root_pid", m.root_pid);
    visit("process_count", m.process_count);
    visit("event_count", m.event_count);
    visit("dropped_count", m.dropped_count);
    visit("storage_lost_count", m.storage_lost_count);
    visit("started_mono_ns", m.started_mono_ns);
  } else if constexpr (std::is_same_v<T, ProbeStatus>) {
    visit("name", m.name);
    visit("health", m.health);
    visit("reason", m.reason);
    visit("readings", m.readings);
    visit("cost_pct", m.cost_pct);
  } else if constexpr (std::is_same_v<T, StatusReport>) {
    visit("daemon_version", m.daemon_version);
    visit("daemon_pid", m.daemon_pid);
    visit("home", m.home);
    visit("managed_by", m.managed_by);
    visit("uptime_ns", m.uptime_ns);
    visit("resident_bytes", m.resident_bytes);
    visit("cpu_ns", m.cpu_ns);
    visit("subscriber_count", m.subscriber_count);
    visit("connection_count", m.connection_count);
    visit("flight_recorder_bytes", m.flight_recorder_bytes);
    visit("flight_recorder_ns", m.flight_recorder_ns);
    visit("post_mortem_count", m.post_mortem_count);
    visit("suppressed_count", m.suppressed_count);
    visit("storage_paused", m.storage_paused);
    visit("sessions", m.sessions);
    visit("probes", m.probes);
  } else if constexpr (std::is_same_v<T, Subscribed>) {
    visit("session_ids", m.session_ids);
    visit("next_seqs", m.next_seqs);
  } else if constexpr (std::is_same_v<T, Dumped>) {
    visit("session_id", m.session_id);
    visit("short_id", m.short_id);
    visit("session_directory", m.session_directory);
    visit("event_count", m.event_count);
  } else if constexpr (std::is_same_v<T, Refusal>) {
    visit("code", m.code);
    visit("text", m.text);
  } else if constexpr (std::is_same_v<T, Gap>) {
    visit("session_id", m.session_id);
    visit("first_missing_seq", m.first_missing_seq);
    visit("last_missing_seq", m.last_missing_seq);
    visit("count", m.count);
  } else if constexpr (std::is_same_v<T, SessionOpened>) {
    visit("session_id", m.session_id);
    visit("short_id", m.short_id);
    visit("kind", m.kind);
    visit("name", m.name);
  } else if constexpr (std::is_same_v<T, SessionClosed>) {
    visit("session_id", m.session_id);
    visit("end_reason", m.end_reason);
    visit("last_seq", m.last_seq);
  } else if constexpr (std::is_same_v<T, Heartbeat>) {
    visit("session_ids", m.session_ids);
    visit("last_seqs", m.last_seqs);
  } else if constexpr (std::is_same_v<T, Goodbye>) {
    visit("reason", m.reason);
  } else {
    static_assert(std::is_empty_v<T>);
  }
}

template <typename M>
constexpr std::string_view kTag = "";
template <>
constexpr std::string_view kTag<Hello> = "Hello";
template <>
constexpr std::string_view kTag<Reserve> = "Reserve";
template <>
constexpr std::string_view kTag<Attach> = "Attach";
template <>
constexpr std::string_view kTag<Finish> = "Finish";
template <>
constexpr std::string_view kTag<Cancel> = "Cancel";
template <>
constexpr std::string_view kTag<Resume> = "Resume";
template <>
constexpr std::string_view kTag<Mark> = "Mark";
template <>
constexpr std::string_view kTag<Status> = "Status";
template <>
constexpr std::string_view kTag<Shutdown> = "Shutdown";
template <>
constexpr std::string_view kTag<Subscribe> = "Subscribe";
template <>
constexpr std::string_view kTag<Dump> = "Dump";
template <>
constexpr std::string_view kTag<Ack> = "Ack";
template <>
constexpr std::string_view kTag<Welcome> = "Welcome";
template <>
constexpr std::string_view kTag<Reserved> = "Reserved";
template <>
constexpr std::string_view kTag<Finished> = "Finished";
template <>
constexpr std::string_view kTag<Marked> = "Marked";
template <>
constexpr std::string_view kTag<StatusReport> = "StatusReport";
template <>
constexpr std::string_view kTag<Subscribed> = "Subscribed";
template <>
constexpr std::string_view kTag<Dumped> = "Dumped";
template <>
constexpr std::string_view kTag<Refusal> = "Error";
template <>
constexpr std::string_view kTag<Gap> = "Gap";
template <>
constexpr std::string_view kTag<SessionOpened> = "SessionOpened";
template <>
constexpr std::string_view kTag<SessionClosed> = "SessionClosed";
template <>
constexpr std::string_view kTag<Heartbeat> = "Heartbeat";
template <>
constexpr std::string_view kTag<Goodbye> = "Goodbye";

struct FieldWriter {
  Json& out;

  template <typename T>
  void operator()(const char* key, const T& value) {
    out[key] = value;
  }
  template <typename T>
  void operator()(const char* key, const std::optional<T>& value) {
    if (value.has_value()) out[key] = *value;
  }
  template <typename T>
    requires std::is_class_v<T>
  void operator()(const char* key, const std::vector<T>& values) {
    out[key] = Json::array();
    for (const T& value : values) out[key].push_back(Element(value));
  }
  void operator()(const char* key, ErrorCode value) { out[key] = static_cast<int>(value); }

  static Json Element(const std::string& value) { return value; }
  template <typename T>
  static Json Element(const T& fields) {
    Json element = Json::object();
    Fields(fields, FieldWriter{element});
    return element;
  }
};

// Missing fields keep their defaults; one of the wrong type or range spoils the message.
struct FieldReader {
  const Json& in;
  const char* bad_key = nullptr;

  template <typename T>
  void operator()(const char* key, T& value) {
    const auto found = in.find(key);
    if (found != in.end() && !Read(*found, value)) bad_key = key;
  }

  static bool Read(const Json& json, std::string& value) {
    if (!json.is_string()) return false;
    value = json.get_ref<const std::string&>();
    return true;
  }
  static bool Read(const Json& json, bool& value) {
    if (!json.is_boolean()) return false;
    value = json.get<bool>();
    return true;
  }
  template <typename T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  static bool Read(const Json& json, T& value) {
    if (json.is_number_unsigned()) {
      const auto number = json.get<uint64_t>();
      value = static_cast<T>(number);
      return std::in_range<T>(number);
    }
    if (!json.is_number_integer()) return false;
    const auto number = json.get<int64_t>();
    value = static_cast<T>(number);
    return std::in_range<T>(number);
  }
  static bool Read(const Json& json, ErrorCode& value) {
    uint8_t number = 0;
    if (!Read(json, number) || number > static_cast<uint8_t>(ErrorCode::kIo)) return false;
    value = static_cast<ErrorCode>(number);
    return true;
  }
  template <typename T>
  static bool Read(const Json& json, std::optional<T>& value) {
    return json.is_null() || Read(json, value.emplace());
  }
  static bool Read(const Json& json, double& value) {
    if (!json.is_number()) return false;
    value = json.get<double>();
    return true;
  }
  template <typename T>
  static bool Read(const Json& json, std::vector<T>& value) {
    if (!json.is_array()) return false;
    for (const Json& element : json) {
      if (!Read(element, value.emplace_back())) return false;
    }
    return true;
  }
  template <typename T>
    requires(std::is_class_v<T> && std::is_aggregate_v<T>)
  static bool Read(const Json& json, T& fields) {
    if (!json.is_object()) return false;
    FieldReader reader{json};
    Fields(fields, reader);
    return reader.bad_key == nullptr;
  }
};

template <typename Variant>
std::string EncodeAs(const char* tag_key, const Variant& message) {
  Json out = Json::object();
  std::visit(
      [&]<typename M>(const M& m) {
        out[tag_key] = kTag<M>;
        Fields(m, FieldWriter{out});
      },
      message);
  // Arguments and paths may hold any bytes; what is no UTF-8 becomes U+FFFD.
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <typename Variant, size_t kIndex = 0>
Result<Variant> DecodeTagged(std::string_view tag, const Json& in) {
  if constexpr (kIndex == std::variant_size_v<Variant>) {
    return Fail(ErrorCode::kUnsupported, fmt::format("'{}' is not known here", tag.substr(0, 64)));
  } else {
    using M = std::variant_alternative_t<kIndex, Variant>;
    if (tag != kTag<M>) return DecodeTagged<Variant, kIndex + 1>(tag, in);
    M message;
    FieldReader reader{in};
    Fields(message, reader);
    if (reader.bad_key == nullptr) return Variant(std::move(message));
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("field '{}' of {} has the wrong type", reader.bad_key, tag));
  }
}

template <typename Variant>
Result<Variant> DecodeAs(const char* tag_key, std::string_view text) {
  const Json in = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!in.is_object()) return Fail(ErrorCode::kInvalidArgument, "not a JSON object");
  const auto tag = in.find(tag_key);
  if (tag == in.end() || !tag->is_string()) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("no field '{}'", tag_key));
  }
  return DecodeTagged<Variant>(tag->template get_ref<const std::string&>(), in);
}

}  // namespace

std::string Encode(const Request& request) { return EncodeAs("op", request); }
std::string Encode(const Reply& reply) { return EncodeAs("reply", reply); }
std::string Encode(const Notice& notice) { return EncodeAs("notice", notice); }
Result<Request> DecodeRequest(std::string_view text) { return DecodeAs<Request>("op", text); }
Result<Reply> DecodeReply(std::string_view text) { return DecodeAs<Reply>("reply", text); }
Result<Notice> DecodeNotice(std::string_view text) { return DecodeAs<Notice>("notice", text); }

}  // namespace smeltr::ipc
