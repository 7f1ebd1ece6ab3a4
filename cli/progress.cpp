#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include <algorithm>

#include "base/units.h"
#include "os/clock.h"
#include "tools/output.h"

namespace ocm::cli {
namespace {
constexpr uint64_t kRedrawNs = 100'000'000;
constexpr size_t kBarColumns = 30;
}  // namespace

Progress::Progress(std::string label, uint64_t bytes_total, Plain plain)
    : label_(std::move(label)),
      bytes_total_(std::max<uint64_t>(bytes_total, 1)),
      started_ns_(os::now_ns()),
      terminal_(isatty(STDERR_FILENO) != 0),
      lines_(plain == Plain::kLines) {}

void Progress::update(uint64_t bytes_done, uint64_t busy_ns) {
  const uint64_t now = os::now_ns();
  if (terminal_) {
    if (now - drawn_ns_ < kRedrawNs) return;
    drawn_ns_ = now;
    draw(bytes_done, busy_ns, false);
  } else if (lines_) {
    const auto tenths =
        static_cast<unsigned>(10 * static_cast<double>(bytes_done) / static_cast<double>(bytes_total_));
    if (tenths / 2 <= tenths_ / 2 || tenths >= 10) return;  // a line for every fifth; finish() has the last
    tenths_ = tenths;
    draw(bytes_done, busy_ns, false);
  }
}

void Progress::finish(uint64_t busy_ns) {
  if (terminal_ || lines_) draw(bytes_total_, busy_ns, true);
  open_ = false;
}

void Progress::abandon() {
  if (open_) fputc('\n', stderr);
  open_ = false;
}

void Progress::draw(uint64_t bytes_done, uint64_t busy_ns, bool last) {
  if (busy_ns == 0) busy_ns = std::max<uint64_t>(os::now_ns() - started_ns_, 1);
  const double share = static_cast<double>(bytes_done) / static_cast<double>(bytes_total_);
  const std::string rate =
      tools::format_rate(static_cast<double>(bytes_done) * 1e9 / static_cast<double>(busy_ns));
  if (terminal_) {
    std::string bar;
    for (size_t i = 0; i < kBarColumns; ++i) bar += static_cast<double>(i) < share * kBarColumns ? "█" : "░";
    fprintf(stderr, "\r%s %s %3.0f %%  %s of %s  %s\033[K%s", label_.c_str(), bar.c_str(), 100 * share,
            format_bytes(bytes_done).c_str(), format_bytes(bytes_total_).c_str(), rate.c_str(),
            last ? "\n" : "");
    open_ = !last;
  } else {
    fprintf(stderr, "%s %3.0f %%  %s of %s  %s\n", label_.c_str(), 100 * share,
            format_bytes(bytes_done).c_str(), format_bytes(bytes_total_).c_str(), rate.c_str());
  }
  fflush(stderr);
}

}  // namespace ocm::cli
