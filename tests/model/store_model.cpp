// Every crash of a small pool (src/memory/nvme/store.h): each short script of changes, at each write and flush of it, with
// each choice of what the device kept, lost or tore of the writes since the last flush; also during recovery, and again
// after it.
//
// How to run it: model.h. What must hold: store.h (D1 to D6), records.h (N1).
#define OCM_MODEL
#include <functional>

#include "../../src/memory/nvme/block.cpp"     // NOLINT
#include "../../src/memory/nvme/geometry.cpp"  // NOLINT
#include "../../src/memory/nvme/records.cpp"   // NOLINT
#include "../../src/memory/nvme/store.cpp"     // NOLINT
#include "model.h"

namespace ocm::memory::nvme {
namespace {

constexpr uint64_t kDeviceBytes = 34 * 4096;
constexpr size_t kNameBytes = 4100;  // a group that gives one has two blocks, and so has a checkpoint
constexpr const char* kCluster = "c";

/// What is on the device for good, and what was written since.
struct Image {
  std::vector<std::byte> kept = std::vector<std::byte>(kDeviceBytes);
  struct Write {
    uint64_t offset;
    std::vector<std::byte> bytes;
  };
  std::vector<Write> pending;
};

/// Reads see all writes; a crash does not. Ends with an exception at a chosen operation.
class CrashDevice final : public Device {
 public:
  struct Crash {};
  explicit CrashDevice(Image of) : image(std::move(of)), now_(image.kept) {
    for (const Image::Write& write : image.pending) put(now_, write);
    image.kept = now_, image.pending.clear();
  }
  uint64_t bytes() const override { return kDeviceBytes; }
  Status read(uint64_t offset, std::span<std::byte> to) override {
    if (offset + to.size() > kDeviceBytes) return Code::kIo;
    std::memcpy(to.data(), now_.data() + offset, to.size());
    return {};
  }
  Status write(uint64_t offset, std::span<const std::byte> from) override {
    step();
    image.pending.push_back({offset, {from.begin(), from.end()}});
    put(now_, image.pending.back());
    return {};
  }
  Status flush() override {
    step();
    for (const Image::Write& write : image.pending) put(image.kept, write);
    image.pending.clear();
    return {};
  }

  Image image;
  size_t steps = 0, crash_at = SIZE_MAX;

  static void put(std::vector<std::byte>& into, const Image::Write& write) {
    std::memcpy(into.data() + write.offset, write.bytes.data(), write.bytes.size());
  }

 private:
  void step() {
    if (steps++ == crash_at) throw Crash();
  }
  std::vector<std::byte> now_;
};

/// What else than all or nothing the device may do with a write: only its first sector, or bytes that nobody wrote.
enum class Partial { kNone, kTorn, kGarbled };

/// For each choice of what the device did with each write that was not flushed.
void each_outcome(const Image& image, Partial partial, const std::function<void(Image)>& use) {
  const size_t choices = partial == Partial::kNone ? 2 : 3;
  size_t all = 1;
  for (size_t i = 0; i < image.pending.size() && all < 1000; ++i) all *= choices;
  for (size_t outcome = 0; outcome < all; ++outcome) {
    Image after;
    after.kept = image.kept;
    size_t rest = outcome;
    for (const Image::Write& write : image.pending) {
      const size_t choice = rest % choices;
      rest /= choices;
      Image::Write done = write;
      if (choice == 0) continue;
      if (choice == 2 && partial == Partial::kTorn) done.bytes.resize(write.bytes.size() / 8);
      if (choice == 2 && partial == Partial::kGarbled)
        for (std::byte& byte : done.bytes) byte ^= std::byte{0x55};
      CrashDevice::put(after.kept, done);
    }
    use(std::move(after));
  }
}

/// What must be there: of each extent its name and the byte of each of its pages.
struct Expected {
  struct Extent {
    std::string name;
    std::map<uint64_t, uint8_t> pages;
    bool operator==(const Extent&) const = default;
  };
  std::map<uint32_t, Extent> extents;  // by generation
  bool operator==(const Expected&) const = default;
  Expected named() const {
    Expected out;
    for (const auto& [id, extent] : extents) {
      if (!extent.name.empty()) out.extents.emplace(id, extent);
    }
    return out;
  }
};

struct World {
  const char* name;
  size_t length = 4;  // of a script
  const char* alphabet = "pqCfmM";
  Partial partial = Partial::kNone;
  bool twice = false;   // crashes in recovery, and after what follows it
  bool damage = false;  // a flushed block of the journal is changed
  bool owners = false;  // no scripts: the pool loses its cluster, and gets another
  uint64_t begin = 0;   // groups committed since it was opened, so that the journal's end is near
};

class Checker {
 public:
  Checker(const World& world, size_t) : world_(world) {}
  size_t states() const { return recoveries_; }
  bool complete() const { return true; }
  const std::string& failure() const { return failure_; }
  std::string counts() const { return std::to_string(scripts_) + " scripts"; }

