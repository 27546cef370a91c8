// What `smeltr import` did, as JSON: more of answer_json.h, same rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "session/import_target.h"

namespace smeltr::faces {

// One file or directory that was to be imported.
struct ImportRow {
  std::string source;
  session::ImportedSession imported;
  std::string error;  // Why it was not, if so.
};
// `own_count`: sessions of this smeltr found among the others, which need no import.
std::string ImportedJson(const std::vector<ImportRow>& rows, uint64_t own_count);

}  // namespace smeltr::faces
