#include "faces/daemon_json.h"

#include <nlohmann/json.hpp>

namespace smeltr::faces {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json SessionJson(const ipc::RecordingStatus& session) {
  return {{"session_id", session.session_id},
          {"short_id", session.short_id},
          {"kind", session.kind},
          {"name", TextOrNull(session.name)},
          {"command", TextOrNull(session.command)},
          {"state", session.state},
          {"root_pid", session.root_pid == 0 ? Json() : Json(session.root_pid)},
          {"process_count", session.process_count},
          {"event_count", session.event_count},
          {"dropped_events", session.dropped_count},
          {"storage_lost_events", session.storage_lost_count},
          {"started_mono_ns", session.started_mono_ns}};
}

Json ProbeJson(const ipc::ProbeStatus& probe) {
  return {{"name", probe.name},
          {"health", probe.health},
          {"reason", TextOrNull(probe.reason)},
          {"readings", probe.readings},
          {"cost_pct", probe.cost_pct}};
}

}  // namespace

std::string StatusJson(const DaemonView& view) {
  Json json;
  json["running"] = view.running;
  json["home"] = view.home;
  json["socket"] = view.socket;
  json["client_version"] = view.client_version;
  if (!view.running) {
    json["reason"] = TextOrNull(view.reason);
    return Dump(json);
  }
  const ipc::StatusReport& report = view.report;
  json["daemon_version"] = report.daemon_version;
  json["version_matches"] = report.daemon_version == view.client_version;
  json["pid"] = report.daemon_pid;
  json["managed_by"] = TextOrNull(report.managed_by);
  json["uptime_ns"] = report.uptime_ns;
  json["resident_bytes"] = report.resident_bytes;
  json["cpu_ns"] = report.cpu_ns;
  json["connection_count"] = report.connection_count;
  json["subscriber_count"] = report.subscriber_count;
  json["flight_recorder_bytes"] = report.flight_recorder_bytes;
  json["flight_recorder_ns"] = report.flight_recorder_ns;
  json["post_mortem_count"] = report.post_mortem_count;
  json["suppressed_count"] = report.suppressed_count;
  json["storage_paused"] = report.storage_paused;
  json["sessions"] = Json::array();
  for (const ipc::RecordingStatus& session : report.sessions)
    json["sessions"].push_back(SessionJson(session));
  json["probes"] = Json::array();
  for (const ipc::ProbeStatus& probe : report.probes) json["probes"].push_back(ProbeJson(probe));
  return Dump(json);
}

std::string MarkedJson(const ipc::Marked& marked, std::string_view label) {
  return Dump({{"session_id", marked.session_id},
               {"short_id", marked.short_id},
               {"kind", marked.kind},
               {"label", label}});
}

std::string DumpedJson(const ipc::Dumped& dumped) {
  return Dump({{"session_id", dumped.session_id},
               {"short_id", dumped.short_id},
               {"directory", dumped.session_directory},
               {"event_count", dumped.event_count}});
}

std::string PinnedJson(const std::vector<session::StoredSession>& sessions, bool pinned) {
  Json json;
  json["sessions"] = Json::array();
  for (const session::StoredSession& one : sessions) {
    json["sessions"].push_back({{"session_id", TextOrNull(one.metadata.session_id)},
                                {"short_id", one.short_id()},
                                {"name", TextOrNull(one.metadata.name)},
                                {"pinned", pinned}});
  }
  return Dump(json);
}

std::string RemovedJson(const std::vector<RemovedRow>& rows, bool dry_run, uint64_t kept_bytes) {
  Json json;
  json["dry_run"] = dry_run;
  json["removed"] = Json::array();
  json["failed"] = Json::array();
  uint64_t freed_bytes = 0;
  for (const RemovedRow& row : rows) {
    Json one{{"session_id", TextOrNull(row.session_id)},
             {"short_id", row.short_id},
             {"name", TextOrNull(row.name)},
             {"reason", TextOrNull(row.reason)},
             {"disk_bytes", row.bytes}};
    if (row.error.empty()) {
      freed_bytes += row.bytes;
      json["removed"].push_back(std::move(one));
    } else {
      one["error"] = row.error;
      json["failed"].push_back(std::move(one));
    }
  }
  json["freed_bytes"] = freed_bytes;
  json["kept_bytes"] = kept_bytes;
  return Dump(json);
}

}  // namespace smeltr::faces
