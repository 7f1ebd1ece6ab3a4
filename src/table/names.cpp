#include "table/names.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>

#include "base/text.h"

namespace ocm::table {
namespace {

constexpr size_t kIdDigits = 16;
static_assert(kTableNameBytesMax + 1 + kIdDigits + 1 + 10 <= kNameBytesMax, "NAME~ID~N is a name");

bool collect(const ocm_name_info* info, void* context) {
  static_cast<std::vector<Published>*>(context)->push_back({info->name, info->owner_uid});
  return true;
}

template <class Number>
bool read_number(std::string_view text, int base, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

Status check_table_name(const char* name) {
  if (name == nullptr) return Status(Code::kInvalidArgument, "`name` is null");
  const std::string_view text = name;
  if (text.size() > kTableNameBytesMax)
    return Status(Code::kTooLarge, "the table's name has " + std::to_string(text.size()) +
                                       " bytes; at most " + std::to_string(kTableNameBytesMax) +
                                       " are allowed");
  OCM_TRY(check_name(text));
  if (text.find('~') != text.npos)
    return Status(Code::kInvalidArgument, "the table's name contains '~', which is reserved");
  return {};
}

std::string segment_prefix(const std::string& name, uint64_t table) {
  char text[kIdDigits + 1];
  [[maybe_unused]] const int digits =
      std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(table));
  OCM_DASSERT(digits == static_cast<int>(kIdDigits));
  return name + "~" + text + "~";
}

std::string segment_name(const std::string& name, const Appended& segment) {
  return segment_prefix(name, segment.table) + std::to_string(segment.number);
}

std::optional<Appended> parse_segment_name(const std::string& name, const std::string& published) {
  const std::string_view rest = std::string_view(published).substr(std::min(name.size(), published.size()));
  if (!published.starts_with(name) || rest.size() < kIdDigits + 3 || rest[0] != '~' ||
      rest[kIdDigits + 1] != '~')
    return std::nullopt;
  Appended segment;
  if (!read_number(rest.substr(1, kIdDigits), 16, segment.table) ||
      !read_number(rest.substr(kIdDigits + 2), 10, segment.number)) {
    return std::nullopt;
  }
  if (segment_name(name, segment) != published) return std::nullopt;  // "01", say
  OCM_DASSERT(published.starts_with(segment_prefix(name, segment.table)));
  return segment;
}

Result<std::vector<Published>> list_names(ocm_session* session, const std::string& prefix) {
  std::vector<Published> names;
  OCM_TRY(status_of(ocm_name_list(session, prefix.c_str(), collect, &names)));
  return names;
}

Result<std::optional<Published>> find_name(ocm_session* session, const std::string& name) {
  OCM_TRY_ASSIGN(const std::vector<Published> names, list_names(session, name));
  for (const Published& one : names) {
    if (one.name == name) return std::optional<Published>(one);
  }
  return std::optional<Published>();
}

Result<HeldSegment> hold_segment(ocm_session* session, const std::string& published) {
  constexpr auto kReadAndHold = static_cast<ocm_access>(OCM_ACCESS_READ | OCM_ACCESS_HOLD);
  constexpr int kTries = 2;  // a node that died a moment ago is known to be dead the second time
  ocm_allocation* handle = nullptr;
  Status attached = Code::kPeerLost;
  for (int tried = 0; tried < kTries && attached.code() == Code::kPeerLost; ++tried) {
    attached = status_of(ocm_allocation_attach(session, published.c_str(), kReadAndHold, &handle));
  }
  OCM_TRY(attached);
  HeldSegment segment{Allocation(handle), {}};
  ocm_allocation_info info = OCM_ALLOCATION_INFO_INIT;
  if (const Status known = status_of(ocm_allocation_query(handle, &info)); !known.is_ok())
    return Status(Code::kCancelled, "the session was closed");
  segment.owner_uid = info.owner_uid;
  segment.mode = info.mode;
  segment.reader_uid = info.own_uid;
  const uint64_t bytes = info.bytes;
  if (bytes < kFooterBytes) {
    return Status(Code::kProtocol, "it is not a table, but another published allocation")
        .with_subject(Subject::kAllocation, published);
  }
  std::byte footer[kFooterBytes];
  OCM_TRY(status_of(ocm_get(handle, bytes - kFooterBytes, footer, kFooterBytes)));
  const Result<Footer> decoded = decode_footer(footer, bytes);
  if (!decoded.is_ok()) return decoded.status().with_subject(Subject::kAllocation, published);
  segment.footer = decoded.value();
  return segment;
}

Result<Owners> owners_of_appended(ocm_session* session, const std::string& name, uint64_t table) {
  OCM_TRY_ASSIGN(const std::vector<Published> names, list_names(session, segment_prefix(name, table)));
  Owners out;
  for (const Published& one : names) {
    const auto segment = parse_segment_name(name, one.name);
    if (segment && segment->table == table) out.emplace(segment->number, one.owner_uid);
  }
  return out;
}

Result<Catalogue> read_catalogue(const HeldSegment& segment) {
  const uint64_t bytes = ocm_allocation_bytes(segment.allocation.get());
  const Footer& footer = segment.footer;
  std::vector<std::byte> catalogue(footer.catalogue_bytes);
  OCM_TRY(status_of(ocm_get(segment.allocation.get(), bytes - last_part_bytes(footer.catalogue_bytes),
                            catalogue.data(), catalogue.size())));
  return decode_catalogue(catalogue, footer, bytes);
}

Result<std::vector<std::string>> appended_names(ocm_session* session, const std::string& name) {
  OCM_TRY_ASSIGN(const std::vector<Published> listed, list_names(session, name + "~"));
  std::vector<std::string> names;
  for (const Published& one : listed) {
    if (parse_segment_name(name, one.name)) names.push_back(one.name);
  }
  return names;
}

namespace {

/// Not: no home could be asked.
bool is_no_table(const Status& status) {
  return status.code() == Code::kProtocol && status.subject_kind() == Subject::kAllocation &&
         status.node().empty();
}

/// The appended segments of tables `ids`; those of a table that took the name meanwhile stay. `all` of them are gone if it
/// is kOk. `any`: one was there.
Status remove_appended(ocm_session* session, const std::string& name, const std::set<uint64_t>& ids,
                       bool& any) {
  const auto stay = [](const std::string& which, const Status& why) {
    return why.with_message(which + " (drop it again): " + std::string(why.message()));
  };
  const Result<std::vector<std::string>> names = appended_names(session, name);
  if (!names.is_ok()) return stay("its appended segments may stay", names.status());
  Status first;
  size_t left = 0;
  for (const std::string& one : names.value()) {
    OCM_DASSERT(parse_segment_name(name, one).has_value());  // appended_names() gives no others
    if (!ids.contains(parse_segment_name(name, one)->table)) continue;
    any = true;
    const Status removed = status_of(ocm_name_remove(session, one.c_str()));
    if (removed.is_ok() || removed.code() == Code::kNotFound) continue;
    if (left++ == 0) first = removed;
  }
  return left == 0 ? Status() : stay(std::to_string(left) + " of its appended segments stay", first);
}

}  // namespace

RemovedTable remove_table(ocm_session* session, const std::string& name) {
  std::set<uint64_t> ids;
  if (const Result<HeldSegment> held = hold_segment(session, name); held.is_ok()) {
    ids.insert(held.value().footer.table);
  } else if (is_no_table(held.status())) {
    return {Status(Code::kInvalidArgument, "`" + name + "` is not a table: remove it as an allocation"), {}};
  }
  const Result<std::vector<std::string>> before = appended_names(session, name);
  if (!before.is_ok()) return {before.status(), {}};
  for (const std::string& one : before.value()) ids.insert(parse_segment_name(name, one)->table);
  RemovedTable out{status_of(ocm_name_remove(session, name.c_str())), {}};
  if (!out.name.is_ok() && out.name.code() != Code::kNotFound) return out;
  bool any = false;
  out.appended = remove_appended(session, name, ids, any);
  if (any) out.name = {};  // what a former attempt left was dropped
  return out;
}

}  // namespace ocm::table
