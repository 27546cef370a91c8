// A directory with files of a test's own where a probe expects /proc or /sys.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "probe/roots.h"

namespace smeltr::fake {

class FileTree {
 public:
  explicit FileTree(std::filesystem::path root) : root_(std::move(root)) {}

  void Write(const std::string& path, std::string_view content) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path, std::ios::binary | std::ios::trunc) << content;
  }
  void Link(const std::string& path, const std::string& target) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::filesystem::remove(root_ / path);
    std::filesystem::create_symlink(target, root_ / path);
  }
  void Remove(const std::string& path) const { std::filesystem::remove_all(root_ / path); }
  std::string At(const std::string& path) const { return (root_ / path).native(); }
  probe::Roots roots() const { return {.proc = At("proc"), .sys = At("sys")}; }

 private:
  std::filesystem::path root_;
};

}  // namespace smeltr::fake
