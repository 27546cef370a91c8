#include "daemon/scope_names.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "event/event.h"
#include "session/reader.h"
#include "session/segmented_writer.h"
#include "session/writer.h"

namespace smeltr::daemon {
namespace {

constexpr uint64_t kLimitNs = 3 * kNsPerSecond;
constexpr int kMaxDepth = 64;
constexpr size_t kMaxScopes = 100'000;

using Scope = std::pair<uint32_t, uint64_t>;  // Pid and id.
using Scopes = std::set<Scope>;

struct Known {
  Scopes there;
  Scopes missing;
};

// What the events of `dump` hold, and what they refer to besides.
Known KnownTo(const session::Reader& dump) {
  Scopes wanted;
  Known known;
  const auto want = [&](uint32_t pid, event::ScopeId scope) {
    if (scope != event::ScopeId{} && wanted.size() < kMaxScopes) wanted.emplace(pid, event::Raw(scope));
  };
  dump.ForEachOf<event::CbCommitted>([&](const event::Envelope& envelope, const event::CbCommitted& fields) {
    want(envelope.pid, fields.scope_id);
  });
  dump.ForEachOf<event::CbOps>([&](const event::Envelope& envelope, const event::CbOps& fields) {
    for (const event::OpSample& op : fields.ops) want(envelope.pid, op.scope_id);
  });
  dump.ForEachOf<event::ModuleEntered>(
      [&](const event::Envelope& envelope, const event::ModuleEntered& fields) {
        want(envelope.pid, fields.parent_call_id);
        known.there.emplace(envelope.pid, event::Raw(fields.module_call_id));
      });
  std::ranges::set_difference(wanted, known.there, std::inserter(known.missing, known.missing.end()));
  return known;
}

std::vector<session::Reader> OpenFiles(const std::filesystem::path& directory) {
  std::vector<session::Reader> readers;
  for (const uint32_t number : session::ListSegments(directory)) {
    auto reader = session::Reader::Open(directory / session::SegmentName(number));
    if (reader.has_value()) readers.push_back(std::move(*reader));
  }
  return readers;
}

}  // namespace

Result<uint64_t> CarryScopes(const std::filesystem::path& source, const std::filesystem::path& dump,
                             uint64_t first_seq) {
  SMELTR_ASSIGN_OR_RETURN(const session::Reader written,
                          session::Reader::Open(dump / session::SegmentName(0)));
  Known known = KnownTo(written);
  if (known.missing.empty()) return 0;
  const std::vector<session::Reader> files = OpenFiles(source);
  SMELTR_ASSIGN_OR_RETURN(session::Writer writer,
                          session::Writer::Create(dump / session::SegmentName(1),
                                                  session::WriterOptions{.first_seq = first_seq}));
  const uint64_t give_up_ns = MonotonicNowNs() + kLimitNs;
  uint64_t count = 0;
  // Parents are found one level a pass.
  for (int depth = 0; depth < kMaxDepth && !known.missing.empty() && MonotonicNowNs() < give_up_ns; ++depth) {
    const Scopes wanted = std::exchange(known.missing, {});
    for (const session::Reader& file : files) {
      file.ForEachOf<event::ModuleEntered>(
          [&](const event::Envelope& envelope, const event::ModuleEntered& scope) {
            const Scope id(envelope.pid, event::Raw(scope.module_call_id));
            if (!wanted.contains(id) || !known.there.insert(id).second) return;
            writer.Append({envelope, scope});
            ++count;
            const Scope parent(envelope.pid, event::Raw(scope.parent_call_id));
            if (parent.second != 0 && !known.there.contains(parent)) known.missing.insert(parent);
          });
    }
    for (const Scope& found : known.there) known.missing.erase(found);
  }
  SMELTR_TRY(writer.Close());
  std::error_code error;
  if (count == 0) std::filesystem::remove(dump / session::SegmentName(1), error);
  return count;
}

}  // namespace smeltr::daemon