  bool run() {
    Image image;
    CrashDevice device(image);
    if (!Store::format(device, {.pool = 77, .cluster = kCluster, .partition = 5}, 4096).is_ok())
      fail("no format");
    prepare(device);
    if (world_.owners) {
      try_owners(device.image);
    } else {
      std::string script;
      write_scripts(script, device.image);
    }
    return failure_.empty();
  }

 private:
  void fail(const std::string& what) {
    if (failure_.empty()) failure_ = what + (script_.empty() ? "" : " (script " + script_ + ")");
  }

  /// One extent with a name and two pages, and some groups.
  void prepare(CrashDevice& device) {
    auto opened = Store::open(device, kCluster);
    if (!opened.is_ok()) return fail("it does not open: " + opened.status().to_string());
    Actor actor{*opened.value(), device, {}, {}};
    for (const char op : std::string("mpqMC")) actor.act(op);
    expected_ = actor.promised;
    for (int i = 0; i < 2; ++i) {  // both checkpoints tell of it
      if (!Store::open(device, kCluster).is_ok()) fail("it does not open again");
    }
    device.image.kept = CrashDevice(device.image).image.kept;
    device.image.pending.clear();
  }

  /// Does what a script says, and knows what was promised and what is under way.
  struct Actor {
    Store& store;
    CrashDevice& device;
    Expected promised, now;
    uint8_t next_byte = 1;
    uint32_t made = 1;  // the extent that pages go to
    uint32_t next_generation = 2;
    bool committing = false;
    std::optional<Store::Group> group = {};  // that began
    Expected in_group = {};

    ExtentId id() const { return {GlobalAddress(5, uint64_t{made} << 16), made}; }
    bool act(char op) {
      switch (op) {
        case 'p': return page(0);
        case 'q': return page(1);
        case 'm': {  // another extent, to which pages go from now on
          if (now.extents.size() > 1) return false;
          made = now.extents.empty() ? 1 : next_generation++;
          now.extents[made];
          return store.add(nvme::made(id(), 2 * 4096)).is_ok();
        }
        case 'M':
          if (!now.extents.contains(made) || !now.extents[made].name.empty()) return false;
          now.extents[made].name = std::string(kNameBytes, static_cast<char>('a' + next_byte++ % 26));
          return store.add(named(id(), now.extents[made].name)).is_ok();
        case 'f': {
          if (now.extents.empty()) return false;
          const uint32_t first = now.extents.begin()->first;
          now.extents.erase(first);
          const ExtentId gone{GlobalAddress(5, uint64_t{first} << 16), first};
          return store.add(freed(gone)).is_ok();
        }
        case 'b':
          if (group) return false;
          group = store.begin_commit();
          in_group = now;
          return true;
        case 'e': {
          if (!group) return false;
          committing = true;
          const Status written = store.write(*group);
          const bool good = store.end_commit(std::move(*group), written).is_ok();
          committing = false;
          group.reset();
          if (good) promised = in_group;
          return good;
        }
        default: {
          if (group) return false;
          in_group = now;
          committing = true;
          const bool good = store.commit().is_ok();
          committing = false;
          if (good) promised = now;
          return good;
        }
      }
    }
    bool page(uint64_t index) {
      if (!now.extents.contains(made)) return false;
      const auto slot = store.take_slot();
      if (!slot) return false;
      const uint8_t byte = next_byte++;
      std::vector<std::byte> bytes(4096, std::byte{byte});
      if (!device.write(store.geometry().slot_at(*slot), bytes).is_ok()) return false;
      now.extents[made].pages[index] = byte;
      PageAt at{*slot, crc32c(0, bytes.data(), bytes.size()), byte};
      return store.add(page_at(id(), index, at)).is_ok();
    }
  };

