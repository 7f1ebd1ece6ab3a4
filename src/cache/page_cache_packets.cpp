// What packets of other nodes' caches mean to this one: terms that are asked for and given, and messages of the protocol.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "cache/page_cache.h"
#include "cache/turn.h"

namespace ocm::cache {

namespace {

using What = Parcel::What;

NodeNumber home_of_page(const PageName& name) { return name.extent.address.partition(); }

}  // namespace

bool PageCache::receive(NodeNumber from, std::span<const std::byte> header, PageBytes bytes) {
  bool has_bytes = false;
  std::optional<Packet> packet = read_packet(header, has_bytes);
  Turn turn(*this);
  if (!packet.has_value() || has_bytes != (bytes != nullptr) || from >= kHome || from == options_.self) {
    ++packets_refused_;
    return false;
  }
  packet->parcel.bytes = std::move(bytes);
  bool good = false;
  switch (packet->channel) {
    case Channel::kToHome: good = receive_at_home(from, *packet, turn.now_ns); break;
    case Channel::kToHolder: good = receive_at_holder(from, *packet, turn.now_ns); break;
    case Channel::kToPeer:
    case Channel::kFromPeer: good = receive_of_peer(from, *packet, turn.now_ns); break;
  }
  if (!good) ++packets_refused_;
  return good;
}

void PageCache::give_term(NodeNumber from, const Packet& packet, uint64_t now_ns) {
  const auto [known, is_new] = guests_.try_emplace(from, options_.term_ns);
  Guest& guest = known->second;
  const uint64_t newest = packet.courier.term;
  // It was taken for over, and is not.
  if (is_new) guest.term.follow(newest);
  if (guest.condemned || newest > guest.term.number()) return;  // K2
  if (guest.term.runs(now_ns)) {
    if (newest < guest.term.number()) {  // what was given did not come
      (void)guest.term.heard(guest.term.number(), now_ns);
    } else {
      end_guest(from, guest, true, now_ns);  // it says so
    }
  }
  if (!guest.term.runs(now_ns)) guest.link.emplace(guest.term.give(now_ns), options_.courier);
  Packet out;
  out.kind = Packet::Kind::kGivenTerm;
  out.channel = Channel::kToHolder;
  out.asked_ns = packet.asked_ns;
  out.courier.term = guest.term.number();
  send(from, out);
}

bool PageCache::receive_at_home(NodeNumber from, Packet& packet, uint64_t now_ns) {
  if (packet.kind == Packet::Kind::kAskTerm) {
    give_term(from, packet, now_ns);
    return true;
  }
  if (packet.kind != Packet::Kind::kCourier) return false;
  const auto it = guests_.find(from);
  if (it == guests_.end() || !it->second.link.has_value() || it->second.condemned) return true;
  Guest& guest = it->second;
  if (!guest.term.heard(packet.courier.term, now_ns)) return true;
  switch (guest.link->receive(packet.courier, now_ns)) {
    case Courier::Outcome::kNew: break;
    case Courier::Outcome::kFault: condemn(from); return false;
    default: return true;
  }
  Parcel& parcel = packet.parcel;
  switch (parcel.what) {
    case What::kMessage:
      parcel.message.from = from;
      parcel.message.to = kHome;
      page_home_.receive(parcel.name, parcel.message, std::move(parcel.bytes), now_ns);
      break;
    case What::kReturned:
      guest.is_told = true;
      guest.returns = parcel.count;
      guest.forgot = parcel.forgot;
      break;
    case What::kBeat: return true;
    default: condemn(from); return false;
  }
  check_returns(from, guest, now_ns);
  return true;
}

/// All that it froze is here: of the rest it has nothing.
void PageCache::check_returns(NodeNumber from, Guest& guest, uint64_t now_ns) {
  if (guest.ready || !guest.is_told || page_home_.returns(from) < guest.returns) return;
  guest.ready = true;
  page_home_.returned(from, guest.forgot, now_ns);
  Parcel parcel;
  parcel.what = What::kReady;
  post(from, Channel::kToHolder, std::move(parcel));
}

void PageCache::begin_term(NodeNumber from, HomeOf& home, const Packet& packet, uint64_t now_ns) {
  const uint64_t number = packet.courier.term;
  if (holder_.is_ending(from)) return;  // it is asked for again
  if (home.term.number() != 0 || number <= home.newest || packet.asked_ns > now_ns) return;
  home.term.given(number, packet.asked_ns);
  home.newest = number;
  if (!home.term.runs(now_ns)) {  // it took too long: it is over before it began
    home.term.end();
    return;
  }
  home.link.emplace(number, options_.courier);
  home.probed = 0;
  home.grace_ns = 0;
  Parcel parcel;
  parcel.what = What::kReturned;
  parcel.count = holder_.term_began(from, now_ns);
  parcel.forgot = std::exchange(home.forgot, false);
  home.link->post(std::move(parcel));
}

bool PageCache::receive_at_holder(NodeNumber from, Packet& packet, uint64_t now_ns) {
  const auto it = homes_.find(from);
  if (it == homes_.end()) return true;
  HomeOf& home = it->second;
  if (packet.kind == Packet::Kind::kGivenTerm) {
    begin_term(from, home, packet, now_ns);
    return true;
  }
  if (packet.kind != Packet::Kind::kCourier) return false;
  if (!home.link.has_value()) return true;
  const Courier::Outcome outcome = home.link->receive(packet.courier, now_ns);
  home.term.renewed(home.link->courier().term(), home.link->courier().heard_since_ns());
  if (outcome == Courier::Outcome::kFault) faulty_homes_.insert(from);
  if (outcome != Courier::Outcome::kNew) return outcome != Courier::Outcome::kFault;
  Parcel& parcel = packet.parcel;
  const bool is_its = home_of_page(parcel.name) == from;
  switch (parcel.what) {
    case What::kMessage:
      if (!is_its) break;
      parcel.message.from = kHome;
      parcel.message.to = options_.self;
      if (parcel.message.kind == MessageKind::kProbe || parcel.message.kind == MessageKind::kRecall)
        home.probed = std::max(home.probed, parcel.message.epoch);
      holder_.receive(parcel.name, parcel.message, parcel.bytes, now_ns);
      return true;
    case What::kTaken:
      if (!is_its) break;
      holder_.taken(parcel.name, kHome, parcel.message.request, now_ns);
      return true;
    case What::kRevoke:
      if (!is_its) break;
      holder_.revoke(parcel.name.extent, now_ns);
      return true;
    case What::kReady:
      home.ready = true;
      home.begins_until_ns = 0;
      holder_.term_ready(from, now_ns);
      return true;
    default: break;
  }
  ++faults_;
  faulty_homes_.insert(from);
  return false;
}

bool PageCache::receive_of_peer(NodeNumber from, Packet& packet, uint64_t now_ns) {
  if (packet.kind != Packet::Kind::kCourier) return false;
  if (packet.channel == Channel::kFromPeer) {
    const auto peer = peers_out_.find(from);
    if (peer == peers_out_.end() || !peer->second.link.has_value()) return true;
    return packet.courier.sequence == 0 &&
           peer->second.link->receive(packet.courier, now_ns) != Courier::Outcome::kFault;
  }
  const auto known = peers_in_.find(from);
  if (known == peers_in_.end() || known->second.courier().term() < packet.courier.term)
    peers_in_.insert_or_assign(from, Link(packet.courier.term, options_.courier));
  switch (peers_in_.find(from)->second.receive(packet.courier, now_ns)) {
    case Courier::Outcome::kNew: break;
    case Courier::Outcome::kFault: ++faults_; return false;
    default: return true;
  }
  Parcel& parcel = packet.parcel;
  if (parcel.what == What::kTaken) {
    holder_.taken(parcel.name, from, parcel.message.request, now_ns);
    return true;
  }
  if (parcel.what != What::kMessage) return false;
  parcel.message.from = from;
  parcel.message.to = options_.self;
  holder_.receive(parcel.name, parcel.message, parcel.bytes, now_ns);
  return true;
}

}  // namespace ocm::cache
