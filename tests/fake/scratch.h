// A private directory for one test, and environment variables that are put back at its end.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace smeltr::fake {

class ScratchTest : public testing::Test {
 protected:
  ScratchTest() {
    std::string name = (std::filesystem::temp_directory_path() / "smeltr-test-XXXXXX").native();
    directory_ = ::mkdtemp(name.data());
  }
  ~ScratchTest() override {
    for (const auto& [name, value] : previous_) {
      value.has_value() ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
    }
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  void SetEnv(const std::string& name, std::optional<std::string> value) {
    const char* current = ::getenv(name.c_str());
    previous_.try_emplace(name, current == nullptr ? std::nullopt : std::optional<std::string>(current));
    value.has_value() ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }

  const std::filesystem::path& scratch() const { return directory_; }

 private:
  std::filesystem::path directory_;
  std::map<std::string, std::optional<std::string>> previous_;
};

}  // namespace smeltr::fake
