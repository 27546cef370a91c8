#include "session/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <sstream>
#include <string_view>

#include "base/utf8.h"
#include "session/chunk_header.h"
#include "util/file.h"
#include "util/toml.h"

namespace smeltr::session {
namespace {

constexpr std::string_view kFile = "metadata.toml";
constexpr size_t kMaxFileBytes = size_t{4} << 20;
constexpr std::string_view kChecksumMark = "# checksum ";
constexpr std::array<std::string_view, 3> kKinds = {"ambient", "scoped", "post-mortem"};

// TOML integers are signed; larger numbers are kept as they are bit for bit.
int64_t Signed(uint64_t value) { return static_cast<int64_t>(value); }

// Each key once, for both directions: `io` is a Loader or a Storer.
template <typename Io, typename M>
void VisitKeys(Io& io, M& metadata) {
  io("session_id", metadata.session_id);
  io("kind", metadata.kind);
  io("name", metadata.name);
  io("started", metadata.started_rfc3339);
  io("ended", metadata.ended_rfc3339);
  io("start_mono_ns", metadata.start_mono_ns);
  io("boot_id", metadata.boot_id);
  io("host", metadata.host);
  io("argv", metadata.argv);
  io("cwd", metadata.cwd);
  io("root_pid", metadata.root_pid);
  io("root_start_time_ticks", metadata.root_start_time_ticks);
  io("scope_token", metadata.scope_token);
  io("exit_code", metadata.exit_code);
  io("term_signal", metadata.term_signal);
  io("core_dumped", metadata.core_dumped);
  io("max_rss_bytes", metadata.max_rss_bytes);
  io("user_cpu_ns", metadata.user_cpu_ns);
  io("system_cpu_ns", metadata.system_cpu_ns);
  io("end_mono_ns", metadata.end_mono_ns);
  io("end_reason", metadata.end_reason);
  io("hook_state", metadata.hook_state);
  io("hook_reason", metadata.hook_reason);
  io("source_session_id", metadata.source_session_id);
  io("smeltr_version", metadata.smeltr_version);
  io("storage_lost_count", metadata.storage_lost_count);
  io("corrupt_frames", metadata.corrupt_frames);
  io("max_size_bytes", metadata.max_size_bytes);
  io("trimmed_event_count", metadata.trimmed_event_count);
  io("trimmed_files", metadata.trimmed_files);
  io("post_mortems", metadata.post_mortems);
  io("related_sessions", metadata.related_sessions);
  io("trigger_count", metadata.trigger_count);
  io("covered_begin_ns", metadata.covered_begin_ns);
  io("covered_end_ns", metadata.covered_end_ns);
  io("recorder_evicted_count", metadata.recorder_evicted_count);
  io("imported", metadata.imported_rfc3339);
  io("imported_from", metadata.imported_from);
  io("imported_format", metadata.imported_format);
  io("import_notes", metadata.import_notes);
  io("repaired", metadata.repaired_rfc3339);
  io("repaired_from", metadata.repaired_from_id);
  io("repair_lost_count", metadata.repair_lost_count);
  io("repair_notes", metadata.repair_notes);
  io("event_counts", metadata.event_counts);
  io("dropped_counts", metadata.dropped_counts);
  io("triggers", metadata.triggers);
}

// TOML holds UTF-8 only, but arguments, paths and names may hold anything.
std::string ValidUtf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const size_t bytes = Utf8CharacterBytes(text);
    valid += bytes == 0 ? kReplacementCharacter : text.substr(0, bytes);
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return valid;
}

// Values of another type than expected count as missing.
class Loader {
 public:
  explicit Loader(const toml::table& table) : table_(table) {}

  void operator()(std::string_view key, std::string& value) { value = table_[key].value_or(std::string()); }
  void operator()(std::string_view key, bool& value) { value = table_[key].value_or(false); }
  void operator()(std::string_view key, uint64_t& value) {
    value = static_cast<uint64_t>(table_[key].value_or(int64_t{0}));
  }
  void operator()(std::string_view key, uint32_t& value) {
    const int64_t number = table_[key].value_or(int64_t{0});
    value = number >= 0 && number <= UINT32_MAX ? static_cast<uint32_t>(number) : 0;
  }
  void operator()(std::string_view key, std::optional<int>& value) {
    const std::optional<int64_t> number = table_[key].value<int64_t>();
    value.reset();
    if (number && *number >= INT32_MIN && *number <= INT32_MAX) value = static_cast<int>(*number);
  }
  void operator()(std::string_view key, SessionKind& value) {
    const auto* found = std::ranges::find(kKinds, table_[key].value_or(std::string_view()));
    value = found == kKinds.end() ? SessionKind::kScoped : static_cast<SessionKind>(found - kKinds.begin());
  }
  void operator()(std::string_view key, std::vector<std::string>& value) {
    value.clear();
    const toml::array* array = table_[key].as_array();
    if (array == nullptr) return;
    for (const toml::node& node : *array) value.push_back(node.value_or(std::string()));
  }
  void operator()(std::string_view key, std::map<std::string, uint64_t>& value) {
    value.clear();
    const toml::table* counts = table_[key].as_table();
    if (counts == nullptr) return;
    for (const auto& [name, node] : *counts) {
      if (node.is_integer())
        value[std::string(name.str())] = static_cast<uint64_t>(node.value_or(int64_t{0}));
    }
  }
  void operator()(std::string_view key, std::vector<TriggerNote>& value) {
    value.clear();
    const toml::array* array = table_[key].as_array();
    if (array == nullptr) return;
    for (const toml::node& node : *array) {
      const toml::table* note = node.as_table();
      if (note == nullptr) continue;
      value.push_back({.trigger_class = (*note)["class"].value_or(std::string()),
                       .text = (*note)["text"].value_or(std::string()),
                       .ts_ns = static_cast<uint64_t>((*note)["ts_ns"].value_or(int64_t{0}))});
    }
  }

