#include "faces/answer_json.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "analysis/notices.h"
#include "event/names.h"

namespace smeltr::faces {
namespace {

using Json = nlohmann::ordered_json;

double Percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string Dump(const Json& json) {
  // Recorded text may hold anything; malformed UTF-8 becomes U+FFFD.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json SessionFacts(const OpenedSession& session) {
  const session::Metadata& metadata = session.stored.metadata;
  Json json;
  json["session_id"] = TextOrNull(metadata.session_id);
  json["short_id"] = session.stored.short_id();
  json["name"] = TextOrNull(metadata.name);
  json["kind"] = session::Name(metadata.kind);
  json["state"] = Name(session.state);
  json["started"] = TextOrNull(metadata.started_rfc3339);
  json["ended"] = TextOrNull(metadata.ended_rfc3339);
  json["end_reason"] = TextOrNull(metadata.end_reason);
  json["exit_code"] = OrNull(metadata.exit_code);
  json["term_signal"] = OrNull(metadata.term_signal);
  json["core_dumped"] = metadata.core_dumped;
  json["duration_ns"] = session.duration_ns();
  json["event_count"] = session.event_count();
  json["file_bytes"] = session.file_bytes();
  json["argv"] = metadata.argv;
  json["directory"] = session.stored.directory.string();
  return json;
}

Json ListedFacts(const ListedSession& session) {
  Json json = SessionFacts(session.opened);
  json["disk_bytes"] = session.disk_bytes;
  json["pinned"] = session.pinned;
  json["source_session_id"] = TextOrNull(session.opened.stored.metadata.source_session_id);
  json["reason"] = TextOrNull(ReasonText(session.opened.stored.metadata));
  json["post_mortem_count"] = session.post_mortems.size();
  json["post_mortems"] = Json::array();
  for (const PostMortemNote& one : session.post_mortems) json["post_mortems"].push_back(one.short_id);
  return json;
}

Json DamageJson(const OpenedSession& session) {
  const session::Damage damage = session.damage();
  Json json;
  json["skipped_bytes"] = damage.skipped_bytes;
  json["skipped_chunks"] = damage.skipped_chunks;
  json["torn_tail"] = damage.torn_tail;
  json["no_footer"] = damage.no_footer;
  json["unknown_kind_events"] = damage.unknown_kind_events;
  json["problems"] = session.problems;
  return json;
}

Json CbCountsJson(const analysis::CbCounts& counts) {
  Json json;
  json["committed"] = counts.committed;
  json["completed"] = counts.completed;
  json["incomplete"] = counts.incomplete;
  json["untimed"] = counts.untimed;
  json["cut_away"] = counts.cut_away;
  json["failed"] = counts.failed;
  json["abandoned"] = counts.abandoned;
  json["commit_lost"] = counts.commit_lost;
  json["without_time"] = counts.without_time;
  json["host_timed"] = counts.host_timed;
  json["clipped"] = counts.clipped;
  return json;
}

Json SkipsJson(const std::vector<analysis::Skip>& skips) {
  Json json = Json::array();
  for (const analysis::Skip& skip : skips) {
    json.push_back({{"api", event::EnumName(skip.api)},
                    {"reason", event::EnumName(skip.reason)},
                    {"text", analysis::Describe(skip.reason)},
                    {"detail", TextOrNull(skip.detail)},
                    {"count", skip.count}});
  }
  return json;
}

// --- breakdown ---
Json OpJson(const analysis::OpRow& op) {
  Json json;
  json["name"] = op.name;
  json["symbol"] = TextOrNull(op.symbol);
  json["kind"] = TextOrNull(op.kind);
  json["gpu_ns"] = op.gpu_ns;
  json["count"] = op.count;
  Json precision = Json::object();
  for (size_t i = 0; i < analysis::kPrecisions; ++i) {
    if (op.precision_ns[i] > 0) precision[std::string(analysis::PrecisionName(i))] = op.precision_ns[i];
  }
  json["precision_ns"] = std::move(precision);
  return json;
}

Json FieldValue(const analysis::Field& field) {
  switch (field.type) {
    case event::AttributeType::kBool:
      return field.bits != 0;
    case event::AttributeType::kInt:
      return static_cast<int64_t>(field.bits);
    case event::AttributeType::kFloat: {
      const auto value = std::bit_cast<double>(field.bits);
      return std::isfinite(value) ? Json(value) : Json();
    }
    case event::AttributeType::kString:
      break;
  }
  return field.text;
}

void AddOps(Json& json, const std::vector<analysis::OpRow>& ops, std::optional<uint64_t> limit) {
  const size_t shown = limit ? std::min<size_t>(ops.size(), *limit) : ops.size();
  Json rows = Json::array();
  for (size_t i = 0; i < shown; ++i) rows.push_back(OpJson(ops[i]));
  json["ops"] = std::move(rows);
  if (shown < ops.size()) json["ops_cut"] = ops.size() - shown;
}

// Recursion is as deep as the tree, which the analysis bounds (kMaxTreeDepth).
Json NodeJson(const analysis::Breakdown& breakdown, const BreakdownView& view,
              const analysis::ShownTree& tree, uint32_t number) {
  const analysis::Node& node = breakdown.nodes[number];
  Json json;
  json["qualname"] = node.qualname;
  if (!node.class_name.empty()) json["class_name"] = node.class_name;
  if (!node.fields.empty()) {
    Json fields = Json::object();
    for (const analysis::Field& field : node.fields) fields[field.key] = FieldValue(field);
    json["fields"] = std::move(fields);
  }
  if (!node.varied_fields.empty()) json["varied_fields"] = node.varied_fields;
  json["calls"] = node.calls;
  json["gpu_ns_self"] = node.gpu_ns_self;
  json["gpu_ns_subtree"] = node.gpu_ns_subtree;
  json["pct"] = Percent(node.gpu_ns_subtree, breakdown.nodes[0].gpu_ns_subtree);
  json["cb_count"] = node.cb_count;
  json["eval_count"] = node.eval_count;
  if (view.ops) AddOps(json, node.ops, view.limits.top_ops);
  Json children = Json::array();
  for (const uint32_t child : node.children) {
    if (tree.shown[child]) children.push_back(NodeJson(breakdown, view, tree, child));
  }
  json["children"] = std::move(children);
  return json;
}

Json DiagnosticsJson(const analysis::Breakdown& breakdown) {
  const analysis::Diagnostics& diagnostics = breakdown.diagnostics;
  Json json;
  for (size_t i = 0; i < analysis::kMethods; ++i) {
    const std::string name(Name(static_cast<analysis::Method>(i)));
    json["methods"][name] = {{"cbs", diagnostics.method_cbs[i]}, {"gpu_ns", diagnostics.method_ns[i]}};
  }
  for (size_t i = 1; i < analysis::kUnscopedReasons; ++i) {
    const std::string name(Name(static_cast<analysis::UnscopedReason>(i)));
    json["unscoped_cbs"][name] = diagnostics.unscoped_cbs[i];
  }
  json["cbs_incomplete"] = breakdown.cbs.incomplete;
  json["orphan_ops"] = diagnostics.orphan_ops;
  json["orphan_returns"] = diagnostics.orphan_returns;
  json["open_at_end"] = diagnostics.open_at_end;
  json["lost_parents"] = diagnostics.lost_parents;
  json["depth_folded"] = diagnostics.depth_folded;
  json["cbs_without_ops"] = diagnostics.cbs_without_ops;
  json["cbs_ops_rescaled"] = diagnostics.cbs_ops_rescaled;
  json["clipped"] = breakdown.cbs.clipped;
  json["op_kinds_version"] = analysis::kOpKindsVersion;
  return json;
}

Json PrecisionJson(const analysis::Breakdown& breakdown) {
  Json json;
  for (size_t i = 0; i < analysis::kPrecisions; ++i) {
    json[std::string(analysis::PrecisionName(i))] = {
        {"gpu_ns", breakdown.precision_ns[i]}, {"pct", Percent(breakdown.precision_ns[i], breakdown.gpu_ns)}};
  }
  return json;
}

Json QueueTimesJson(const std::vector<analysis::QueueTime>& queues) {
  Json json = Json::array();
  for (const analysis::QueueTime& queue : queues) {
    json.push_back({{"pid", queue.pid},
                    {"queue_id", queue.queue_id},
                    {"label", TextOrNull(queue.label)},
                    {"gpu_ns", queue.gpu_ns},
                    {"span_ns", queue.span_ns}});
  }
  return json;
}

}  // namespace

std::string BreakdownJson(const OpenedSession& session, const analysis::Breakdown& breakdown,
                          const BreakdownView& view) {
  const LostCounts lost = LostEvents(session, breakdown.loss);
  Json json;
  json["session"] = SessionFacts(session);
  json["gpu_ns"] = breakdown.gpu_ns;
  json["gpu_ns_raw"] = breakdown.gpu_ns_raw;
  json["wall_ns"] = breakdown.wall_ns;
  json["exact_pct"] = Percent(breakdown.exact_ns, breakdown.gpu_ns);
  json["window_pct"] = Percent(breakdown.window_ns, breakdown.gpu_ns);
  json["unscoped_pct"] = Percent(breakdown.unscoped_ns, breakdown.gpu_ns);
  json["dropped_events"] = lost.dropped;
  json["storage_lost_events"] = lost.storage;
  json["trimmed_events"] = lost.trimmed;
  json["host_timed_pct"] = Percent(breakdown.host_timed_ns, breakdown.gpu_ns);
  json["precision"] = PrecisionJson(breakdown);
  json["command_buffers"] = CbCountsJson(breakdown.cbs);
  json["queues"] = QueueTimesJson(breakdown.queues);
  json["diagnostics"] = DiagnosticsJson(breakdown);
  json["skipped"] = SkipsJson(breakdown.loss.skips);
  json["damage"] = DamageJson(session);
  json["notices"] = Json::array();
  for (const analysis::Notice& notice : breakdown.notices) {
    json["notices"].push_back({{"code", notice.code}, {"text", notice.text}});
  }
  json["filtered"] = breakdown.filtered;
  if (view.flat_ops) AddOps(json, analysis::FlatOps(breakdown, *view.flat_ops), view.limits.top);
  const analysis::ShownTree tree = analysis::SelectNodes(breakdown, view.limits);
  json["nodes_cut"] = tree.nodes_cut;
  json["root"] = NodeJson(breakdown, view, tree, 0);
  return Dump(json);
}

std::string SessionsJson(const std::vector<ListedSession>& sessions, size_t hidden_count) {
  Json json;
  json["sessions"] = Json::array();
  for (const ListedSession& session : sessions) json["sessions"].push_back(ListedFacts(session));
  json["hidden_count"] = hidden_count;
  return Dump(json);
}

namespace {

Json DevicesJson(const analysis::Overview& overview) {
  Json json = Json::array();
  for (const analysis::DeviceRow& device : overview.devices) {
    json.push_back({{"pid", device.pid},
                    {"api", event::EnumName(device.api)},
                    {"device_id", device.device_id},
                    {"name", device.name},
                    {"driver", device.driver},
                    {"api_version", device.api_version}});
  }
  return json;
}

Json QueuesJson(const analysis::Overview& overview) {
  Json json = Json::array();
  for (const analysis::QueueRow& queue : overview.queues) {
    json.push_back({{"pid", queue.pid},
                    {"api", event::EnumName(queue.api)},
                    {"queue_id", queue.queue_id},
                    {"device_id", queue.device_id},
                    {"label", TextOrNull(queue.label)},
                    {"timestamp_valid_bits", queue.timestamp_valid_bits}});
  }
  return json;
}

Json ProcessesJson(const analysis::Overview& overview) {
  Json json = Json::array();
  for (const analysis::ProcessRow& process : overview.processes) {
    Json row{{"pid", process.pid},
             {"parent_pid", process.parent_pid},
             {"executable", TextOrNull(process.executable)},
             {"exited", process.exited}};
    row["exit_code"] = process.exited && process.term_signal == 0 ? Json(process.exit_code) : Json();
    row["term_signal"] = process.term_signal != 0 ? Json(process.term_signal) : Json();
    json.push_back(std::move(row));
  }
  return json;
}

Json ErrorsJson(const analysis::Overview& overview) {
  Json json = Json::array();
  for (const analysis::ErrorRow& error : overview.errors) {
    json.push_back({{"api", event::EnumName(error.api)},
                    {"call", error.call},
                    {"error_code", error.error_code},
                    {"error_name", error.error_name},
                    {"count", error.count},
                    {"first_ts_ns", error.first_ts_ns}});
  }
  return json;
}

Json InFlightJson(const analysis::Overview& overview) {
  Json json = Json::array();
  for (const analysis::InFlightRow& cb : overview.in_flight) {
    json.push_back({{"pid", cb.pid},
                    {"cb_id", cb.cb_id},
                    {"queue_id", cb.queue_id},
                    {"queue_label", TextOrNull(cb.queue_label)},
                    {"scope_path", TextOrNull(cb.scope_path)},
                    {"commit_ns", cb.commit_ns},
                    {"age_ns", cb.age_ns}});
  }
  return json;
}

Json MarksJson(const SessionNotes& notes) {
  Json json = Json::array();
  for (const MarkNote& mark : notes.marks) {
    json.push_back({{"ts_ns", mark.ts_ns},
                    {"pid", mark.pid == 0 ? Json() : Json(mark.pid)},
                    {"label", mark.label},
                    {"fields", TextOrNull(mark.fields)}});
  }
  return json;
}

Json CrashJson(const SessionNotes& notes) {
  Json json = Json::array();
  for (const CrashNote& note : notes.crash) {
    json.push_back({{"ts_ns", note.ts_ns},
                    {"pid", note.pid == 0 ? Json() : Json(note.pid)},
                    {"source", note.source},
                    {"text", note.text},
                    {"report_path", TextOrNull(note.report_path)}});
  }
  return json;
}

Json TriggersJson(const session::Metadata& metadata) {
  Json json = Json::array();
  for (const session::TriggerNote& trigger : metadata.triggers) {
    json.push_back({{"class", trigger.trigger_class}, {"text", trigger.text}, {"ts_ns", trigger.ts_ns}});
  }
  return json;
}

}  // namespace

std::string SessionJson(const ListedSession& listed, const analysis::Overview& overview,
                        const SessionNotes& notes) {
  const OpenedSession& session = listed.opened;
  const session::Metadata& metadata = session.stored.metadata;
  const LostCounts lost = LostEvents(session, overview.loss);
  Json json = ListedFacts(listed);
  json["host"] = TextOrNull(metadata.host);
  json["cwd"] = TextOrNull(metadata.cwd);
  json["root_pid"] = metadata.root_pid;
  json["start_mono_ns"] = metadata.start_mono_ns;
  json["first_ts_ns"] = overview.range.begin_ns;
  json["last_ts_ns"] = overview.range.end_ns;
  json["max_rss_bytes"] = metadata.max_rss_bytes;
  json["user_cpu_ns"] = metadata.user_cpu_ns;
  json["system_cpu_ns"] = metadata.system_cpu_ns;
  json["smeltr_version"] = TextOrNull(metadata.smeltr_version);
  json["hook_state"] = TextOrNull(metadata.hook_state);
  json["hook_reason"] = TextOrNull(metadata.hook_reason);
  json["imported"] = TextOrNull(metadata.imported_rfc3339);
  json["imported_from"] = TextOrNull(metadata.imported_from);
  json["imported_format"] = TextOrNull(metadata.imported_format);
  json["import_notes"] = metadata.import_notes;
  json["event_counts"] = Json::object();
  for (const session::KindCount& one : session.counts()) {
    json["event_counts"][std::string(event::KindName(one.api, one.kind).view())] = one.count;
  }
  json["dropped_events"] = lost.dropped;
  json["storage_lost_events"] = lost.storage;
  json["trimmed_events"] = lost.trimmed;
  json["corrupt_frames"] = metadata.corrupt_frames;
  json["damage"] = DamageJson(session);
  json["skipped"] = SkipsJson(overview.loss.skips);
  json["command_buffers"] = CbCountsJson(overview.cbs);
  json["in_flight"] = InFlightJson(overview);
  json["devices"] = DevicesJson(overview);
  json["queues"] = QueuesJson(overview);
  json["processes"] = ProcessesJson(overview);
  json["errors"] = ErrorsJson(overview);
  json["failures"] = Json::array();
  for (const analysis::FailureRow& failure : overview.failures) {
    json["failures"].push_back({{"ts_ns", failure.ts_ns}, {"pid", failure.pid}, {"text", failure.text}});
  }
  json["silent_hooks"] = overview.silent_hooks;
  json["crash"] = CrashJson(notes);
  json["marks"] = MarksJson(notes);
  json["mark_count"] = notes.mark_count;
  json["triggers"] = TriggersJson(metadata);
  json["trigger_count"] = metadata.trigger_count;
  return Dump(json);
}

}  // namespace smeltr::faces
