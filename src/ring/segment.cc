#include "ring/segment.h"

#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace smeltr::ring {
namespace {

template <typename T>
bool ParseNumber(std::string_view& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || (text.size() > 1 && text[0] == '0' && end != text.data() + 1)) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool TakeIdentity(std::string_view& text, ProcessIdentity& identity) {
  return ParseNumber(text, identity.pid) && identity.pid != 0 && TakePrefix(text, "-") &&
         ParseNumber(text, identity.start_time_ticks);
}

}  // namespace

Segment::Segment(Segment&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), fd_(std::move(other.fd_)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  if (this != &other) {
    if (mapped()) ::munmap(bytes_.data(), bytes_.size());
    bytes_ = std::exchange(other.bytes_, {});
    fd_ = std::move(other.fd_);
  }
  return *this;
}

Segment::~Segment() {
  if (mapped()) ::munmap(bytes_.data(), bytes_.size());
}

int Segment::Leak() {
  bytes_ = {};
  return fd_.Release();
}

Result<ProcessIdentity> ParseIdentity(std::string_view text) {
  ProcessIdentity identity;
  if (TakeIdentity(text, identity) && text.empty()) return identity;
  return Fail(ErrorCode::kInvalidArgument, "not a process's identity");
}

Result<ProcessIdentity> ParseRingFileName(std::string_view name) {
  ProcessIdentity identity;
  std::string_view rest = name;
  bool ok = TakeIdentity(rest, identity);
  if (ok && rest != ".ring") {
    uint32_t generation = 0;
    ok = TakePrefix(rest, ".") && ParseNumber(rest, generation) && generation != 0 && rest == ".ring";
  }
  if (!ok) return Fail(ErrorCode::kInvalidArgument, "not the name of a ring file");
  return identity;
}

Result<void> CheckHeader(const RingHeader& header, uint64_t file_bytes) {
  if (header.magic != kMagic) return Fail(ErrorCode::kCorrupt, "not a ring");
  if (header.version != kVersion) return Fail(ErrorCode::kUnsupported, "ring of another smeltr version");
  if (header.block_count <= kFatalBlockCount || header.block_count > kMaxBlockCount) {
    return Fail(ErrorCode::kCorrupt, "ring with an impossible number of blocks");
  }
  const Geometry geometry = GeometryOf(header.block_count);
  const bool as_expected =
      header.header_bytes == geometry.header_bytes && header.block_bytes == kBlockBytes &&
      header.string_slot_count == kStringSlotCount && header.string_bytes == kStringBytes &&
      header.string_table_offset == geometry.string_table_offset &&
      header.blocks_offset == geometry.blocks_offset && header.total_bytes == geometry.total_bytes;
  if (!as_expected) return Fail(ErrorCode::kCorrupt, "ring header contradicts itself");
  if (file_bytes != geometry.total_bytes) return Fail(ErrorCode::kCorrupt, "ring file is cut short or grown");
  if (header.pid == 0) return Fail(ErrorCode::kCorrupt, "ring of no process");
  return {};
}

}  // namespace smeltr::ring
