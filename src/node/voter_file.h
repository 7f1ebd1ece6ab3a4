// What a voter must not forget (node/voter_memory.h), in two files of the run directory: `voter`, of this run of the daemon,
// and `voter.former`, of runs before it.
//
//   8 B magic | 36 B the machine's boot id | entry: what was saved | entries: what was appended to it
//   entry: 4 B length n | 4 B its complement | 4 B CRC-32C of the bytes | n bytes
//
// They outlive the daemon and not the machine's power: a file of another boot counts as none, so nothing waits for a device.
// A file is replaced as a whole, or appended to. Its last entry is ignored if it is cut short: whoever wrote it died before
// it answered. Where a file cannot be written it is removed; a memory that can be neither written nor removed would be a lie,
// so the daemon ends.
// Threads: the loop's.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "node/core.h"

namespace ocm::node {

class VoterFiles final : public VoterStore {
 public:
  /// `boot_id`: of /proc/sys/kernel/random.
  VoterFiles(std::string run_dir, std::string boot_id);
  std::vector<std::string> load(Of of) override;
  bool save(Of of, const std::string& bytes) override;
  bool append(Of of, const std::string& bytes) override;

 private:
  std::string path(Of of) const { return run_dir_ + (of == Of::kThisRun ? "/voter" : "/voter.former"); }

  const std::string run_dir_, boot_id_;
  std::map<Of, size_t> sizes_;  // of the files that this run saved
};

}  // namespace ocm::node
