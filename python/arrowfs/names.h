// Paths and published names: the one rule by which a file of a file system is an allocation with a name.
//
// A name has no '/', and '~' in a name is a table's further segment (or the mark below), so '/' '~' '%' of a
// path stand in the name as %2F %7E %25. Folders are implied, as in object stores. An allocation has at least
// one byte; so an empty file is one byte under the path's name and "~0". oncilla/fs.py has the same rule.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ocm::arrowfs {

inline constexpr size_t kNameBytesMax = 253;  // 255 of a name, less the mark of an empty file
inline constexpr std::string_view kEmptyMark = "~0";

inline std::string escaped(std::string_view path) {
  std::string name;
  for (const char c : path) {
    switch (c) {
      case '%': name += "%25"; break;
      case '/': name += "%2F"; break;
      case '~': name += "%7E"; break;
      default: name += c;
    }
  }
  return name;
}

/// The path of a name; nothing for a name that no path has, such as a table's further segment.
inline std::optional<std::string> unescaped(std::string_view name) {
  std::string path;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '~') return std::nullopt;
    if (name[i] != '%') {
      path += name[i];
      continue;
    }
    const std::string_view code = name.substr(i, 3);
    if (code == "%25") {
      path += '%';
    } else if (code == "%2F") {
      path += '/';
    } else if (code == "%7E") {
      path += '~';
    } else {
      return std::nullopt;
    }
    i += 2;
  }
  return path;
}

/// Without the slashes at both ends: "" is the root.
inline std::string stripped(std::string_view path) {
  while (!path.empty() && path.front() == '/') path.remove_prefix(1);
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  return std::string(path);
}

}  // namespace ocm::arrowfs
