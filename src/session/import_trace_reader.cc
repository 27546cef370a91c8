#include "session/import_trace_reader.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "util/file.h"
#include "util/format.h"

namespace smeltr::session {
namespace {

constexpr size_t kMaxEventBytes = size_t{1} << 20;
constexpr size_t kWindowBytes = size_t{4} << 20;
constexpr size_t kSmallWindowBytes = size_t{64} << 10;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kGzipMagic = "\x1F\x8B";

// The part of a file that is looked at, moving forward.
class Window {
 public:
  Window(Fd fd, uint64_t file_bytes)
      : fd_(std::move(fd)),
        buffer_(static_cast<size_t>(std::clamp<uint64_t>(file_bytes, kSmallWindowBytes, kWindowBytes)),
                '\0') {}

  // Makes kMaxEventBytes ready, or all that is left. An unreadable file ends where it cannot be read.
  void Fill() {
    if (ended_ || end_ - begin_ >= kMaxEventBytes) return;
    buffer_.replace(0, end_ - begin_, buffer_, begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    while (end_ < buffer_.size()) {
      const ssize_t got = ::read(fd_.get(), buffer_.data() + end_, buffer_.size() - end_);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        ended_ = true;
        return;
      }
      end_ += static_cast<size_t>(got);
    }
  }
  // At most kMaxEventBytes, so that damage is never looked for any further.
  std::string_view view() const {
    return std::string_view(buffer_).substr(begin_, std::min(end_ - begin_, kMaxEventBytes));
  }
  void Advance(size_t count) {
    begin_ += count;
    offset_ += count;
  }
  uint64_t offset() const { return offset_; }

 private:
  Fd fd_;
  std::string buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t offset_ = 0;
  bool ended_ = false;
};

class TraceParser {
 public:
  TraceParser(Fd fd, uint64_t size, const TraceReadOptions& options)
      : window_(std::move(fd), size), size_(size), options_(options) {}

  Result<void> Run() {
    window_.Fill();
    if (window_.view().starts_with(kGzipMagic)) {
      return Fail(ErrorCode::kUnsupported, "it is compressed with gzip: gunzip it first");
    }
    if (window_.view().starts_with(kByteOrderMark)) window_.Advance(kByteOrderMark.size());
    const char first = NextCharacter();
    if (first != '{' && first != '[') return Fail(ErrorCode::kCorrupt, "it is no JSON trace");
    window_.Advance(1);
    if (first == '[') {
      Events();
    } else {
      Properties();
    }
    EndDamage(window_.offset());
    return {};
  }

 private:
  // The next character behind white space and commas, not consumed; 0 at the end of the file.
  char NextCharacter() {
    while (true) {
      window_.Fill();
      const std::string_view view = window_.view();
      const size_t at = view.find_first_not_of(" \t\r\n,");
      window_.Advance(at == std::string_view::npos ? view.size() : at);
      if (at != std::string_view::npos) return view[at];
      if (view.empty()) return 0;
    }
  }

  void Properties() {
    while (true) {
      const char next = NextCharacter();
      if (next == '}') return;
      if (next == 0) {
        if (!cut_off_) options_.notes->Add("the file has no end: it was cut off, or is still being written");
        return;
      }
      window_.Fill();
      const std::string_view view = window_.view();
      JsonCursor cursor(view);
      JsonValue key;
      const bool is_key = next == '"' && cursor.Read(key);
      const size_t colon = view.find_first_not_of(" \t\r\n", cursor.position());
      if (!is_key || colon == std::string_view::npos || view[colon] != ':') {
        // Whatever this is, there may be events in it.
        StartDamage();
        return Events();
      }
      if (!Property(key.raw, view, colon + 1)) return Events();
    }
  }
  // False for damage.
  bool Property(std::string_view key, std::string_view view, size_t at) {
    JsonCursor cursor(view.substr(at));
    const std::optional<JsonType> type = cursor.Peek();
    if (key == "traceEvents" && type == JsonType::kArray) {
      window_.Advance(at + cursor.position() + 1);
      Events();
      return true;
    }
    JsonValue value;
    if (!type || !cursor.Read(value)) {
      StartDamage();
      return false;
    }
    if (options_.on_property) options_.on_property(key, value);
    window_.Advance(at + cursor.position());
    return true;
  }

