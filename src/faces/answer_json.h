// Answers as JSON: one documented shape each (docs/usage.md), used by every face. Keys are stable; times
// are integers in ns, shares are per cent as numbers. Pretty-printed, with a newline at the end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/breakdown.h"
#include "analysis/overview.h"
#include "faces/listed_session.h"
#include "faces/opened_session.h"
#include "faces/session_notes.h"

namespace smeltr::faces {

struct BreakdownView {
  analysis::TreeLimits limits{};
  bool ops = true;
  std::optional<analysis::GroupBy> flat_ops{};  // Set: adds the flat list `ops` of the whole tree.
};

std::string BreakdownJson(const OpenedSession& session, const analysis::Breakdown& breakdown,
                          const BreakdownView& view);
// `hidden_count` more exist, of kinds that were not asked for.
std::string SessionsJson(const std::vector<ListedSession>& sessions, size_t hidden_count);
std::string SessionJson(const ListedSession& session, const analysis::Overview& overview,
                        const SessionNotes& notes);

}  // namespace smeltr::faces
