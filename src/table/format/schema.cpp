#include "table/format/schema.h"

#include <cstring>
#include <memory>

#include "base/text.h"

namespace ocm::table {
namespace {

/// "a.b": where in the tree; "" at its root.
std::string path_of(const std::vector<std::string>& names) {
  std::string path;
  for (const std::string& name : names) path += (path.empty() ? "" : ".") + name.substr(0, 200);
  return path;
}

/// "column `a.b`: ..."
Status at(const std::vector<std::string>& names, const Status& status) {
  const std::string path = path_of(names);
  const std::string where = path.empty() ? "the schema" : "column `" + path + "`";
  const Status out = status.with_message(where + ": " + std::string(status.message()));
  return path.empty() ? out : out.with_subject(Subject::kColumn, path);
}

/// The counted pairs behind ArrowSchema.metadata, as one string.
Status copy_metadata(const char* metadata, std::string& out) {
  if (metadata == nullptr) return {};
  size_t at_byte = 0;
  const auto take = [&](int32_t& value) {
    std::memcpy(&value, metadata + at_byte, sizeof(value));
    at_byte += sizeof(value);
    return value >= 0 && at_byte + static_cast<size_t>(value) <= kMetadataBytesMax;
  };
  int32_t pairs = 0, bytes = 0;
  bool good = take(pairs);
  for (int64_t i = 0; good && i < int64_t{pairs} * 2; ++i) {
    good = take(bytes);
    if (good) at_byte += static_cast<size_t>(bytes);
  }
  if (!good) return Status(Code::kTooLarge, "its metadata is malformed or has more than 16 MiB");
  if (pairs > 0) out.assign(metadata, at_byte);
  return {};
}

/// Well-formed counted pairs that fill `metadata` exactly.
bool metadata_fits(const std::string& metadata) {
  if (metadata.empty()) return true;
  size_t at_byte = 0;
  const auto take = [&](int32_t& value) {
    if (metadata.size() - at_byte < sizeof(value)) return false;
    std::memcpy(&value, metadata.data() + at_byte, sizeof(value));
    at_byte += sizeof(value);
    return value >= 0;
  };
  int32_t pairs = 0, bytes = 0;
  if (!take(pairs)) return false;
  for (int64_t i = 0; i < int64_t{pairs} * 2; ++i) {
    if (!take(bytes) || metadata.size() - at_byte < static_cast<size_t>(bytes)) return false;
    at_byte += static_cast<size_t>(bytes);
  }
  return at_byte == metadata.size();
}

/// Walks a tree once and bounds it.
class SchemaChecker {
 public:
  Status import(const ArrowSchema& from, Field& to, uint32_t depth) {
    if (from.release == nullptr || from.format == nullptr) return bad("its schema was released");
    if (from.n_children < 0 || (from.n_children > 0 && from.children == nullptr))
      return bad("its list of children is malformed");
    to.format = from.format;
    to.flags =
        from.flags & (ARROW_FLAG_DICTIONARY_ORDERED | ARROW_FLAG_NULLABLE | ARROW_FLAG_MAP_KEYS_SORTED);
    if (const Status status = copy_metadata(from.metadata, to.metadata); !status.is_ok())
      return at(path_, status);
    if (depth > kDepthMax) return too_deep();
    if (count_ + static_cast<uint64_t>(from.n_children) > kFieldsMax) return too_many();
    for (int64_t i = 0; i < from.n_children; ++i) {
      if (from.children[i] == nullptr) return bad("a child of its schema is null");
      Field& child = to.children.emplace_back();
      child.name = from.children[i]->name != nullptr ? from.children[i]->name : "";
      OCM_TRY(count());
      path_.push_back(child.name);
      OCM_TRY(import(*from.children[i], child, depth + 1));
      path_.pop_back();
    }
    if (from.dictionary != nullptr) {
      Field& values = to.dictionary.emplace_back();
      values.name = from.dictionary->name != nullptr ? from.dictionary->name : "";
      OCM_TRY(count());
      OCM_TRY(import(*from.dictionary, values, depth + 1));
    }
    return {};
  }

