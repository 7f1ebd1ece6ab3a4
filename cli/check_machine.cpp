// What doctor looks at on this machine: limits, huge pages, NUMA, clocks, libraries.
#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <fstream>

#include "base/units.h"
#include "cli/check.h"
#include "os/memory.h"
#include "os/userfault.h"

namespace ocm::cli {
namespace {

/// The first number of a file; `otherwise` when there is none.
uint64_t number_in(const char* path, uint64_t otherwise) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : otherwise;
}
std::string line_in(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}
uint64_t meminfo_bytes(const std::string& wanted) {
  std::ifstream file("/proc/meminfo");
  std::string key;
  uint64_t value = 0;
  while (file >> key >> value) {
    if (key == wanted + ":") return value * kKiB;
    file.ignore(64, '\n');
  }
  return 0;
}

std::string limit_text(rlim_t value) {
  return value == RLIM_INFINITY ? "unlimited" : std::to_string(static_cast<uint64_t>(value));
}

Check check_memlock() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  Check check{"locked memory", Verdict::kOk, "", ""};
  check.found = limit.rlim_cur == RLIM_INFINITY ? "unlimited" : format_bytes(limit.rlim_cur);
  if (limit.rlim_cur < 64 * kMiB && access("/sys/class/infiniband", F_OK) == 0) {
    check.verdict = Verdict::kWarn;
    check.fix = "RDMA registers what it serves: set LimitMEMLOCK=infinity in the unit";
  }
  return check;
}

Check check_maps() {
  const uint64_t count = number_in("/proc/sys/vm/max_map_count", 65530);
  Check check{"mappings", Verdict::kOk, "vm.max_map_count " + std::to_string(count), ""};
  if (count < 65530) {
    check.verdict = Verdict::kWarn;
    check.fix = "each extent that is in use takes one: `sysctl vm.max_map_count=262144`";
  }
  return check;
}

Check check_memory() {
  const uint64_t available = meminfo_bytes("MemAvailable"), total = meminfo_bytes("MemTotal");
  Check check{"memory", Verdict::kOk, format_bytes(available) + " available of " + format_bytes(total), ""};
  if (available * 20 < total) {
    check.verdict = Verdict::kWarn;
    check.fix = "less than 5 % is left: offer less (dram in oncillad.toml), or end what uses it";
  }
  if (number_in("/proc/sys/vm/overcommit_memory", 0) == 2) {
    check.verdict = Verdict::kWarn;
    check.found += "; vm.overcommit_memory is 2";
    check.fix = "large extents may be refused: `sysctl vm.overcommit_memory=0`";
  }
  return check;
}

Check check_cgroup() {
  const std::string limit = line_in("/sys/fs/cgroup/memory.max");
  Check check{"memory limit", Verdict::kOk, "none", ""};
  if (limit.empty() || limit == "max") return check;
  const uint64_t bytes = strtoull(limit.c_str(), nullptr, 10);
  check.found = format_bytes(bytes) + " for this control group";
  if (bytes < kGiB) {
    check.verdict = Verdict::kWarn;
    check.fix = "extents count against it and exceeding it ends the daemon: offer less, or raise memory.max";
  }
  return check;
}

Check check_memfd() {
  const Result<os::Fd> fd = os::make_memfd("ocm-doctor", 4096, {});
  if (fd.is_ok()) return {"memfd", Verdict::kOk, "can be made and sealed", ""};
  return {"memfd", Verdict::kFail, std::string(fd.status().message()),
          "extents are memfds: Linux 4.14 or later, and a seccomp profile that allows memfd_create"};
}

Check check_hugepages() {
  const uint64_t total = number_in("/proc/sys/vm/nr_hugepages", 0);
  const uint64_t page = meminfo_bytes("Hugepagesize");
  Check check{"huge pages", Verdict::kOk, "none reserved", ""};
  if (total > 0) check.found = std::to_string(total) + " of " + format_bytes(page) + " reserved";
  std::ifstream file("/proc/meminfo");
  std::string key;
  uint64_t value = 0;
  while (file >> key >> value) {
    if (key == "HugePages_Free:" && total > 0) {
      check.found += ", " + std::to_string(value) + " free";
      if (value == 0) {
        check.verdict = Verdict::kWarn;
        check.fix =
            "allocations that ask for huge pages fail now: `sysctl vm.nr_hugepages=N` with a larger N";
      }
    }
    file.ignore(64, '\n');
  }
  return check;
}

Check check_shared_huge_pages() {
  const std::string mode = os::shared_huge_pages();
  Check check{"shared huge pages", Verdict::kOk, mode.empty() ? "not known to this kernel" : mode, ""};
  if (mode == "never" || mode == "deny") {
    check.verdict = Verdict::kWarn;
    check.fix =
        "the first write to each 4 KiB of an extent takes a page fault, which costs several times the write; "
        "for one each 2 MiB: `echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled`, at each boot "
        "by packaging/oncilla.tmpfiles";
  } else if (!mode.empty() && mode != "advise") {
    check.verdict = Verdict::kWarn;
    check.fix =
        "extents of less than 2 MiB take 2 MiB of memory each, which no pool counts; for huge pages only "
        "where they "
        "fit: `echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled`";
  }
  return check;
}

