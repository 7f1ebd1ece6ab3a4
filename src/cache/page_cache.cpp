#include "cache/page_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "cache/turn.h"

namespace ocm::cache {

namespace {

using What = Parcel::What;

NodeNumber home_of(const PageName& name) { return name.extent.address.partition(); }
uint32_t pages_of(uint64_t bytes, uint64_t page_bytes) {
  return static_cast<uint32_t>((bytes + page_bytes - 1) / page_bytes);
}

/// An access of a program, of which each page is one part.
struct Whole {
  Whole(Staged::Done end, size_t count) : done(std::move(end)), left(count) {}
  const Staged::Done done;
  size_t left;  // under the cache's lock
  Code code = Code::kOk;
};

}  // namespace

class PageCache::HolderSide final : public Holder::Out {
 public:
  explicit HolderSide(PageCache& cache) : cache_(cache) {}
  void post(const PageName& name, const Message& message, PageBytes bytes) override {
    Parcel parcel;
    parcel.what = What::kMessage;
    parcel.name = name;
    parcel.message = message;
    parcel.message.from = cache_.options_.self;
    parcel.bytes = std::move(bytes);
    const bool to_home = message.to == kHome;
    cache_.post(to_home ? home_of(name) : message.to, to_home ? Channel::kToHome : Channel::kToPeer,
                std::move(parcel));
  }
  void taken(NodeNumber sender, const PageName& name, uint64_t request) override {
    if (sender == kHome) return;  // it keeps nothing
    Parcel parcel;
    parcel.what = What::kTaken;
    parcel.name = name;
    parcel.message.request = request;
    cache_.post(sender, Channel::kToPeer, std::move(parcel));
  }
  void fault(NodeNumber sender, const PageName& name) override {
    ++cache_.faults_;
    if (sender == kHome) cache_.faulty_homes_.insert(home_of(name));
  }
  uint64_t fresh() override { return cache_.fresh(); }
  Term term(NodeNumber home) override { return cache_.term(home); }
  uint32_t probed(NodeNumber home) override {
    const auto it = cache_.homes_.find(home);
    return it == cache_.homes_.end() ? 0 : it->second.probed;
  }
  void finish(std::function<void(Code)> done, Code code) override { done(code); }
  void let_go(std::shared_ptr<Shadow> shadow) override {
    cache_.leaving_.push_back([shadow = std::move(shadow)]() mutable { shadow.reset(); });
  }

 private:
  PageCache& cache_;
};

class PageCache::HomeSide final : public PageHome::Out {
 public:
  explicit HomeSide(PageCache& cache) : cache_(cache) {}
  void post(NodeNumber to, const PageName& name, const Message& message, PageBytes bytes) override {
    Parcel parcel;
    parcel.what = What::kMessage;
    parcel.name = name;
    parcel.message = message;
    parcel.message.from = kHome;
    parcel.bytes = std::move(bytes);
    cache_.post(to, Channel::kToHolder, std::move(parcel));
  }
  void taken(NodeNumber sender, const PageName& name, uint64_t request) override {
    Parcel parcel;
    parcel.what = What::kTaken;
    parcel.name = name;
    parcel.message.request = request;
    cache_.post(sender, Channel::kToHolder, std::move(parcel));
  }
  void fault(NodeNumber sender, const PageName&) override { cache_.condemn(sender); }
  uint64_t fresh() override { return cache_.fresh(); }
  void read(const PageName& name) override { cache_.read_storage(name); }
  void write(const PageName& name, PageBytes bytes) override { cache_.write_storage(name, std::move(bytes)); }
  void revoke(NodeNumber to, const ExtentId& extent) override {
    Parcel parcel;
    parcel.what = What::kRevoke;
    parcel.name.extent = extent;
    cache_.post(to, Channel::kToHolder, std::move(parcel));
  }