  /// Types, children, counts, depth.
  Status check(Field& field, uint32_t depth) {
    if (depth > kDepthMax) return too_deep();
    if (field.dictionary.size() > 1 || !metadata_fits(field.metadata)) return bad("its field is malformed");
    Result<Type> type = parse_type(field.format);
    if (!type.is_ok()) return at(path_, type.status());
    field.type = *type;
    OCM_TRY(check_children(field));
    for (size_t i = 0; i < field.children.size(); ++i) {
      if (is_utf8(field.children[i].name)) continue;
      return at(path_, Status(Code::kInvalidArgument, "the name of its column " + std::to_string(i) +
                                                          ", counted from 0, is not UTF-8: rename it"));
    }
    for (Field& child : field.children) {
      path_.push_back(child.name);
      OCM_TRY(count());
      OCM_TRY(check(child, depth + 1));
      path_.pop_back();
    }
    for (Field& values : field.dictionary) {
      OCM_TRY(count());
      OCM_TRY(check(values, depth + 1));
    }
    return {};
  }
  /// The walk is over, or has not begun.
  bool is_at_root() const { return path_.empty() && count_ <= kFieldsMax; }

 private:
  Status check_children(const Field& field) {
    const int32_t wanted = field.type.children();
    if (wanted >= 0 && field.children.size() != static_cast<size_t>(wanted))
      return bad("its type wants " + std::to_string(wanted) + " children");
    if (field.type.map && (field.children[0].format != "+s" || field.children[0].children.size() != 2))
      return bad("a map wants a struct of key and value");
    if (field.has_dictionary() && (!field.type.is_integer() || field.type.decimal_bits != 0))
      return bad("the indices of a dictionary are no integers");
    return {};
  }
  Status count() { return ++count_ > kFieldsMax ? too_many() : Status(); }
  Status bad(const std::string& what) const { return at(path_, Status(Code::kInvalidArgument, what)); }
  Status too_many() const {
    return Status(Code::kTooLarge, "the schema has more than 65,536 fields: split the table");
  }
  Status too_deep() const { return at(path_, Status(Code::kTooLarge, "nested deeper than 64: flatten it")); }

