// The streams of a command: results to stdout, warnings to stderr, and what the terminal can show.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace smeltr::faces::cli {

// How text may look. Plain (no colour) when not a terminal, with NO_COLOR set, or TERM=dumb.
struct Style {
  bool colour = false;
  // Columns that output stays within where its content allows: $COLUMNS, else the terminal's; unlimited
  // (nothing is cut) when not a terminal.
  size_t width = 80;
};

Style StyleOf(std::FILE* stream);

class Console {
 public:
  Console(std::FILE* out, std::FILE* err) : out_(out), err_(err), style_(StyleOf(out)) {}
  Console(std::FILE* out, std::FILE* err, Style style) : out_(out), err_(err), style_(style) {}

  const Style& style() const { return style_; }

  // Buffered by stdio; call Flush() before giving stdout to a child.
  void Print(std::string_view text);
  // One line on stderr: "smeltr: <text>". Not for progress.
  void Warn(std::string_view text);
  // False when any of the output could not be written (closed pipe, full disk).
  bool Flush();

  // For output that goes on and on: `text` is out when this returns. A reader who left is no failure: say no
  // more then. The caller ignores SIGPIPE.
  enum class Delivery : uint8_t { kDone, kReaderLeft, kFailed };
  Delivery Deliver(std::string_view text);

 private:
  std::FILE* out_;
  std::FILE* err_;
  Style style_;
  bool failed_ = false;
};

}  // namespace smeltr::faces::cli
