// Decodes the events of one block, a batch at a time, into structs of its kind.
// Trusts nothing: a block that breaks its format stops, with ok() false.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "event/event.h"
#include "session/chunk_header.h"
#include "session/column.h"
#include "session/column_pick.h"
#include "session/compress.h"
#include "session/list_decoder.h"
#include "session/schema.h"
#include "session/text_table.h"

namespace smeltr::session {

// Which rows of a block are wanted.
struct RowFilter {
  uint64_t begin_ns = 0;
  uint64_t end_ns = UINT64_MAX;  // The last nanosecond.
  std::optional<uint32_t> pid = std::nullopt;
  std::optional<uint64_t> queue_id = std::nullopt;  // Kinds without such a field have no rows for it.
};

// Not thread-safe. For one block: Enter, perhaps Filter, Start, then NextBatch to the end.
class BlockDecoder {
 public:
  // Small enough that a batch of any kind stays in the first-level cache while its columns are filled in.
  static constexpr size_t kBatchRows = 256;

  BlockDecoder();

  // Finds the columns; decompresses none. `bytes` must stay until the last NextBatch(). Opaque blocks: schema
  // is OpaqueSchema().
  bool Enter(const BlockEntry& entry, const Schema& schema, std::span<const std::byte> bytes,
             Decompressor& decompressor);
  // Decompresses the columns that the filter asks about. False when no row is wanted, or the block is
  // damaged: then ok() is false.
  bool Filter(const RowFilter& filter);
  // Decompresses the picked columns. `texts` must stay until the last NextBatch().
  bool Start(const ColumnPick& pick, const StoredTexts& texts);
  // All of it, every row and column.
  bool Open(const BlockEntry& entry, const Schema& schema, std::span<const std::byte> bytes,
            const StoredTexts& texts, Decompressor& decompressor) {
    return Enter(entry, schema, bytes, decompressor) && Start({}, texts);
  }

  // Decodes the next rows; 0 at the end or when the block turns out to be damaged.
  size_t NextBatch();
  bool ok() const { return ok_; }

  // Of the last batch. rows() is an array of the schema's struct, as long as envelopes().
  std::span<const event::Envelope> envelopes() const { return std::span(envelopes_).first(batch_rows_); }
  std::byte* rows() { return rows_.get(); }
  // One byte a row, 0 for those that Filter() left out; empty when all are wanted.
  std::span<const uint8_t> wanted() const {
    return wanted_.empty() ? std::span<const uint8_t>()
                           : std::span(wanted_).subspan(batch_start_, batch_rows_);
  }

  // Columns decompressed for this block, those of list elements included.
  size_t opened_count() const { return opened_count_; }

 private:
  using Numbers = std::array<uint64_t, kBatchRows>;
  struct Column {
    const Field* field = nullptr;
    std::span<const std::byte> bytes;
    size_t near = kNoColumn;
    bool opened = false;
    bool picked = false;
    bool is_near_of_other = false;
    ColumnCursor cursor;
    std::unique_ptr<ListDecoder> list;
    std::unique_ptr<Numbers> numbers;  // Of the batch, where another column is near to this one.
  };

  bool EnterColumn(size_t index, ByteReader& in);
  bool OpenNumbers(size_t index);
  bool OpenPicked(const ColumnPick& pick, const StoredTexts& texts);
  void PrepareRows(size_t element_count);
  bool ReadAll(size_t index, std::vector<uint64_t>& values);
  template <typename Keep>
  bool KeepRows(size_t index, Keep keep);
  bool DecodeColumn(size_t index, size_t count);
  void DecodeNumbers(size_t index, std::span<uint64_t> numbers);
  std::byte* Destination(size_t index, size_t& stride);

  const Schema* schema_ = nullptr;
  const StoredTexts* texts_ = nullptr;
  Decompressor* decompressor_ = nullptr;
  event::Api api_ = event::Api::kNone;
  bool first_batch_ = true;
  bool ok_ = false;
  size_t row_count_ = 0;
  size_t rows_done_ = 0;
  size_t batch_limit_ = kBatchRows;
  size_t batch_start_ = 0;
  size_t batch_rows_ = 0;
  size_t opened_count_ = 0;
  std::vector<Column> columns_;  // Never shrinks.
  size_t column_count_ = 0;
  std::vector<uint8_t> wanted_;
  std::vector<event::Envelope> envelopes_;
  std::unique_ptr<std::byte[]> rows_;
  size_t rows_bytes_ = 0;
};

}  // namespace smeltr::session
