// Aligned tables and wrapped text. One column may be flexible: it is cut, or wrapped, so that rows fit the
// width.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "faces/cli/console.h"

namespace smeltr::faces::cli {

enum class Align : uint8_t { kLeft, kRight };
enum class Tone : uint8_t { kPlain, kDim, kBold, kWarning };

enum class Flex : uint8_t {
  kNone,
  kCut,
  kWrap,  // Goes on in the next line; for the last column, as far as people read lines.
};

struct Column {
  std::string title;
  Align align = Align::kLeft;
  Flex flex = Flex::kNone;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell a column; missing ones are empty.
  void Add(std::vector<std::string> cells, Tone tone = Tone::kPlain);
  bool empty() const { return rows_.empty(); }
  // Title row first; no trailing blanks.
  std::string Render(const Style& style) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    Tone tone;
  };
  std::vector<size_t> Widths(size_t limit) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

// `text` in the colour of `tone`, or as it is.
std::string Coloured(std::string_view text, Tone tone, const Style& style);

// Label and text as "label  text", wrapped at words with the following lines indented under the text.
std::string Labelled(std::string_view label, size_t label_width, std::string_view text, const Style& style);

}  // namespace smeltr::faces::cli