  void write_scripts(std::string& script, const Image& image) {
    if (!failure_.empty()) return;
    if (script.size() == world_.length) {
      try_script(script, image);
      return;
    }
    for (const char* op = world_.alphabet; *op != 0; ++op) {
      script.push_back(*op);
      write_scripts(script, image);
      script.pop_back();
    }
  }

  void try_script(const std::string& script, const Image& image) {
    ++scripts_;
    script_ = script;
    for (size_t at = 0; failure_.empty(); ++at) {
      CrashDevice device(image);
      if (world_.begin == 0) device.crash_at = at;
      Expected promised = expected_, under_way = expected_;
      bool crashed = false;
      try {
        auto opened = Store::open(device, kCluster);
        if (!opened.is_ok()) return fail("it does not open: " + opened.status().to_string());
        Actor actor{*opened.value(), device, expected_, expected_};
        for (const auto& [generation, extent] : expected_.extents) actor.next_generation = generation + 1;
        actor.made = expected_.extents.empty() ? 1 : expected_.extents.begin()->first;
        actor.next_byte = 100;
        for (uint64_t i = 0; i < world_.begin; ++i) actor.act('p'), actor.act('C');
        if (world_.begin != 0) device.crash_at = device.steps + at;
        try {
          for (const char op : script) {
            if (!actor.act(op)) return;  // it says nothing new
            if (!opened.value()->is_valid()) return fail("the store is not valid");
          }
        } catch (const CrashDevice::Crash&) {
          crashed = true;
        }
        promised = actor.promised;
        under_way = actor.committing ? actor.in_group : actor.promised;
      } catch (const CrashDevice::Crash&) {
        crashed = true;  // while it was opened
      }
      each_outcome(device.image, world_.partial,
                   [&](Image after) { recover(after, promised, under_way, world_.twice); });
      if (world_.damage) try_damage(device.image, promised);
      if (!crashed) return;
    }
  }

  static Expected found_in(const Store& store, CrashDevice& device, bool& good) {
    Expected out;
    for (const auto& [id, extent] : store.contents().extents()) {
      Expected::Extent& mine = out.extents[id.generation];
      mine.name = extent.name;
      for (const auto& [page, at] : extent.pages) {
        std::vector<std::byte> bytes(4096);
        (void)device.read(store.geometry().slot_at(at.slot), bytes);
        good = good && crc32c(0, bytes.data(), bytes.size()) == at.crc;
        mine.pages[page] = static_cast<uint8_t>(bytes.front());
      }
    }
    return out;
  }

