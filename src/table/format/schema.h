// A table's schema: a tree of fields, the root a struct with a child for each column.
#pragma once

#include <oncilla/table.h>

#include <string>
#include <vector>

#include "table/format/type.h"

namespace ocm::table {

inline constexpr uint32_t kFieldsMax = 65'536;  // in all, dictionaries' values too, the root aside
inline constexpr uint32_t kDepthMax = 64;
inline constexpr size_t kMetadataBytesMax = size_t{16} << 20;

/// One field. With a dictionary, `format` and `type` are its indices'.
struct Field {
  std::string format;
  std::string name;
  std::string metadata;  // as in ArrowSchema: counted pairs; empty: none
  int64_t flags = ARROW_FLAG_NULLABLE;
  std::vector<Field> children;
  std::vector<Field> dictionary;  // 0 or 1: the values
  Type type;                      // of format

  bool has_dictionary() const { return !dictionary.empty(); }
  const Field& values() const {
    OCM_DASSERT(has_dictionary());
    return dictionary.front();
  }
};

/// Copies a schema in.
/// Errors: kUnsupported and kInvalidArgument with the column's path, kTooLarge (fields, depth).
Result<Field> import_schema(const ArrowSchema& schema);
/// Copies it out. The receiver releases it.
void export_schema(const Field& field, ArrowSchema* schema);

/// Parses formats and checks children, counts and depth of a tree whose strings came from outside.
Status check_schema(Field& root);

/// True if its metadata gives the values another meaning (ARROW:extension:name), which a narrower form would
/// lose.
bool is_extension(const Field& field);

/// What a column of this schema is stored as: views become plain; with `compact` decimals of at most 18
/// digits take 64 bits. (Strings of few values are found by looking at them: see gather.h.)
Field stored_form(const Field& given, bool compact);

/// Errors: kInvalidArgument unless arrays of `given` can be stored as `stored`, names and nullability
/// included.
Status check_match(const Field& given, const Field& stored);

/// The format of a decimal of 64 bits with the type's digits.
std::string decimal64_format(const Type& type);

}  // namespace ocm::table
