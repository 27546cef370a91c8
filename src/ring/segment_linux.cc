#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/clock.h"
#include "ring/life_lock.h"
#include "ring/segment.h"

namespace smeltr::ring {
namespace {

// How often one process may replace itself by exec in one recording.
constexpr unsigned kMaxGenerations = 10'000;

struct ProcStat {
  char state = '?';
  uint64_t thread_count = 0;
  uint64_t start_time_ticks = 0;
};

// The fields behind the program's name, which may itself contain spaces and parentheses.
bool ParseProcStat(std::string_view text, ProcStat& stat) {
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return false;
  text.remove_prefix(name_end + 1);
  for (unsigned field = 3; field <= 22; ++field) {
    if (!text.starts_with(' ')) return false;
    text.remove_prefix(1);
    const std::string_view value = text.substr(0, text.find_first_of(" \n"));
    if (value.empty()) return false;
    if (field == 3) stat.state = value[0];
    if (field == 20) std::from_chars(value.data(), value.data() + value.size(), stat.thread_count);
    if (field == 22) std::from_chars(value.data(), value.data() + value.size(), stat.start_time_ticks);
    text.remove_prefix(value.size());
  }
  return true;
}

bool ReadProcStat(const char* path, ProcStat& stat) {
  const Fd file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return false;
  std::array<char, 1024> buffer;
  const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
  return count > 0 && ParseProcStat({buffer.data(), static_cast<size_t>(count)}, stat);
}

std::unexpected<Error> FailErrno(const char* what) {
  const int error = errno;
  std::array<char, 256> text;
  std::array<char, 128> reason;
  const int length = std::snprintf(text.data(), text.size(), "%s: %s", what,
                                   ::strerror_r(error, reason.data(), reason.size()));
  ErrorCode code = ErrorCode::kIo;
  if (error == ENOENT || error == ENOTDIR) code = ErrorCode::kNotFound;
  if (error == EACCES || error == EPERM || error == EROFS) code = ErrorCode::kPermission;
  if (error == ENOSPC || error == EDQUOT) code = ErrorCode::kNoSpace;
  return Fail(code, {text.data(), static_cast<size_t>(length)});
}

// Sizes the file with all its pages: a page that cannot be had later, when the file system has filled up,
// would kill the program with SIGBUS.
Result<void> Reserve(int file, int directory, uint64_t bytes) {
  // A file above the program's own limit would not fail but kill the program, with SIGXFSZ.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur) {
    return Fail(ErrorCode::kUnavailable, "the program may not make files as large as a ring (ulimit -f)");
  }
  if (::fallocate(file, 0, 0, static_cast<off_t>(bytes)) == 0) return {};
  if (errno == ENOSPC) return Fail(ErrorCode::kNoSpace, "not enough free space in the ring directory");
  if (errno != EOPNOTSUPP && errno != ENOSYS) return FailErrno("cannot size the ring");
  // A file system that cannot promise room: at least there must be some now.
  struct statvfs info;
  if (::fstatvfs(directory, &info) != 0) return FailErrno("cannot query the ring directory");
  if (info.f_blocks != 0 && info.f_bavail * info.f_frsize < bytes) {
    return Fail(ErrorCode::kNoSpace, "not enough free space in the ring directory");
  }
  if (::ftruncate(file, static_cast<off_t>(bytes)) != 0) return FailErrno("cannot size the ring");
  return {};
}

void FillHeader(RingHeader& header, uint32_t block_count, const ProcessIdentity& self) {
  const Geometry geometry = GeometryOf(block_count);
  header.magic = kMagic;
  header.version = kVersion;
  header.header_bytes = static_cast<uint32_t>(geometry.header_bytes);
  header.block_count = block_count;
  header.block_bytes = kBlockBytes;
  header.string_slot_count = kStringSlotCount;
  header.string_table_offset = geometry.string_table_offset;
  header.string_bytes = kStringBytes;
  header.blocks_offset = geometry.blocks_offset;
  header.total_bytes = geometry.total_bytes;
  header.pid = self.pid;
  header.start_time_ticks = self.start_time_ticks;
  header.created_ns = MonotonicNowNs();
}

// Gives the complete file its final name, never that of an earlier ring of this process.
Result<void> Publish(int directory, const char* temporary, const ProcessIdentity& self) {
  std::array<char, 96> name;
  for (unsigned generation = 0; generation < kMaxGenerations; ++generation) {
    std::array<char, 16> suffix{};
    if (generation > 0) std::snprintf(suffix.data(), suffix.size(), ".%u", generation);
    std::snprintf(name.data(), name.size(), "%u-%llu%s.ring", self.pid,
                  static_cast<unsigned long long>(self.start_time_ticks), suffix.data());
    // Only this process makes files of this name, so between the two calls nobody else can.
    if (::faccessat(directory, name.data(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) continue;
    if (::renameat(directory, temporary, directory, name.data()) != 0)
      return FailErrno("cannot name the ring");
    return {};
  }
  return Fail(ErrorCode::kAlreadyExists, "too many rings of this process");
}

// The identity in the last part of the path, if that is the name of a ring file.
Result<ProcessIdentity> IdentityOfPath(std::string_view path) {
  path.remove_prefix(path.find_last_of('/') + 1);
  return ParseRingFileName(path);
}

}  // namespace

ProcessIdentity SelfIdentity() {
  ProcStat stat;
  ReadProcStat("/proc/self/stat", stat);  // Without /proc, the pid alone has to do.
  return {.pid = static_cast<uint32_t>(::getpid()), .start_time_ticks = stat.start_time_ticks};
}

bool IsAlive(const ProcessIdentity& process) {
  std::array<char, 32> path;
  std::snprintf(path.data(), path.size(), "/proc/%u/stat", process.pid);
  ProcStat stat;
  if (!ReadProcStat(path.data(), stat) || stat.start_time_ticks != process.start_time_ticks) return false;
  // A first thread that has ended is a zombie too, until the others have.
  return (stat.state != 'Z' && stat.state != 'X') || stat.thread_count > 1;
}

Result<Segment> Segment::Create(const char* directory, const SegmentOptions& options) {
  if (options.block_count <= kFatalBlockCount || options.block_count > kMaxBlockCount) {
    return Fail(ErrorCode::kInvalidArgument, "impossible number of ring blocks");
  }
  const ProcessIdentity self = SelfIdentity();
  const uint64_t total_bytes = GeometryOf(options.block_count).total_bytes;
  const Fd parent(::open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent.valid()) return FailErrno("cannot open the ring directory");

  std::array<char, 96> temporary;
  std::snprintf(temporary.data(), temporary.size(), "%u-%llu.new", self.pid,
                static_cast<unsigned long long>(self.start_time_ticks));
  // One of that name is what this process left before an exec interrupted it here.
  ::unlinkat(parent.get(), temporary.data(), 0);
  Segment segment;
  segment.fd_ =
      Fd(::openat(parent.get(), temporary.data(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!segment.fd_.valid()) return FailErrno("cannot create the ring");

  // Before anybody can find the ring and miss it.
  segment.fd_ = TakeLifeLock(std::move(segment.fd_));

  auto published = [&]() -> Result<void> {
    SMELTR_TRY(Reserve(segment.fd(), parent.get(), total_bytes));
    void* memory = ::mmap(nullptr, total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment.fd(), 0);
    if (memory == MAP_FAILED) return FailErrno("cannot map the ring");
    segment.bytes_ = {static_cast<std::byte*>(memory), total_bytes};
    FillHeader(segment.header(), options.block_count, self);
    return Publish(parent.get(), temporary.data(), self);
  }();
  if (!published.has_value()) {
    ::unlinkat(parent.get(), temporary.data(), 0);
    return std::unexpected(std::move(published).error());
  }
  return segment;
}

Result<Segment> Segment::Map(const char* path) {
  Segment segment;
  segment.fd_ = Fd(::open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!segment.fd_.valid()) return FailErrno("cannot open the ring");
  struct stat info;
  if (::fstat(segment.fd(), &info) != 0) return FailErrno("cannot query the ring");
  if (!S_ISREG(info.st_mode)) return Fail(ErrorCode::kCorrupt, "ring is not a regular file");
  if (info.st_uid != ::geteuid()) return Fail(ErrorCode::kPermission, "ring belongs to another user");

  // Checked in a copy: the mapped one can change at any time.
  alignas(RingHeader) std::array<std::byte, sizeof(RingHeader)> copy;
  const ssize_t count = ::pread(segment.fd(), copy.data(), copy.size(), 0);
  if (count != static_cast<ssize_t>(copy.size())) return Fail(ErrorCode::kCorrupt, "ring file is cut short");
  const auto& header = *reinterpret_cast<const RingHeader*>(copy.data());
  const auto file_bytes = static_cast<uint64_t>(info.st_size);
  SMELTR_TRY(CheckHeader(header, file_bytes));
  const auto named = IdentityOfPath(path);
  if (named.has_value() &&
      *named != ProcessIdentity{.pid = header.pid, .start_time_ticks = header.start_time_ticks}) {
    return Fail(ErrorCode::kCorrupt, "ring of another process than its name says");
  }

  void* memory = ::mmap(nullptr, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment.fd(), 0);
  if (memory == MAP_FAILED) return FailErrno("cannot map the ring");
  segment.bytes_ = {static_cast<std::byte*>(memory), file_bytes};
  return segment;
}

}  // namespace smeltr::ring
