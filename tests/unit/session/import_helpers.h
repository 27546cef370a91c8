// For tests of imports: files, and what became of them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "session/import_target.h"
#include "session/reader.h"

namespace smeltr::session::testing {

inline void WriteText(const std::filesystem::path& file, std::string_view text) {
  std::ofstream(file, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

// visit(const event::Envelope&, const E&) in the order of the file.
template <typename E, typename F>
void ForEachOf(const ImportedSession& imported, F&& visit) {
  const auto reader = Reader::Open(imported.stored.directory / kEventsFile);
  ASSERT_TRUE(reader.has_value());
  EXPECT_FALSE(reader->damage().any());
  reader->ForEachOf<E>(visit);
}

template <typename E>
size_t CountOf(const ImportedSession& imported) {
  size_t count = 0;
  ForEachOf<E>(imported, [&](const event::Envelope&, const E&) { ++count; });
  return count;
}

// Whether any note has `text` in it.
inline bool Noted(const ImportedSession& imported, std::string_view text) {
  for (const std::string& note : imported.notes) {
    if (note.find(text) != std::string::npos) return true;
  }
  return false;
}

}  // namespace smeltr::session::testing
