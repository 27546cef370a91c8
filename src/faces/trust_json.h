// What `sessions verify` and `sessions repair` found and did, as JSON: more of answer_json.h, same rules.
#pragma once

#include <string>

#include "session/repair.h"
#include "session/verify.h"

namespace smeltr::faces {

std::string VerifiedJson(const session::VerifiedSession& session);
// `changed`: false when there was nothing to repair; then only `before` is filled in.
std::string RepairedJson(const session::RepairedSession& repaired, bool changed);

}  // namespace smeltr::faces