  // To the end of the list, or of the file.
  void Events() {
    while (true) {
      const char next = NextCharacter();
      if (next == 0) {
        cut_off_ = true;
        if (!damage_begin_) options_.notes->Add("the list of events has no end: the file was cut off");
        return;
      }
      // Inside damage a bracket may be anything's.
      if (next == ']' && !damage_begin_) {
        window_.Advance(1);
        return;
      }
      if (next != '{') {
        StartDamage();
        SkipToBrace();
        continue;
      }
      window_.Fill();
      Event();
      if (options_.progress && (++event_count_ & 0xFFF) == 0) options_.progress(window_.offset(), size_);
    }
  }
  void SkipToBrace() {
    const std::string_view view = window_.view();
    window_.Advance(std::min(view.find('{', 1), view.size()));
  }

  void Event() {
    JsonCursor cursor(window_.view());
    TraceEvent event;
    if (!ParseEvent(cursor, event)) {
      StartDamage();
      window_.Advance(1);
      return;
    }
    // An object without a phase may be a part of a damaged event.
    if (event.phase != 0) {
      EndDamage(window_.offset());
      if (options_.on_event) options_.on_event(event);
    }
    window_.Advance(cursor.position());
  }

  bool ParseEvent(JsonCursor& cursor, TraceEvent& event) {
    arguments_.clear();
    const bool whole = cursor.ReadObject([&](std::string_view key) {
      if (key == "args" && cursor.Peek() == JsonType::kObject) return ParseArguments(cursor);
      JsonValue value;
      if (!cursor.Read(value)) return;
      if (key == "ph") {
        event.phase = value.raw.empty() ? '\0' : value.raw.front();
      } else if (key == "name") {
        event.name = value.raw;
      } else if (key == "cat") {
        event.category = value.raw;
      } else if (key == "ts") {
        event.ts_ns = JsonMicrosecondsToNs(value.raw);
      } else if (key == "dur") {
        event.duration_ns = std::max<int64_t>(JsonMicrosecondsToNs(value.raw).value_or(0), 0);
      } else if (key == "pid") {
        event.pid = value;
      } else if (key == "tid") {
        event.tid = value;
      }
    });
    event.arguments = arguments_;
    return whole;
  }
  void ParseArguments(JsonCursor& cursor) {
    cursor.ReadObject([&](std::string_view key) {
      JsonValue value;
      if (cursor.Read(value) && arguments_.size() < TraceEvent::kMaxArguments) {
        arguments_.push_back({key, value});
      }
    });
  }

  void StartDamage() {
    if (!damage_begin_) damage_begin_ = window_.offset();
  }
  void EndDamage(uint64_t end) {
    if (!damage_begin_) return;
    const std::string size = FormatBytes(end - *damage_begin_);
    options_.notes->AddLoss(
        cut_off_
            ? fmt::format("cut off: nothing more to read from byte {} on ({} left)", *damage_begin_, size)
            : fmt::format("lost {} from byte {} on: no readable event", size, *damage_begin_));
    damage_begin_.reset();
  }

  Window window_;
  uint64_t size_;
  const TraceReadOptions& options_;
  std::vector<TraceArgument> arguments_;
  std::optional<uint64_t> damage_begin_;  // Where what cannot be read began.
  bool cut_off_ = false;
  uint64_t event_count_ = 0;
};

}  // namespace

const JsonValue* TraceEvent::Find(std::string_view key) const {
  for (const TraceArgument& argument : arguments) {
    if (argument.key == key) return &argument.value;
  }
  return nullptr;
}

Result<void> ReadTrace(const std::filesystem::path& file, const TraceReadOptions& options) {
  SMELTR_ASSIGN_OR_RETURN(Fd fd, OpenRegularFile(file));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return std::unexpected(SystemError("look at", file, errno));
  return TraceParser(std::move(fd), static_cast<uint64_t>(status.st_size), options).Run();
}

}  // namespace smeltr::session