  std::vector<std::string> path_;
  uint64_t count_ = 0;
};

// ---------------------------------------------------------------- out

struct Exported {
  std::string format, name, metadata;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> pointers;
  ArrowSchema dictionary{};
};

void release_schema(ArrowSchema* schema) {
  auto* exported = static_cast<Exported*>(schema->private_data);
  for (ArrowSchema& child : exported->children) {
    if (child.release != nullptr) child.release(&child);
  }
  if (exported->dictionary.release != nullptr) exported->dictionary.release(&exported->dictionary);
  schema->release = nullptr;
  delete exported;
}

// ---------------------------------------------------------------- matching

bool same_shape(const Field& given, const Field& stored);

/// Types as the reader of `stored` sees them; names of struct members count, those of lists do not.
bool same_children(const Field& given, const Field& stored) {
  if (given.children.size() != stored.children.size()) return false;
  for (size_t i = 0; i < given.children.size(); ++i) {
    if (given.type.form == Form::kStruct && given.children[i].name != stored.children[i].name) return false;
    if (!same_shape(given.children[i], stored.children[i])) return false;
  }
  return true;
}

bool widens(const Field& given, const Field& stored) {
  return (given.flags & ARROW_FLAG_NULLABLE) != 0 && (stored.flags & ARROW_FLAG_NULLABLE) == 0;
}

bool same_shape(const Field& given, const Field& stored) {
  if (widens(given, stored)) return false;
  const Type& from = given.type;
  const Type& to = stored.type;
  if (!given.has_dictionary() && stored.has_dictionary()) {
    const Type& values = stored.values().type;
    return from.text && values.text && values.form == Form::kBinary;
  }
  if (given.has_dictionary() != stored.has_dictionary()) return false;
  if (given.has_dictionary() && !same_shape(given.values(), stored.values())) return false;
  if (given.format == stored.format) return same_children(given, stored);
  if (given.has_dictionary()) return from.is_integer() && to.is_integer();  // any width of index
  if (from.form == Form::kView) return to.form == Form::kBinary && from.text == to.text;
  // Other spellings of the same decimal, and the narrower one.
  if (from.decimal_bits == 0 || to.decimal_bits == 0) return false;
  if (from.precision != to.precision || from.scale != to.scale) return false;
  return from.decimal_bits == to.decimal_bits || (to.decimal_bits == 64 && from.decimal_bits > 64);
}

std::string show(const Field& field) {
  return "`" + field.name + "` of format " + field.format.substr(0, 64) +
         (field.has_dictionary() ? " (dictionary of " + field.values().format.substr(0, 64) + ")" : "") +
         ((field.flags & ARROW_FLAG_NULLABLE) != 0 ? "" : ", not nullable");
}

}  // namespace

Result<Field> import_schema(const ArrowSchema& schema) {
  Field root;
  OCM_TRY(SchemaChecker().import(schema, root, 0));
  if (root.format != "+s" || root.has_dictionary()) {
    return Status(Code::kInvalidArgument, "the stream gives no struct with a child for each column");
  }
  OCM_TRY(check_schema(root));
  OCM_DASSERT(root.type.form == Form::kStruct);
  return root;
}

Status check_schema(Field& root) {
  SchemaChecker checker;
  const Status status = checker.check(root, 0);
  OCM_DASSERT(!status.is_ok() || checker.is_at_root());
  return status;
}

void export_schema(const Field& field, ArrowSchema* schema) {
  auto exported = std::make_unique<Exported>();
  exported->format = field.format;
  exported->name = field.name;
  exported->metadata = field.metadata;
  exported->children.resize(field.children.size());
  for (size_t i = 0; i < field.children.size(); ++i) {
    export_schema(field.children[i], &exported->children[i]);
    exported->pointers.push_back(&exported->children[i]);
  }
  if (field.has_dictionary()) export_schema(field.values(), &exported->dictionary);
  OCM_DASSERT(exported->pointers.size() == exported->children.size());
  *schema = {};
  schema->format = exported->format.c_str();
  schema->name = exported->name.c_str();
  schema->metadata = exported->metadata.empty() ? nullptr : exported->metadata.data();
  schema->flags = field.flags;
  schema->n_children = static_cast<int64_t>(exported->children.size());
  schema->children = exported->pointers.empty() ? nullptr : exported->pointers.data();
  schema->dictionary = field.has_dictionary() ? &exported->dictionary : nullptr;
  schema->release = release_schema;
  schema->private_data = exported.release();
}

std::string decimal64_format(const Type& type) {
  return "d:" + std::to_string(type.precision) + "," + std::to_string(type.scale) + ",64";
}

bool is_extension(const Field& field) {
  return field.metadata.find("ARROW:extension:name") != std::string::npos;
}

Field stored_form(const Field& given, bool compact) {
  constexpr int32_t kDigitsOf64Bits = 18;
  Field stored = given;
  for (Field& child : stored.children) child = stored_form(child, compact);
  for (Field& values : stored.dictionary) values = stored_form(values, false);
  if (stored.type.form == Form::kView) stored.format = stored.type.text ? "u" : "z";
  if (compact && !is_extension(given) && stored.type.decimal_bits > 64 &&
      stored.type.precision <= kDigitsOf64Bits)
    stored.format = decimal64_format(stored.type);
  // A form of a known format is one.
  if (stored.format != given.format) stored.type = parse_type(stored.format).value();
  OCM_DASSERT(stored.type.form != Form::kView && stored.type.text == given.type.text);
  return stored;
}

Status check_match(const Field& given, const Field& stored) {
  if (given.children.size() != stored.children.size()) {
    return Status(Code::kInvalidArgument, "the data has " + std::to_string(given.children.size()) +
                                              " columns and the table " +
                                              std::to_string(stored.children.size()));
  }
  for (size_t i = 0; i < given.children.size(); ++i) {
    const Field& from = given.children[i];
    const Field& to = stored.children[i];
    if (from.name == to.name && same_shape(from, to)) continue;
    return Status(Code::kInvalidArgument, "column " + std::to_string(i) + " of the data is " + show(from) +
                                              ", of the table " + show(to) + ": cast or reorder it");
  }
  return {};
}

}  // namespace ocm::table
