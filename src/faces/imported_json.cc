#include "faces/imported_json.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

namespace smeltr::faces {
namespace {

using Json = nlohmann::ordered_json;

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json RowJson(const ImportRow& row) {
  static constexpr std::array<std::string_view, 3> kOutcomes = {"imported", "replaced", "already there"};
  const session::Metadata& metadata = row.imported.stored.metadata;
  const bool failed = !row.error.empty();
  Json json;
  json["source"] = row.source;
  json["outcome"] = failed ? "failed" : kOutcomes[static_cast<size_t>(row.imported.outcome)];
  json["error"] = TextOrNull(row.error);
  json["session_id"] = TextOrNull(metadata.session_id);
  json["short_id"] = TextOrNull(failed ? "" : row.imported.stored.short_id());
  json["name"] = TextOrNull(metadata.name);
  json["directory"] = TextOrNull(row.imported.stored.directory.string());
  json["format"] = TextOrNull(metadata.imported_format);
  json["event_count"] = row.imported.event_count;
  json["opaque_events"] = row.imported.opaque_count;
  json["lossy"] = row.imported.lossy;
  json["notes"] = row.imported.notes;
  return json;
}

}  // namespace

std::string ImportedJson(const std::vector<ImportRow>& rows, uint64_t own_count) {
  Json json;
  json["sessions"] = Json::array();
  uint64_t imported_count = 0;
  uint64_t failed_count = 0;
  for (const ImportRow& row : rows) {
    json["sessions"].push_back(RowJson(row));
    if (!row.error.empty()) {
      ++failed_count;
    } else if (row.imported.outcome != session::ImportOutcome::kAlreadyThere) {
      ++imported_count;
    }
  }
  json["imported_count"] = imported_count;
  json["already_there_count"] = rows.size() - imported_count - failed_count;
  json["failed_count"] = failed_count;
  json["own_count"] = own_count;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace smeltr::faces
