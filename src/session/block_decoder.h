// Decodes the events of one block, a batch at a time, into structs of its kind.
// Trusts nothing: a block that breaks its format stops, with ok() false.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "event/event.h"
#include "session/chunk_header.h"
#include "session/column.h"
#include "session/compress.h"
#include "session/schema.h"
#include "session/text_table.h"

namespace smeltr::session {

// The columns of one struct: the events of a block, or the elements of a list field.
// Reused from block to block to keep its memory.
class TableDecoder {
 public:
  // Takes `column_count` columns from `in`: those of `schema` first, then ones it does not know.
  bool Open(ByteReader& in, const Schema& schema, uint64_t column_count, size_t row_count,
            Decompressor& decompressor);

  // Writes the next `count` structs to `rows`, which holds what the last call left there, or `fresh` memory.
  bool Decode(size_t count, std::byte* rows, bool fresh, const StoredTexts& texts);

 private:
  struct Column {
    bool present = false;  // False: written before the field existed; it stays zero.
    ColumnCursor cursor;   // Of a list: the counts.
    std::unique_ptr<TableDecoder> elements;
    size_t elements_left = 0;
    std::unique_ptr<std::byte[]> element_rows;
    size_t element_rows_bytes = 0;
    size_t filled_elements = 0;  // So many of element_rows hold the block's constant fields already.
  };

  bool OpenColumn(std::span<const std::byte> bytes, const Field& field, size_t row_count, Column& column,
                  Decompressor& decompressor);
  bool DecodePiece(size_t count, std::byte* rows, bool fresh, const StoredTexts& texts);
  bool DecodeList(const Field& field, Column& column, std::byte* rows, size_t count,
                  const StoredTexts& texts);

  const Schema* schema_ = nullptr;
  std::vector<Column> columns_;  // Never shrinks.
  bool complete_ = true;         // No column is missing.
};

// Not thread-safe.
class BlockDecoder {
 public:
  // Small enough that a batch of any kind stays in the first-level cache while its columns are filled in.
  static constexpr size_t kBatchRows = 256;

  BlockDecoder();

  // `bytes` and `texts` must stay until the last NextBatch(). Opaque blocks: schema is OpaqueSchema().
  bool Open(const BlockEntry& entry, const Schema& schema, std::span<const std::byte> bytes,
            const StoredTexts& texts, Decompressor& decompressor);

  // Decodes the next rows; 0 at the end or when the block turns out to be damaged.
  size_t NextBatch();
  bool ok() const { return ok_; }

  // Of the last batch. rows() is an array of the schema's struct, as long as envelopes().
  std::span<const event::Envelope> envelopes() const { return std::span(envelopes_).first(batch_rows_); }
  std::byte* rows() { return rows_.get(); }

 private:
  TableDecoder envelope_table_;
  TableDecoder table_;
  const StoredTexts* texts_ = nullptr;
  event::Api api_ = event::Api::kNone;
  bool first_batch_ = true;
  bool ok_ = false;
  size_t rows_left_ = 0;
  size_t batch_rows_ = 0;
  std::vector<event::Envelope> envelopes_;
  std::unique_ptr<std::byte[]> rows_;
  size_t rows_bytes_ = 0;
};

}  // namespace smeltr::session