  /// `promised`, or `under_way`.
  void recover(const Image& image, const Expected& promised, const Expected& under_way, bool again) {
    if (!failure_.empty()) return;
    ++recoveries_;
    CrashDevice device(image);
    auto opened = Store::open(device, kCluster);
    if (!opened.is_ok()) return fail("D1: it does not open any more: " + opened.status().to_string());
    Store& store = *opened.value();
    bool good = true;
    const Expected found = found_in(store, device, good);
    if (!good) return fail("D2: a page has other bytes");
    if (!(found == promised.named()) && !(found == under_way.named()))
      return fail("D1: other contents than promised");
    if (!store.is_valid()) return fail("N1: the store is not valid");
    if (!again) return;
    // A crash in that recovery; and one group more, with a crash at each step of it.
    const size_t steps = device.steps;
    for (size_t at = 0; at < steps; ++at) {
      CrashDevice second(image);
      second.crash_at = at;
      try {
        (void)Store::open(second, kCluster);
      } catch (const CrashDevice::Crash&) {
      }
      each_outcome(second.image, Partial::kNone,
                   [&](Image after) { recover(after, promised, under_way, false); });
    }
    if (found.extents.empty()) return;
    for (size_t at = steps;; ++at) {
      CrashDevice second(image);
      second.crash_at = at;
      bool crashed = false;
      auto reopened = Store::open(second, kCluster);
      Actor actor{*reopened.value(), second, found, found};
      actor.made = found.extents.begin()->first;
      actor.next_generation = found.extents.rbegin()->first + 1;
      actor.next_byte = 200;
      try {
        for (const char op : std::string(found.extents.size() > 1 ? "fmMC" : "mMC")) actor.act(op);
      } catch (const CrashDevice::Crash&) {
        crashed = true;
      }
      const Expected before = actor.promised, after = actor.committing ? actor.in_group : before;
      each_outcome(second.image, Partial::kNone,
                   [&](Image image_after) { recover(image_after, before, after, false); });
      if (!crashed) return;
    }
  }

  /// D6, also where one of the superblocks is damaged.
  void try_owners(const Image& image) {
    using Step = std::function<void(Device&)>;
    const Step disown = [](Device& device) { (void)Store::disown(device); };
    const Step adopt = [](Device& device) { (void)Store::open(device, "d"); };
    CrashDevice free(image);
    disown(free);
    CrashDevice disowned(free.image);
    for (int damaged = -1; damaged < 2; ++damaged) {
      const auto look = [&](Image at, const Step& step, const char* before, const char* after) {
        if (damaged >= 0)
          at.kept[Geometry::superblock_at(static_cast<uint64_t>(damaged)) + 9] ^= std::byte{1};
        owner_after_crash(at, step, before, after);
      };
      look(image, disown, kCluster, "");
      look(disowned.image, adopt, "", "d");
    }
  }
  void owner_after_crash(const Image& image, const std::function<void(Device&)>& step,
                         const std::string& before, const std::string& after) {
    CrashDevice undisturbed(image);
    const auto first = Store::inspect(undisturbed);
    if (!first.is_ok() || first.value().identity.cluster != before) return fail("D6: it begins as another's");
    bool crashed = true;
    for (size_t at = 0; crashed && failure_.empty(); ++at) {
      CrashDevice device(image);
      device.crash_at = at;
      crashed = false;
      try {
        step(device);
      } catch (const CrashDevice::Crash&) {
        crashed = true;
      }
      each_outcome(device.image, world_.partial, [&](const Image& left) {
        ++recoveries_;
        CrashDevice there(left);
        const auto found = Store::inspect(there);
        if (!found.is_ok()) return fail("D6: it is none any more: " + found.status().to_string());
        if (there.steps != 0) return fail("inspect() changes it");
        const std::string owner = found.value().identity.cluster;
        if (owner != after && (owner != before || !crashed)) return fail("D6: it is another's");
        if (found.value().starts < first.value().starts) return fail("D6: its starts go back");
        if (!owner.empty() && Store::open(there, "another").is_ok()) return fail("D6: anybody opens it");
        auto opened = Store::open(there, owner.empty() ? kCluster : owner);
        if (!opened.is_ok()) return fail("D6: its owner does not open it: " + opened.status().to_string());
        bool good = true;
        if (!(found_in(*opened.value(), there, good) == expected_.named()) || !good)
          return fail("D1: other contents than promised");
      });
    }
  }

