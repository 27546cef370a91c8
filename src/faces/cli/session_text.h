// How commands write about sessions.
#pragma once

#include <string>

#include "faces/cli/console.h"
#include "session/metadata.h"

namespace smeltr::faces::cli {

// Local "2026-03-01 14:05:09"; "?" when unknown.
std::string StartText(const session::Metadata& metadata);
// "03-01 14:05" of this year's and the last months', else "2024-03-01".
std::string ShortStartText(const session::Metadata& metadata);

// Asks on the terminal; true for yes. Without a terminal to ask on: true, a script means what it says.
bool Confirmed(Console& console, const std::string& question);

}  // namespace smeltr::faces::cli
