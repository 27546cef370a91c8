// Decodes the list column of a block, a batch of lists at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "session/column.h"
#include "session/compress.h"
#include "session/schema.h"
#include "session/text_table.h"

namespace smeltr::session {

// Trusts nothing. Reused from block to block to keep its memory.
class ListDecoder {
 public:
  // Takes the column of `field`, `list_count` lists. `picked`: bits of the elements' fields; the others are
  // zero. `bytes` and `texts` must stay until the last Decode().
  bool Open(std::span<const std::byte> bytes, const Field& field, size_t list_count, uint64_t picked,
            const StoredTexts& texts, Decompressor& decompressor);

  size_t element_count() const { return element_count_; }
  // Columns decompressed by Open().
  size_t opened_count() const { return opened_count_; }

  // Sets the next `count` lists, at `lists` and each `stride` bytes after it. Their elements are valid until
  // the next call.
  bool Decode(size_t count, std::byte* lists, size_t stride);

 private:
  // Whose values do not follow from the shape alone.
  struct OwnColumn {
    const Field* field = nullptr;
    ColumnCursor cursor;
    std::vector<uint64_t> of_shape;  // Added to them; empty: nothing is.
  };

  bool EnterShapes(ByteReader& in);
  bool OpenShapeNumbers(Decompressor& decompressor);
  bool OpenColumn(ByteReader& in, const Field& field, Decompressor& decompressor);
  void FillShapes(const Field& field, ColumnCursor& cursor);
  bool DecodeElements(size_t count, std::byte* elements);

  const Field* field_ = nullptr;
  const Schema* element_ = nullptr;
  const StoredTexts* texts_ = nullptr;
  size_t element_count_ = 0;
  size_t elements_left_ = 0;
  size_t opened_count_ = 0;
  ColumnCursor lengths_;
  ColumnCursor shape_of_;
  ColumnCursor scratch_;
  size_t shape_count_ = 0;      // 0: there are none, all elements begin as the one blank row.
  bool shapes_wanted_ = false;  // A picked column needs them.
  std::span<const std::byte> shape_bytes_;
  std::vector<std::byte> shapes_;  // Rows of the element's struct, less its own columns.
  std::vector<OwnColumn> own_;     // Never shrinks.
  size_t own_count_ = 0;
  std::unique_ptr<std::byte[]> rows_;
  size_t rows_bytes_ = 0;
};

}  // namespace smeltr::session