  /// D4: of groups that were flushed one but the last is damaged.
  void try_damage(const Image& image, const Expected& promised) {
    const auto geometry = Geometry::of(kDeviceBytes, 4096).value();
    for (uint64_t i = 0; i < geometry.journal_blocks && failure_.empty(); ++i) {
      Image changed = image;
      changed.pending.clear();
      CrashDevice look(changed);
      BlockBytes bytes;
      (void)look.read(geometry.journal_at(i), bytes);
      if (!open_block(bytes, BlockKind::kJournal)) continue;
      changed.kept[geometry.journal_at(i) + 100] ^= std::byte{1};
      ++recoveries_;
      CrashDevice damaged(changed);
      auto opened = Store::open(damaged, kCluster);
      if (!opened.is_ok()) continue;  // told
      bool good = true;
      const Expected found = found_in(*opened.value(), damaged, good);
      // What is not told is as good as undamaged, or the last group's loss, which a crash could be as well.
      const bool is_last = opened.value()->recovery().groups + 1 >= groups_in(image);
      if (!good || (!(found == promised.named()) && !is_last)) fail("D4: damage is taken for a crash");
    }
  }
  static uint64_t groups_in(const Image& image) {
    Image copy = image;
    copy.pending.clear();
    CrashDevice device(copy);
    auto opened = Store::open(device, kCluster);
    return opened.is_ok() ? opened.value()->recovery().groups : 0;
  }

  const World world_;
  Expected expected_;
  std::string failure_, script_;
  size_t recoveries_ = 0, scripts_ = 0;
};

const std::vector<World> kGate = {
    {.name = "all changes"},
    {.name = "torn writes", .length = 3, .partial = Partial::kTorn},
    {.name = "garbled writes", .length = 2, .partial = Partial::kGarbled},
    {.name = "owners", .partial = Partial::kGarbled, .owners = true},
    {.name = "crashes in recovery and after it", .length = 3, .alphabet = "pCmM", .twice = true},
    {.name = "at the journal's end", .length = 4, .alphabet = "pqC", .begin = 7},
    {.name = "at the journal's end, twice", .length = 3, .alphabet = "pCM", .twice = true, .begin = 6},
    {.name = "changes while a group is written", .length = 6, .alphabet = "pbe"},
    {.name = "all changes while a group is written", .length = 4, .alphabet = "pfmMbe"},
    {.name = "damage", .length = 4, .alphabet = "pC", .damage = true, .begin = 3},
};
const std::vector<World> kDeep = {
    {.name = "all changes, longer", .length = 6},
    {.name = "torn writes, longer", .length = 5, .partial = Partial::kTorn},
    {.name = "garbled writes, longer", .length = 4, .partial = Partial::kGarbled},
    {.name = "crashes in recovery and after it, all changes", .length = 4, .twice = true},
};
constexpr model::Mutation kMutations[] = {
    {"write-over-the-newest-checkpoint", "all changes"},
    {"promise-before-the-journal-is-flushed", "all changes"},
    {"a-slot-is-free-before-the-promise", "all changes"},
    {"the-slots-of-the-next-group-are-free", "changes while a group is written"},
    {"journal-before-the-pages-are-flushed", "all changes"},
    {"go-round-over-what-is-needed", "at the journal's end"},
    {"a-checkpoint-of-two", "crashes in recovery and after it"},
    {"a-part-of-a-group-counts", "all changes"},
    {"damage-is-an-end", "damage"},
    {"go-on-at-the-hole", "crashes in recovery and after it"},
    {"no-checkpoint-after-recovery", "crashes in recovery and after it"},
    {"write-over-the-superblock-that-counts", "owners"},
    {"both-superblocks-at-once", "owners"},
};

}  // namespace
}  // namespace ocm::memory::nvme

int main(int argc, char** argv) {
  using namespace ocm::memory::nvme;
  return ocm::model::run<Checker, World>(argc, argv, kGate, kDeep, kMutations, 20'000'000);
}