Check check_userfault() {
  Check check{"page faults", Verdict::kOk, "", ""};
  const auto made = os::Userfault::make();
  if (!made.is_ok()) {
    check.verdict = Verdict::kWarn;
    check.found = "userfaultfd is not available";
    check.fix = "pointers into cached pages (kind nvme) need it and Linux 5.19; put and get work without";
  } else if (made.value().of_kernel()) {
    check.found = "userfaultfd, also for system calls";
  } else {
    check.found = "userfaultfd, not for system calls (who may open /dev/userfaultfd has these, too)";
  }
  return check;
}

Check check_numa() {
  int nodes = 0;
  if (DIR* folder = opendir("/sys/devices/system/node")) {
    while (const dirent* entry = readdir(folder)) {
      int number = 0;
      nodes += sscanf(entry->d_name, "node%d", &number) == 1 ? 1 : 0;
    }
    closedir(folder);
  }
  Check check{"NUMA", Verdict::kOk, nodes <= 1 ? "one node" : std::to_string(nodes) + " nodes", ""};
  if (nodes > 1) check.found += "; `numa_node` in oncillad.toml says where extents lie";
  return check;
}

Check check_shm() {
  struct statvfs info {};
  if (statvfs("/dev/shm", &info) != 0) {
    return {"/dev/shm", Verdict::kWarn, "not mounted",
            "UCX needs it for shared memory; Oncilla's own does not"};
  }
  const uint64_t bytes = uint64_t{info.f_blocks} * info.f_frsize;
  Check check{"/dev/shm", Verdict::kOk, format_bytes(bytes), ""};
  if (bytes < 256 * kMiB) {
    check.verdict = Verdict::kWarn;
    check.fix =
        "UCX wants more (Oncilla's own shared memory does not use it): `mount -o remount,size=2G "
        "/dev/shm`, or for a container --shm-size";
  }
  return check;
}

Check check_clock() {
  const std::string source = line_in("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  constexpr int kReads = 10000;
  timespec last{}, now{}, first{};
  clock_gettime(CLOCK_MONOTONIC, &first);
  last = first;
  bool backwards = false;
  for (int i = 0; i < kReads; ++i) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    backwards =
        backwards || now.tv_sec < last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_nsec < last.tv_nsec);
    last = now;
  }
  const double ns = (static_cast<double>(now.tv_sec - first.tv_sec) * 1e9 +
                     static_cast<double>(now.tv_nsec - first.tv_nsec)) /
                    kReads;
  char text[96];
  snprintf(text, sizeof(text), "%s, %.0f ns to read", source.empty() ? "unknown" : source.c_str(), ns);
  Check check{"clock", Verdict::kOk, text, ""};
  if (ns > 500) {
    check.verdict = Verdict::kWarn;
    check.fix =
        "deadlines cost that much: choose a faster clock source (tsc, kvm-clock) if the machine has one";
  }
  if (backwards) {
    check.verdict = Verdict::kFail;
    check.fix = "the monotonic clock went backwards: deadlines cannot work on this kernel";
  }
  return check;
}

Check check_backlog() {
  const uint64_t backlog = number_in("/proc/sys/net/core/somaxconn", 4096);
  Check check{"listen backlog", Verdict::kOk, "net.core.somaxconn " + std::to_string(backlog), ""};
  if (backlog < 512) {
    check.verdict = Verdict::kWarn;
    check.fix = "many programs that connect at once are refused: `sysctl net.core.somaxconn=4096`";
  }
  return check;
}

}  // namespace

Check check_nofile(uint64_t descriptors_max, uint64_t descriptors_wanted) {
  Check check{"open files", Verdict::kOk, "", ""};
  if (descriptors_max > 0) {
    check.found = "the daemon's limit is " + std::to_string(descriptors_max) + "; it wants " +
                  std::to_string(descriptors_wanted);
    if (descriptors_max < descriptors_wanted) check.verdict = Verdict::kWarn;
    if (descriptors_max < 1024) check.verdict = Verdict::kFail;
  } else {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    check.found = limit_text(limit.rlim_cur) + ", at most " + limit_text(limit.rlim_max) + ", for this user";
    if (limit.rlim_max < 65536 && geteuid() != 0) check.verdict = Verdict::kWarn;
    if (limit.rlim_max < 1024) check.verdict = Verdict::kFail;
  }
  if (check.verdict != Verdict::kOk) {
    check.fix =
        "extents take one each, unless small ones share a file that programs do not map: set "
        "LimitNOFILE=1048576 in the unit, or `ulimit -Hn 1048576`";
  }
  return check;
}

std::vector<Check> check_machine() {
  return {check_memlock(),
          check_maps(),
          check_memory(),
          check_cgroup(),
          check_memfd(),
          check_hugepages(),
          check_shared_huge_pages(),
          check_userfault(),
          check_numa(),
          check_shm(),
          check_clock(),
          check_backlog()};
}

}  // namespace ocm::cli
