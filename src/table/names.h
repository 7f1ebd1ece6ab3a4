// The names of a table's segments, and what publishing and removing them means.
//
//   NAME          the first segment; it has the table's random number (its id)
//   NAME~ID~N     appended segment N = 1, 2, ...; ID in 16 hexadecimal digits
//
// Appended segments count only where they belong to the owner of NAME, or to root. The coordinator gives
// them to nobody else while NAME is there; who reads does not rely on it.
//
// An appended segment has its catalogue on the nodes of the first one's, so that its name is known as long as NAME is.
//
// Publishing a name is the commit. A number whose append failed halfway stays free when others took the next ones
// meanwhile. Segments of an id that NAME does not have (any more) belong to nobody:
// their appender or dropper died, and whoever creates or drops NAME next removes them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "table/call.h"
#include "table/format/catalogue.h"

namespace ocm::table {

inline constexpr size_t kTableNameBytesMax = 200;

/// Errors: kInvalidArgument, kTooLarge.
Status check_table_name(const char* name);

/// An appended segment's place.
struct Appended {
  uint64_t table = 0;
  uint32_t number = 0;
};
std::string segment_name(const std::string& name, const Appended& segment);
/// What the names of the table's appended segments begin with.
std::string segment_prefix(const std::string& name, uint64_t table);
/// Nothing if `published` is no segment of the table `name`.
std::optional<Appended> parse_segment_name(const std::string& name, const std::string& published);

/// What a published name says of itself.
struct Published {
  std::string name;
  uint32_t owner_uid = 0;
};
/// Published names with the prefix. Errors: kNoCoordinator, ...
Result<std::vector<Published>> list_names(ocm_session* session, const std::string& prefix);
/// The name itself, if it is published.
Result<std::optional<Published>> find_name(ocm_session* session, const std::string& name);

/// A segment that is held.
struct HeldSegment {
  Allocation allocation;
  Footer footer;
  uint32_t owner_uid = 0;
  uint32_t mode = 0;        // of its name
  uint32_t reader_uid = 0;  // of the session that holds it
};
/// Attaches a segment for reading and reads its footer.
/// Errors: kNotFound, kPermission, kProtocol (no table), kLost, kPeerLost.
Result<HeldSegment> hold_segment(ocm_session* session, const std::string& published);
/// True if an appended segment of `appended_uid` counts as one of the table of `owner_uid`.
inline bool counts(uint32_t owner_uid, uint32_t appended_uid) {
  return appended_uid == owner_uid || appended_uid == 0;
}
/// Owners of the appended segments of the table that are published, by number; also those that do not count.
using Owners = std::map<uint32_t, uint32_t>;
Result<Owners> owners_of_appended(ocm_session* session, const std::string& name, uint64_t table);
/// Reads and checks its catalogue.
Result<Catalogue> read_catalogue(const HeldSegment& segment);

struct RemovedTable {
  Status
      name;  // that of the table. kNotFound, kPermission, kInvalidArgument (it is no table): nothing was removed
  Status appended;  // then those of its appended segments: why some are left
};
/// Removes what the name has, first the name.
RemovedTable remove_table(ocm_session* session, const std::string& name);
/// Appended segments that are published now, of whichever tables had or have the name.
Result<std::vector<std::string>> appended_names(ocm_session* session, const std::string& name);

}  // namespace ocm::table
