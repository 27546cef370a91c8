#include "session/compress.h"

#include <zstd.h>

namespace smeltr::session {
namespace {

// Below this a frame's own overhead eats what it saves.
constexpr size_t kWorthTrying = 48;

}  // namespace

Compressor::Compressor(int level) : context_(ZSTD_createCCtx()) {
  if (context_ == nullptr) return;  // Out of memory: columns stay as they are.
  ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context_, ZSTD_c_contentSizeFlag, 0);
  ZSTD_CCtx_setParameter(context_, ZSTD_c_checksumFlag, 0);
}

Compressor::~Compressor() { ZSTD_freeCCtx(context_); }

bool Compressor::Compress(std::span<const std::byte> raw, ByteBuffer& out) {
  if (context_ == nullptr || raw.size() < kWorthTrying) return false;
  const size_t start = out.size();
  // No room for a result that is not at least a sixteenth smaller: zstd then gives up by itself.
  const std::span<std::byte> space = out.Extend(raw.size() - raw.size() / 16);
  const size_t written = ZSTD_compress2(context_, space.data(), space.size(), raw.data(), raw.size());
  if (ZSTD_isError(written) != 0) {
    out.Shrink(start);
    return false;
  }
  out.Shrink(start + written);
  return true;
}

Decompressor::Decompressor() : context_(ZSTD_createDCtx()) {}

Decompressor::~Decompressor() { ZSTD_freeDCtx(context_); }

bool Decompressor::Decompress(std::span<const std::byte> frame, std::span<std::byte> raw) {
  if (context_ == nullptr) return false;
  return ZSTD_decompressDCtx(context_, raw.data(), raw.size(), frame.data(), frame.size()) == raw.size();
}

}  // namespace smeltr::session
