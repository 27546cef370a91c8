// What an import has to tell besides its events: losses with their place, and what was not understood.
// Bounded, whatever the file says: beyond kMaxNotes they are only counted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace smeltr::session {

class ImportNotes {
 public:
  static constexpr size_t kMaxNotes = 20;

  void Add(std::string_view note) {
    if (notes_.size() < kMaxNotes) {
      notes_.emplace_back(note);
    } else {
      ++more_;
    }
  }
  // Something that should have become events is not there.
  void AddLoss(std::string_view note) {
    lossy_ = true;
    Add(note);
  }

  bool lossy() const { return lossy_; }
  // In the order they were added; the last line counts those beyond.
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines = notes_;
    if (more_ > 0) lines.push_back("and " + std::to_string(more_) + " more of the kind");
    return lines;
  }

 private:
  std::vector<std::string> notes_;
  uint64_t more_ = 0;
  bool lossy_ = false;
};

}  // namespace smeltr::session
