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
    line +=
        Padded(Truncate(i < cells.size() ? cells[i] : std::string(), widths[i]), widths[i], columns[i].align);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
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
    if (!columns_[i].flexible || total <= limit) continue;
    const size_t excess = total - limit;
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
  for (const Row& row : rows_) text += Coloured(Joined(row.cells, columns_, widths), row.tone, style) + "\n";
  return text;
}

std::string Coloured(std::string_view text, Tone tone, const Style& style) {
  if (!style.colour || tone == Tone::kPlain || text.empty()) return std::string(text);
  return std::string(Code(tone)) + std::string(text) + "\x1b[0m";
}

std::string Labelled(std::string_view label, size_t label_width, std::string_view text, const Style& style) {
  std::string out = Coloured(Padded(std::string(label), label_width, Align::kLeft), Tone::kDim, style);
  const size_t width = std::min(style.width, kTextWidth);
  size_t column = label_width;
  bool first = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    const size_t word_width = TextWidth(word);
    if (!first && column + 1 + word_width > width) {
      out += "\n" + std::string(label_width, ' ');
      column = label_width;
      first = true;
    }
    if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word_width;
    first = false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n";
}

}  // namespace smeltr::faces::cli