 private:
  const toml::table& table_;
};

// Empty and absent values have no key, so that a reader of the file sees only what is known.
class Storer {
 public:
  explicit Storer(toml::table& table) : table_(table) {}

  void operator()(std::string_view key, const std::string& value) {
    Store(key, ValidUtf8(value), !value.empty());
  }
  void operator()(std::string_view key, bool value) { Store(key, value, value); }
  void operator()(std::string_view key, uint64_t value) { Store(key, Signed(value), value != 0); }
  void operator()(std::string_view key, uint32_t value) { Store(key, int64_t{value}, value != 0); }
  void operator()(std::string_view key, const std::optional<int>& value) {
    Store(key, int64_t{value.value_or(0)}, value.has_value());
  }
  void operator()(std::string_view key, SessionKind value) {
    Store(key, kKinds[static_cast<size_t>(value)], true);
  }
  void operator()(std::string_view key, const std::vector<std::string>& value) {
    toml::array array;
    for (const std::string& item : value) array.push_back(ValidUtf8(item));
    Store(key, std::move(array), !value.empty());
  }
  void operator()(std::string_view key, const std::map<std::string, uint64_t>& value) {
    toml::table counts;
    for (const auto& [name, count] : value) counts.insert_or_assign(ValidUtf8(name), Signed(count));
    Store(key, std::move(counts), !value.empty());
  }
  void operator()(std::string_view key, const std::vector<TriggerNote>& value) {
    toml::array array;
    for (const TriggerNote& note : value) {
      array.push_back(toml::table{{"class", ValidUtf8(note.trigger_class)},
                                  {"text", ValidUtf8(note.text)},
                                  {"ts_ns", Signed(note.ts_ns)}});
    }
    Store(key, std::move(array), !value.empty());
  }

 private:
  template <typename T>
  void Store(std::string_view key, T&& value, bool present) {
    if (present) {
      table_.insert_or_assign(key, std::forward<T>(value));
    } else {
      table_.erase(key);
    }
  }

  toml::table& table_;
};

// The last line of a file that begins with `text`.
std::string ChecksumLine(std::string_view text) {
  return fmt::format("{}{:016x}\n", kChecksumMark, Checksum(std::as_bytes(std::span(text))));
}

Result<toml::table> LoadTable(const std::filesystem::path& file) {
  SMELTR_ASSIGN_OR_RETURN(const std::string text, ReadFile(file, kMaxFileBytes));
  toml::parse_result parsed = ParseToml(text, file.native());
  if (!parsed) {
    std::ostringstream reason;
    reason << file.native() << " is damaged: " << parsed.error().description() << " (line "
           << parsed.error().source().begin.line << ")";
    return Fail(ErrorCode::kCorrupt, reason.str());
  }
  return std::move(parsed).table();
}

}  // namespace

std::string_view Name(SessionKind kind) { return kKinds[static_cast<size_t>(kind)]; }

std::string ShortId(const Metadata& metadata) { return metadata.session_id.substr(0, 8); }

Result<Metadata> ReadMetadata(const std::filesystem::path& directory) {
  SMELTR_ASSIGN_OR_RETURN(const toml::table table, LoadTable(directory / kFile));
  Metadata metadata;
  Loader loader(table);
  VisitKeys(loader, metadata);
  return metadata;
}

Result<bool> MetadataIsUnchanged(const std::filesystem::path& directory) {
  SMELTR_ASSIGN_OR_RETURN(const std::string text, ReadFile(directory / kFile, kMaxFileBytes));
  const size_t mark = text.rfind(kChecksumMark);
  // In front of it a line ends: a value may hold the same words.
  if (mark == std::string::npos || mark == 0 || text[mark - 1] != '\n') return true;
  const std::string_view before = std::string_view(text).substr(0, mark);
  return std::string_view(text).substr(mark) == ChecksumLine(before);
}

Result<void> WriteMetadata(const std::filesystem::path& directory, const Metadata& metadata) {
  const std::filesystem::path file = directory / kFile;
  // Keys of a newer version stay. A file that cannot be read has none worth keeping.
  toml::table table;
  if (Result<toml::table> existing = LoadTable(file)) table = std::move(*existing);
  Storer storer(table);
  VisitKeys(storer, metadata);
  std::ostringstream text;
  text << toml::toml_formatter(table) << '\n';
  return WriteFileAtomically(file, text.str() + ChecksumLine(text.str()), 0600, FileSync::kDisk);
}

}  // namespace smeltr::session
