// Reports and logs in the formats that systems write, beside the tests. Some were put together or shortened
// by hand after real ones.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "util/file.h"

namespace smeltr::crash {

inline std::string Sample(const std::string& name) {
  const auto path = std::filesystem::path(SMELTR_SAMPLES) / name;
  auto text = ReadFile(path);
  EXPECT_TRUE(text.has_value()) << path;
  return text.value_or("");
}

}  // namespace smeltr::crash
