#include "faces/trust_json.h"

#include <nlohmann/json.hpp>

namespace smeltr::faces {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) {
  // Paths and names of kinds may hold anything; malformed UTF-8 becomes U+FFFD.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json CountsJson(const std::map<std::string, uint64_t>& counts) {
  Json json = Json::object();
  for (const auto& [kind, count] : counts) json[kind] = count;
  return json;
}

Json FaultJson(const session::Fault& fault) {
  Json json;
  json["part"] = Name(fault.part);
  json["file"] = fault.file.empty() ? Json() : Json(fault.file);
  json["text"] = fault.text;
  json["offset"] = fault.offset;
  json["bytes"] = fault.bytes;
  json["lost_events"] = fault.lost_events ? Json(*fault.lost_events) : Json();
  json["lost_by_kind"] = CountsJson(fault.lost_by_kind);
  const bool time_known = fault.begin_ns != 0 || fault.end_ns != 0;
  json["begin_ns"] = time_known ? Json(fault.begin_ns) : Json();
  json["end_ns"] = time_known ? Json(fault.end_ns) : Json();
  return json;
}

Json FileJson(const session::VerifiedFile& file) {
  Json json;
  json["name"] = file.name;
  json["file_bytes"] = file.file_bytes;
  json["chunk_count"] = file.chunk_count;
  json["event_count"] = file.event_count;
  json["unknown_kind_events"] = file.unknown_kind_events;
  json["has_index"] = file.has_index;
  json["fault_count"] = file.fault_count;
  return json;
}

Json SessionFacts(const session::VerifiedSession& session) {
  Json json;
  json["directory"] = session.directory.string();
  json["session_id"] = session.session_id.empty() ? Json() : Json(session.session_id);
  json["sound"] = session.sound();
  json["still_written"] = session.still_written;
  json["event_count"] = session.event_count();
  json["lost_events"] = session.lost_events();
  json["loss_known"] = session.loss_known();
  json["fault_count"] = session.fault_count;
  json["faults"] = Json::array();
  for (const session::Fault& fault : session.faults) json["faults"].push_back(FaultJson(fault));
  json["files"] = Json::array();
  for (const session::VerifiedFile& file : session.files) json["files"].push_back(FileJson(file));
  json["notes"] = session.notes;
  return json;
}

}  // namespace

std::string VerifiedJson(const session::VerifiedSession& session) { return Dump(SessionFacts(session)); }

std::string RepairedJson(const session::RepairedSession& repaired, bool changed) {
  Json json;
  json["repaired"] = changed;
  json["directory"] = changed ? Json(repaired.directory.string()) : Json();
  json["session_id"] = changed ? Json(repaired.session_id) : Json();
  json["event_count"] = changed ? Json(repaired.event_count) : Json();
  json["lost_events"] = changed ? Json(repaired.lost_events) : Json();
  json["before"] = SessionFacts(repaired.before);
  return Dump(json);
}

}  // namespace smeltr::faces
