// Progress of a transfer on stderr: one redrawn line on a terminal, nothing or plain lines elsewhere.
#pragma once

#include <cstdint>
#include <string>

namespace ocm::cli {

class Progress {
 public:
  enum class Plain { kSilent, kLines };  // where stderr is no terminal

  Progress(std::string label, uint64_t bytes_total, Plain plain);
  /// Redraws at most ten times a second. `busy_ns` is the time that the rate is computed from; 0: since
  /// the start.
  void update(uint64_t bytes_done, uint64_t busy_ns = 0);
  /// The last line, with the final rate.
  void finish(uint64_t busy_ns = 0);
  /// Ends a half-drawn line, so that an error starts on its own.
  void abandon();

 private:
  void draw(uint64_t bytes_done, uint64_t busy_ns, bool last);

  std::string label_;
  uint64_t bytes_total_;
  uint64_t started_ns_;
  uint64_t drawn_ns_ = 0;
  unsigned tenths_ = 0;  // plain lines: how many tenths were told
  bool terminal_;
  bool lines_;
  bool open_ = false;  // a line without its end is on the terminal
};

}  // namespace ocm::cli
