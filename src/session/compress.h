// zstd contexts, made once and used again. Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "session/byte_buffer.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace smeltr::session {

class Compressor {
 public:
  explicit Compressor(int level);
  ~Compressor();
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  // Appends `raw` as one zstd frame, if that saves enough to be worth the time of reading it.
  // False: nothing was appended.
  bool Compress(std::span<const std::byte> raw, ByteBuffer& out);

 private:
  ZSTD_CCtx_s* context_;
};

class Decompressor {
 public:
  Decompressor();
  ~Decompressor();
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  // False unless `frame` holds exactly raw.size() bytes. Never writes outside `raw`.
  bool Decompress(std::span<const std::byte> frame, std::span<std::byte> raw);

 private:
  ZSTD_DCtx_s* context_;
};

}  // namespace smeltr::session
