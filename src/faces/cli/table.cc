#include "faces/cli/table.h"

#include <algorithm>

#include "util/format.h"

namespace smeltr::faces::cli {
namespace {

constexpr size_t kGap = 2;
constexpr size_t kNarrowestFlexible = 8;
// Text that runs over is wrapped here at the latest: longer lines are hard to read on any terminal.
constexpr size_t kTextWidth = 100;

std::string_view Code(Tone tone) {
  switch (tone) {
    case Tone::kDim:
      return "\x1b[2m";
    case Tone::kBold:
      return "\x1b[1m";
    case Tone::kWarning:
      return "\x1b[33m";
    case Tone::kPlain:
      break;
  }
  return "";
}

std::string Padded(const std::string& text, size_t width, Align align) {
  const size_t used = TextWidth(text);
  const std::string blanks(width > used ? width - used : 0, ' ');
  return align == Align::kLeft ? text + blanks : blanks + text;
}

std::string Joined(const std::vector<std::string>& cells, const std::vector<Column>& columns,
                   const std::vector<size_t>& widths) {
  std::string line;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (i > 0) line.append(kGap, ' ');
    // A word of wrapped text that is too long is not cut: it is a command, or a path.
    const std::string cell = columns[i].flex == Flex::kWrap ? cells[i] : Truncate(cells[i], widths[i]);
    line += Padded(cell, widths[i], columns[i].align);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

// Lines of at most `width`, broken at blanks; a longer word has a line of its own.
std::vector<std::string> Lines(std::string_view text, size_t width) {
  std::vector<std::string> lines(1);
  size_t column = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    const size_t word_width = TextWidth(word);
    if (column > 0 && column + 1 + word_width > width) {
      lines.emplace_back();
      column = 0;
    }
    if (column > 0) {
      lines.back() += ' ';
      ++column;
    }
    lines.back() += word;
    column += word_width;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

void Table::Add(std::vector<std::string> cells, Tone tone) { rows_.push_back({std::move(cells), tone}); }

std::vector<size_t> Table::Widths(size_t limit) const {
  std::vector<size_t> widths;
  size_t total = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = TextWidth(columns_[i].title);
    for (const Row& row : rows_) {
      if (i < row.cells.size()) width = std::max(width, TextWidth(row.cells[i]));
    }
    widths.push_back(width);
    total += width + (i > 0 ? kGap : 0);
  }
  for (size_t i = 0; i < columns_.size(); ++i) {
    const size_t most = columns_[i].flex == Flex::kWrap ? std::min(limit, kTextWidth) : limit;
    if (columns_[i].flex == Flex::kNone || total <= most) continue;
    const size_t excess = total - most;
    widths[i] = std::max(std::min(widths[i], kNarrowestFlexible), widths[i] - std::min(excess, widths[i]));
  }
  return widths;
}

std::string Table::Render(const Style& style) const {
  const std::vector<size_t> widths = Widths(style.width);
  std::vector<std::string> titles;
  titles.reserve(columns_.size());
  for (const Column& column : columns_) titles.push_back(column.title);
  std::string text = Coloured(Joined(titles, columns_, widths), Tone::kBold, style) + "\n";
  const bool wraps = !columns_.empty() && columns_.back().flex == Flex::kWrap;
  for (const Row& row : rows_) {
    std::vector<std::string> cells = row.cells;
    cells.resize(columns_.size());
    const std::vector<std::string> lines =
        wraps ? Lines(cells.back(), widths.back()) : std::vector<std::string>{cells.back()};
    for (const std::string& line : lines) {
      cells.back() = line;
      text += Coloured(Joined(cells, columns_, widths), row.tone, style) + "\n";
      cells.assign(columns_.size(), "");
    }
  }
  return text;
}

std::string Coloured(std::string_view text, Tone tone, const Style& style) {
  if (!style.colour || tone == Tone::kPlain || text.empty()) return std::string(text);
  return std::string(Code(tone)) + std::string(text) + "\x1b[0m";
}

std::string Labelled(std::string_view label, size_t label_width, std::string_view text, const Style& style) {
  std::string out = Coloured(Padded(std::string(label), label_width, Align::kLeft), Tone::kDim, style);
  const size_t width = std::min(style.width, kTextWidth);
  const std::string indent = "\n" + std::string(label_width, ' ');
  std::string_view before;
  for (const std::string& line : Lines(text, width > label_width ? width - label_width : 1)) {
    out += before;
    out += line;
    before = indent;
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n";
}

}  // namespace smeltr::faces::cli