 private:
  PageCache& cache_;
};

PageCache::PageCache(Ports& ports, const PageCacheOptions& options)
    : ports_(ports),
      options_(options),
      holder_side_(std::make_unique<HolderSide>(*this)),
      home_side_(std::make_unique<HomeSide>(*this)),
      page_home_(*home_side_, options.home),
      holder_(*holder_side_, options.page_bytes, options.frames) {
  OCM_ASSERT(options.self < kHome && options.page_bytes % 4096 == 0);
  holder_.give_up_after(options.give_up_ns);
  holder_.late_for(4 * options.term_ns);  // both ways, and couriers give up after a term at most
}

PageCache::~PageCache() {
  {
    Turn turn(*this);
    holder_.give_up_shadows(turn.now_ns);
  }
  movers_->end();
  std::unique_lock lock(mutex_);
  nothing_is_under_way_.wait(lock, [&] { return under_way_ == 0; });
}

void PageCache::one_less() {
  const std::lock_guard lock(mutex_);
  OCM_ASSERT(under_way_ > 0);
  if (--under_way_ == 0) nothing_is_under_way_.notify_all();
}

uint64_t PageCache::fresh() {
  for (;;) {
    const uint64_t number = ports_.random();
    if (number != 0) return number;
  }
}

// ---- at the home

void PageCache::add(const ExtentId& extent, uint64_t bytes, std::shared_ptr<Staged> storage,
                    const DirectoryPolicy& policy) {
  OCM_ASSERT(extent.address.partition() == options_.self && bytes != 0 && storage != nullptr);
  Turn turn(*this);
  extents_[extent] = {bytes, std::move(storage)};
  DirectoryPolicy its = policy;
  if (!options_.cooperates) its = {.storage_supplies = true, .supplier = options_.self};
  page_home_.add(extent, pages_of(bytes, options_.page_bytes), its);
}

void PageCache::remove(const ExtentId& extent) {
  Turn turn(*this);
  page_home_.remove(extent);
  auto it = extents_.extract(extent);
  // It may end with this, and so does what it tells then, which is not to find the lock taken.
  if (it) leaving_.push_back([storage = std::move(it.mapped().storage)] {});
}

Status PageCache::allow(const ExtentId& extent, NodeNumber node, bool writes) {
  Turn turn(*this);
  return page_home_.attach(extent, node, writes);
}

void PageCache::forbid(const ExtentId& extent, NodeNumber node) {
  Turn turn(*this);
  page_home_.detach(extent, node);
}

void PageCache::read_storage(const PageName& name) {
  const auto it = extents_.find(name.extent);
  OCM_ASSERT(it != extents_.end());
  const uint64_t offset = uint64_t{name.page} * options_.page_bytes;
  const uint64_t length = std::min(options_.page_bytes, it->second.bytes - offset);
  ++under_way_;
  leaving_.push_back([this, name, storage = it->second.storage, offset, length] {
    const auto bytes = std::make_shared_for_overwrite<std::byte[]>(options_.page_bytes);
    std::memset(bytes.get() + length, 0, options_.page_bytes - length);
    storage->read(offset, {bytes.get(), length}, [this, name, bytes, storage](const Status& status) mutable {
      storage.reset();  // while the cache is there
      {
        Turn turn(*this);
        page_home_.was_read(name, status.code(), status.is_ok() ? bytes : nullptr, turn.now_ns);
      }
      one_less();
    });
  });
}

void PageCache::write_storage(const PageName& name, PageBytes bytes) {
  const auto it = extents_.find(name.extent);
  OCM_ASSERT(it != extents_.end());
  const uint64_t offset = uint64_t{name.page} * options_.page_bytes;
  const uint64_t length = std::min(options_.page_bytes, it->second.bytes - offset);
  ++under_way_;
  leaving_.push_back([this, name, storage = it->second.storage, offset, length, bytes = std::move(bytes)] {
    storage->write(offset, {bytes.get(), length}, [this, name, bytes, storage](const Status& status) mutable {
      storage.reset();  // while the cache is there
      {
        Turn turn(*this);
        page_home_.was_written(name, status.code(), turn.now_ns);
      }
      one_less();
    });
  });
}

// ---- where programs use it

void PageCache::attach(const ExtentId& extent, uint64_t bytes) {
  OCM_ASSERT(bytes != 0);
  Turn turn(*this);
  Attached& it = attached_[extent];
  OCM_ASSERT(it.count == 0 || it.bytes == bytes);
  it.bytes = bytes;
  if (++it.count > 1) return;
  const NodeNumber home = extent.address.partition();
  const bool was_used = holder_.attached_of(home) != 0;
  holder_.attach(extent, pages_of(bytes, options_.page_bytes));
  if (home == options_.self || was_used) return;
  // Nobody kept its term meanwhile: accesses wait for the next one, unless this one is good for a while.
  HomeOf& its = homes_.try_emplace(home, options_.term_ns).first->second;
  if (its.term.number() != 0 && its.term.say_ns() <= turn.now_ns) end_term(home, its, turn.now_ns);
  if (its.term.number() != 0) return;
  await_term(home, its, turn.now_ns);
}

void PageCache::detach(const ExtentId& extent) {
  Turn turn(*this);
  const auto it = attached_.find(extent);
  OCM_ASSERT(it != attached_.end());
  if (--it->second.count != 0) return;
  attached_.erase(it);
  holder_.detach(extent, turn.now_ns);
}

bool PageCache::may_attach(const ExtentId& extent, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto it = attached_.find(extent);
  if (it != attached_.end()) return it->second.bytes == bytes;
  return holder_.may_attach(extent, pages_of(bytes, options_.page_bytes));
}

size_t PageCache::pages_of_others() {
  const std::lock_guard lock(mutex_);
  return holder_.pages_but_of(options_.self);
}

void PageCache::read(const ExtentId& extent, uint64_t offset, std::span<std::byte> into, Staged::Done done) {
  PageAccess access;
  access.kind = PageAccess::Kind::kRead;
  access.into = into;
  this->access(extent, offset, into.size(), access, std::move(done));
}

void PageCache::write(const ExtentId& extent, uint64_t offset, std::span<const std::byte> from,
                      Staged::Done done) {
  PageAccess access;
  access.kind = PageAccess::Kind::kWrite;
  access.from = from;
  this->access(extent, offset, from.size(), access, std::move(done));
}

void PageCache::modify(const ExtentId& extent, uint64_t offset, std::function<void(std::byte*)> change,
                       Staged::Done done) {
  OCM_ASSERT(offset % 8 == 0);
  PageAccess access;
  access.kind = PageAccess::Kind::kModify;
  access.change = std::move(change);
  this->access(extent, offset, 8, access, std::move(done));
}

/// Cut at the pages' ends.
void PageCache::access(const ExtentId& extent, uint64_t offset, uint64_t bytes, const PageAccess& all,
                       Staged::Done done) {
  Turn turn(*this);
  const auto attached = attached_.find(extent);
  OCM_ASSERT(attached != attached_.end() && offset <= attached->second.bytes &&
             bytes <= attached->second.bytes - offset);
  if (bytes == 0 || attached->second.is_over) {
    const Code code = bytes == 0 ? Code::kOk : Code::kRevoked;
    leaving_.push_back([done = std::move(done), code] { done(Status(code)); });
    return;
  }
  const uint64_t length = options_.page_bytes;
  const uint64_t first = offset / length, last = (offset + bytes - 1) / length;
  const auto whole = std::make_shared<Whole>(std::move(done), last - first + 1);
  await_term(extent, turn.now_ns);
  for (uint64_t page = first; page <= last; ++page) {
    const uint64_t from = std::max(offset, page * length), to = std::min(offset + bytes, (page + 1) * length);
    PageAccess part = all;
    part.offset = static_cast<uint32_t>(from - page * length);
    if (!all.into.empty()) part.into = all.into.subspan(from - offset, to - from);
    if (!all.from.empty()) part.from = all.from.subspan(from - offset, to - from);
    part.done = [this, whole](Code code) {
      if (code != Code::kOk && whole->code == Code::kOk) whole->code = code;
      if (--whole->left == 0) leaving_.push_back([whole] { whole->done(Status(whole->code)); });
    };
    holder_.access({extent, static_cast<uint32_t>(page)}, std::move(part), turn.now_ns);
  }
}

// ---- where programs map it

Result<std::shared_ptr<Shadow>> PageCache::shadow(const ExtentId& extent) {
  std::shared_ptr<Shadow> fresh;
  uint64_t number = 0;
  for (;;) {
    uint64_t bytes = 0;
    {
      Turn turn(*this);
      const auto it = attached_.find(extent);
      if (it == attached_.end() || it->second.is_over || !holder_.is_attached(extent))
        return Status(Code::kRevoked, "the extent is not cached here any more");
      if (auto known = holder_.shadow_of(extent); known != nullptr) return known;
      if (fresh != nullptr) {
        holder_.show(extent, fresh, number);
        return fresh;
      }
      number = ++shadows_;
      bytes = it->second.bytes;
    }
    OCM_TRY_ASSIGN(fresh, Shadow::make(options_.page_bytes, pages_of(bytes, options_.page_bytes),
                                       [this, movers = movers_, extent, number](uint32_t page) {
                                         const std::shared_lock lives(movers->mutex);
                                         if (movers->ended) return;
                                         Turn turn(*this);
                                         holder_.moved_out({extent, page}, number, turn.now_ns);
                                       }));
  }
}

void PageCache::fault(const ExtentId& extent, uint32_t page, bool stores,
                      const std::shared_ptr<Viewer>& viewer, bool may_store) {
  OCM_ASSERT(viewer != nullptr);
  Turn turn(*this);
  const auto it = attached_.find(extent);
  if (it == attached_.end() || it->second.is_over || !holder_.is_viewer(extent, viewer.get()))
    return viewer->refuse(page, Code::kRevoked);
  OCM_ASSERT(page < pages_of(it->second.bytes, options_.page_bytes));
  if (stores && !may_store) return viewer->refuse(page, Code::kPermission);
  if (holder_.is_waiting({extent, page}, viewer.get(), stores)) return;  // its threads go on together
  PageAccess access;
  access.kind = stores ? PageAccess::Kind::kStore : PageAccess::Kind::kLoad;
  access.viewer = viewer;
  access.may_store = may_store;
  access.done = [viewer, page](Code code) {
    if (code != Code::kOk) viewer->refuse(page, code);
  };
  await_term(extent, turn.now_ns);
  holder_.access({extent, page}, std::move(access), turn.now_ns);
}

bool PageCache::add_viewer(const ExtentId& extent, const Shadow* shadow, std::shared_ptr<Viewer> viewer) {
  Turn turn(*this);
  return holder_.add_viewer(extent, shadow, std::move(viewer));
}

void PageCache::is_protected(const ExtentId& extent, uint32_t page, const Viewer* viewer) {
  Turn turn(*this);
  holder_.is_protected({extent, page}, viewer, turn.now_ns);
}

void PageCache::entered(const ExtentId& extent, uint32_t page, const Viewer* viewer) {
  Turn turn(*this);
  holder_.entered({extent, page}, viewer, turn.now_ns);
}

void PageCache::viewer_ended(const ExtentId& extent, const Viewer* viewer) {
  Turn turn(*this);
  holder_.viewer_ended(extent, viewer, turn.now_ns);
}

// ---- what goes to whom

void PageCache::post(NodeNumber to, Channel channel, Parcel parcel) {
  if (to == options_.self) {
    local_.push_back({channel, std::move(parcel)});
    return;
  }
  switch (channel) {
    case Channel::kToHome: {
      const auto home = homes_.find(to);
      if (home != homes_.end() && home->second.link.has_value()) home->second.link->post(std::move(parcel));
      return;
    }
    case Channel::kToHolder: {
      const auto guest = guests_.find(to);
      if (guest != guests_.end() && guest->second.link.has_value())
        guest->second.link->post(std::move(parcel));
      return;
    }
    case Channel::kToPeer: {
      PeerOut& peer = peers_out_[to];
      if (!peer.link.has_value()) peer.link.emplace(++peer.number, options_.courier);
      peer.link->post(std::move(parcel));
      return;
    }
    case Channel::kFromPeer: break;
  }
  OCM_ASSERT(false);
}

/// What this node says to itself, and what comes of it.
void PageCache::settle(uint64_t now_ns) {
  while (!local_.empty() || !faulty_homes_.empty()) {
    std::vector<Local> now;
    now.swap(local_);
    for (Local& one : now) {
      Parcel& parcel = one.parcel;
      switch (parcel.what) {
        case What::kMessage:
          if (one.term != 0) {
            const auto guest = guests_.find(parcel.message.from);
            if (guest == guests_.end() || guest->second.term.number() != one.term) break;  // it asks anew
          }
          if (one.channel == Channel::kToHome) {
            page_home_.receive(parcel.name, parcel.message, std::move(parcel.bytes), now_ns);
          } else {
            holder_.receive(parcel.name, parcel.message, parcel.bytes, now_ns);
          }
          break;
        case What::kTaken: holder_.taken(parcel.name, kHome, parcel.message.request, now_ns); break;
        case What::kRevoke: holder_.revoke(parcel.name.extent, now_ns); break;
        default: OCM_ASSERT(false);
      }
    }
    for (const NodeNumber node : std::exchange(faulty_homes_, {})) {
      const auto home = homes_.find(node);
      if (home != homes_.end() && home->second.term.number() != 0) end_term(node, home->second, now_ns);
    }
  }
}

void PageCache::send(NodeNumber to, const Packet& packet) {
  ++packets_sent_;
  sends_ = true;
  leaving_.push_back([this, to, header = write_packet(packet), bytes = packet.parcel.bytes] {
    ports_.send(to, header, bytes);
  });
}

void PageCache::flush(uint64_t now_ns) {
  const auto leave = [&](NodeNumber to, Channel channel, Link& link) {
    link.leave(now_ns, [&](const CourierHeader& header, const Parcel& parcel) {
      Packet packet;
      packet.channel = channel;
      packet.courier = header;
      packet.parcel = parcel;
      send(to, packet);
    });
  };
  for (auto& [node, home] : homes_) {
    if (home.link.has_value()) leave(node, Channel::kToHome, *home.link);
  }
  for (auto& [node, guest] : guests_) {
    if (guest.link.has_value() && !guest.condemned) leave(node, Channel::kToHolder, *guest.link);
  }
  for (auto& [node, peer] : peers_out_) {
    if (peer.link.has_value()) leave(node, Channel::kToPeer, *peer.link);
  }
  for (auto& [node, link] : peers_in_) leave(node, Channel::kFromPeer, link);
}

// ---- terms

Holder::Out::Term PageCache::term(NodeNumber node) {
  using Term = Holder::Out::Term;
  if (node == options_.self) return Term::kRuns;
  const auto it = homes_.find(node);
  if (it == homes_.end()) return Term::kNone;
  if (it->second.term.number() != 0) return it->second.ready ? Term::kRuns : Term::kBegins;
  return it->second.begins_until_ns != 0 ? Term::kBegins : Term::kNone;
}

/// A home that was silent for a moment may be back, or was not asked for long: who comes now waits as long as a new handle
/// does, and not until it is asked the next time.
void PageCache::await_term(const ExtentId& extent, uint64_t now_ns) {
  const auto it = homes_.find(extent.address.partition());
  if (it != homes_.end() && it->second.term.number() == 0 && it->second.begins_until_ns == 0)
    await_term(it->first, it->second, now_ns);
}

void PageCache::await_term(NodeNumber node, HomeOf& home, uint64_t now_ns) {
  home.begins_until_ns = now_ns + options_.term_ns;
  home.ask_ns = home.ask_wait_ns = 0;
  keep_term(node, home, now_ns);
}

/// T1, T2: before anything else.
void PageCache::check_terms(uint64_t now_ns) {
  for (auto& [node, home] : homes_) {
    if (home.term.number() != 0 && !home.term.runs(now_ns)) end_term(node, home, now_ns);
    if (home.link.has_value() && home.link->is_over(now_ns)) end_term(node, home, now_ns);
    if (home.begins_until_ns != 0 && home.begins_until_ns <= now_ns) {
      home.begins_until_ns = 0;
      if (home.term.number() == 0) holder_.term_ready(node, now_ns);  // who waited is told that there is none
    }
    if (home.grace_ns != 0 && home.grace_ns <= now_ns) {
      home.grace_ns = 0;
      home.forgot = holder_.grace_over(node, now_ns) || home.forgot;
    }
    keep_term(node, home, now_ns);
  }
  for (auto& [node, guest] : guests_) {
    if (guest.link.has_value() && guest.link->is_over(now_ns)) guest.condemned = true;
    if (guest.link.has_value() && !guest.term.runs(now_ns)) end_guest(node, guest, !guest.is_over, now_ns);
  }
  std::erase_if(guests_, [](const auto& one) { return one.second.is_over && !one.second.link.has_value(); });
  for (auto& [node, peer] : peers_out_) {
    if (peer.link.has_value() && peer.link->is_over(now_ns)) peer.link.reset();
  }
}

void PageCache::end_term(NodeNumber node, HomeOf& home, uint64_t now_ns) {
  ++terms_ended_;
  home.term.end();
  home.link.reset();
  home.ready = false;
  home.probed = 0;
  home.ask_ns = now_ns;
  home.ask_wait_ns = 0;
  if (holder_.attached_of(node) != 0) home.begins_until_ns = now_ns + options_.term_ns;  // H9
  holder_.term_ended(node, now_ns);
  if (holder_.has_frozen(node) && home.grace_ns == 0) home.grace_ns = now_ns + options_.home.grace_ns;
}

/// Asks for a term where there is none, and says something where it is to be renewed.
void PageCache::keep_term(NodeNumber node, HomeOf& home, uint64_t now_ns) {
  if (holder_.attached_of(node) == 0 && home.grace_ns == 0) return;
  if (home.term.number() == 0) {
    if (home.ask_ns > now_ns) return;
    home.ask_wait_ns =
        std::clamp(2 * home.ask_wait_ns, options_.courier.again_ns, options_.courier.again_most_ns);
    home.ask_ns = now_ns + home.ask_wait_ns;
    Packet packet;
    packet.kind = Packet::Kind::kAskTerm;
    packet.channel = Channel::kToHome;
    packet.asked_ns = now_ns;
    packet.courier.term = home.newest;
    send(node, packet);
  } else if (home.term.say_ns() <= now_ns && home.beat_ns <= now_ns) {
    home.beat_ns = now_ns + options_.term_ns / 8;
    Parcel parcel;
    parcel.what = What::kBeat;
    home.link->post(std::move(parcel));
  }
}

void PageCache::end_guest(NodeNumber node, Guest& guest, bool may_return, uint64_t now_ns) {
  guest.term.end();
  guest.link.reset();
  guest.condemned = guest.is_told = guest.forgot = guest.ready = false;
  page_home_.term_ended(node, may_return, now_ns);
}

void PageCache::condemn(NodeNumber node) {
  ++faults_;
  const auto guest = guests_.find(node);
  if (guest != guests_.end()) guest->second.condemned = true;
}

void PageCache::run_is_over(NodeNumber node) {
  OCM_ASSERT(node != options_.self);
  Turn turn(*this);
  const auto guest = guests_.find(node);
  if (guest != guests_.end()) {  // K3
    guest->second.is_over = guest->second.condemned = true;
    if (!guest->second.link.has_value()) end_guest(node, guest->second, false, turn.now_ns);
  }
  const auto home = homes_.find(node);
  if (home != homes_.end()) {
    if (home->second.term.number() != 0) end_term(node, home->second, turn.now_ns);
    (void)holder_.grace_over(node, turn.now_ns);
    homes_.erase(home);
    holder_.term_ready(node, turn.now_ns);  // there is none: who waits is told
  }
  for (auto& [extent, attached] : attached_)
    attached.is_over = attached.is_over || extent.address.partition() == node;
  peers_out_.erase(node);
  peers_in_.erase(node);
}

// ---- time

uint64_t PageCache::next_due_ns(uint64_t now_ns) {
  uint64_t due = std::min(holder_.due_ns(now_ns), page_home_.due_ns());
  const auto at = [&](uint64_t ns) {
    if (ns != 0) due = std::min(due, ns);
  };
  for (const auto& [node, home] : homes_) {
    const bool is_used = holder_.attached_of(node) != 0 || home.grace_ns != 0;
    if (home.term.number() != 0) {
      at(home.term.until_ns());
      if (is_used) at(std::max(home.term.say_ns(), home.beat_ns));
    } else if (is_used) {
      at(home.ask_ns);
    }
    at(home.begins_until_ns), at(home.grace_ns);
    if (home.link.has_value()) due = std::min(due, home.link->due_ns());
  }
  for (const auto& [node, guest] : guests_) {
    if (!guest.link.has_value()) continue;
    at(guest.term.until_ns());
    if (!guest.condemned) due = std::min(due, guest.link->due_ns());
  }
  for (const auto& [node, peer] : peers_out_) {
    if (peer.link.has_value()) due = std::min(due, peer.link->due_ns());
  }
  for (const auto& [node, link] : peers_in_) due = std::min(due, link.due_ns());
  return due;
}

uint64_t PageCache::due_ns() {
  const std::lock_guard lock(mutex_);
  return told_due_ns_;
}

void PageCache::tick() {
  Turn turn(*this);
  holder_.tick(turn.now_ns);
  page_home_.tick(turn.now_ns);
}

void PageCache::resize(uint32_t frames) {
  Turn turn(*this);
  holder_.resize(frames, turn.now_ns);
}

PageCache::Statistics PageCache::statistics() {
  Turn turn(*this);
  Statistics out;
  out.holder = holder_.statistics();
  out.home = page_home_.statistics();
  out.page_bytes = options_.page_bytes;
  out.frames = holder_.frames(turn.now_ns);
  out.used = holder_.used();
  out.dirty = holder_.dirty();
  out.directory_pages = page_home_.pages();
  out.terms_ended = terms_ended_, out.faults = faults_;
  out.packets_sent = packets_sent_, out.packets_refused = packets_refused_;
  return out;
}

bool PageCache::is_valid() {
  const std::lock_guard lock(mutex_);
  return holder_.is_valid() && page_home_.is_valid() && local_.empty() && leaving_.empty();
}

}  // namespace ocm::cache
